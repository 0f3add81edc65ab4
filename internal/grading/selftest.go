package grading

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// untestedError means that the self-test could not be brought to its end. It settles
// nothing: after an outage the next answer makes it again, up to maxCutOff times.
type untestedError struct{ why *llm.Error } // nil: it is not known why

func (e *untestedError) Error() string { return "the judge could not be asked its self-test" }

func (e *untestedError) Unwrap() error {
	if e.why == nil {
		return nil
	}
	return e.why
}

// outcome is what a self-test came to in this process where that is not settled for
// the run: the error is nil if the judge did not pass.
type outcome struct{ err error }

// maxCutOff is how many self-tests are begun in a process and not brought to their
// end. One that never gets past an item would be begun for every answer.
const maxCutOff = 2

// SelfTest is the result of a judge's self-test, and what it took.
type SelfTest struct {
	judge.BatteryResult
	CostMicroUSD        *int64 // nil where a price is unknown
	TokensIn, TokensOut int64
	LatencyMs           int64
	Why                 *llm.Error // not all items were asked; nil if they were, or if it is not known
}

// Lasts reports whether the result holds for later runs: that the judge accepted an
// empty answer does, and that all items reached it and it passed. What a filter
// keeps from it today, or what was no verdict, may be one tomorrow.
func (t SelfTest) Lasts() bool {
	return len(t.Accepted) > 0 || t.Passed() && len(t.Refused) == 0
}

// TestJudge makes the self-test of a judge without a run.
func TestJudge(ctx context.Context, j Judge, now func() time.Time) SelfTest {
	t, _ := (&Grader{Judge: &j, Now: now}).askSelfTest(ctx)
	return t
}

func (g *Grader) askSelfTest(ctx context.Context) (SelfTest, *asker) {
	a := &asker{Grader: g, cost: new(int64)}
	t := SelfTest{BatteryResult: judge.Judge{Asker: a}.SelfTest(ctx)}
	t.CostMicroUSD, t.TokensIn, t.TokensOut, t.LatencyMs = a.cost, a.tokensIn, a.tokensOut, a.latencyMs
	if t.Err != "" {
		t.Why = a.failed
	}
	return t, a
}

// passesSelfTest reports whether the judge passed its self-test, which is made
// before the first verdict is needed, once for all answers that wait for it. An
// *untestedError leaves the answer without a verdict; other errors end the grading.
func (g *Grader) passesSelfTest(ctx context.Context) (bool, error) {
	if g.Plan.Battery == "" { // the plan is older than self-tests
		return true, nil
	}
	passed, err, _ := g.selfTest.Do("", func() (any, error) { return g.makeSelfTest(ctx) })
	return err == nil && passed.(bool), err
}

// makeSelfTest looks the result up in the journal and then in the judge cache, or
// asks the judge.
func (g *Grader) makeSelfTest(ctx context.Context) (passed bool, err error) {
	if passed, settled := g.Recorded(); settled {
		return passed, nil
	}
	if failed := g.failed.Load(); failed != nil {
		return false, failed.err
	}
	event := trajectory.JudgeBattery{CostMicroUSD: new(int64), Model: g.Plan.Model, Prompt: g.Plan.Prompt, SHA256: g.Plan.Battery}
	key := g.Judge.SelfTestKey() // but by the plan, whose self-test may be another than today's
	key.Battery, key.PromptDigest = g.Plan.Battery, g.Plan.PromptSHA256
	if g.Cache != nil {
		passed, found, bad, err := g.Cache.Get(key)
		if err := g.checkRead(bad, err); err != nil {
			return false, err
		}
		if found {
			event.Cached, event.Passed = true, passed
			return passed, g.Record(event)
		}
	}
	t, a := g.askSelfTest(ctx)
	spent := budget.IsSpent(t.Why)
	if spent {
		t.Err = prompt.RunMoneySpent
	}
	event.CostMicroUSD, event.LatencyMs, event.TokensIn, event.TokensOut = t.CostMicroUSD, t.LatencyMs, t.TokensIn, t.TokensOut
	event.Accepted, event.Problem, event.Asked, event.Refused, event.Tries = t.Accepted, t.Err, t.Asked, t.Refused, t.Tries
	event.Unreadable, event.Passed = t.Unreadable, t.Passed()
	if t.Why != nil {
		event.ErrorStatus = t.Why.Status
	}
	err = g.Record(event) // also of what was cut off: it had a price
	if err == nil && t.Lasts() && g.Cache != nil && !g.KeepNone {
		if err := g.Cache.Put(key, t.Passed()); err != nil {
			g.Warn(fmt.Errorf("writing the judge cache: %w", err))
		}
	}
	if t.Err != "" && !(g.Strict && len(t.Accepted) > 0) {
		err = errors.Join(err, a.unavailable())
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return false, err
	}
	switch {
	case t.Passed() || len(t.Accepted) > 0:
	case t.Err == "":
		g.failed.Store(&outcome{})
	case spent, t.Asked > 0 && g.cutOff.Add(1) >= maxCutOff:
		g.failed.Store(&outcome{&untestedError{t.Why}})
	}
	if t.Err != "" && len(t.Accepted) == 0 {
		return false, &untestedError{t.Why}
	}
	return t.Passed(), nil
}

// refusal marks the error of a request that the endpoint rejects while it may answer
// others.
func refusal(e *llm.Error) error {
	empty := e.Code == llm.EmptyCompletion // by then it was asked for again and again
	if !empty && (e.Status == 0 || e.Retryable || e.Stop && e.Status != http.StatusForbidden) {
		return e
	}
	return fmt.Errorf("%w: %w", judge.ErrRefused, e)
}
