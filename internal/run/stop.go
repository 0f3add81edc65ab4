package run

import (
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/trajectory"
)

// A StopError means that a model which the run needs cannot be asked. The run is closed, and continues when it is
// resumed. Its text is without secrets.
type StopError struct {
	Asked string // the kind of model, as preflight names them: trajectory.PreflightModel and so on
	text  string
	cause error
}

func (e *StopError) Error() string { return e.text }
func (e *StopError) Unwrap() error { return e.cause }

// Unfit returns why a run that was meant to be submitted cannot be, as far as its events show by themselves; nil if
// nothing is known, or the run is not to be submitted.
func (r *Run) Unfit() *runenv.UnfitError { return r.unfit.Found() }

// stopsUnfit returns why no more may be spent on the run; nil if it is fit, or continues without evidence.
func (r *Run) stopsUnfit() *runenv.UnfitError {
	if r.env.Continue {
		return nil
	}
	return r.Unfit()
}

// reportUnfit warns, once in each process, and cancels the attempts if no more may be spent on the run.
func (r *Run) reportUnfit(e *runenv.UnfitError) {
	r.warn(fmt.Errorf("%w; gaia audit will refuse it", e))
	if !r.env.Continue {
		r.unfit.Stop(e)
	}
}

// preflight asks the models one question each before any task begins; a resumed run asks only the one that answers. It
// returns a *StopError where the run cannot go on. Failures that another try may help are left to the tasks.
func (r *Run) preflight(ctx context.Context, drain <-chan struct{}) error {
	m := r.fold.Manifest
	if r.env.Preflight == nil || r.asked || m.NoPreflight || m.Cassette == plan.CassetteReplay || isClosed(drain) || !r.isWorker() && r.allSettled() {
		return nil
	}
	r.asked = true
	specs := r.gate.Specs()
	asked := *r.env.Preflight
	asked.Tools = len(specs) > 0 && m.Agent == nil
	if r.money != nil { // so much that an attempt is left after it
		spare := runenv.Least(r.money, r.env.Set.Tasks, specs)
		asked = asked.By(func(chat preflight.Chatter, hear preflight.Transcriber) (preflight.Chatter, preflight.Transcriber) {
			paid := budget.Metered{Budget: func() *budget.Budget { return r.money }, Spare: spare, Viewer: chat, Hear: hear}
			return paid, paid
		})
	}
	if r.part != nil { // which grades nothing
		asked.Judge = nil
	}
	probes := asked.Probes()
	if len(r.fold.Interruptions) > 0 {
		probes = probes[:1]
	}
	for _, p := range probes {
		got := p.Run(ctx)
		event, failed := got.Event(r.env.Redact)
		if failed == nil && got.Err != nil {
			return got.Err
		}
		if _, err := r.log.Append(trajectory.Draft{Payload: event}); err != nil {
			return err
		}
		spent := budget.IsSpent(failed)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case got.Stops() && !spent:
			text, _ := r.env.Redact.Redact(fmt.Sprintf("preflight (%s): the model %q cannot be used: %v", p.Kind, p.Model, got.Err))
			return &StopError{p.Kind, text, got.Err}
		case spent, failed != nil && p.Kind == trajectory.PreflightModel, isClosed(drain):
			return nil
		}
	}
	return nil
}
