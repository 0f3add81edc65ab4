package proxy

import (
	"context"
	"fmt"
	"math"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
)

// fewBytes are the bytes of a body for a token of it, to bound what a request may cost. someBytes are more, to guess what
// one has used that reports no usage.
const (
	fewBytes  = 2
	someBytes = 3
)

// assumedCompletion is how long a completion is taken to be, of the budgets of the task, where neither the request nor the plan has a limit.
const assumedCompletion = 8192

// share is what calls under way may take of the budgets of the task.
type share struct {
	calls            int
	microUSD, tokens int64
}

func addUp(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// needs bounds the tokens that a request reads, and those that it writes; 0: it has no limit.
func (p *Proxy) needs(a llm.Asked, body []byte) (in, out int64) {
	size, pictures := int64(len(body)), int64(0)
	for _, m := range a.Messages {
		if m.Image != nil {
			size -= int64(len(m.Image.Data)) * 4 / 3 // it is sent in base64
			pictures++
		}
	}
	out = a.MaxTokens
	if out <= 0 {
		out = p.MaxTokens
	}
	if n := int64(max(a.Completions, 1)); out > math.MaxInt64/n {
		out = math.MaxInt64
	} else {
		out *= n
	}
	return max(size, 0)/fewBytes + pictures*tools.PictureTokens, max(out, 0)
}

// holds is what a call has set aside.
type holds struct {
	share share
	money func(microUSD *int64)           // of the run; nil: none
	place func(*llm.Response, *llm.Error) // at the endpoint; nil: none
}

// admit waits until a call has its share of the task's budgets, the run's money and a place at the endpoint. Who holds a
// later one of them waits for no earlier one, so that calls cannot block each other.
func (c *call) admit(wait context.Context, to Upstream, body []byte) *refusal {
	if !c.count() {
		return &refusal{400, "calls_spent", fmt.Sprintf("the attempt has made all of its %d model calls: answer with what there is", c.Calls)}
	}
	if !c.counts {
		in, out := c.needs(c.asked, body)
		c.in = in
		if refused := c.fit(wait, in, out); refused != nil {
			return refused
		}
		settle, enough := c.attempt.Money.Call(wait, c.asked.Model, in, out)
		switch {
		case enough:
			c.holds.money = settle
		case wait.Err() != nil:
			return hungUp
		default:
			return &refusal{400, "budget_spent", "the run has too little money left for this request: answer with what there is, or ask for a shorter completion (max_tokens)"}
		}
	}
	place, err := to.Limiter.Acquire(wait, len(body))
	if err != nil {
		return hungUp
	}
	c.holds.place = place
	return nil
}

// count takes one of the calls of the attempt.
func (c *call) count() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun >= c.Calls {
		return false
	}
	c.begun++
	c.counted = true
	return true
}

// release gives back what a call holds, and says what it cost.
func (c *call) release(microUSD *int64, response *llm.Response, failed *llm.Error) {
	held := c.holds
	c.holds = holds{}
	if held.place != nil {
		held.place(response, failed)
	}
	if held.money != nil {
		held.money(microUSD)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = share{c.held.calls - held.share.calls, c.held.microUSD - held.share.microUSD, c.held.tokens - held.share.tokens}
	close(c.waiting)
	c.waiting = make(chan struct{})
}

// leave gives back what a call holds that did not come to its end.
func (c *call) leave() {
	if c.turn > 0 {
		c.release(nil, nil, nil) // it may have been billed
		return
	}
	c.release(new(int64), nil, nil)
	if c.counted {
		c.mu.Lock()
		c.begun--
		c.mu.Unlock()
	}
}

// fit waits until a call fits what is left of the task's budgets beside those that are under way, and sets aside what it
// may take. Alone it is admitted as long as anything is left, as a turn of the built-in agent is.
func (c *call) fit(ctx context.Context, in, out int64) *refusal {
	if out == 0 {
		out = assumedCompletion
	}
	for {
		c.mu.Lock()
		money, tokens := c.attempt.Session.Left()
		var why string
		switch {
		case money <= 0:
			why = "the money of this task is spent"
		case tokens <= 0:
			why = "the tokens of this task are spent"
		}
		need := share{calls: 1}
		if money != math.MaxInt64 {
			need.microUSD = money // where the price is unknown
			if cost := c.Prices.Bound(c.asked.Model, in, out); cost != nil {
				need.microUSD = *cost
			}
		}
		if tokens != math.MaxInt64 {
			need.tokens = addUp(in, out)
		}
		all := share{c.held.calls + need.calls, addUp(c.held.microUSD, need.microUSD), addUp(c.held.tokens, need.tokens)}
		if why == "" && (c.held.calls == 0 || all.microUSD <= money && all.tokens <= tokens) {
			c.held, c.holds.share = all, need
			c.mu.Unlock()
			return nil
		}
		waiting := c.waiting
		c.mu.Unlock()
		if why != "" {
			return &refusal{400, "budget_spent", why + ": answer with what there is"}
		}
		select {
		case <-waiting:
		case <-ctx.Done():
			return hungUp
		}
	}
}
