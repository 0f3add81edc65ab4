package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/servers"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exam is one call of doctor: what a run with the same flags would be, and how to check it.
type exam struct {
	*app
	runflags.Settings
	ofRun   *cobra.Command // has run's flags
	noCall  bool
	wait    time.Duration  // for whatever answers over a network
	w       equip.World    // what a run would ask, as far as it is known
	planned doctor.Planned // the reasons why parts of it cannot be used
}

func (a *app) doctorCommand() *cobra.Command {
	x := &exam{app: a, ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check prerequisites before a run",
		Long: `Doctor takes the flags of "gaia run", the environment and gaia.yaml, checks what such
a run would use, and prints what to change: keys, models, prices, the dataset, the
sandbox and other programs, MCP servers, room on disk, trusted keys, the judge cache.

It sends at most 6 short requests to the models and prints their cost; --no-call
sends none. Where "gaia run" would rehearse, it uses no network. It creates and
changes nothing.

"missing" is optional, and "unknown" was not checked: exit code 0. "failed" would be
rejected, make the run fail or spend without bound: exit code 3.`,
		Example: `  gaia doctor
  OPENAI_API_KEY=… HF_TOKEN=… gaia doctor --submit-intent \
      --model gpt-4o --judge-model gpt-4o-mini --max-cost 50
  gaia doctor --base-url http://localhost:11434/v1 --model llama3.1 --wait 5m
  gaia doctor --no-call --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := settings.Open(x.File)
			if err != nil {
				return err
			}
			return file.Point(x.run(cmd, file))
		},
	}
	cli.RejectEmpty(cmd, unemptied()...)
	x.AddRunFlags(x.ofRun)
	x.ofRun.Flags().SortFlags = false // as the help of run has them
	x.ofRun.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"help", "like", "only-errors", "dry-run", "json", "no-preflight", "verbose"}, f.Name) {
			cmd.Flags().AddFlag(f)
		}
	})
	cmd.Flags().BoolVar(&x.noCall, "no-call", false, "send no request to a model")
	cmd.Flags().DurationVar(&x.wait, "wait", 30*time.Second, "how long to wait for a model or a hub to answer")
	cmd.Flags().BoolVar(&x.AsJSON, "json", false, "print the result as JSON")
	cli.Section(cmd.Flags(), cli.OutputFlags)
	return cmd
}

func (x *exam) run(cmd *cobra.Command, file *settings.File) error {
	if x.wait <= 0 {
		return usage("give a time such as 2m", "--wait is %s, which is not a time to wait", x.wait)
	}
	if err := x.settle(cmd, file); err != nil {
		return err
	}
	ctx, release := stop.Context(cmd.Context())
	defer release()
	context.AfterFunc(ctx, release)
	p := x.subject()
	found := doctor.Run(ctx, p.CheckSettings, doctor.One(p.CheckModel), doctor.One(p.CheckJudge), p.CheckSenses,
		doctor.One(func(ctx context.Context) doctor.Finding { return p.CheckDataset(ctx, x.dataset()) }), x.programs,
		func(context.Context) []doctor.Finding { return x.places(p) })
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted"))
	}
	r := x.redactor(nil) // a variable with KEY in its name may also hold the path of a file
	for i, f := range found {
		found[i].Detail, _ = r.Redact(f.Detail)
		found[i].Remedy, _ = r.Redact(f.Remedy)
	}
	report := doctor.NewReport(found, x.Plan.Rehearsal)
	err := view.Result(x.stdout, x.AsJSON, report, report.Text())
	if failed := report.Failures(); err == nil && len(failed) > 0 {
		err = fail(exit.Findings, fmt.Errorf("checks failed: %s", strings.Join(failed, ", ")))
	}
	return err
}

// redactor knows the secrets of the user's that a run would know, and those that were found.
func (x *exam) redactor(found []string) trajectory.Redactor {
	secrets := []string{x.getenv("OPENAI_API_KEY"), x.getenv("GAIA_SIGNING_KEY"), x.getenv("HF_TOKEN"), x.getenv("HUGGING_FACE_HUB_TOKEN")}
	if token, _, err := x.user().Hub().Token(); err == nil {
		secrets = append(secrets, token)
	}
	return trajectory.NewRedactor(found, append(secrets, remote.SearchKeys(x.getenv)...)...)
}

// settle settles what a run would be, as run does. Flags and a file with a mistake are an error; that
// they make no run is a finding.
func (x *exam) settle(cmd *cobra.Command, file *settings.File) error {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := x.applySettings(&x.Settings, file, x.ofRun.Flags(), func(name string) bool { return given[name] }); err != nil {
		return err
	}
	if err := x.CheckFlags(x.ofRun.Flags().Changed); err != nil {
		return err
	}
	x.Tries = 1
	p := &x.planned
	if p.Invalid = x.user().SettleAgent(&x.Settings, file, x.ofRun.Flags().Changed); p.Invalid == nil {
		p.Invalid = x.complete(&x.Settings)
	}
	// The policy is settled last before the search engine.
	if p.Invalid != nil && !x.Plan.Rehearsal && x.Plan.Policy.Mode != "" {
		p.NoSearch, p.Invalid = p.Invalid, nil
	}
	if file != nil && p.Invalid == nil {
		x.announceSettings(file, &x.Settings)
	}
	if p.Invalid == nil {
		p.Invalid = x.ServerSide(x.warn)
	}
	if p.Invalid == nil {
		m := plan.Plan{Policy: x.Plan.Policy.Canonical(), Model: plan.ModelPlan{Name: x.Plan.Model.Name, ServedAs: x.Plan.Model.ServedAs}}
		err := plan.NoSecret(m, x.redactor(x.user().Secrets())) // as far as the settings show it
		p.Invalid = cmp.Or(runflags.NotPlanned(err, 0), err)
	}
	if p.Invalid == nil {
		p.NoCassette = x.checkCassette()
	}
	if p.Invalid == nil && !x.Plan.Rehearsal {
		p.Invalid = x.reach()
	}
	return nil
}

// reach finds out what could be asked at the endpoint, and why not. It returns why there would be no run at all.
func (x *exam) reach() (err error) {
	base, err := remote.ParseURL(x.BaseURL)
	if err != nil {
		return err
	}
	apiKey := x.getenv("OPENAI_API_KEY")
	p := &x.planned
	p.NoKey = x.Keyed(base, apiKey)
	if x.w.Prices, p.NoPrices = remote.Prices(x.Prices); p.NoPrices == nil {
		p.NoPrices = remote.CheckPrices(&x.Plan, x.Models(), x.w.Prices, base)
	}
	if p.NoCassette != nil {
		return nil
	}
	s := x.Settings
	s.Plan.Budgets.RunCostMicroUSD, s.Plan.NoPreflight = 0, false // which do not apply here
	if c, _ := s.Tape(); c.Mode == plan.CassetteRecord {
		s.Cassette = "" // nothing is recorded here
	}
	return x.w.Ask(&s, s.BaseURL, apiKey)
}

// checkCassette returns why a run could not record its answers, or replay them. It creates no directory.
func (x *exam) checkCassette() error {
	c, err := x.Tape()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Dir); c.Mode == plan.CassetteRecord && errors.Is(err, fs.ErrNotExist) {
		if err := doctor.HasRoom(c.Dir); err != nil {
			return usage(remote.AnotherCassette, "--cassette %s: %v", x.Cassette, err)
		}
		return nil
	}
	_, err = c.Transport() // which creates nothing where there is a directory
	return err
}

// subject returns the run that would be.
func (x *exam) subject() doctor.Planned {
	p := x.planned
	p.Rehearsal, p.SubmitIntent, p.NoCall, p.NoVision = x.Plan.Rehearsal, x.Plan.SubmitIntent, x.noCall, x.Vision == runflags.NoVision
	p.HasKey, p.HasPrice = x.getenv("OPENAI_API_KEY") != "", x.w.Prices.Lookup
	p.Model, p.Judge, p.Transcription, p.Vision = x.Plan.Model.Name, x.JudgeModel(), x.Hears(), x.Looks()
	p.ServedAs, p.Endpoint, p.Source = x.Plan.Model.ServedAs, remote.Origin(x.BaseURL), x.Source
	p.Wait, p.Preflight = x.wait, x.w.Preflight
	if c, _ := x.Tape(); c.Mode == plan.CassetteReplay {
		p.Replay = c.Dir
	}
	if p.Prices = "table " + x.w.Prices.Version(); x.Prices == "" {
		p.Prices = "built-in " + p.Prices
	}
	switch engine := x.Engine.Name; {
	case x.Search == runflags.SearchNone:
		p.Search = "left out by --search " + runflags.SearchNone
	case engine == web.SearXNG:
		p.Search = "searxng at " + x.Engine.Origin() + ", not asked"
	case engine != "":
		_, variable := remote.SearchKey(engine, x.getenv)
		p.Search = engine + ", with the key from " + variable + ", not asked"
	}
	return p
}

func (x *exam) dataset() doctor.Dataset {
	with := func(notice func(string)) runflags.Tasks {
		tasks := x.Tasks
		tasks.Notice = notice
		return tasks
	}
	return doctor.Dataset{Source: x.Source, Split: x.Split, Endpoint: x.user().Hub().Endpoint(), OnHub: runflags.IsHub(x.Source), Token: x.user().Hub().Token, Wait: x.wait,
		Open: func(notice func(string)) (loader.Source, error) { return x.user().OpenSource(with(notice)) },
		Load: func(ctx context.Context, notice func(string)) (loader.Set, error) {
			set, _, err := x.user().LoadTasks(ctx, with(notice))
			return set, err
		}}
}

// programs tries the programs that gaia can do without, as a run would.
func (x *exam) programs(ctx context.Context) []doctor.Finding {
	var f equip.Programs
	find, err := x.user().FindPrograms(ctx, &x.Settings, runflags.PythonNo)
	if err == nil {
		f, err = find(), ctx.Err()
	}
	if err != nil {
		return []doctor.Finding{doctor.Fails("sandbox", "code, servers, poppler in it", err, "start gaia by its whole path")}
	}
	w := equip.World{Programs: f}
	programs := doctor.Programs{Sandbox: f.Sandbox, NoSandbox: f.NoSandbox, Python: equip.OnPath("python3"), Text: equip.OnPath("pdftotext"),
		Pages: equip.OnPath("pdftoppm"), Environ: x.user().ForShims(), Unconfined: x.Python == runflags.PythonUnconfined}
	all := append(programs.Check(ctx), doctor.CheckServers(ctx, x.mcpServers(&w), x.ServersFrom))
	if x.Plan.Agent != nil && x.planned.Invalid == nil {
		const name, use = "agent", "solves the tasks"
		s := x.Settings
		s.Dry = true
		finding := doctor.Finding{Name: name, Use: use, State: doctor.OK}
		if err := x.user().AddAgent(ctx, &w, &s); err != nil {
			finding = doctor.Fails(name, use, err, "")
		} else {
			finding.Detail = runview.Agent(s.Plan.Agent)
		}
		all = append(all, finding)
	}
	return all
}

// mcpServers returns the MCP servers of the settings. In a rehearsal none is asked over a network.
func (x *exam) mcpServers(w *equip.World) (all []doctor.Server) {
	for _, e := range x.Servers {
		server, _, err := servers.Env{Getenv: x.getenv, Runs: x.Runs}.Settle(e)
		program := e.URL == ""
		s := doctor.Server{Name: e.Name, Skip: x.Plan.Rehearsal && !program, Outside: program && (e.Unconfined() || w.NoSandbox != nil)}
		if program && !s.Outside {
			server.Sandbox = w.Sandbox
			s.Network = e.Network == mcp.NetworkHost
		}
		if err == nil && x.Plan.SubmitIntent && s.Outside {
			err = x.user().Unconfined(&x.Settings, e)
		}
		if err == nil && x.Plan.SubmitIntent && s.Network {
			err = x.user().Networked(&x.Settings, e)
		}
		s.Refused = err
		s.Tools = func(ctx context.Context) (int, error) {
			offered, err := server.Tools(ctx)
			if err != nil {
				err = equip.CannotUse(server, view.Quote(x.ServersFrom), err)
			}
			return len(offered), err
		}
		all = append(all, s)
	}
	return all
}

// places checks this machine: where runs are written, which keys are trusted, what is stored, and which
// program this is.
func (x *exam) places(p doctor.Planned) []doctor.Finding {
	h, f, err := build.Open()
	if err == nil {
		_ = f.Close() // its digest is only for the plan, and takes time
	}
	dir, noDir := x.user().JudgeCacheDir("set one of them, or give --no-judge-cache")
	cache := doctor.Cache{Off: x.NoJudgeCache, Dir: dir, NoDir: noDir, Bad: func(r *judgecache.Reader, good int, bad []judgecache.Bad) error {
		found := grading.CacheError{Dir: dir, Sweep: judgecache.Sweep{Bad: bad}}
		err := fmt.Errorf("%d of %s do not verify: %s", len(bad), view.Count(good+len(bad), "entry"), strings.Join(found.Reasons(), "; "))
		if r.Shut() != "" {
			err = fmt.Errorf("the judge cache %q is %s", dir, r.Shut())
		}
		return fail(exit.Failure, err, found.Hints()...)
	}}
	return []doctor.Finding{
		doctor.Room("room for runs", "run directories", x.Runs, "choose another place with --out", doctor.FreeBytes),
		doctor.Temp(os.TempDir(), doctor.FreeBytes),
		doctor.Signing(x.user().Keyring(), x.Key), doctor.Trusted(x.user().Keyring(), x.Key), p.CheckCache(cache, x.user().Keyring(), x.Key), doctor.Build(h, err),
	}
}
