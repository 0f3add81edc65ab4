package llm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v5"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

const (
	defaultBaseURL  = "https://api.openai.com/v1"
	defaultMaxTries = 6
	defaultTimeout  = 10 * time.Minute
	defaultMaxBody  = 16 << 20
)

// Config says how to reach an endpoint. The zero value asks api.openai.com without a key.
type Config struct {
	BaseURL   string            // without /chat/completions or /responses; "" = api.openai.com
	APIKey    string            // "" = no Authorization header
	Transport http.RoundTripper // nil = a plain one of the client's own, without a proxy
	API       string            // APIChat or APIResponses; "" = what the model demands (APIOf)
	Limiter   *Limiter          // of this endpoint; nil = none
	Prices    Prices            // for answers that do not state their cost
	MaxTries  int               // requests per call, the first included; 0 = 6
	Timeout   time.Duration     // of one request, answer included; 0 = 10 minutes
	MaxBody   int64             // bytes of an answer; 0 = 16 MiB

	// Now is the clock; nil = latencies are 0 and dates count from the answer's own Date only.
	Now func() time.Time
	// Sleep waits between tries and returns early, with an error, when the context ends; nil = a
	// real timer.
	Sleep func(context.Context, time.Duration) error
	// Jitter gives numbers from 0 to below 1; nil = waits are not spread.
	Jitter func() float64
}

// Client asks one endpoint. It may be used by several goroutines at once.
type Client struct {
	config Config
	http   *http.Client
	broken *Error // why nothing can ever be sent
	offers offers
}

// New returns a client; nothing is sent.
func New(c Config) *Client {
	c.BaseURL, c.MaxTries = cmp.Or(c.BaseURL, defaultBaseURL), cmp.Or(max(c.MaxTries, 0), defaultMaxTries)
	c.Timeout, c.MaxBody = cmp.Or(max(c.Timeout, 0), defaultTimeout), cmp.Or(max(c.MaxBody, 0), defaultMaxBody)
	if c.Sleep == nil {
		c.Sleep = Sleep
	}
	if c.Transport == nil {
		c.Transport = PlainTransport()
	}
	c.APIKey, c.BaseURL = strings.TrimSpace(c.APIKey), strings.TrimSpace(c.BaseURL)
	return &Client{config: c, broken: unusable(c), http: &http.Client{
		Transport: transport.Guard(c.Transport),
		// A redirect would carry prompts, and on the same host the key, to an address that was not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// PlainTransport returns a transport that reads no environment: prompts pass no proxy that was not configured.
func PlainTransport() http.RoundTripper {
	return &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second}
}

// unusable says why no request can be made from c, without showing the key or the address, which may
// hold one.
func unusable(c Config) *Error {
	e := &Error{Code: "invalid_config", Stop: true}
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		e.Message = "the base URL is not an http or https address"
	case base.RawQuery != "" || base.Fragment != "":
		e.Message = "the base URL has a query or a fragment"
	case c.API != "" && c.API != APIChat && c.API != APIResponses:
		e.Message = fmt.Sprintf("the interface is neither %q nor %q", APIChat, APIResponses)
	case strings.ContainsFunc(c.APIKey, unicode.IsControl):
		e.Message = "the API key holds a control character"
	default:
		return nil
	}
	return e
}

// Chat asks for one completion and tries again where that can help. Every failure of the request is
// an *Error; an error of the Observer is returned as it is. When the context ends, the *Error has the
// code "cancelled" and unwraps to the context's error. A completion without content and calls is a
// retryable *Error with the code "empty_completion".
func (c *Client) Chat(ctx context.Context, r Request, o Observer) (Response, error) {
	if c.broken != nil {
		return Response{}, c.broken
	}
	request, failed := c.compose(r)
	if failed != nil {
		return Response{}, c.shown(failed)
	}
	return c.call(ctx, request, func(x *exchange) (*Response, *Error) {
		return assemble(request.model, x.reply, c.config.Prices, c.config.APIKey)
	}, o)
}

// reading makes a Response of an answer. One beside an error was paid for.
type reading func(*exchange) (*Response, *Error)

// call asks until there is an answer, or an error that another try cannot help.
func (c *Client) call(ctx context.Context, p prepared, read reading, o Observer) (Response, error) {
	// Its own randomness is off: the jitter is passed in.
	waits := &backoff.ExponentialBackOff{InitialInterval: firstWait, Multiplier: waitGrowth, MaxInterval: longestWait}
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return Response{}, cancelled(ctx.Err(), "before the request was sent")
		}
		response, err := c.try(ctx, number, p, read, o)
		failed, known := errors.AsType[*Error](err)
		if !known || !failed.Retryable || number >= c.config.MaxTries {
			return response, err
		}
		if err := c.config.Sleep(ctx, c.wait(failed, waits)); err != nil {
			return Response{}, cancelled(err, "while waiting to try again after "+failed.Code)
		}
	}
}

// try sends one request between the two calls of the observer.
func (c *Client) try(ctx context.Context, number int, p prepared, read reading, o Observer) (Response, error) {
	slot, err := c.config.Limiter.acquire(ctx, p.size)
	if err != nil {
		return Response{}, cancelled(err, "while waiting for other requests")
	}
	var done Try
	defer func() { slot.release(done) }()
	timed, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	var began time.Time
	x := &exchange{prepared: p, http: c.http, now: c.config.Now, maxBody: c.config.MaxBody, start: func() error {
		err := o.TryStarted(number)
		if c.config.Now != nil {
			began = c.config.Now()
		}
		return err
	}}
	failed := x.send(timed, c.config.BaseURL, c.config.APIKey)
	if x.startErr != nil {
		return Response{}, x.startErr
	}
	if !x.sent {
		return Response{}, c.shown(failed)
	}
	done.Number, done.Err = number, failed
	if failed == nil {
		done.Response, done.Err = read(x)
	} else if p.api != "" && (x.reply.usage.Reported || x.reply.cost != nil) {
		done.Response, _ = read(x) // what it is known to have cost
	}
	if c.config.Now != nil {
		done.LatencyMs = c.config.Now().Sub(began).Milliseconds()
	}
	if done.Err != nil && done.Response == nil && ctx.Err() != nil {
		done.Err = cancelled(ctx.Err(), "while the request was under way")
	}
	if done.Err != nil {
		if done.Err.Status == http.StatusNotFound && done.Err.Code != "model_not_found" && done.Err.Hint == "" {
			done.Err.Hint = pathHint(c.config.BaseURL)
		}
		done.Err = c.shown(done.Err)
	}
	if err := o.TryCompleted(done); err != nil {
		return Response{}, err
	}
	if done.Err != nil {
		return Response{}, done.Err
	}
	return *done.Response, nil
}

func cancelled(err error, when string) *Error {
	return &Error{Code: "cancelled", Message: "cancelled " + when, cause: err}
}

func (c *Client) jitter() float64 {
	if c.config.Jitter == nil {
		return 0.5
	}
	return min(max(c.config.Jitter(), 0), 1)
}

// shown makes an error fit to be shown and recorded.
func (c *Client) shown(e *Error) *Error { return e.shown(c.config.APIKey) }

func (c *Client) tidy(s string, limit int) string { return tidy(s, limit, c.config.APIKey) }

// prepared is a request as it will be sent, however often.
type prepared struct {
	model string
	api   string // APIChat or APIResponses; "" for a transcription
	size  int    // about how many bytes a model reads of it
	body  []byte

	path, contentType string
}

// compose gives a request the form of the interface it goes by.
func (c *Client) compose(r Request) (prepared, *Error) {
	p := prepared{model: r.Model, api: cmp.Or(c.config.API, APIOf(r.Model, c.config.BaseURL)), size: r.size(),
		path: "/chat/completions", contentType: "application/json"}
	offered, failed := c.offers.encode(p.api, r.Tools)
	if failed != nil {
		return p, failed
	}
	if len(r.Schema) > 0 && !jsontext.Value(r.Schema).IsValid() {
		return p, unsendable("schema %q is not JSON", r.SchemaName)
	}
	var body any
	if p.api == APIResponses {
		p.path, body = "/responses", responsesRequest(r, offered)
	} else {
		body = chatRequest(r, offered)
	}
	var err error
	p.body, err = json.Marshal(body, asGiven)
	if err == nil && len(r.Extra) > 0 { // the beginning of a request is the same in every turn
		for name := range r.Extra {
			if gjson.GetBytes(p.body, gjson.Escape(name)).Exists() {
				return p, unsendable("the request cannot be encoded as JSON: the member %q is set twice", name)
			}
		}
		var more []byte
		more, err = json.Marshal(r.Extra, json.Deterministic(true))
		if err == nil {
			p.body = append(append(p.body[:len(p.body)-1], ','), more[1:]...)
		}
	}
	if err != nil {
		return p, unsendable("the request cannot be encoded as JSON: %v", err)
	}
	return p, nil
}

// asGiven has what a provider gave sent back as it is, odd as it may be.
var asGiven = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))

// offers holds the encoded tools of the last request. Most of a run's requests offer the same.
type offers struct {
	mu      sync.Mutex
	api     string
	tools   []ToolSpec
	encoded jsontext.Value
}

// encode returns tools as a request offers them.
func (o *offers) encode(api string, tools []ToolSpec) (jsontext.Value, *Error) {
	if len(tools) == 0 {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	same := func(a, b ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
	}
	if api == o.api && slices.EqualFunc(tools, o.tools, same) {
		return o.encoded, nil
	}
	for _, t := range tools {
		if !jsontext.Value(t.Parameters).IsValid() {
			return nil, unsendable("the parameters of tool %q are not JSON", t.Name)
		}
	}
	var list any
	if api == APIResponses {
		list = responsesOffers(tools)
	} else {
		list = chatOffers(tools)
	}
	encoded, err := json.Marshal(list, asGiven)
	if err != nil {
		return nil, unsendable("the tools cannot be encoded as JSON: %v", err)
	}
	o.api, o.encoded, o.tools = api, encoded, slices.Clone(tools)
	for i, t := range o.tools { // the caller's may change
		o.tools[i].Parameters = slices.Clone(t.Parameters)
	}
	return encoded, nil
}

func unsendable(format string, args ...any) *Error {
	return &Error{Code: "invalid_request", Stop: true, Message: fmt.Sprintf(format, args...)}
}
