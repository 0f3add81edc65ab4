package budget

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestEstimateIsMeasured: finished runs of the same model and judge are what an
// estimate rests on, rehearsals only for a rehearsal.
func TestEstimateIsMeasured(t *testing.T) {
	plan := func(rehearsal bool) planpkg.Plan {
		m := planpkg.New()
		m.Model.Name, m.Judge, m.Rehearsal = "gpt-4o", &planpkg.JudgePlan{Model: "gpt-4o-mini"}, rehearsal
		m.Tasks, m.Voting.Attempts = make([]planpkg.PlannedTask, 4), 5
		return m
	}
	summary := func(change func(*rundir.Summary)) rundir.Summary {
		s := rundir.Summary{Model: "gpt-4o", Attempts: 10, Tokens: trajectory.Tokens{In: 20000, Cached: 5000, Out: 1000}, Levels: []rundir.LevelSummary{{Level: 1, Planned: 6}, {Level: 2, Planned: 3}},
			Judge: &rundir.JudgeSummary{Model: "gpt-4o-mini", Judged: 5, Cached: 1, TokensIn: 4000, TokensOut: 200}}
		change(&s)
		return s
	}
	same := func(*rundir.Summary) {}
	for _, tc := range []struct {
		name      string
		rehearsal bool
		summaries []rundir.Summary
		model     perAnswer
		judge     perAnswer
	}{
		{"none", false, nil, perAnswer{Assumed: true, In: assumedIn, Out: assumedOut}, perAnswer{Assumed: true, In: assumedJudgeIn, Out: assumedJudgeOut}},
		{"one", false, []rundir.Summary{summary(same)}, perAnswer{In: 2000, Cached: 500, Out: 100, Of: 10, Runs: 1, Tasks: 9}, perAnswer{In: 1000, Out: 50, Of: 4, Runs: 1}},
		{"two", false, []rundir.Summary{summary(same), summary(func(s *rundir.Summary) { s.Tokens.In, s.Judge = 60000, nil })},
			perAnswer{In: 4000, Cached: 500, Out: 100, Of: 20, Runs: 2, Tasks: 18}, perAnswer{In: 1000, Out: 50, Of: 4, Runs: 1}},
		{"another model", false, []rundir.Summary{summary(func(s *rundir.Summary) { s.Model = "gpt-4o-mini" })},
			perAnswer{Assumed: true, In: assumedIn, Out: assumedOut}, perAnswer{In: 1000, Out: 50, Of: 4, Runs: 1}},
		{"a rehearsal", false, []rundir.Summary{summary(func(s *rundir.Summary) { s.Rehearsal = true })},
			perAnswer{Assumed: true, In: assumedIn, Out: assumedOut}, perAnswer{Assumed: true, In: assumedJudgeIn, Out: assumedJudgeOut}},
		{"for a rehearsal", true, []rundir.Summary{summary(func(s *rundir.Summary) { s.Rehearsal = true }), summary(same)},
			perAnswer{In: 2000, Cached: 500, Out: 100, Of: 10, Runs: 1, Tasks: 9}, perAnswer{In: 1000, Out: 50, Of: 4, Runs: 1}},
		{"no usage, no judgments", false, []rundir.Summary{summary(func(s *rundir.Summary) { s.Tokens, s.Judge.Cached = trajectory.Tokens{}, 5 })},
			perAnswer{Assumed: true, In: assumedIn, Out: assumedOut}, perAnswer{Assumed: true, In: assumedJudgeIn, Out: assumedJudgeOut}},
	} {
		var found usage
		for _, s := range tc.summaries {
			found.add(s, plan(tc.rehearsal))
		}
		e := NewEstimate(plan(tc.rehearsal), found, llm.BuiltinPrices())
		if e.Tokens != tc.model || e.JudgeTokens != tc.judge || e.Attempts != 20 {
			t.Errorf("%s: %+v", tc.name, e)
		}
		if e.CostMicroUSD == nil || *e.CostMicroUSD != *e.ModelCostMicroUSD+*e.JudgeCostMicroUSD || e.BoundMicroUSD != nil || e.RunBoundMicroUSD != nil {
			t.Errorf("%s: %+v", tc.name, e)
		}
	}
}
