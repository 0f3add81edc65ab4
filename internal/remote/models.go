package remote

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/media"
)

// CallTries is how often a request is sent at most.
const CallTries = 6

// NoKey returns the error that there is no key for an endpoint.
func NoKey(base *url.URL) error {
	return exit.Usagef("set OPENAI_API_KEY", "there is no key for %s", base.Host)
}

// CheckPrices returns an error if a budget of the plan cannot be kept, since the price of one of its models is not known.
func CheckPrices(p *plan.Plan, models []string, prices llm.Prices, base *url.URL) error {
	if model := p.Model.Name; !prices.Lookup(model) && p.Policy.MaxCostMicroUSD != policy.Unlimited && !IsLocal(base) {
		return exit.Usagef("give its price with --prices FILE, or --max-task-cost off to run without a cost budget",
			"the price of model %q is not known, so its cost cannot be bounded", model)
	}
	if p.Agent != nil && p.Policy.MaxCostMicroUSD != policy.Unlimited && !IsLocal(base) {
		for model := range p.Agent.Models {
			if !prices.Lookup(model) {
				return exit.Usagef("give its price with --prices FILE, or --max-task-cost off to run without a cost budget",
					"the price of the agent's model %q is not known, so its cost cannot be bounded", model)
			}
		}
	}
	for _, model := range models {
		if p.Budgets.RunCostMicroUSD > 0 && !prices.Lookup(model) {
			return exit.Usagef("give its price with --prices FILE, or leave out --max-cost",
				"the price of model %q is not known, so --max-cost cannot be kept", model)
		}
	}
	return nil
}

// Models describes how the models of a plan are asked, all at one endpoint.
type Models struct {
	URL, Key, API string // base URL; API key; interface of the model that answers, "" for the usual one
	Vision        string // model that looks at pictures; "" is none
	Images        bool   // the model that answers is shown pictures
	Prices        llm.Prices
	Tries         int      // of a request; 0: CallTries
	AtOnce        int      // requests; 0: as many as the endpoint allows
	RPM, TPM      int64    // requests and tokens per minute; 0: no limit
	Cassette      Cassette // with mode "": none
	Dry           bool     // nothing is recorded
}

// Clients ask the models of a plan, with one limiter for all. Where the plan has no such model, they are nil.
type Clients struct {
	Limiter     *llm.Limiter
	Model       agent.Model
	Viewer      media.Viewer
	Transcriber media.Transcriber
	Judge       *grading.Judge
	Preflight   *preflight.Models // without the cassette; nil: nothing is asked
}

// Connect returns the clients, and completes the plan with where its models are. It sends no request.
func (m Models) Connect(p *plan.Plan) (c Clients, err error) {
	c.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: m.AtOnce, RequestsPerMinute: m.RPM, TokensPerMinute: m.TPM, Now: time.Now})
	live := llm.Config{BaseURL: m.URL, APIKey: m.Key, API: m.API, Prices: m.Prices, MaxTries: cmp.Or(m.Tries, CallTries), Now: time.Now,
		Jitter: rand.Float64, Limiter: c.Limiter}
	config := live // with the cassette
	replay := m.Cassette.Mode == plan.CassetteReplay
	if !m.Dry || replay {
		if config.Transport, err = m.Cassette.Transport(); err != nil {
			return c, err
		}
	}
	if replay {
		config.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // no endpoint asks to wait
	}
	origin := Origin(m.URL)
	p.Cassette, p.Retry.CallTries = m.Cassette.Mode, CallTries
	p.Model.Origin, p.Model.Images = origin, m.Images
	if p.Model.API = cmp.Or(m.API, llm.APIOf(p.Model.Name, m.URL)); p.Model.API == llm.APIChat {
		p.Model.API = ""
	}
	client, liveClient := llm.New(config), llm.New(live)
	c.Model = client
	c.Preflight = &preflight.Models{Model: preflight.Model{Client: liveClient, Name: p.Model.Name}, Tools: true, MaxTokens: p.Model.MaxTokens, Now: live.Now}
	p.Vision = nil
	if m.Vision != "" {
		p.Vision = &plan.VisionPlan{Model: m.Vision, Origin: origin}
		c.Viewer = named(config, m.Vision, p.Model.Name)
		c.Preflight.Vision = &preflight.Model{Client: named(live, m.Vision, p.Model.Name), Name: m.Vision}
	}
	if p.Transcription != nil {
		p.Transcription = &plan.TranscriptionPlan{Model: p.Transcription.Model, Origin: origin}
		c.Transcriber = client
		c.Preflight.Transcription = &preflight.Hearing{Client: liveClient, Name: p.Transcription.Model}
	}
	if p.Judge != nil {
		c.Judge = Judge(config, p.Judge.Model, m.URL)
		c.Preflight.Judge = &preflight.Model{Client: Judge(live, p.Judge.Model, m.URL).Client, Name: p.Judge.Model}
	}
	if p.NoPreflight || replay {
		c.Preflight = nil
	}
	return c, nil
}

// Upstreams returns where the requests of an own agent go, by dialect. The messages dialect has an endpoint and a key; those
// of the plan's endpoint share its limiter. A dialect without a key is left out, unless its endpoint is on this machine.
func (m Models) Upstreams(messagesURL, messagesKey string, shared *llm.Limiter) map[string]proxy.Upstream {
	all, carrier := map[string]proxy.Upstream{}, llm.PlainTransport()
	add := func(base, key string, limiter *llm.Limiter, dialects ...string) {
		if at, err := url.Parse(base); err == nil && (key != "" || IsLocal(at)) {
			for _, dialect := range dialects {
				all[dialect] = proxy.Upstream{BaseURL: base, APIKey: key, Transport: carrier, Limiter: limiter}
			}
		}
	}
	add(m.URL, m.Key, shared, llm.DialectChat, llm.DialectResponses)
	if Origin(messagesURL) != Origin(m.URL) {
		shared = llm.NewLimiter(llm.LimiterConfig{Fixed: m.AtOnce, RequestsPerMinute: m.RPM, TokensPerMinute: m.TPM, Now: time.Now})
	}
	add(strings.TrimRight(messagesURL, "/")+"/v1", messagesKey, shared, llm.DialectMessages)
	return all
}

// named returns a client for a model beside the one that answers: --api is of that model alone.
func named(config llm.Config, name, answers string) *llm.Client {
	if name != answers {
		config.API = ""
	}
	return llm.New(config)
}

// Judge returns the judge of a name at an endpoint.
func Judge(config llm.Config, name, baseURL string) *grading.Judge {
	return &grading.Judge{Client: named(config, name, ""), Name: name, Origin: Origin(baseURL), URL: strings.TrimRight(baseURL, "/")}
}

// Cassette is a folder of recorded replies, as --cassette names it.
type Cassette struct {
	Mode, Dir string // a mode of the plan, "" for none
	Resumed   bool   // the run continues: it records behind what it had recorded
}

// AnotherCassette is the hint for a cassette that cannot be used.
const AnotherCassette = "name another directory with --cassette, or leave it out"

// ParseCassette reads the value of --cassette.
func ParseCassette(text string) (c Cassette, err error) {
	if text == "" {
		return c, nil
	}
	c.Mode, c.Dir, _ = strings.Cut(text, ":")
	if c.Mode != plan.CassetteRecord && c.Mode != plan.CassetteReplay || c.Dir == "" {
		return Cassette{}, exit.Usagef("give record:DIR or replay:DIR", "--cassette is %q", text)
	}
	return c, nil
}

// Transport returns what carries requests: nil for the client's own. Recording creates the folder.
func (c Cassette) Transport() (carrier http.RoundTripper, err error) {
	switch {
	case c.Mode == plan.CassetteRecord && c.Resumed:
		carrier, err = llm.ContinueRecorder(c.Dir, nil)
	case c.Mode == plan.CassetteRecord:
		carrier, err = llm.NewRecorder(c.Dir, nil)
	case c.Mode == plan.CassetteReplay:
		carrier, err = llm.NewPlayer(c.Dir)
	}
	if err == nil {
		return carrier, nil
	}
	hint := AnotherCassette
	switch {
	case errors.Is(err, llm.ErrRecorded):
		hint = "record to another directory, or have the answers from there with --cassette " + view.Quote(plan.CassetteReplay+":"+c.Dir)
	case c.Resumed:
		hint = "give the directory that the run was started with"
	}
	return nil, exit.Usagef(hint, "--cassette %s:%s: %v", c.Mode, c.Dir, err)
}
