package tools

import (
	"errors"
	"math"
	"sort"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// leastCompletion is the least max_tokens that a request of a tool is worth.
const leastCompletion = 256

// defaultCompletion is the max_tokens of a tool's request where a budget bounds
// it and the plan has no limit.
const defaultCompletion = 8192

// Limits are the budgets of an attempt that the policy does not have.
type Limits struct {
	Tokens   int64                // read and written; 0: no limit
	TimeLeft func() time.Duration // of the attempt; nil: no limit
}

// Limit sets the session's limits; used is how many tokens are spent already.
func (s *Session) Limit(l Limits, used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.tokens = l, used
}

// Spend counts money, in micro-USD (nil: not known), and tokens against the
// task's budgets. It returns the violation to record where this ended above one
// that held before; callID is "" for a reply of the agent's model.
func (s *Session) Spend(callID string, microUSD *int64, tokens int64) []trajectory.Payload {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []trajectory.Payload
	end := func(before, spent, limit int64, unit string) {
		if before <= limit && spent > limit {
			over = append(over, violation(callID, policy.Overspent(spent, limit, unit)))
		}
	}
	if microUSD != nil {
		before := s.cost
		s.cost += *microUSD
		if limit := s.gate.Policy.MaxCostMicroUSD; limit != policy.Unlimited {
			end(before, s.cost, limit, "micro-USD")
		}
	}
	before := s.tokens
	s.tokens += tokens
	if limit := s.limits.Tokens; limit > 0 {
		end(before, s.tokens, limit, "tokens")
	}
	return over
}

// Left returns what is left of the task's money, in micro-USD, and of its tokens: 0 or
// less where they are spent, math.MaxInt64 where there is no limit.
func (s *Session) Left() (microUSD, tokens int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	microUSD, tokens = math.MaxInt64, math.MaxInt64
	if limit := s.gate.Policy.MaxCostMicroUSD; limit != policy.Unlimited {
		microUSD = limit - s.cost
	}
	if s.limits.Tokens > 0 {
		tokens = s.limits.Tokens - s.tokens
	}
	return microUSD, tokens
}

// TokensSpent reports whether the tokens of the task are used up.
func (s *Session) TokensSpent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokensSpent()
}

func (s *Session) tokensSpent() bool { return s.limits.Tokens > 0 && s.tokens >= s.limits.Tokens }

// over says why no call at all fits the budgets that the policy does not have.
// The lock is held.
func (s *Session) over() string {
	switch {
	case s.tokensSpent():
		return policy.UsedTokens(s.limits.Tokens)
	case s.limits.TimeLeft != nil && s.limits.TimeLeft() <= 0:
		return policy.OverTime
	}
	return ""
}

// bounded reports whether a budget bounds what calls that ask a model may take.
func (s *Session) bounded() bool {
	return s.gate.Policy.MaxCostMicroUSD != policy.Unlimited || s.limits.Tokens > 0
}

// Need bounds what one request of a tool to a model takes, its completion aside.
type Need struct {
	Model  string
	In     int64 // tokens read
	Out    int64 // tokens written, where no request can limit them; else 0
	Millis int64 // length of a recording; else 0
}

// PictureTokens is more than the usual endpoints count for a picture of the size that
// is sent.
const PictureTokens = 3000

// Cost bounds what a request costs that writes out tokens at most, in micro-USD;
// nil where the price is not known.
func (n Need) Cost(prices llm.Prices, out int64) *int64 {
	if cost := prices.CostOfAudio(n.Model, n.Millis); cost != nil {
		return cost
	}
	return prices.Bound(n.Model, n.In, max(out, n.Out))
}

// grant is what a call may take that asks a model, and what it has taken. A nil
// grant limits nothing.
type grant struct {
	need      Need
	prices    llm.Prices
	floor     int64  // of an earlier request that cost more than its price, in micro-USD
	maxTokens int    // of a completion; 0 leaves it to the endpoint
	cost      *int64 // of one request at most, in micro-USD; nil: not known
	tokens    int64  // likewise
	money     int64  // left for all requests, in micro-USD; policy.Unlimited: no limit
	left      int64  // tokens left for all requests; policy.Unlimited: no limit

	spent, used int64 // micro-USD and tokens, with the bound where a reply has no usage
	in, highest int64 // the most tokens read of one request, and the highest cost above the price
}

// reserve sets aside what one request of a call may take: its completion is as
// long as the plan allows and what is left does. over says why not even the
// shortest fits. The lock is held; no other call is granted anything before this
// one is settled.
func (s *Session) reserve(n Need) (g *grant, over string) {
	seen := s.seen[n.Model] // an endpoint may count, or bill, more than the bound does
	g = &grant{need: n, prices: s.gate.Prices, floor: seen.highest, maxTokens: s.gate.MaxTokens, money: policy.Unlimited, left: policy.Unlimited}
	n.In = max(n.In, seen.in)
	priced := n.Cost(g.prices, 0) != nil
	if limit := s.gate.Policy.MaxCostMicroUSD; limit != policy.Unlimited {
		g.money = max(limit-s.cost, 0)
	}
	if s.limits.Tokens > 0 {
		g.left = max(s.limits.Tokens-s.tokens, 0)
	}
	if n.Millis > 0 { // what a recording gives cannot be limited
		if priced && s.gate.Prices.CostOfAudio(n.Model, n.Millis) == nil {
			g.tokens = n.In + n.Out
		}
		return g, g.lacks(n, 0)
	}
	limit := s.gate.MaxTokens
	if limit == 0 && (g.left != policy.Unlimited || priced && g.money != policy.Unlimited) {
		limit = defaultCompletion
	}
	least := min(leastCompletion, limit)
	if over := g.lacks(n, int64(least)); over != "" {
		return g, over
	}
	g.maxTokens = least + sort.Search(limit-least, func(i int) bool { return g.lacks(n, int64(least+i+1)) != "" })
	return g, g.lacks(n, int64(g.maxTokens))
}

// lacks makes g that of a request that writes so many tokens at most, and says
// why it does not fit what is left; "" if it does.
func (g *grant) lacks(n Need, out int64) string {
	if g.cost = n.Cost(g.prices, out); g.floor > 0 && (g.cost == nil || *g.cost < g.floor) {
		g.cost = &g.floor
	}
	if n.Millis == 0 {
		g.tokens = n.In + out
	}
	return g.short(0, 0)
}

// short says why another request does not fit what is left after so much.
func (g *grant) short(spent, used int64) string {
	switch {
	case g.money != policy.Unlimited && g.cost != nil && *g.cost > g.money-spent:
		return policy.OverMoney(max(g.money-spent, 0))
	case g.left != policy.Unlimited && g.tokens > g.left-used:
		return policy.OverTokens(max(g.left-used, 0))
	}
	return ""
}

// tried counts what a request took. One whose reply was lost, or has no usage,
// counts as its bound.
func (g *grant) tried(t llm.Try) {
	if g == nil {
		return
	}
	if t.Response == nil {
		if t.Err != nil && (trajectory.CallError{Code: t.Err.Code, Status: t.Err.Status}).Unanswered() {
			g.take(g.cost, g.tokens)
		}
		return
	}
	usage := t.Response.Usage
	cost, used := g.cost, g.tokens
	if usage.Reported {
		used = usage.In + usage.Out
	}
	if billed := t.Response.CostMicroUSD; billed != nil {
		cost = billed
		priced := g.prices.Cost(g.need.Model, usage)
		if priced == nil && g.need.Millis > 0 { // it is billed by its length
			priced = g.cost
		}
		if priced == nil || *billed > *priced {
			g.highest = max(g.highest, *billed)
		}
	}
	g.in = max(g.in, usage.In)
	g.take(cost, used)
}

func (g *grant) take(cost *int64, tokens int64) {
	if cost != nil {
		g.spent += *cost
	}
	g.used += tokens
}

// settle counts what a call took that asked a model, and records it at once: the
// next such call is decided with what is left.
func (s *Session) settle(turn int, p *pass) error {
	p.settled = true
	var events []trajectory.Payload
	if p.ran || p.output.Model != nil {
		events = append(s.refusedEvents(p), s.executedEvent(p))
	}
	if g := p.grant; g != nil {
		s.mu.Lock()
		seen := s.seen[g.need.Model]
		s.seen[g.need.Model] = seenUse{max(seen.in, g.in), max(seen.highest, g.highest)}
		s.mu.Unlock()
		events = append(events, s.Spend(p.id, &g.spent, g.used)...)
	}
	_, err := s.rec.Enqueue(turn, events...)
	return err
}

// seenUse is what one request to a model took in the attempt at most, as grant has it.
type seenUse struct{ in, highest int64 }

// Asking adds up what the requests of a call to a model took, those included whose
// answer was of no use. It is the observer of the requests. Nothing else of them is
// kept: the Gate has recorded the call before it runs, and records its result.
type Asking struct {
	use   trajectory.ModelUse
	grant *grant
}

// Asking begins to count the requests of a call to model.
func (env *Env) Asking(model string) *Asking {
	return &Asking{trajectory.ModelUse{CostMicroUSD: new(int64), RequestedModel: model}, env.grant}
}

// MaxTokens returns the max_tokens of a request of the call; 0 leaves it to the endpoint.
func (k *Asking) MaxTokens() int {
	if k.grant == nil {
		return 0
	}
	return k.grant.maxTokens
}

// Covers reports whether a request needs no more than was set aside for the call.
func (k *Asking) Covers(n Need) bool { return k.grant == nil || n.In <= k.grant.need.In }

// noBudget is the code of a further try that does not fit the budgets of the task.
const noBudget = "task_budget"

// TryStarted implements llm.Observer. A further try costs again.
func (k *Asking) TryStarted(number int) error {
	if number > 1 && k.grant != nil {
		if short := k.grant.short(k.grant.spent, k.grant.used); short != "" {
			return &llm.Error{Code: noBudget, Message: short}
		}
	}
	k.use.Tries = number
	return nil
}

// TryCompleted implements llm.Observer.
func (k *Asking) TryCompleted(done llm.Try) error {
	k.grant.tried(done)
	if done.Response == nil { // no answer, no bill
		return nil
	}
	u := done.Response.Usage
	k.use.UsageReported = u.Reported
	k.use.Tokens = k.use.Tokens.Add(trajectory.Tokens{Cached: u.Cached, In: u.In, Out: u.Out, Reasoning: u.Reasoning})
	if cost := done.Response.CostMicroUSD; cost == nil {
		k.use.CostMicroUSD = nil
	} else if k.use.CostMicroUSD != nil {
		*k.use.CostMicroUSD += *cost
	}
	return nil
}

// Failure handles err, not nil: it is a result where the model (who) rejects the
// request, and ends the attempt where the model cannot be asked.
func (k *Asking) Failure(err error, cannot, who string) (Output, error) {
	refused, known := errors.AsType[*llm.Error](err)
	switch {
	case !known || refused.Stop || refused.Retryable || errors.Unwrap(refused) != nil:
		// It cannot be asked at all, or not now. What the requests took counts if it is anything.
		if c := k.use.CostMicroUSD; c != nil && *c == 0 {
			return Output{}, err
		}
		return Output{Model: &k.use}, err
	case k.use.Tries == 0 || refused.Code == noBudget: // it was not asked
		return k.Mark(Failed("%s: %s", cannot, refused.Message), refused.RequestID, ""), nil
	}
	return k.Mark(Failed("%s: %s does not take it: %s", cannot, who, refused.Message), refused.RequestID, ""), nil
}

// Mark says in a result what was asked for it.
func (k *Asking) Mark(out Output, requestID, responseModel string) Output {
	k.use.RequestID, k.use.ResponseModel = requestID, responseModel
	out.Model = &k.use
	return out
}
