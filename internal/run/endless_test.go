package run

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// passing are the faults that do not end a run, each as often as it is worth:
// a silent server costs the client its patience, and is met less often.
func passing() []endpoint.Kind {
	var all []endpoint.Kind
	for _, f := range faultCases() {
		switch {
		case f.becomes == stops, f.kind == endpoint.NonsenseUsage: // the last leaves the cost unknown
		case f.kind == endpoint.Stalled, f.kind == endpoint.Silent:
			all = append(all, f.kind)
		default:
			all = append(all, slices.Repeat([]endpoint.Kind{f.kind}, 5)...)
		}
	}
	return all
}

// TestThousand runs some hundred tasks of three turns, in the thorough run a
// thousand, as many at once as the endpoint bears, against one that takes 12
// requests and fails every fifth in some way, and wants each task sealed once,
// each retry in the journal, the cost right to the request, and the limit near
// what the endpoint takes.
func TestThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const limit = 12
	tasks := endpoint.Tasks{Count: 300}
	if long.Thorough() {
		tasks.Count = 1000
	}
	server := serve(t, endpoint.Config{Tasks: tasks, Latency: 15 * time.Millisecond, Cap: limit, Faults: passing(), Percent: 20, Seed: 6, Huge: 2 << 20})
	c := generated(t, tasks, server.URL, func(c *llm.Config) {
		c.Transport, c.MaxBody, c.Timeout, c.MaxTries = transport(t), 1<<20, 2*time.Second, 8
		c.Jitter = rand.Float64
		c.Limiter = llm.NewLimiter(llm.LimiterConfig{})
	})
	c.env.Concurrency = 0
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	a := read(t, r.Dir)
	a.agrees(t, server)
	a.adapted(t, server, limit)
	counts := server.Counts()
	met := counts.Limited
	for _, n := range counts.Faulty {
		met += n
	}
	if len(counts.Faulty) < 20 || met < tasks.Count*6/10 {
		t.Errorf("only %d faults of %d kinds were met", met, len(counts.Faulty))
	}
	failed, lost, gaveUp := 0, 0, 0
	for _, n := range a.codes {
		failed += n
	}
	for _, e := range a.ended {
		switch e.Outcome {
		case trajectory.Errored:
			lost++
		case trajectory.NoAnswer:
			gaveUp++
		}
	}
	// A call that failed is tried again or is the last of its attempt.
	if failed != a.retries+lost+gaveUp || lost != len(a.errors) || a.Summary().RetriedCalls != a.retries {
		t.Errorf("%d calls failed, %d were retried, %d attempts were lost for it; the summary has %d retries", failed, a.retries, lost, a.Summary().RetriedCalls)
	}
	s := a.Summary()
	if o := s.Outcomes; len(a.sealed) != tasks.Count || o.Solved+o.Failed+o.Error != tasks.Count || o.Solved < tasks.Count*8/10 || s.Attempts != tasks.Count+lost-o.Error {
		t.Errorf("%d tasks were sealed, as %+v, after %d attempts of which %d were lost", len(a.sealed), o, s.Attempts, lost)
	}
	t.Logf("%d requests, %d beyond the cap, faults %v; %d retries, %d attempts lost, outcomes %+v", counts.Requests, counts.Limited, counts.Faulty, a.retries, lost, s.Outcomes)
}

// adapted holds the limit that the later half of the calls were begun under, and
// how many of them the endpoint had at once, against what it takes. A slow
// machine holds a request for longer than the endpoint does: the limit is higher
// then, and what the endpoint has at once is not. One too slow to ask for as much
// as the endpoint takes meets no refusals in that half.
func (a account) adapted(t *testing.T, s *endpoint.Server, limit int) {
	t.Helper()
	half := a.started / 2
	at, _ := slices.BinarySearch(a.crowded, half)
	refused := len(a.crowded) - at
	given, atOnce := mean(a.limits[half:]), mean(s.Concurrent()[half:])
	if given == 0 || atOnce > 1.2*float64(limit) || refused > 0 && given < 0.8*float64(limit) {
		t.Errorf("the limit settled at %.1f, and the endpoint, which takes %d, had %.1f at once and refused %d of %d", given, limit, atOnce, refused, a.started-half)
	}
	t.Logf("the limit settled at %.1f, and the endpoint, which takes %d, had %.1f at once and refused %d of %d", given, limit, atOnce, refused, a.started-half)
}

func mean(all []int) float64 {
	sum := 0
	for _, n := range all {
		sum += n
	}
	return float64(sum) / float64(max(len(all), 1))
}
