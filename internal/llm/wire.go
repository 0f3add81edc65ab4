package llm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// exchange is one request and its answer as they really are on the wire. It is the client library's
// HTTP client: the library makes the address and the credentials and decodes the choices of a chat
// completion, and that is all. What it would drop, refuse, hide or guess never passes through it: the
// body is put in its place here (chat.go and responses.go write it), the
// answer is judged here before the library has it (reply.go), and what it has no fields for is read
// from the raw answer (chat.go, responses.go, reply.go).
type exchange struct {
	http    *http.Client
	now     func() time.Time // may be nil
	maxBody int64
	api     string
	body    []byte       // what is sent in place of the library's
	start   func() error // called when all is ready, right before the request leaves

	startErr error  // what start said
	sent     bool   // the request left, or tried to
	answer   []byte // the whole body, cut at maxBody where it is no success
	reply    reply
}

// Do sends a request of the client library. An answer that is not a usable success comes back as an
// *Error, so that the library never judges one.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	req.Body = io.NopCloser(bytes.NewReader(x.body))
	req.ContentLength = int64(len(x.body))

	if x.startErr = x.start(); x.startErr != nil {
		return nil, x.startErr
	}
	x.sent = true
	res, err := x.http.Do(req)
	if err != nil {
		return nil, transportError(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, x.maxBody+1))
	success := res.StatusCode >= 200 && res.StatusCode <= 299
	switch {
	case err != nil && success:
		return nil, transportError(err)
	case int64(len(answer)) > x.maxBody && success:
		return nil, &Error{Status: res.StatusCode, Code: "response_too_large", RequestID: requestID(res.Header),
			Message: fmt.Sprintf("the answer is larger than %d bytes", x.maxBody)}
	}
	x.answer = answer
	var failed *Error
	if x.reply, failed = readReply(x.api, res.StatusCode, res.Header, answer); failed != nil {
		if failed.Retryable {
			failed.RetryAfter = cmp.Or(RetryAfter(failed.Status, res.Header, x.now), failed.RetryAfter)
		}
		return nil, failed
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: res.Proto, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(x.reply.body)), Request: req,
	}, nil
}

// transportError describes a request that got no whole answer. The URL is left out: it may hold
// credentials.
func transportError(err error) *Error {
	var own *Error // of a transport that is ours: a cassette
	if errors.As(err, &own) {
		return own
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e := &Error{Code: "transport", Message: err.Error(), Retryable: true}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		e.Code = "unreachable"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Code, e.Message = "timeout", "the whole answer did not come in time"
	}
	return e
}
