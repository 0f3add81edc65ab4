package submit

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// strangeTold says what about that part of a summary that the journal alone tells no
// journal gives, "" if nothing: no text is to stand where times, counts and fixed
// words do. events are those of the journal.
func strangeTold(told rundir.Told, m plan.Plan, rows []PublicResult, events int64) string {
	if why := strangeTimes(told, events); why != "" {
		return why
	}
	passed, allowed := 0, max(m.Voting.Attempts, 1)+max(m.Retry.AttemptsPerTask, 1)+len(told.Interruptions)
	for _, r := range rows {
		if v := r.Voting; v != nil && v.Passed != nil && *v.Passed > 0 {
			passed++
		}
		if r.Attempts > allowed { // what a process leaves open when it ends is one a task
			return fmt.Sprintf("has too few interruptions for %d attempts at task %q", r.Attempts, r.TaskID)
		}
	}
	j := told.Judge
	counts := []int64{int64(j.Cached), int64(j.Unreadable), int64(j.Errors), int64(j.TooLong), int64(j.Withheld), j.TokensIn, j.TokensOut,
		int64(told.PassedFirst), int64(told.RetriedCalls), int64(told.IntegrityEvents)}
	if j.CostMicroUSD != nil {
		counts = append(counts, *j.CostMicroUSD)
	}
	if j.Asked != j.Judged+j.Unreadable+j.Errors || j.Cached > j.Judged || told.PassedFirst > passed || slices.Min(counts) < 0 || !countsJudged(j, m, rows) {
		return "miscounts what the journal tells"
	}
	if told.Preflight != nil && told.Preflight.Contradicts(m) {
		return "has a preflight that the plan does not allow"
	}
	if j.Battery != nil {
		return strangeBattery(*j.Battery, m.Judge)
	}
	return ""
}

// countsJudged reports whether a summary counts as many answers by what came of the
// judge as the records do. Where the plan votes, those that do not count were judged,
// too, if they are wrong.
func countsJudged(j rundir.JudgeSummary, m plan.Plan, rows []PublicResult) bool {
	by, wrong := map[string]int{}, 0
	for _, r := range rows {
		by[r.ScoringPath]++
		if v := r.Voting; v != nil && v.Passed != nil {
			wrong += v.Answers - *v.Passed
		}
	}
	votes := m.Voting.Rule == plan.VoteMajority
	for path, n := range map[string]int{judge.PathJudge: j.Judged, judge.PathUnreadable: j.Unreadable, judge.PathError: j.Errors,
		judge.PathWithheld: j.Withheld, judge.PathTooLong: j.TooLong} {
		if by[path] > n || by[path] < n && !votes {
			return false
		}
	}
	return !votes || j.ToJudge() <= wrong
}

// strangeTimes is strangeTold for times, which do not go back in a journal, and for
// places where the run went on, each a line of it.
func strangeTimes(told rundir.Told, events int64) string {
	times, before := []string{told.Started}, int64(0)
	for _, i := range told.Interruptions {
		if i.Events <= before || i.Events >= events {
			return "has an interruption where the journal has no event"
		}
		if i.Stopped != "" && i.Stopped != trajectory.StoppedByEndpoint {
			return "has a run stopped by what stops none"
		}
		times, before = append(times, i.Resumed), i.Events
	}
	times = append(times, told.Completed)
	for _, s := range times {
		if at, err := time.Parse(trajectory.TimeFormat, s); err != nil || at.Format(trajectory.TimeFormat) != s {
			return "has a time that is none"
		}
	}
	if !slices.IsSorted(times) { // of one form and zone, so that their order is that of the texts
		return "has times that go back"
	}
	return ""
}

// anItem is how items of a null battery are named, those of other versions too.
const anItem = `^[a-z]{1,12}(-[a-z]{1,12}){0,2}$`

// strangeBattery is strangeTold for how the judge of a plan stood the null battery.
func strangeBattery(b rundir.BatterySummary, plan *plan.JudgePlan) string {
	if plan == nil || plan.Battery == "" {
		return "tells of a null battery, and the plan has none"
	}
	known, form := map[string]bool{}, regexp.MustCompile(anItem)
	for _, n := range judge.Battery() {
		known[n.Name] = true
	}
	strange := func(name string) bool {
		return !known[name] && (plan.Battery == judge.BatteryDigest() || !form.MatchString(name))
	}
	named := slices.Concat(b.Paid, b.Refused, b.Unreadable)
	slices.Sort(named)
	counts := []int64{int64(b.Put - len(named)), b.TokensIn, b.TokensOut}
	if b.CostMicroUSD != nil {
		counts = append(counts, *b.CostMicroUSD)
	}
	switch {
	case slices.ContainsFunc(named, strange):
		return "names an item that the null battery does not have"
	case b.Problem != "" && !slices.Contains(append(judge.Problems(), prompt.RunMoneySpent), b.Problem):
		return "says in words of its own why the null battery was cut short"
	case len(slices.Compact(named)) != len(b.Paid)+len(b.Refused)+len(b.Unreadable) || slices.Min(counts) < 0:
		return "miscounts the items of the null battery, or what they took"
	case b.Withstood && (len(b.Paid)+len(b.Unreadable) > 0 || b.Problem != ""):
		return "draws another conclusion from the null battery than there is"
	}
	return ""
}
