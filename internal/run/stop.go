package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
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

// An UnfitError is why a run that was meant to be submitted cannot be: the audit will refuse it.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return "the run is not submittable any longer: " + e.Reason }

// unfitWatch follows a run that is to be submitted, from its first event, for the first thing that makes it unfit.
type unfitWatch struct {
	watch *audit.Watch // nil: the run is not to be submitted
	found atomic.Pointer[UnfitError]
	stop  atomic.Pointer[context.CancelCauseFunc] // cancels the attempts; nil: none began
}

// follow begins to watch a run of which nothing has happened.
func (u *unfitWatch) follow(m plan.Plan, gold map[string]string) {
	u.watch = nil
	u.found.Store(nil)
	if m.SubmitIntent {
		u.watch = audit.NewWatch(m, gold)
	}
}

// add takes the next event, and returns what it found if this is the first.
func (u *unfitWatch) add(ev trajectory.Event) *UnfitError {
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

// Unfit returns why a run that was meant to be submitted cannot be, as far as its events show by themselves; nil if
// nothing is known, or the run is not to be submitted.
func (r *Run) Unfit() *UnfitError { return r.unfit.found.Load() }

// stopsUnfit returns why no more may be spent on the run; nil if it is fit, or continues without evidence.
func (r *Run) stopsUnfit() *UnfitError {
	if r.env.Continue {
		return nil
	}
	return r.Unfit()
}

// reportUnfit warns, once in each process, and cancels the attempts if no more may be spent on the run.
func (r *Run) reportUnfit(e *UnfitError) {
	r.warn(fmt.Errorf("%w; gaia audit will refuse it", e))
	if stop := r.unfit.stop.Load(); stop != nil && !r.env.Continue {
		(*stop)(e)
	}
}

// preflight asks the models one question each before any task begins; a resumed run asks only the one that answers. It
// returns a *StopError where the run cannot go on. Failures that another try may help are left to the tasks.
func (r *Run) preflight(ctx context.Context, drain <-chan struct{}) error {
	m := r.fold.Manifest
	if r.env.Preflight == nil || r.asked || m.NoPreflight || m.Cassette == plan.CassetteReplay || isClosed(drain) || r.allSettled() {
		return nil
	}
	r.asked = true
	specs := r.gate.Specs()
	asked := *r.env.Preflight
	asked.Tools = len(specs) > 0 && m.Agent == nil
	if r.money != nil { // so much that an attempt is left after it
		spare := least(r.money, r.env.Set.Tasks, specs)
		asked = asked.By(func(chat preflight.Chatter, hear preflight.Transcriber) (preflight.Chatter, preflight.Transcriber) {
			paid := budget.Metered{Budget: func() *budget.Budget { return r.money }, Spare: spare, Viewer: chat, Hear: hear}
			return paid, paid
		})
	}
	probes := asked.Probes()
	if len(r.fold.Interruptions) > 0 {
		probes = probes[:1]
	}
	for _, p := range probes {
		got := p.Run(ctx)
		var failed *llm.Error
		if got.Err != nil && !errors.As(got.Err, &failed) {
			return got.Err
		}
		label := r.env.Redact.Label
		event := trajectory.Preflight{CostMicroUSD: got.CostMicroUSD, Kind: got.Kind, LatencyMs: got.Latency.Milliseconds(), Model: got.Model,
			Requests: got.Requests, ResponseModel: label(got.ResponseModel), Tool: got.Tool, UsageReported: got.Usage.Reported,
			Tokens: trajectory.Tokens{Cached: got.Usage.Cached, In: got.Usage.In, Out: got.Usage.Out, Reasoning: got.Usage.Reasoning}}
		for _, id := range got.RequestIDs {
			event.RequestIDs = append(event.RequestIDs, label(id))
		}
		if failed != nil {
			message, _ := r.env.Redact.Redact(failed.Message)
			event.Error = &trajectory.CallError{Code: label(failed.Code), Message: message, Retryable: failed.Retryable, Status: failed.Status}
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
