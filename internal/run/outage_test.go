package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures/endpoint"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestOutage: an endpoint that is away stops the run before it has lost a task,
// and the run goes on where it is back.
func TestOutage(t *testing.T) {
	for _, tt := range []struct{ tasks, atOnce int }{{30, 16}, {30, 8}, {30, 3}, {30, 1}, {3, 1}, {1, 1}} {
		t.Run(fmt.Sprintf("%d tasks, %d at once", tt.tasks, tt.atOnce), func(t *testing.T) {
			tasks := endpoint.Tasks{Count: tt.tasks, Turns: 3}
			server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.ServerError}, First: -1})
			c := generated(t, tasks, server.URL, nil)
			c.Concurrency = tt.atOnce
			r, err := Create(t.TempDir(), c)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			if stop := (*stopError)(nil); !errors.As(err, &stop) || !strings.Contains(stop.text, "in a row failed for want of the endpoint") {
				t.Fatalf("the run ended with %v", err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			server.Heal()
			again, err := Resume(r.Dir, c)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if err := again.Execute(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if s := verified(t, r.Dir).Summary(); s.Outcomes.Error != 0 || s.Outcomes.Solved+s.Outcomes.Failed != tasks.Count {
				t.Errorf("%+v", s.Outcomes)
			}
		})
	}
}

// TestRefusedConnectionIsReported: once, with the address, before the second try.
func TestRefusedConnectionIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var waits atomic.Int32
	c := generated(t, endpoint.Tasks{Count: 3, Turns: 3}, "http://"+address+"/v1", func(c *llm.Config) {
		c.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: 1})
		c.Sleep = func(ctx context.Context, d time.Duration) error {
			waits.Add(1)
			return shortened(ctx, d)
		}
	})
	var warnings []string
	c.Concurrency, c.Warn = 1, func(err error) {
		if waits.Load() > 0 {
			t.Errorf("%v after a wait", err)
		}
		warnings = append(warnings, err.Error())
	}
	r, err := Create(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); err == nil {
		t.Error("the run came to its end")
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], address) || !strings.Contains(warnings[0], "check --base-url") {
		t.Errorf("%q", warnings)
	}
}

// TestEmptyCompletionsArePaid: tries that are paid and of no use are held to the
// budget like any other.
func TestEmptyCompletionsArePaid(t *testing.T) {
	tasks := endpoint.Tasks{Count: 64, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.Empty}, First: -1})
	c := generated(t, tasks, server.URL, nil)
	c.MaxTokens, c.RunCost, c.Concurrency = 200, 100_000, 64
	s := verified(t, execute(t, t.TempDir(), c).Dir).Summary()
	if cost := server.Counts().CostMicroUSD; cost == 0 || cost > c.RunCost || *s.CostMicroUSD != cost {
		t.Errorf("cost %d of %d, the summary says %d", cost, c.RunCost, *s.CostMicroUSD)
	}
}

// TestMoneyOfAKilledProcess: what requests cost that a process did not live to
// hear the answer of counts against the budget.
func TestMoneyOfAKilledProcess(t *testing.T) {
	tasks := endpoint.Tasks{Count: 8, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.Stalled}, First: -1})
	c := generated(t, tasks, server.URL, nil)
	c.MaxTokens, c.RunCost = 200, 1_000_000
	ctx, cancel := context.WithCancel(context.Background())
	begun := 0
	c.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.ModelCallStarted); ok {
			if begun++; begun == tasks.Count {
				cancel()
			}
		}
	}
	r, err := Create(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	least := int64(tasks.Count) * int64(c.MaxTokens) * 4 // micro-USD a token written
	if spent := r.State().Spent(int64(c.MaxTokens) * 4); spent < least {
		t.Errorf("%d micro-USD are counted, want %d at least", spent, least)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
