package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/intercept"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/servers"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
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
func (a *app) configure(ctx context.Context, s *runflags.Settings) (_ world, err error) {
	var w world
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	go build.Harness() // reads the whole program, for the plan
	trying, cancel := context.WithCancel(ctx)
	programs, err := a.findPrograms(trying, s, s.Python)
	if err != nil {
		cancel()
		return world{}, err
	}
	defer programs() // it leaves nothing behind
	defer cancel()
	pages, engine := web.Config{Exceptions: exceptions}, s.Engine
	if s.Plan.Rehearsal {
		pages, engine, err = w.rehearse(s)
	} else {
		err = w.connect(s, a.getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return world{}, err
	}
	if w.Set, w.Gold, err = a.loadTasks(ctx, s.Tasks); err != nil {
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
	if !s.Dry { // which reads no attachments
		if err = w.Set.HashAttachments(ctx); err != nil {
			return world{}, err
		}
	}
	if w.Harness, err = build.Harness(); err != nil {
		return world{}, err
	}
	s.Plan.Dataset.Selection = s.Filter.Rule()
	if s.Selected != nil && (s.Resumed || s.Selected.MetadataSHA256 == w.Set.Digest) {
		s.Plan.Dataset.Selection = s.Selected.Selection // which chose them from these very tasks
	}
	for _, name := range s.Approve {
		if name == approve.All {
			name = policy.EveryTool
		}
		s.Plan.Approved = append(s.Plan.Approved, policy.ToolName(name))
	}
	w.Continue, w.Scratch = s.OnLost == runflags.GoOn, os.TempDir()
	secrets := append(headers, a.getenv("OPENAI_API_KEY"), s.Engine.Key)
	if runflags.IsHub(s.Source) {
		token, _, err := a.hubEnv().Token()
		if err != nil {
			return world{}, err
		}
		secrets = append(secrets, token)
	}
	w.Redact = trajectory.NewRedactor(a.secrets(), secrets...)
	w.Now, w.Rand = time.Now, rand.Reader
	w.Mono = func() time.Duration { return time.Since(a.began) }
	if s.Dry || s.Folder != nil {
		w.Key, err = sign.NewKey(rand.Reader) // signs nothing: a shard has its own
		return w, err
	}
	if w.Key, err = a.keyring().Signing(s.Key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.NoJudgeCache && s.Plan.Cassette != plan.CassetteReplay {
		w.Cache, err = a.judgeCache(w.Key, s.Resumed)
	}
	return w, err
}

// tasksWaiting is of how many requests at once, as the user gives them, there is a task more under way. While those
// tasks wait for tools or the disk, others keep the endpoint busy.
const tasksWaiting = 4

// rehearse adds the built-in model, web and prices, served on loopback, and returns
// where pages and searches are.
func (w *world) rehearse(s *runflags.Settings) (web.Config, web.Engine, error) {
	server, err := fixtures.Serve()
	if err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("serving the built-in model and web: %w", err)
	}
	w.close, w.network.Roots = server.Close, server.Roots
	if w.Prices, err = llm.ParsePrices(fixtures.Prices()); err != nil {
		return web.Config{}, web.Engine{}, fmt.Errorf("reading the built-in prices: %w", err)
	}
	s.Own.Messages, s.Own.MessagesKey = strings.TrimSuffix(server.ModelURL, "/v1"), ""
	if err := w.ask(s, server.ModelURL, ""); err != nil {
		return web.Config{}, web.Engine{}, err
	}
	s.Plan.Model.Origin = runflags.RehearsalHost + fixtures.Model
	if s.Plan.Vision != nil {
		s.Plan.Vision.Origin = runflags.RehearsalHost + s.Plan.Vision.Model
	}
	if w.Judge != nil {
		w.Judge.Origin, w.Judge.URL = runflags.RehearsalHost+fixtures.JudgeModel, ""
	}
	if s.Plan.Transcription != nil {
		s.Plan.Transcription.Origin = runflags.RehearsalHost + fixtures.TranscriptionModel
	}
	s.Plan.Search = nil
	return web.Config{Exceptions: server.Hosts, Offline: true, Archive: fixtures.ArchiveURL}, web.Engine{Name: web.SearXNG, URL: fixtures.SearchURL}, nil
}

// connect adds the endpoint that the settings name.
func (w *world) connect(s *runflags.Settings, apiKey string) error {
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
	if err := w.ask(s, s.BaseURL, apiKey); err != nil {
		return err
	}
	s.Plan.Search = nil
	if s.Engine.Name != "" {
		s.Plan.Search = &plan.SearchPlan{Engine: s.Engine.Name, Origin: s.Engine.Origin()}
	}
	return nil
}

// ask adds the clients for the models of the settings at an endpoint.
func (w *world) ask(s *runflags.Settings, baseURL, apiKey string) (err error) {
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
func (a *app) settleSearch(s *runflags.Settings) error {
	engine, others, err := remote.Search(s.Search, s.SearXNG, s.Dry, a.getenv)
	if len(others) > 0 {
		fmt.Fprintf(a.stderr, "gaia: web_search asks %s, though %s could be asked, too; --search chooses\n", engine.Name, strings.Join(others, " and "))
	}
	s.Engine, s.SearXNG = engine, engine.URL
	return err
}

// child is this program as a reader of documents, with what of this machine helps it, in
// the sandbox.
func child(in *sandbox.Sandbox) (document.Reader, error) {
	executable, err := os.Executable()
	if err != nil {
		return document.Reader{}, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	r := document.Reader{Child: []string{executable, convertName}, Memory: new(document.Memory)}
	if p := (document.Poppler{Text: onPath("pdftotext"), Pages: onPath("pdftoppm"), Sandbox: in}); p.Text != "" || p.Pages != "" {
		r.Poppler = &p // its programs run in the sandbox, if there is one
	}
	return r, nil
}

const convertName = "convert-document"

// convertCommand is what a run starts to read one document in a separate
// process. It takes no arguments and is for no one else.
func convertCommand() *cobra.Command {
	return &cobra.Command{
		Use:    convertName,
		Short:  "Read a document for a run (internal)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.Join(document.Convert(os.Stdin, os.Stdout), os.Stdout.Close())
		},
	}
}

// found are the programs that a run may start.
type found struct {
	sandbox   *sandbox.Sandbox // nil: there is none
	noSandbox error            // why
	python    tools.Tool       // nil: it is not wanted or does not work
	noPython  error            // why it does not work
}

// findPrograms tries the sandbox and, as it is wanted, Python, beside other work. The
// function that it returns waits for that.
func (a *app) findPrograms(ctx context.Context, s *runflags.Settings, wanted string) (func() found, error) {
	hidden, err := a.hidden(s)
	if err != nil {
		return nil, err
	}
	done := make(chan found, 1)
	bwrap, python, env := onPath("bwrap"), onPath("python3"), a.forShims()
	go func() {
		var f found
		if f.sandbox, f.noSandbox = sandbox.New(ctx, sandbox.Config{Bwrap: bwrap, Hidden: hidden}); f.noSandbox != nil {
			f.sandbox = nil
		}
		switch {
		case wanted == runflags.PythonNo:
		case wanted == runflags.PythonUnconfined:
			var i sandbox.Interpreter
			if i, f.noPython = sandbox.FindPython(ctx, nil, python, env); f.noPython == nil {
				f.python = sandbox.NewUnsafePython(i)
			}
		case f.noSandbox != nil:
			f.noPython = f.noSandbox
		default:
			var i sandbox.Interpreter
			if i, f.noPython = sandbox.FindPython(ctx, f.sandbox, python, env); f.noPython == nil {
				f.python = sandbox.NewPython(f.sandbox, i)
			}
		}
		done <- f
	}()
	return sync.OnceValue(func() found { return <-done }), nil
}

// hidden lists what no program in the sandbox may see: where answers, keys and
// runs are, and this program, which holds the answers of the built-in tasks.
func (a *app) hidden(s *runflags.Settings) ([]string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to hide it: %w", err)
	}
	paths := []string{executable, "runs", s.Runs, a.hubEnv().Cache(), a.hubEnv().Home(), a.hubEnv().Expand(a.getenv("HF_TOKEN_PATH")), s.Key, a.getenv("GAIA_SIGNING_KEY_FILE")}
	for _, base := range []string{a.xdg("XDG_CONFIG_HOME", ".config"), a.xdg("XDG_CACHE_HOME", ".cache"), a.xdg("XDG_DATA_HOME", ".local/share")} {
		if base != "" {
			paths = append(paths, filepath.Join(base, "gaia"))
		}
	}
	if dir, found := strings.CutPrefix(s.Source, runflags.SourceDir); found {
		paths = append(paths, dir)
	}
	if s.PlanDir != "" {
		paths = append(paths, s.PlanDir, planfolder.PrivateFile(s.PlanDir), s.ShardKey)
	}
	if c, err := s.Tape(); err == nil {
		paths = append(paths, c.Dir)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" }), nil
}

// onPath is the absolute path of a program on PATH, "" if there is none.
func onPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil { // also one in the current folder, which is not to be trusted
		return ""
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}

// forShims is the environment of a program that was found on PATH and is asked what
// it is. It may be a script of a version manager, which needs no more; keys are none
// of its business.
func (a *app) forShims() []string {
	return []string{"PATH=" + a.getenv("PATH"), "HOME=" + a.getenv("HOME")}
}

// addPython adds the tool python where it works and is wanted. A new run goes on
// without it, and says so; a run that was planned with it does not.
func (a *app) addPython(s *runflags.Settings, w *world, f found) error {
	switch err := f.noPython; {
	case s.Python == runflags.PythonNo:
		return nil
	case err == nil:
	case s.Python == runflags.PythonIfWorks:
		fmt.Fprintf(a.stderr, "gaia: python is not offered: %s ('gaia doctor' says more)\n", view.Line(err.Error()))
		return nil
	case s.Resumed:
		return fail(exit.Failure, fmt.Errorf("the run was planned with python %s, which does not work here: %w", s.Python, err), unusableHint(err), "or start a new run")
	default:
		return fail(exit.Failure, fmt.Errorf("--unsafe-local-python: %w", err), unusableHint(err))
	}
	w.Tools = append(w.Tools, f.python)
	if s.Python == runflags.PythonUnconfined {
		s.Plan.Unconfined = append(s.Plan.Unconfined, runflags.PythonName)
		a.warn("the model's Python code runs without a sandbox, as you, with your files and network; the run will not be submittable")
	}
	return nil
}

// unusableHint returns what would make a program usable; "" if that is not known.
func unusableHint(err error) string {
	var u *sandbox.Unusable
	if errors.As(err, &u) {
		return u.Remedy
	}
	return ""
}

// addServers starts the MCP servers to ask for their tools, which become the
// run's. It returns what must not be recorded: the values of headers and variables.
func (a *app) addServers(ctx context.Context, w *world, s *runflags.Settings) (secrets []string, err error) {
	if w.sandbox == nil && slices.ContainsFunc(s.Servers, func(e settings.Server) bool { return e.URL == "" && !e.Unconfined() }) {
		a.warn(fmt.Sprintf("there is no sandbox for MCP servers: %v ('gaia doctor' says more)", w.noSandbox))
	}
	for _, e := range s.Servers {
		server, values, err := servers.Env{Getenv: a.getenv, Runs: s.Runs}.Settle(e)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
		if e.URL == "" {
			if !e.Unconfined() {
				server.Sandbox = w.sandbox
			}
			if server.Sandbox == nil {
				if err := a.unconfined(s, e); err != nil {
					return nil, err
				}
			}
		}
		if server.Sandbox != nil && e.Network == mcp.NetworkHost {
			if err := a.networked(s, e); err != nil {
				return nil, err
			}
		}
		found, err := server.Tools(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, cannotUse(server, s.ServersFrom, err)
		}
		w.Tools = append(w.Tools, found...)
	}
	return secrets, nil
}

// cannotUse is the failure of a server that does not start or says what cannot be used.
func cannotUse(server mcp.Server, settings string, err error) error {
	return &failure{Code: exit.Usage, Err: err, Hints: append(server.Hints(), "correct it, or leave it out of "+settings)}
}

// networked lets a server in the sandbox have the network, if the run may have such.
func (a *app) networked(s *runflags.Settings, e settings.Server) error {
	if s.Plan.SubmitIntent {
		return usage("leave out --submit-intent, or 'network: host'", "the MCP server %q would have the network, and nothing records what it reaches, so such a run cannot be submitted", e.Name)
	}
	a.warn(fmt.Sprintf("the MCP server %q has the network: nothing records what it reaches, and the run will not be submittable", e.Name))
	return nil
}

// unconfined lets a server run outside of the sandbox, if the run may have such.
func (a *app) unconfined(s *runflags.Settings, e settings.Server) error {
	if s.Plan.SubmitIntent {
		hint := "leave out --submit-intent, or 'sandbox: false'"
		if !e.Unconfined() {
			hint = "'gaia doctor' says what a sandbox needs; or leave out --submit-intent"
		}
		return usage(hint, "the MCP server %q would run outside of the sandbox, so such a run cannot be submitted", e.Name)
	}
	a.warn(fmt.Sprintf("the MCP server %q runs outside of the sandbox: the run will not be submittable", e.Name))
	s.Plan.Unconfined = append(s.Plan.Unconfined, "mcp:"+e.Name)
	return nil
}

// secrets returns the values of environment variables whose names say that
// they are secret, to be kept out of everything that is written.
func (a *app) secrets() []string {
	var values []string
	for _, entry := range a.environ {
		name, value, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	return values
}
