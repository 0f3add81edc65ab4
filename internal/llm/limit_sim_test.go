package llm

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"testing"
)

// simulation is a server with a cap and more clients than it will ever serve, on a simulated clock.
// It drives a real Limiter from one goroutine, so that each run is the same.
type simulation struct {
	cap       int     // what exceeds it at once is refused
	refusal   float64 // how long that takes; an answer takes 0.5 to 1.5
	noise     float64 // share of requests that are refused whatever the load
	demand    int     // requests that there are at once at most; 0 = any number
	random    *rand.Rand
	limiter   *Limiter
	now       float64
	active    int
	ends      ending
	answers   int
	refusals  int
	area      float64 // of the limit over time
	since     float64
	mostLimit int
}

type end struct {
	at     float64
	slot   slot
	served bool
}

type ending []end

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ending) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// run goes on until so many requests have ended, and counts from zero.
func (s *simulation) run(t testing.TB, requests int) {
	t.Helper()
	s.answers, s.refusals, s.area, s.since, s.mostLimit = 0, 0, 0, s.now, 0
	for s.answers+s.refusals < requests {
		for len(s.ends) < s.limiter.Limit() && (s.demand == 0 || len(s.ends) < s.demand) {
			s.begin(t)
		}
		next := heap.Pop(&s.ends).(end)
		s.area += (next.at - s.now) * float64(s.limiter.Limit())
		s.mostLimit = max(s.mostLimit, s.limiter.Limit())
		s.now = next.at
		if next.served {
			s.active--
			s.answers++
			next.slot.release(Try{Number: 1, Response: &Response{}})
		} else {
			s.refusals++
			next.slot.release(Try{Number: 1, Err: &Error{Status: 429, Retryable: true}})
		}
	}
}

func (s *simulation) begin(t testing.TB) {
	t.Helper()
	slot, err := s.limiter.acquire(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.active >= s.cap || s.random.Float64() < s.noise {
		heap.Push(&s.ends, end{s.now + s.refusal*(0.5+s.random.Float64()), slot, false})
		return
	}
	s.active++
	heap.Push(&s.ends, end{s.now + 0.5 + s.random.Float64(), slot, true})
}

// mean is the limit, averaged over the time since run was called.
func (s *simulation) mean() float64 { return s.area / (s.now - s.since) }

func (s *simulation) refused() float64 {
	return float64(s.refusals) / float64(s.answers+s.refusals)
}

func simulate(t testing.TB, c LimiterConfig, s simulation) *simulation {
	s.random, s.limiter = rand.New(rand.NewPCG(1, uint64(s.cap))), NewLimiter(c)
	return &s
}

// The limit settles at the server's cap, whatever that is, how fast refusals come, and how many come
// that have nothing to do with it.
func TestSettles(t *testing.T) {
	for _, tc := range []struct {
		name       string
		refusal    float64
		noise      float64
		mostRefuse float64 // beside the noise
	}{
		{"at once", 0.001, 0, 0.03},
		{"soon", 0.02, 0, 0.03},
		{"at once, and some for nothing", 0.001, 0.05, 0.03},
		{"soon, and many for nothing", 0.02, 0.08, 0.04},
		{"after a fifth of an answer's time", 0.2, 0.03, 0.12},
		{"as slowly as answers", 1, 0, 0.18},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := 0 // from one cap to the next; the plain case has them all
			if tc.name != "at once" {
				step = 7
			}
			for capacity := 1; capacity <= 64; capacity += 1 + step*capacity/64 {
				s := simulate(t, LimiterConfig{Max: 100}, simulation{cap: capacity, refusal: tc.refusal, noise: tc.noise})
				s.run(t, 2000)
				s.run(t, 4000)
				// A fifth more of a small cap is less than one.
				if low, high := 0.8*float64(capacity), max(1.2*float64(capacity), float64(capacity)+1.1); s.mean() < low || s.mean() > high {
					t.Errorf("cap %d: the limit is %.2f on average", capacity, s.mean())
				}
				if s.refused() > tc.noise+tc.mostRefuse {
					t.Errorf("cap %d: %.1f %% are refused", capacity, 100*s.refused())
				}
			}
		})
	}
}

// A cap that changes is followed.
func TestFollowsCap(t *testing.T) {
	s := simulate(t, LimiterConfig{}, simulation{cap: 40, refusal: 0.02})
	for _, capacity := range []int{40, 8, 32, 4, 64, 1, 16} {
		s.cap = capacity
		s.run(t, 3000)
		s.run(t, 1000)
		if low, high := 0.8*float64(capacity), 1.2*float64(capacity); s.mean() < low || s.mean() > high {
			t.Errorf("cap %d: the limit is %.2f on average", capacity, s.mean())
		}
	}
}

// Without a refusal the limit grows to its maximum if it is used, and not at all if it is not.
func TestGrowth(t *testing.T) {
	for _, tc := range []struct {
		config       LimiterConfig
		demand, want int
	}{
		{LimiterConfig{}, 0, 64},
		{LimiterConfig{Max: 5}, 0, 5},
		{LimiterConfig{Start: 2, Max: 20}, 0, 20},
		{LimiterConfig{}, 7, 8},
		{LimiterConfig{}, 8, 9},
		{LimiterConfig{Start: 3}, 10, 11},
		{LimiterConfig{Fixed: 3}, 0, 3},
		{LimiterConfig{Fixed: 100}, 0, 100},
		{LimiterConfig{Fixed: 2, Start: 9, Max: 1}, 0, 2},
		{LimiterConfig{Start: 9, Max: 4}, 0, 4},
		{LimiterConfig{Start: -1, Max: -1, Fixed: -1}, 0, 64},
	} {
		s := simulate(t, tc.config, simulation{cap: 1000, demand: tc.demand})
		s.run(t, 3000)
		if got := s.limiter.Limit(); got != tc.want {
			t.Errorf("%+v with a demand of %d: limit %d, want %d", tc.config, tc.demand, got, tc.want)
		}
	}
	s := simulate(t, LimiterConfig{Fixed: 6}, simulation{cap: 2, refusal: 0.1})
	s.run(t, 1000)
	if got := s.limiter.Limit(); got != 6 {
		t.Errorf("a fixed limit became %d", got)
	}
}
