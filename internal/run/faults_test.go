package run

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// transport is a client's own, whose connections end with the test, and with
// them every goroutine that began in it.
func transport(t *testing.T) *http.Transport {
	t.Helper()
	before := runtime.NumGoroutine()
	own := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		for tries := 0; runtime.NumGoroutine() > before; tries++ { // one that has done its work may take a moment to end
			if tries > 1000 {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, then %d:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return own
}

// What a fault comes to.
const (
	goesOn  = "goes on"        // the reply is used
	again   = "again"          // the request is repeated in the same turn
	attempt = "second attempt" // the attempt ends
	gaveUp  = "no answer"      // the attempt ends without an answer, and is not made again
	stops   = "stops"          // the run ends, to be resumed
)

type faultCase struct {
	kind    endpoint.Kind
	code    string // in the journal
	becomes string
	told    time.Duration // what the server asks to be left alone for
}

func faultCases() []faultCase {
	return []faultCase{
		{endpoint.BadRequest, "invalid_request", attempt, 0},
		{endpoint.Unauthorized, "invalid_api_key", stops, 0},
		{endpoint.Payment, "payment_required", stops, 0},
		{endpoint.Forbidden, "forbidden", stops, 0},
		{endpoint.NoModel, "model_not_found", stops, 0},
		{endpoint.RequestTimeout, "request_timeout", again, 0},
		{endpoint.Conflict, "conflict", again, 0},
		{endpoint.LimitSeconds, "rate_limit_exceeded", again, 2 * time.Second},
		{endpoint.LimitDate, "rate_limit_exceeded", again, 2 * time.Second},
		{endpoint.LimitMs, "rate_limit_exceeded", again, 1500 * time.Millisecond},
		{endpoint.LimitReset, "rate_limit_exceeded", again, time.Second},
		{endpoint.Quota, "insufficient_quota", stops, 0},
		{endpoint.ServerError, "server_error", again, 0},
		{endpoint.BadGateway, "http_502", again, 0},
		{endpoint.Overloaded, "overloaded", again, 0},
		{endpoint.ErrorIn200, "server_error", again, 0},
		{endpoint.Page, "not_json", attempt, 0},
		{endpoint.WrongType, "", goesOn, 0},
		{endpoint.Truncated, "truncated_json", again, 0},
		{endpoint.Cut, "transport", again, 0},
		{endpoint.Stalled, "timeout", again, 0},
		{endpoint.Silent, "timeout", again, 0},
		{endpoint.Huge, "response_too_large", attempt, 0},
		{endpoint.Empty, "empty_completion", again, 0},
		{endpoint.WrongForm, "invalid_response", again, 0},
		{endpoint.UnknownTool, "", goesOn, 0},
		{endpoint.BrokenArguments, "", goesOn, 0},
		{endpoint.DuplicateIDs, "", goesOn, 0},
		{endpoint.NonsenseUsage, "", goesOn, 0},
		{endpoint.ContextLength, "context_length_exceeded", gaveUp, 0},
	}
}

// waits keeps how long a client was to wait, and does not.
type waits struct {
	mu  sync.Mutex
	all []time.Duration
}

func (w *waits) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, d)
	return ctx.Err()
}

// faulty is a run of generated tasks whose client does not wait and gives up
// on a silent server soon.
func faulty(t *testing.T, tasks endpoint.Tasks, server *endpoint.Server, kind endpoint.Kind, w *waits) setup {
	t.Helper()
	c := generated(t, tasks, server.URL, func(c *llm.Config) {
		c.Transport, c.Sleep, c.MaxBody = transport(t), w.sleep, 1<<20
		if kind == endpoint.Stalled || kind == endpoint.Silent {
			c.Timeout, c.MaxTries = 300*time.Millisecond, 2
		}
	})
	c.plan.SubmitIntent = kind != endpoint.NonsenseUsage // no one would submit a run whose usage is not known
	return c
}

// TestFaultOnce meets each fault with the first request of a run and wants the
// run to end well, the journal to say what happened, and both accounts to agree.
func TestFaultOnce(t *testing.T) {
	if len(faultCases()) != len(endpoint.Kinds()) {
		t.Fatalf("%d faults are served, %d tested", len(endpoint.Kinds()), len(faultCases()))
	}
	tasks := endpoint.Tasks{Count: 1}
	for _, f := range faultCases() {
		t.Run(string(f.kind), func(t *testing.T) {
			w := &waits{}
			server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{f.kind}, First: 1, Huge: 2 << 20})
			c := faulty(t, tasks, server, f.kind, w)
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			r.Close()
			if stop := new(StopError); errors.As(err, &stop) != (f.becomes == stops) || f.becomes != stops && err != nil {
				t.Fatalf("the run ended with %v", err)
			}
			if f.becomes == stops {
				finish(t, r.Dir, c)
			}
			a := read(t, r.Dir)
			a.agrees(t, server)
			a.became(t, f)
			if f.told > 0 && (len(w.all) != 1 || w.all[0] < f.told || w.all[0] > f.told*11/10) {
				t.Errorf("the client waited %v, was told %v", w.all, f.told)
			}
			if s := a.Summary(); s.Outcomes.Solved != 1 && f.becomes != gaveUp {
				t.Errorf("outcomes are %+v", s.Outcomes)
			}
		})
	}
}

// became holds the journal against what a fault, met once, must come to.
func (a account) became(t *testing.T, f faultCase) {
	t.Helper()
	want := map[string]int{f.code: 1}
	if f.code == "" {
		want = map[string]int{}
	}
	if !maps.Equal(a.codes, want) {
		t.Errorf("errors of calls are %v, want %v", a.codes, want)
	}
	attempts, retries, reason, outcome := 1, 0, "", trajectory.Answered
	switch f.becomes {
	case again:
		retries = 1
	case attempt:
		attempts, reason = 2, trajectory.Infrastructure
	case stops:
		attempts, reason = 2, trajectory.RunStopped
	case gaveUp:
		outcome = trajectory.NoAnswer
	}
	if a.retries != retries || a.Summary().RetriedCalls != retries || len(a.ended) != attempts || a.ended[len(a.ended)-1].Outcome != outcome {
		t.Errorf("%d retries (the summary says %d), attempts ended %+v", a.retries, a.Summary().RetriedCalls, a.ended)
	}
	if attempts == 2 && (a.ended[0].Outcome != trajectory.Errored || a.ended[0].Reason != reason ||
		len(a.errors) != 1 || a.errors[0].Stage != "model" || a.errors[0].Code != f.code) {
		t.Errorf("the first attempt ended %+v by %+v", a.ended[0], a.errors)
	}
	switch f.kind {
	case endpoint.UnknownTool:
		if a.proposed[0].Name != "grind_flour" || a.decided[0].Decision != "deny" {
			t.Errorf("proposed %+v, decided %+v", a.proposed[0], a.decided[0])
		}
	case endpoint.BrokenArguments:
		if a.proposed[0].Malformed == "" || a.decided[0].Decision != "deny" {
			t.Errorf("proposed %+v, decided %+v", a.proposed[0], a.decided[0])
		}
	case endpoint.DuplicateIDs:
		if len(a.executed) < 2 || a.executed[0].Name != "list_files" || a.executed[1].Name != "list_files" {
			t.Errorf("executed were %+v", a.executed)
		}
	case endpoint.NonsenseUsage:
		if a.unpriced != 1 || a.Summary().CostMicroUSD != nil {
			t.Errorf("%d calls are unpriced, the run cost %v", a.unpriced, a.Summary().CostMicroUSD)
		}
	}
}

// TestFaultAlways meets a fault with every request: the run ends all the same,
// with every task sealed, or stops after no more requests than were under way,
// and can be resumed when the endpoint is repaired.
func TestFaultAlways(t *testing.T) {
	tasks := endpoint.Tasks{Count: 4} // two attempts at each are no outage
	right := 0
	for n := range tasks.Count {
		if tasks.Right(n) {
			right++
		}
	}
	for _, f := range faultCases() {
		t.Run(string(f.kind), func(t *testing.T) {
			server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{f.kind}, First: -1, Huge: 2 << 20})
			c := faulty(t, tasks, server, f.kind, &waits{})
			c.env.Concurrency, c.plan.Budgets.Turns = tasks.Count, 6
			if f.becomes == stops {
				c.env.Concurrency = 2
			}
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			r.Close()
			// What is of no use may be the task's fault; else nothing works, and the run stops.
			useless := slices.Contains([]endpoint.Kind{endpoint.Truncated, endpoint.Empty, endpoint.WrongForm}, f.kind)
			stopped := f.becomes == stops || f.kind == endpoint.BadRequest || f.becomes == again && !useless
			if stop := new(StopError); errors.As(err, &stop) != stopped || !stopped && err != nil {
				t.Fatalf("the run ended with %v", err)
			}
			if stopped {
				if n := server.Counts().Requests; f.becomes == stops && n > c.env.Concurrency {
					t.Errorf("the run stopped after %d requests", n)
				}
				server.Heal()
				finish(t, r.Dir, c)
			}
			a := read(t, r.Dir)
			if !stopped { // a request whose answer no one waits for may not be recorded as it ended
				a.agrees(t, server)
			}
			s := a.Summary().Outcomes
			switch {
			case stopped:
				if s.Solved != right || s.Failed != tasks.Count-right {
					t.Errorf("outcomes are %+v", s)
				}
			case f.becomes == gaveUp:
				if s.Failed != tasks.Count || a.Summary().Attempts != tasks.Count {
					t.Errorf("outcomes are %+v after %d attempts", s, a.Summary().Attempts)
				}
			case f.becomes == attempt, f.becomes == again:
				if s.Error != tasks.Count || a.Summary().Attempts != 2*tasks.Count {
					t.Errorf("outcomes are %+v after %d attempts", s, a.Summary().Attempts)
				}
			}
		})
	}
}

// TestCancelled: a run that is cancelled while the endpoint says nothing, stops
// in the middle of an answer or asks for patience ends then, and goes on when
// it is resumed.
func TestCancelled(t *testing.T) {
	tasks := endpoint.Tasks{Count: 4}
	for _, kind := range []endpoint.Kind{endpoint.Silent, endpoint.Stalled, endpoint.LimitSeconds} {
		t.Run(string(kind), func(t *testing.T) {
			server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{kind}, First: -1})
			waiting := make(chan struct{}, 100)
			c := generated(t, tasks, server.URL, func(c *llm.Config) {
				c.Transport = transport(t)
				c.Sleep = func(ctx context.Context, _ time.Duration) error {
					waiting <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
			})
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- r.Execute(ctx, nil) }()
			for server.Counts().Faulty[kind] < tasks.Count {
				time.Sleep(time.Millisecond)
			}
			if kind == endpoint.LimitSeconds {
				for range tasks.Count {
					<-waiting
				}
			}
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the run ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the run did not end")
			}
			r.Close()
			server.Heal()
			finish(t, r.Dir, c)
			a := read(t, r.Dir)
			interruptions := 0
			for _, e := range a.ended {
				if e.Reason == trajectory.Interrupted {
					interruptions++
				}
			}
			if interruptions != tasks.Count || a.Summary().Outcomes.Solved != 3 {
				t.Errorf("attempts ended %+v, outcomes %+v", a.ended, a.Summary().Outcomes)
			}
			if c := server.Counts(); a.started != c.Requests || !slices.Contains([]int{0, 4}, a.codes["cancelled"]) {
				t.Errorf("%d requests arrived, the journal has %d; errors of calls %v", c.Requests, a.started, a.codes)
			}
		})
	}
}
