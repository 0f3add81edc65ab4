package runview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/text"
)

// The notes about results that are no measurement of a model.
const (
	RehearsalNote = "built-in tasks and a scripted model; not a GAIA score"
	ReplayNote    = "the answers come from a cassette; no model was asked"
	// ErrorsKey names an [ErrorsNote] where it is shown.
	ErrorsKey = "only errors"
)

// ErrorsNote returns what a score is of if its tasks were chosen because they failed in another run, "" if they were not.
func ErrorsNote(of string) string {
	if of == "" {
		return ""
	}
	return "its tasks are those that failed for infrastructure in run " + view.Line(of) + "; not a score of a split"
}

// Notices name what the results of a run are not.
func Notices(m plan.Plan) string {
	out := ""
	for _, notice := range NoticeLines(m) {
		out += notice + "\n\n"
	}
	return out
}

// NoticeLines are the lines of [Notices].
func NoticeLines(m plan.Plan) (all []string) {
	if m.Rehearsal {
		all = append(all, "rehearsal: "+RehearsalNote)
	}
	if m.Cassette == plan.CassetteReplay {
		all = append(all, "replay: "+ReplayNote)
	}
	if of := m.Dataset.ErrorsOf.RunID; of != "" {
		all = append(all, ErrorsKey+": "+ErrorsNote(of))
	}
	return all
}

// Opening returns the notices about a run, and names its own agent.
func Opening(m plan.Plan) string {
	if m.Agent == nil {
		return Notices(m)
	}
	return Notices(m) + "agent: " + view.Line(Agent(m.Agent)) + "\n\n"
}

// Dataset describes which tasks of which dataset a run has.
func Dataset(m plan.Plan) [][2]string {
	d := m.Dataset
	var rows view.List
	rows.Addf("dataset", "%s, split %s, tasks: %s (%d of %d)", d.Name, d.Split, d.Selection, len(m.Tasks), d.SplitSize)
	if d.Hub != "" {
		rows.Add("revision", d.Revision+" of "+d.Hub)
	}
	if of := d.ErrorsOf; of.RunID != "" {
		rows.Addf(ErrorsKey, "%s; that run planned %d tasks", ErrorsNote(of.RunID), of.Planned)
	}
	rows.AddNonEmpty("counts", d.Mismatch())
	return rows
}

// Summary writes a finished run: accuracy by level, calls and cost, what to do next, and why the run cannot be submitted;
// unsubmittable is "" if no reason is known.
func Summary(w io.Writer, dir string, found *rundir.Run, unsubmittable string) error {
	s, m := found.Summary(), found.Manifest
	out := Notices(m)
	if s.Unrecorded != "" {
		out += "unrecorded: these results are not evidence, and cannot be verified or submitted\n\n"
	}
	if _, err := io.WriteString(w, visible.Text(out+scoreTable(s)+"\n\n")); err != nil {
		return err
	}
	rows := view.List(Dataset(m))
	if m.Agent != nil {
		rows.Add("agent", Agent(m.Agent))
	}
	rows.Add("model", s.Model)
	rows = append(append(rows, Results(m, s)...), Spent(found, s)...)
	if s.Shards != nil {
		rows.Add("shards", s.Shards.String())
	}
	for _, i := range s.Interruptions {
		rows.Add("interruption", Interruption(i))
	}
	if !m.Rehearsal && !m.SubmitIntent {
		rows.Add("submission", NotForSubmission)
	}
	rows.AddNonEmpty("unsubmittable", unsubmittable)
	rows.Add("manifest", found.ManifestSHA256)
	rows.Add("run", dir)
	if s.Unrecorded == "" {
		for i, command := range []string{"show", "view", "audit", "report"} {
			rows.Add([]string{"next", ""}[min(i, 1)], "gaia "+command+" "+view.Quote(dir))
		}
		if slices.ContainsFunc(found.Tasks, func(t *rundir.Task) bool {
			return t.Sealed != nil && t.Sealed.Outcome == trajectory.Errored && t.Counted().Failed().Infrastructure()
		}) {
			rows.Add("", "gaia run --like "+view.Quote(dir)+" --only-errors")
		}
	}
	return view.Rows(w, rows)
}

// Results describe how tasks ended, the vote, what the budget of the run left out, the judge and the preflight.
func Results(m plan.Plan, s rundir.Summary) [][2]string {
	rows := view.List{{"outcomes", Outcomes(s.Outcomes)}}
	if v := s.Voting; v != nil {
		text := fmt.Sprintf("%d attempts a task, %s; the scores are maj@%d, of the answers voted for", v.Attempts, v.Rule, v.Attempts)
		if v.PassAt1 != nil {
			text += fmt.Sprintf(" (official pass@1 %s, pass@%d %s)", view.Percent(v.PassAt1.AccuracyPPM), v.Attempts, view.Percent(v.PassAtK.AccuracyPPM))
		}
		rows.Add("voting", text)
	}
	switch skipped := s.Outcomes.Skipped; {
	case m.Budgets.RunCostMicroUSD == 0 || skipped == 0:
	case skipped == 1:
		rows.Add("budget", runBudget(m.Budgets)+": 1 task was not begun")
	default:
		rows.Addf("budget", "%s: %d tasks were not begun", runBudget(m.Budgets), skipped)
	}
	return append(append(rows, JudgeRows(s.Judge)...), preflightRows(m, s.Preflight)...)
}

// Spent describes what a run did and took: calls, inputs, rules, tokens, cost and time.
func Spent(found *rundir.Run, s rundir.Summary) [][2]string {
	var rows view.List
	rows.Addf("calls", "%d turns, %d tool calls, %d model calls retried", s.Turns, s.ToolCalls, s.RetriedCalls)
	if share := found.Inputs.Share(); share != nil {
		rows.Add("inputs", share.String())
	}
	rows.AddNonEmpty("rules", RulesBroken(found.Fold))
	rows = append(rows, found.ServerNotes()...)
	rows.Addf("tokens", "%d in (%d cached), %d out", s.Tokens.In, s.Tokens.Cached, s.Tokens.Out)
	cost := view.Dollars(s.CostMicroUSD)
	if all := view.Dollars(s.Cost()); all != cost {
		cost += "; the whole run " + all
	}
	rows.Add("cost", cost)
	rows.Add("wall time", (time.Duration(s.DurationMs) * time.Millisecond).String())
	return rows
}

// Interruption describes where a run was interrupted, and when it was resumed.
func Interruption(i rundir.Interruption) string {
	text := fmt.Sprintf("after %d events, taken up again at %s", i.Events, i.Resumed)
	if i.Shard > 0 {
		text = fmt.Sprintf("of entry %d of %s ", i.Shard, rundir.ShardsFile) + text
	}
	if i.Torn {
		text += "; an unfinished last line was cut"
	}
	return text
}

// preflightRows describes the questions to the models before the tasks.
func preflightRows(m plan.Plan, s *rundir.PreflightSummary) [][2]string {
	var rows view.List
	switch {
	case s != nil:
		rows.Addf("preflight", "%s: %s; cost %s", strings.Join(s.Kinds, ", "), view.Count(s.Requests, "request"), view.Dollars(s.CostMicroUSD))
		if len(s.Unanswered) > 0 {
			rows.Add("", "not answered: "+strings.Join(s.Unanswered, ", "))
		}
		rows.AddNonEmpty("", ToolNote(s.Tool))
	case m.NoPreflight:
		rows.Add("preflight", "left out by --no-preflight")
	}
	return rows
}

// runBudget describes the budget of the whole run that ended it.
func runBudget(b plan.Budgets) string {
	return view.Dollars(&b.RunCostMicroUSD) + " the run, used up or not enough for another attempt"
}

// scoreTable returns the scores by level and over all tasks.
func scoreTable(s rundir.Summary) string {
	if s.Scores == nil {
		t := view.NewTable("level", "tasks", "score")
		for _, l := range s.Levels {
			t.Row(l.Level, l.Planned, "unscored")
		}
		return t.String()
	}
	header := []any{"level", "tasks", "official", "", "95 % interval"}
	if s.Judge.Counts() {
		header = append(header, "judged", "", "95 % interval")
	}
	t := view.NewTable(header...)
	add := func(name any, planned int, scores rundir.Scores) {
		o, j := scores.Official, scores.Judged
		row := []any{name, planned, o.Correct, view.Percent(o.AccuracyPPM), interval(o)}
		if s.Judge.Counts() {
			row = append(row, j.Correct, view.Percent(j.AccuracyPPM), interval(*j))
		}
		t.Row(row...)
	}
	planned := 0
	for _, l := range s.Levels {
		planned += l.Planned
		add(l.Level, l.Planned, *l.Scores)
	}
	t.Separator()
	add("all", planned, *s.Scores)
	return t.String()
}

// Tasks writes a row for each task that a filter selects, and how many they are; the judge's verdict only where there is a judge.
func Tasks(w io.Writer, found *rundir.Run, f Filter) error {
	cells := func(all ...any) []any {
		if f.Gold == nil {
			all = all[:len(all)-1]
		}
		if found.Manifest.Judge == nil {
			return slices.Delete(all, 4, 5)
		}
		return all
	}
	t, listed := view.NewTable(cells("task", "level", "outcome", "official", "judged", "attempts", "turns", "calls", "answer", "gold answer")...), 0
	for _, task := range found.Tasks {
		if !f.takes(found, task) {
			continue
		}
		listed++
		official, judged, answer := "", "", ""
		turns, calls, attempts := 0, 0, strconv.Itoa(len(task.Attempts))
		for _, a := range task.Attempts {
			turns, calls = turns+a.Turns, calls+a.ToolCalls
		}
		if a := task.Counted(); a != nil && a.Answer != nil {
			answer = text.Trim(view.Line(a.Answer.Answer), 40)
			if found.Manifest.Voting.Rule == plan.VoteMajority {
				attempts += fmt.Sprintf(" (%d agree)", task.Votes()[a.Number-1])
			}
		}
		if task.Sealed != nil {
			r := found.Result(task)
			official, judged = Correct(r.OfficialCorrect), Correct(r.JudgedCorrect)
		}
		t.Row(cells(task.Plan.TaskID, task.Plan.Level, outcome(task), official, judged, attempts, turns, calls, answer,
			text.Trim(view.Line(f.Gold[task.Plan.TaskID]), 40))...)
	}
	count := ""
	if f.Selects() {
		count = fmt.Sprintf("listed: %d of %s\n\n", listed, view.Count(len(found.Tasks), "task"))
	}
	_, err := fmt.Fprintf(w, "%s%s\n\n%s", Opening(found.Manifest), t, count)
	return err
}

// NotForSubmission is why a run that was planned without it cannot be submitted.
const NotForSubmission = "this run cannot be submitted: it was planned without --submit-intent"

// JudgeRows describe the verdicts of the LLM judge, and its self-test.
func JudgeRows(j *rundir.JudgeSummary) [][2]string {
	if j == nil {
		return nil
	}
	var rows view.List
	rows.Addf("judge", "%s: %s; cost %s", j.Model, Judged(*j), view.Dollars(j.CostMicroUSD))
	if j.Battery != nil {
		rows.Add("", battery(j.Battery))
	}
	return rows
}

// battery describes the result of a judge's self-test.
func battery(b *rundir.BatterySummary) string {
	switch {
	case b.Passed && b.Cached:
		return "judge self-test passed before, by the judge cache"
	case b.Passed:
		text := fmt.Sprintf("judge self-test passed: 0 of %d empty answers accepted", b.Asked)
		if len(b.Refused) > 0 {
			text += fmt.Sprintf("; its endpoint refused %d: %s", len(b.Refused), strings.Join(b.Refused, ", "))
		}
		return text
	}
	return "its verdicts do not count: " + view.Line(cmp.Or(ExplainBattery(b), "its self-test could not run: "+b.Problem))
}

// Judged counts the answers that were the judge's to judge.
func Judged(j rundir.JudgeSummary) string {
	text := fmt.Sprintf("judged %d of %d (%d from the cache), unreadable %d, errors %d", j.Judged, j.ToJudge(), j.Cached, j.Unreadable, j.Errors)
	if j.Withheld > 0 {
		text += fmt.Sprintf(", kept from it %d", j.Withheld)
	}
	if j.TooLong > 0 {
		text += fmt.Sprintf(", too long %d", j.TooLong)
	}
	return text
}

// ExplainBattery returns why a judge failed its self-test; "" if it passed, or if it only could
// not be asked.
func ExplainBattery(b *rundir.BatterySummary) string {
	items := len(judge.Battery())
	var why []string
	if b.Cached && !b.Passed {
		why = append(why, "it accepted empty answers before, by the judge cache ('gaia judge check' shows which)")
	}
	if len(b.Accepted) > 0 {
		why = append(why, fmt.Sprintf("it accepted %d of %d empty answers: %s", len(b.Accepted), items, strings.Join(b.Accepted, ", ")))
	}
	if len(b.Unreadable) > 0 {
		why = append(why, fmt.Sprintf("its reply to %d of %d empty answers is not a verdict: %s", len(b.Unreadable), items, strings.Join(b.Unreadable, ", ")))
	}
	if 2*len(b.Refused) >= b.Asked && b.Asked > 0 {
		why = append(why, fmt.Sprintf("its endpoint refused %d of %d self-test answers", len(b.Refused), items))
	}
	return strings.Join(why, "; ")
}

// Outcomes counts how tasks ended.
func Outcomes(o rundir.Outcomes) string {
	return fmt.Sprintf("%d solved, %d failed, %d error, %d skipped, %d unscored", o.Solved, o.Failed, o.Error, o.Skipped, o.Unscored)
}

// interval returns the Wilson interval of a rate.
func interval(r stats.Rate) string {
	return view.Percent(r.WilsonLowPPM) + " – " + view.Percent(r.WilsonHighPPM)
}

// ToolNote describes what a model did that was asked to call a tool, "" if it called it.
func ToolNote(tool string) string {
	switch tool {
	case trajectory.ToolNone:
		return "the model did not call the tool it was asked to call: it called none"
	case trajectory.ToolOther:
		return "the model did not call the tool it was asked to call: its call was another one"
	}
	return ""
}
