// Package pending makes what an agent does wait for the record of what it does that for.
//
// A reply that streams passes to the agent while it comes, and is recorded at its end. An agent may act before that: it hangs up
// once it has what it wants, or takes an event of a stream from the web. Recorded in the order of arrival, what it does then
// would stand before the reply, and would seem to be its own idea. So whoever passes a reply on says by [Reply.Came] from when
// on the agent may act on it, and whatever begins calls [Set.Wait] first.
//
// A wait only delays. A reply counts once it is recorded, and not before: where a wait ends early, what begins is recorded as
// if the reply had said nothing. It ends early where nothing came of the reply for 2 s, after 10 s in all, and with its context.
package pending

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// How long a wait for one reply takes at most: without a sign of life, and in all.
const (
	Quiet = 2 * time.Second
	Most  = 10 * time.Second
)

// Set are the replies of an attempt that are not recorded yet. It is safe for concurrent use, and its zero value is empty.
type Set struct {
	mu   sync.Mutex
	open map[*Reply]struct{} // usable, and not given up
}

// Reply is one of them. Its methods are safe for concurrent use, and a nil one does nothing.
type Reply struct {
	set      *Set
	recorded chan struct{}
	done     bool      // it is closed
	came     time.Time // when some of it came last
}

// Reply returns a new reply, for which nothing waits before it is usable.
func (s *Set) Reply() *Reply { return &Reply{set: s, recorded: make(chan struct{})} }

// Came notes that some of the reply is passed on; usable says that the agent may act on what it has then.
func (r *Reply) Came(usable bool) {
	if r == nil {
		return
	}
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	if r.came = time.Now(); usable && !r.done {
		if r.set.open == nil {
			r.set.open = map[*Reply]struct{}{}
		}
		r.set.open[r] = struct{}{}
	}
}

// Recorded ends all waits for the reply. Calls after the first do nothing.
func (r *Reply) Recorded() {
	if r == nil {
		return
	}
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	if !r.done {
		r.done = true
		delete(r.set.open, r)
		close(r.recorded)
	}
}

// Wait returns when the replies are recorded that are usable now, when the bounds say so, or when ctx ends. A reply that took too
// long is not waited for again, unless more of it is usable.
func (s *Set) Wait(ctx context.Context) {
	s.mu.Lock()
	replies := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	began := time.Now()
	for _, r := range replies {
		for last := began; !last.IsZero(); last = r.later(last, began) {
			timer := time.NewTimer(min(time.Until(last.Add(Quiet)), time.Until(began.Add(Most))))
			select {
			case <-r.recorded:
			case <-timer.C:
				continue
			case <-ctx.Done():
			}
			timer.Stop()
			break
		}
	}
}

// later returns when some of the reply came last, if that is after what was known and there is time left. Otherwise it gives the
// reply up, and returns the zero time.
func (r *Reply) later(known, began time.Time) time.Time {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	if r.came.After(known) && time.Since(began) < Most {
		return r.came
	}
	delete(r.set.open, r)
	return time.Time{}
}
