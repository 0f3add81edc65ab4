// Package agent takes one Question in and gives one Answer out: render the
// context, ask the model, pass its tool calls through the Gate, show it the
// results, until it answers or a budget runs out.
//
// The agent cannot name the type that holds a gold answer: it imports neither
// the loader nor the judge, and internal/run copies a task into a Question
// (TestFloors).
//
// Every step is recorded before it has an effect. A request leaves only when
// the list of its messages is durable, a tool runs only when the decision
// about it is, and the model sees a result only when the result is: three
// waits for the disk in a turn.
package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Question is what the agent is told of a task.
type Question struct {
	Text     string
	FileName string // attachment in the workspace; "" for none
}

// Answer is what came of an attempt. Found false means that the model gave
// none; Reason then says why.
type Answer struct {
	Found     bool
	Text      string
	Rule      string // id of the extraction rule
	Reasoning string // the model's own short account
	Reason    string
}

// Model is asked for the next message.
type Model interface {
	Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error)
}

// Agent solves tasks with one model. It may solve many at once.
type Agent struct {
	Model     Model
	Name      string // the model to request
	MaxTurns  int    // the last of them is for the answer alone
	MaxTokens int    // of one completion; 0 leaves it to the endpoint
	Tools     []tools.Spec
	Now       func() time.Time
}

// maxCalls bounds the calls of one reply. No model asks for as many in earnest,
// and each of them is recorded.
const maxCalls = 128

// Solve makes one attempt. An error means that it could not be completed: the
// model could not be asked, the context ended, or (trajectory.ErrNotRecorded)
// the evidence could not be written.
func (a Agent) Solve(ctx context.Context, q Question, session *tools.Session, rec *trajectory.Attempt) (Answer, error) {
	talk := newConversation(q)
	reminded := false
	for turn := 1; ; turn++ {
		began := a.Now()
		if _, err := rec.Enqueue(turn, trajectory.TurnStarted{}); err != nil {
			return Answer{}, err
		}
		last, why := a.last(turn, session)
		if last {
			talk.add("last-turn.v1", llm.Message{Role: "user", Content: prompt.LastTurn(why)})
		}
		reply, err := a.ask(ctx, turn, talk, last, session, rec)
		if err != nil {
			return Answer{}, err
		}
		talk.add("model", reply)
		calls := proposed(reply)
		if last {
			calls = nil
		}
		if len(calls) > maxCalls {
			return Answer{Reason: fmt.Sprintf("a reply asked for %d tool calls at once", len(calls))}, nil
		}
		if len(calls) > 0 {
			results, err := session.Run(ctx, turn, calls)
			if err != nil {
				return Answer{}, err
			}
			for _, r := range results {
				talk.add("tool:"+rec.Redact.Label(r.CallID), llm.Message{Role: "tool", Content: r.Text, ToolCallID: r.CallID})
			}
		}
		done := trajectory.TurnCompleted{LatencyMs: a.Now().Sub(began).Milliseconds(), ToolCalls: len(calls)}
		if _, err := rec.Enqueue(turn, done); err != nil {
			return Answer{}, err
		}
		if len(calls) > 0 {
			continue
		}
		if found, ok := prompt.FinalAnswer(reply.Content); ok {
			return Answer{Found: true, Text: found.Text, Rule: found.Rule, Reasoning: found.Reasoning}, nil
		}
		switch {
		case last:
			return Answer{Reason: why + ", and the last turn gave no answer"}, nil
		case reminded:
			return Answer{Reason: "no final answer after a reminder"}, nil
		}
		reminded = true
		talk.add("reminder.v1", llm.Message{Role: "user", Content: prompt.Reminder()})
	}
}

// last reports whether a turn is the one kept for the answer, and why.
func (a Agent) last(turn int, session *tools.Session) (bool, string) {
	switch {
	case turn >= a.MaxTurns:
		return true, prompt.TurnsSpent
	case session.Exhausted():
		return true, prompt.BudgetSpent
	}
	return false, ""
}

// ask records the request and sends it. On the last turn no tools are offered.
func (a Agent) ask(ctx context.Context, turn int, talk *conversation, last bool, session *tools.Session, rec *trajectory.Attempt) (llm.Message, error) {
	request := llm.Request{Model: a.Name, Messages: talk.messages, MaxTokens: a.MaxTokens}
	if !last {
		for _, s := range a.Tools {
			request.Tools = append(request.Tools, llm.ToolSpec{Name: s.Name, Description: s.Description, Parameters: s.Parameters})
		}
	}
	response, err := a.Model.Chat(ctx, request, &recorder{
		rec: rec, session: session, turn: turn, model: a.Name,
		before: []trajectory.Payload{talk.compile(rec)},
	})
	return response.Message, err
}

func proposed(m llm.Message) []tools.Call {
	calls := make([]tools.Call, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		calls[i] = tools.Call{ID: c.ID, Name: c.Name, Args: c.Arguments}
	}
	return calls
}

// recorder writes each try of a model call to the journal and charges it.
type recorder struct {
	rec      *trajectory.Attempt
	session  *tools.Session
	turn     int
	model    string
	before   []trajectory.Payload // recorded with the first try
	previous string               // event id of the last failed try
}

func (r *recorder) TryStarted(n int) error {
	payloads := append(r.before, trajectory.ModelCallStarted{RequestedModel: r.model, Try: n})
	r.before = nil
	return r.rec.Append(r.turn, payloads...)
}

// recordable gives calls whose id or name cannot be recorded as it is (it is very
// long, or holds a secret) one that can, before anybody uses it: what is
// recorded, run and sent back is then the same.
func (r *recorder) recordable(calls []llm.ToolCall) {
	for i := range calls {
		c := &calls[i]
		if r.rec.Redact.Label(c.ID) != c.ID {
			digest := sign.Digest([]byte(c.ID))
			c.ID = "call_" + digest[len(digest)-24:]
		}
		c.Name = r.rec.Redact.Label(c.Name)
	}
}

func (r *recorder) TryCompleted(t llm.Try) error {
	e := trajectory.ModelCallCompleted{LatencyMs: t.LatencyMs, RequestedModel: r.model, RetryOf: r.previous, Try: t.Number}
	if t.Err != nil {
		message, _ := r.rec.Redact.Redact(t.Err.Message)
		e.Error = &trajectory.CallError{Code: r.rec.Redact.Label(t.Err.Code), Message: message, Retryable: t.Err.Retryable, Status: t.Err.Status}
	}
	if t.Response != nil {
		r.recordable(t.Response.Message.ToolCalls)
		e.CostMicroUSD, e.FinishReason = t.Response.CostMicroUSD, r.rec.Redact.Label(t.Response.FinishReason)
		e.RequestID, e.ResponseModel = r.rec.Redact.Label(t.Response.RequestID), r.rec.Redact.Label(t.Response.ResponseModel)
		u := t.Response.Usage
		e.Tokens = trajectory.Tokens{Cached: u.Cached, In: u.In, Out: u.Out, Reasoning: u.Reasoning}
		e.UsageReported = u.Reported
		x := r.rec.Excerpt(string(canonical(t.Response.Message)), trajectory.OutputHead)
		e.BodySHA256, e.Bytes, e.Head, e.OutputSHA256, e.Redactions, e.Truncated = x.BodySHA256, x.Bytes, x.Head, x.SHA256, x.Redactions, x.Truncated
		if e.CostMicroUSD != nil {
			r.session.Spend(*e.CostMicroUSD)
		}
	}
	ids, err := r.rec.Enqueue(r.turn, e)
	if err != nil {
		return err
	}
	r.previous = ids[0]
	return nil
}
