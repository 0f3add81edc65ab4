package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// Rejudging has another judge look at the answers of a finished run. The run is only
// read.
type Rejudging struct {
	Run       *rundir.Run       // complete and scored
	Questions map[string]string // of its tasks, by id
	Gold      map[string]string // by task id; the ones that the plan commits to
	Judge     Endpoint
	Verdicts  *judgecache.Cache // of earlier judgments; nil: none are used
	MaxCost   int64             // micro-USD that all requests may cost; 0: no limit
	MaxTokens int               // of one completion, where MaxCost is a limit
	Prices    llm.Prices        // likewise
	Redact    trajectory.Redactor
	Now       func() time.Time
	Warn      func(error)        // reports that a verdict was not kept for later
	Judged    func(done, of int) // reports progress, after each answer
}

// RejudgedAtOnce is how many answers are before a judge at once.
const RejudgedAtOnce = 4

// judgePlan returns what a plan says of a judge; cache says whether verdicts may
// come from the judge cache.
func (e Endpoint) judgePlan(cache bool) plan.JudgePlan {
	p := plan.JudgePlan{Battery: judge.BatteryDigest(), Cache: cache, Model: e.Name, Origin: e.Origin, Prompt: prompt.JudgeID, PromptSHA256: prompt.JudgeDigest()}
	if e.URL != "" {
		p.Endpoint = canonical.Digest([]byte(e.URL))
	}
	return p
}

// Plan returns what a plan would say of the judge.
func (r Rejudging) Plan() plan.JudgePlan { return r.Judge.judgePlan(r.Verdicts != nil) }

// ErrJudgeBudget means that the money does not last for all verdicts.
var ErrJudgeBudget = errors.New("the budget does not last for all answers")

// Judgment asks the judge the null battery, then about each answer of audit.Rejudged. It returns all verdicts or an error: a judge that
// cannot be asked, an entry of the judge cache that does not verify, or a budget that
// does not last leave no half of a judgment. What the judge said until then is in the
// judge cache.
func (r Rejudging) Judgment(ctx context.Context) (audit.Rejudgment, error) {
	plan := r.Plan()
	tasks, attempts := audit.Rejudged(r.Run)
	items := make([]judge.Item, len(attempts))
	for i, a := range attempts {
		id := tasks[i].Plan.TaskID
		items[i] = judge.Item{TaskID: id, Question: r.Questions[id], Gold: r.Gold[id], Answer: &a.Answer.Answer}
		if judge.QuestionScorer(items[i].Answer, items[i].Gold) {
			return audit.Rejudgment{}, trajectory.Faultf(trajectory.JournalFile, "has an official verdict on task %q that the gold answer does not give", id)
		}
	}
	var money *purse
	if r.MaxCost > 0 {
		money = &purse{budget: r.MaxCost, prices: r.Prices, model: r.Judge.Name, maxTokens: int64(r.MaxTokens), changed: make(chan struct{})}
	}
	battery, err := r.battery(ctx, plan, items, money)
	if err != nil {
		return audit.Rejudgment{}, err
	}
	verdicts := make([]audit.LaterVerdict, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(RejudgedAtOnce)
	var mu sync.Mutex // guards done
	done := 0
	for i, item := range items {
		group.Go(func() error {
			j, err := r.verdict(ctx, plan, item, battery, money)
			if err != nil {
				return err
			}
			verdicts[i] = audit.LaterVerdict{Attempt: attempts[i].Number, Judgment: j, TaskID: item.TaskID}
			mu.Lock()
			defer mu.Unlock()
			done++
			r.Judged(done, len(items))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return audit.Rejudgment{}, err
	}
	return audit.NewRejudgment(r.Run, plan, battery, verdicts, r.Now().UTC().Format(trajectory.TimeFormat)), nil
}

// battery asks the judge the null battery, or looks up the result; nil where every
// answer is too long for a judge.
func (r Rejudging) battery(ctx context.Context, plan plan.JudgePlan, items []judge.Item, money *purse) (*trajectory.JudgeBattery, error) {
	wanted := false
	for _, it := range items {
		v := judge.Judge{Asker: never{}}.Score(ctx, it)
		wanted = wanted || v.Path != judge.PathTooLong
	}
	if !wanted {
		return nil, nil
	}
	key := BatteryKey(r.Judge)
	if r.Verdicts != nil {
		withstood, found, bad, err := r.Verdicts.GetBattery(key)
		if err := r.cacheError(bad, err); err != nil {
			return nil, err
		}
		if found {
			b := newBattery(&plan)
			b.Remembered, b.Withstood = true, withstood
			return &b, nil
		}
	}
	ask := r.asker(money)
	t := ask.putBattery(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.Err != "" && len(t.Paid) == 0 {
		return nil, r.unasked(ask)
	}
	if r.Verdicts != nil && t.Lasts() {
		if err := r.Verdicts.PutBattery(key, t.Withstood()); err != nil {
			r.Warn(fmt.Errorf("writing the judge cache: %w", err))
		}
	}
	return new(batteryEvent(&plan, t)), nil
}

// never is an Asker that is not asked.
type never struct{}

// Ask implements judge.Asker.
func (never) Ask(context.Context, judge.Request) (judge.Reply, error) {
	return judge.Reply{}, errors.New("not asked")
}

// verdict asks the judge about one answer, if the null battery allows it.
func (r Rejudging) verdict(ctx context.Context, plan plan.JudgePlan, item judge.Item, battery *trajectory.JudgeBattery, money *purse) (trajectory.Judgment, error) {
	withstood := battery != nil && battery.Withstood
	key := judgecache.Context{TaskID: item.TaskID, Answer: *item.Answer, Expected: item.Gold, Model: plan.Model, Origin: r.Judge.place(),
		PromptDigest: plan.PromptSHA256, Battery: plan.Battery}
	ask := r.asker(money)
	var bad error
	var correct, found bool
	scorer := judge.Judge{Asker: ask, Known: func(judge.Item) (bool, bool) { return correct, found }}
	scorer.Withstood = func(context.Context) (bool, error) { // is asked before Known, and its error keeps the judge from being asked
		if withstood && r.Verdicts != nil {
			var entry *judgecache.Bad
			correct, found, entry, bad = r.Verdicts.Get(key)
			bad = r.cacheError(entry, bad)
		}
		return withstood, bad
	}
	v := scorer.Score(ctx, item)
	if err := errors.Join(ctx.Err(), bad); err != nil {
		return trajectory.Judgment{}, err
	}
	if ask.failed != nil && ask.failed.Code == errNoMoney().Code {
		return trajectory.Judgment{}, ErrJudgeBudget
	}
	if err := ask.ended(ctx, &v, withstood, r.Redact); err != nil {
		return trajectory.Judgment{}, r.unasked(ask)
	}
	if v.Path == judge.PathJudge && !v.Known && r.Verdicts != nil {
		if err := r.Verdicts.Put(key, *v.Judged); err != nil {
			r.Warn(fmt.Errorf("writing the judge cache: %w", err))
		}
	}
	j := ask.event(v, nil, r.Redact)
	for _, label := range []*string{&j.RequestID, &j.ResponseModel} {
		if audit.BadReason(*label) != "" { // what is signed is one line of text
			*label = ""
		}
	}
	return j, nil
}

func (r Rejudging) asker(money *purse) *asker {
	return &asker{endpoint: r.Judge, now: r.Now, money: money, cost: new(int64)}
}

// unasked is the failure of a judge that cannot be asked.
func (r Rejudging) unasked(a *asker) error {
	switch {
	case a.failed == nil:
		return errors.New("the judge could not be asked")
	case a.failed.Code == errNoMoney().Code:
		return ErrJudgeBudget
	}
	return fmt.Errorf("asking the judge: %w", a.failed)
}

// cacheError is the error of a lookup; an entry that does not verify ends the judging.
func (r Rejudging) cacheError(bad *judgecache.Bad, err error) error {
	if err != nil {
		return fmt.Errorf("reading the judge cache: %w", err)
	}
	if bad != nil {
		return &CacheError{r.Verdicts.Dir(), judgecache.Sweep{Checked: 1, Bad: []judgecache.Bad{*bad}}}
	}
	return nil
}
