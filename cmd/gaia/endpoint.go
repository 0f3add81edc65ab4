package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/tools"
)

// rehearse fills in the built-in model, web and prices, served on loopback.
func (w *world) rehearse(s settings) error {
	server, err := fixtures.Serve()
	if err != nil {
		return fmt.Errorf("serving the built-in model and web: %w", err)
	}
	w.close = server.Close
	if w.Prices, err = llm.ParsePrices(fixtures.Prices()); err != nil {
		return fmt.Errorf("reading the built-in prices: %w", err)
	}
	if err := w.ask(s, server.ModelURL, ""); err != nil {
		return err
	}
	w.Model.Origin = rehearsalHost + fixtures.Model
	if w.Vision != nil {
		w.Vision.Origin = rehearsalHost + w.Vision.Name
	}
	if w.Judge != nil {
		w.Judge.Origin, w.Judge.URL = rehearsalHost+fixtures.JudgeModel, ""
	}
	if w.Transcription != nil {
		w.Transcription.Origin = rehearsalHost + fixtures.TranscriptionModel
	}
	return w.equip(tools.WebConfig{Exceptions: server.Hosts, Archive: fixtures.ArchiveURL}, tools.Engine{Name: tools.SearXNG, URL: fixtures.SearchURL})
}

// connect fills in the endpoint that the settings name.
func (w *world) connect(s settings, apiKey string) error {
	base, err := parseBaseURL(s.baseURL)
	if err != nil {
		return err
	}
	if w.Prices, err = s.priceTable(); err != nil {
		return err
	}
	if err := w.bounded(s, base); err != nil {
		return err
	}
	if err := s.keyed(base, apiKey); err != nil {
		return err
	}
	if err := w.ask(s, s.baseURL, apiKey); err != nil {
		return err
	}
	w.Search = s.searchPlan()
	return w.equip(tools.WebConfig{}, s.engine)
}

// bounded refuses a model whose cost the policy bounds and nobody knows.
func (w *world) bounded(s settings, base *url.URL) error {
	if !w.Prices.Lookup(s.model) && w.Policy.MaxCostMicroUSD != policy.Unlimited && !isLocal(base.Hostname()) {
		return usage("give its price with --prices FILE, or --max-task-cost off to run without a cost budget", "the price of model %q is not known, so its cost cannot be bounded", s.model)
	}
	return nil
}

// keyed refuses to ask an endpoint elsewhere without a key.
func (s settings) keyed(base *url.URL, apiKey string) error {
	if mode, _, _ := s.tape(); apiKey == "" && !s.dry && mode != plan.CassetteReplay && !isLocal(base.Hostname()) {
		return noKeyFor(base)
	}
	return nil
}

// parseBaseURL reads what --base-url says.
func parseBaseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usage("give a URL such as https://api.openai.com/v1", "--base-url %q is no base URL", shownURL(text))
	}
	if base.User != nil {
		return nil, usage("set OPENAI_API_KEY instead", "--base-url holds credentials, which would be recorded")
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return nil, usage("leave out what begins with ? or #; a key belongs into OPENAI_API_KEY", "--base-url has a query or a fragment, and endpoints are asked without")
	}
	return base, nil
}

// shownURL is what was given as a URL without the parts that may hold a key.
func shownURL(text string) string {
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		text = text[:i+1] + "…"
	}
	if i := strings.LastIndex(text, "@"); i >= 0 {
		scheme, _, found := strings.Cut(text[:i], "//")
		if !found {
			return "…" + text[i:]
		}
		return scheme + "//…" + text[i:]
	}
	return text
}

func noKeyFor(base *url.URL) error {
	return usage("set OPENAI_API_KEY", "there is no key for %s", base.Host)
}

// ask fills in how the models of the settings are asked at an endpoint: with one
// limiter for all of them, since they share what it bears.
func (w *world) ask(s settings, baseURL, apiKey string) (err error) {
	w.PricesDigest = w.Prices.Digest()
	if err = w.priced(s); err != nil {
		return err
	}
	if w.Concurrency, err = s.atOnce(); err != nil {
		return err
	}
	config := llm.Config{BaseURL: baseURL, APIKey: apiKey, API: s.api, Prices: w.Prices, MaxTries: cmp.Or(s.tries, callTries), Now: time.Now, Jitter: mathrand.Float64}
	config.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: w.Concurrency, RequestsPerMinute: s.rpm, TokensPerMinute: s.tpm, Now: time.Now})
	if w.Cassette, _, err = s.tape(); err != nil {
		return err
	}
	live := config                                   // without a cassette
	if !s.dry || w.Cassette == plan.CassetteReplay { // which makes nothing
		if config.Transport, err = s.transport(); err != nil {
			return err
		}
	}
	if w.Cassette == plan.CassetteReplay {
		config.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // nobody asks to be left alone
	}
	origin, client := originOf(baseURL), llm.New(config)
	w.Model = run.Endpoint{Client: client, Name: s.model, Origin: origin, Limiter: config.Limiter,
		API: s.api, NoTemperature: s.noTemperature, Images: s.showsImages(), ContextWindow: s.window, ServedAs: s.servedAs}
	if w.Model.API == "" {
		w.Model.API = llm.APIOf(s.model, baseURL)
	}
	if s.transcription != "" {
		w.Transcription = &run.Transcription{Client: client, Name: s.transcription, Origin: origin}
	}
	w.Vision = s.sight(client, config, baseURL)
	if s.judge != "" {
		w.Judge = judgeAt(config, s.judge, baseURL)
	}
	if !s.noPreflight && w.Cassette != plan.CassetteReplay {
		w.Preflight = w.advance(s, live, baseURL)
	}
	return nil
}

// advance lists what is asked before the tasks, by clients of the same limiter.
func (w *world) advance(s settings, config llm.Config, baseURL string) *preflight.Models {
	client := llm.New(config)
	m := &preflight.Models{Model: preflight.Model{Client: client, Name: s.model}, Tools: true, MaxTokens: s.maxTokens, Now: config.Now}
	if w.Judge != nil {
		judge := judgeAt(config, s.judge, baseURL)
		m.Judge = &preflight.Model{Client: judge.Client, Name: judge.Name}
	}
	if v := s.sight(client, config, baseURL); v != nil {
		m.Vision = &preflight.Model{Client: v.Client, Name: v.Name}
	}
	if w.Transcription != nil {
		m.Transcription = &preflight.Hearing{Client: client, Name: w.Transcription.Name}
	}
	return m
}

// priced fills in the money of the run, which can be kept only if all prices are known.
func (w *world) priced(s settings) (err error) {
	if w.RunCost, err = dollarsOf("max-cost", s.runCost); err != nil || w.RunCost == 0 {
		return err
	}
	for _, model := range []string{s.model, s.judge, s.transcription, s.looks()} {
		if model != "" && !w.Prices.Lookup(model) {
			return usage("give its price with --prices FILE, or leave out --max-cost", "the price of model %q is not known, so --max-cost cannot be kept", model)
		}
	}
	return nil
}

// judgeAt is the judge of a name at an endpoint. The interface is what its own name
// demands: --api is of the model that answers.
func judgeAt(config llm.Config, name, baseURL string) *run.Endpoint {
	config.API = ""
	return &run.Endpoint{Client: llm.New(config), Name: name, Origin: originOf(baseURL), URL: strings.TrimRight(baseURL, "/"), Limiter: config.Limiter,
		API: llm.APIOf(name, baseURL), NoTemperature: !llm.TakesTemperature(name)}
}

// transport returns what carries requests: nil for the client's own. A run that
// goes on records behind what it had recorded.
func (s settings) transport() (carrier http.RoundTripper, err error) {
	mode, dir, err := s.tape()
	switch {
	case err != nil:
		return nil, err
	case mode == plan.CassetteRecord && s.resumed:
		carrier, err = llm.ContinueRecorder(dir, nil)
	case mode == plan.CassetteRecord:
		carrier, err = llm.NewRecorder(dir, nil)
	case mode == plan.CassetteReplay:
		carrier, err = llm.NewPlayer(dir)
	}
	if errors.Is(err, llm.ErrRecorded) {
		return nil, usage("record to another directory, or have the answers from there with --cassette "+quoteArg(plan.CassetteReplay+":"+dir), "--cassette %s: %v", s.cassette, err)
	}
	if err != nil {
		hint := anotherTape
		if s.resumed {
			hint = "give the directory that the run was started with"
		}
		return nil, usage(hint, "--cassette %s: %v", s.cassette, err)
	}
	return carrier, nil
}

// anotherTape is what mends a cassette of no use.
const anotherTape = "name another directory with --cassette, or leave it out"

// equip fills in the tools of a run; search needs an engine. Documents that
// could harm this process are read by another run of this program.
func (w *world) equip(c tools.WebConfig, engine tools.Engine) (err error) {
	if w.Reader, err = child(w.sandbox); err != nil {
		return err
	}
	c.Reader = w.Reader // with the same memory: an attachment is read for its probes and by the agent
	web := tools.NewWeb(c)
	w.Tools = []tools.Tool{tools.NewReadFile(c.Reader), tools.NewListFiles(), tools.NewCalculate(), tools.NewWebFetch(web)}
	if engine.Name != "" {
		w.Tools = append(w.Tools, tools.NewWebSearch(web, engine))
	}
	return nil
}

// child is this program as a reader of documents, with what of this machine
// helps it, in the sandbox.
func child(sandbox *tools.Sandbox) (tools.Reader, error) {
	executable, err := os.Executable()
	if err != nil {
		return tools.Reader{}, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	return tools.Reader{Child: []string{executable, convertName}, Poppler: poppler(sandbox), Memory: new(tools.Memory)}, nil
}

// anotherTable is what mends a price table that cannot be read.
const anotherTable = "name a price table with --prices FILE, or leave it out for the built-in one"

// maxPrices bounds, in bytes, a price table: a model has about a hundred.
const maxPrices = 16 << 20

// priceTable reads the prices to count cost by.
func (s settings) priceTable() (llm.Prices, error) {
	if s.prices == "" {
		return llm.BuiltinPrices(), nil
	}
	data, err := readUpTo(s.prices, maxPrices)
	if err != nil {
		return llm.Prices{}, usage(anotherTable, "reading the price table %q: %v", s.prices, err)
	}
	prices, err := llm.ParsePrices(data)
	if err != nil {
		return llm.Prices{}, usage("docs/formats.md states the form of a price table, and has an example", "the price table %q: %v", s.prices, err)
	}
	return prices, nil
}

// originOf is where a base URL leads to, without a path; "" for what is none.
func originOf(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" {
		return ""
	}
	return base.Scheme + "://" + base.Host
}

// isLocal reports whether a host is this machine, whose model costs nothing.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
