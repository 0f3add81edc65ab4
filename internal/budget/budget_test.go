package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
)

// dollarAToken returns a budget whose model costs one micro-USD a token read, nothing a
// token written.
func dollarAToken(t *testing.T, budget int64) *Budget {
	t.Helper()
	prices, err := llm.ParsePrices([]byte(`{"version":"1","note":"invented","models":{"m":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":0,"output_microusd_per_mtok":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return New(budget, prices, "m", 1)
}

func TestBudget(t *testing.T) {
	ctx := context.Background()
	if p := New(0, llm.Prices{}, "m", 1); p != nil {
		t.Fatal("a run without a limit has a budget")
	}
	p := dollarAToken(t, 100)
	a, ok := p.Wait(ctx, 20) // 20 are reserved
	if !ok || !a.Reserve(40, false) {
		t.Fatal("there is enough for one")
	}
	if a.Reserve(51, false) || !a.Reserve(51, true) {
		t.Error("money for the request, but not for the answer after it")
	}
	cost := int64(30)
	a.Charge(&cost)
	if p.spent != 30 || p.reserved != 51 {
		t.Errorf("spent %d, reserved %d", p.spent, p.reserved)
	}
	a.Charge(nil) // counts as what it might have been
	if p.spent != 81 {
		t.Errorf("an unknown cost counts as %d", p.spent-30)
	}
	a.Close()
	if _, ok := p.Wait(ctx, 20); ok || p.reserved != 0 {
		t.Errorf("money is reserved that is not there; %d held", p.reserved)
	}
	b, ok := p.Wait(ctx, 18)
	if !ok || b.held != 18 {
		t.Error("what was given back cannot be had")
	}
}

// TestWait: who finds the money reserved by another waits for what that
// one gives back, or for the end.
func TestWait(t *testing.T) {
	p := dollarAToken(t, 100)
	a, _ := p.Wait(context.Background(), 80)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok := p.Wait(ended, 80); ok {
		t.Error("there is money for both")
	}
	got := make(chan *Reservation)
	go func() {
		b, _ := p.Wait(context.Background(), 80)
		got <- b
	}()
	cost := int64(5)
	a.Charge(&cost)
	a.Close()
	if b := <-got; b == nil || b.held != 80 {
		t.Error("it did not get what was given back")
	}
}

// TestCalls: requests at once that each reserve for themselves wait for what others may yet leave, are refused when
// nothing is under way, and together never cost more than there is.
func TestCalls(t *testing.T) {
	const budget, size, cost = 1000, 90, 30
	p := dollarAToken(t, budget)
	var all sync.WaitGroup
	var paid atomic.Int64
	for range 16 {
		all.Go(func() {
			for {
				settle, enough := p.Call(context.Background(), "m", size, 0)
				if !enough {
					return
				}
				p.mu.Lock()
				if p.spent+p.reserved > budget {
					t.Errorf("%d are spent and %d reserved", p.spent, p.reserved)
				}
				p.mu.Unlock()
				micro := int64(cost)
				settle(&micro)
				paid.Add(1)
			}
		})
	}
	all.Wait()
	if want := int64((budget-size)/cost + 1); paid.Load() != want || p.spent != want*cost || p.reserved != 0 {
		t.Errorf("%d calls of %d were paid, %d spent, %d reserved", paid.Load(), want, p.spent, p.reserved)
	}
	p = dollarAToken(t, budget)
	settle, _ := p.Call(context.Background(), "m", size, 0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, enough := p.Call(ended, "m", budget, 0); enough {
		t.Error("what another has reserved was reserved again")
	}
	if settle(nil); p.spent != size || p.reserved != 0 {
		t.Errorf("an unknown cost counts as %d", p.spent)
	}
	var none *Budget
	if settle, enough := none.Call(context.Background(), "m", 1<<60, 0); !enough {
		t.Error("a run without a limit refuses a call")
	} else {
		settle(nil)
	}
}

// TestNothingIsReservedTwice: shares that change at the same time are held to
// what all of them have.
func TestNothingIsReservedTwice(t *testing.T) {
	const budget = 260
	p := dollarAToken(t, budget)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, ok := p.Wait(context.Background(), 20)
			if !ok {
				t.Error("there is room for eight")
				return
			}
			for range 2000 {
				s.Reserve(50, false)
				p.mu.Lock()
				if over := p.spent + p.reserved - budget; over > 0 {
					t.Errorf("%d more than there is are reserved", over)
				}
				p.mu.Unlock()
				s.Reserve(10, false)
			}
			s.Close()
		})
	}
	all.Wait()
}

// TestWaitIsNotRefusedEarly: who needs no more than there always is gets it, however
// much others take and give back meanwhile.
func TestWaitIsNotRefusedEarly(t *testing.T) {
	p := dollarAToken(t, 100)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				s, ok := p.Wait(context.Background(), 60)
				if !ok {
					t.Error("the money is said to be gone")
					return
				}
				s.Close()
			}
		})
	}
	all.Wait()
}

// TestNeverOverdrawn: as long as requests cost no more than what their
// bound says, all of them together cost no more than the budget.
func TestNeverOverdrawn(t *testing.T) {
	const budget = 10_000
	p := dollarAToken(t, budget)
	var all sync.WaitGroup
	refused := make(chan bool, 16*200)
	for worker := range 16 {
		random := rand.New(rand.NewPCG(7, uint64(worker)))
		all.Go(func() {
			for range 200 {
				s, ok := p.Wait(context.Background(), 40)
				if !ok {
					refused <- true
					return
				}
				for turn := range random.Int64N(6) {
					size := 20 + 10*turn
					last := !s.Reserve(size, false)
					if last && !s.Reserve(size, true) {
						break
					}
					cost := random.Int64N(size + 1)
					if random.IntN(10) == 0 {
						s.Charge(nil)
					} else {
						s.Charge(&cost)
					}
					if last {
						break
					}
				}
				s.Close()
			}
		})
	}
	all.Wait()
	if p.spent > budget || p.spent < budget-60 || p.reserved != 0 || len(refused) == 0 {
		t.Errorf("spent %d of %d, %d reserved, %d refused", p.spent, budget, p.reserved, len(refused))
	}
}

// TestShared: two budgets of one pool together spend no more than it has, and what one gives back the other gets. Once
// its keeper cannot be asked nothing is reserved, and that is not told from money that is spent by silence.
func TestShared(t *testing.T) {
	var mu sync.Mutex
	var gone error
	taken := [2][2]int64{}
	of := func(number int) *Budget {
		b := dollarAToken(t, 100)
		b.ask = func(_ context.Context, spent, reserved int64) (ok, later bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			other := taken[1-number]
			before := taken[number][0] + taken[number][1]
			taken[number][0] = spent
			if ok = spent+reserved <= max(before, 100-other[0]-other[1]); ok {
				taken[number][1] = reserved
			}
			return ok, other[1] > 0, gone
		}
		return b
	}
	one, other := of(0), of(1)
	a, ok := one.Take(80)
	if !ok {
		t.Fatal("there is enough for one")
	}
	if _, ok := other.Take(21); ok {
		t.Error("the second budget spends what the first has reserved")
	}
	got := make(chan *Reservation)
	go func() {
		r, _ := other.Wait(context.Background(), 60)
		got <- r
	}()
	cost := int64(40)
	a.Charge(&cost)
	a.Close()
	b := <-got
	if b == nil || taken != [2][2]int64{{40, 0}, {0, 60}} {
		t.Fatalf("the second budget does not get what the first gave back: %v", taken)
	}
	if _, ok := one.Take(61); ok {
		t.Error("more is reserved than there is")
	}
	b.Charge(new(int64(61)))
	if b.TryStarted(2) == nil {
		t.Error("a further try is paid with money that is not there")
	}
	mu.Lock()
	gone = errors.New("the keeper is gone")
	mu.Unlock()
	if _, ok := one.Wait(context.Background(), 1); ok || one.Err() == nil {
		t.Errorf("reserved %v, and the error is %v", ok, one.Err())
	}
}
