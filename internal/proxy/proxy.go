// Package proxy records the model calls of one attempt of an own agent, and passes them on.
//
// A [Proxy] answers the interfaces that agents speak: chat completions, responses and messages. It promises:
//
//   - A request is durable in the journal before it leaves. A whole reply is durable before its first byte goes to the
//     agent. A stream passes through up to what the agent may act on: the end of a call, the reason why the reply ends, and
//     the event that ends it. From there on it is held until the reply is durable.
//   - Of a stream that the agent has left, the rest is read. What begins meanwhile waits for its record, within bounds
//     (package pending).
//   - What cannot be recorded does not happen: where recording fails each connection is cut without a well-formed end,
//     [Proxy.Err] returns why, and everything after is refused.
//   - A body passes byte for byte, but for the edits of llm.EditAsked, each of which is recorded with both digests.
//   - A request that is not passed on is a request_refused event, and its answer says what the agent can do.
//   - The proxy does not try again: what the endpoint refuses, the agent is shown.
//   - A request says where its messages come from that are new in the attempt, and a reply whether it holds gold or code
//     (package origin). Messages that the attempt has sent before are not divided again.
//   - The endpoint's key is added here. The agent gets it back in no header, body or error, and no event holds it.
//   - Calls in parallel cannot spend the same money: each one reserves what it may cost, and waits for those under way.
//
// TestFaultyUpstream, TestRecordingFails, TestHangUp, TestRefusals and TestMoney try that over HTTP.
package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/pending"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/semaphore"
)

// Bounds on what an agent sends and is sent, in bytes, and on how much it does at once.
const (
	maxRequest      = 32 << 20
	maxReply        = 64 << 20
	defaultParallel = 64
	defaultBodies   = 64 << 20
)

// Config says what an own agent may ask of whom. The attempts of a run share one.
type Config struct {
	Upstreams map[string]Upstream // by dialect; requests of a dialect without one are refused
	Models    []string            // that may be asked, the plan's own first
	MaxTokens int64               // that a request without a limit reserves; 0: unknown
	Strip     bool                // take tools that the provider runs out of requests, in place of refusing them
	Calls     int                 // that an attempt may make in all
	Parallel  int                 // requests of an attempt at once, others wait; 0: 64
	Prices    llm.Prices
	Now       func() time.Time

	// Bodies bounds the bytes of requests that are held in memory before they have left, of all attempts that share it;
	// requests beyond wait. It must have room for 32 MiB. Nil: 64 MiB for each attempt.
	Bodies *semaphore.Weighted

	Silence   time.Duration // of a stream, after which the agent is sent a comment; 0: 15 s
	Heartbeat time.Duration // between the comments after that; 0: 5 s
	Drain     time.Duration // that a reply may take when the agent has hung up; 0: 120 s
}

// Upstream is the endpoint of a dialect.
type Upstream struct {
	BaseURL   string            // without /chat/completions and so on
	APIKey    string            // "": none
	Transport http.RoundTripper // never nil: prompts pass no proxy that was not configured
	Limiter   *llm.Limiter      // of the endpoint; nil: none
}

// Attempt is what the proxy records to, and is paid from.
type Attempt struct {
	Rec     *trajectory.Attempt
	Turns   *Turns
	Session Spender
	Money   Money
	Full    bool // the log keeps bodies: keep those of requests and replies as well

	Pending  *pending.Set     // replies of the attempt that are not recorded yet; nil: those of the proxy alone
	Origins  *origin.Index    // what the attempt was given, to which replies are added; nil: nothing yet
	Passages *origin.Passages // that the attempts of the run have sent; nil: none yet
	Tools    []string         // names of those that the Gate runs: a reply that calls others has calls whose results nothing records
	Probe    tools.Prober     // looks at what is the agent's, and at replies; nil: the audit will not pass over that
}

// Spender counts what calls take of a task's budgets: tools.Session.
type Spender interface {
	// Spend counts micro-USD (nil: unknown) and tokens, and returns what is to be recorded about it.
	Spend(callID string, microUSD *int64, tokens int64) []trajectory.Payload
	// Left returns what is left; 0 or less is nothing, math.MaxInt64 that there is no limit.
	Left() (microUSD, tokens int64)
}

// Money is the budget of the run: budget.Budget.
type Money interface {
	// Call reserves what a request may cost, and waits for others that have reserved what is missing. It returns false
	// where too little is left while nothing is under way, or when the context ends. settle says what the request did
	// cost; nil is unknown.
	Call(ctx context.Context, model string, tokensIn, tokensOut int64) (settle func(microUSD *int64), enough bool)
}

// Proxy is an http.Handler for the paths below /v1/ of one attempt.
type Proxy struct {
	Config
	attempt Attempt
	slots   chan struct{}
	ctx     context.Context // ends what is under way
	cut     context.CancelFunc
	calls   sync.WaitGroup // requests that are handled

	maxRequest, maxReply int64 // bytes

	mu      sync.Mutex
	closed  bool
	err     error // why recording failed
	begun   int   // calls that were admitted
	failed  *llm.Error
	seen    map[[sha256.Size]byte]bool // bodies that were passed on; the lock of Turns is held
	held    share                      // of the task's budgets, by calls under way
	waiting chan struct{}              // closed when one of them is done
	said    said
	divided map[string]bool // digests of messages and definitions of tools that the attempt has sent
}

// New returns the proxy of one attempt. When ctx ends, what is under way is cut.
func New(ctx context.Context, c Config, a Attempt) *Proxy {
	c.Parallel = cmp.Or(max(c.Parallel, 0), defaultParallel)
	c.Silence, c.Heartbeat, c.Drain = cmp.Or(c.Silence, 15*time.Second), cmp.Or(c.Heartbeat, 5*time.Second), cmp.Or(c.Drain, 120*time.Second)
	if c.Bodies == nil {
		c.Bodies = semaphore.NewWeighted(defaultBodies)
	}
	if a.Pending == nil {
		a.Pending = &pending.Set{}
	}
	if a.Origins == nil {
		a.Origins = origin.New()
	}
	if a.Passages == nil {
		a.Passages = origin.NewPassages([]byte(rand.Text()))
	}
	p := &Proxy{Config: c, attempt: a, divided: map[string]bool{}, slots: make(chan struct{}, c.Parallel), seen: map[[sha256.Size]byte]bool{}, waiting: make(chan struct{}),
		maxRequest: maxRequest, maxReply: maxReply}
	p.ctx, p.cut = context.WithCancel(ctx)
	return p
}

// Close refuses new requests and returns when those under way are recorded. Those that last longer than the time of a
// drain are cut.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	defer p.cut()
	defer time.AfterFunc(p.Drain, p.cut).Stop()
	p.calls.Wait()
}

// Err returns why recording failed, nil while it works. It matches trajectory.ErrNotRecorded.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Failed returns the failure of the last call, if it says nothing about the task: the endpoint could not be reached or
// was at fault. It is nil after a good reply, and after a refusal that the request brought about.
func (p *Proxy) Failed() *llm.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// enter counts a request that is handled. It returns false once no more are.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil {
		return false
	}
	p.calls.Add(1)
	return true
}

// notRecorded ends everything, and the connection of the request that found it.
func (p *Proxy) notRecorded(err error) {
	if !errors.Is(err, trajectory.ErrNotRecorded) {
		err = fmt.Errorf("%w: %w", trajectory.ErrNotRecorded, err)
	}
	p.mu.Lock()
	p.err = cmp.Or(p.err, err)
	p.mu.Unlock()
	p.cut()
	panic(http.ErrAbortHandler)
}

// routes are the addresses of calls.
var routes = map[string]route{
	"/v1/chat/completions":      {llm.DialectChat, "/chat/completions", false},
	"/v1/responses":             {llm.DialectResponses, "/responses", false},
	"/v1/messages":              {llm.DialectMessages, "/messages", false},
	"/v1/messages/count_tokens": {llm.DialectMessages, "/messages/count_tokens", true},
}

type route struct {
	dialect string
	path    string // below the base URL of the endpoint
	counts  bool   // tokens: there is no completion
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.calls.Done()
	c := &call{Proxy: p, request: r, came: p.Now()}
	if c.route = routes[r.URL.Path]; c.dialect == "" && r.Header.Get("Anthropic-Version") != "" {
		c.dialect = llm.DialectMessages // of the answer
	}
	c.out = newOutlet(w, c)
	defer c.out.close()
	// Only a switch to a protocol that cannot be recorded is refused: clients in Java offer HTTP/2 with each request.
	if upgrade := r.Header.Get("Upgrade"); upgrade != "" && upgrade != "h2c" || r.Method == http.MethodConnect {
		w.Header().Set("Upgrade", "HTTP/1.1")
		w.Header().Set("Connection", "Upgrade, close")
		c.refuse(&refusal{http.StatusUpgradeRequired, "upgrade_refused", "WebSocket and other upgrades are not recorded: send plain HTTP requests, with server-sent events for streams"})
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/v1/models" {
		c.models()
		return
	}
	if c.path == "" || r.Method != http.MethodPost {
		c.refuse(&refusal{http.StatusNotFound, "unknown_route", "there is no such route: the routes are POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/messages/count_tokens, and GET /v1/models"})
		return
	}
	if _, planned := p.Upstreams[c.dialect]; !planned {
		c.refuse(&refusal{http.StatusNotFound, "unknown_route", fmt.Sprintf("the plan has no endpoint for the %s dialect: use another one", c.dialect)})
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-r.Context().Done():
		c.refuse(hungUp)
		return
	case <-p.ctx.Done():
		panic(http.ErrAbortHandler)
	}
	if refused := c.handle(); refused != nil {
		c.refuse(refused)
	}
}

// Refuse records a request of the agent that is none for a model and is not taken, and answers with the reason.
func (p *Proxy) Refuse(w http.ResponseWriter, r *http.Request, status int, code, text string) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.calls.Done()
	c := &call{Proxy: p, request: r, came: p.Now()}
	c.out = newOutlet(w, c)
	defer c.out.close()
	c.refuse(&refusal{status, code, text})
}

// models answers with the planned models, in the form of the dialect.
func (c *call) models() {
	type model = map[string]any
	list := []model{}
	for _, name := range c.Models {
		if c.dialect == llm.DialectMessages {
			list = append(list, model{"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
		} else {
			list = append(list, model{"object": "model", "id": name, "created": 0, "owned_by": "gaia"})
		}
	}
	answer := map[string]any{"object": "list", "data": list}
	if c.dialect == llm.DialectMessages {
		answer = map[string]any{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
		if n := len(c.Models); n > 0 {
			answer["first_id"], answer["last_id"] = c.Models[0], c.Models[n-1]
		}
	}
	c.out.whole(http.StatusOK, nil, encode(answer))
}
