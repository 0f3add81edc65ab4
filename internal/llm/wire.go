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
	"strings"
	"time"
)

// exchange is one request and its answer as they are on the wire. What the answer says is judged by reply.go.
type exchange struct {
	prepared
	http    *http.Client
	now     func() time.Time // may be nil
	maxBody int64
	start   func() error // called when all is ready, right before the request leaves

	startErr error  // what start said
	sent     bool   // the request left, or tried to
	answer   []byte // the whole body, cut at maxBody where it is no success
	reply    reply
}

// send posts the request below a base URL and reads the answer. One that is no usable success is an *Error.
func (x *exchange) send(ctx context.Context, baseURL, key string) *Error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(baseURL, "/")+x.path, bytes.NewReader(x.body))
	if err != nil {
		return &Error{Code: "invalid_config", Stop: true, Message: "the base URL makes no request"}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", x.contentType)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if x.startErr = x.start(); x.startErr != nil {
		return nil
	}
	x.sent = true
	res, err := x.http.Do(req)
	if err != nil {
		return TransportError(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, x.maxBody+1))
	success := res.StatusCode >= 200 && res.StatusCode <= 299
	switch {
	case err != nil && success:
		return TransportError(err)
	case int64(len(answer)) > x.maxBody && success:
		return &Error{Status: res.StatusCode, Code: "response_too_large", RequestID: requestID(res.Header),
			Message: fmt.Sprintf("the answer is larger than %d bytes", x.maxBody)}
	}
	x.answer = answer
	var failed *Error
	if x.reply, failed = readReply(x.api, res.StatusCode, res.Header, answer, maxValues); failed != nil && failed.Retryable {
		failed.RetryAfter = cmp.Or(RetryAfter(failed.Status, res.Header, x.now), failed.RetryAfter)
	}
	return failed
}

// TransportError describes why a request got no whole answer. The URL is left out: it may hold
// credentials.
func TransportError(err error) *Error {
	if own, is := errors.AsType[*Error](err); is { // of a transport that is ours: a cassette
		return own
	}
	if wrapped, is := errors.AsType[*url.Error](err); is {
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
