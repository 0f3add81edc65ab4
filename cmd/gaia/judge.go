package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) judgeCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "judge",
		Short: "Test an LLM judge, and judge a finished run",
		Long: `The LLM judge decides about answers that the official scorer calls wrong. Its
signed verdicts are stored, so no run asks the same question twice. They count only
if the judge refuses the empty answers of its self-test.`,
		Example: `  gaia judge check --judge-model gpt-4o-mini
  gaia judge run runs/01J… --judge-model gpt-4o-mini
  gaia judge cache verify`,
	}, a.judgeCheckCommand(), a.judgeRunCommand(), a.judgeCacheCommand())
}

func (a *app) judgeCacheCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "cache",
		Short: "Verify the stored verdicts of the judge",
		Long: `The judge cache holds one signed file per verdict of the LLM judge and per result
of its self-test, in $XDG_CACHE_HOME/gaia/judgments (else ~/.cache/gaia/judgments).
Entries count if your signing key or a key that you trust signed them.

To clear the cache, delete that folder. The next run asks the judge again.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --json
  rm -r ~/.cache/gaia/judgments    clear the cache`,
	}, a.cacheVerifyCommand())
}

func (a *app) cacheVerifyCommand() *cobra.Command {
	var trusted trustFlags
	var from string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every entry of the judge cache",
		Long: `Verify checks form, name and signature of every entry, as each run does before it
begins, and names those that do not verify. The directory must be yours, not writable
by others, and no link. Exit code 4 if anything is wrong.

Entries of the old form have no signature. They are counted and never used.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --trusted-key alice.pub --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			file, err := settings.Open(from)
			if err != nil {
				return err
			}
			if !a.decides("key") { // the environment does not name the signing key
				trusted.own = file.Value("key")
			}
			dir, err := a.user().JudgeCacheDir("set one of them")
			if err != nil {
				return err
			}
			trust, err := a.trustedKeys(trusted)
			if err != nil {
				return err
			}
			found, err := grading.CheckCache(dir, trust.Valid())
			if err != nil {
				return err
			}
			return cmp.Or(view.Result(a.stdout, asJSON, found, found.Text()), found.Err())
		},
	}
	cli.RejectEmpty(cmd, "settings")
	trusted.register(cmd)
	cmd.Flags().StringVar(&from, "settings", "", "settings file that names your signing key (default: gaia.yaml, if it exists)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// judgeCheck is what one call of check is told, by its flags and, as run is, by
// the settings file.
type judgeCheck struct {
	runflags.Settings
	ofRun *cobra.Command // has run's flags, those of check among them
}

func (a *app) judgeCheckCommand() *cobra.Command {
	c := &judgeCheck{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Run the self-test of a judge",
		Long: `Check asks a judge about answers to invented questions that have no content, tell it
what to say, or pretend to be part of its prompt. The judge passes if it calls all of
them incorrect; else exit code 3. Runs make the same self-test before the first
verdict that they need, and use no verdict of a judge that failed it.

The result is stored, signed, in the judge cache for later runs. A failed result
counts until you delete its entry. Settings are those of gaia.yaml unless a flag says
otherwise. Where "gaia run" would rehearse, check tests the built-in scripted judge,
offline.`,
		Example: `  OPENAI_API_KEY=… gaia judge check --judge-model gpt-4o-mini
  gaia judge check --judge-model llama3.1 --base-url http://localhost:11434/v1`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd, func(_ string, file *settings.File) error { return a.checkJudge(cmd, c, file) })
	cmd.Flags().Lookup("judge-model").Usage = "model to test"
	cmd.Flags().Lookup("no-judge-cache").Usage = "look up nothing of earlier self-tests, and keep nothing of this one"
	return cmd
}

// addFlags adds those flags of run that choose a judge, and others by name, and runs do with the argument and the
// settings file.
func (c *judgeCheck) addFlags(cmd *cobra.Command, do func(arg string, file *settings.File) error, others ...string) {
	c.AddRunFlags(c.ofRun)
	names := append([]string{"judge-model", "base-url", "prices", "key", "settings", "no-judge-cache"}, others...)
	for _, name := range names {
		cmd.Flags().AddFlag(c.ofRun.Flags().Lookup(name))
	}
	cmd.Flags().BoolVar(&c.AsJSON, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.NotEmpty(cmd, names...); err != nil {
			return err
		}
		file, err := settings.Open(c.File)
		if err != nil {
			return err
		}
		return file.Point(do(strings.Join(args, ""), file))
	}
}

func (a *app) checkJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File) error {
	if err := a.settleJudge(cmd, c, file); err != nil {
		return err
	}
	e, _, end, err := a.user().JudgeToCheck(&c.Settings, 1)
	if err != nil {
		return err
	}
	defer end()
	a.announceSettings(file, &c.Settings)
	var known grading.Remembered
	if !c.NoJudgeCache {
		key, err := a.user().Keyring().Signing(c.Key)
		var cache *judgecache.Cache
		if err == nil {
			cache, err = a.user().JudgeCache(key, false)
		}
		if err == nil {
			known, err = grading.Recall(cache, *e)
		}
		if err != nil {
			return grading.WithoutCache(err)
		}
	}
	ctx, release := stop.Context(cmd.Context())
	defer release()
	context.AfterFunc(ctx, release)
	fmt.Fprintf(a.stderr, "gaia: asking %s at %s about %d answers without content\n", view.Line(e.Name), view.Line(e.Origin), len(judge.Battery()))
	t := grading.TestJudge(ctx, *e, time.Now)
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted; nothing is kept of it"))
	}
	if err := known.Keep(t); err != nil {
		a.warn("the outcome is not kept: " + err.Error())
	}
	report := grading.NewReport(*e, t, known.Outcome, c.Plan.Rehearsal)
	if c.AsJSON {
		err = view.JSON(a.stdout, report)
	} else if t.Asked > 0 {
		_, err = io.WriteString(a.stdout, report.Text())
	}
	return cmp.Or(err, report.Err(t, known.File))
}

// settleJudge fills in what the flags leave open, of the environment, the settings
// file and the defaults, as run does.
func (a *app) settleJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File) error {
	given := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed
	}
	if err := a.applySettings(&c.Settings, file, c.ofRun.Flags(), given); err != nil {
		return err
	}
	if err := c.CheckFlags(c.ofRun.Flags().Changed); err != nil {
		return err
	}
	if c.Plan.Rehearsal = c.JudgeModel() == "" && c.Plan.Model.Name == "" && c.BaseURL == "" && a.user().Rehearses(c.Tasks); c.Plan.Rehearsal {
		return nil
	}
	if c.JudgeModel() == "" {
		return usage("give --judge-model", "no judge is given")
	}
	c.BaseURL = cmp.Or(c.BaseURL, a.getenv("OPENAI_BASE_URL"), runflags.DefaultBaseURL)
	return nil
}

func (a *app) judgeRunCommand() *cobra.Command {
	c := &judgeCheck{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Judge a finished run with another judge",
		Long: `Run asks another LLM judge about the answers of a finished run that the official
scorer calls wrong, and writes its verdicts, signed, into the run directory. The run
itself does not change: its first judgment stays, and its package counts judgments.

The judge must pass its self-test first. All answers are judged or nothing is written;
replies are stored in the judge cache, so you can repeat the command. A judge with the
same model, endpoint and prompt judges a run once. The key is the one that planned the
run. A rehearsal is judged by second-judge or gullible-judge (which fails), offline.`,
		Example: `  OPENAI_API_KEY=… gaia judge run runs/01J… --judge-model gpt-4o-mini
  gaia judge run latest --judge-model llama3.1 \
      --base-url http://localhost:11434/v1 --max-cost 2 --json`,
		Args: cli.OneArg("the run directory"),
	}
	c.addFlags(cmd, func(dir string, file *settings.File) error { return a.judgeRun(cmd, dir, c, file) }, "max-cost", "max-tokens")
	cmd.Flags().Lookup("judge-model").Usage = "model that judges"
	cmd.Flags().Lookup("max-cost").Usage = "maximum cost of the judge's requests in US dollars"
	return cmd
}

func (a *app) judgeRun(cmd *cobra.Command, dir string, c *judgeCheck, file *settings.File) error {
	release, err := lockRun(dir, "judge the run directory")
	if err != nil {
		return err
	}
	defer release()
	j, before, err := grading.OpenRejudging(dir)
	if err != nil {
		return err
	}
	if !j.Run.Complete {
		return incomplete(dir, j.Run)
	}
	key, err := a.planKey(c.Key, j.Run)
	if err != nil {
		return err
	}
	if _, err := decidedAt(j.Run); err != nil { // before anything is paid for
		return err
	}
	end, err := a.laterJudge(cmd, c, file, &j)
	if err != nil {
		return err
	}
	defer end()
	if err := j.CheckNew(dir); err != nil {
		return err
	}
	if j.Cache, err = a.laterVerdicts(c, key); err != nil {
		return err
	}
	j.Redact, j.Now = trajectory.NewRedactor(a.user().Secrets(), a.getenv("OPENAI_API_KEY")), time.Now
	j.Warn = func(err error) { a.warn(err.Error()) }
	j.Judged = func(done, of int) {
		if done == of || done%20 == 0 {
			fmt.Fprintf(a.stderr, "gaia: %d of %d answers are done\n", done, of)
		}
	}
	ctx, release := stop.Context(cmd.Context())
	defer release()
	context.AfterFunc(ctx, release)
	out, err := j.Write(ctx, dir, key, before+1)
	return a.printRows(out, c.AsJSON, err)
}

// laterJudge fills in the judge of the flags and settings, and what it may cost. Of a
// rehearsal it is a built-in one, which is there until end is called.
func (a *app) laterJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File, j *grading.Rejudging) (end func(), err error) {
	given := c.JudgeModel()
	switch m := j.Run.Manifest; {
	case m.Rehearsal && c.BaseURL != "":
		return nil, usage("leave it out", "a rehearsal is judged by a built-in judge, and --base-url is given")
	case m.Rehearsal:
		builtin := []string{fixtures.SecondJudgeModel, fixtures.GullibleJudgeModel, fixtures.JudgeModel}
		c.Plan.Judge = &plan.JudgePlan{Model: cmp.Or(given, fixtures.SecondJudgeModel)}
		if !slices.Contains(builtin, c.JudgeModel()) {
			return nil, usage("give --judge-model "+fixtures.SecondJudgeModel, "a rehearsal is judged by a built-in judge, and %q is none", view.Line(c.JudgeModel()))
		}
		c.Plan.Rehearsal = true
	default:
		if err := a.settleJudge(cmd, c, file); err != nil {
			return nil, err
		}
		if c.Plan.Rehearsal {
			return nil, usage("give --judge-model", "no judge is given")
		}
		a.announceSettings(file, &c.Settings)
	}
	e, prices, end, err := a.user().JudgeToCheck(&c.Settings, grading.RejudgedAtOnce)
	if err != nil {
		return nil, err
	}
	j.Judge, j.Prices, j.MaxTokens = *e, prices, cmp.Or(c.Plan.Model.MaxTokens, runflags.BoundedTokens)
	if j.MaxCost = c.Plan.Budgets.RunCostMicroUSD; j.MaxCost > 0 && !prices.Lookup(e.Name) {
		err = usage("give its price with --prices FILE, or leave out --max-cost", "the price of model %q is not known, so --max-cost cannot be kept", e.Name)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// laterVerdicts opens the judge cache, of which every entry is checked first; nil where
// none is wanted.
func (a *app) laterVerdicts(c *judgeCheck, key sign.Key) (*judgecache.Cache, error) {
	if c.NoJudgeCache {
		return nil, nil
	}
	cache, err := a.user().JudgeCache(key, false)
	if err != nil {
		return nil, grading.WithoutCache(err)
	}
	if swept := cache.Sweep(); len(swept.Bad) > 0 {
		return nil, (&grading.CacheError{Dir: cache.Dir(), Sweep: swept}).Ends(exit.Evidence, "nothing was asked of the judge; --no-judge-cache judges without the cache")
	}
	return cache, nil
}
