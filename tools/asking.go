package tools

import (
	"errors"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// asking adds up what the requests of a call took, those included whose
// answer was of no use. Nothing else of them is kept: the Gate has recorded the
// call before it runs, and records its result.
type asking struct {
	use   trajectory.ModelUse
	grant *grant
}

func newAsking(model string, g *grant) asking {
	return asking{trajectory.ModelUse{CostMicroUSD: new(int64), RequestedModel: model}, g}
}

// noBudget is the code of a further try that does not fit the budgets of the task.
const noBudget = "task_budget"

// TryStarted implements llm.Observer. A further try costs again.
func (k *asking) TryStarted(number int) error {
	if number > 1 && k.grant != nil {
		if short := k.grant.short(k.grant.spent, k.grant.used); short != "" {
			return &llm.Error{Code: noBudget, Message: short}
		}
	}
	k.use.Tries = number
	return nil
}

// TryCompleted implements llm.Observer.
func (k *asking) TryCompleted(done llm.Try) error {
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

// billed is what the requests took, nil if none of them is known to have taken
// anything.
func (k *asking) billed() *trajectory.ModelUse {
	if c := k.use.CostMicroUSD; c != nil && *c == 0 {
		return nil
	}
	return &k.use
}

// failure is what comes of err, not nil: a result, where the model (who) does
// not take what it was asked; the attempt's end, where it cannot be asked.
func (k *asking) failure(err error, cannot, who string) (Output, error) {
	refused := refusal(err)
	switch {
	case refused == nil:
		return Output{Model: k.billed()}, err
	case k.use.Tries == 0 || refused.Code == noBudget: // it was not asked
		return k.mark(failed("%s: %s", cannot, refused.Message), refused.RequestID, ""), nil
	}
	return k.mark(failed("%s: %s does not take it: %s", cannot, who, refused.Message), refused.RequestID, ""), nil
}

// mark says in a result what was asked for it.
func (k *asking) mark(out Output, requestID, responseModel string) Output {
	k.use.RequestID, k.use.ResponseModel = requestID, responseModel
	out.Model = &k.use
	return out
}

// refusal is err if a model did not take what it was asked, which is a result;
// nil if it cannot be asked at all, or not now.
func refusal(err error) *llm.Error {
	var refused *llm.Error
	if errors.As(err, &refused) && !refused.Stop && !refused.Retryable && errors.Unwrap(refused) == nil {
		return refused
	}
	return nil
}
