package workers

import (
	"math"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/queue"
)

// account is what one worker may have spent and reserved, by its own word, in micro-USD.
type account struct {
	spent, held int64
	seq         int64     // of its last question
	kept        int64     // bounds both together, on disk
	seen        time.Time // when it last sent anything
}

// limits are what all workers share: the money of the run, and the rate of requests. What a worker that is gone had
// reserved stays taken: no one knows whether it was spent.
type limits struct {
	money    int64        // micro-USD; 0: no limit
	rates    *llm.Limiter // nil: any rate
	now      func() time.Time
	accounts map[int]*account
	gone     time.Duration // a worker that was silent for so long releases nothing
}

func newLimits(money, requests, tokens int64, now func() time.Time, gone time.Duration) *limits {
	l := &limits{money: money, now: now, accounts: map[int]*account{}, gone: gone}
	if requests > 0 || tokens > 0 {
		l.rates = llm.NewLimiter(llm.LimiterConfig{RequestsPerMinute: requests, TokensPerMinute: tokens, Now: now})
	}
	return l
}

func (l *limits) of(worker int) *account {
	a := l.accounts[worker]
	if a == nil {
		a = &account{}
		l.accounts[worker] = a
	}
	return a
}

// allow answers a worker that wants to have spent and reserved so much. keep, if above 0, is to be on disk before the
// answer: at a restart the worker counts as having taken so much.
func (l *limits) allow(worker int, m queue.Money) (answer queue.Grant, keep int64) {
	if l.money <= 0 {
		return queue.Granted, 0
	}
	a := l.of(worker)
	if m.Seq < a.seq {
		return queue.Wait, 0
	}
	before, again := add(a.spent, a.held), m.Seq == a.seq && m.Spent <= a.spent && m.Held == a.held
	if again {
		return queue.Granted, 0
	}
	a.seq, a.spent = m.Seq, max(a.spent, m.Spent) // whether or not more is allowed
	if add(a.spent, m.Held) > before {
		taken, later := int64(0), false
		for w, other := range l.accounts {
			if w == worker {
				continue
			}
			taken = add(taken, add(other.spent, other.held))
			later = later || other.held > 0 && l.now().Sub(other.seen) < l.gone
		}
		if add(taken, add(a.spent, m.Held)) > l.money {
			a.held = max(before-a.spent, 0)
			if later {
				return queue.Wait, 0
			}
			return queue.Spent, 0
		}
	}
	grows := max(m.Held-a.held, 0)
	a.held = m.Held
	if total := add(a.spent, a.held); total > a.kept {
		a.kept = add(total, 3*grows) // so that it is written seldom
		return queue.Granted, a.kept
	}
	return queue.Granted, 0
}

// restore takes what a worker had taken when the server ended, until the worker is heard of.
func (l *limits) restore(worker int, kept int64) {
	a := l.of(worker)
	a.kept, a.held = kept, kept
}

// permit takes one request of so many tokens, and returns how long the worker has to wait before it sends it.
func (l *limits) permit(tokens int64) time.Duration {
	if l.rates == nil {
		return 0
	}
	return l.rates.Delay(tokens)
}

// add adds up without an overflow.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
