package run

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// TestSlowAnswer: a good answer that takes long is waited for and used. Under a
// limit of an attempt's time it is cut there, and the model is asked once more, for
// what it has.
func TestSlowAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		latency, wall time.Duration
		cut           bool
	}{
		"no limit":        {700 * time.Millisecond, 0, false},
		"a limit far off": {300 * time.Millisecond, time.Hour, false},
		"a limit before":  {time.Second, 300 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := endpoint.Tasks{Count: 3, Turns: 2}
			server := serve(t, endpoint.Config{Tasks: tasks, Latency: tt.latency})
			c := generated(t, tasks, server.URL, nil)
			c.plan.Budgets.WallMs = tt.wall.Milliseconds()
			a := read(t, execute(t, t.TempDir(), c).Dir)
			if len(a.ended) != tasks.Count || a.retries != 0 || len(a.errors) != 0 {
				t.Errorf("%d attempts ended after %d calls, %d of them retries; %+v", len(a.ended), a.started, a.retries, a.errors)
			}
			cut := 0
			for _, n := range a.codes {
				cut += n
			}
			// The model of the endpoint has calculated nothing when it is asked for what it has. A machine may be so slow
			// that the time ends before anything was asked.
			s := a.Summary().Outcomes
			if tt.cut && (a.started != tasks.Count+cut || s.Failed != tasks.Count || len(a.executed) != 0) || !tt.cut && (cut != 0 || s.Solved != tasks.Count) {
				t.Errorf("calls failed by %v, %d tools ran; %+v", a.codes, len(a.executed), s)
			}
			a.charged(t, server)
		})
	}
}

// BenchmarkCancel measures how long a run takes to end once it is cancelled while
// the endpoint says nothing, or stops in the middle of its answers: ms/cancel.
func BenchmarkCancel(b *testing.B) {
	for _, kind := range []endpoint.Kind{endpoint.Silent, endpoint.Stalled} {
		b.Run(string(kind), func(b *testing.B) {
			var total, worst time.Duration
			for b.Loop() {
				d := cancelled(b, kind)
				total, worst = total+d, max(worst, d)
			}
			b.ReportMetric(ms(total)/float64(b.N), "ms/cancel")
			b.ReportMetric(ms(worst), "ms/worst")
		})
	}
}

// cancelled begins a run of 16 tasks that all wait for an endpoint, cancels it, and
// returns how long it then took to end.
func cancelled(b *testing.B, kind endpoint.Kind) time.Duration {
	b.Helper()
	tasks := endpoint.Tasks{Count: 16}
	server := serve(b, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{kind}, First: -1})
	c := generated(b, tasks, server.URL, nil)
	r, err := Create(b.TempDir(), c.plan, c.env)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Execute(ctx, nil) }()
	for server.Counts().Faulty[kind] < tasks.Count {
		runtime.Gosched()
	}
	began := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	return time.Since(began)
}
