package export

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// attempt is what an attempt did, as far as the journal was read.
type attempt struct {
	*conversation
	bodies
	question string
	file     string
	first    time.Time
	last     time.Time
	working  int64 // milliseconds that models and tools took
	events   []any
	output   modelOutput // the last one
	usage    usage
	proposed map[string]proposal // by call id, of the turn
	rest     []*chatMessage      // results since the last request
}

// proposal is a call that waits for its result.
type proposal struct {
	name string
	args map[string]string
	at   time.Time
}

// newAttempt begins an attempt; id is part of the ids of what it has, and texts
// are what the harness says in every one.
func newAttempt(id string, texts []string, b bodies, at time.Time) *attempt {
	return &attempt{conversation: newConversation(id, slices.Clone(texts)), bodies: b, first: at, last: at, output: modelOutput{Choices: []choice{}}, usage: usage{}}
}

// add takes the next event of the attempt.
func (a *attempt) add(e trajectory.Event) error {
	a.last = e.Time()
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		a.question, a.file = p.Question, p.FileName
		a.texts = append(a.texts, prompt.Question(p.Question, p.FileName))
		init := initEvent{eventBase: a.base("sample_init", e, 0)}
		init.Sample.Input, init.Sample.ID = p.Question, e.TaskID
		a.events = append(a.events, init)
	case trajectory.TurnStarted:
		a.proposed = map[string]proposal{}
	case trajectory.ContextCompiled:
		text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
		if err != nil {
			return err
		}
		a.compile(p, text, whole)
		a.rest = nil
	case trajectory.ModelCallCompleted:
		return a.called(e, p)
	case trajectory.ToolProposed:
		return a.asked(e, p)
	case trajectory.PolicyDecision:
		if p.Shown != "" {
			origin := textOrigin{Bytes: int64(len(p.Shown)), Source: "tool:" + p.CallID}
			a.result(e, p.CallID, a.proposed[p.CallID].name, p.Shown, "approval", origin, 0, "")
		}
	case trajectory.ToolExecuted:
		return a.executed(e, p)
	case trajectory.PolicyViolation, trajectory.ContextCondensed, trajectory.Rollback:
		a.events = append(a.events, infoEvent{a.base("info", e, 0), "gaia:" + string(e.Payload.Type()), e.Payload})
	case trajectory.Error:
		a.events = append(a.events, errorEvent{a.base("error", e, 0), evalError{Message: p.Message}})
	}
	return nil
}

// base returns what all events share, of one that began ms milliseconds before
// it was recorded, as it says, but not before the attempt.
func (a *attempt) base(kind string, e trajectory.Event, ms int64) eventBase {
	began := e.Time()
	if ms > 0 {
		began = began.Add(-time.Duration(min(ms, began.Sub(a.first).Milliseconds())) * time.Millisecond)
	}
	return eventBase{Event: kind, UUID: e.ID, Timestamp: began.Format(trajectory.TimeFormat), Start: began.Sub(a.first).Seconds()}
}

// called takes a try of a model call.
func (a *attempt) called(e trajectory.Event, p trajectory.ModelCallCompleted) error {
	a.working += p.LatencyMs
	m := modelEvent{eventBase: a.base("model", e, p.LatencyMs), Model: p.RequestedModel, InputRefs: a.refs(), Choice: "auto",
		Completed: e.Timestamp, Working: seconds(p.LatencyMs)}
	m.Output = modelOutput{Model: p.ResponseModel, Choices: []choice{}, Time: seconds(p.LatencyMs), ResponseID: p.RequestID}
	if p.Error != nil {
		m.Error = p.Error.Message
		if p.Error.Status != 0 {
			m.Error = fmt.Sprintf("%d: %s", p.Error.Status, p.Error.Message)
		}
	}
	if p.OutputSHA256 != "" {
		text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
		if err != nil {
			return err
		}
		reply := a.answered(p, text, whole)
		paid := spent{p.Tokens, p.CostMicroUSD}
		a.usage.add(p.RequestedModel, paid)
		m.Output.Usage, m.Output.Completion = new(paid.usage()), reply.Content
		m.Output.Choices = append(m.Output.Choices, choice{reply, stopReason(p.FinishReason)})
		a.output = m.Output
	}
	a.events = append(a.events, m)
	return nil
}

// asked takes a call that the model asked for.
func (a *attempt) asked(e trajectory.Event, p trajectory.ToolProposed) error {
	args, cut, err := a.arguments(p)
	if err != nil {
		return err
	}
	a.tools[p.CallID] = p.Name
	if a.proposed == nil {
		a.proposed = map[string]proposal{}
	}
	a.proposed[p.CallID] = proposal{p.Name, args, e.Time()}
	call := toolCall{ID: p.CallID, Function: p.Name, Arguments: args, Type: "function"}
	if p.Malformed != "" {
		call.ParseError = "the arguments are no JSON object: " + p.Malformed
	}
	if a.reply != nil {
		a.reply.ToolCalls = append(a.reply.ToolCalls, call)
		for _, name := range cut {
			a.reply.Metadata.CutArguments = append(a.reply.Metadata.CutArguments, p.CallID+"."+name)
		}
	}
	return nil
}

// executed takes what a tool gave.
func (a *attempt) executed(e trajectory.Event, p trajectory.ToolExecuted) error {
	text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
	if err != nil {
		return err
	}
	text, cut := shorten(text, maxText)
	a.working += p.LatencyMs
	if p.Model != nil {
		a.usage.add(p.Model.RequestedModel, spent{p.Model.Tokens, p.Model.CostMicroUSD})
	}
	kind := ""
	if p.IsError {
		kind = "unknown"
	}
	origin := textOrigin{Bytes: p.Bytes, Cut: cut || !whole, Document: true, Redacted: p.Redactions > 0, SHA256: p.OutputSHA256, Source: "tool:" + p.CallID}
	a.result(e, p.CallID, p.Name, text, kind, origin, p.LatencyMs, p.ShownSHA256)
	return nil
}

// result adds what came of a call; kind is that of the error, "" for none, and
// shown the digest of the message in which the next request has it, if recorded.
func (a *attempt) result(e trajectory.Event, callID, name, text, kind string, origin textOrigin, ms int64, shown string) {
	m := &chatMessage{ID: a.prefix + "-r" + e.ID, Role: "tool", Content: text, ToolCallID: callID, Function: name, Metadata: origin}
	if kind != "" {
		m.Error = &toolCallError{Type: kind}
		m.Error.Message, _ = shorten(text, maxShort)
	}
	args := a.proposed[callID].args
	if args == nil {
		args = map[string]string{}
	}
	a.events = append(a.events, toolEvent{eventBase: a.base("tool", e, ms), Type: "function", ID: callID, Function: name, Arguments: args,
		Result: text, Metadata: origin, Error: m.Error, Completed: e.Timestamp, Working: seconds(ms)})
	a.rest = append(a.rest, m)
	a.results[cmp.Or(shown, origin.Source)] = m
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// stopReason returns Inspect's word for why the model stopped.
func stopReason(finish string) string {
	switch finish {
	case "stop", "tool_calls", "content_filter":
		return finish
	case "length":
		return "max_tokens"
	}
	return "unknown"
}

// spent is what was spent on a model; nil is an unknown price.
type spent struct {
	tokens   trajectory.Tokens
	microUSD *int64
}

// usage is what was spent, by the names of models.
type usage map[string]spent

func (u usage) add(model string, more spent) {
	if before, known := u[model]; known {
		more.tokens = more.tokens.Add(before.tokens)
		if more.microUSD != nil && before.microUSD != nil {
			more.microUSD = new(*more.microUSD + *before.microUSD)
		} else {
			more.microUSD = nil
		}
	}
	u[model] = more
}

func (u usage) addAll(more usage) {
	for model, s := range more {
		u.add(model, s)
	}
}

// models returns the usage as a log has it.
func (u usage) models() map[string]modelUsage {
	all := map[string]modelUsage{}
	for model, s := range u {
		all[model] = s.usage()
	}
	return all
}

func (s spent) usage() modelUsage {
	t := s.tokens
	u := modelUsage{Input: max(t.In-t.Cached, 0), Output: t.Out, Total: t.In + t.Out, Cached: t.Cached, Reasoning: t.Reasoning}
	if s.microUSD != nil {
		u.Cost = new(float64(*s.microUSD) / 1e6)
	}
	return u
}
