package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
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

// cacheQuery holds the flags of verify.
type cacheQuery struct {
	trusted  trustFlags
	settings string // file
	asJSON   bool
}

func (q *cacheQuery) add(cmd *cobra.Command) {
	q.trusted.register(cmd)
	cmd.Flags().StringVar(&q.settings, "settings", "", "settings file that names your signing key (default: gaia.yaml, if it exists)")
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// cacheVerification is what verify prints with --json.
type cacheVerification struct {
	Bad       []badEntry `json:"bad"`
	Checked   int        `json:"checked"` // with the bad ones and those of the old form
	Dir       string     `json:"dir"`
	Legacy    int        `json:"legacy"`
	Leftovers int        `json:"leftovers"`
	Present   bool       `json:"present"`
}

// badEntry is one that does not verify; its name is "." for the directory.
type badEntry struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (a *app) cacheVerifyCommand() *cobra.Command {
	q := &cacheQuery{}
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.verifyCache(q)
		},
	}
	cli.RejectEmpty(cmd, "settings")
	q.add(cmd)
	return cmd
}

func (a *app) verifyCache(q *cacheQuery) error {
	file, err := settings.Open(q.settings)
	if err != nil {
		return err
	}
	flags := q.trusted
	if !a.decides("key") { // the environment does not name the signing key
		flags.own = file.Value("key")
	}
	dir, err := a.user().JudgeCacheDir("set one of them")
	if err != nil {
		return err
	}
	trust, err := a.trustedKeys(flags)
	if err != nil {
		return err
	}
	cache, err := judgecache.Look(dir, trust.Valid())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v := cacheVerification{Bad: []badEntry{}, Dir: dir, Present: cache != nil}
	found := grading.CacheError{Dir: dir}
	if v.Present {
		cache.Each(func(e judgecache.Entry) {
			switch {
			case e.Leftover:
				v.Leftovers++
				return
			case e.Legacy:
				v.Legacy++
			case e.Reason != "":
				v.Bad = append(v.Bad, badEntry{e.Name, e.Reason})
				found.Sweep.Bad = append(found.Sweep.Bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
			}
			v.Checked++
		})
	}
	switch {
	case q.asJSON:
		err = view.JSON(a.stdout, v)
	case !v.Present:
		_, err = fmt.Fprintf(a.stdout, "there is no judge cache yet: %s\n", view.Line(view.Quote(dir)))
	case cache.Shut() == "":
		_, err = fmt.Fprintf(a.stdout, "%s checked: %d good, %d bad, %d of the old form, which no run uses\n",
			view.Count(v.Checked, "entry"), v.Checked-len(v.Bad)-v.Legacy, len(v.Bad), v.Legacy)
	}
	if err != nil || len(v.Bad) == 0 {
		return err
	}
	f := &failure{Code: exit.Evidence, Reasons: found.Reasons(), Hints: found.Hints()}
	f.Err = fmt.Errorf("%d of %s in the judge cache do not verify", len(v.Bad), view.Count(v.Checked, "entry"))
	if cache.Shut() != "" {
		f.Err, f.Reasons = fmt.Errorf("the judge cache %q is %s", dir, cache.Shut()), nil
	}
	return f
}

// badCache is the failure of a run that a judge cache keeps from beginning or
// going on.
func (a *app) badCache(err *grading.CacheError, code int, then string) error {
	return &failure{Code: code, Err: err, Reasons: err.Reasons(), Hints: append(err.Hints(), then)}
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
  gaia judge check --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
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
			return withoutCache(err)
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

// withoutCache adds the way around to an error that is of the judge cache, or of
// the key that signs what is in it.
func withoutCache(err error) error {
	f := *classify(err)
	if !slices.ContainsFunc(f.Hints, func(h string) bool { return strings.Contains(h, "--no-judge-cache") }) {
		f.Hints = append(slices.Clone(f.Hints), "fix that, or give --no-judge-cache")
	}
	return &f
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
		Example: `  OPENAI_API_KEY=… gaia judge run runs/01J… --judge-model gpt-4o-mini --max-cost 2
  gaia judge run runs/01J… --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
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
	plan := j.Plan()
	path := filepath.Join(dir, filepath.FromSlash(audit.RejudgmentFile(plan)))
	switch _, err := os.Lstat(path); {
	case audit.SameJudge(plan, j.Run.Manifest):
		return usage("give another model or endpoint: the run's first judgment stays the run's", "%q at %s is the run's own judge", view.Line(plan.Model), view.Line(plan.Origin))
	case err == nil:
		return fail(exit.Failure, fmt.Errorf("this judge has judged the run: %q", path), "a judge judges a run once: give another model or endpoint", "gaia verify "+view.Quote(dir))
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
	r, err := j.Judgment(ctx)
	if cache := (*grading.CacheError)(nil); errors.As(err, &cache) {
		return a.badCache(cache, exit.Evidence, "nothing was written; --no-judge-cache judges without the cache")
	}
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted; nothing was written"), "repeat the command: what the judge has said is in the judge cache")
	}
	if errors.Is(err, grading.ErrBudget) {
		return fail(exit.Incomplete, fmt.Errorf("--max-cost %s: %w; nothing was written", view.Dollars(&j.MaxCost), err), "repeat the command with a higher --max-cost: what the judge has said is in the judge cache")
	}
	if asked := (*llm.Error)(nil); errors.As(err, &asked) {
		return fail(exit.Failure, err, append(grading.Remedies(asked), "nothing was written; what the judge has said is in the judge cache")...)
	}
	if err != nil {
		return err
	}
	envelope, err := r.Seal(key)
	if err != nil {
		return err
	}
	if err := grading.WriteAttestation(path, envelope); err != nil {
		return err
	}
	if _, err := audit.ReadRejudgments(os.DirFS(dir), j.Run); err != nil {
		return fmt.Errorf("reading what was written: %w", err)
	}
	return a.printRejudged(dir, path, r, envelope, j.Run, audit.Judgments(j.Run.Manifest, before+1), c.AsJSON)
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
		return nil, withoutCache(err)
	}
	if swept := cache.Sweep(); len(swept.Bad) > 0 {
		return nil, a.badCache(&grading.CacheError{Dir: cache.Dir(), Sweep: swept}, exit.Evidence, "nothing was asked of the judge; --no-judge-cache judges without the cache")
	}
	return cache, nil
}

// rejudged is what judge run prints with --json.
type rejudged struct {
	File      string              `json:"file"`
	Judge     plan.JudgePlan      `json:"judge"`
	Judgments int                 `json:"judgments"` // of the run, this one among them
	KeyID     string              `json:"key_id"`
	Rehearsal bool                `json:"rehearsal,omitzero"`
	RunID     string              `json:"run_id"`
	Score     *stats.Rate         `json:"score"`  // by this judge; null: none of its verdicts counts
	SHA256    string              `json:"sha256"` // of the file
	Totals    rundir.JudgeSummary `json:"totals"`
}

func (a *app) printRejudged(dir, path string, r audit.Rejudgment, envelope []byte, found *rundir.Run, judgments int, asJSON bool) error {
	out := rejudged{File: path, Judge: r.Judge, Judgments: judgments, KeyID: found.Key.ID(), Rehearsal: r.Rehearsal, RunID: r.RunID,
		Score: r.Score(found), SHA256: canonical.Digest(envelope), Totals: r.Totals}
	if asJSON {
		return view.JSON(a.stdout, out)
	}
	rows := view.List{{"run", out.RunID}}
	if out.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows = append(rows, runview.JudgeRows(&out.Totals)...)
	if s := out.Score; s != nil {
		rows.Addf("judged", "%d of %d, %s, by this judge", s.Correct, s.Planned, view.Percent(s.AccuracyPPM))
	}
	return view.Rows(a.stdout, append(rows, [2]string{"judgments", fmt.Sprintf("%d of this run; the run's own files are as they were", out.Judgments)},
		[2]string{"written to", path}, [2]string{"signed by", out.KeyID}, [2]string{"next", "gaia verify " + view.Quote(dir)}))
}
