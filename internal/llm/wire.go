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
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
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

const (
	firstWait   = time.Second     // before the second try
	longestWait = time.Minute     // that is chosen here
	longestTold = 5 * time.Minute // that a server can ask for
	latestTold  = 24 * time.Hour  // what is kept of what it asks for
	waitGrowth  = 2.0             // from one try to the next
)

// wait says how long to wait after a failed try: what the server asked for plus up to a tenth (never
// less, so that waiting requests do not return all at once), up to five minutes; else the next exponential
// interval, from half to one and a half of it, up to a minute. What the server asks for starts the
// intervals again.
func (c *Client) wait(e *Error, b *backoff.ExponentialBackOff) time.Duration {
	next := b.NextBackOff()
	if e.RetryAfter > 0 {
		b.Reset()
		return min(e.RetryAfter+time.Duration(float64(e.RetryAfter)/10*c.jitter()), longestTold)
	}
	return min(time.Duration(float64(next)*(0.5+c.jitter())), longestWait)
}

// Sleep waits with a real timer, or until the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryAfter reads how long a server asks to wait, up to a day: retry-after-ms, else
// Retry-After in seconds or as a date, else (after a 429 only) the reset of the limit that is used up.
// 0 = it does not say. A date is measured against the answer's own Date, whose clock it was made with;
// now (may be nil) replaces a missing one.
func RetryAfter(status int, header http.Header, now func() time.Time) time.Duration {
	if d := number(header.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	if asked := header.Get("Retry-After"); asked != "" {
		if d := number(asked, time.Second); d > 0 {
			return d
		}
		if until, err := http.ParseTime(asked); err == nil {
			from, err := http.ParseTime(header.Get("Date"))
			if err != nil && now == nil {
				return 0
			}
			if err != nil {
				from = now()
			}
			return bounded(until.Sub(from))
		}
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	// "1s", "6m0s", "20ms", or seconds: that of the limit with nothing remaining, else the longer one.
	requests, tokens := span(header.Get("X-Ratelimit-Reset-Requests")), span(header.Get("X-Ratelimit-Reset-Tokens"))
	noRequests := header.Get("X-Ratelimit-Remaining-Requests") == "0"
	noTokens := header.Get("X-Ratelimit-Remaining-Tokens") == "0"
	switch {
	case noRequests && !noTokens && requests > 0:
		return requests
	case noTokens && !noRequests && tokens > 0:
		return tokens
	}
	return max(requests, tokens)
}

func span(s string) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return bounded(d)
	}
	return number(s, time.Second)
}

// number reads a count of units, whole or not.
func number(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return bounded(time.Duration(min(n, 1e9) * float64(unit)))
}

// bounded keeps a duration between 0 and latestTold.
func bounded(d time.Duration) time.Duration {
	return max(0, min(d, latestTold))
}
