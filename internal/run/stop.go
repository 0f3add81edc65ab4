package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// How many attempts have to fail before the run stops.
const (
	// maxUnreachable is how many consecutive attempts may fail to reach the model, each after all its tries: every
	// further task would fail. A second attempt at the same task shows the same. Replies that cannot be used are not
	// counted: the task may be the cause.
	maxUnreachable = 10
	// maxRefused is how many tasks may be refused in the same way before any task had a reply: it is not what they ask
	// that the endpoint refuses.
	maxRefused = 4
)

// outage counts what shows that the endpoint is down, by the attempts that failed, in this process.
type outage struct {
	unreachable []string             // tasks of consecutive attempts that could not reach the model
	refused     map[refused][]string // tasks, each once
	replied     bool                 // a task had a reply, in any process
}

// refused is how an endpoint refuses a request for good.
type refused struct {
	status int
	code   string
}

// failed counts how an attempt at a task failed, and returns why the run is to stop, "" if it is not. text is the error
// in words that can be recorded.
func (o *outage) failed(task string, e *llm.Error, text string) string {
	if e.Retryable && (e.Status < 200 || e.Status > 299) {
		twice := slices.Contains(o.unreachable, task)
		o.unreachable = append(o.unreachable, task)
		if n := len(o.unreachable); n >= maxUnreachable || twice {
			return fmt.Sprintf("%d consecutive attempts could not reach the model; last error: %s", n, text)
		}
		return ""
	}
	o.unreachable = nil
	if e.Stop {
		return text
	}
	if o.replied || e.Retryable || e.Status < 400 || e.OneRequest() {
		return ""
	}
	how := refused{e.Status, e.Code}
	if !slices.Contains(o.refused[how], task) {
		if o.refused == nil {
			o.refused = map[refused][]string{}
		}
		o.refused[how] = append(o.refused[how], task)
	}
	if n := len(o.refused[how]); n >= maxRefused {
		return fmt.Sprintf("the endpoint refused the first request of %d tasks in the same way; last error: %s", n, text)
	}
	return ""
}

// saw takes an event of the journal.
func (o *outage) saw(e trajectory.Event) {
	if done, ok := e.Payload.(trajectory.ModelCallCompleted); ok && done.Error == nil {
		o.replied = true
	}
}

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
	asked.Tools = len(specs) > 0
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
