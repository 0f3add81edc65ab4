package run

import (
	"fmt"
	"sync/atomic"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// An UnfitError is why a run that was meant to be submitted cannot be: the audit
// will refuse it. Where that is wanted, it stops the run.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return "the run is not submittable any longer: " + e.Reason }

// early follows a run that is to be submitted, from its first event on, for the
// first thing that will keep it from being so.
type early struct {
	watch *audit.Watch // nil: nobody means to submit the run
	found atomic.Pointer[UnfitError]
}

// follow begins to watch a run of which nothing has happened.
func (e *early) follow(m plan.Plan, gold map[string]string) {
	e.watch = nil
	e.found.Store(nil)
	if m.SubmitIntent {
		e.watch = audit.NewWatch(m, gold)
	}
}

// add takes the next event, and returns what it found if this is the first.
func (e *early) add(ev trajectory.Event) *UnfitError {
	if e.watch == nil || e.found.Load() != nil {
		return nil
	}
	why := e.watch.Add(ev)
	if why == "" {
		return nil
	}
	found := &UnfitError{why}
	e.found.Store(found)
	return found
}

// Unfit is what keeps a run that was meant to be submitted from being so, as far
// as its events show by themselves; nil if nothing is known, or nobody means to.
func (r *Run) Unfit() *UnfitError { return r.early.found.Load() }

// unfit warns, each time a process takes the run up, and stops the spending where
// that is wanted.
func (r *Run) unfit(e *UnfitError) {
	r.warn(fmt.Errorf("%w; gaia audit will refuse it", e))
	if !r.cfg.Continue {
		r.stopped.Store(e)
		if stop := r.stop.Load(); stop != nil {
			(*stop)(e)
		}
	}
}
