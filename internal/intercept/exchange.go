package intercept

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/trajectory"
)

// exchange is a request of the agent.
type exchange struct {
	*Proxy
	w       http.ResponseWriter
	rc      *http.ResponseController
	request *http.Request

	shown  string // the address as a refusal has it
	url    *url.URL
	body   []byte
	digest string
	args   string // what the request says
	rest   string // of it, what nothing explains
	number int    // 0: it is not passed on
	sent   time.Time
	gone   bool // the agent hung up

	unheard bool // the request says more than its reply is compared with: the reply is no origin
}

// refusal is why a request is not passed on.
type refusal struct {
	status  int // 0: there is no one to answer
	code    string
	text    string
	ruleIDs []string
}

// Codes of refusals, and of replies that are not whole.
const (
	codeBadAddress     = "bad_address"
	codePrivateAddress = "private_address"
	codeUpgrade        = "upgrade_refused"
	codeHungUp         = "hung_up"
)

var (
	hungUp      = &refusal{0, codeHungUp, "", nil}
	notHTTP     = &refusal{0, "not_http", "", nil}
	tlsRefused  = &refusal{0, "tls_refused", "", nil}
	notPublic   = &refusal{http.StatusForbidden, codePrivateAddress, "only public addresses can be reached", nil}
	misdirected = &refusal{http.StatusMisdirectedRequest, "misdirected", "the request is for another host than its connection", nil}
	upgrade     = &refusal{http.StatusUpgradeRequired, codeUpgrade, "WebSocket and other upgrades are not recorded: send plain HTTP requests", nil}
)

// record records a refusal.
func (x *exchange) record(why *refusal) {
	rec := x.attempt.Rec
	shown := x.shown
	if rec.Hashes {
		if u, err := url.Parse(shown); err == nil && u.Host != "" {
			shown = u.Scheme + "://" + u.Host
		}
	}
	if err := rec.Refuse(trajectory.RequestRefused{Bytes: min(max(int64(len(x.body)), x.request.ContentLength, 0), canonical.MaxInt), Code: why.code,
		Path: rec.Redact.Label(x.request.Method + " " + shown), RuleIDs: why.ruleIDs, SHA256: x.digest, Status: why.status}); err != nil {
		x.notRecorded(err)
	}
}

// refuse records a refusal, and then answers with it.
func (x *exchange) refuse(why *refusal) {
	if x.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	x.record(why)
	x.answer(why)
}

// answer gives the agent an answer of the proxy's own.
func (x *exchange) answer(why *refusal) {
	if why.status == 0 || x.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	text, _ := x.attempt.Rec.Redact.Redact(fmt.Sprintf("%s: %s\n", why.code, why.text))
	h := x.w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if why.status == http.StatusUpgradeRequired && x.request.ProtoMajor == 1 {
		h.Set("Upgrade", "HTTP/1.1")
		h.Set("Connection", "Upgrade, close")
	}
	if x.request.ContentLength != 0 && x.digest == "" { // its body was not read, and is not waited for
		if x.request.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
		_ = x.rc.SetReadDeadline(time.Unix(1, 0))
	}
	_ = x.rc.SetWriteDeadline(time.Now().Add(x.bounds.write))
	x.w.WriteHeader(why.status)
	_, _ = io.WriteString(x.w, text)
	_ = x.rc.Flush()
	_ = x.rc.SetWriteDeadline(time.Time{})
}

// handle takes a request to its server and the reply back.
func (x *exchange) handle(in *tunnel) *refusal {
	x.shown = x.request.Host
	u, to, refused := address(x.request, in)
	if u != nil {
		x.url, x.shown = u, u.String()
	}
	switch {
	case x.request.Method == http.MethodConnect,
		slices.ContainsFunc(x.request.Header.Values("Upgrade"), func(to string) bool { return !strings.EqualFold(to, "h2c") }): // which clients in Java offer with each request
		return upgrade
	case refused != nil:
		return refused
	}
	if d := x.attempt.Decide(x.shown); d.Verdict != policy.Allow {
		return &refusal{http.StatusForbidden, "rule_refused", d.Reason, d.RuleIDs}
	}
	if err := x.Guard.Check(to.dialled()); err != nil {
		return notPublic
	}
	if x.waiting.Add(1) > mostWaiting {
		x.waiting.Add(-1)
		return &refusal{http.StatusServiceUnavailable, "too_many_requests", fmt.Sprintf("%d requests wait already", mostWaiting), nil}
	}
	waits := sync.OnceFunc(func() { x.waiting.Add(-1) })
	defer waits()
	select {
	case x.slots <- struct{}{}:
		waits()
		defer func() { <-x.slots }()
	case <-x.request.Context().Done():
		return hungUp
	case <-x.ctx.Done():
		return hungUp
	}
	free, refused := x.read()
	defer free()
	if refused != nil {
		return refused
	}
	wait, done := context.WithCancel(x.request.Context())
	defer done()
	defer context.AfterFunc(x.ctx, done)()
	x.attempt.Pending.Wait(wait)
	if refused := x.begin(); refused != nil {
		return refused
	}
	x.pass()
	return nil
}

// read takes in the body, for which memory is set aside until free is called.
func (x *exchange) read() (free func(), refused *refusal) {
	free = func() {}
	r := x.request
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the body of a request has %d bytes at most", x.bounds.request), nil}
	size := r.ContentLength
	switch {
	case size > x.bounds.request:
		return free, tooLarge
	case size == 0:
		return free, nil
	case size < 0:
		size = x.bounds.request
	}
	wait, done := context.WithCancel(r.Context())
	defer done()
	defer context.AfterFunc(x.ctx, done)()
	if err := x.bodies.Acquire(wait, size); err != nil {
		return free, hungUp
	}
	free = func() { x.bodies.Release(size) }
	var read bytes.Buffer
	_ = x.rc.SetReadDeadline(time.Now().Add(x.bounds.body))
	if x.ctx.Err() != nil { // else its deadline would be lost
		_ = x.rc.SetReadDeadline(time.Unix(1, 0))
		return free, hungUp
	}
	_, err := read.ReadFrom(http.MaxBytesReader(x.w, r.Body, x.bounds.request))
	x.body = read.Bytes()
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return free, tooLarge
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return free, &refusal{http.StatusRequestTimeout, "request_slow", "the body of the request took too long", nil}
	case err != nil:
		return free, hungUp
	}
	if x.ctx.Err() == nil {
		_ = x.rc.SetReadDeadline(time.Time{})
	}
	if len(x.body) > 0 {
		x.digest = canonical.Digest(x.body)
	}
	x.bodies.Release(size - int64(len(x.body)))
	size = int64(len(x.body))
	return free, nil
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// begin makes the request durable, under the next number.
func (x *exchange) begin() *refusal {
	rec := x.attempt.Rec
	spent := &refusal{http.StatusForbidden, "exchanges_spent", fmt.Sprintf("an attempt has %d exchanges at most", x.bounds.exchanges), nil}
	x.mu.Lock()
	none := x.Proxy.number >= x.bounds.exchanges
	x.mu.Unlock()
	if none {
		return spent
	}
	own, whole := x.ask()
	if !whole {
		return &refusal{http.StatusRequestEntityTooLarge, "request_unread", "the request cannot be looked through in the time that there is", nil}
	}
	started := trajectory.ExchangeStarted{Bytes: int64(len(x.body)), Method: rec.Redact.Label(x.request.Method), Own: own, SHA256: x.digest}
	started.URL, started.Redactions = rec.Redact.Redact(x.shown)
	if rec.Hashes {
		started.URL, started.Redactions = x.url.Scheme+"://"+x.url.Host, 0
	}
	if len(x.body) > 0 {
		started.BodySHA256 = x.keep(string(x.body))
	}
	err := func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.Proxy.number >= x.bounds.exchanges {
			return nil
		}
		started.Number = x.Proxy.number + 1
		if _, err := rec.Enqueue(0, started); err != nil {
			return err
		}
		x.Proxy.number++
		x.number = started.Number
		return nil
	}()
	if err == nil && x.number == 0 {
		return spent
	}
	if err == nil {
		err = rec.Append(0) // what was enqueued
	}
	if err != nil {
		x.notRecorded(err)
	}
	x.sent = x.Now()
	return nil
}

// keep keeps the text of a body, but for secrets, and returns its digest.
func (x *exchange) keep(text string) string {
	if !x.attempt.Full || len(text) > maxKept {
		return ""
	}
	clean, _ := x.attempt.Rec.Redact.Redact(strings.ToValidUTF8(text, "\ufffd"))
	return x.attempt.Rec.Log.Keep(clean)
}

// pass sends a request that is recorded, records the reply, and passes it on.
func (x *exchange) pass() {
	ctx, cut := context.WithCancel(x.request.Context())
	defer cut()
	defer context.AfterFunc(x.ctx, cut)()
	req := (&http.Request{Method: x.request.Method, URL: x.url, Host: x.url.Host, Header: requestHeader(x.request.Header), Body: http.NoBody}).WithContext(ctx)
	if len(x.body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
		if len(x.request.Trailer) > 0 {
			req.Trailer, req.ContentLength = x.request.Trailer, -1
		}
	}
	res, err := x.transport.RoundTrip(req)
	if err != nil {
		failed := x.failure(err, false)
		x.complete(reply{failed: failed})
		x.answer(failed)
		return
	}
	defer res.Body.Close()
	r := reply{status: res.StatusCode, header: res.Header}
	if res.ContentLength > x.bounds.reply && x.request.Method != http.MethodHead {
		r.failed = x.tooLarge()
		x.complete(r)
		x.answer(r.failed)
		return
	}
	if r.status < 200 || r.status > 999 {
		r = reply{failed: &refusal{http.StatusBadGateway, "invalid_reply", "the server did not answer in HTTP", nil}}
		x.complete(r)
		x.answer(r.failed)
		return
	}
	x.copy(ctx, cut, r, res)
}

func (x *exchange) tooLarge() *refusal {
	return &refusal{http.StatusBadGateway, "reply_too_large", fmt.Sprintf("the body of a reply has %d bytes at most", x.bounds.reply), nil}
}

// failure says why no reply came, or, in its middle, why it is not whole. Its text is not the server's.
func (x *exchange) failure(err error, middle bool) *refusal {
	gateway := func(code, text string) *refusal { return &refusal{http.StatusBadGateway, code, text, nil} }
	switch {
	case x.ctx.Err() != nil:
		return gateway("cut", "the attempt is over")
	case x.gone || x.request.Context().Err() != nil:
		return hungUp
	case errors.As(err, new(*guard.NotPublic)):
		return notPublic
	case errors.Is(err, transport.ErrSwitched):
		return gateway(codeUpgrade, "the server switched to another protocol, which is not recorded")
	case errors.As(err, new(*net.DNSError)):
		return gateway("name_not_found", "the host cannot be found")
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return &refusal{http.StatusGatewayTimeout, "timeout", "the server took too long", nil}
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.CertificateInvalidError)):
		return gateway("certificate_invalid", "the certificate of the server is not valid for it")
	case middle:
		return gateway("cut_short", "the reply ended early")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return gateway("connection_failed", "the server cannot be connected to")
	}
	return gateway("invalid_reply", "the server gave no reply that can be read")
}
