package submit

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/sumdb/tlog"
)

// leavesFile is the file that only a public package has.
const leavesFile = "leaves.jsonl"

// publicPackageFiles returns the names of a public package's files, sorted, with those of its shards.
func publicPackageFiles(shards *rundir.Shards) []string {
	all := append([]string{ReadmeFile, SumsFile, AttestationFile, BundleFile, trajectory.CheckpointFile, plan.ConstitutionFile, leavesFile,
		plan.EnvelopeFile, plan.ManifestFile, MetadataFile, rundir.ResultsFile}, shardFiles(shards, true)...)
	slices.Sort(all)
	return all
}

// isPublic reports whether a package, whole or damaged, is a public one: by most of the
// files that only one of them has, so that verifying it as what it is names the one
// that was added or taken away.
func isPublic(dir fs.FS) bool {
	there, full := holds(dir), 0
	for _, name := range []string{audit.ReportFile, trajectory.JournalFile, LeaderboardFile, scorecardFile, rundir.TrajectoriesFile} {
		if there(name) {
			full++
		}
	}
	if there(leavesFile) {
		return full < 3
	}
	return full == 0 && IsPackage(dir)
}

// publicLeaf is a line of leaves.jsonl. A leaf holds 32 random bytes, so that its
// hash shows nothing about the task's events to who does not have them.
type publicLeaf struct {
	LeafHash tlog.Hash `json:"leaf_hash"`
	TaskID   string    `json:"task_id"`
}

// WithheldFile is a file of the full package of the same run, key and date.
type WithheldFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitzero"` // of events.jsonl and the journals of shards alone
}

// CheckResult is the result of a check of the audit, without what it found.
type CheckResult struct {
	Findings int            `json:"findings"` // how many, the closed ones too
	Gaps     int            `json:"gaps"`     // how many things it could not see
	ID       string         `json:"id"`
	Line     int64          `json:"line,omitzero"` // of the journals one after the other, from 1: of the first of the gravest findings, where the check fails
	Severity audit.Severity `json:"severity,omitzero"`
	Status   audit.Status   `json:"status"`
	TaskID   string         `json:"task_id,omitzero"` // of the same finding; left out: the whole run
}

// newAuditResult returns what the checks of a withheld report come to.
func newAuditResult(checks []CheckResult) AuditResult {
	a := AuditResult{Checks: checks, Clean: true, CriticalFailures: []string{}, StrictClean: true, WarnFailures: []string{}}
	for i, c := range checks {
		switch {
		case c.Status == audit.Fail && c.Severity == audit.Critical:
			a.CriticalFailures = append(a.CriticalFailures, c.ID)
		case c.Status == audit.Fail:
			a.WarnFailures = append(a.WarnFailures, c.ID)
		case c.Status == audit.Review:
			a.StrictClean = false
		}
		a.HarnessGaps += c.Gaps
		if c.Status == audit.Fail || audit.Checks()[i].Gate && c.Gaps > 0 {
			a.Clean = false
		}
	}
	a.StrictClean = a.StrictClean && a.Clean
	return a
}

// recordingWithheld replaces in a public statement the reason why recording failed, which
// may name places on the computer of who ran it.
const recordingWithheld = "withheld"

// published returns the evidence that a public package has in place of e, which is
// that of the run and its audit.
func (e evidence) published(run *rundir.Run, report audit.Report) evidence {
	var checks []CheckResult
	for _, c := range report.Checks {
		r := CheckResult{Findings: len(c.Findings), Gaps: len(c.Gaps), ID: c.ID, Severity: c.Severity, Status: c.Status}
		if first, _ := gravest(c); first != nil && c.Status == audit.Fail {
			r.Line, r.TaskID = first.Seq+1, first.TaskID
		}
		checks = append(checks, r)
	}
	e.Withheld = newWithheld(journalDigests(run), present(e.plan, report, e.later), run.Shards)
	e.Audit = newAuditResult(checks)
	e.AnsweredBy = publicAnsweredBy(e.plan, e.AnsweredBy)
	if e.RecordingFailed != "" {
		e.RecordingFailed = recordingWithheld
	}
	e.reasons = publicReasons(e.plan, checks, run.Shards, e.RecordingFailed)
	return e
}

// publicAnsweredBy leaves out the names in replies that the plan does not declare or
// that could hold a text.
func publicAnsweredBy(m plan.Plan, by plan.AnsweredBy) plan.AnsweredBy {
	form := regexp.MustCompile(`^[0-9A-Za-z._:/@+-]{1,120}$`)
	listed := len(by.RepliedAs)
	by.RepliedAs = slices.DeleteFunc(slices.Clone(by.RepliedAs), func(name string) bool {
		return !form.MatchString(name) || !declared(m, name)
	})
	by.RepliedOther = by.RepliedOther || len(by.RepliedAs) < listed
	return by
}

// declared reports whether a plan declares a name in replies to the agent.
func declared(m plan.Plan, name string) bool {
	if audit.Declares(m.Model, name, m.Model.Name) {
		return true
	}
	if m.Agent == nil {
		return false
	}
	for asked := range m.Agent.Models {
		if audit.Declares(m.Model, name, m.Agent.RepliesAs(asked)) {
			return true
		}
	}
	return false
}

// newWithheld lists the withheld files, with those of the given additions and of the shards, by name. The journals'
// digests can be shown: the task_sealed of each task holds 32 random bytes, and in the journal of a shard each event's id
// is random. The other files follow from
// texts, times and counts, so that who knows all of a run but an answer could try
// guesses at it on their digests, and the scorecard counts violations and rollbacks of
// which the withheld ones alone tell; and a decision names its finding by a digest of
// what was found.
func newWithheld(journals map[string]string, with []string, shards *rundir.Shards) (all []WithheldFile) {
	public := map[string]bool{}
	for _, name := range publicPackageFiles(shards) {
		public[name] = true
	}
	for _, name := range Files(append(with, shardFiles(shards, false)...)...) {
		if !public[name] {
			all = append(all, WithheldFile{name, journals[name]})
		}
	}
	return all
}

// PublicTexts names the texts of a plan that people or programs other than this one
// wrote, a phrase each: they are in a public package, too.
func PublicTexts(m plan.Plan) []string {
	var all []string
	listed, variables := map[string]int{}, map[string]int{}
	for _, t := range m.Tools {
		if t.Server != "" {
			listed[t.Server]++
			variables[t.Server] = len(t.Env)
		}
	}
	for server, tools := range listed {
		name := quote(strings.TrimPrefix(server, "mcp:"))
		all = append(all, fmt.Sprintf("the name of the MCP server %s and its description of %s", name, view.Count(tools, "tool")))
		if n := variables[server]; n > 0 {
			all = append(all, fmt.Sprintf("the names of %s that the MCP server %s is given", view.Count(n, "variable"), name))
		}
	}
	if m.Agent != nil {
		all = append(all, "the name of the agent, its command, the paths of its folders and the names of its variables")
	}
	for member, entries := range map[string][]string{"answer_sources": m.Policy.AnswerSources, "commands": m.Policy.Commands, "packages": m.Policy.Packages} {
		if len(entries) > 0 {
			all = append(all, "what the policy file has under "+member)
		}
	}
	slices.Sort(all)
	return all
}

// tellsWhy reports whether the summary holds words about why recording failed.
func tellsWhy(s rundir.Summary) bool {
	return s.Unrecorded != "" || slices.ContainsFunc(s.Interruptions, func(i rundir.Interruption) bool { return i.Unsubmittable != "" })
}

// publicFiles returns the files that a public package has in place of those that
// it withholds.
func publicFiles(run *rundir.Run) (map[string][]byte, error) {
	var leaves, rows []byte
	add := func(to *[]byte, v any) error {
		line, err := canonical.Encode(v)
		*to = append(append(*to, line...), '\n')
		return err
	}
	for i, leaf := range run.Leaves() {
		hash, err := leaf.Hash()
		if err != nil {
			return nil, err
		}
		if err := add(&leaves, publicLeaf{hash, leaf.TaskID}); err != nil {
			return nil, err
		}
		if err := add(&rows, newPublicResult(run.Result(run.Tasks[i]))); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{leavesFile: leaves, rundir.ResultsFile: rows}, nil
}

// publicSchema is that of a line of a public package's results.jsonl.
const publicSchema = "gaia.public-result/1"

// PublicResult is a line of a public package's results.jsonl: a rundir.Result
// without its texts, and without a digest of them, by which an answer could be
// guessed.
type PublicResult struct {
	Answered        bool              `json:"answered"` // an answer was committed
	Attempt         int               `json:"attempt"`
	Attempts        int               `json:"attempts"`
	CostMicroUSD    *int64            `json:"cost_microusd"`
	JudgedCorrect   *bool             `json:"judged_correct"`
	LatencyMs       int64             `json:"latency_ms"`
	Level           int               `json:"level"`
	OfficialCorrect *bool             `json:"official_correct"`
	Outcome         string            `json:"outcome"`
	Rehearsal       bool              `json:"rehearsal,omitzero"`
	Schema          string            `json:"schema"`
	ScoringPath     string            `json:"scoring_path"`
	TaskID          string            `json:"task_id"`
	Tokens          trajectory.Tokens `json:"tokens"`
	ToolCalls       int               `json:"tool_calls"`
	ToolsUsed       []string          `json:"tools_used"`
	Turns           int               `json:"turns"`
	Voting          *rundir.TaskVote  `json:"voting,omitzero"`
	Withheld        []string          `json:"withheld"` // members of the full package's record that are not here
}

// withheldMembers are those of a record that a public package does not show.
func withheldMembers() []string { return []string{"model_answer", "reasoning_trace"} }

func newPublicResult(r rundir.Result) PublicResult {
	return PublicResult{Answered: r.ModelAnswer != nil, Attempt: r.Attempt, Attempts: r.Attempts, CostMicroUSD: r.CostMicroUSD, JudgedCorrect: r.JudgedCorrect,
		LatencyMs: r.LatencyMs, Level: r.Level, OfficialCorrect: r.OfficialCorrect, Outcome: r.Outcome, Rehearsal: r.Rehearsal, Schema: publicSchema,
		ScoringPath: r.ScoringPath, TaskID: r.TaskID, Tokens: r.Tokens, ToolCalls: r.ToolCalls, ToolsUsed: r.ToolsUsed, Turns: r.Turns, Voting: r.Voting,
		Withheld: withheldMembers()}
}

// result returns the record without its texts.
func (r PublicResult) result() rundir.Result {
	return rundir.Result{Attempt: r.Attempt, Attempts: r.Attempts, CostMicroUSD: r.CostMicroUSD, JudgedCorrect: r.JudgedCorrect, LatencyMs: r.LatencyMs,
		Level: r.Level, OfficialCorrect: r.OfficialCorrect, Outcome: r.Outcome, Rehearsal: r.Rehearsal, ScoringPath: r.ScoringPath, TaskID: r.TaskID,
		Tokens: r.Tokens, ToolCalls: r.ToolCalls, ToolsUsed: r.ToolsUsed, Turns: r.Turns, Voting: r.Voting}
}

func otherTask(id string, t plan.PlannedTask) string {
	if id == t.TaskID {
		return ""
	}
	return fmt.Sprintf("is of task %q, where the plan has %q", id, t.TaskID)
}

// toolNames are those of a plan.
func toolNames(m plan.Plan) map[string]bool {
	names := map[string]bool{}
	for _, t := range m.Tools {
		names[t.Name] = true
	}
	return names
}

// implausible says what about a record no run of the plan gives, "" if nothing.
func (r PublicResult) implausible(m plan.Plan, t plan.PlannedTask, tools map[string]bool) string {
	unknown := func(name string) bool { return !tools[name] }
	counts := []int64{int64(r.Attempt), int64(r.Attempts - r.Attempt), r.LatencyMs, int64(r.ToolCalls), int64(r.Turns), r.Tokens.Cached, r.Tokens.In, r.Tokens.Out, r.Tokens.Reasoning}
	if r.CostMicroUSD != nil {
		counts = append(counts, *r.CostMicroUSD)
	}
	switch {
	case r.TaskID != t.TaskID:
		return otherTask(r.TaskID, t)
	case r.Schema != publicSchema || !slices.Equal(r.Withheld, withheldMembers()):
		return "is not a record of this version"
	case r.Level != t.Level || r.Rehearsal != m.Rehearsal:
		return "contradicts the plan"
	case slices.Min(counts) < 0:
		return "counts less than nothing"
	case slices.ContainsFunc(r.ToolsUsed, unknown) || !slices.Equal(r.ToolsUsed, slices.Compact(slices.Sorted(slices.Values(r.ToolsUsed)))):
		return "names tools that the plan does not have, or not once each and in order"
	case !r.graded(m) || !r.settled(m):
		return fmt.Sprintf("ends as %q, which the rest of it does not give", r.Outcome)
	case !r.voted(m):
		return "tells of another vote than the plan's"
	}
	return ""
}

// graded reports whether verdicts and their path go together, as judge.Score gives
// them by the plan; rundir.Fold has those of a task without an answer.
func (r PublicResult) graded(m plan.Plan) bool {
	verdict := func(v *bool) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatBool(*v)
	}
	// The path, whether there is an answer, the official verdict and the judge's.
	given := fmt.Sprintf("%s %t %s %s", r.ScoringPath, r.Answered, verdict(r.OfficialCorrect), verdict(r.JudgedCorrect))
	possible := []string{"none false false false", judge.PathOfficial + " true true true", judge.PathJudge + " true false true",
		judge.PathJudge + " true false false", judge.PathNoAnswer + " true false false", judge.PathUnreadable + " true false -",
		judge.PathError + " true false -", judge.PathWithheld + " true false -", judge.PathTooLong + " true false -"}
	switch {
	case !m.Scored():
		possible = []string{"none true - -", "none false - -"}
	case m.Judge == nil: // there is no second verdict
		possible = []string{"none false false -", judge.PathOfficial + " true true -", judge.PathNoJudge + " true false -",
			judge.PathNoAnswer + " true false -"}
	}
	return slices.Contains(possible, given)
}

// settled reports whether outcome, verdict and attempts of a task go together, as
// rundir.Fold has them.
func (r PublicResult) settled(m plan.Plan) bool {
	right := r.OfficialCorrect != nil && *r.OfficialCorrect
	if (r.Attempts == 0) != (r.Attempt == 0) || (r.Attempts == 0) != (r.Outcome == trajectory.Skipped) ||
		r.Answered && r.Turns == 0 && m.Agent == nil { // an own agent can answer without a model
		return false
	}
	switch r.Outcome {
	case trajectory.Skipped, trajectory.Errored:
		return !r.Answered && !right
	case trajectory.Unscored:
		return !m.Scored()
	case trajectory.Solved:
		return r.Answered && right
	case trajectory.Failed:
		return m.Scored() && !right
	}
	return false
}

// voted reports whether what a record says of the vote is the plan's.
func (r PublicResult) voted(m plan.Plan) bool {
	v := r.Voting
	if v == nil || m.Voting.Rule != plan.VoteMajority {
		return v == nil && m.Voting.Rule != plan.VoteMajority
	}
	passed := 0
	if v.Passed != nil {
		passed = *v.Passed
	}
	right := r.OfficialCorrect != nil && *r.OfficialCorrect
	return v.Rule == m.Voting.Rule && (v.Passed != nil) == m.Scored() && v.Attempts <= min(r.Attempts, m.Voting.Attempts) && v.Answers <= v.Attempts && v.Votes <= v.Answers &&
		min(v.Votes, passed) >= 0 && passed <= v.Answers && (v.Votes > 0) == r.Answered && (!right || passed > 0)
}

// implausibleSummary says what about that part of a summary that the journal alone tells no
// journal gives, "" if nothing: no text is to stand where times, counts and fixed
// words do. events are those of events.jsonl.
func implausibleSummary(told rundir.Told, m plan.Plan, rows []PublicResult, shards *rundir.Shards, events int64) string {
	few, passed, allowed := "", 0, max(m.Voting.Attempts, 1)+max(m.Retry.AttemptsPerTask, 1)+len(told.Interruptions)
	for _, r := range rows {
		if v := r.Voting; v != nil && v.Passed != nil && *v.Passed > 0 {
			passed++
		}
		if r.Attempts > allowed && few == "" { // what a process leaves open when it ends is one a task
			few = fmt.Sprintf("has too few interruptions for %d attempts at task %q", r.Attempts, r.TaskID)
		}
	}
	j := told.Judge
	counts := []int64{int64(j.Cached), int64(j.Unreadable), int64(j.Errors), int64(j.TooLong), int64(j.Withheld), j.TokensIn, j.TokensOut,
		int64(told.PassedFirst), int64(told.RetriedCalls), int64(told.IntegrityEvents)}
	if j.CostMicroUSD != nil {
		counts = append(counts, *j.CostMicroUSD)
	}
	why := cmp.Or(implausibleTimes(told, journalEvents(shards, events)), few, implausibleShards(told.Shards, shards, m))
	switch {
	case why != "":
	case j.Asked != j.Judged+j.Unreadable+j.Errors || j.Cached > j.Judged || told.PassedFirst > passed || slices.Min(counts) < 0 ||
		!countsJudged(j, m, rows):
		why = "miscounts what the journal tells"
	case told.Preflight != nil && told.Preflight.Contradicts(m):
		why = "has a preflight that the plan does not allow"
	case j.Battery != nil:
		why = implausibleSelfTest(*j.Battery, m.Judge)
	}
	return why
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

// implausibleTimes is implausibleSummary for times, which do not go back in a journal, and for
// places where the run went on, each a line of one. events are those of each journal; the last is events.jsonl.
func implausibleTimes(told rundir.Told, events []int64) string {
	none := func(s string) bool {
		at, err := time.Parse(trajectory.TimeFormat, s)
		return err != nil || at.Format(trajectory.TimeFormat) != s
	}
	last := len(events) - 1
	clock, journal, before := told.Started, 0, int64(0)
	ends := rundir.Interruption{Events: events[last], Resumed: told.Completed}
	for n, i := range append(slices.Clone(told.Interruptions), ends) {
		at := i.Shard - 1
		if i.Shard == 0 {
			at = last
		}
		switch {
		case at < journal || i.Shard > last:
			return "has an interruption in a journal that does not follow"
		case at > journal: // its clock can be another
			clock, journal, before = told.Started, at, 0
		}
		switch {
		case i.Events <= before || i.Events >= events[at] && n < len(told.Interruptions):
			return "has an interruption where the journal has no event"
		case i.Stopped != "" && i.Stopped != trajectory.StoppedByEndpoint:
			return "has a run stopped by what stops none"
		case none(told.Started) || none(i.Resumed):
			return "has a time that is none"
		case i.Resumed < clock: // of one form and zone, so that their order is that of the texts
			return "has times that go back"
		}
		clock, before = i.Resumed, i.Events
	}
	return ""
}

// anItem is how items of a null battery are named, those of other versions too.
const anItem = `^[a-z]{1,12}(-[a-z]{1,12}){0,2}$`

// implausibleSelfTest is implausibleSummary for how the judge of a plan stood the null battery.
func implausibleSelfTest(b rundir.BatterySummary, plan *plan.JudgePlan) string {
	if plan == nil || plan.Battery == "" {
		return "tells of a null battery, and the plan has none"
	}
	known, form := map[string]bool{}, regexp.MustCompile(anItem)
	for _, n := range judge.Battery() {
		known[n.Name] = true
	}
	unknown := func(name string) bool {
		return !known[name] && (plan.Battery == judge.BatteryDigest() || !form.MatchString(name))
	}
	named := slices.Concat(b.Accepted, b.Refused, b.Unreadable)
	slices.Sort(named)
	counts := []int64{int64(b.Asked - len(named)), b.TokensIn, b.TokensOut}
	if b.CostMicroUSD != nil {
		counts = append(counts, *b.CostMicroUSD)
	}
	switch {
	case slices.ContainsFunc(named, unknown):
		return "names an item that the null battery does not have"
	case b.Problem != "" && !slices.Contains(append(judge.Problems(), prompt.RunMoneySpent), b.Problem):
		return "gives a reason that this program does not have for cutting the null battery short"
	case len(slices.Compact(named)) != len(b.Accepted)+len(b.Refused)+len(b.Unreadable) || slices.Min(counts) < 0:
		return "miscounts the items of the null battery, or what they took"
	case b.Passed && (len(b.Accepted)+len(b.Unreadable) > 0 || b.Problem != ""):
		return "gives another outcome of the null battery than its items do"
	}
	return ""
}
