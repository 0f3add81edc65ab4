// Package grading gives the verdicts of a run: it wires package judge to a model
// client, makes the judge's self-test before the first verdict that is needed,
// and uses the signed cache of earlier verdicts.
//
// It holds gold answers. What it returns to be recorded, [trajectory.Judgment] and
// [trajectory.JudgeBattery], has none of them, and no text of a request or reply;
// gold and answers go to the private file alone ([Private]). A verdict counts only
// from a judge that passed its self-test, and a cached one only where its signed
// entry verifies (TestBattery and TestCacheAttacks of internal/run).
//
// [Rejudging] asks another judge about a finished run, [Report] describes a
// self-test, and [Adjudication] writes a decision about a finding. [ComparePlan]
// compares a dataset with a plan, and [GoldOf] returns the gold answers.
package grading

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/singleflight"
)

// Client asks a model. [llm.Client] is one.
type Client interface {
	Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error)
}

// Judge is a model that judges, and where it is. Origin has no path; URL is the
// base URL without a slash at its end, "" where the origin is all that is known.
type Judge struct {
	Client Client
	Name   string
	Origin string
	URL    string
}

// Plan returns what a plan says of the judge; cache says whether verdicts may come
// from the judge cache.
func (j Judge) Plan(cache bool) plan.JudgePlan {
	p := plan.JudgePlan{Battery: judge.BatteryDigest(), Cache: cache, Model: j.Name, Origin: j.Origin, Prompt: prompt.JudgeID, PromptSHA256: prompt.JudgeDigest()}
	if j.URL != "" {
		p.Endpoint = canonical.Digest([]byte(j.URL))
	}
	return p
}

// place names the endpoint in the judge cache: a host may have other models at
// other paths.
func (j Judge) place() string { return cmp.Or(j.URL, j.Origin) }

// SelfTestKey returns the key of the judge's self-test of today in the judge cache.
func (j Judge) SelfTestKey() judgecache.BatteryContext {
	return judgecache.BatteryContext{Battery: judge.BatteryDigest(), Model: j.Name, Origin: j.place(), PromptDigest: prompt.JudgeDigest()}
}

// CacheError means that the judge cache holds entries that do not verify. A run
// that is meant to be submitted does not begin or go on with them.
type CacheError struct {
	Dir   string
	Sweep judgecache.Sweep
}

func (e *CacheError) Error() string {
	first := e.Sweep.Bad[0]
	if first.Name == judgecache.Place {
		return "the judge cache cannot be trusted: it is " + first.Reason
	}
	return fmt.Sprintf("the judge cache cannot be trusted: %d of %d entries do not verify; the first is %s: %s",
		len(e.Sweep.Bad), e.Sweep.Checked, first.Name, first.Reason)
}

// UnavailableError means that the judge does not answer however often it is asked.
// Its text has no secrets.
type UnavailableError struct {
	text  string
	cause *llm.Error
}

func (e *UnavailableError) Error() string { return e.text }
func (e *UnavailableError) Unwrap() error { return e.cause }

// Grader gives the verdicts of one run. It may grade many answers at once.
type Grader struct {
	Judge  *Judge            // nil: the official scorer only
	Plan   *plan.JudgePlan   // of the judge; nil without one
	Cache  *judgecache.Cache // of earlier verdicts; nil: none are used
	Budget *budget.Budget    // nil: no limit
	Redact trajectory.Redactor
	Now    func() time.Time
	Warn   func(error) // reports that a verdict could not be read from the cache or written to it

	// Strict makes an error of what else leaves an answer without a verdict: a
	// cache that cannot be read, a self-test that is cut off, a spent budget.
	Strict bool

	// KeepNone keeps results out of the cache, of a run without evidence.
	KeepNone bool

	// Recorded returns what the journal has of the self-test: whether the judge
	// passed, and whether that is settled.
	Recorded func() (passed, settled bool)
	// Record records a self-test.
	Record func(trajectory.JudgeBattery) error
	// Reject records that an entry of the cache does not verify. An error ends the
	// grading.
	Reject func(judgecache.Bad) error

	selfTest singleflight.Group
	failed   atomic.Pointer[outcome] // of the self-test in this process; nil: it did not fail, or that is settled for the run
	cutOff   atomic.Int64            // self-tests that this process did not bring to their end
}

// Score gives both verdicts on an answer, and the event that records them. An error
// ends the grading: the judge is unavailable, something could not be recorded, or
// the context ended.
func (g *Grader) Score(ctx context.Context, item judge.Item) (judge.Verdict, trajectory.Judgment, error) {
	a := &asker{Grader: g, cost: new(int64)}
	scorer := judge.Judge{}
	var passed bool
	var untested *untestedError
	if g.Judge != nil {
		scorer = judge.Judge{Asker: a,
			Known: func(judge.Item) (correct, found bool) { // an entry that does not verify is a miss
				if g.Cache == nil {
					return false, false
				}
				correct, found, bad, err := g.Cache.Get(g.key(item))
				a.err = g.checkRead(bad, err)
				return correct, found
			},
			Passed: func(ctx context.Context) (bool, error) {
				ok, err := g.passesSelfTest(ctx)
				if passed = ok && g.Plan.Battery != ""; err != nil && (g.Strict || !errors.As(err, &untested)) {
					a.err = err
				}
				return ok, err
			}}
	}
	v := scorer.Score(ctx, item)
	err := errors.Join(ctx.Err(), a.err)
	if err == nil && g.Strict && budget.IsSpent(a.failed) {
		err = ErrBudget
	}
	if err == nil {
		if err = a.unavailable(); err != nil && passed && a.failed.Status == http.StatusForbidden {
			// A judge that passed and forbids a request, as filters do, is asked about something else.
			v.Tries++
			if (judge.Judge{Asker: a}).Answers(ctx) {
				err = nil
			}
		}
	}
	if err != nil {
		return v, trajectory.Judgment{}, err
	}
	e := trajectory.Judgment{Cached: v.Known, CostMicroUSD: new(int64), Judged: v.Judged, Official: v.Official, Path: v.Path, Tries: v.Tries}
	if v.Known || v.Tries > 0 || v.Path == judge.PathError {
		e.Model, e.Prompt = g.Judge.Name, prompt.JudgeID
	}
	if v.Tries > 0 {
		e.CostMicroUSD, e.TokensIn, e.TokensOut, e.LatencyMs = a.cost, a.tokensIn, a.tokensOut, a.latencyMs
	}
	failed := a.failed
	if failed == nil && untested != nil {
		failed = untested.why
	}
	if v.Path == judge.PathError && failed != nil {
		e.ErrorStatus = failed.Status
	}
	if v.Reply != nil {
		e.RequestID, e.ResponseModel = g.Redact.Label(v.Reply.RequestID), g.Redact.Label(v.Reply.ResponseModel)
	}
	return v, e, nil
}

// Keep writes a verdict of the judge to the cache, for later runs. Call it once the
// verdict is recorded: what a crash leaves unrecorded was not asked before.
func (g *Grader) Keep(item judge.Item, v judge.Verdict) {
	if g.Cache == nil || g.KeepNone || v.Path != judge.PathJudge || v.Known {
		return
	}
	if err := g.Cache.Put(g.key(item), *v.Judged); err != nil {
		g.Warn(fmt.Errorf("writing the judge cache: %w", err))
	}
}

func (g *Grader) key(it judge.Item) judgecache.Context {
	return judgecache.Context{TaskID: it.TaskID, Answer: *it.Answer, Expected: it.Gold, Model: g.Plan.Model, Origin: g.Judge.place(),
		PromptDigest: g.Plan.PromptSHA256, Battery: g.Plan.Battery}
}

// checkRead returns the error of a lookup in the cache that ends the grading.
func (g *Grader) checkRead(bad *judgecache.Bad, err error) error {
	switch {
	case err != nil && g.Strict:
		return fmt.Errorf("reading the judge cache: %w", err)
	case err != nil:
		g.Warn(fmt.Errorf("reading the judge cache: %w", err))
	case bad != nil:
		return g.Reject(*bad)
	}
	return nil
}

// asker puts the requests for one answer to the judge and adds up what they took.
type asker struct {
	*Grader
	err       error // ends the grading: nothing happens that follows from what is not recorded
	paid      *budget.Reservation
	cost      *int64 // nil once a price is unknown
	tokensIn  int64
	tokensOut int64
	latencyMs int64
	failed    *llm.Error // the last failure
	answered  bool
}

// unavailable returns an *UnavailableError if the endpoint will not answer however
// often it is asked. One that has answered and forbids a request, as filters do,
// forbids this one.
func (a *asker) unavailable() error {
	if a.failed == nil || !a.failed.Stop || a.failed.Status == http.StatusForbidden && a.answered {
		return nil
	}
	text := fmt.Sprintf("the judge cannot be asked: status %d, %s", a.failed.Status, a.Redact.Label(a.failed.Code))
	return &UnavailableError{text, a.failed}
}

// Ask implements judge.Asker.
func (a *asker) Ask(ctx context.Context, q judge.Request) (judge.Reply, error) {
	if a.err != nil {
		return judge.Reply{}, a.err
	}
	request := llm.Request{
		Model:    a.Judge.Name,
		Messages: []llm.Message{{Role: "system", Content: q.System}, {Role: "user", Content: q.User}},
		Schema:   q.Schema, SchemaName: q.SchemaName, MaxTokens: a.Budget.MaxTokens(),
	}
	bytes := len(q.System) + len(q.User) + len(q.Schema) // a token is at least two bytes
	var enough bool
	if a.paid, enough = a.Budget.Wait(ctx, a.Budget.Bound(request.Model, int64(bytes)/2, 0)); !enough {
		a.failed = budget.Spent()
		return judge.Reply{}, a.failed
	}
	defer a.paid.Close()
	began := a.Now()
	response, err := a.Judge.Client.Chat(ctx, request, a)
	took := a.Now().Sub(began).Milliseconds()
	a.latencyMs += took
	if err != nil {
		if errors.As(err, &a.failed) {
			err = refusal(a.failed)
		}
		return judge.Reply{}, err
	}
	a.answered = true
	return judge.Reply{
		Text: response.Message.Content, RequestID: response.RequestID, ResponseModel: response.ResponseModel,
		TokensIn: response.Usage.In, TokensOut: response.Usage.Out, CostMicroUSD: response.CostMicroUSD, LatencyMs: took,
	}, nil
}

// TryStarted implements llm.Observer. The journal records the judge's calls by the
// judgment they lead to, since their messages hold gold.
func (a *asker) TryStarted(number int) error { return a.paid.TryStarted(number) }

// TryCompleted adds up what a try took, also one whose answer was of no use.
func (a *asker) TryCompleted(t llm.Try) error {
	a.paid.TryCompleted(t)
	if t.Response == nil {
		return nil
	}
	a.tokensIn += t.Response.Usage.In
	a.tokensOut += t.Response.Usage.Out
	if cost := t.Response.CostMicroUSD; cost == nil {
		a.cost = nil
	} else if a.cost != nil {
		*a.cost += *cost
	}
	return nil
}
