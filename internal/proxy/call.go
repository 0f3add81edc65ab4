package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/pending"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/trajectory"
)

// call is a request of the agent.
type call struct {
	*Proxy
	route
	request *http.Request
	out     *outlet
	came    time.Time

	bytes    int64 // of the body, as far as it is known
	digest   string
	asked    llm.Asked
	messages sentMessages
	edits    []string
	counted  bool  // among the calls of the attempt
	in       int64 // tokens that it reads, at most
	holds    holds
	turn     int // 0: it is not passed on
	sent     time.Time
	pending  *pending.Reply // of a stream; nil: none
}

// refusal is why a request is not passed on.
type refusal struct {
	status int // 0: there is no one to answer
	code   string
	text   string
}

// hungUp is the refusal of a request whose agent is gone before it was passed on.
var hungUp = &refusal{0, "hung_up", ""}

// refuse records a refusal, and then answers with it.
func (c *call) refuse(why *refusal) {
	if c.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	label := c.attempt.Rec.Redact.Label
	if err := c.attempt.Rec.Refuse(trajectory.RequestRefused{Bytes: min(max(c.bytes, c.request.ContentLength, 0), canonical.MaxInt), Code: why.code, Model: label(c.asked.Model),
		Path: label(c.request.Method + " " + c.request.URL.Path), SHA256: c.digest, Status: why.status}); err != nil {
		c.notRecorded(err)
	}
	if why.status == 0 {
		panic(http.ErrAbortHandler)
	}
	c.out.fail(why.status, why.code, why.text)
}

// handle takes a request to the endpoint and the reply back.
func (c *call) handle() *refusal {
	wait, done := context.WithCancel(c.request.Context())
	defer done()
	defer context.AfterFunc(c.ctx, done)()
	body, free, refused := c.read(wait)
	defer free()
	if refused != nil {
		return refused
	}
	sent, refused := c.check(body)
	if refused != nil {
		return refused
	}
	if !c.counts && c.asked.Stream {
		c.out.stream()
	}
	defer c.leave()
	upstream := c.Upstreams[c.dialect]
	if refused := c.admit(wait, upstream, body); refused != nil {
		return refused
	}
	c.attempt.Pending.Wait(wait)
	if err := c.begin(body, sent); err != nil {
		c.notRecorded(err)
	}
	c.pass(upstream, sent, free)
	return nil
}

// bodyTime is how long a body may take, which comes from the same machine.
const bodyTime = 30 * time.Second

// read takes in the body, for which memory is set aside until free is called.
func (c *call) read(wait context.Context) (body []byte, free func(), refused *refusal) {
	free = func() {}
	if encoding := c.request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, free, &refusal{http.StatusUnsupportedMediaType, "body_compressed", "the body has a Content-Encoding: send it as plain JSON"}
	}
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request has %d bytes at most: send a shorter one", c.maxRequest)}
	size := c.request.ContentLength
	if size > c.maxRequest {
		return nil, free, tooLarge
	}
	if size < 0 {
		size = c.maxRequest
	}
	if err := c.Bodies.Acquire(wait, size); err != nil {
		return nil, free, hungUp
	}
	free = func() { // once
		c.Bodies.Release(size)
		size = 0
	}
	var read bytes.Buffer
	read.Grow(int(min(size, 1<<20)) + bytes.MinRead)
	_ = c.out.rc.SetReadDeadline(time.Now().Add(bodyTime)) // or what others wait for would be held by a body that does not come
	defer func() { _ = c.out.rc.SetReadDeadline(time.Time{}) }()
	_, err := read.ReadFrom(http.MaxBytesReader(c.out.w, c.request.Body, c.maxRequest))
	c.bytes = int64(read.Len())
	switch tooMuch := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooMuch):
		return nil, free, tooLarge
	case err != nil:
		return nil, free, hungUp
	}
	c.digest = canonical.Digest(read.Bytes())
	return read.Bytes(), free, nil
}

// check reads a request, and returns the body that may be sent on.
func (c *call) check(body []byte) (sent []byte, refused *refusal) {
	a, err := llm.ReadAsked(c.dialect, body)
	c.asked = a
	switch {
	case err != nil:
		return nil, &refusal{400, "request_unreadable", c.words(err.Error())}
	case a.State != "":
		return nil, &refusal{400, "state_not_recorded", fmt.Sprintf("%s refers to what the provider keeps, which is not recorded: send the whole input with each request, without it", c.words(a.State))}
	case !slices.Contains(c.Models, a.Model):
		return nil, &refusal{400, "model_not_planned", fmt.Sprintf("the plan has no model %q: ask for %s ($GAIA_MODEL); others are planned with agent.models in gaia.yaml", c.words(a.Model), strings.Join(c.Models, ", "))}
	}
	sent, c.edits, err = llm.EditAsked(c.dialect, body, a, c.Strip)
	switch {
	case err != nil && len(a.Withheld) > 0:
		return nil, &refusal{400, "capability_withheld", fmt.Sprintf("what the provider would do or fetch on its own is not recorded: %s; send the request without it; the run has tools at $GAIA_MCP_URL and $GAIA_TOOLS_URL", c.words(err.Error()))}
	case err != nil:
		return nil, &refusal{400, "request_unreadable", c.words(err.Error())}
	}
	c.messages = listMessages(a.Messages, c.attempt.Rec)
	if !c.attempt.Rec.Fits(c.messages.listed) {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request has %d messages at most, and those of an attempt add %d in all: go on with the conversation of the request before", trajectory.MostMessages, trajectory.MostListed)}
	}
	return sent, nil
}

// words returns text of the agent's as it may be shown.
func (c *call) words(text string) string { return c.attempt.Rec.Redact.Label(text) }

// begin makes the request durable.
func (c *call) begin(body, sent []byte) error {
	rec, turns := c.attempt.Rec, c.attempt.Turns
	request := &trajectory.AgentRequest{Bytes: int64(len(body)), Dialect: c.dialect, Edits: c.edits, SHA256: c.digest, Stream: c.asked.Stream && !c.counts}
	if len(c.edits) > 0 {
		request.SentSHA256 = canonical.Digest(sent)
	}
	if c.asked.Tools != nil {
		request.ToolsSHA256 = canonical.Digest(c.asked.Tools)
	}
	request.BodySHA256 = c.keep(body)
	origins := c.origins(c.asked.Messages, c.asked.Tools)
	messages, sum := c.messages, sha256.Sum256(body)
	c.messages, c.asked.Messages, c.asked.Tools = sentMessages{}, nil, nil // the last two hold the whole body
	started := trajectory.ModelCallStarted{Request: request, RequestedModel: c.asked.Model, Try: 1, WaitedMs: c.Now().Sub(c.came).Milliseconds()}
	var err error
	func() {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		request.Retry = c.seen[sum]
		c.seen[sum] = true
		compiled := turns.compile(messages)
		compiled.Origins = origins
		c.turn, err = turns.begin(compiled, started)
		turns.sent = messages.listed
	}()
	if err != nil {
		return err
	}
	err = rec.Append(c.turn) // what was enqueued
	c.sent = c.Now()
	return err
}

// keep keeps the exact bytes of a body, but for secrets, and returns their digest.
func (c *call) keep(body []byte) string {
	if !c.attempt.Full {
		return ""
	}
	clean, _ := c.attempt.Rec.Redact.Redact(strings.ToValidUTF8(string(body), "\ufffd"))
	return c.attempt.Rec.Log.Keep(clean)
}

// passedOn are the headers of the agent that the endpoint gets. Others say who the agent is, or carry its credentials.
var passedOn = []string{"Accept", "Anthropic-Beta", "Anthropic-Version", "Openai-Beta"}

// pass sends a request that is recorded, records the reply, and passes it on. free releases the memory of the request.
func (c *call) pass(to Upstream, sent []byte, free func()) {
	ctx, cut := context.WithCancel(c.ctx)
	defer cut()
	if !c.counts && c.asked.Stream {
		c.pending = c.attempt.Pending.Reply()
		defer c.pending.Recorded()
	}
	c.out.whenGone(func() {
		c.pending.Came(true)
		go func() {
			select {
			case <-time.After(c.Drain):
				cut()
			case <-ctx.Done():
			}
		}()
	})
	defer context.AfterFunc(c.request.Context(), c.out.hangUp)()
	address := strings.TrimRight(to.BaseURL, "/") + c.path
	if c.dialect == llm.DialectMessages && c.request.URL.Query().Get("beta") == "true" {
		address += "?beta=true"
	}
	body := &sentBody{data: sent}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body.reader())
	if err != nil {
		c.complete(reply{failed: &llm.Error{Code: "invalid_config", Stop: true, Message: "the base URL makes no request"}}, to)
		return
	}
	req.ContentLength, req.GetBody = int64(len(sent)), func() (io.ReadCloser, error) { return body.reader(), nil }
	for _, name := range passedOn {
		if values := c.request.Header.Values(name); len(values) > 0 {
			req.Header[name] = values
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity") // or the reply could not be read
	to.authorize(req, c.dialect)
	res, err := transport.Guard(to.Transport).RoundTrip(req)
	body.drop()
	free()
	if err != nil {
		c.complete(reply{failed: c.transportFailed(err)}, to)
		return
	}
	defer res.Body.Close()
	r := reply{status: res.StatusCode, header: to.hideIn(res.Header)}
	success := r.status >= 200 && r.status <= 299
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		r.failed = &llm.Error{Status: r.status, Code: "invalid_response", Message: "the endpoint compressed its reply, which was not asked for"}
		c.complete(r, to)
		return
	}
	if success && c.asked.Stream && !c.counts && strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream") {
		c.stream(r, res.Body, to, cut)
		return
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, c.maxReply+1))
	switch {
	case int64(len(raw)) > c.maxReply:
		raw, r.failed = raw[:c.maxReply], c.tooLong(r.status)
	case err != nil:
		r.failed = c.transportFailed(err)
	}
	r.bytes, r.sha256, r.kept = int64(len(raw)), canonical.Digest(raw), raw
	r.body = to.hide(raw)
	c.complete(r, to)
}

func (c *call) tooLong(status int) *llm.Error {
	return &llm.Error{Status: status, Code: "response_too_large", Message: fmt.Sprintf("the reply is larger than %d bytes", c.maxReply)}
}

func (c *call) transportFailed(err error) *llm.Error {
	if c.out.isGone() && errors.Is(err, context.Canceled) {
		return &llm.Error{Code: "cancelled", Message: "the agent hung up, and the rest of the reply took too long"}
	}
	return llm.TransportError(err)
}

// reply is what came back.
type reply struct {
	status   int
	header   http.Header
	body     []byte // whole, without the key; of a stream as it would be without one
	kept     []byte // as it came, where that is kept
	bytes    int64
	sha256   string
	failed   *llm.Error // nil: a whole reply came
	streamed bool
	held     []byte // the end of a stream, which is not passed on yet
	last     bool   // the event of a stream that ends it is in that
	partial  []byte // what came of a stream, also where it is not whole
}

// complete records how a call ended, releases what it holds, and then gives the agent what it has not been given yet.
func (c *call) complete(r reply, to Upstream) {
	var response *llm.Response
	var failed *llm.Error
	if good := r.status >= 200 && r.status <= 299; r.status != 0 && (!c.counts || !good) {
		response, failed = llm.ReadAnswer(c.dialect, r.status, r.header, r.body, c.asked.Model, c.Prices)
		if r.streamed && r.failed == nil && !r.last && (response == nil || response.FinishReason == "") {
			r.failed = &llm.Error{Status: r.status, Code: "truncated_stream", Retryable: true, Message: "the stream ended before the event that ends it"}
		}
	}
	said := response
	if r.failed != nil {
		failed = r.failed
		if response != nil && !response.Usage.Reported && response.CostMicroUSD == nil {
			response = nil // what it says is not whole, and what it took is not known
		}
	}
	if failed != nil {
		shown := *failed
		shown.Code, shown.Message, shown.RequestID = to.hideText(shown.Code), to.hideText(shown.Message), to.hideText(shown.RequestID)
		failed = &shown
	}
	rec := c.attempt.Rec
	done := agent.Completed(rec, c.asked.Model, llm.Try{Number: 1, Response: response, Err: failed, LatencyMs: c.Now().Sub(c.sent).Milliseconds()})
	done.Reply = &trajectory.AgentReply{Aborted: c.out.isGone(), Bytes: r.bytes, SHA256: r.sha256, Status: r.status}
	if r.sha256 == "" {
		done.Reply.SHA256 = canonical.Digest(nil)
	}
	switch {
	case said != nil && (failed == nil || !r.streamed):
		c.heard(said.Message, done.Reply)
	case r.streamed: // what came before it broke
		c.heard(llm.Message{Content: strings.Join(scalars(string(r.partial)), "\n")}, done.Reply)
		done.Reply.Code = done.Reply.Code || origin.Code(string(r.partial), c.attempt.Tools)
	}
	if c.attempt.Full {
		done.Reply.BodySHA256 = c.keep(to.hide(r.kept))
	}
	payloads := []trajectory.Payload{done}
	if response != nil {
		used := done.Tokens.In + done.Tokens.Out
		if !done.UsageReported { // an unknown usage counts as its estimate
			used = c.in*fewBytes/someBytes + done.Bytes/someBytes
		}
		payloads = append(payloads, c.attempt.Session.Spend("", response.CostMicroUSD, used)...)
	}
	payloads = append(payloads, trajectory.TurnCompleted{LatencyMs: c.Now().Sub(c.came).Milliseconds()})
	if err := rec.Append(c.turn, payloads...); err != nil {
		c.notRecorded(err)
	}
	c.pending.Recorded()
	c.mu.Lock()
	c.Proxy.failed = nil
	if failed != nil && !done.Reply.Aborted && atFault(failed) {
		c.Proxy.failed = failed
	}
	if response != nil && failed == nil {
		c.said.add(response.Message)
	}
	c.mu.Unlock()
	switch {
	case response != nil:
		c.release(response.CostMicroUSD, response, failed)
	case !c.counts && failed != nil && (trajectory.CallError{Code: failed.Code, Status: failed.Status}).Unanswered():
		c.release(nil, response, failed) // it may have been billed
	default:
		c.release(new(int64), response, failed)
	}
	c.answer(r, failed)
}

// answer gives the agent what is recorded.
func (c *call) answer(r reply, failed *llm.Error) {
	switch {
	case r.streamed && r.failed != nil:
		c.out.event(r.held)
		panic(http.ErrAbortHandler) // as the endpoint cut it
	case r.streamed:
		c.out.event(r.held)
	case r.failed != nil && failed.Code == "response_too_large":
		c.out.fail(http.StatusBadGateway, "reply_too_large", failed.Message)
	case r.failed != nil:
		c.out.fail(http.StatusBadGateway, failed.Code, "the endpoint of the model gave no whole reply ("+failed.Code+"): try again")
	case r.status < 200:
		c.out.fail(http.StatusBadGateway, "invalid_response", fmt.Sprintf("the endpoint answered with status %d", r.status))
	case r.status > 299:
		clean, _ := trajectory.Redactor{}.Redact(string(r.body))
		c.out.whole(r.status, r.header, []byte(clean))
	default:
		c.out.whole(r.status, r.header, r.body)
	}
}

// atFault reports whether a failure is the endpoint's, or that of the account, whatever the request says.
func atFault(e *llm.Error) bool {
	switch e.Status {
	case 0, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return !e.OneRequest()
	}
	return e.Status >= 500 && !e.OneRequest() || e.Status < 300 && e.Retryable && e.Code != llm.EmptyCompletion
}
