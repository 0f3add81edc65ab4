package transcript

import (
	"cmp"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// maxPoints bounds the points of a series: points that come close to each other become one.
const maxPoints = 500

// Spent is what was used from the beginning of the run to a time.
type Spent struct {
	At           time.Time
	CostMicroUSD int64 // of the requests whose price is known
	Unpriced     int64 // requests whose price is not known
	Tokens       trajectory.Tokens
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

// usage gathers what a run uses: at most maxPoints points, in order, the last of each step of time in which something was
// used.
type usage struct {
	total  Spent
	points []Spent
	step   time.Duration
}

func (u *usage) add(e trajectory.Event) {
	tokens, cost, requests := trajectory.Usage(e.Payload)
	if e.Seq > 0 && requests <= 0 && tokens == (trajectory.Tokens{}) {
		return
	}
	u.total.At = e.Time()
	u.total.Tokens = u.total.Tokens.Add(tokens)
	switch {
	case requests <= 0:
	case cost == nil:
		u.total.Unpriced += int64(requests)
	default:
		u.total.CostMicroUSD += *cost
	}
	u.step = max(u.step, time.Millisecond)
	u.points = u.join(u.points, u.total)
	for len(u.points) > maxPoints {
		u.step *= 2
		all := u.points
		u.points = u.points[:0]
		for _, p := range all {
			u.points = u.join(u.points, p)
		}
	}
}

// join adds a point, in place of the last one if that is of the same step.
func (u *usage) join(points []Spent, p Spent) []Spent {
	if n := len(points); n > 0 && points[n-1].At.Truncate(u.step).Equal(p.At.Truncate(u.step)) {
		points = points[:n-1]
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

// Spent returns what the run used so far, its judge and preflight included: at most 500 points, at the times of events.
func (j *Journal) Spent() []Spent {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return slices.Clone(j.usage.points)
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
