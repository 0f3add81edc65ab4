package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools/mcp"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doctorCall is what one call of doctor is told: what a run with the same flags
// would be, and how to look at it.
type doctorCall struct {
	runSettings
	ofRun  *cobra.Command // has run's flags
	noCall bool
	wait   time.Duration // for whatever answers over a network
}

func (a *app) doctorCommand() *cobra.Command {
	c := &doctorCall{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check prerequisites before a run",
		Long: `Doctor takes the flags of "gaia run", the environment and gaia.yaml as run does,
checks what such a run would use, and prints what to change: keys, models, prices,
the dataset, the sandbox and other programs, MCP servers, room on disk, signing and
trusted keys, the judge cache, and this program.

It asks the models what a run asks before its first task, at most 6 short requests,
and prints the cost. --no-call sends none. Where "gaia run" would rehearse, it uses
no network. Doctor creates and changes nothing, neither a key nor a directory.

"missing" is optional, and "unknown" was not checked: exit code 0. "failed" would be
rejected, make the run fail or spend without bound: exit code 3.`,
		Example: `  gaia doctor
  OPENAI_API_KEY=… HF_TOKEN=… gaia doctor --submit-intent --model gpt-4o --judge-model gpt-4o-mini --max-cost 50
  gaia doctor --base-url http://localhost:11434/v1 --model llama3.1 --wait 5m
  gaia doctor --no-call --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, slices.DeleteFunc(unemptied(), func(name string) bool { return name == "like" })...); err != nil {
				return err
			}
			file, err := openSettings(c.file)
			if err != nil {
				return err
			}
			return point(file, a.doctor(cmd, c, file))
		},
	}
	c.addRunFlags(c.ofRun)
	c.ofRun.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"help", "like", "dry-run", "json", "no-preflight"}, f.Name) {
			cmd.Flags().AddFlag(f)
		}
	})
	cmd.Flags().BoolVar(&c.noCall, "no-call", false, "send no request to a model")
	cmd.Flags().DurationVar(&c.wait, "wait", 30*time.Second, "how long to wait for a model or a hub to answer")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) doctor(cmd *cobra.Command, c *doctorCall, file *settings.File) error {
	if c.wait <= 0 {
		return usage("give a time such as 2m", "--wait is %s, which is not a time to wait", c.wait)
	}
	x := &exam{app: a, doctorCall: c}
	if err := x.settle(cmd, file); err != nil {
		return err
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop)
	found := x.examine(ctx)
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted"))
	}
	return a.printCheckup(doctor.NewReport(x.withoutSecrets(found), c.plan.Rehearsal), c.asJSON)
}

// exam is one call of doctor under way.
type exam struct {
	*app
	*doctorCall
	w         world // what a run would ask, as far as it can be told
	unsettled error // why there would be no run; nil if there would be
	noKey     error // for the endpoint
	noPrices  error // by which its cost could be bounded
	noTape    error // of answers that are recorded
	noSearch  error // with the engine that is named
}

// examine runs all checks.
func (x *exam) examine(ctx context.Context) []doctor.Finding {
	m := doctor.Models{Unsettled: x.unsettled, NoTape: x.noTape, NoKey: x.noKey, Rehearsal: x.plan.Rehearsal, SubmitIntent: x.plan.SubmitIntent,
		NoCall: x.noCall, Model: x.plan.Model.Name, Judge: x.judge(), ServedAs: x.plan.Model.ServedAs, Endpoint: originOf(x.baseURL),
		Wait: x.wait, Preflight: x.w.Preflight}
	if mode, dir, _ := x.tape(); mode == plan.CassetteReplay {
		m.Replay = dir
	}
	senses := func(ctx context.Context) []doctor.Finding { return x.ofSenses(ctx, m) }
	return doctor.Run(ctx, x.ofSettings, doctor.One(m.CheckModel), doctor.One(m.CheckJudge), senses, doctor.One(x.datasetFinding), x.ofPrograms, x.ofPlaces)
}

// redactor knows the secrets of the user's that a run would know, and those that
// were found.
func (x *exam) redactor(found []string) trajectory.Redactor {
	secrets := []string{x.getenv("OPENAI_API_KEY"), x.getenv("GAIA_SIGNING_KEY"), x.getenv("HF_TOKEN"), x.getenv("HUGGING_FACE_HUB_TOKEN")}
	if token, _, err := x.hubToken(); err == nil {
		secrets = append(secrets, token)
	}
	for _, k := range searchKeys() {
		for _, name := range k.variables {
			secrets = append(secrets, strings.TrimSpace(x.getenv(name)))
		}
	}
	return trajectory.NewRedactor(found, secrets...)
}

// withoutSecrets takes out of what others said whatever is a secret of the user's.
func (x *exam) withoutSecrets(found []doctor.Finding) []doctor.Finding {
	r := x.redactor(nil) // a variable with KEY in its name may also hold the path of a file
	for i, f := range found {
		found[i].Detail, _ = r.Redact(f.Detail)
		found[i].Remedy, _ = r.Redact(f.Remedy)
	}
	return found
}

func (a *app) printCheckup(r doctor.Report, asJSON bool) error {
	err := error(nil)
	if asJSON {
		err = view.JSON(a.stdout, r)
	} else {
		t := view.NewTable("what", "state", "found", "used for")
		t.Wrap(3, 60)
		t.Wrap(4, 30)
		for _, f := range r.Findings {
			t.Row(f.Name, f.State, f.Detail, f.Use)
		}
		out := t.String() + "\n"
		for _, f := range r.Findings {
			if f.Remedy != "" {
				out += fmt.Sprintf("%s: %s\n", f.Name, view.Line(f.Remedy))
			}
		}
		_, err = io.WriteString(a.stdout, out)
	}
	if failed := r.Failures(); err == nil && len(failed) > 0 {
		err = fail(exit.Findings, fmt.Errorf("checks failed: %s", strings.Join(failed, ", ")))
	}
	return err
}

// settle settles what a run would be, as run does. Flags and a file that say
// something wrong are an error; that they do not come to a run is a finding.
func (x *exam) settle(cmd *cobra.Command, file *settings.File) error {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := x.applySettings(&x.runSettings, file, x.ofRun.Flags(), func(name string) bool { return given[name] }); err != nil {
		return err
	}
	if err := x.checkFlags(x.ofRun.Flags().Changed); err != nil {
		return err
	}
	x.tries = 1
	x.unsettled = x.complete(&x.runSettings)
	// The policy is settled last before the search engine.
	if x.unsettled != nil && !x.plan.Rehearsal && x.plan.Policy.Mode != "" {
		x.noSearch, x.unsettled = x.unsettled, nil
	}
	if file != nil && x.unsettled == nil {
		x.announceSettings(file, &x.runSettings)
	}
	if x.unsettled == nil {
		x.unsettled = x.serverSide(x.warn)
	}
	if x.unsettled == nil {
		x.unsettled = x.secretInPlan()
	}
	if x.unsettled == nil {
		x.noTape = x.taped()
	}
	if x.unsettled == nil && !x.plan.Rehearsal {
		x.unsettled = x.reach()
	}
	return nil
}

// secretInPlan is why no plan would be made of what the user says in it, as far as
// that is in sight.
func (x *exam) secretInPlan() error {
	m := plan.Plan{Policy: x.plan.Policy.Canonical(), Model: plan.ModelPlan{Name: x.plan.Model.Name, ServedAs: x.plan.Model.ServedAs}}
	err := plan.NoSecret(m, x.redactor(x.secrets()))
	return cmp.Or(notPlanned(err, 0), err)
}

// reach finds out what could be asked at the endpoint, and why not. The error is
// that there would be no run at all.
func (x *exam) reach() (err error) {
	base, err := parseBaseURL(x.baseURL)
	if err != nil {
		return err
	}
	apiKey := x.getenv("OPENAI_API_KEY")
	x.noKey = x.keyed(base, apiKey)
	if x.w.Prices, x.noPrices = x.priceTable(); x.noPrices == nil {
		x.noPrices = cmp.Or(x.w.bounded(&x.runSettings, base), x.w.priced(&x.runSettings))
	}
	if x.noTape != nil {
		return nil
	}
	s := x.runSettings
	s.plan.Budgets.RunCostMicroUSD, s.plan.NoPreflight = 0, false // of which nothing is kept to here
	if mode, _, _ := s.tape(); mode == plan.CassetteRecord {
		s.cassette = "" // nothing is recorded here
	}
	return x.w.ask(&s, s.baseURL, apiKey)
}

// taped is why a run could not record its answers, or have them replayed. No
// directory is made for it.
func (x *exam) taped() error {
	mode, dir, err := x.tape()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); mode == plan.CassetteRecord && errors.Is(err, fs.ErrNotExist) {
		if err := doctor.HasRoom(dir); err != nil {
			return usage(anotherTape, "--cassette %s: %v", x.cassette, err)
		}
		return nil
	}
	_, err = x.transport() // which makes nothing where there is a directory
	return err
}

// ofSettings says what a run would be, whether there is a key for it, and what
// bounds its cost.
func (x *exam) ofSettings(context.Context) []doctor.Finding {
	const settings, use = "settings", "what a run would be"
	const key, keyUse = "model key", "asks the endpoint"
	if x.unsettled != nil {
		const later = "not looked at before the settings come to a run"
		return []doctor.Finding{doctor.Fails(settings, use, x.unsettled, "'gaia run --help' says what a flag takes"), doctor.Unseen(key, keyUse, later), doctor.Unseen("prices", pricesUse, later)}
	}
	f := doctor.Good(settings, use, x.plan.Model.Name+" at "+originOf(x.baseURL)+", tasks of "+x.source)
	if x.plan.Rehearsal {
		f.Detail = "rehearsal: built-in tasks and models, nothing to reach"
	}
	if x.noTape != nil {
		f = doctor.Fails(settings, use, x.noTape, anotherTape)
	}
	if x.plan.Rehearsal {
		return []doctor.Finding{f, doctor.Good(key, keyUse, "rehearsal: none is needed"), doctor.Good("prices", pricesUse, "rehearsal: nothing costs anything")}
	}
	return []doctor.Finding{f, x.keyFinding(key, keyUse), x.pricesFinding()}
}

func (x *exam) keyFinding(name, use string) doctor.Finding {
	mode, _, _ := x.tape()
	switch {
	case x.noKey != nil:
		return doctor.Fails(name, use, x.noKey, "set OPENAI_API_KEY")
	case mode == plan.CassetteReplay:
		return doctor.Good(name, use, "none is needed: answers are replayed")
	case x.getenv("OPENAI_API_KEY") == "":
		return doctor.Good(name, use, "OPENAI_API_KEY is not set; an endpoint on this machine may want none")
	}
	return doctor.Good(name, use, "from OPENAI_API_KEY")
}

const pricesUse = "count and bound the cost"

// pricesFinding says of which models the price is known.
func (x *exam) pricesFinding() doctor.Finding {
	const name = "prices"
	if x.noPrices != nil {
		return doctor.Fails(name, pricesUse, x.noPrices, anotherTable)
	}
	table := "table " + x.w.Prices.Version()
	if x.prices == "" {
		table = "built-in " + table
	}
	var known, not []string
	for _, model := range x.models() {
		switch {
		case model == "" || slices.Contains(known, model) || slices.Contains(not, model):
		case x.w.Prices.Lookup(model):
			known = append(known, model)
		default:
			not = append(not, model)
		}
	}
	if len(not) > 0 {
		return doctor.Lacks(name, pricesUse, fmt.Sprintf("%s: no price of %s, whose cost is unknown unless the endpoint says it", table, strings.Join(not, ", ")),
			"give a table with --prices FILE if it costs something")
	}
	return doctor.Good(name, pricesUse, table+": "+strings.Join(known, ", "))
}

// ofSenses says which tools there would be that need another model or a service.
// The models are asked as a run does before its tasks; the search engine is not.
func (x *exam) ofSenses(ctx context.Context, m doctor.Models) []doctor.Finding {
	const hear, look, search = "transcription", "vision", "search"
	const hearUse, lookUse, searchUse = "the tool transcribe_audio", "the tool describe_image", "the tool web_search"
	if x.unsettled != nil {
		const later = "not looked at before the settings come to a run"
		return []doctor.Finding{doctor.Unseen(hear, hearUse, later), doctor.Unseen(look, lookUse, later), doctor.Unseen(search, searchUse, later)}
	}
	found := []doctor.Finding{
		doctor.Lacks(hear, hearUse, "no model: the tool is not offered", "name one with --transcription-model"),
		doctor.Lacks(look, lookUse, "no model: the tool is not offered", "name one with --vision-model"),
		doctor.Lacks(search, searchUse, "no engine: the tool is not offered", "set TAVILY_API_KEY, BRAVE_API_KEY, SERPER_API_KEY or SEARXNG_URL; --search chooses"),
	}
	given := func(i int, detail string) { found[i].State, found[i].Detail, found[i].Remedy = doctor.OK, detail, "" }
	switch {
	case x.plan.Rehearsal:
		given(0, "rehearsal: built-in")
	case x.hears() != "":
		found[0] = m.CheckSense(ctx, trajectory.PreflightTranscription, hearUse, x.hears(), "--transcription-model")
	}
	switch {
	case x.vision == noVision:
		given(1, "left out by --vision-model "+noVision)
	case x.plan.Rehearsal:
		given(1, "rehearsal: built-in")
	case x.looks() != "":
		found[1] = m.CheckSense(ctx, trajectory.PreflightVision, lookUse, x.looks(), "--vision-model")
	}
	switch {
	case x.noSearch != nil:
		found[2] = doctor.Fails(search, searchUse, x.noSearch, "choose another engine with --search, or --search "+searchNone)
	case x.plan.Rehearsal:
		given(2, "rehearsal: a built-in web")
	case x.search == searchNone:
		given(2, "left out by --search "+searchNone)
	case x.engine.Name == web.SearXNG:
		given(2, "searxng at "+x.engine.Origin()+", not asked")
	case x.engine.Name != "":
		given(2, x.engine.Name+", with the key from "+x.keyVariable(x.engine.Name)+", not asked")
	}
	return found
}

// keyVariable is the variable that the key of a search engine is from.
func (a *app) keyVariable(engine string) string {
	for _, k := range searchKeys() {
		for _, name := range k.variables {
			if k.engine == engine && strings.TrimSpace(a.getenv(name)) != "" {
				return name
			}
		}
	}
	return ""
}

// datasetFinding says whether the tasks of a run can be had. Of a hub it asks for
// the head of the metadata alone.
func (x *exam) datasetFinding(ctx context.Context) doctor.Finding {
	const name, use = "dataset", "the tasks"
	if x.unsettled != nil {
		return doctor.Unseen(name, use, "not looked at before the settings come to a run")
	}
	limited, cancel := context.WithTimeout(ctx, x.wait)
	defer cancel()
	tasks := x.taskFlags
	var told []string
	tasks.notice = func(s string) { told = append(told, s) }
	look := x.inPlace
	if isHub(tasks.source) {
		look = x.onHub
	}
	detail, err := look(limited, tasks)
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f := doctor.Finding{Name: name, Use: use, State: doctor.Failed, Detail: fmt.Sprintf("no answer from %s within %s", x.hubEndpoint(), x.wait)}
		if len(told) > 0 { // it answers, or refuses to: why what was tried again failed last
			last, _, _ := strings.Cut(told[len(told)-1], "; trying again")
			f.Detail = fmt.Sprintf("not had within %s: %s", x.wait, last)
		}
		f.Remedy = "check the network, and HF_ENDPOINT if it is set, or try again later; --wait 2m waits longer"
		return f
	case err != nil:
		return doctor.Fails(name, use, err, "name where the tasks are with --source: hub, hub:OWNER/NAME, dir:PATH or fixtures")
	case len(told) > 0: // all the same it can be had
		return doctor.Lacks(name, use, detail+"; "+strings.Join(told, "; "), "check the network, and HF_ENDPOINT if it is set")
	}
	return doctor.Good(name, use, detail)
}

// inPlace reads what lies on this machine or is built in, as a run would.
func (x *exam) inPlace(ctx context.Context, tasks taskFlags) (string, error) {
	set, _, err := x.loadTasks(ctx, tasks)
	if err != nil {
		return "", err
	}
	if err := set.HashAttachments(ctx); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, split %s: %d of %s", tasks.source, set.Split, len(set.Tasks), view.Count(len(set.IDs), "task"))
	for _, o := range set.Others {
		detail += "; split " + string(o.Split) + ": " + view.Count(len(o.IDs), "task")
	}
	if x.plan.Rehearsal {
		detail = "rehearsal: built in, " + detail
	}
	return detail, nil
}

// onHub asks a hub whether it would give the split to whoever the token is of.
func (x *exam) onHub(ctx context.Context, tasks taskFlags) (string, error) {
	split, err := loader.ParseSplit(tasks.split)
	if err != nil {
		return "", usage("give --split validation or --split test", "%s", err)
	}
	source, err := x.openSource(tasks)
	if err != nil {
		return "", err
	}
	origin, err := loader.Reach(ctx, source, split)
	if err != nil {
		return "", err
	}
	token, from, err := x.hubToken()
	if err != nil {
		return "", err
	}
	by := "without a token"
	if token != "" {
		by = "with the token from " + from
	}
	return fmt.Sprintf("%s, split %s can be had %s", origin, split, by), nil
}

// ofPrograms tries the programs that gaia can do without, as a run would.
func (x *exam) ofPrograms(ctx context.Context) []doctor.Finding {
	const sandbox = "sandbox"
	const use = "code, servers, poppler in it"
	var w world
	if err := x.confine(ctx, &x.runSettings, &w); err != nil {
		return []doctor.Finding{doctor.Fails(sandbox, use, err, "start gaia by its whole path")}
	}
	python := x.pythonFinding
	if x.python == pythonUnconfined {
		python = x.unconfinedFinding
	}
	return []doctor.Finding{
		doctor.Tried(sandbox, use, "bubblewrap shuts programs in", w.noSandbox),
		limitsFinding(&w),
		python(ctx, &w),
		doctor.Poppler(ctx, onPath("pdftotext"), "pdftotext", "reads the text of PDF files", x.forShims()),
		doctor.Poppler(ctx, onPath("pdftoppm"), "pdftoppm", "makes pictures of PDF pages", x.forShims()),
		x.serversFinding(ctx, &w),
	}
}

// limitsFinding reports which limits hold for programs in the sandbox.
func limitsFinding(w *world) doctor.Finding {
	const name, use = "limits", "bound what runs in it"
	if w.noSandbox != nil {
		return doctor.Lacks(name, use, "there is no sandbox", doctor.Remedy(w.noSandbox))
	}
	held, err := w.sandbox.Limits()
	return doctor.Tried(name, use, held, err)
}

// serversFinding starts the MCP servers of the settings and asks for their tools, as
// the plan of a run does. In a rehearsal none is asked over a network.
func (x *exam) serversFinding(ctx context.Context, w *world) doctor.Finding {
	const name, use = "MCP servers", "their tools"
	if len(x.servers) == 0 {
		return doctor.Good(name, use, "the settings name none")
	}
	fix := "correct it, or leave it out of " + view.Quote(x.serversFrom)
	var found, open, remedies []string
	for _, e := range x.servers {
		server, _, err := x.server(e, x.runs)
		program := e.URL == ""
		outside := program && (e.Unconfined() || w.noSandbox != nil)
		if program && !outside {
			server.Sandbox = w.sandbox
		}
		network := program && !outside && e.Network == mcp.NetworkHost
		if err == nil && x.plan.SubmitIntent && outside {
			err = x.unconfined(&x.runSettings, e)
		}
		if err == nil && x.plan.SubmitIntent && network {
			err = x.networked(&x.runSettings, e)
		}
		if err != nil {
			return doctor.Fails(name, use, err, fix)
		}
		if x.plan.Rehearsal && !program {
			found = append(found, e.Name+" (not asked)")
			continue
		}
		offered, err := server.Tools(ctx)
		if err != nil {
			return doctor.Fails(name, use, cannotUse(server, view.Quote(x.serversFrom), err), fix)
		}
		found = append(found, fmt.Sprintf("%s (%s)", e.Name, view.Count(len(offered), "tool")))
		switch {
		case outside:
			open = append(open, e.Name+" runs outside of the sandbox")
			remedies = append(remedies, "see sandbox; leave out 'sandbox: false'")
		case network:
			open = append(open, e.Name+" has the network")
			remedies = append(remedies, "leave out 'network: host'")
		}
	}
	detail := strings.Join(found, ", ")
	if len(open) > 0 {
		slices.Sort(remedies)
		return doctor.Lacks(name, use, detail+"; "+strings.Join(open, ", ")+", so the run will not be submittable", strings.Join(slices.Compact(remedies), "; ")+" in "+view.Quote(x.serversFrom))
	}
	return doctor.Good(name, use, detail)
}

func (a *app) pythonFinding(ctx context.Context, w *world) doctor.Finding {
	const use = "the model's code runs in it"
	interpreter, err := sandboxtools.FindInterpreter(ctx, onPath("python3"), a.forShims())
	if err == nil && w.noSandbox == nil {
		err = sandboxtools.CheckPython(ctx, w.sandbox, interpreter)
	}
	f := doctor.Tried("python", use, "Python "+interpreter.Version+" at "+interpreter.Path, err)
	if err == nil && w.noSandbox != nil {
		return doctor.Lacks(f.Name, f.Use, f.Detail+" is not offered to the model, for want of a sandbox", doctor.Remedy(w.noSandbox))
	}
	return f
}

// unconfinedFinding is that of python where --unsafe-local-python wants it in any
// case.
func (a *app) unconfinedFinding(ctx context.Context, w *world) doctor.Finding {
	const name, use = "python", "the model's code runs in it"
	if _, err := a.pythonTool(ctx, true, w); err != nil {
		return doctor.Finding{Name: name, Use: use, State: doctor.Failed, Detail: "--unsafe-local-python: " + err.Error(), Remedy: doctor.Remedy(err)}
	}
	return doctor.Lacks(name, use, "runs the model's code WITHOUT a sandbox, as you, with your files and network", "such a run is not submittable: leave out --unsafe-local-python")
}

// ofPlaces looks at this machine: where runs go, whose keys count, what is kept,
// and which program this is.
func (x *exam) ofPlaces(context.Context) []doctor.Finding {
	h, f, err := thisProgram()
	if err == nil {
		_ = f.Close() // its digest is only for the plan, and takes time
	}
	return []doctor.Finding{
		doctor.Room("room for runs", "run directories", x.runs, "choose another place with --out", doctor.FreeBytes),
		doctor.Temp(os.TempDir(), doctor.FreeBytes),
		doctor.Signing(x.keyring(), x.key), doctor.Trusted(x.keyring(), x.key), x.cacheFinding(), doctor.Build(h, err),
	}
}

// cacheFinding checks every entry of the judge cache, as a run does that uses it.
func (x *exam) cacheFinding() doctor.Finding {
	const name, use = "judge cache", "verdicts given before"
	if x.noJudgeCache {
		return doctor.Good(name, use, "not used: --no-judge-cache")
	}
	dir, err := x.judgeCacheDir("set one of them, or give --no-judge-cache")
	if err != nil {
		return x.unlessJudged(doctor.Fails(name, use, err, anotherCache))
	}
	t, _, err := doctor.QuietTrust(x.keyring(), x.key)
	if err != nil {
		return doctor.Unseen(name, use, "not looked at: see trusted keys")
	}
	reader, err := judgecache.Look(dir, t.Valid())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := doctor.Creatable(dir); err != nil {
			return x.unlessJudged(x.unlessSubmitted(doctor.Fails(name, use, fmt.Errorf("making the judge cache: %w", err), anotherCache)))
		}
		return doctor.Good(name, use, "none yet: "+view.Quote(dir))
	}
	if err != nil {
		return x.unlessJudged(doctor.Fails(name, use, err, anotherCache))
	}
	var bad []judgecache.Bad
	good := 0
	reader.Each(func(e judgecache.Entry) {
		switch {
		case e.Reason != "":
			bad = append(bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		case !e.Leftover && !e.Legacy:
			good++
		}
	})
	if len(bad) == 0 {
		return doctor.Good(name, use, entriesOf(good)+" in "+view.Quote(dir))
	}
	err = fmt.Errorf("%d of %s do not verify: %s", len(bad), entriesOf(good+len(bad)), strings.Join(badEntries(dir, bad), "; "))
	if reader.Shut() != "" {
		err = shutCache(openedCache{Reader: reader, dir: dir})
	}
	return x.unlessJudged(x.unlessSubmitted(doctor.Fails(name, use, fail(exit.Failure, err, cacheHints(dir, bad)...), anotherCache)))
}

// anotherCache is what repairs a judge cache of no use.
const anotherCache = "set XDG_CACHE_HOME to another place, or give --no-judge-cache"

// unlessSubmitted lessens what only a run with --submit-intent is refused for: else
// what is bad is not used.
func (x *exam) unlessSubmitted(f doctor.Finding) doctor.Finding {
	if !x.plan.SubmitIntent {
		f.State = doctor.Missing
	}
	return f
}

// unlessJudged lessens what a run without a judge would not meet.
func (x *exam) unlessJudged(f doctor.Finding) doctor.Finding {
	if x.judge() == "" && f.State == doctor.Failed {
		f.State = doctor.Missing
	}
	return f
}
