package transcript

import (
	"cmp"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// maxPoints bounds the points of a series: points that come close to each other become one.
const maxPoints = 500

// Usage is what a run used over time, its judge and preflight included. Times are those of events.
type Usage struct {
	Spent   []Spent
	Running []Running
}

// Spent is what was used from the beginning of the run to a time.
type Spent struct {
	At           time.Time
	CostMicroUSD int64 // of the requests whose price is known
	Unpriced     int64 // requests whose price is not known
	Tokens       trajectory.Tokens
}

// Running counts the attempts that are under way from a time on.
type Running struct {
	At   time.Time
	Now  int // at the end of what the point stands for
	Most int // the most in it
}

// Turns is what the turns of an attempt used, from turn First on.
type Turns struct {
	First, Count int
	Tokens       trajectory.Tokens
	ModelMs      int64 // of model calls
	TurnMs       int64 // of turns that were completed
	Calls        int   // of tools, in those
	Failed       int   // model calls that failed
}

// usage gathers what a run uses.
type usage struct {
	spent   series[Spent]
	running series[Running]
	total   Spent
	open    int
}

func (u *usage) add(e trajectory.Event) {
	switch e.Payload.(type) {
	case trajectory.TaskStarted:
		u.open++
	case trajectory.AttemptEnded:
		u.open--
	}
	tokens, cost, requests := trajectory.Usage(e.Payload)
	changes := e.Seq == 0 || requests > 0 || tokens != trajectory.Tokens{}
	if changes {
		u.total.At = e.Time()
		u.total.Tokens = u.total.Tokens.Add(tokens)
		switch {
		case requests <= 0:
		case cost == nil:
			u.total.Unpriced += int64(requests)
		default:
			u.total.CostMicroUSD += *cost
		}
		u.spent.add(u.total)
	}
	if n := len(u.running.points); n == 0 || u.running.points[n-1].Now != u.open {
		u.running.add(Running{e.Time(), u.open, u.open})
	}
}

// point is a value at a time, that takes in a later one.
type point[P any] interface {
	when() time.Time
	with(later P) P
}

func (p Spent) when() time.Time        { return p.At }
func (p Spent) with(later Spent) Spent { return later }

func (p Running) when() time.Time { return p.At }
func (p Running) with(later Running) Running {
	return Running{p.At, later.Now, max(p.Most, later.Most)}
}

// series has at most maxPoints points, in order: one for each step of time in which something was added.
type series[P point[P]] struct {
	points []P
	step   time.Duration
}

func (s *series[P]) add(p P) {
	s.step = max(s.step, time.Millisecond)
	s.points = s.join(s.points, p)
	for len(s.points) > maxPoints {
		s.step *= 2
		all := s.points
		s.points = s.points[:0]
		for _, p := range all {
			s.points = s.join(s.points, p)
		}
	}
}

// join adds a point, or takes it into the last one.
func (s *series[P]) join(points []P, p P) []P {
	if n := len(points); n > 0 && points[n-1].when().Truncate(s.step).Equal(p.when().Truncate(s.step)) {
		points[n-1] = points[n-1].with(p)
		return points
	}
	return append(points, p)
}

// turns gathers what the turns of an attempt use, in at most maxPoints groups of as many turns.
type turns struct {
	groups []turnGroup
	size   int // turns of a group
	last   int // the highest turn
}

type turnGroup struct {
	in, out, cached, reasoning int64
	modelMs, turnMs            int64
	calls, failed              int32
}

func (t *turns) add(e trajectory.Event) {
	if e.Turn == 0 {
		return
	}
	t.size, t.last = max(t.size, 1), max(t.last, e.Turn)
	for (e.Turn-1)/t.size >= maxPoints {
		t.size *= 2
		for i := range t.groups {
			if g := t.groups[i]; i%2 == 0 {
				t.groups[i/2] = g
			} else {
				t.groups[i/2].sum(g)
			}
		}
		t.groups = t.groups[:(len(t.groups)+1)/2]
	}
	at := (e.Turn - 1) / t.size
	for len(t.groups) <= at {
		t.groups = append(t.groups, turnGroup{})
	}
	tokens, _, _ := trajectory.Usage(e.Payload)
	g := turnGroup{in: tokens.In, out: tokens.Out, cached: tokens.Cached, reasoning: tokens.Reasoning}
	switch p := e.Payload.(type) {
	case trajectory.ModelCallCompleted:
		g.modelMs = p.LatencyMs
		if p.Error != nil {
			g.failed = 1
		}
	case trajectory.TurnCompleted:
		g.turnMs, g.calls = p.LatencyMs, int32(p.ToolCalls)
	}
	t.groups[at].sum(g)
}

func (g *turnGroup) sum(o turnGroup) {
	g.in, g.out, g.cached, g.reasoning = g.in+o.in, g.out+o.out, g.cached+o.cached, g.reasoning+o.reasoning
	g.modelMs, g.turnMs, g.calls = g.modelMs+o.modelMs, g.turnMs+o.turnMs, g.calls+o.calls
	g.failed += o.failed
}

// Usage returns what the run used so far, in at most 500 points each.
func (j *Journal) Usage() Usage {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return Usage{slices.Clone(j.usage.spent.points), slices.Clone(j.usage.running.points)}
}

// Turns returns what the turns of an attempt used so far, in at most 500 groups of as many turns; nil if there is no such
// attempt, or it has no turns.
func (j *Journal) Turns(task string, attempt int) []Turns {
	j.mu.RLock()
	defer j.mu.RUnlock()
	a := j.attempts[place{task, attempt}]
	if a == nil {
		return nil
	}
	all := make([]Turns, len(a.turns.groups))
	for i, g := range a.turns.groups {
		first := i*a.turns.size + 1
		all[i] = Turns{First: first, Count: min(a.turns.size, a.turns.last-first+1), Tokens: trajectory.Tokens{Cached: g.cached, In: g.in, Out: g.out, Reasoning: g.reasoning},
			ModelMs: g.modelMs, TurnMs: g.turnMs, Calls: int(g.calls), Failed: int(g.failed)}
	}
	return all
}

// Span is an attempt in time.
type Span struct {
	Task        string
	Attempt     int
	Began, Last time.Time // of its first and last event so far
	Ended       bool
}

// Spans returns the attempts in the order in which they began.
func (j *Journal) Spans() []Span {
	j.mu.RLock()
	defer j.mu.RUnlock()
	var all []Span
	for at, a := range j.attempts {
		if at.attempt > 0 && !a.began.IsZero() {
			all = append(all, Span{at.task, at.attempt, a.began, a.last, a.ended})
		}
	}
	slices.SortFunc(all, func(a, b Span) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}
