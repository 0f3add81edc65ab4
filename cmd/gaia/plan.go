package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// settings is what the flags, the environment and, for resume, the manifest
// say about a run.
type settings struct {
	taskFlags
	selection    string // rule of the filter; "" to take it from filter
	model        string
	judge        string // "" for none
	baseURL      string
	searxng      string
	maxTurns     int
	maxTokens    int
	toolCalls    int
	taskCost     string // USD, or "off"; "" for the policy's
	prices       string // file; "" for the built-in table
	submitIntent bool
	concurrency  int
	key          string
	noJudgeCache bool
	evidence     string // ledger.EvidenceHeads, EvidenceBodies or EvidenceHashes
	onLost       string // when evidence cannot be recorded: goOn or stopRun
	resumed      bool
	rehearsal    bool
}

// What a run does when its evidence cannot be recorded any longer.
const (
	goOn    = "continue"
	stopRun = "stop"
)

const (
	callTries      = 6
	defaultBaseURL = "https://api.openai.com/v1"
	rehearsalHost  = "builtin:" // origin of the scripted models
)

// world is a run's configuration with the servers it needs; Close ends them.
type world struct {
	run.Config
	close func() error
}

func (w world) Close() error {
	if w.close == nil {
		return nil
	}
	return w.close()
}

// configure builds all that a run needs.
func (a *app) configure(ctx context.Context, s settings) (_ world, err error) {
	var w world
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.Policy, err = s.policy(); err != nil {
		return world{}, err
	}
	if s.rehearsal {
		err = w.rehearse(s)
	} else {
		err = w.connect(s, a.getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return world{}, err
	}
	if w.Set, w.Gold, err = a.loadTasks(ctx, s.taskFlags); err != nil {
		return world{}, err
	}
	if w.Child, err = child(); err != nil {
		return world{}, err
	}
	if w.Harness, err = harness(); err != nil {
		return world{}, err
	}
	w.Selection, w.MaxTurns, w.MaxTokens = s.selection, s.maxTurns, s.maxTokens
	if w.Selection == "" {
		w.Selection = s.filter.Rule()
	}
	w.SubmitIntent, w.Rehearsal, w.Concurrency = s.submitIntent, s.rehearsal, s.concurrency
	w.CallTries, w.Evidence = callTries, s.evidence
	w.Continue, w.Scratch = s.onLost == goOn, os.TempDir()
	secrets := a.secrets()
	if isHub(s.source) {
		token, _, err := a.hubToken()
		if err != nil {
			return world{}, err
		}
		secrets = append(secrets, token)
	}
	w.Redact = trajectory.NewRedactor(secrets)
	w.Now, w.Rand = time.Now, rand.Reader
	w.Mono = func() time.Duration { return time.Since(a.began) }
	if w.Key, err = a.signingKey(s.key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.noJudgeCache {
		w.Verdicts, err = a.judgeCache(w.Key, s.resumed)
	}
	return w, err
}

// policy returns the governance of the run with the budgets of the flags.
func (s settings) policy() (policy.Policy, error) {
	p, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		return p, err
	}
	if s.toolCalls > 0 {
		p.MaxToolCalls = s.toolCalls
	}
	switch s.taskCost {
	case "":
	case "off":
		p.MaxCostMicroUSD = policy.Unlimited
	default:
		dollars, err := strconv.ParseFloat(s.taskCost, 64)
		if err != nil || !(dollars >= 1e-6 && dollars < 1e6) {
			return p, usage("give US dollars, such as 0.50, or 'off'", "--max-task-cost %q is no budget", s.taskCost)
		}
		p.MaxCostMicroUSD = int64(math.Round(dollars * 1e6))
	}
	return p, nil
}

// rehearse fills in the built-in model, web and prices, served on loopback.
func (w *world) rehearse(s settings) error {
	server, err := fixtures.Serve()
	if err != nil {
		return fmt.Errorf("serving the built-in model and web: %w", err)
	}
	w.close = server.Close
	prices, err := llm.ParsePrices(fixtures.Prices())
	if err != nil {
		return fmt.Errorf("reading the built-in prices: %w", err)
	}
	client := newClient(server.ModelURL, "", prices)
	w.PricesDigest = prices.Digest()
	w.Model = run.Endpoint{Client: client, Name: s.model, Origin: rehearsalHost + fixtures.Model}
	if s.judge != "" {
		w.Judge = &run.Endpoint{Client: client, Name: s.judge, Origin: rehearsalHost + fixtures.JudgeModel}
	}
	w.Tools, err = toolset(tools.WebConfig{Exceptions: server.Hosts}, fixtures.SearchURL)
	return err
}

// connect fills in the endpoint that the settings name.
func (w *world) connect(s settings, apiKey string) error {
	base, err := url.Parse(s.baseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usage("give a URL such as https://api.openai.com/v1", "--base-url %q is no base URL", s.baseURL)
	}
	if base.User != nil {
		return usage("set OPENAI_API_KEY instead", "--base-url holds credentials, which would be recorded")
	}
	prices, err := s.priceTable()
	if err != nil {
		return err
	}
	if !prices.Lookup(s.model) && w.Policy.MaxCostMicroUSD != policy.Unlimited && !isLocal(base.Hostname()) {
		return usage("give its price with --prices FILE, or --max-task-cost off to run without a cost budget", "the price of model %q is not known, so its cost cannot be bounded", s.model)
	}
	if apiKey == "" && !isLocal(base.Hostname()) {
		return usage("set OPENAI_API_KEY", "there is no key for %s", base.Host)
	}
	client := newClient(s.baseURL, apiKey, prices)
	origin := base.Scheme + "://" + base.Host
	w.PricesDigest = prices.Digest()
	w.Model = run.Endpoint{Client: client, Name: s.model, Origin: origin}
	if s.judge != "" {
		w.Judge = &run.Endpoint{Client: client, Name: s.judge, Origin: origin}
	}
	w.Tools, err = toolset(tools.WebConfig{}, s.searxng)
	return err
}

// priceTable reads the prices to count cost by.
func (s settings) priceTable() (llm.Prices, error) {
	if s.prices == "" {
		return llm.BuiltinPrices(), nil
	}
	data, err := os.ReadFile(s.prices)
	if err != nil {
		return llm.Prices{}, usage("", "reading the price table %q: %v", s.prices, unwrapPath(err))
	}
	prices, err := llm.ParsePrices(data)
	if err != nil {
		return llm.Prices{}, usage("the form is that of internal/llm/prices.json", "the price table %q: %v", s.prices, err)
	}
	return prices, nil
}

// isLocal reports whether a host is this machine, whose model costs nothing.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func newClient(baseURL, key string, prices llm.Prices) *llm.Client {
	return llm.New(llm.Config{BaseURL: baseURL, APIKey: key, Prices: prices, MaxTries: callTries, Now: time.Now, Jitter: mathrand.Float64})
}

// toolset returns the tools of a run; search needs an endpoint. Documents that
// could harm this process are read by another run of this program.
func toolset(c tools.WebConfig, searchURL string) (_ []tools.Tool, err error) {
	if c.Child, err = child(); err != nil {
		return nil, err
	}
	web := tools.NewWeb(c)
	all := []tools.Tool{tools.NewReadFile(c.Child), tools.NewListFiles(), tools.NewCalculate(), tools.NewWebFetch(web)}
	if searchURL != "" {
		all = append(all, tools.NewWebSearch(web, searchURL))
	}
	return all, nil
}

// child is this program as a reader of documents.
func child() (tools.Child, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	return tools.Child{executable, convertName}, nil
}

// complete fills in what the flags left open, from the environment and then
// from the defaults, and refuses what does not go together.
func (a *app) complete(s *settings) error {
	s.rehearsal = a.rehearses(s.taskFlags) && (s.source == sourceFixtures || s.model == "" && s.baseURL == "")
	if s.rehearsal {
		if s.model != "" || s.baseURL != "" || s.judge != "" || s.searxng != "" || s.prices != "" {
			return usage("leave out --model, --base-url, --judge-model, --searxng-url and --prices, or give --source hub or dir:PATH",
				"the built-in tasks run with the built-in model alone")
		}
		s.source, s.model, s.judge = sourceFixtures, fixtures.Model, fixtures.JudgeModel
		return nil
	}
	s.source = cmp.Or(s.source, sourceHub)
	if s.model == "" {
		return usage("give --model", "no model is given")
	}
	s.baseURL = cmp.Or(s.baseURL, a.getenv("OPENAI_BASE_URL"), defaultBaseURL)
	return nil
}
