package run

import (
	"fmt"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// An UnfitError is why a run that was meant to be submitted stopped: the audit
// will refuse it, and no more is to be spent on it.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return "the run is not submittable any longer: " + e.Reason }

// early follows a run that is to be submitted and tells at once what will keep
// it from being so: the first thing, each time a process takes the run up.
type early struct {
	watch *audit.Watch // nil: nobody means to submit the run
	unfit func(*UnfitError)
	told  bool
}

// follow begins to watch the run, of which nothing has happened in this process.
func (e *early) follow(m ledger.Manifest, gold map[string]string, unfit func(*UnfitError)) {
	if m.SubmitIntent {
		e.watch, e.unfit = audit.NewWatch(m, gold), unfit
	}
}

func (e *early) add(ev trajectory.Event) {
	if e.watch == nil || e.told {
		return
	}
	if why := e.watch.Add(ev); why != "" {
		e.told = true
		e.unfit(&UnfitError{why})
	}
}

// unfit warns, and stops the spending where that is wanted.
func (r *Run) unfit(e *UnfitError) {
	r.warn(fmt.Errorf("%w; gaia audit will refuse it", e))
	if !r.cfg.Continue {
		r.stopped.Store(e)
		if stop := r.stop.Load(); stop != nil {
			(*stop)(e)
		}
	}
}
