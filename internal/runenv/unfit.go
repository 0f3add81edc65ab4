package runenv

import (
	"context"
	"sync/atomic"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// An UnfitError is why a run that was meant to be submitted cannot be: the audit will refuse it.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return "the run is not submittable any longer: " + e.Reason }

// UnfitWatch follows a run that is to be submitted, from its first event, for the first thing that makes it unfit. The
// zero value watches nothing.
type UnfitWatch struct {
	watch *audit.Watch // nil: the run is not to be submitted
	found atomic.Pointer[UnfitError]
	stop  atomic.Pointer[context.CancelCauseFunc] // cancels the attempts; nil: none began
}

// Follow begins to watch a run of which nothing has happened.
func (u *UnfitWatch) Follow(m plan.Plan, gold map[string]string) {
	u.watch = nil
	u.found.Store(nil)
	if m.SubmitIntent {
		u.watch = audit.NewWatch(m, gold)
	}
}

// Add takes the next event, and returns what it found if this is the first.
func (u *UnfitWatch) Add(ev trajectory.Event) *UnfitError {
	if u.watch == nil || u.found.Load() != nil {
		return nil
	}
	why := u.watch.Add(ev)
	if why == "" {
		return nil
	}
	found := &UnfitError{why}
	u.found.Store(found)
	return found
}

// Found returns what makes the run unfit, nil if nothing is known to.
func (u *UnfitWatch) Found() *UnfitError { return u.found.Load() }

// Stops sets what cancels the attempts of the run, for [UnfitWatch.Stop].
func (u *UnfitWatch) Stops(cancel context.CancelCauseFunc) { u.stop.Store(&cancel) }

// Stop cancels the attempts, if any began.
func (u *UnfitWatch) Stop(e *UnfitError) {
	if stop := u.stop.Load(); stop != nil {
		(*stop)(e)
	}
}
