// Package equip prepares what a run needs, from its settings and the user's environment: tasks, models, tools, the
// sandbox, MCP servers, an agent of the user's own, the judge and the keys.
//
// [User] is the environment of the program, read through functions, with the built-in parts of a rehearsal.
// [User.Configure] completes the plan of the settings and returns a [World], the environment of the run with the
// servers that it needs. Programs that it starts get no key, and folders that hold answers, keys or runs are hidden
// from the sandbox (TestHidden). It asks no model and records nothing.
package equip

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/intercept"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
)

// World is a run's environment with the servers it needs; Close ends them.
type World struct {
	runenv.Env
	close func() error
	Programs
	upstreams map[string]proxy.Upstream // of an own agent, by dialect
	network   intercept.Config          // of its recorded network
}

func (w World) Close() error {
	if w.Own != nil && w.Own.SocketDir != "" {
		defer os.RemoveAll(w.Own.SocketDir)
	}
	if w.close == nil {
		return nil
	}
	return w.close()
}

// Configure builds all that a run needs, and completes the plan of its settings.
func (u *User) Configure(ctx context.Context, s *runflags.Settings) (_ World, err error) {
	var w World
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	go build.Harness() // reads the whole program, for the plan
	trying, cancel := context.WithCancel(ctx)
	programs, err := u.FindPrograms(trying, s, s.Python)
	if err != nil {
		cancel()
		return World{}, err
	}
	defer programs() // it leaves nothing behind
	defer cancel()
	pages, engine := web.Config{Exceptions: u.Exceptions}, s.Engine
	if s.Plan.Rehearsal {
		pages, engine, err = w.rehearse(u.Builtin, s)
	} else {
		err = w.connect(s, u.Getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return World{}, err
	}
	if w.Set, w.Gold, err = u.LoadTasks(ctx, s.Tasks); err != nil {
		return World{}, err
	}
	w.Programs = programs()
	if ctx.Err() != nil {
		return World{}, ctx.Err()
	}
	w.network.Guard = guard.New(pages.Exceptions, "")
	w.network.Guard.Offline = pages.Offline
	if err = w.equip(pages, engine); err != nil {
		return World{}, err
	}
	if err = u.addPython(s, &w); err != nil {
		return World{}, err
	}
	headers, err := u.addServers(ctx, &w, s)
	if err != nil {
		return World{}, err
	}
	if err = u.AddAgent(ctx, &w, s); err != nil {
		return World{}, err
	}
	if !s.Dry { // which reads no attachments
		if err = w.Set.HashAttachments(ctx); err != nil {
			return World{}, err
		}
	}
	if w.Harness, err = build.Harness(); err != nil {
		return World{}, err
	}
	if err := s.CheckSelected(w.Set.Digest); err != nil {
		return World{}, err
	}
	s.Plan.Dataset.Selection = s.Filter.Rule()
	if s.Selected != nil && !s.OnlyErrors && (s.Resumed || s.Selected.MetadataSHA256 == w.Set.Digest) {
		s.Plan.Dataset.Selection = s.Selected.Selection // which chose them from these very tasks
	}
	for _, name := range s.Approve {
		if name == approve.All {
			name = policy.EveryTool
		}
		s.Plan.Approved = append(s.Plan.Approved, policy.ToolName(name))
	}
	w.Continue, w.Scratch = s.OnLost == runflags.GoOn, os.TempDir()
	secrets := append(headers, u.Getenv("OPENAI_API_KEY"), s.Engine.Key)
	if runflags.IsHub(s.Source) {
		token, _, err := u.Hub().Token()
		if err != nil {
			return World{}, err
		}
		secrets = append(secrets, token)
	}
	w.Redact = trajectory.NewRedactor(u.Secrets(), secrets...)
	w.Now, w.Rand = time.Now, rand.Reader
	w.Mono = func() time.Duration { return time.Since(u.Began) }
	if s.Dry || s.Folder != nil {
		w.Key, err = sign.NewKey(rand.Reader) // signs nothing: a shard has its own
		return w, err
	}
	if w.Key, err = u.Keyring().Signing(s.Key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.NoJudgeCache && s.Plan.Cassette != plan.CassetteReplay {
		w.Cache, err = u.JudgeCache(w.Key, s.Resumed)
	}
	return w, err
}

// tasksWaiting is of how many requests at once, as the user gives them, there is a task more under way. While those
// tasks wait for tools or the disk, others keep the endpoint busy.
const tasksWaiting = 4

// rehearse adds the built-in model, web and prices, served on loopback, and returns
// where pages and searches are.
func (w *World) rehearse(b Builtin, s *runflags.Settings) (web.Config, web.Engine, error) {
	server, err := b.Serve()
	if err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("serving the built-in model and web: %w", err)
	}
	w.close, w.network.Roots = server.Close, server.Roots
	if w.Prices, err = llm.ParsePrices(b.Prices()); err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("reading the built-in prices: %w", err)
	}
	s.Own.Messages, s.Own.MessagesKey = strings.TrimSuffix(server.ModelURL, "/v1"), ""
	if err := w.Ask(s, server.ModelURL, ""); err != nil {
		return web.Config{}, web.Engine{}, err
	}
	s.Plan.Model.Origin = runflags.RehearsalHost + b.Model
	if s.Plan.Vision != nil {
		s.Plan.Vision.Origin = runflags.RehearsalHost + s.Plan.Vision.Model
	}
	if w.Judge != nil {
		w.Judge.Origin, w.Judge.URL = runflags.RehearsalHost+b.JudgeModel, ""
	}
	if s.Plan.Transcription != nil {
		s.Plan.Transcription.Origin = runflags.RehearsalHost + b.TranscriptionModel
	}
	s.Plan.Search = nil
	return web.Config{Exceptions: server.Hosts, Offline: true, Archive: b.ArchiveURL}, web.Engine{Name: web.SearXNG, URL: b.SearchURL}, nil
}

// connect adds the endpoint that the settings name.
func (w *World) connect(s *runflags.Settings, apiKey string) error {
	base, err := remote.ParseURL(s.BaseURL)
	if err != nil {
		return err
	}
	if w.Prices, err = remote.Prices(s.Prices); err != nil {
		return err
	}
	if err := remote.CheckPrices(&s.Plan, s.Models(), w.Prices, base); err != nil {
		return err
	}
	if err := s.Keyed(base, apiKey); err != nil {
		return err
	}
	if err := w.Ask(s, s.BaseURL, apiKey); err != nil {
		return err
	}
	s.Plan.Search = nil
	if s.Engine.Name != "" {
		s.Plan.Search = &plan.SearchPlan{Engine: s.Engine.Name, Origin: s.Engine.Origin()}
	}
	return nil
}

// Ask adds the clients for the models of the settings at an endpoint.
func (w *World) Ask(s *runflags.Settings, baseURL, apiKey string) (err error) {
	m := remote.Models{URL: baseURL, Key: apiKey, API: s.Protocol, Vision: s.Looks(), Images: s.ShowsImages(), Prices: w.Prices, Tries: s.Tries,
		RPM: s.Requests, TPM: s.Tokens, Dry: s.Dry}
	if m.AtOnce, err = s.AtOnce(); err != nil {
		return err
	}
	if m.Cassette, err = s.Tape(); err != nil {
		return err
	}
	c, err := m.Connect(&s.Plan)
	if s.Plan.Agent != nil {
		s.Plan.Model.API = "" // each request of the agent has a dialect
		w.upstreams = m.Upstreams(s.Own.Messages, s.Own.MessagesKey, c.Limiter)
	}
	w.Concurrency = m.AtOnce + m.AtOnce/tasksWaiting
	w.Limiter, w.Model, w.Viewer, w.Transcriber, w.Judge, w.Preflight = c.Limiter, c.Model, c.Viewer, c.Transcriber, c.Judge, c.Preflight
	return err
}

// equip adds the tools of a run; search needs an engine. Documents that could harm this process are read by another run of this
// program.
func (w *World) equip(c web.Config, engine web.Engine) (err error) {
	if w.Reader, err = child(w.Sandbox); err != nil {
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

// SettleSearch settles which search engine is asked, and reports if others could be, too.
func (u *User) SettleSearch(s *runflags.Settings) error {
	engine, others, err := remote.Search(s.Search, s.SearXNG, s.Dry, u.Getenv)
	if len(others) > 0 {
		fmt.Fprintf(u.Stderr, "gaia: web_search asks %s, though %s could be asked, too; --search chooses\n", engine.Name, strings.Join(others, " and "))
	}
	s.Engine, s.SearXNG = engine, engine.URL
	return err
}

// ConvertCommand is the command of this program that reads a document.
const ConvertCommand = "convert-document"

// child is this program as a reader of documents, with what of this machine helps it, in
// the sandbox.
func child(in *sandbox.Sandbox) (document.Reader, error) {
	executable, err := os.Executable()
	if err != nil {
		return document.Reader{}, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	r := document.Reader{Child: []string{executable, ConvertCommand}, Memory: new(document.Memory)}
	if p := (document.Poppler{Text: OnPath("pdftotext"), Pages: OnPath("pdftoppm"), Sandbox: in}); p.Text != "" || p.Pages != "" {
		r.Poppler = &p // its programs run in the sandbox, if there is one
	}
	return r, nil
}

// JudgeToCheck is the judge that the settings name, or the built-in one, which is
// there until end is called; atOnce bounds the requests that are under way.
func (u *User) JudgeToCheck(s *runflags.Settings, atOnce int) (e *grading.Judge, prices llm.Prices, end func(), err error) {
	limiter := llm.NewLimiter(llm.LimiterConfig{Fixed: atOnce, Now: time.Now})
	limiter.OnUnreachable(func(err error) { u.Warn(err.Error()) })
	c := llm.Config{BaseURL: s.BaseURL, MaxTries: remote.CallTries, Now: time.Now, Jitter: mathrand.Float64, Limiter: limiter}
	if s.Plan.Rehearsal {
		fmt.Fprintln(u.Stderr, "gaia: rehearsal: a scripted judge; this says nothing of a real one")
		if c.Prices, err = llm.ParsePrices(u.Builtin.Prices()); err != nil {
			return nil, prices, nil, fmt.Errorf("reading the built-in prices: %w", err)
		}
		server, err := u.Builtin.Serve()
		if err != nil {
			return nil, prices, nil, fmt.Errorf("serving the built-in judge: %w", err)
		}
		c.BaseURL = server.ModelURL
		e = remote.Judge(c, cmp.Or(s.JudgeModel(), u.Builtin.JudgeModel), c.BaseURL)
		e.Origin, e.URL = runflags.RehearsalHost+e.Name, ""
		return e, c.Prices, func() { _ = server.Close() }, nil
	}
	base, err := remote.ParseURL(s.BaseURL)
	if err != nil {
		return nil, prices, nil, err
	}
	if c.APIKey = u.Getenv("OPENAI_API_KEY"); c.APIKey == "" && !remote.IsLocal(base) {
		return nil, prices, nil, remote.NoKey(base)
	}
	if c.Prices, err = remote.Prices(s.Prices); err != nil {
		return nil, prices, nil, err
	}
	return remote.Judge(c, s.JudgeModel(), s.BaseURL), c.Prices, func() {}, nil
}
