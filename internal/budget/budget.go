// Package budget bounds what a run costs, and estimates it beforehand.
//
// A [Budget] holds the money of the whole run, in micro-USD. Before a request is
// sent, what it may cost is reserved; the [Reservation] is charged what it did
// cost. Requests under way cannot spend the same money, so a run whose prices are
// right never costs more than its limit (TestNeverOverdrawn). A nil *Budget has
// no limit, and its reservations are nil. An [Estimate] rests on what finished runs of
// the same models took (TestEstimateIsMeasured).
package budget

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Budget is what a run may cost.
type Budget struct {
	limit     int64 // micro-USD
	ask       Ask   // nil: this process alone spends
	prices    llm.Prices
	model     string // that answers
	maxTokens int64  // of a completion

	mu       sync.Mutex // held while ask is asked, so that its answers are in order
	spent    int64
	reserved int64
	over     bool          // with ask: more is spent and reserved than it allows
	failed   error         // of ask, the first
	released chan struct{} // closed when money is released
}

// Ask asks whoever keeps the money of several processes whether this one may have
// spent and reserved so much in all, in micro-USD. later: others may yet release what
// is missing. What was spent counts in any case.
type Ask func(ctx context.Context, spent, reserved int64) (ok, later bool, err error)

// New returns a budget of limit micro-USD, nil where limit is not above 0. The
// model is the one whose requests [Reservation.Reserve] is for, and maxTokens
// bounds a completion of any model.
func New(limit int64, prices llm.Prices, model string, maxTokens int) *Budget {
	return Shared(nil, limit, prices, model, maxTokens)
}

// Shared is New for a budget whose limit several processes share, which ask keeps.
func Shared(ask Ask, limit int64, prices llm.Prices, model string, maxTokens int) *Budget {
	if limit <= 0 {
		return nil
	}
	return &Budget{limit: limit, ask: ask, prices: prices, model: model, maxTokens: int64(maxTokens), released: make(chan struct{})}
}

// Err returns why who keeps a shared budget could not be asked; nil if it could.
// After that nothing can be reserved, which does not mean that the money is spent.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// LimitError means that the money of a run does not suffice for a single attempt,
// which reserves Need micro-USD.
type LimitError struct{ Need int64 }

func (e *LimitError) Error() string {
	return fmt.Sprintf("an attempt reserves at least %d micro-USD, which is more than the budget of the run", e.Need)
}

// Check returns a *LimitError if need is above the limit.
func (b *Budget) Check(need int64) error {
	if b != nil && need > b.limit {
		return &LimitError{need}
	}
	return nil
}

// Spend charges what was spent before this process, in micro-USD.
func (b *Budget) Spend(microUSD int64) {
	if b != nil {
		b.change(microUSD, 0)
	}
}

// MaxTokens bounds the completion of a request that reserves money; 0: no bound.
func (b *Budget) MaxTokens() int {
	if b == nil {
		return 0
	}
	return int(b.maxTokens)
}

// Bound returns what a request of a model may cost. A completion without a limit,
// tokensOut 0, may be as long as the run allows. A model whose price is unknown
// bounds by the whole budget; such a run does not begin.
func (b *Budget) Bound(model string, tokensIn, tokensOut int64) int64 {
	return b.BoundOf(tools.Need{Model: model, In: tokensIn}, tokensOut)
}

// BoundOf is Bound of what a tool needs.
func (b *Budget) BoundOf(need tools.Need, tokensOut int64) int64 {
	if b == nil {
		return 0
	}
	if tokensOut <= 0 {
		tokensOut = b.maxTokens
	}
	if cost := need.Cost(b.prices, tokensOut); cost != nil {
		return *cost
	}
	return b.limit
}

// First bounds what the first request of an attempt may cost, and the answer after
// it.
func (b *Budget) First(tokensIn int64) int64 {
	if b == nil {
		return 0
	}
	return 2 * b.Bound(b.model, tokensIn, b.maxTokens)
}

// Wait reserves money. Where others have reserved what is missing it waits for
// them; false means that the money is spent or that the context ended. A holder of
// a reservation must not wait for others: it calls Take.
func (b *Budget) Wait(ctx context.Context, need int64) (*Reservation, bool) {
	if b == nil {
		return nil, true
	}
	return b.reserve(ctx, need, true)
}

// Call reserves what one request may cost, as [Budget.Bound] says, and waits as
// [Budget.Wait] does. settle takes what the request did cost, in micro-USD, nil for
// its bound, and releases the rest. Requests in parallel each make a call of it, and
// who holds nothing else cannot block another.
func (b *Budget) Call(ctx context.Context, model string, tokensIn, tokensOut int64) (settle func(microUSD *int64), enough bool) {
	r, enough := b.Wait(ctx, b.Bound(model, tokensIn, tokensOut))
	if r == nil {
		return func(*int64) {}, enough
	}
	return func(microUSD *int64) {
		cost := r.held
		if microUSD != nil {
			cost = *microUSD
		}
		b.change(cost, -r.held)
	}, true
}

// Take reserves money without waiting.
func (b *Budget) Take(need int64) (*Reservation, bool) {
	if b == nil {
		return nil, true
	}
	return b.reserve(context.Background(), need, false)
}

// askAgain is how long a budget waits before it asks again for money that others may have released.
const askAgain = 200 * time.Millisecond

func (b *Budget) reserve(ctx context.Context, need int64, wait bool) (*Reservation, bool) {
	for {
		b.mu.Lock()
		ok, later := b.grow(ctx, need)
		released, alone := b.released, b.reserved == 0
		b.mu.Unlock()
		if ok {
			return &Reservation{budget: b, held: need, likely: need}, true
		}
		if !wait || alone && !later {
			return nil, false
		}
		again := (<-chan time.Time)(nil)
		if later {
			again = time.After(askAgain)
		}
		select {
		case <-released:
		case <-again:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// grow adds to what is reserved if the limit allows that. The lock is held.
func (b *Budget) grow(ctx context.Context, more int64) (ok, later bool) {
	if ok, later = b.allows(ctx, b.reserved+more); ok {
		b.reserved += more
		if more < 0 {
			b.wake()
		}
	}
	return ok, later
}

// allows reports whether so much may be reserved besides what is spent. The lock is held.
func (b *Budget) allows(ctx context.Context, reserved int64) (ok, later bool) {
	switch {
	case b.ask == nil:
		return b.spent+reserved <= b.limit, false
	case b.failed != nil:
		return false, false
	}
	ok, later, err := b.ask(ctx, b.spent, reserved)
	if err != nil && ctx.Err() == nil {
		b.failed = err
	}
	return ok && err == nil, later && err == nil
}

// change adds to what is spent and reserved, whatever the limit, and wakes who waits.
func (b *Budget) change(spent, reserved int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += spent
	b.reserved += reserved
	ok, _ := b.allows(context.Background(), b.reserved)
	b.over = !ok
	b.wake()
}

func (b *Budget) wake() {
	close(b.released)
	b.released = make(chan struct{})
}

// Reservation is the money that one attempt or one request has reserved. A nil one
// is of a run without a budget.
type Reservation struct {
	budget *Budget
	held   int64
	likely int64 // what the request under way may cost: that of one whose cost stays unknown
}

// Reserve reserves what a request of so many tokens may cost, and unless it is the
// last one as much again, for the answer after it. It replaces what was reserved
// before; where too little is left it returns false and changes nothing.
func (r *Reservation) Reserve(tokensIn int64, last bool) bool {
	b := r.budget
	likely := b.Bound(b.model, tokensIn, b.maxTokens)
	need := likely
	if !last {
		need *= 2
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok, _ := b.grow(context.Background(), need-r.held); !ok {
		return false
	}
	r.held, r.likely = need, likely
	return true
}

// Charge spends what a request cost, in micro-USD. A cost that is unknown, nil,
// counts as the bound of the request.
func (r *Reservation) Charge(microUSD *int64) {
	cost := r.likely
	if microUSD != nil {
		cost = *microUSD
	}
	r.budget.change(cost, 0)
}

// TryStarted returns an error if a further try of a request cannot be paid after
// what the tries before it cost.
func (r *Reservation) TryStarted(number int) error {
	if r == nil || number <= 1 {
		return nil
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	if r.budget.over {
		return Spent()
	}
	return nil
}

// TryCompleted charges a try. One whose answer was lost may have been billed; one
// that was refused was not.
func (r *Reservation) TryCompleted(t llm.Try) {
	switch {
	case r == nil:
	case t.Response != nil:
		r.Charge(t.Response.CostMicroUSD)
	case t.Err != nil && (trajectory.CallError{Code: t.Err.Code, Status: t.Err.Status}).Unanswered():
		r.Charge(nil)
	}
}

// Close releases what is reserved.
func (r *Reservation) Close() {
	if r != nil {
		r.budget.change(0, -r.held)
		r.held = 0
	}
}

// Observe returns an observer that charges each try to the reservation and passes
// it on.
func (r *Reservation) Observe(o llm.Observer) llm.Observer {
	if r == nil {
		return o
	}
	return observer{o, r}
}

type observer struct {
	llm.Observer
	paid *Reservation
}

func (o observer) TryStarted(number int) error {
	if err := o.paid.TryStarted(number); err != nil {
		return err
	}
	return o.Observer.TryStarted(number)
}

func (o observer) TryCompleted(t llm.Try) error {
	o.paid.TryCompleted(t)
	return o.Observer.TryCompleted(t)
}

const spentCode = "run_budget"

// Spent is the error of a request that cannot be paid any longer.
func Spent() *llm.Error { return &llm.Error{Code: spentCode, Message: prompt.RunMoneySpent} }

// IsSpent reports whether an error is of a request that could not be paid; nil is
// none.
func IsSpent(e *llm.Error) bool { return e != nil && e.Code == spentCode }
