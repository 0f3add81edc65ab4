package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// attempt is one attempt under way.
type attempt struct {
	Agent
	talk    *conversation
	session *tools.Session
	rec     *trajectory.Attempt
	specs   []llm.ToolSpec
	bytes   int                  // of the tools' descriptions
	until   time.Time            // when the time budget is spent; zero: never
	grace   time.Time            // until when the last turn may take; zero: it has not begun
	pending []trajectory.Payload // condensations that no request has followed yet
}

// FirstTokens bounds from above what the first request about a question will
// count, whatever comes with it.
func FirstTokens(q Question, specs []tools.Spec) int64 {
	question := llm.Message{Role: "user", Content: prompt.Question(q.Text, q.FileName)}
	n := len(systemNote().fresh) + len(canonicalJSON(question))
	for _, s := range specs {
		n += len(s.Name) + len(s.Description) + len(s.Parameters)
	}
	return int64(n/fewBytes) + tools.PictureTokens
}

func (a Agent) begin(q Question, session *tools.Session, rec *trajectory.Attempt) *attempt {
	t := &attempt{Agent: a, talk: newConversation(q), session: session, rec: rec}
	for _, s := range a.Tools {
		t.specs = append(t.specs, llm.ToolSpec{Name: s.Name, Description: s.Description, Parameters: s.Parameters})
		t.bytes += len(s.Name) + len(s.Description) + len(s.Parameters)
	}
	if a.Limits.Wall > 0 {
		t.until = a.Now().Add(a.Limits.Wall)
	}
	if session != nil {
		limits := tools.Limits{Tokens: a.Limits.Tokens}
		if !t.until.IsZero() {
			limits.TimeLeft = t.timeLeft
		}
		session.Limit(limits, a.Limits.Used)
	}
	return t
}

// errTimeSpent ends a turn whose time is spent.
var errTimeSpent = errors.New(prompt.TimeSpent)

// unanswered is the reason why an attempt ends without an answer, where that is not a
// failure.
type unanswered string

func (u unanswered) Error() string { return string(u) }

const (
	errNoTime  unanswered = prompt.TimeSpent + ", also for a last turn"
	errNoMoney unanswered = prompt.RunMoneySpent + ", also for a last turn"
	errNoRoom  unanswered = "the conversation no longer fits the model, however it is condensed"
)

// Bytes of a conversation for a token of it: few, to bound what a request may
// cost, and more, to guess whether it fits.
const (
	fewBytes  = 2
	someBytes = 3
)

// spent says which budget leaves a turn to the answer alone; "" if none does.
func (t *attempt) spent(turn int) string {
	switch {
	case turn >= t.MaxTurns:
		return prompt.TurnsSpent
	case t.session.Exhausted():
		return prompt.BudgetSpent
	case t.session.TokensSpent():
		return prompt.TokensSpent
	case t.timeLeft() <= 0:
		return prompt.TimeSpent
	case t.Limits.Budget != nil && !t.Limits.Budget.Reserve(t.talk.tokens(t.bytes, fewBytes), false):
		return prompt.RunMoneySpent
	}
	return ""
}

// timeLeft returns what is left of the time budget.
func (t *attempt) timeLeft() time.Duration {
	if t.until.IsZero() {
		return 1
	}
	return t.until.Sub(t.Now())
}

// turn asks the model once, takes its calls through the Gate and shows it their
// results. On the last turn no tool may be called, and no calls are taken.
func (t *attempt) turn(ctx context.Context, n int, last bool) (reply llm.Message, calls int, err error) {
	began := t.Now()
	if _, err := t.rec.Enqueue(n, trajectory.TurnStarted{}); err != nil {
		return reply, 0, err
	}
	reply, err = t.ask(ctx, n, last)
	if err == nil {
		t.talk.add("model", reply)
		if !last {
			calls = len(reply.ToolCalls)
		}
		if calls > maxCalls {
			err = unanswered(fmt.Sprintf("a reply asked for %d tool calls at once", calls))
		}
	}
	if err == nil && calls > 0 {
		asked := make([]tools.Call, calls)
		for i, c := range reply.ToolCalls {
			asked[i] = tools.Call{ID: c.ID, Name: c.Name, Args: c.Arguments}
		}
		var results []tools.Result
		results, err = t.session.Run(ctx, n, asked)
		for i, r := range results {
			t.talk.result("tool:"+t.rec.Redact.Label(r.CallID), asked[i].Name, r)
		}
	}
	var why unanswered
	if err != nil && !errors.As(err, &why) && !errors.Is(err, errTimeSpent) {
		return reply, 0, err
	}
	done := trajectory.TurnCompleted{LatencyMs: t.Now().Sub(began).Milliseconds(), ToolCalls: calls}
	if _, notRecorded := t.rec.Enqueue(n, done); notRecorded != nil {
		return reply, 0, notRecorded
	}
	return reply, calls, err
}

// ask records the request and sends it. A conversation that does not fit the
// model is condensed, as often as it takes.
func (t *attempt) ask(ctx context.Context, n int, last bool) (llm.Message, error) {
	if last && t.Limits.Budget != nil && !t.Limits.Budget.Reserve(t.talk.tokens(t.bytes, fewBytes), true) {
		return llm.Message{}, errNoMoney
	}
	request := llm.Request{Model: t.Name, MaxTokens: t.MaxTokens, Tools: t.specs, NoCalls: last, Extra: t.Extra}
	timed, cut := context.WithCancel(ctx)
	defer cut()
	t.fit()
	for {
		request.Messages = t.talk.messages
		response, err := t.Model.Chat(timed, request, &recorder{attempt: t, turn: n, last: last, cut: cut, since: t.Now()})
		var failed *llm.Error
		switch {
		case err == nil:
			if response.Usage.Reported {
				t.talk.reported, t.talk.measured = response.Usage.In, t.talk.bytes
			}
			return response.Message, nil
		case timed.Err() != nil && ctx.Err() == nil && errors.As(err, &failed):
			if last {
				return llm.Message{}, errNoTime
			}
			return llm.Message{}, errTimeSpent
		case !errors.As(err, &failed) || failed.Code != llm.ContextLengthExceeded:
			return llm.Message{}, err
		}
		t.talk.tooLong = t.talk.bytes
		condensed, ok := t.talk.condense(trajectory.RefusedForLength)
		if !ok {
			return llm.Message{}, errNoRoom
		}
		t.pending = append(t.pending, condensed)
	}
}

// fit condenses a conversation that would not fit: as long as one that was
// refused, or too long for the window that is known. What cannot be made shorter
// is for the endpoint to refuse.
func (t *attempt) fit() {
	reply := cmp.Or(t.MaxTokens, min(t.Window/4, 4096))
	for {
		reason := ""
		switch {
		case t.talk.tooLong > 0 && t.talk.bytes >= t.talk.tooLong:
			reason = trajectory.RefusedForLength
		case t.Window > 0 && t.talk.tokens(t.bytes, someBytes)+int64(reply) > int64(t.Window):
			reason = trajectory.WindowFull
		default:
			return
		}
		condensed, ok := t.talk.condense(reason)
		if !ok {
			return
		}
		t.pending = append(t.pending, condensed)
	}
}

// recorder writes each try of a model call to the journal and charges it.
type recorder struct {
	*attempt
	turn     int
	last     bool
	compiled bool
	previous string      // event id of the last failed try
	failed   *llm.Error  // how it failed
	cut      func()      // ends the try that is under way
	timer    *time.Timer // that does so when the time budget is spent; nil: there is none
	since    time.Time   // when the call began to wait for its turn, or to be tried again
}

// TryStarted records the request with the first try of it, and not before: a
// call that ends while it waits for its turn has shown the model nothing. How
// long it waited is not the task's time. Each further try costs again.
func (r *recorder) TryStarted(n int) error {
	if tokens := r.talk.tokens(r.bytes, fewBytes); n > 1 && r.Limits.Budget != nil &&
		!r.Limits.Budget.Reserve(tokens, r.last) && (r.last || !r.Limits.Budget.Reserve(tokens, true)) {
		return r.failed // it affords no other try
	}
	waited := r.Now().Sub(r.since)
	var payloads []trajectory.Payload
	if !r.compiled {
		payloads = append(r.pending, r.talk.compile(r.rec))
		r.pending, r.compiled = nil, true
	}
	started := trajectory.ModelCallStarted{RequestedModel: r.Name, Try: n, WaitedMs: waited.Milliseconds()}
	err := r.rec.Append(r.turn, append(payloads, started)...)
	if err == nil && !r.until.IsZero() {
		r.until = r.until.Add(waited)
		limit := r.timeLeft()
		if r.last {
			if r.grace.IsZero() {
				r.grace = r.Now().Add(graceTime)
			}
			limit = max(limit, r.grace.Sub(r.Now()))
		}
		r.timer = time.AfterFunc(limit, r.cut)
	}
	return err
}

// recordable gives calls whose id or name cannot be recorded as it is (it is very
// long, or holds a secret, or another call of the reply has the id) one that can,
// before it is used: what is recorded, run and sent back is then the same,
// and a decision is of one call.
func (r *recorder) recordable(calls []llm.ToolCall) {
	seen := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		for n := i; r.rec.Redact.Label(c.ID) != c.ID || seen[c.ID]; n++ {
			digest := canonical.Digest(fmt.Append(nil, n, c.ID))
			c.ID = "call_" + digest[len(digest)-24:]
		}
		seen[c.ID] = true
		c.Name = strings.Clone(r.rec.Redact.Label(c.Name)) // a run keeps it, and without a copy the whole reply
	}
}

func (r *recorder) TryCompleted(t llm.Try) error {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.since = r.Now()
	var over []trajectory.Payload
	if t.Response != nil {
		r.recordable(t.Response.Message.ToolCalls)
	}
	e := Completed(r.rec, r.Name, t)
	e.RetryOf = r.previous
	if t.Response != nil {
		if t.Err == nil {
			r.talk.due.Reply(e.OutputSHA256)
		}
		used := e.Tokens.In + e.Tokens.Out
		if !e.UsageReported { // an unknown usage counts as its estimate
			used += r.talk.tokens(r.bytes, someBytes) + e.Bytes/someBytes
		}
		if r.Limits.Budget != nil {
			r.Limits.Budget.Charge(t.Response.CostMicroUSD)
		}
		over = r.session.Spend("", t.Response.CostMicroUSD, used)
	} else if e.Error != nil && e.Error.Unanswered() && r.Limits.Budget != nil {
		r.Limits.Budget.Charge(nil)
	}
	ids, err := r.rec.Enqueue(r.turn, append([]trajectory.Payload{e}, over...)...)
	if err != nil {
		return err
	}
	r.previous, r.failed = ids[0], t.Err
	return nil
}

// Completed returns the record of a try: what the journal holds of its reply and of its failure.
func Completed(rec *trajectory.Attempt, model string, t llm.Try) trajectory.ModelCallCompleted {
	label := rec.Redact.Label
	e := trajectory.ModelCallCompleted{LatencyMs: t.LatencyMs, RequestedModel: model, Try: t.Number}
	if t.Err != nil {
		message, _ := rec.Redact.Redact(t.Err.Message)
		e.Error = &trajectory.CallError{Code: label(t.Err.Code), Message: message, Retryable: t.Err.Retryable, Status: t.Err.Status}
	}
	if t.Response == nil {
		return e
	}
	e.CostMicroUSD, e.FinishReason, e.Fingerprint = t.Response.CostMicroUSD, label(t.Response.FinishReason), label(t.Response.Fingerprint)
	e.RequestID, e.ResponseModel = label(t.Response.RequestID), label(t.Response.ResponseModel)
	for _, name := range t.Response.Channels {
		e.UnrecordedChannels = append(e.UnrecordedChannels, label(name))
	}
	slices.Sort(e.UnrecordedChannels)
	e.UnrecordedChannels = slices.Compact(e.UnrecordedChannels)
	u := t.Response.Usage
	e.Tokens = trajectory.Tokens{Cached: u.Cached, In: u.In, Out: u.Out, Reasoning: u.Reasoning}
	e.UsageReported = u.Reported
	x := rec.Excerpt(string(canonicalJSON(t.Response.Message)), trajectory.OutputHead)
	e.BodySHA256, e.Bytes, e.Head, e.OutputSHA256 = x.BodySHA256, x.Bytes, x.Head, x.SHA256
	e.Redactions, e.Truncated = x.Redactions, x.Truncated
	return e
}
