package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// errUntried is why an answer is not judged that found the judge out of reach when
// it was put to the null battery.
type errUntried struct{ why *llm.Error } // nil: it is not known why

func (e errUntried) Error() string { return "the null battery could not be put to the judge" }

// judgeWithstood reports whether the judge withstood the null battery, which is put
// to it before the first verdict of it is wanted, once for all answers that wait
// for that. An errUntried settles nothing: after an outage the next answer has it
// put again, within reason. Any other error ends the grading.
func (r *Run) judgeWithstood(ctx context.Context) (bool, error) {
	if r.fold.Manifest.Judge.Battery == "" { // the plan is older than batteries
		return true, nil
	}
	withstood, err, _ := r.battery.Do("", func() (any, error) { return r.putBattery(ctx) })
	return err == nil && withstood.(bool), err
}

// putBattery looks up how the judge stood the null battery, in the journal and then
// in the judge cache, or puts it to it.
func (r *Run) putBattery(ctx context.Context) (withstood bool, err error) {
	r.mu.Lock()
	before, settled := r.fold.Battery()
	r.mu.Unlock()
	if settled {
		return before.Withstood, nil
	}
	if failed := r.batteryFailed.Load(); failed != nil {
		return false, failed.err
	}
	m := &judgeMemory{run: r}
	if withstood, found := m.battery(); found || m.err != nil {
		return withstood && m.err == nil, m.err
	}
	ask := r.asker(m)
	t := ask.putBattery(ctx)
	spent := t.Why != nil && t.Why.Code == errNoMoney().Code
	if spent {
		t.Err = prompt.RunMoneySpent
	}
	_, err = r.log.Append(trajectory.Draft{Payload: batteryEvent(r.fold.Manifest.Judge, t)}) // also what was cut off: it had a price
	if err == nil && t.Lasts() {
		m.keepBattery(t.Withstood())
	}
	if t.Err != "" {
		err = errors.Join(err, ask.stop(r.cfg.Redact))
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return false, err
	}
	switch {
	case t.Withstood() || len(t.Paid) > 0:
	case t.Err == "":
		r.batteryFailed.Store(&outcome{})
	case spent, t.Put > 0 && r.cutOff.Add(1) >= maxCutOff:
		r.batteryFailed.Store(&outcome{errUntried{t.Why}})
	}
	if t.Err != "" && len(t.Paid) == 0 {
		return false, errUntried{t.Why}
	}
	return t.Withstood(), nil
}

// maxCutOff is how many null batteries are begun in a process and not brought to
// their end. One that never gets past an item would be begun for every answer.
const maxCutOff = 2

// outcome is what the null battery came to in this process, where that is no
// settled matter of the run: the error is nil if the judge did not withstand it.
type outcome struct{ err error }

// BatteryResult is how a judge stood the null battery, and what that took.
type BatteryResult struct {
	judge.BatteryResult
	CostMicroUSD        *int64 // nil where a price is unknown
	TokensIn, TokensOut int64
	LatencyMs           int64
	Why                 *llm.Error // not all items were put to it; nil if they were, or if it is not known
}

// Lasts reports whether the outcome holds for later runs: that the judge paid does,
// and that all items reached it and it withstood them. What a filter keeps from it
// today, or what was no verdict, may be one tomorrow.
func (r BatteryResult) Lasts() bool {
	return len(r.Paid) > 0 || r.Withstood() && len(r.Refused) == 0
}

// PutBattery puts the null battery to a judge, without a run.
func PutBattery(ctx context.Context, e Endpoint, now func() time.Time) BatteryResult {
	return (&asker{endpoint: e, now: now, cost: new(int64)}).putBattery(ctx)
}

func (a *asker) putBattery(ctx context.Context) BatteryResult {
	r := BatteryResult{BatteryResult: judge.Judge{Asker: a}.PutBattery(ctx)}
	r.CostMicroUSD, r.TokensIn, r.TokensOut, r.LatencyMs = a.cost, a.tokensIn, a.tokensOut, a.latencyMs
	if r.Err != "" {
		r.Why = a.failed
	}
	return r
}

// refusal marks the error of a request that the endpoint will not have answered,
// while it may answer others: it finds fault with it, or forbids it.
func refusal(e *llm.Error) error {
	empty := e.Code == llm.EmptyCompletion // by then it was asked for again and again
	if !empty && (e.Status == 0 || e.Retryable || e.Stop && e.Status != http.StatusForbidden) {
		return e
	}
	return fmt.Errorf("%w: %w", judge.ErrRefused, e)
}

// BatteryKey is what the outcome of today's null battery is kept under.
func BatteryKey(e Endpoint) judgecache.BatteryContext {
	return judgecache.BatteryContext{Battery: judge.BatteryDigest(), Model: e.Name, Origin: e.place(), PromptDigest: prompt.JudgeDigest()}
}

// place is what verdicts of the endpoint are known by: hosts may have other models
// at other paths.
func (e Endpoint) place() string { return cmp.Or(e.URL, e.Origin) }

// newBattery begins an event of a null battery by the plan.
func newBattery(plan *plan.JudgePlan) trajectory.JudgeBattery {
	return trajectory.JudgeBattery{CostMicroUSD: new(int64), Model: plan.Model, Prompt: plan.Prompt, SHA256: plan.Battery}
}

func batteryEvent(plan *plan.JudgePlan, t BatteryResult) trajectory.JudgeBattery {
	b := newBattery(plan)
	b.CostMicroUSD, b.LatencyMs, b.TokensIn, b.TokensOut = t.CostMicroUSD, t.LatencyMs, t.TokensIn, t.TokensOut
	b.Paid, b.Problem, b.Put, b.Refused, b.Tries, b.Unreadable, b.Withstood = t.Paid, t.Err, t.Put, t.Refused, t.Tries, t.Unreadable, t.Withstood()
	if t.Why != nil {
		b.ErrorStatus = t.Why.Status
	}
	return b
}

// battery looks the outcome up that an earlier run had, and records it.
func (m *judgeMemory) battery() (withstood, found bool) {
	cache := m.run.cfg.verdicts()
	if cache == nil {
		return false, false
	}
	withstood, found, bad, err := cache.GetBattery(m.batteryKey())
	if err != nil {
		m.run.warn(fmt.Errorf("reading the judge cache: %w", err))
		return false, false
	}
	m.tell(bad)
	if found && m.err == nil {
		b := newBattery(m.run.fold.Manifest.Judge)
		b.Remembered, b.Withstood = true, withstood
		_, m.err = m.run.log.Append(trajectory.Draft{Payload: b})
	}
	return withstood, found
}

// batteryKey is BatteryKey by the plan, whose battery may be another than today's.
func (m *judgeMemory) batteryKey() judgecache.BatteryContext {
	key := BatteryKey(*m.run.cfg.Judge)
	key.Battery, key.PromptDigest = m.plan().Battery, m.plan().PromptSHA256
	return key
}

func (m *judgeMemory) plan() plan.JudgePlan { return *m.run.fold.Manifest.Judge }

// keepBattery keeps the outcome for later runs. This one does not depend on it.
func (m *judgeMemory) keepBattery(withstood bool) {
	cache := m.run.cfg.verdicts()
	if cache == nil || m.run.lost != nil {
		return
	}
	if err := cache.PutBattery(m.batteryKey(), withstood); err != nil {
		m.run.warn(fmt.Errorf("writing the judge cache: %w", err))
	}
}
