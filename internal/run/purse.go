package run

import (
	"context"
	"sync"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
)

// purse bounds what a run may cost, in micro-USD. What a request may cost is set
// aside before it is sent, so that those under way cannot spend the same money.
// A nil purse bounds nothing.
type purse struct {
	budget    int64
	prices    llm.Prices
	model     string
	maxTokens int64 // of a completion

	mu     sync.Mutex
	spent  int64
	held   int64         // set aside
	change chan struct{} // closed when something is given back
}

// unboundedReply is what a completion is taken to have at most where the plan
// sets no limit.
const unboundedReply = 8192

// newPurse returns the purse of a run that has come to f; nil if its plan sets no
// budget. A call whose cost is not known counts as the dearest that is, and as
// no less than a whole completion.
func newPurse(c Config, f *ledger.Fold) *purse {
	if c.RunCost <= 0 {
		return nil
	}
	p := &purse{budget: c.RunCost, prices: c.Prices, model: c.Model.Name, maxTokens: int64(c.MaxTokens), change: make(chan struct{})}
	if p.maxTokens == 0 {
		p.maxTokens = unboundedReply
	}
	p.spent = f.Spent(p.bound(p.model, 0, p.maxTokens))
	return p
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
	return p.open(ctx, agent.FirstTokens(agent.Question{Text: task.Question, FileName: task.FileName}, specs))
}

// judgment opens the share of one request of the judge.
func (p *purse) judgment(ctx context.Context, r llm.Request) (*share, bool) {
	bytes := len(r.Schema)
	for _, m := range r.Messages {
		bytes += len(m.Content)
	}
	return p.hold(ctx, p.bound(r.Model, int64(bytes)/2, p.maxTokens)) // no text in earnest has more tokens
}

// charge takes what a request of another model cost; one whose cost is not known
// counts as a whole completion.
func (p *purse) charge(model string, r llm.Response) {
	cost := p.bound(model, r.Usage.In, p.maxTokens)
	if r.CostMicroUSD != nil {
		cost = *r.CostMicroUSD
	}
	p.give(cost, 0)
}

// open sets aside what the first request of an attempt may cost and the answer
// after it, as hold does.
func (p *purse) open(ctx context.Context, tokensIn int64) (*share, bool) {
	return p.hold(ctx, 2*p.bound(p.model, tokensIn, p.maxTokens))
}

// hold sets money aside. It waits for what others have set aside; false means
// that the money is gone.
func (p *purse) hold(ctx context.Context, need int64) (*share, bool) {
	for {
		p.mu.Lock()
		if p.spent+p.held+need <= p.budget {
			p.held += need
			p.mu.Unlock()
			return &share{purse: p, held: need}, true
		}
		wait, alone := p.change, p.held == 0
		p.mu.Unlock()
		if alone {
			return nil, false
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// give changes what is spent and set aside, and wakes who waits.
func (p *purse) give(spent, held int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += spent
	p.held += held
	close(p.change)
	p.change = make(chan struct{})
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
	fits := p.spent+p.held-s.held+need <= p.budget
	p.mu.Unlock()
	if !fits {
		return false
	}
	p.give(0, need-s.held)
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

// close gives back what is set aside.
func (s *share) close() {
	if s != nil {
		s.purse.give(0, -s.held)
		s.held = 0
	}
}
