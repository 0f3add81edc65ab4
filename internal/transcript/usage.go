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
	groups []Turns // without First and Count
	size   int     // turns of a group
	last   int     // the highest turn
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
		t.groups = append(t.groups, Turns{})
	}
	tokens, _, _ := trajectory.Usage(e.Payload)
	g := Turns{Tokens: tokens}
	switch p := e.Payload.(type) {
	case trajectory.ModelCallCompleted:
		g.ModelMs = p.LatencyMs
		if p.Error != nil {
			g.Failed = 1
		}
	case trajectory.TurnCompleted:
		g.TurnMs, g.Calls = p.LatencyMs, p.ToolCalls
	}
	t.groups[at].sum(g)
}

func (g *Turns) sum(o Turns) {
	g.Tokens, g.ModelMs, g.TurnMs = g.Tokens.Add(o.Tokens), g.ModelMs+o.ModelMs, g.TurnMs+o.TurnMs
	g.Calls, g.Failed = g.Calls+o.Calls, g.Failed+o.Failed
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
	all := slices.Clone(a.turns.groups)
	for i := range all {
		all[i].First = i*a.turns.size + 1
		all[i].Count = min(a.turns.size, a.turns.last-all[i].First+1)
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
