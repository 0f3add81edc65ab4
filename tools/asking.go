package tools

import (
	"errors"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

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
