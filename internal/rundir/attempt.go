package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Attempt is what the journal says of one attempt.
type Attempt struct {
	Number        int
	Answer        *trajectory.AnswerCommitted // nil: none committed
	Ended         *trajectory.AttemptEnded    // nil: under way, or cut off
	Judgment      *trajectory.Judgment        // nil: not graded
	Error         *trajectory.Error           // what made it fail; nil if nothing did
	Turns         int                         // of an own agent those with a model call
	ToolCalls     int
	ToolsUsed     []string            // sorted, each once
	Tokens        trajectory.Tokens   // also of models that tools asked
	CostMicroUSD  *int64              // likewise; nil: a call's price is unknown
	KnownMicroUSD int64               // of the calls whose price is known
	Retried       int                 // model calls that repeated another; of an own agent those with the same body
	Conduct       *trajectory.Conduct // not nil; shared by attempts that have ended
	Refused       int                 // requests of an own agent that were not passed on

	own             bool  // of an own agent
	written         bool  // a call that may change the workspace was let through
	silent          int32 // replies that no call followed; of an own agent all
	server          serverCounts
	firstUs, lastUs int64
	bytes           int64 // of its lines, while they are counted as open

	*underWay // nil: it has ended
}

// underWay is what is known of an attempt until it ends.
type underWay struct {
	agent    *plan.AgentPlan // of the plan; nil: the built-in agent
	network  network
	inputs   [2]*Inputs // of the run and of the task
	tasks    int        // that are planned
	requests trajectory.Requests
	kept     int                  // by the last request of what the one before it lists
	fresh    []trajectory.Message // that the last request lists besides
	conduct  trajectory.Conduct
	steps    []any
	light    bool              // steps are not kept
	lastCall string            // event id of the last model call
	begun    int               // turns
	turns    map[int]*openTurn // that are open
	sent     map[string]bool   // digests of the requests of an own agent
	process  int               // which process wrote its events
	replied  bool              // the model's last reply has been followed by no call
}

// Lost reports whether an interruption or a stop of the run ended an attempt after a reply that called no tool, that of
// an own agent after any reply: an answer may have been lost with it.
func (a *Attempt) Lost() bool {
	return a.silent > 0 && a.Ended != nil && a.Ended.Lost()
}

// Failed is why an attempt ended as an error.
type Failed string

// Why attempts end as an error. Of the first four neither the agent nor the model can be the cause.
const (
	FailedEndpoint    Failed = "endpoint"    // the model's endpoint, or the network to it, failed after all tries
	FailedStop        Failed = "stop"        // a failure that every task would meet stopped the run
	FailedInterrupted Failed = "interrupted" // the process ended, or evidence could not be recorded
	FailedSandbox     Failed = "sandbox"     // the program of an own agent was not started
	FailedRequest     Failed = "request"     // the endpoint refused this request, or its reply could not be used
	FailedLost        Failed = "lost"        // as Lost reports: an answer may have been seen
	FailedOther       Failed = "other"       // a tool failed, or an event was too large
)

// Infrastructure reports whether neither the agent nor the model can be the cause of a failure.
func (f Failed) Infrastructure() bool {
	return f == FailedEndpoint || f == FailedStop || f == FailedInterrupted || f == FailedSandbox
}

// Failed returns why an attempt ended as an error, "" if it did not.
func (a *Attempt) Failed() Failed {
	switch {
	case a.Ended == nil || a.Ended.Outcome != trajectory.Errored:
		return ""
	case a.Lost():
		return FailedLost
	case a.Ended.Reason == trajectory.Interrupted:
		return FailedInterrupted
	case a.Ended.Reason == trajectory.RunStopped:
		return FailedStop
	case a.Ended.Agent != nil && a.Ended.Agent.Ended == trajectory.AgentNotStarted:
		return FailedSandbox
	case a.Error == nil || a.Error.Stage != "model":
		return FailedOther
	case a.server.down:
		return FailedEndpoint
	}
	return FailedRequest
}

// Diff returns what an attempt has made of its workspace, as a unified diff; recorded is false where the journal does
// not tell: it holds digests alone, or the attempt was cut off before the diff was made. Where no call was let through
// that may change the workspace, there is an empty one.
func (a *Attempt) Diff() (diff string, recorded bool) {
	if a.Ended == nil {
		return "", false
	}
	w := a.Ended.Workspace
	if w == nil {
		return "", !a.written && !a.own // an own agent changes it itself
	}
	return w.Diff, w.Diff != "" || !w.Truncated
}

// LatencyMs is the time from the first event of an attempt that has ended to its last.
func (a *Attempt) LatencyMs() int64 { return (a.lastUs - a.firstUs) / 1000 }

// maxLines bounds the lines of text that an attempt can have written: far more than a workspace has room for, and so
// few that no sum of them overflows.
const maxLines = 1 << 32

// add takes an event of an open attempt.
func (a *Attempt) add(e *trajectory.Event) (reason string) {
	if reason := a.foreign(e.Payload); reason != "" {
		return reason
	}
	if _, begins := e.Payload.(trajectory.TurnStarted); e.Turn != 0 && !begins {
		turn := a.turns[e.Turn]
		switch {
		case turn == nil && a.own:
			return fmt.Sprintf("turn %d is not open", e.Turn)
		case turn == nil:
			return fmt.Sprintf("turn %d is not the open one", e.Turn)
		case a.own:
			if reason := a.exchange(e.Turn, turn, e.Payload); reason != "" {
				return reason
			}
		}
	}
	a.requests.Add(e.Payload)
	switch p := e.Payload.(type) {
	case trajectory.TurnStarted:
		return a.begin(e.Turn)
	case trajectory.RequestRefused:
		return ""
	case trajectory.ExchangeStarted:
		return a.network.start(p, a.Answer != nil)
	case trajectory.ExchangeCompleted:
		if reason := a.network.complete(p); reason != "" {
			return reason
		}
	case trajectory.Error:
		a.Error = &p
		return ""
	case trajectory.AnswerCommitted:
		if a.Answer != nil {
			return "commits a second answer"
		}
		if a.own {
			if reason := a.committed(p); reason != "" {
				return reason
			}
		}
		a.Answer = &p
		return ""
	case trajectory.AttemptEnded:
		if (p.Outcome == trajectory.Answered) != (a.Answer != nil) {
			return fmt.Sprintf("ends as %q, which its events do not give", p.Outcome)
		}
		if p.Outcome != trajectory.Answered && p.Outcome != trajectory.NoAnswer && p.Outcome != trajectory.Errored {
			return fmt.Sprintf("ends as %q", p.Outcome)
		}
		if w := p.Workspace; w != nil && (min(w.Added, w.Removed, w.Reworked) < 0 || max(w.Added, w.Removed, w.Reworked) > maxLines) {
			return "counts lines that no workspace has"
		}
		if a.own {
			if reason := a.ended(p); reason != "" {
				return reason
			}
		}
		a.Ended = &p
		return ""
	case trajectory.ToolExecuted:
		if len(a.ToolsUsed) == plan.MaxTools && !slices.Contains(a.ToolsUsed, p.Name) {
			return fmt.Sprintf("uses more than %d tools", plan.MaxTools)
		}
	case trajectory.PolicyViolation:
		if !classified(p) {
			return fmt.Sprintf("is a violation of the class %q, which its rules do not give", p.Class)
		}
	case trajectory.ModelCallCompleted:
		if p.RetryOf != "" && p.RetryOf != a.lastCall {
			return fmt.Sprintf("repeats %q, which is not the last model call of the attempt", p.RetryOf)
		}
		a.lastCall = e.ID
	case trajectory.ContextCompiled:
		a.kept, a.fresh = p.Kept, p.Messages
		for _, n := range a.inputs {
			if !n.add(p, a.own) {
				return "its messages cannot be added up"
			}
		}
		whole, err := a.requests.Rebuild(p)
		if err != nil {
			return err.Error()
		}
		e.Payload = whole
	}
	a.step(*e)
	return ""
}

// classified reports whether the class of a violation follows from its rules: a rule other than that of budgets makes
// it one of rules, whatever else denied the call.
func classified(p trajectory.PolicyViolation) bool {
	class := policy.Denial(p.Class)
	if slices.ContainsFunc(p.RuleIDs, func(id string) bool { return id != policy.Budget }) {
		return class == policy.DeniedByRule
	}
	return class == policy.DeniedByList || class == policy.DeniedByMode || class == policy.DeniedByBudget && len(p.RuleIDs) > 0
}

// step takes what an event adds to an open attempt.
func (a *Attempt) step(e trajectory.Event) {
	a.Conduct.Add(e.Payload)
	switch p := e.Payload.(type) {
	case trajectory.ModelCallStarted:
		if p.Request != nil && p.Request.Retry {
			a.Retried++
		}
	case trajectory.ModelCallCompleted:
		a.Tokens = a.Tokens.Add(p.Tokens)
		if p.OutputSHA256 != "" { // also a reply that was found empty was paid for
			a.charge(p.CostMicroUSD)
		}
		if p.OutputSHA256 != "" && p.Error == nil {
			a.replied = !a.own // an own agent can show its answer, and call a tool after that
			a.silent++
		}
		if p.RetryOf != "" {
			a.Retried++
		}
		a.server.add(p)
	case trajectory.ToolProposed:
		a.ToolCalls++
		if a.replied {
			a.replied = false
			a.silent--
		}
		turn := a.turns[e.Turn]
		if turn.calls == nil {
			turn.calls = map[string]openCall{}
		}
		turn.calls[p.CallID] = openCall{p.Name, append(turn.calls[p.CallID].undecided, len(a.steps))}
	case trajectory.PolicyDecision:
		turn := a.turns[e.Turn]
		if call := turn.calls[p.CallID]; len(call.undecided) > 0 && !a.light {
			if at := call.undecided[0]; len(p.RuleIDs) > 0 {
				step := a.steps[at].(ToolCallStep)
				step.RuleHits = p.RuleIDs
				a.steps[at] = step
			}
			turn.calls[p.CallID] = openCall{call.tool, call.undecided[1:]}
		}
	case trajectory.CheckpointSaved:
		a.written = true
	case trajectory.ToolExecuted:
		if at, used := slices.BinarySearch(a.ToolsUsed, p.Name); !used {
			a.ToolsUsed = slices.Insert(a.ToolsUsed, at, p.Name)
		}
		if p.Model != nil {
			a.Tokens = a.Tokens.Add(p.Model.Tokens)
			a.charge(p.Model.CostMicroUSD)
		}
	}
	if a.light {
		return
	}
	if step := a.StepOf(e); step != nil {
		a.steps = append(a.steps, step)
	}
}

// StepOf returns the step of a trajectory that the last event of the attempt gives, nil if it gives none. A ToolCallStep
// is without its rule hits, which follow from the decision about the call.
func (a *Attempt) StepOf(e trajectory.Event) any {
	switch p := e.Payload.(type) {
	case trajectory.ContextCompiled:
		step := PromptStep{BodySHA256: p.BodySHA256, Bytes: p.Bytes, ContentSHA256: p.ContentSHA256, Head: p.Head, Messages: p.Messages,
			Redactions: p.Redactions, Truncated: p.Truncated, Turn: e.Turn, Type: "prompt"}
		if a.own { // whose conversations can have thousands of messages and requests
			step.Kept, step.Messages = a.kept, list(a.fresh)
		}
		return step
	case trajectory.ModelCallCompleted:
		return LLMCallStep{BodySHA256: p.BodySHA256, Error: p.Error, Fingerprint: p.Fingerprint, FinishReason: p.FinishReason, Head: p.Head, LatencyMs: p.LatencyMs,
			OutputSHA256: p.OutputSHA256, Redactions: p.Redactions, RequestID: p.RequestID, RequestedModel: p.RequestedModel,
			ResponseModel: p.ResponseModel, RetryOf: p.RetryOf, TokensCached: p.Tokens.Cached, TokensIn: p.Tokens.In,
			TokensOut: p.Tokens.Out, TokensReasoning: p.Tokens.Reasoning, Turn: e.Turn, Type: "llm_call", UnrecordedChannels: p.UnrecordedChannels,
			UsageReported: p.UsageReported}
	case trajectory.ToolProposed:
		return ToolCallStep{Args: p.Args, ArgsSHA256: p.ArgsSHA256, ArgsTruncated: list(p.ArgsTruncated), BodySHA256: p.BodySHA256, CallID: p.CallID,
			Malformed: p.Malformed, Name: p.Name, Redactions: p.Redactions, RuleHits: []string{}, Turn: e.Turn, Type: "tool_call"}
	case trajectory.PolicyDecision:
		if p.Shown != "" {
			return ToolResultStep{Bytes: int64(len(p.Shown)), CallID: p.CallID, Head: p.Shown, IsError: true,
				Name: a.nameOf(e.Turn, p.CallID), OutputSHA256: canonical.Digest([]byte(p.Shown)), Refused: true, Turn: e.Turn, Type: "tool_result", URLs: []trajectory.URL{}}
		}
	case trajectory.ToolExecuted:
		return ToolResultStep{BodySHA256: p.BodySHA256, Bytes: p.Bytes, CallID: p.CallID, Head: p.Head, IsError: p.IsError, Model: p.Model, Name: p.Name,
			OutputSHA256: p.OutputSHA256, Redactions: p.Redactions, Probes: p.Probes, Truncated: p.Truncated, Turn: e.Turn, Type: "tool_result", URLs: list(p.URLs)}
	case trajectory.ExchangeCompleted:
		s := a.network.last
		return ExchangeStep{BodySHA256: p.BodySHA256, Bytes: p.Bytes, ContentType: p.ContentType, Error: p.Error, Head: p.Head, LatencyMs: p.LatencyMs, Media: p.Media, Method: s.Method,
			Number: p.Number, Opaque: p.Opaque, Probes: p.Probes, Redactions: p.Redactions, RequestBodySHA256: s.BodySHA256, RequestBytes: s.Bytes, RequestSHA256: s.SHA256,
			SHA256: p.SHA256, Status: p.Status, Truncated: p.Truncated, Type: "exchange", Unprobed: p.Unprobed, URL: s.URL}
	}
	return nil
}

// nameOf returns the tool of a call in an open turn.
func (a *Attempt) nameOf(turn int, callID string) string {
	if a.underWay == nil || a.turns[turn] == nil {
		return ""
	}
	return a.turns[turn].calls[callID].tool
}

// list makes an absent list an empty one: the derived files have no nulls for "none".
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// charge adds what a call cost; nil is unknown.
func (a *Attempt) charge(microUSD *int64) {
	a.CostMicroUSD = stats.AddCost(a.CostMicroUSD, microUSD)
	if microUSD != nil {
		a.KnownMicroUSD += *microUSD
	}
}

// Asks says whether the question of a task can be this one: by the plan and the salt of a sealed task, by the journal
// of one that was begun. Of another task nothing is known.
func (t *Task) Asks(question string) bool {
	if t.Sealed != nil {
		digest, err := plan.QuestionDigest(hex.EncodeToString(t.Salt[:]), question)
		return err == nil && digest == t.Plan.QuestionSHA256
	}
	return len(t.Attempts) == 0 || t.asked == sha256.Sum256([]byte(question))
}
