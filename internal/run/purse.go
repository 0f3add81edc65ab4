package run

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// purse bounds what a run may cost, in micro-USD. What a request may cost is set
// aside before it is sent, so that those under way cannot spend the same money.
// A nil purse bounds nothing.
type purse struct {
	budget    int64
	prices    llm.Prices
	model     string
	maxTokens int64 // of a completion

	mu      sync.Mutex
	spent   int64
	held    int64         // set aside
	changed chan struct{} // closed when something is given back
}

// newPurse returns the purse of a run that has come to f; nil if its plan sets no
// budget. A call whose cost is not known counts as the dearest that is, and as
// no less than a whole completion.
func newPurse(c Config, f *rundir.Fold) *purse {
	if c.RunCost <= 0 {
		return nil
	}
	p := &purse{budget: c.RunCost, prices: c.Prices, model: c.Model.Name, maxTokens: int64(c.MaxTokens), changed: make(chan struct{})}
	p.spent = f.Spent(p.bound(p.model, 0, p.maxTokens))
	return p
}

// BudgetError means that the money of a run is not enough for a single attempt:
// that would set Need aside, in micro-USD.
type BudgetError struct{ Need int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("an attempt sets aside %d micro-USD at least, which is more than the budget of the run", e.Need)
}

// affords returns a *BudgetError if the money is not enough for an attempt at any
// of the tasks.
func (p *purse) affords(tasks []loader.Task, specs []tools.Spec) error {
	if p == nil {
		return nil
	}
	if least := p.least(tasks, specs); least > p.budget {
		return &BudgetError{least}
	}
	return nil
}

// least returns what an attempt at the cheapest of the tasks sets aside.
func (p *purse) least(tasks []loader.Task, specs []tools.Spec) int64 {
	least := int64(math.MaxInt64)
	for _, t := range tasks {
		least = min(least, p.first(t, specs))
	}
	return least
}

// first bounds what the first request of an attempt at a task may cost, and the
// answer after it.
func (p *purse) first(task loader.Task, specs []tools.Spec) int64 {
	q := agent.Question{Text: task.Question, FileName: task.FileName}
	return 2 * p.bound(p.model, agent.FirstTokens(q, specs), p.maxTokens)
}

// bound returns what a request of so many tokens may cost.
func (p *purse) bound(model string, tokensIn, tokensOut int64) int64 {
	cost := p.prices.Bound(model, tokensIn, tokensOut)
	if cost == nil { // it was refused before the run began
		return p.budget
	}
	return *cost
}

// attempt opens the share of an attempt at a task; nil, true without a purse.
func (p *purse) attempt(ctx context.Context, task loader.Task, specs []tools.Spec) (*share, bool) {
	if p == nil {
		return nil, true
	}
	return p.hold(ctx, p.first(task, specs))
}

// judgment opens the share of one request of the judge.
func (p *purse) judgment(ctx context.Context, r llm.Request) (*share, bool) {
	bytes := len(r.Schema)
	for _, m := range r.Messages {
		bytes += len(m.Content)
	}
	return p.hold(ctx, p.bound(r.Model, int64(bytes)/2, p.maxTokens)) // no text in earnest has more tokens
}

// hold sets money aside. It waits for what others have set aside; false means
// that the money is gone, or that the context ended. Who holds a share already
// must not wait: see takeNow.
func (p *purse) hold(ctx context.Context, need int64) (*share, bool) {
	for {
		p.mu.Lock()
		s, ok := p.take(need)
		wait, alone := p.changed, p.held == 0
		p.mu.Unlock()
		if ok || alone {
			return s, ok
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// take sets money aside if it is there; the lock is held.
func (p *purse) take(need int64) (*share, bool) {
	if p.spent+p.held+need > p.budget {
		return nil, false
	}
	p.held += need
	return &share{purse: p, held: need, likely: need}, true
}

// takeNow is take under the lock, for who holds a share already.
func (p *purse) takeNow(need int64) (*share, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(need)
}

// give is change under the lock.
func (p *purse) give(spent, held int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(spent, held)
}

// change changes what is spent and set aside, and wakes who waits.
func (p *purse) change(spent, held int64) {
	p.spent += spent
	p.held += held
	close(p.changed)
	p.changed = make(chan struct{})
}

// share is what one attempt, or one judgment, has set aside. It implements
// agent.Purse.
type share struct {
	purse  *purse
	held   int64
	likely int64 // what the request under way may cost: that of one whose cost stays unknown
}

// Reserve implements agent.Purse.
func (s *share) Reserve(tokensIn int64, last bool) bool {
	p := s.purse
	need := p.bound(p.model, tokensIn, p.maxTokens)
	likely := need
	if !last {
		need *= 2
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spent+p.held-s.held+need > p.budget {
		return false
	}
	p.change(0, need-s.held)
	s.held, s.likely = need, likely
	return true
}

// Charge implements agent.Purse.
func (s *share) Charge(microUSD *int64) {
	cost := s.likely
	if microUSD != nil {
		cost = *microUSD
	}
	s.purse.give(cost, 0)
}

// again reports whether what is set aside is still there for another try, after
// what the tries before it cost.
func (s *share) again() bool {
	s.purse.mu.Lock()
	defer s.purse.mu.Unlock()
	return s.purse.spent+s.purse.held <= s.purse.budget
}

// tried charges a try that is over. One whose answer was lost may have been
// billed; one that was refused was not.
func (s *share) tried(t llm.Try) {
	switch {
	case t.Response != nil:
		s.Charge(t.Response.CostMicroUSD)
	case t.Err != nil && (trajectory.CallError{Code: t.Err.Code, Status: t.Err.Status}).Unanswered():
		s.Charge(nil)
	}
}

// errNoMoney ends a call whose further tries cannot be paid.
func errNoMoney() *llm.Error { return &llm.Error{Code: "run_budget", Message: prompt.RunMoneySpent} }

// close gives back what is set aside.
func (s *share) close() {
	if s != nil {
		s.purse.give(0, -s.held)
		s.held = 0
	}
}
