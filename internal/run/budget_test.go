package run

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestRunCost: a run costs no more than it may, gives an answer with what is
// left, and counts what it never began as skipped. What it cost is what the
// endpoint counted.
func TestRunCost(t *testing.T) {
	tasks := endpoint.Tasks{Count: 60, Turns: 3}
	free := serve(t, endpoint.Config{Tasks: tasks})
	whole := verified(t, execute(t, t.TempDir(), generated(t, tasks, free.URL, nil)).Dir).Summary()
	if whole.Outcomes.Skipped != 0 || *whole.CostMicroUSD != free.Counts().CostMicroUSD {
		t.Fatalf("%+v cost %d, the endpoint counted %d", whole.Outcomes, *whole.CostMicroUSD, free.Counts().CostMicroUSD)
	}

	server := serve(t, endpoint.Config{Tasks: tasks})
	c := generated(t, tasks, server.URL, nil)
	c.plan.Model.MaxTokens = 200
	c.plan.Budgets.RunCostMicroUSD = *whole.CostMicroUSD / 2
	told := 0
	c.env.Warn = func(err error) {
		if errors.Is(err, errLeftOut) {
			told++
		}
	}
	found := verified(t, execute(t, t.TempDir(), c).Dir)
	s := found.Summary()
	cost := *s.CostMicroUSD
	if cost != server.Counts().CostMicroUSD || cost > c.plan.Budgets.RunCostMicroUSD || cost < c.plan.Budgets.RunCostMicroUSD/2 {
		t.Errorf("cost %d of %d, the endpoint counted %d", cost, c.plan.Budgets.RunCostMicroUSD, server.Counts().CostMicroUSD)
	}
	if told != 1 {
		t.Errorf("it is told %d times that tasks are left out", told)
	}
	if s.Outcomes.Skipped == 0 || s.Outcomes.Solved == 0 || s.Outcomes.Error != 0 || !found.Complete {
		t.Errorf("%+v", s.Outcomes)
	}
	for _, task := range found.Tasks {
		if (task.Sealed.Outcome == trajectory.Skipped) != (len(task.Attempts) == 0) {
			t.Errorf("%s is sealed as %s after %d attempts", task.Plan.TaskID, task.Sealed.Outcome, len(task.Attempts))
		}
	}
}

// TestRunCostAcrossResumes: what was spent before an interruption counts.
func TestRunCostAcrossResumes(t *testing.T) {
	tasks := endpoint.Tasks{Count: 40, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks})
	c := generated(t, tasks, server.URL, nil)
	c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD, c.env.Concurrency = 200, 60_000, 2
	dir := t.TempDir()
	drain := make(chan struct{})
	stopAt := 5
	c.env.Watch = func(e trajectory.Event) {
		if _, ended := e.Payload.(trajectory.AttemptEnded); ended {
			if stopAt--; stopAt == 0 {
				close(drain)
			}
		}
	}
	r, err := Create(dir, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), drain); !errors.Is(err, ErrDrained) {
		t.Fatal(err)
	}
	r.Close()
	before := server.Counts().CostMicroUSD
	c.env.Watch = nil
	again, err := Resume(r.Dir, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	s := verified(t, r.Dir).Summary()
	if before == 0 || *s.CostMicroUSD > c.plan.Budgets.RunCostMicroUSD || s.Outcomes.Skipped == 0 {
		t.Errorf("cost %d of %d, %d before the interruption; %+v", *s.CostMicroUSD, c.plan.Budgets.RunCostMicroUSD, before, s.Outcomes)
	}
}

// TestRunCostOfTheJudge: what the judge costs counts, too; where the money ends
// before it answers are left unjudged, with a warning.
func TestRunCostOfTheJudge(t *testing.T) {
	c := config(t)
	whole := verified(t, execute(t, t.TempDir(), c).Dir).Summary()
	spent := *whole.CostMicroUSD + *whole.Judge.CostMicroUSD
	if whole.Judge.Asked < 3 || *whole.Judge.CostMicroUSD == 0 {
		t.Fatalf("%+v", whole.Judge)
	}
	c = config(t)
	// A table by which the agent's requests cost nothing leaves it undisturbed.
	free, err := llm.ParsePrices(fmt.Appendf(nil, `{"version":"1","note":"","models":{
		%q:{"input_microusd_per_mtok":0,"cached_input_microusd_per_mtok":0,"output_microusd_per_mtok":0},
		%q:{"input_microusd_per_mtok":1,"cached_input_microusd_per_mtok":1,"output_microusd_per_mtok":1}}}`, fixtures.Model, fixtures.JudgeModel))
	if err != nil {
		t.Fatal(err)
	}
	verdicts := *whole.Judge.CostMicroUSD - *whole.Judge.Battery.CostMicroUSD
	c.plan.Model.MaxTokens, c.env.Prices, c.plan.Budgets.RunCostMicroUSD = 8192, free, spent-verdicts/2
	s := verified(t, execute(t, t.TempDir(), c).Dir).Summary()
	if total := *s.CostMicroUSD + *s.Judge.CostMicroUSD; total > c.plan.Budgets.RunCostMicroUSD+verdicts/7 { // a call may cost more than that table says
		t.Errorf("cost %d of %d", total, c.plan.Budgets.RunCostMicroUSD)
	}
	if s.Judge.Withheld != 0 || s.Judge.Errors == 0 || s.Judge.Judged+s.Judge.Errors+s.Judge.Unreadable != s.Judge.Asked {
		t.Errorf("%+v", s.Judge)
	}
}

// TestAutomaticConcurrency: without a number the endpoint's limiter says how many
// tasks are under way. Each change of it is an event before it has an effect, and
// the tasks follow: twice as many as requests, and never more.
func TestAutomaticConcurrency(t *testing.T) {
	const start = 2
	tasks := endpoint.Tasks{Count: 100, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks, Cap: 6, Latency: 5 * time.Millisecond})
	c := generated(t, tasks, server.URL, func(l *llm.Config) { l.Limiter = llm.NewLimiter(llm.LimiterConfig{Start: start}) })
	c.env.Concurrency = 0
	changes, limit, highest, underWay, most := 0, start, start, 0, 0
	c.env.Watch = func(e trajectory.Event) {
		switch p := e.Payload.(type) {
		case trajectory.LimitChanged:
			if p.From != limit || p.To == limit || p.To < 1 || p.Origin != c.plan.Model.Origin || p.Reason == "" {
				t.Errorf("the limit was %d, and changed by %+v", limit, p)
			}
			changes, limit, highest = changes+1, p.To, max(highest, p.To)
		case trajectory.TaskStarted:
			underWay++
			most = max(most, underWay)
			if underWay > llm.TasksPerRequest*highest {
				t.Errorf("%d tasks are under way, and the limit was %d at most", underWay, highest)
			}
		case trajectory.AttemptEnded:
			underWay--
		}
	}
	s := verified(t, execute(t, t.TempDir(), c).Dir).Summary()
	if s.Outcomes.Error != 0 || changes == 0 || most <= llm.TasksPerRequest*start {
		t.Errorf("%+v with %d changes, up to %d; %d tasks were under way at most", s.Outcomes, changes, highest, most)
	}
}
