package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) judgeRunCommand() *cobra.Command {
	c := &judgeCheck{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Judge a finished run with another judge",
		Long: `Run asks another LLM judge about the answers of a finished run that the official
scorer calls wrong, and writes its verdicts, signed, into the run directory. The run
itself does not change: its first judgment stays the run's, and its package says how
many judgments there are.

The judge has to withstand the null battery first, as in a run; else its verdicts are
withheld. All answers are judged or nothing is written. What the judge has said is
kept in the judge cache, so that the command can be repeated after an interruption.
A judge with the same model, endpoint and prompt judges a run once.

The gold answers are those that the run has kept. The key is the one the run was
planned with. A rehearsal is judged by a built-in scripted judge, offline:
second-judge, or gullible-judge, which does not withstand the null battery.`,
		Example: `  OPENAI_API_KEY=… gaia judge run runs/01J… --judge-model gpt-4o-mini --max-cost 2
  gaia judge run runs/01J… --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
		Args: oneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "judge-model", "base-url", "prices", "key", "settings", "max-cost"); err != nil {
				return err
			}
			file, err := openSettings(c.file)
			if err != nil {
				return err
			}
			return point(file, a.judgeRun(cmd, args[0], c, file))
		},
	}
	c.addRunFlags(c.ofRun)
	for _, name := range []string{"judge-model", "base-url", "prices", "key", "settings", "no-judge-cache", "max-cost", "max-tokens"} {
		cmd.Flags().AddFlag(c.ofRun.Flags().Lookup(name))
	}
	cmd.Flags().Lookup("judge-model").Usage = "model that judges"
	cmd.Flags().Lookup("max-cost").Usage = "US dollars that the judge's requests may cost"
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) judgeRun(cmd *cobra.Command, dir string, c *judgeCheck, file *settings.File) error {
	release, err := lockRun(dir, "judge the run directory")
	if err != nil {
		return err
	}
	defer release()
	j, before, err := judgeableRun(dir)
	if err != nil {
		return err
	}
	key, err := a.planKey(c.key, j.Run)
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
		return usage("give another model or endpoint: the run's first judgment stays the run's", "%q at %s is the run's own judge", oneLine(plan.Model), oneLine(plan.Origin))
	case err == nil:
		return fail(exitFailure, fmt.Errorf("this judge has judged the run: %q", path), "a judge judges a run once: give another model or endpoint", "gaia verify "+quoteArg(dir))
	}
	if j.Cache, err = a.laterVerdicts(c, key); err != nil {
		return err
	}
	j.Redact, j.Now = trajectory.NewRedactor(a.secrets(), a.getenv("OPENAI_API_KEY")), time.Now
	j.Warn = func(err error) { a.warn(err.Error()) }
	j.Judged = func(done, of int) {
		if done == of || done%20 == 0 {
			fmt.Fprintf(a.stderr, "gaia: %d of %d answers are done\n", done, of)
		}
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop)
	r, err := j.Judgment(ctx)
	if cache := (*grading.CacheError)(nil); errors.As(err, &cache) {
		return a.badCache(cache, exitEvidence, "nothing was written; --no-judge-cache judges without the cache")
	}
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted; nothing was written"), "repeat the command: what the judge has said is in the judge cache")
	}
	if errors.Is(err, grading.ErrBudget) {
		return fail(exitIncomplete, fmt.Errorf("--max-cost %s: %w; nothing was written", dollars(&j.MaxCost), err), "repeat the command with a higher --max-cost: what the judge has said is in the judge cache")
	}
	if asked := (*llm.Error)(nil); errors.As(err, &asked) {
		return fail(exitFailure, err, append(judgeRemedies(asked), "nothing was written; what the judge has said is in the judge cache")...)
	}
	if err != nil {
		return err
	}
	envelope, err := r.Seal(key)
	if err != nil {
		return err
	}
	if err := writeAttestation(path, envelope); err != nil {
		return err
	}
	if _, err := audit.ReadRejudgments(os.DirFS(dir), j.Run); err != nil {
		return fmt.Errorf("reading what was written: %w", err)
	}
	return a.printRejudged(dir, path, r, envelope, j.Run, audit.Judgments(j.Run.Manifest, before+1), c.asJSON)
}

// judgeableRun verifies a finished run with its additions and returns what a judge is
// asked about, and how many later judgments there are.
func judgeableRun(dir string) (j grading.Rejudging, before int, err error) {
	j.Questions = map[string]string{}
	files := os.DirFS(dir)
	j.Run, err = rundir.Verify(files, rundir.Options{Event: func(e trajectory.Event) error {
		if p, begins := e.Payload.(trajectory.TaskStarted); begins {
			j.Questions[e.TaskID] = p.Question
		}
		return nil
	}})
	if err != nil {
		return j, 0, err
	}
	later, err := verify.Additions(files, j.Run)
	if err != nil {
		return j, 0, err
	}
	if !j.Run.Complete {
		return j, 0, incomplete(dir, j.Run)
	}
	if !j.Run.Scored() {
		return j, 0, fail(exitFailure, errors.New("the run has no gold answers, so there is nothing to judge by"))
	}
	if _, attempts := audit.Rejudged(j.Run); len(attempts) == 0 {
		return j, 0, fail(exitFailure, errors.New("the official scorer called no answer of the run wrong, so there is nothing to judge"))
	}
	gold, err := grading.PrivateGold(dir)
	if err != nil {
		return j, 0, err
	}
	if gold == nil {
		return j, 0, fail(exitFailure, fmt.Errorf("%s is missing, which holds the gold answers", grading.PrivateFile), "judge where the run was made")
	}
	j.Gold, err = gold.Of(j.Run.Manifest)
	return j, len(later), grading.PrivateFault(err)
}

// laterJudge fills in the judge of the flags and settings, and what it may cost. Of a
// rehearsal it is a built-in one, which is there until end is called.
func (a *app) laterJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File, j *grading.Rejudging) (end func(), err error) {
	given := c.judge()
	switch m := j.Run.Manifest; {
	case m.Rehearsal && c.baseURL != "":
		return nil, usage("leave it out", "a rehearsal is judged by a built-in judge, and --base-url is given")
	case m.Rehearsal:
		builtin := []string{fixtures.SecondJudgeModel, fixtures.GullibleJudgeModel, fixtures.JudgeModel}
		c.plan.Judge = &plan.JudgePlan{Model: cmp.Or(given, fixtures.SecondJudgeModel)}
		if !slices.Contains(builtin, c.judge()) {
			return nil, usage("give --judge-model "+fixtures.SecondJudgeModel, "a rehearsal is judged by a built-in judge, and %q is none", oneLine(c.judge()))
		}
		c.plan.Rehearsal = true
	default:
		if err := a.settleJudge(cmd, c, file); err != nil {
			return nil, err
		}
		if c.plan.Rehearsal {
			return nil, usage("give --judge-model", "no judge is given")
		}
		a.announceSettings(file, &c.runSettings)
	}
	e, prices, end, err := a.judgeToCheck(&c.runSettings, grading.RejudgedAtOnce)
	if err != nil {
		return nil, err
	}
	j.Judge, j.Prices, j.MaxTokens = *e, prices, cmp.Or(c.plan.Model.MaxTokens, boundedTokens)
	if j.MaxCost = c.plan.Budgets.RunCostMicroUSD; j.MaxCost > 0 && !prices.Lookup(e.Name) {
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
	if c.noJudgeCache {
		return nil, nil
	}
	cache, err := a.judgeCache(key, false)
	if err != nil {
		return nil, withoutCache(err)
	}
	if swept := cache.Sweep(); len(swept.Bad) > 0 {
		return nil, a.badCache(&grading.CacheError{Dir: cache.Dir(), Sweep: swept}, exitEvidence, "nothing was asked of the judge; --no-judge-cache judges without the cache")
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
		return a.printJSON(out)
	}
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
	}
	rows = append(rows, runview.JudgeRows(&out.Totals)...)
	if s := out.Score; s != nil {
		rows = append(rows, [2]string{"judged", fmt.Sprintf("%d of %d, %s, by this judge", s.Correct, s.Planned, percent(s.AccuracyPPM))})
	}
	return a.printRows(append(rows, [2]string{"judgments", fmt.Sprintf("%d of this run; the run's own files are as they were", out.Judgments)},
		[2]string{"written to", path}, [2]string{"signed by", out.KeyID}, [2]string{"next", "gaia verify " + quoteArg(dir)}))
}
