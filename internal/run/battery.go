package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// fit reports whether the judge withstood the null battery, which is put to it
// before the first verdict of it is wanted, once for all answers that wait for
// that. Only an outcome settles it, or the end of the money: after an outage the
// next answer has it tried again. The error is one that ends the grading.
func (r *Run) fit(ctx context.Context) (bool, error) {
	if r.fold.Manifest.Judge.Battery == "" { // the plan is older than batteries
		return true, nil
	}
	withstood, err, _ := r.trial.Do("", func() (any, error) { return r.stand(ctx) })
	return err == nil && withstood.(bool), err
}

// stand looks up how the judge stood the null battery, in the journal and then
// among the outcomes of earlier runs, or puts it to it.
func (r *Run) stand(ctx context.Context) (withstood bool, err error) {
	r.mu.Lock()
	before := r.fold.Battery()
	r.mu.Unlock()
	switch {
	case r.tried.Load():
		return false, nil
	case before != nil && (before.Withstood || before.Remembered || len(before.Paid) > 0):
		return before.Withstood, nil
	}
	e := &earlier{run: r}
	if withstood, found := e.stood(); found || e.err != nil {
		return withstood && e.err == nil, e.err
	}
	ask := r.asker(e)
	t := ask.try(ctx)
	b := r.newBattery()
	b.CostMicroUSD, b.LatencyMs, b.TokensIn, b.TokensOut = t.CostMicroUSD, t.LatencyMs, t.TokensIn, t.TokensOut
	b.Paid, b.Problem, b.Tries, b.Unreadable, b.Withstood = t.Paid, t.Err, t.Tries, t.Unreadable, t.Withstood()
	if t.Refused != nil {
		b.ErrorStatus = t.Refused.Status
	}
	spent := t.Refused != nil && t.Refused.Code == errNoMoney().Code
	if spent {
		b.Problem = prompt.RunMoneySpent
	}
	err = r.recordBattery(b, t.Put) // also what was cut off: it had a price
	if err := errors.Join(err, ctx.Err(), ask.refused(r.cfg.Redact)); err != nil {
		return false, err
	}
	if len(t.Paid) > 0 || b.Withstood {
		e.keepTrial(b.Withstood)
	}
	r.tried.Store(!b.Withstood && (b.Problem == "" || spent))
	return b.Withstood, nil
}

// Tried is how a judge stood the null battery, and what that took.
type Tried struct {
	judge.Trial
	CostMicroUSD        *int64 // nil where a price is unknown
	TokensIn, TokensOut int64
	LatencyMs           int64
	Refused             *llm.Error // why not all items were put to it; nil if they were, or if nothing is known
}

// TryJudge puts the null battery to a judge, without a run.
func TryJudge(ctx context.Context, e Endpoint, now func() time.Time) Tried {
	ask := &asker{endpoint: e, now: now, cost: new(int64)}
	return ask.try(ctx)
}

// try puts the null battery to the judge.
func (a *asker) try(ctx context.Context) Tried {
	t := Tried{Trial: judge.Judge{Asker: a}.Try(ctx)}
	t.CostMicroUSD, t.TokensIn, t.TokensOut, t.LatencyMs = a.cost, a.tokensIn, a.tokensOut, a.latencyMs
	if t.Err != "" {
		t.Refused = a.failed
	}
	return t
}

// NameTrial is what the outcome of the null battery of today is kept under.
func NameTrial(e Endpoint) judgecache.Trial {
	t := judgecache.Trial{Battery: judge.BatteryDigest(), Model: e.Name, Origin: e.Origin}
	for _, p := range prompt.Templates() {
		if p.ID == prompt.JudgeID {
			t.PromptDigest = p.Digest()
		}
	}
	return t
}

func (r *Run) newBattery() trajectory.Battery {
	plan := r.fold.Manifest.Judge
	return trajectory.Battery{CostMicroUSD: new(int64), Model: plan.Model, Prompt: prompt.JudgeID, SHA256: plan.Battery}
}

func (r *Run) recordBattery(b trajectory.Battery, put int) error {
	_, err := r.log.Append(trajectory.Draft{Payload: trajectory.SecurityEvent{Bad: len(b.Paid), Battery: &b, Checked: put, Kind: trajectory.JudgeBattery}})
	return err
}

// named is what the outcome of the battery is kept under.
func (e *earlier) named() judgecache.Trial {
	j := e.run.fold.Manifest.Judge
	return judgecache.Trial{Battery: j.Battery, Model: j.Model, Origin: j.Origin, PromptDigest: j.PromptSHA256}
}

// stood looks the outcome up that an earlier run had, and records it.
func (e *earlier) stood() (withstood, found bool) {
	if e.run.cfg.Verdicts == nil {
		return false, false
	}
	withstood, found, bad, err := e.run.cfg.Verdicts.Trial(e.named())
	if err != nil {
		e.run.warn(fmt.Errorf("reading the judge cache: %w", err))
		return false, false
	}
	e.tell(bad)
	if found && e.err == nil {
		b := e.run.newBattery()
		b.Remembered, b.Withstood = true, withstood
		e.err = e.run.recordBattery(b, 0)
	}
	return withstood, found
}

// keepTrial keeps the outcome for later runs. This one does not depend on it.
func (e *earlier) keepTrial(withstood bool) {
	if e.run.cfg.Verdicts == nil || e.run.lost != nil {
		return
	}
	if err := e.run.cfg.Verdicts.PutTrial(e.named(), withstood); err != nil {
		e.run.warn(fmt.Errorf("writing the judge cache: %w", err))
	}
}
