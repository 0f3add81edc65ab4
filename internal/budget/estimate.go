package budget

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// What an attempt is assumed to take where no run of the model has finished. It
// is no measurement: eight turns, the first with 1,200 tokens of prompts and
// tools, each reading the whole conversation before it, writing 300 tokens, and adding a
// tool result of 1,800 to what the next one reads. The judge is assumed to read
// 700 tokens and to write 60.
const (
	assumedTurns   = 8
	assumedPrompt  = 1200
	assumedResult  = 1800
	assumedWritten = 300

	assumedIn       = assumedTurns*assumedPrompt + assumedTurns*(assumedTurns-1)/2*(assumedResult+assumedWritten)
	assumedOut      = assumedTurns * assumedWritten
	assumedJudgeIn  = 700
	assumedJudgeOut = 60
)

// maxSummary bounds, in bytes, a summary.json that is looked at.
const maxSummary = 4 << 20

// Usage is what finished runs of a model took.
type usage struct {
	runs, tasks, attempts int
	tokens                trajectory.Tokens
	judgeRuns, judged     int // of runs with the same judge; without verdicts from the cache
	judgeIn, judgeOut     int64
}

// UsageUnder adds up what the finished runs under a directory took whose model
// is the plan's. A rehearsal says nothing of a run, nor a run of a rehearsal.
// unread counts the summaries that could not be read.
func UsageUnder(out string, m plan.Plan) (found usage, unread int, err error) {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, 0, fmt.Errorf("reading the directory for runs: %w", err)
	}
	root := os.DirFS(out)
	for _, e := range entries {
		name := e.Name() + "/" + rundir.SummaryFile
		if _, err := fs.Lstat(root, name); err != nil || e.Name()[0] == '.' {
			continue // no run, or not finished
		}
		var s rundir.Summary
		data, err := rundir.ReadFile(root, name, maxSummary)
		if err == nil {
			err = canonical.Decode(data, &s)
		}
		var same bool
		if err == nil {
			same, err = sameAgent(root, e.Name(), m)
		}
		if err != nil {
			unread++
			continue
		}
		if same {
			found.add(s, m)
		}
	}
	return found, unread, nil
}

// sameAgent reports whether the agent of the run in a folder is that of the plan: the built-in one, or an own agent of the same
// name. What its files were then does not matter.
func sameAgent(root fs.FS, folder string, m plan.Plan) (bool, error) {
	_, err := fs.Lstat(root, folder+"/"+plan.AgentFilesFile)
	if err != nil || m.Agent == nil {
		return (err != nil) == (m.Agent == nil), nil
	}
	dir, err := fs.Sub(root, folder)
	if err != nil {
		return false, err
	}
	made, _, _, err := rundir.ReadPlan(dir)
	return err == nil && made.Agent != nil && made.Agent.Name == m.Agent.Name, err
}

func (f *usage) add(s rundir.Summary, m plan.Plan) {
	if s.Rehearsal != m.Rehearsal {
		return
	}
	if s.Model == m.Model.Name && s.Attempts > 0 && s.Tokens.In > 0 {
		f.runs++
		f.attempts += s.Attempts
		for _, l := range s.Levels {
			f.tasks += l.Planned
		}
		f.tokens = f.tokens.Add(s.Tokens)
	}
	if j := s.Judge; j != nil && m.Judge != nil && j.Model == m.Judge.Model && j.Judged > j.Cached && j.TokensIn > 0 {
		f.judgeRuns++
		f.judged += j.Judged - j.Cached
		f.judgeIn += j.TokensIn
		f.judgeOut += j.TokensOut
		if b := j.Battery; b != nil {
			f.judgeIn -= b.TokensIn
			f.judgeOut -= b.TokensOut
		}
	}
}

// Estimate is what a plan may come to. Costs are null where a price is unknown,
// bounds where there is none.
type Estimate struct {
	Attempts          int       `json:"attempts"`
	BoundMicroUSD     *int64    `json:"bound_microusd"`      // of the model alone, by the budget of each attempt
	CostMicroUSD      *int64    `json:"cost_microusd"`       // judge included
	JudgeCostMicroUSD *int64    `json:"judge_cost_microusd"` // null, too, without a judge
	JudgeTokens       perAnswer `json:"judge_tokens"`        // of an answer; every answer counts as judged, and the self-test is included
	ModelCostMicroUSD *int64    `json:"model_cost_microusd"` //
	RunBoundMicroUSD  *int64    `json:"run_bound_microusd"`  // by --max-cost
	Tokens            perAnswer `json:"tokens"`              // of an attempt
}

// PerAnswer is what is read and written each time, and how that is known.
type perAnswer struct {
	Assumed bool  `json:"assumed"` // not measured
	Cached  int64 `json:"cached"`
	In      int64 `json:"in"`
	Of      int   `json:"of"` // attempts or answers that it is the mean of
	Out     int64 `json:"out"`
	Runs    int   `json:"runs"`
	Tasks   int   `json:"tasks,omitzero"`
}

func NewEstimate(m plan.Plan, found usage, prices llm.Prices) Estimate {
	e := Estimate{Attempts: len(m.Tasks) * m.Voting.Attempts, Tokens: perAnswer{Assumed: true, In: assumedIn, Out: assumedOut}}
	if n := int64(found.attempts); n > 0 {
		e.Tokens = perAnswer{Cached: found.tokens.Cached / n, In: found.tokens.In / n, Out: found.tokens.Out / n, Of: found.attempts, Runs: found.runs, Tasks: found.tasks}
	}
	e.ModelCostMicroUSD = e.Tokens.cost(prices, m.Model.Name, e.Attempts)
	e.CostMicroUSD = e.ModelCostMicroUSD
	if m.Judge != nil {
		e.JudgeTokens = perAnswer{Assumed: true, In: assumedJudgeIn, Out: assumedJudgeOut}
		if n := int64(found.judged); n > 0 {
			e.JudgeTokens = perAnswer{In: found.judgeIn / n, Out: found.judgeOut / n, Of: found.judged, Runs: found.judgeRuns}
		}
		e.JudgeCostMicroUSD = e.JudgeTokens.cost(prices, m.Judge.Model, e.Attempts+len(judge.Battery()))
		e.CostMicroUSD = nil
		if a, b := e.ModelCostMicroUSD, e.JudgeCostMicroUSD; a != nil && b != nil {
			both := *a + *b
			e.CostMicroUSD = &both
		}
	}
	if b := m.Budgets.CostMicroUSD; b > 0 {
		e.BoundMicroUSD = times(b, e.Attempts)
	}
	if b := m.Budgets.RunCostMicroUSD; b > 0 {
		e.RunBoundMicroUSD = &b
	}
	return e
}

// cost returns what n times the tokens cost, nil where that is not known.
func (p perAnswer) cost(prices llm.Prices, model string, n int) *int64 {
	if one := prices.Cost(model, llm.Usage{Cached: p.Cached, In: p.In, Out: p.Out, Reported: true}); one != nil {
		return times(*one, n)
	}
	return nil
}

func times(micro int64, n int) *int64 {
	if n > 0 && micro > math.MaxInt64/int64(n)/2 { // half of it: two are added up
		return nil
	}
	all := micro * int64(n)
	return &all
}

func (e Estimate) Rows() [][2]string {
	rows := [][2]string{{"estimate", view.Dollars(e.CostMicroUSD) + " in all"},
		{"", fmt.Sprintf("model: %s for %s of %s", view.Dollars(e.ModelCostMicroUSD), view.Count(e.Attempts, "attempt"), e.Tokens.describe("attempt"))}}
	if e.JudgeTokens.In > 0 {
		rows = append(rows, [2]string{"", fmt.Sprintf("judge: at most %s, if it judges every answer and runs its self-test: %s", view.Dollars(e.JudgeCostMicroUSD), e.JudgeTokens.describe("answer"))})
	}
	bound := func(b *int64, flag string) {
		limit := "no bound"
		if b != nil {
			limit = "at most " + view.Dollars(b)
		}
		rows = append(rows, [2]string{"", limit + " by " + flag})
	}
	bound(e.BoundMicroUSD, "the budget of each attempt, the judge not included (--max-task-cost)")
	bound(e.RunBoundMicroUSD, "the budget of the run (--max-cost)")
	return rows
}

func (p perAnswer) describe(what string) string {
	tokens := fmt.Sprintf("%d tokens in (%d cached), %d out", p.In, p.Cached, p.Out)
	if p.Assumed {
		return tokens + " (assumed, not measured)"
	}
	tokens += fmt.Sprintf(" (the mean of %s of %s", view.Count(p.Of, what), view.Count(p.Runs, "finished run"))
	if p.Tasks > 0 {
		tokens += ", " + view.Count(p.Tasks, "task")
	}
	return tokens + ")"
}
