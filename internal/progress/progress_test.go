package progress

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/vbauerster/mpb/v8/decor"
)

// TestProgressTells: what changes at the endpoint, and once what spoils a run.
func TestProgressTells(t *testing.T) {
	var out strings.Builder
	p := New(&out, false, 3, 1, false)
	ended := trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Reason: prompt.RunMoneySpent + ", and the last turn gave no answer"}
	for _, e := range []trajectory.Event{
		{Payload: trajectory.LimitChanged{From: 8, To: 7, Origin: "https://api.example", Reason: "status 429"}},
		{TaskID: "fab1e001", Payload: trajectory.ModelCallCompleted{UnrecordedChannels: []string{"citations", "web_search_call"}}},
		{TaskID: "fab1e002", Payload: trajectory.ModelCallCompleted{UnrecordedChannels: []string{"citations"}}},
		{TaskID: "fab1e001", Payload: ended},
		{TaskID: "fab1e002", Payload: ended},
		{Payload: trajectory.ContextCondensed{Reason: trajectory.WindowFull}},
		{TaskID: "fab1e001", Payload: trajectory.ToolExecuted{Name: "web_search", IsError: true, URLs: []trajectory.URL{{URL: "https://engine.example/search", Status: 432}}}},
		{TaskID: "fab1e002", Payload: trajectory.ToolExecuted{Name: "web_search", IsError: true, URLs: []trajectory.URL{{URL: "https://engine.example/search", Status: 432}}}},
		{TaskID: "fab1e002", Payload: trajectory.ToolExecuted{Name: "web_search", IsError: true, URLs: []trajectory.URL{{URL: "https://engine.example/search", Status: 500}}}},
		{TaskID: "fab1e002", Payload: trajectory.ToolExecuted{Name: "web_fetch", IsError: true, URLs: []trajectory.URL{{URL: "https://page.example", Status: 403}}}},
	} {
		p.Watch(e)
	}
	for line, times := range map[string]int{
		"concurrency": 0,
		`level=WARN msg="the endpoint did on its own what nothing records (citations): the run will not be submittable" task=fab1e001`: 1,
		`(web_search_call): the run will not be submittable" task=fab1e001`:                                                            1,
		"the run will not be submittable":             2,
		`level=WARN msg="the budget of the whole run`: 1,
		"msg=\"attempt ended\"":                       2,
		"condens":                                     0,
		"the search engine refuses to answer (status 432), so the model goes without web_search": 1,
		"the search engine": 1,
	} {
		if n := strings.Count(out.String(), line); n != times {
			t.Errorf("%q is said %d times, want %d:\n%s", line, n, times, out.String())
		}
	}
	p.Verbose = true
	p.Watch(trajectory.Event{Payload: trajectory.LimitChanged{From: 8, To: 7, Origin: "https://api.example", Reason: "status 429"}})
	if want := `level=INFO msg="concurrency 8 → 7: status 429"`; !strings.Contains(out.String(), want) {
		t.Errorf("with Verbose, %s is not said:\n%s", want, out.String())
	}
	if state := p.state(decor.Statistics{}); !strings.HasSuffix(state, ", 7 at once") {
		t.Errorf("behind the bar stands %q", state)
	}
	p.Watch(trajectory.Event{TaskID: "fab1e001", Payload: trajectory.TaskSealed{}})
	if state := p.state(decor.Statistics{}); !strings.HasSuffix(state, ", 7 at once, 1 sealed") {
		t.Errorf("behind the bar stands %q", state)
	}
}

// TestProgressOfAVote: a task is done with the last of its votes; an attempt that
// failed is none.
func TestProgressOfAVote(t *testing.T) {
	var out strings.Builder
	p := New(&out, false, 1, 2, false)
	for i, outcome := range []string{trajectory.Answered, trajectory.Errored, trajectory.NoAnswer} {
		p.Watch(trajectory.Event{TaskID: "fab1e001", Payload: trajectory.AttemptEnded{Outcome: outcome}})
		if done := strings.Contains(out.String(), "tasks=1/1"); done != (i == 2) {
			t.Errorf("after attempt %d: %s", i+1, out.String())
		}
	}
}

// TestProgressOfFailures: a task is done, too, when the failures that the plan
// allows are used up; what the run was stopped by is none of them.
func TestProgressOfFailures(t *testing.T) {
	var out strings.Builder
	p := New(&out, false, 1, 1, false)
	p.Planned(plan.Plan{Retry: plan.RetryPlan{AttemptsPerTask: 2}})
	for i, reason := range []string{trajectory.Infrastructure, trajectory.Interrupted, trajectory.RunStopped, trajectory.Infrastructure} {
		p.Watch(trajectory.Event{TaskID: "fab1e001", Payload: trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: reason}})
		if done := strings.Contains(out.String(), "tasks=1/1"); done != (i == 3) {
			t.Errorf("after attempt %d: %s", i+1, out.String())
		}
	}
}
