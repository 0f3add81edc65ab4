package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/spf13/cobra"
)

// judgeCheck is what one call of check is told, by its flags and, as run is, by
// the settings file.
type judgeCheck struct {
	runSettings
	ofRun *cobra.Command // has run's flags, those of check among them
}

func (a *app) judgeCheckCommand() *cobra.Command {
	c := &judgeCheck{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Put the null battery to a judge: answers that say nothing",
		Long: `Check asks a judge about answers that say nothing, tell it what to say or pretend
to be its surroundings, to invented questions. A judge that calls one of them correct
pays for nothing, and one whose reply to one is no verdict cannot be read: exit code
3. Runs do the same before the first verdict that they need, and use no verdict of
a judge that has not withstood it.

The outcome is kept, signed, in the judge cache: runs with the same judge at the same
place do not ask again. That a judge paid stands until it is removed from there. What
is kept and does not verify is reported before anything is asked: exit code 4.

Judge, endpoint, prices, key and whether there is a cache are those of gaia.yaml where
no flag says otherwise. Where "gaia run" would rehearse, the built-in scripted judge
is tried, offline.`,
		Example: `  OPENAI_API_KEY=… gaia judge check --judge-model gpt-4o-mini
  gaia judge check --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "judge-model", "base-url", "prices", "key", "settings"); err != nil {
				return err
			}
			file, err := openSettings(c.file)
			if err != nil {
				return err
			}
			return point(file, a.checkJudge(cmd, c, file))
		},
	}
	c.addRunFlags(c.ofRun)
	for _, name := range []string{"judge-model", "base-url", "prices", "key", "settings", "no-judge-cache"} {
		cmd.Flags().AddFlag(c.ofRun.Flags().Lookup(name))
	}
	cmd.Flags().Lookup("judge-model").Usage = "model to try"
	cmd.Flags().Lookup("no-judge-cache").Usage = "look up nothing of earlier null batteries, and keep nothing of this one"
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) checkJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File) error {
	if err := a.settleJudge(cmd, c, file); err != nil {
		return err
	}
	e, _, end, err := a.judgeToCheck(&c.runSettings, 1)
	if err != nil {
		return err
	}
	defer end()
	a.announceSettings(file, &c.runSettings)
	known, err := a.recallOutcome(&c.runSettings, *e)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop)
	fmt.Fprintf(a.stderr, "gaia: putting %d answers that say nothing to %s at %s\n", len(judge.Battery()), oneLine(e.Name), oneLine(e.Origin))
	t := grading.TestJudge(ctx, *e, time.Now)
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted; nothing is kept of it"))
	}
	if err := known.keep(t); err != nil {
		a.warn("the outcome is not kept: " + err.Error())
	}
	out := newCheckedJudge(*e, t, known.outcome)
	out.Rehearsal = c.plan.Rehearsal
	return a.printChecked(out, t, known.file, c.asJSON)
}

// settleJudge fills in what the flags leave open, of the environment, the settings
// file and the defaults, as run does.
func (a *app) settleJudge(cmd *cobra.Command, c *judgeCheck, file *settings.File) error {
	given := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed
	}
	if err := a.applySettings(&c.runSettings, file, c.ofRun.Flags(), given); err != nil {
		return err
	}
	if err := c.checkFlags(c.ofRun.Flags().Changed); err != nil {
		return err
	}
	if c.plan.Rehearsal = c.judge() == "" && c.plan.Model.Name == "" && c.baseURL == "" && a.rehearses(c.taskFlags); c.plan.Rehearsal {
		return nil
	}
	if c.judge() == "" {
		return usage("give --judge-model", "no judge is given")
	}
	c.baseURL = cmp.Or(c.baseURL, a.getenv("OPENAI_BASE_URL"), defaultBaseURL)
	return nil
}

// judgeToCheck is the judge that the settings name, or the built-in one, which is
// there until end is called; atOnce bounds the requests that are under way.
func (a *app) judgeToCheck(s *runSettings, atOnce int) (e *grading.Judge, prices llm.Prices, end func(), err error) {
	if s.plan.Rehearsal {
		fmt.Fprintln(a.stderr, "gaia: rehearsal: a scripted judge; this says nothing of a real one")
		return a.scriptedJudge(cmp.Or(s.judge(), fixtures.JudgeModel), atOnce)
	}
	base, err := parseBaseURL(s.baseURL)
	if err != nil {
		return nil, prices, nil, err
	}
	apiKey := a.getenv("OPENAI_API_KEY")
	if apiKey == "" && !isLocal(base.Hostname()) {
		return nil, prices, nil, noKeyFor(base)
	}
	if prices, err = s.priceTable(); err != nil {
		return nil, prices, nil, err
	}
	return judgeAt(a.judgeConfig(s.baseURL, apiKey, prices, atOnce), s.judge(), s.baseURL), prices, func() {}, nil
}

func (a *app) scriptedJudge(model string, atOnce int) (e *grading.Judge, prices llm.Prices, end func(), err error) {
	if prices, err = llm.ParsePrices(fixtures.Prices()); err != nil {
		return nil, prices, nil, fmt.Errorf("reading the built-in prices: %w", err)
	}
	server, err := fixtures.Serve()
	if err != nil {
		return nil, prices, nil, fmt.Errorf("serving the built-in judge: %w", err)
	}
	e = judgeAt(a.judgeConfig(server.ModelURL, "", prices, atOnce), model, server.ModelURL)
	e.Origin, e.URL = rehearsalHost+model, ""
	return e, prices, func() { _ = server.Close() }, nil
}

func (a *app) judgeConfig(baseURL, apiKey string, prices llm.Prices, atOnce int) llm.Config {
	limiter := llm.NewLimiter(llm.LimiterConfig{Fixed: atOnce, Now: time.Now})
	limiter.OnUnreachable(func(err error) { a.warn(err.Error()) })
	return llm.Config{BaseURL: baseURL, APIKey: apiKey, Prices: prices, MaxTries: callTries, Now: time.Now, Jitter: mathrand.Float64, Limiter: limiter}
}

// What is remembered of the null battery.
const (
	outcomeWithstood = "withstood"
	outcomePaid      = "paid"
)

// knownOutcome is what is remembered of a judge, and where an outcome is kept.
type knownOutcome struct {
	cache   *judgecache.Cache // nil: nothing is kept
	name    judgecache.BatteryContext
	file    string // of the cache, where the outcome is kept
	outcome string // outcomeWithstood, outcomePaid, or "" for none
}

// recallOutcome looks up how the judge stood the null battery before. What would
// keep an outcome from being kept is an error here, before anything is asked.
func (a *app) recallOutcome(s *runSettings, e grading.Judge) (knownOutcome, error) {
	if s.noJudgeCache {
		return knownOutcome{}, nil
	}
	key, err := a.signingKey(s.key)
	if err != nil {
		return knownOutcome{}, withoutCache(err)
	}
	cache, err := a.judgeCache(key, false)
	if err != nil {
		return knownOutcome{}, withoutCache(err)
	}
	known := knownOutcome{cache: cache, name: e.SelfTestKey()}
	if known.file, err = cache.BatteryFile(known.name); err != nil {
		return knownOutcome{}, withoutCache(err)
	}
	withstood, found, bad, err := cache.GetBattery(known.name)
	switch {
	case err != nil:
		return knownOutcome{}, withoutCache(fmt.Errorf("reading the judge cache: %w", err))
	case bad != nil:
		return knownOutcome{}, badOutcome(cache.Dir(), *bad)
	case found && withstood:
		known.outcome = outcomeWithstood
	case found:
		known.outcome = outcomePaid
	}
	return known, nil
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

// badOutcome is the failure that what is remembered does not verify.
func badOutcome(dir string, bad judgecache.Bad) error {
	all := []judgecache.Bad{bad}
	f := &failure{Code: exitEvidence, Err: errors.New("what is kept of an earlier null battery of this judge does not verify"), Reasons: badEntries(dir, all)}
	if bad.Name == judgecache.Place {
		f.Err, f.Reasons = fmt.Errorf("the judge cache %q is %s", dir, bad.Reason), nil
	}
	f.Hints = append(cacheHints(dir, all), "nothing was asked of the judge; --no-judge-cache tries it without the cache")
	return f
}

// keep keeps an outcome for runs: that a judge withstood the battery, or that it
// paid an item, which stands. Anything else is tried again.
func (k knownOutcome) keep(t grading.SelfTest) error {
	withstood := t.Withstood()
	if k.cache == nil || !t.Lasts() || withstood && k.outcome == outcomePaid {
		return nil
	}
	return k.cache.PutBattery(k.name, withstood)
}
