package run

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
)

// pocket returns a purse whose model costs one micro-USD a token read, nothing a
// token written.
func pocket(t *testing.T, budget int64) *purse {
	t.Helper()
	prices, err := llm.ParsePrices([]byte(`{"version":"1","note":"invented","models":{"m":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":0,"output_microusd_per_mtok":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return newPurse(Config{RunCost: budget, Prices: prices, MaxTokens: 1, Model: Endpoint{Name: "m"}}, rundir.NewFold(plan.Plan{}, "", nil))
}

func TestPurse(t *testing.T) {
	ctx := context.Background()
	if p := newPurse(Config{}, nil); p != nil {
		t.Fatal("a run without a budget has a purse")
	}
	p := pocket(t, 100)
	a, ok := p.hold(ctx, 20) // 20 are set aside
	if !ok || !a.Reserve(40, false) {
		t.Fatal("there is enough for one")
	}
	if a.Reserve(51, false) || !a.Reserve(51, true) {
		t.Error("money for the request, but not for the answer after it")
	}
	cost := int64(30)
	a.Charge(&cost)
	if p.spent != 30 || p.held != 51 {
		t.Errorf("spent %d, set aside %d", p.spent, p.held)
	}
	a.Charge(nil) // counts as what it might have been
	if p.spent != 81 {
		t.Errorf("an unknown cost counts as %d", p.spent-30)
	}
	a.close()
	if _, ok := p.hold(ctx, 20); ok || p.held != 0 {
		t.Errorf("money is set aside that is not there; %d held", p.held)
	}
	b, ok := p.hold(ctx, 18)
	if !ok || b.held != 18 {
		t.Error("what was given back cannot be had")
	}
}

// TestPurseWaits: who finds the money set aside by another waits for what that
// one gives back, or for the end.
func TestPurseWaits(t *testing.T) {
	p := pocket(t, 100)
	a, _ := p.hold(context.Background(), 80)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok := p.hold(ended, 80); ok {
		t.Error("there is money for both")
	}
	got := make(chan *share)
	go func() {
		b, _ := p.hold(context.Background(), 80)
		got <- b
	}()
	cost := int64(5)
	a.Charge(&cost)
	a.close()
	if b := <-got; b == nil || b.held != 80 {
		t.Error("it did not get what was given back")
	}
}

// TestNothingIsSetAsideTwice: shares that change at the same time are held to
// what all of them have.
func TestNothingIsSetAsideTwice(t *testing.T) {
	const budget = 260
	p := pocket(t, budget)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, ok := p.hold(context.Background(), 20)
			if !ok {
				t.Error("there is room for eight")
				return
			}
			for range 2000 {
				s.Reserve(50, false)
				p.mu.Lock()
				if over := p.spent + p.held - budget; over > 0 {
					t.Errorf("%d more than there is are set aside", over)
				}
				p.mu.Unlock()
				s.Reserve(10, false)
			}
			s.close()
		})
	}
	all.Wait()
}

// TestNobodyIsToldWrongly: who needs no more than there always is gets it, however
// much others take and give back meanwhile.
func TestNobodyIsToldWrongly(t *testing.T) {
	p := pocket(t, 100)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				s, ok := p.hold(context.Background(), 60)
				if !ok {
					t.Error("the money is said to be gone")
					return
				}
				s.close()
			}
		})
	}
	all.Wait()
}

// TestPurseIsNeverOverdrawn: as long as requests cost no more than what their
// bound says, all of them together cost no more than the budget.
func TestPurseIsNeverOverdrawn(t *testing.T) {
	const budget = 10_000
	p := pocket(t, budget)
	var all sync.WaitGroup
	refused := make(chan bool, 16*200)
	for worker := range 16 {
		random := rand.New(rand.NewPCG(7, uint64(worker)))
		all.Go(func() {
			for range 200 {
				s, ok := p.hold(context.Background(), 40)
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
				s.close()
			}
		})
	}
	all.Wait()
	if p.spent > budget || p.spent < budget-60 || p.held != 0 || len(refused) == 0 {
		t.Errorf("spent %d of %d, %d set aside, %d refused", p.spent, budget, p.held, len(refused))
	}
}

func TestCrowd(t *testing.T) {
	var mu sync.Mutex
	limit, inside, most := 2, 0, 0
	c := newCrowd(func() int { mu.Lock(); defer mu.Unlock(); return limit })
	var all sync.WaitGroup
	for i := range 60 {
		if err := c.enter(context.Background()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		inside++
		most = max(most, inside)
		if inside > limit {
			t.Errorf("%d inside of %d", inside, limit)
		}
		if i == 30 {
			limit = 5
		}
		mu.Unlock()
		c.wake()
		all.Go(func() {
			time.Sleep(time.Millisecond)
			mu.Lock()
			inside--
			mu.Unlock()
			c.leave()
		})
	}
	all.Wait()
	if most < 3 {
		t.Errorf("never more than %d inside", most)
	}
	ended, cancel := context.WithCancel(context.Background())
	limit = 1
	if c.enter(ended) != nil {
		t.Error("there is room for one")
	}
	cancel()
	if c.enter(ended) == nil {
		t.Error("there is room for two")
	}
}
