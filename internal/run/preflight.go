package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// preflight asks the models one question each before any task begins; a run that
// goes on asks the one that answers alone. It returns a *StopError where the run
// cannot go on. Failures that another try may help are left to the tasks.
func (r *Run) preflight(ctx context.Context, drain <-chan struct{}) error {
	models := r.cfg.Preflight
	if models == nil || r.preflown || r.fold.Manifest.NoPreflight || r.fold.Manifest.Cassette == plan.CassetteReplay || isClosed(drain) || r.allSettled() {
		return nil
	}
	r.preflown = true
	asked := r.metered(*models)
	asked.Tools = len(r.gate.Specs()) > 0
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
		if _, err := r.log.Append(trajectory.Draft{Payload: r.preflightEvent(got, failed)}); err != nil {
			return err
		}
		spent := failed != nil && failed.Code == errNoMoney().Code
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case got.Stops() && !spent:
			text, _ := r.cfg.Redact.Redact(fmt.Sprintf("preflight (%s): the model %q cannot be used: %v", p.Kind, p.Model, got.Err))
			return &StopError{p.Kind, text, got.Err}
		case spent, failed != nil && p.Kind == trajectory.PreflightModel, isClosed(drain):
			return nil
		}
	}
	return nil
}

// allSettled reports whether no attempt is left to be made.
func (r *Run) allSettled() bool {
	return !slices.ContainsFunc(r.fold.Tasks, func(t *rundir.Task) bool { return !r.settled(t) })
}

func (r *Run) preflightEvent(got preflight.Result, failed *llm.Error) trajectory.Preflight {
	label := r.cfg.Redact.Label
	e := trajectory.Preflight{CostMicroUSD: got.CostMicroUSD, Kind: got.Kind, LatencyMs: got.Latency.Milliseconds(), Model: got.Model,
		Requests: got.Requests, ResponseModel: label(got.ResponseModel), Tool: got.Tool, UsageReported: got.Usage.Reported,
		Tokens: trajectory.Tokens{Cached: got.Usage.Cached, In: got.Usage.In, Out: got.Usage.Out, Reasoning: got.Usage.Reasoning}}
	for _, id := range got.RequestIDs {
		e.RequestIDs = append(e.RequestIDs, label(id))
	}
	if failed != nil {
		message, _ := r.cfg.Redact.Redact(failed.Message)
		e.Error = &trajectory.CallError{Code: label(failed.Code), Message: message, Retryable: failed.Retryable, Status: failed.Status}
	}
	return e
}

// metered returns the models with clients that pay from the run's money.
func (r *Run) metered(m preflight.Models) preflight.Models {
	if r.money == nil {
		return m
	}
	meter := payingProbe{money: r.money, least: r.money.least(r.cfg.Set.Tasks, r.gate.Specs())}
	chat := func(c preflight.Chatter) preflight.Chatter {
		meter.chat = c
		return meter
	}
	m.Model.Client = chat(m.Model.Client)
	if m.Judge != nil {
		m.Judge = &preflight.Model{Client: chat(m.Judge.Client), Name: m.Judge.Name}
	}
	if m.Vision != nil {
		m.Vision = &preflight.Model{Client: chat(m.Vision.Client), Name: m.Vision.Name}
	}
	if m.Transcription != nil {
		meter.hear = m.Transcription.Client
		m.Transcription = &preflight.Hearing{Client: meter, Name: m.Transcription.Name}
	}
	return m
}

// payingProbe asks a model before the tasks, as long as the run's money is enough
// for that and for an attempt after it.
type payingProbe struct {
	money *purse
	least int64 // what an attempt sets aside
	chat  preflight.Chatter
	hear  preflight.Transcriber
}

// hold sets aside what a request may cost. Nothing else is under way.
func (p payingProbe) hold(need int64) (*share, bool) {
	both, enough := p.money.takeNow(need + p.least)
	if !enough {
		return nil, false
	}
	both.close()
	return p.money.takeNow(need)
}

// Chat implements preflight.Chatter.
func (p payingProbe) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	need := tools.NeedOfLook(r)
	need.In += int64(len(r.Schema)) / 2
	for _, t := range r.Tools {
		need.In += int64(len(t.Name)+len(t.Description)+len(t.Parameters)) / 2
	}
	held, enough := p.hold(p.money.request(need, int64(r.MaxTokens)))
	if !enough {
		return llm.Response{}, errNoMoney()
	}
	defer held.close()
	return p.chat.Chat(ctx, r, payer{o, held})
}

// Transcribe implements preflight.Transcriber.
func (p payingProbe) Transcribe(ctx context.Context, t llm.Transcription, o llm.Observer) (llm.Transcript, error) {
	held, enough := p.hold(p.money.request(tools.NeedOfRecording(t), 0))
	if !enough {
		return llm.Transcript{}, errNoMoney()
	}
	defer held.close()
	return p.hear.Transcribe(ctx, t, payer{o, held})
}
