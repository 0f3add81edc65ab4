package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// exchange is one request and its answer as they really are on the wire. It is the client library's
// HTTP client: everything the library drops, hides or guesses is mended here and nowhere else.
type exchange struct {
	http    *http.Client
	now     func() time.Time // may be nil
	maxBody int64
	start   func() error // called when all is ready, right before the request leaves

	startErr error  // what start said
	sent     bool   // the request left, or tried to
	answer   []byte // the whole body, cut at maxBody where it is no success
	reply    reply
}

// Do sends a request of the client library. An answer that is not a usable success comes back as an
// *Error, so that the library never judges one.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if body, err = mend(body); err != nil {
		return nil, err
	}
	return x.send(req, body)
}

// send sends body, whatever the request holds.
func (x *exchange) send(req *http.Request, body []byte) (*http.Response, error) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.ContentLength = int64(len(body))

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
	if x.reply, failed = readReply(res.StatusCode, res.Header, answer); failed != nil {
		if failed.Retryable {
			failed.RetryAfter = retryAfter(failed.Status, res.Header, x.now)
		}
		return nil, failed
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: res.Proto, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(x.reply.body)), Request: req,
	}, nil
}

// mend restores what the client library leaves out of a request: temperature 0, the empty content of
// a message that makes no calls, and the empty arguments of a call.
func mend(body []byte) ([]byte, error) {
	var request map[string]jsontext.Value
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var messages []map[string]jsontext.Value
	if err := json.Unmarshal(request["messages"], &messages); err != nil {
		return nil, err
	}
	for _, m := range messages {
		calls, calling := m["tool_calls"]
		if _, said := m["content"]; !said && !calling {
			m["content"] = jsontext.Value(`""`)
		}
		if calling {
			var err error
			if m["tool_calls"], err = mendCalls(calls); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if request["messages"], err = json.Marshal(messages, json.Deterministic(true)); err != nil {
		return nil, err
	}
	request["temperature"] = jsontext.Value("0")
	return json.Marshal(request, json.Deterministic(true))
}

func mendCalls(calls jsontext.Value) (jsontext.Value, error) {
	var list []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(calls, &list); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// transportError describes a request that got no whole answer. The URL is left out: it may hold
// credentials.
func transportError(err error) *Error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e := &Error{Code: "transport", Message: err.Error(), Retryable: true}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Code, e.Message = "timeout", "the whole answer did not come in time"
	}
	return e
}
