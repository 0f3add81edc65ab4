package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
)

// world is a run's environment with the servers it needs; Close ends them.
type world struct {
	run.Env
	close     func() error
	sandbox   *sandbox.Sandbox // nil: there is none
	noSandbox error            // why
}

func (w world) Close() error {
	if w.close == nil {
		return nil
	}
	return w.close()
}

// configure builds all that a run needs, and completes the plan of its settings.
func (a *app) configure(ctx context.Context, s *runSettings) (_ world, err error) {
	var w world
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err = a.confine(ctx, s, &w); err != nil {
		return world{}, err
	}
	if s.plan.Rehearsal {
		err = w.rehearse(s)
	} else {
		err = w.connect(s, a.getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return world{}, err
	}
	if err = a.addPython(ctx, s, &w); err != nil {
		return world{}, err
	}
	headers, err := a.addServers(ctx, &w, s)
	if err != nil {
		return world{}, err
	}
	if w.Set, w.Gold, err = a.loadTasks(ctx, s.taskFlags); err != nil {
		return world{}, err
	}
	if !s.dry { // which reads no attachments
		if err = w.Set.HashAttachments(ctx); err != nil {
			return world{}, err
		}
	}
	if w.Harness, err = build.Harness(); err != nil {
		return world{}, err
	}
	s.plan.Dataset.Selection = s.filter.Rule()
	if s.selected != nil && (s.resumed || s.selected.MetadataSHA256 == w.Set.Digest) {
		s.plan.Dataset.Selection = s.selected.Selection // which chose them from these very tasks
	}
	for _, name := range s.approve {
		if name == approve.All {
			name = policy.EveryTool
		}
		s.plan.Approved = append(s.plan.Approved, policy.ToolName(name))
	}
	w.Continue, w.Scratch = s.onLost == goOn, os.TempDir()
	secrets := append(headers, a.getenv("OPENAI_API_KEY"), s.engine.Key)
	if isHub(s.source) {
		token, _, err := a.hubEnv().Token()
		if err != nil {
			return world{}, err
		}
		secrets = append(secrets, token)
	}
	w.Redact = trajectory.NewRedactor(a.secrets(), secrets...)
	w.Now, w.Rand = time.Now, rand.Reader
	w.Mono = func() time.Duration { return time.Since(a.began) }
	if s.dry {
		w.Key, err = sign.NewKey(rand.Reader) // signs nothing
		return w, err
	}
	if w.Key, err = a.signingKey(s.key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.noJudgeCache && s.plan.Cassette != plan.CassetteReplay {
		w.Cache, err = a.judgeCache(w.Key, s.resumed)
	}
	return w, err
}

// rehearse fills in the built-in model, web and prices, served on loopback.
func (w *world) rehearse(s *runSettings) error {
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
	s.plan.Model.Origin = rehearsalHost + fixtures.Model
	if s.plan.Vision != nil {
		s.plan.Vision.Origin = rehearsalHost + s.plan.Vision.Model
	}
	if w.Judge != nil {
		w.Judge.Origin, w.Judge.URL = rehearsalHost+fixtures.JudgeModel, ""
	}
	if s.plan.Transcription != nil {
		s.plan.Transcription.Origin = rehearsalHost + fixtures.TranscriptionModel
	}
	s.plan.Search = nil
	return w.equip(web.Config{Exceptions: server.Hosts, Archive: fixtures.ArchiveURL}, web.Engine{Name: web.SearXNG, URL: fixtures.SearchURL})
}

// connect fills in the endpoint that the settings name.
func (w *world) connect(s *runSettings, apiKey string) error {
	base, err := remote.ParseURL(s.baseURL)
	if err != nil {
		return err
	}
	if w.Prices, err = remote.Prices(s.prices); err != nil {
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
	s.plan.Search = nil
	if s.engine.Name != "" {
		s.plan.Search = &plan.SearchPlan{Engine: s.engine.Name, Origin: s.engine.Origin()}
	}
	return w.equip(web.Config{}, s.engine)
}

// bounded refuses a model whose cost a budget bounds and no price table knows.
func (w *world) bounded(s *runSettings, base *url.URL) error {
	if model := s.plan.Model.Name; !w.Prices.Lookup(model) && s.plan.Policy.MaxCostMicroUSD != policy.Unlimited && !remote.IsLocal(base) {
		return usage("give its price with --prices FILE, or --max-task-cost off to run without a cost budget", "the price of model %q is not known, so its cost cannot be bounded", model)
	}
	return nil
}

// priced refuses a budget of the run that cannot be kept, since a price is not known.
func (w *world) priced(s *runSettings) error {
	for _, model := range s.models() {
		if s.plan.Budgets.RunCostMicroUSD > 0 && !w.Prices.Lookup(model) {
			return usage("give its price with --prices FILE, or leave out --max-cost", "the price of model %q is not known, so --max-cost cannot be kept", model)
		}
	}
	return nil
}

// keyed refuses to ask an endpoint elsewhere without a key.
func (s *runSettings) keyed(base *url.URL, apiKey string) error {
	if mode, _, _ := s.tape(); apiKey == "" && !s.dry && mode != plan.CassetteReplay && !remote.IsLocal(base) {
		return noKeyFor(base)
	}
	return nil
}

func noKeyFor(base *url.URL) error {
	return usage("set OPENAI_API_KEY", "there is no key for %s", base.Host)
}

// ask fills in how the models of the settings are asked at an endpoint: with one limiter
// for all of them, since they share what it bears.
func (w *world) ask(s *runSettings, baseURL, apiKey string) (err error) {
	p := &s.plan
	if err = w.priced(s); err != nil {
		return err
	}
	if w.Concurrency, err = s.atOnce(); err != nil {
		return err
	}
	w.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: w.Concurrency, RequestsPerMinute: s.rpm, TokensPerMinute: s.tpm, Now: time.Now})
	config := llm.Config{BaseURL: baseURL, APIKey: apiKey, API: s.api, Prices: w.Prices, MaxTries: cmp.Or(s.tries, callTries), Now: time.Now, Jitter: mathrand.Float64, Limiter: w.Limiter}
	if p.Cassette, _, err = s.tape(); err != nil {
		return err
	}
	live := config                                   // without a cassette
	if !s.dry || p.Cassette == plan.CassetteReplay { // which makes nothing
		if config.Transport, err = s.transport(); err != nil {
			return err
		}
	}
	if p.Cassette == plan.CassetteReplay {
		config.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // no endpoint asks to wait
	}
	origin := remote.Origin(baseURL)
	p.Retry.CallTries = callTries
	p.Model.Origin, p.Model.Images = origin, s.showsImages()
	if p.Model.API = cmp.Or(s.api, llm.APIOf(p.Model.Name, baseURL)); p.Model.API == llm.APIChat {
		p.Model.API = ""
	}
	client := llm.New(config)
	w.Model = client
	p.Vision = nil
	if name := s.looks(); name != "" {
		p.Vision = &plan.VisionPlan{Model: name, Origin: origin}
		w.Viewer = named(config, name, p.Model.Name)
	}
	if p.Transcription != nil {
		w.Transcriber, p.Transcription = client, &plan.TranscriptionPlan{Model: p.Transcription.Model, Origin: origin}
	}
	if p.Judge != nil {
		w.Judge = judgeAt(config, p.Judge.Model, baseURL)
	}
	if p.NoPreflight || p.Cassette == plan.CassetteReplay {
		return nil
	}
	asked := llm.New(live)
	w.Preflight = &preflight.Models{Model: preflight.Model{Client: asked, Name: p.Model.Name}, Tools: true, MaxTokens: p.Model.MaxTokens, Now: live.Now}
	if p.Judge != nil {
		w.Preflight.Judge = &preflight.Model{Client: judgeAt(live, p.Judge.Model, baseURL).Client, Name: p.Judge.Model}
	}
	if p.Vision != nil {
		w.Preflight.Vision = &preflight.Model{Client: named(live, p.Vision.Model, p.Model.Name), Name: p.Vision.Model}
	}
	if p.Transcription != nil {
		w.Preflight.Transcription = &preflight.Hearing{Client: asked, Name: p.Transcription.Model}
	}
	return nil
}

// named returns a client for a model beside the one that answers: --api is of that model
// alone.
func named(config llm.Config, name, answers string) *llm.Client {
	if name != answers {
		config.API = ""
	}
	return llm.New(config)
}

// judgeAt is the judge of a name at an endpoint.
func judgeAt(config llm.Config, name, baseURL string) *grading.Judge {
	return &grading.Judge{Client: named(config, name, ""), Name: name, Origin: remote.Origin(baseURL), URL: strings.TrimRight(baseURL, "/")}
}

// transport returns what carries requests: nil for the client's own. A run that goes on
// records behind what it had recorded.
func (s *runSettings) transport() (carrier http.RoundTripper, err error) {
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
		return nil, usage("record to another directory, or have the answers from there with --cassette "+view.Quote(plan.CassetteReplay+":"+dir), "--cassette %s: %v", s.cassette, err)
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

// anotherTape is the hint for a cassette that cannot be used.
const anotherTape = "name another directory with --cassette, or leave it out"

// equip fills in the tools of a run; search needs an engine. Documents that could harm
// this process are read by another run of this program.
func (w *world) equip(c web.Config, engine web.Engine) (err error) {
	if w.Reader, err = child(w.sandbox); err != nil {
		return err
	}
	c.Reader = w.Reader // with the same memory: an attachment is read for its probes and by the agent
	fetcher := web.New(c)
	w.Tools = []tools.Tool{document.NewReadFile(c.Reader), tools.NewListFiles(), tools.NewCalculate(), web.NewWebFetch(fetcher)}
	if engine.Name != "" {
		w.Tools = append(w.Tools, web.NewWebSearch(fetcher, engine))
	}
	return nil
}

// settleSearch settles which search engine is asked, and reports if others could be, too.
func (a *app) settleSearch(s *runSettings) error {
	engine, others, err := remote.Search(s.search, s.searxng, s.dry, a.getenv)
	if len(others) > 0 {
		fmt.Fprintf(a.stderr, "gaia: web_search asks %s, though %s could be asked, too; --search chooses\n", engine.Name, strings.Join(others, " and "))
	}
	s.engine, s.searxng = engine, engine.URL
	return err
}
