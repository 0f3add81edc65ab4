package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// asking is a run of generated tasks that asks its models first, all at one URL.
func asking(t *testing.T, tasks endpoint.Tasks, url string) setup {
	t.Helper()
	c := generated(t, tasks, url, nil)
	client := llm.New(llm.Config{BaseURL: url, Prices: c.env.Prices, MaxTries: 3, Now: time.Now, Sleep: shortened})
	c.env.Preflight = &preflight.Models{Model: preflight.Model{Client: client, Name: endpoint.Model}, Now: time.Now, MaxTokens: c.plan.Model.MaxTokens}
	return c
}

// preflights returns what was asked before the tasks, by the journal.
func preflights(t *testing.T, dir string) (all []trajectory.Preflight) {
	t.Helper()
	if _, err := rundir.Verify(os.DirFS(dir), rundir.Options{Event: func(e trajectory.Event) error {
		if p, ok := e.Payload.(trajectory.Preflight); ok {
			all = append(all, p)
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return all
}

func kinds(all []trajectory.Preflight) (names []string) {
	for _, p := range all {
		names = append(names, p.Kind)
	}
	return names
}

// TestPreflight: what is asked before the tasks is recorded, paid from the run's money
// and counted apart from the tasks, and the journal agrees with the endpoint.
func TestPreflight(t *testing.T) {
	tasks := endpoint.Tasks{Count: 3}
	server := serve(t, endpoint.Config{Tasks: tasks})
	c := asking(t, tasks, server.URL)
	r := execute(t, t.TempDir(), c)
	found := verified(t, r.Dir)
	s, all := found.Summary(), preflights(t, r.Dir)
	if !found.Complete || found.Manifest.NoPreflight || !slices.Equal(kinds(all), []string{"model", "tools"}) || all[1].Tool != trajectory.ToolCalled || all[0].Requests+all[1].Requests != 3 {
		t.Fatalf("%+v", all)
	}
	if p := s.Preflight; p == nil || p.Requests != 3 || *p.CostMicroUSD == 0 || *p.CostMicroUSD+*s.CostMicroUSD != server.Counts().CostMicroUSD {
		t.Errorf("the summary has %+v beside %d, the endpoint %d", p, *s.CostMicroUSD, server.Counts().CostMicroUSD)
	}
	if found.Spent(0) != server.Counts().CostMicroUSD {
		t.Errorf("%d are spent, want %d", found.Spent(0), server.Counts().CostMicroUSD)
	}
}

// TestPreflightStops: a model that cannot be asked stops the run before any task
// begins, and the run goes on when it can. Only the model that answers is asked again.
func TestPreflightStops(t *testing.T) {
	tasks := endpoint.Tasks{Count: 2}
	about := func(text string) func([]byte) bool {
		return func(b []byte) bool { return bytes.Contains(b, []byte(text)) }
	}
	for _, tt := range []struct {
		asked, with string
		status      int
		body        string
	}{
		{"model", prompt.PreflightQuestion, 400, liteLLMNoModel},
		{"model", prompt.PreflightQuestion, 404, openAINoModel},
		{"model", prompt.PreflightQuestion, 401, wrongKey},
		{"model", prompt.PreflightQuestion, 200, "<html>"},
		{"tools", prompt.PreflightTool, 400, badSchema},
		{"judge", "umpire", 404, openAINoModel},
		{"vision", "seer", 404, openAINoModel},
		{"transcription", "listener", 400, liteLLMNoModel},
	} {
		t.Run(tt.asked+" "+tt.body[:6], func(t *testing.T) {
			server := serve(t, endpoint.Config{Tasks: tasks})
			front := &refuser{status: tt.status, body: tt.body, when: about(tt.with)}
			url := front.serve(t, server.URL)
			c := asking(t, tasks, url)
			client := llm.New(llm.Config{BaseURL: url, Prices: c.env.Prices, MaxTries: 1})
			switch tt.asked {
			case "judge":
				c.env.Judge = &grading.Judge{Client: client, Name: tt.with, Origin: "builtin:umpire"}
				c.env.Preflight.Judge = &preflight.Model{Client: client, Name: tt.with}
			case "vision":
				c.env.Viewer, c.plan.Vision = client, &plan.VisionPlan{Model: tt.with, Origin: "builtin:seer"}
				c.env.Preflight.Vision = &preflight.Model{Client: client, Name: tt.with}
			case "transcription":
				c.env.Transcriber, c.plan.Transcription = client, &plan.TranscriptionPlan{Model: tt.with, Origin: "builtin:listener"}
				c.env.Preflight.Transcription = &preflight.Hearing{Client: client, Name: tt.with}
			}
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			r.Close()
			stop := (*StopError)(nil)
			if !errors.As(err, &stop) || stop.Asked != tt.asked || !strings.Contains(err.Error(), "preflight ("+tt.asked+"): the model ") {
				t.Fatalf("the run ended with %v", err)
			}
			stopped(t, r.Dir, 0, tasks.Count)
			all := preflights(t, r.Dir)
			if last := all[len(all)-1]; last.Kind != tt.asked || last.Error == nil || last.Error.Code == "" {
				t.Errorf("%+v", all)
			}
			front.off.Store(true)
			finish(t, r.Dir, c)
			again := preflights(t, r.Dir)[len(all):]
			if s := verified(t, r.Dir).Summary(); !slices.Equal(kinds(again), []string{"model"}) || s.Outcomes.Solved != tasks.Count {
				t.Errorf("after the resume %+v, outcomes %+v", again, s.Outcomes)
			}
		})
	}
}

// TestPreflightGoesOn: what another try may help, a model that ignores the tool, and
// money that is not enough do not stop a run.
func TestPreflightGoesOn(t *testing.T) {
	tasks := endpoint.Tasks{Count: 2}
	for _, tt := range []struct {
		name   string
		status int
		body   string
		with   string
		cost   int64 // of the run; 0: not bounded
		kinds  []string
		tool   string
	}{
		{"down", 503, `{"error":{"message":"down"}}`, prompt.PreflightQuestion, 0, []string{"model"}, ""},
		{"filtered", 400, azureFiltered, prompt.PreflightQuestion, 0, []string{"model"}, ""},
		{"no call", 200, `{"id":"c","object":"chat.completion","model":"generated-model","usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14},"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"It reads seven."}}]}`,
			prompt.PreflightTool, 0, []string{"model", "tools"}, trajectory.ToolNone},
		{"little money", 0, "", "nothing has this", 0, []string{"model"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, endpoint.Config{Tasks: tasks})
			front := &refuser{status: tt.status, body: tt.body, when: func(b []byte) bool { return bytes.Contains(b, []byte(tt.with)) }}
			c := asking(t, tasks, front.serve(t, server.URL))
			if tt.name == "little money" {
				c.plan.Model.MaxTokens, c.env.Concurrency = 200, 1
				c.env.Preflight.MaxTokens = 200
				c.plan.Budgets.RunCostMicroUSD = 1
				var need *budget.LimitError
				if _, err := Create(t.TempDir(), c.plan, c.env); !errors.As(err, &need) {
					t.Fatal(err)
				}
				c.plan.Budgets.RunCostMicroUSD = need.Need // for an attempt, and for nothing before it
			}
			r := execute(t, t.TempDir(), c)
			all := preflights(t, r.Dir)
			if !slices.Equal(kinds(all), tt.kinds) || all[len(all)-1].Tool != tt.tool {
				t.Errorf("%+v", all)
			}
			s := verified(t, r.Dir).Summary()
			if tt.name == "little money" {
				if all[0].Requests != 0 || all[0].Error == nil || s.Attempts == 0 || *s.CostMicroUSD > c.plan.Budgets.RunCostMicroUSD {
					t.Errorf("%+v, %d attempts, cost %d of %d", all, s.Attempts, *s.CostMicroUSD, c.plan.Budgets.RunCostMicroUSD)
				}
				return
			}
			if s.Outcomes.Solved != tasks.Count || s.Preflight.Tool != tt.tool {
				t.Errorf("outcomes %+v, preflight %+v", s.Outcomes, s.Preflight)
			}
		})
	}
}

// TestNoPreflight: the plan of a run without preflight says so, and the run asks no
// model first. A replay has no preflight either.
func TestNoPreflight(t *testing.T) {
	tasks := endpoint.Tasks{Count: 1}
	server := serve(t, endpoint.Config{Tasks: tasks})
	c := generated(t, tasks, server.URL, nil)
	r := execute(t, t.TempDir(), c)
	if found := verified(t, r.Dir); !found.Manifest.NoPreflight || len(preflights(t, r.Dir)) > 0 || found.Summary().Preflight != nil {
		t.Errorf("%+v", found.Summary().Preflight)
	}
	c.plan.Cassette = plan.CassetteReplay
	if m, err := runenv.Complete(c.plan, c.env); err != nil || m.NoPreflight {
		t.Errorf("%v, %v", m.NoPreflight, err)
	}
}

// TestPreflightCut: a run that is cut off while it asks goes on.
func TestPreflightCut(t *testing.T) {
	tasks := endpoint.Tasks{Count: 1}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.Silent}, First: -1})
	c := asking(t, tasks, server.URL)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Execute(ctx, nil) }()
	for server.Counts().Requests == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r.Close()
	if found := verified(t, r.Dir); found.Complete || found.Stopped != nil {
		t.Errorf("complete %v, stopped %+v", found.Complete, found.Stopped)
	}
	server.Heal()
	finish(t, r.Dir, c)
	if s := verified(t, r.Dir).Summary(); s.Outcomes.Solved != 1 || s.Preflight == nil {
		t.Errorf("%+v, %+v", s.Outcomes, s.Preflight)
	}
}
