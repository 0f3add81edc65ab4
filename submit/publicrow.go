package submit

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

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

// strangeRun says what in a run a public package could not hold, "" if nothing:
// records and summary of a journal that no run gives, and that the audit reads.
func strangeRun(run *rundir.Run) string {
	tools := toolNames(run.Manifest)
	var rows []PublicResult
	for i, t := range run.Tasks {
		r := newPublicResult(run.Result(t))
		if why := r.strange(run.Manifest, t.Plan, tools); why != "" {
			return fmt.Sprintf("line %d of %s %s", i+1, rundir.ResultsFile, why)
		}
		rows = append(rows, r)
	}
	if why := strangeTold(run.Summary().Told(), run.Manifest, rows, run.End.Events); why != "" {
		return rundir.SummaryFile + " " + why
	}
	return ""
}

// strange says what about a record no run of the plan gives, "" if nothing.
func (r PublicResult) strange(m plan.Plan, t plan.PlannedTask, tools map[string]bool) string {
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
	case !r.graded(m) || !r.settled(m.Scored()):
		return fmt.Sprintf("ends as %q, which the rest of it does not give", r.Outcome)
	case !r.voted(m):
		return "tells of another vote than the plan's"
	}
	return ""
}

// graded reports whether verdicts and their path go together, as judge.Score gives
// them by the plan; rundir.Fold has those of a task without an answer.
func (r PublicResult) graded(m plan.Plan) bool {
	if !m.Scored() || r.OfficialCorrect == nil {
		return !m.Scored() && r.OfficialCorrect == nil && r.JudgedCorrect == nil && r.ScoringPath == "none"
	}
	right, judged, byModel := *r.OfficialCorrect, r.JudgedCorrect != nil, m.Judge != nil
	if !byModel { // there is no second verdict
		given := map[bool]string{true: judge.PathOfficial, false: judge.PathNoJudge}[right]
		return !judged && (!r.Answered && !right && r.ScoringPath == "none" ||
			r.Answered && (r.ScoringPath == given || !right && r.ScoringPath == judge.PathNoAnswer))
	}
	paid := judged && *r.JudgedCorrect
	if !r.Answered {
		return !right && judged && !paid && r.ScoringPath == "none"
	}
	switch r.ScoringPath {
	case judge.PathOfficial:
		return right && paid
	case judge.PathJudge:
		return !right && judged
	case judge.PathNoAnswer:
		return !right && judged && !paid
	case judge.PathUnreadable, judge.PathError, judge.PathWithheld, judge.PathTooLong:
		return !right && !judged
	}
	return false
}

// settled reports whether outcome, verdict and attempts of a task go together, as
// rundir.Fold has them.
func (r PublicResult) settled(scored bool) bool {
	right := r.OfficialCorrect != nil && *r.OfficialCorrect
	if (r.Attempts == 0) != (r.Attempt == 0) || (r.Attempts == 0) != (r.Outcome == trajectory.Skipped) || r.Answered && r.Turns == 0 {
		return false
	}
	switch r.Outcome {
	case trajectory.Skipped, trajectory.Errored:
		return !r.Answered && !right
	case trajectory.Unscored:
		return !scored
	case trajectory.Solved:
		return r.Answered && right
	case trajectory.Failed:
		return scored && !right
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
