package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/intercept"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
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
	sandbox   *sandbox.Sandbox          // nil: there is none
	noSandbox error                     // why
	upstreams map[string]proxy.Upstream // of an own agent, by dialect
	network   intercept.Config          // of its recorded network
}

func (w world) Close() error {
	if w.Own != nil && w.Own.SocketDir != "" {
		defer os.RemoveAll(w.Own.SocketDir)
	}
	if w.close == nil {
		return nil
	}
	return w.close()
}

// exceptions are what the guard against private addresses lets through. Only tests have any.
var exceptions map[string]string

// configure builds all that a run needs, and completes the plan of its settings.
func (a *app) configure(ctx context.Context, s *runSettings) (_ world, err error) {
	var w world
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	go build.Harness() // reads the whole program, for the plan
	trying, cancel := context.WithCancel(ctx)
	programs, err := a.findPrograms(trying, s, s.python)
	if err != nil {
		cancel()
		return world{}, err
	}
	defer programs() // it leaves nothing behind
	defer cancel()
	pages, engine := web.Config{Exceptions: exceptions}, s.engine
	if s.plan.Rehearsal {
		pages, engine, err = w.rehearse(s)
	} else {
		err = w.connect(s, a.getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return world{}, err
	}
	if w.Set, w.Gold, err = a.loadTasks(ctx, s.taskFlags); err != nil {
		return world{}, err
	}
	tried := programs()
	if ctx.Err() != nil {
		return world{}, ctx.Err()
	}
	w.sandbox, w.noSandbox, w.network.Guard = tried.sandbox, tried.noSandbox, guard.New(pages.Exceptions, "")
	w.network.Guard.Offline = pages.Offline
	if err = w.equip(pages, engine); err != nil {
		return world{}, err
	}
	if err = a.addPython(s, &w, tried); err != nil {
		return world{}, err
	}
	headers, err := a.addServers(ctx, &w, s)
	if err != nil {
		return world{}, err
	}
	if err = a.addAgent(ctx, &w, s); err != nil {
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
	if w.Key, err = a.keyring().Signing(s.key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.noJudgeCache && s.plan.Cassette != plan.CassetteReplay {
		w.Cache, err = a.judgeCache(w.Key, s.resumed)
	}
	return w, err
}

// tasksWaiting is of how many requests at once, as the user gives them, there is a task more under way. While those
// tasks wait for tools or the disk, others keep the endpoint busy.
const tasksWaiting = 4

// rehearse adds the built-in model, web and prices, served on loopback, and returns
// where pages and searches are.
func (w *world) rehearse(s *runSettings) (web.Config, web.Engine, error) {
	server, err := fixtures.Serve()
	if err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("serving the built-in model and web: %w", err)
	}
	w.close, w.network.Roots = server.Close, server.Roots
	if w.Prices, err = llm.ParsePrices(fixtures.Prices()); err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("reading the built-in prices: %w", err)
	}
	s.own.messages, s.own.messagesKey = strings.TrimSuffix(server.ModelURL, "/v1"), ""
	if err := w.ask(s, server.ModelURL, ""); err != nil {
		return web.Config{}, web.Engine{}, err
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
	return web.Config{Exceptions: server.Hosts, Offline: true, Archive: fixtures.ArchiveURL}, web.Engine{Name: web.SearXNG, URL: fixtures.SearchURL}, nil
}

// connect adds the endpoint that the settings name.
func (w *world) connect(s *runSettings, apiKey string) error {
	base, err := remote.ParseURL(s.baseURL)
	if err != nil {
		return err
	}
	if w.Prices, err = remote.Prices(s.prices); err != nil {
		return err
	}
	if err := remote.CheckPrices(&s.plan, s.models(), w.Prices, base); err != nil {
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
	return nil
}

// keyed returns an error for an endpoint elsewhere without a key. An own agent may speak the messages dialect alone: then no
// model is asked otherwise.
func (s *runSettings) keyed(base *url.URL, apiKey string) error {
	if p := &s.plan; p.Agent != nil && apiKey == "" && !remote.IsLocal(base) && s.own.messagesKey != "" && p.Judge == nil && p.Transcription == nil && s.looks() == "" {
		p.NoPreflight = true
		return nil
	}
	if c, _ := s.tape(); apiKey == "" && !s.dry && c.Mode != plan.CassetteReplay && !remote.IsLocal(base) {
		return remote.NoKey(base)
	}
	return nil
}

// ask adds the clients for the models of the settings at an endpoint.
func (w *world) ask(s *runSettings, baseURL, apiKey string) (err error) {
	m := remote.Models{URL: baseURL, Key: apiKey, API: s.api, Vision: s.looks(), Images: s.showsImages(), Prices: w.Prices, Tries: s.tries,
		RPM: s.rpm, TPM: s.tpm, Dry: s.dry}
	if m.AtOnce, err = s.atOnce(); err != nil {
		return err
	}
	if m.Cassette, err = s.tape(); err != nil {
		return err
	}
	c, err := m.Connect(&s.plan)
	if s.plan.Agent != nil {
		s.plan.Model.API = "" // each request of the agent has a dialect
		w.upstreams = m.Upstreams(s.own.messages, s.own.messagesKey, c.Limiter)
	}
	w.Concurrency = m.AtOnce + m.AtOnce/tasksWaiting
	w.Limiter, w.Model, w.Viewer, w.Transcriber, w.Judge, w.Preflight = c.Limiter, c.Model, c.Viewer, c.Transcriber, c.Judge, c.Preflight
	return err
}

// equip adds the tools of a run; search needs an engine. Documents that could harm this process are read by another run of this
// program.
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
