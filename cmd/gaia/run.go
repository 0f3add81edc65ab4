package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) runCommand() *cobra.Command {
	var s settings
	var c runCall
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Plan, solve, grade, seal and sign a run",
		Long: `Run plans the tasks of one split, signs the plan, lets the agent solve them
behind the Gate, grades the committed answers, and seals and signs the run.

With --submit-intent all answers are committed before the first is graded.
Without a key, base URL, model or source it rehearses with built-in tasks and a
built-in scripted model, offline.

Flags that are not given are read from gaia.yaml, if it is there: a line for each,
such as "model: gpt-4o". The environment comes between the two. --like repeats the
plan of another run; --dry-run plans, estimates what it would cost, and ends.

The first Ctrl-C finishes the tasks under way, the second stops at once; both
leave a run that "gaia resume" takes up.

Everything the agent does is recorded before it has an effect. If that fails, on
a full disk say, the run is marked as not submittable for good, and goes on
without evidence or stops, as --on-unsubmittable says.`,
		Example: `  gaia run --submit-intent
  gaia run --level 1 --limit 3
  OPENAI_API_KEY=… HF_TOKEN=… gaia run --submit-intent --model gpt-4o --judge-model gpt-4o-mini --max-cost 50
  OPENAI_API_KEY=… gaia run --source dir:GAIA --sample 20 --seed 7 --model gpt-4o --dry-run
  gaia run --like runs/01J…`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "key", "settings", "like", "cassette", "max-cost", "policy", "approve", "vision-model", "served-as"); err != nil {
				return err
			}
			file, err := openSettings(c.settings)
			if err != nil {
				return err
			}
			return file.point(a.settleRun(cmd, &s, &c, file))
		},
	}
	addRunFlags(cmd, &s, &c)
	return cmd
}

// addRunFlags makes the flags of run, which are what a settings file may name.
func addRunFlags(cmd *cobra.Command, s *settings, c *runCall) {
	f := cmd.Flags()
	s.taskFlags.add(cmd)
	s.addModelFlags(cmd)
	s.addBudgetFlags(cmd)
	s.addRateFlags(cmd)
	s.addPolicy(cmd)
	s.addApprove(cmd)
	s.addPythonFlag(cmd)
	f.BoolVar(&s.submitIntent, "submit-intent", false, "commit all answers before grading: needed for a submission")
	f.BoolVar(&s.noJudgeCache, "no-judge-cache", false, "ask the judge about every answer, also those it has judged before")
	f.BoolVar(&s.noPreflight, "no-preflight", false, "do not ask the models one short question each before the first task; the plan records it")
	f.BoolVar(&c.record, "record-evidence", true, "record the beginnings of prompts, replies and results, and arguments; false records their digests only, for local runs")
	f.BoolVar(&c.bodies, "evidence-full-bodies", false, "also keep prompts, replies, arguments and results whole, beside the journal")
	f.StringVar(&c.out, "out", "runs", "directory for run directories")
	f.StringVar(&c.settings, "settings", "", "file of settings (default: gaia.yaml, if it is there)")
	f.StringVar(&c.likeWhat, "like", "", "repeat the plan of a manifest.json, run directory or package; flags that are given win")
	f.BoolVar(&s.dry, "dry-run", false, "plan and estimate the cost; ask nothing of a model, make no run and no key")
	f.BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	completeDirs(cmd, "out")
}

// runCall is what one call of run is told besides the settings of the run.
type runCall struct {
	out            string
	settings       string // file
	likeWhat       string // path
	like           *plan.Plan
	record, bodies bool
	asJSON         bool
}

// settleRun settles what is to be run, of the flags, the environment, the plan
// to repeat, the settings file and the defaults, in this order, and runs it.
func (a *app) settleRun(cmd *cobra.Command, s *settings, c *runCall, file *settingsFile) (err error) {
	flags := cmd.Flags()
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if c.likeWhat != "" {
		if c.like, err = readLike(c.likeWhat); err != nil {
			return err
		}
		if !given["source"] && !c.like.Rehearsal && c.like.Dataset.Hub == "" { // the plan does not hold it
			s.source = file.value("source")
		}
		if err := a.like(s, flags, c.like); err != nil {
			return err
		}
	}
	if err := file.apply(flags, func(name string) bool {
		return given[name] || a.decides(name) || c.like != nil && slices.Contains(planFlags(), name)
	}); err != nil {
		return err
	}
	s.takeServers(file)
	if err := s.checkRun(cmd, c); err != nil {
		return err
	}
	s.runs = c.out
	if err := a.complete(s); err != nil {
		return err
	}
	if err := s.atPlanned(given["base-url"], c.like); err != nil {
		return err
	}
	if file != nil {
		a.tellSettings(file, *s)
	}
	if err := s.serverSide(a.warn); err != nil {
		return err
	}
	if s.dry {
		return a.dryRun(cmd.Context(), *s, *c)
	}
	return a.startRun(cmd.Context(), *s, *c)
}

// checkRun refuses what the flags of a run, given or of the file, show to be wrong.
func (s *settings) checkRun(cmd *cobra.Command, c *runCall) error {
	if err := s.taskFlags.check(cmd); err != nil {
		return err
	}
	if s.runCost != "" && s.maxTokens == 0 {
		s.maxTokens = boundedTokens
	}
	if err := s.evidenceOf(c.record, c.bodies); err != nil {
		return err
	}
	if cmd.Flags().Changed("max-tool-calls") && s.toolCalls == 0 {
		return usage("give a number from 1, or leave it out for the policy's", "--max-tool-calls is 0, which leaves no call")
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.checkPython()
}

// decides reports whether the environment says what a flag would.
func (a *app) decides(flag string) bool {
	switch flag {
	case "base-url":
		return a.getenv("OPENAI_BASE_URL") != ""
	case "searxng-url":
		return a.getenv("SEARXNG_URL") != ""
	case "key":
		return a.getenv("GAIA_SIGNING_KEY") != "" || a.getenv("GAIA_SIGNING_KEY_FILE") != ""
	}
	return false
}

// tellSettings says that a file had a say, which can send the key elsewhere.
func (a *app) tellSettings(file *settingsFile, s settings) {
	where := ""
	if !s.rehearsal {
		where = "; the endpoint is " + originOf(s.baseURL)
	}
	fmt.Fprintf(a.stderr, "gaia: settings from %s%s\n", oneLine(file.name), oneLine(where))
}

func (a *app) warn(message string) { fmt.Fprintf(a.stderr, "gaia: warning: %s\n", oneLine(message)) }

func (a *app) startRun(ctx context.Context, s settings, c runCall) error {
	stop := a.catchSignals(ctx)
	defer stop.release()
	news := a.tellNews(&s.taskFlags)
	w, err := a.configure(stop.ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	progress := a.newProgress(len(w.Set.Tasks), w.Attempts, s.rehearsal)
	stop.say(progress)
	stop.begun.Store(true)
	news.say(progress)
	w.Watch, w.Warn, w.Approver = progress.Watch, progress.Trouble, a.approver(s, progress)
	r, err := run.Create(c.out, w.Config)
	if cache := (*run.CacheError)(nil); errors.As(err, &cache) {
		return a.badCache(cache, exitFindings, "nothing was asked of a model; fix that and start again")
	}
	if budget := (*run.BudgetError)(nil); errors.As(err, &budget) {
		return tooLittle(budget, w.RunCost)
	}
	if secret := (*run.SecretError)(nil); errors.As(err, &secret) {
		return tellsSecret(secret)
	}
	if err != nil {
		return fail(exitFailure, err, "choose another place with --out")
	}
	defer r.Close()
	progress.Planned(r.State().Manifest)
	a.announce(r, s)
	if c.like != nil {
		if err := a.compareWith(c.like, r.State().Manifest); err != nil {
			return err
		}
	}
	return a.finish(stop, r, s, progress, c.asJSON)
}

// tooLittle is the failure of a run whose budget, in micro-USD, buys nothing.
func tooLittle(e *run.BudgetError, budget int64) error {
	return usage("give "+dollars(&e.Need)+" at least, or bound completions with --max-tokens: what a request may cost is set aside before it is sent",
		"--max-cost is %s, which is not enough for a single attempt", dollars(&budget))
}

// announce says what was planned, before anything is asked of a model: the
// digest can be published right now.
func (a *app) announce(r *run.Run, s settings) {
	if s.rehearsal {
		fmt.Fprintln(a.stderr, rehearsalNotice)
	}
	m := r.State().Manifest
	if m.Cassette == plan.CassetteReplay {
		fmt.Fprintf(a.stderr, "gaia: replay: %s\n", replayNote)
	}
	fmt.Fprintf(a.stderr, "gaia: run %s\ngaia: plan signed: %s\n", r.Dir, r.ManifestSHA256())
	if !s.rehearsal && !s.resumed { // else nothing can be done about it
		fmt.Fprintf(a.stderr, "gaia: %s\n", oneLine(offered(m)))
	}
	if !s.rehearsal && !m.SubmitIntent {
		fmt.Fprintf(a.stderr, "gaia: %s\n", notForSubmission)
	}
	if b := m.Budgets.RunCostMicroUSD; b > 0 {
		fmt.Fprintf(a.stderr, "gaia: the run may cost %s; completions are bounded to %d tokens\n", dollars(&b), s.maxTokens)
	}
	if other := m.Dataset.Mismatch(); other != "" {
		a.warn(other)
	}
}

// notForSubmission is said of a real run whose plan does not have submit_intent. Of a
// rehearsal, which no leaderboard takes, it says nothing new.

// offered says which tools the model has, and of those that it could have by what.
func offered(m plan.Plan) string {
	var names, lacking []string
	for _, t := range m.Tools {
		if m.Policy.Offers(t.Name) {
			names = append(names, t.Name)
		} else {
			lacking = append(lacking, t.Name+" (the policy denies it)")
		}
	}
	line := "tools: " + strings.Join(names, ", ")
	by := map[string]string{"describe_image": "--vision-model", pythonName: "see 'gaia doctor'", "transcribe_audio": "--transcription-model", "web_search": "--search"}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Name == name }) {
			lacking = append(lacking, name+" ("+by[name]+")")
		}
	}
	if len(lacking) > 0 {
		line += "; not offered: " + strings.Join(lacking, ", ")
	}
	return line
}

const rehearsalNotice = "gaia: rehearsal: built-in tasks and a scripted model; this is not a GAIA score"
