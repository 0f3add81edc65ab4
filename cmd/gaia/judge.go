package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func (a *app) judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Try an LLM judge, and look at what it said",
		Long: `The LLM judge is asked about answers that the official scorer calls wrong. Its
verdicts are kept, signed, so that no run asks the same twice, and count only if it
calls answers incorrect that say nothing.`,
		Example: `  gaia judge check --judge-model gpt-4o-mini
  gaia judge run runs/01J… --judge-model gpt-4o-mini
  gaia judge cache verify`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.judgeCheckCommand(), a.judgeRunCommand(), a.judgeCacheCommand())
	return cmd
}

func (a *app) judgeCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Verify the stored verdicts of the judge",
		Long: `The judge cache holds one signed file per verdict of the LLM judge and per result
of its self-test, in $XDG_CACHE_HOME/gaia/judgments (else ~/.cache/gaia/judgments).
Entries count if your signing key or a key that you trust signed them.

To clear the cache, delete that folder. The next run asks the judge again.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --json
  rm -r ~/.cache/gaia/judgments    clear the cache`,
		Args:              cli.KnownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cacheVerifyCommand())
	return cmd
}

// cacheQuery holds the flags of verify.
type cacheQuery struct {
	trusted  trustFlags
	settings string // file
	asJSON   bool
}

func (q *cacheQuery) add(cmd *cobra.Command) {
	q.trusted.register(cmd)
	cmd.Flags().StringVar(&q.settings, "settings", "", "file of settings that names your signing key (default: gaia.yaml, if it is there)")
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// openedCache is a judge cache to be looked through, and whose entries count.
type openedCache struct {
	*judgecache.Reader // nil: there is none
	dir                string
	trust              keyring.Trust
}

// Each is that of the reader; where there is none, nothing is visited.
func (c openedCache) Each(visit func(judgecache.Entry)) {
	if c.Reader != nil {
		c.Reader.Each(visit)
	}
}

// ownKeyFile is the signing key that the settings name, "" where the environment
// or no one does.
func (a *app) ownKeyFile(q *cacheQuery) (string, error) {
	file, err := openSettings(q.settings)
	if err != nil || a.decides("key") {
		return "", err
	}
	return file.Value("key"), nil
}

// lookAtCache opens the judge cache without making anything.
func (a *app) lookAtCache(q *cacheQuery) (openedCache, error) {
	flags := q.trusted
	var err error
	if flags.own, err = a.ownKeyFile(q); err != nil {
		return openedCache{}, err
	}
	dir, err := a.judgeCacheDir("set one of them")
	if err != nil {
		return openedCache{}, err
	}
	c := openedCache{dir: dir}
	if c.trust, err = a.trustedKeys(flags); err != nil {
		return openedCache{}, err
	}
	c.Reader, err = judgecache.Look(dir, c.trust.Valid())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return openedCache{}, err
	}
	return c, nil
}

// noCache says that there is no cache.
func (a *app) noCache(c openedCache) error {
	_, err := fmt.Fprintf(a.stdout, "there is no judge cache yet: %s\n", view.Line(view.Quote(c.dir)))
	return err
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
begins, and names those that do not verify: nobody but who holds a key that you
trust can have made a good one. A directory that others can write to, that is
another user's, a symbolic link or none at all is bad as a whole. Exit code 4 if
anything is.

Entries of the old form have no signature. They are counted and never used.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --trusted-key alice.pub --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NotEmpty(cmd, "settings"); err != nil {
				return err
			}
			return a.verifyCache(q)
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) verifyCache(q *cacheQuery) error {
	c, err := a.lookAtCache(q)
	if err != nil {
		return err
	}
	v := cacheVerification{Bad: []badEntry{}, Dir: c.dir, Present: c.Reader != nil}
	var bad []judgecache.Bad
	c.Each(func(e judgecache.Entry) {
		switch {
		case e.Leftover:
			v.Leftovers++
			return
		case e.Legacy:
			v.Legacy++
		case e.Reason != "":
			v.Bad = append(v.Bad, badEntry{e.Name, e.Reason})
			bad = append(bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		}
		v.Checked++
	})
	switch {
	case q.asJSON:
		err = view.JSON(a.stdout, v)
	case !v.Present:
		err = a.noCache(c)
	case c.Shut() == "":
		_, err = fmt.Fprintf(a.stdout, "%s checked: %d good, %d bad, %d of the old form, which no run uses\n",
			entriesOf(v.Checked), v.Checked-len(bad)-v.Legacy, len(bad), v.Legacy)
	}
	if err != nil || len(bad) == 0 {
		return err
	}
	f := &failure{Code: exit.Evidence, Reasons: badEntries(c.dir, bad), Hints: cacheHints(c.dir, bad)}
	f.Err = fmt.Errorf("%d of %s in the judge cache do not verify", len(bad), entriesOf(v.Checked))
	if c.Shut() != "" {
		f.Err, f.Reasons = shutCache(c), nil
	}
	return f
}

// shutCache is the error that nothing in a cache counts.
func shutCache(c openedCache) error { return fmt.Errorf("the judge cache %q is %s", c.dir, c.Shut()) }

func entriesOf(n int) string { return view.Count(n, "entry") }

// badEntries says of the first of them what is bad in the cache in dir.
func badEntries(dir string, bad []judgecache.Bad) []string {
	var reasons []string
	for i, b := range bad {
		if i == maxHinted {
			return append(reasons, fmt.Sprintf("and %d more", len(bad)-i))
		}
		name := b.Name
		if name == judgecache.Place {
			name = dir
		}
		reasons = append(reasons, view.Quote(name)+": "+b.Reason)
	}
	return reasons
}

// cacheHints says what can be done about what is bad in a judge cache.
func cacheHints(dir string, bad []judgecache.Bad) []string {
	strangers := 0
	for _, b := range bad {
		switch b.Reason {
		case judgecache.Untrusted:
			strangers++
		case judgecache.Writable:
			return []string{"chmod 700 " + view.Quote(dir), "gaia judge cache verify then says whether anybody has changed an entry"}
		case judgecache.NotMade, judgecache.NotRead, judgecache.NotPrivate:
			return []string{"see to it that you can read and write " + view.Quote(dir) + " and what it lies in; or set XDG_CACHE_HOME to another place"}
		case judgecache.Linked, judgecache.NotOwned, judgecache.NotDirectory:
			return []string{"find out who put " + view.Quote(dir) + " there, then remove it: the next run makes a directory of your own; or set XDG_CACHE_HOME to another place"}
		}
	}
	var hints []string
	if strangers < len(bad) {
		hints = append(hints, "find out who changed these entries, then delete the cache: rm -r "+view.Quote(dir))
	}
	if strangers > 0 {
		hints = append(hints, "entries by a key of your own are trusted once its public line lies in your key directory as a file NAME.pub, or while gaia.yaml names it as key",
			"if you do not know the key, delete the cache: rm -r "+view.Quote(dir))
	}
	return hints
}

// judgeCache opens the signed cache of the judge's verdicts. Those by the user's
// own key and by the keys in the key directory count. A run that goes on cannot
// do without the cache of its plan.
func (a *app) judgeCache(key sign.Key, resumed bool) (*judgecache.Cache, error) {
	instead := "fix that, or give --no-judge-cache"
	if resumed {
		instead = "fix that: the run was planned with a judge cache"
	}
	dir, err := a.judgeCacheDir(instead)
	if err != nil {
		return nil, err
	}
	trusted, err := a.ownTrust()
	if err != nil {
		return nil, err
	}
	return judgecache.Open(dir, key, trusted.Valid(), time.Now)
}

// judgeCacheDir is where the judge's verdicts are kept; hint says what to do
// where there is no such place.
func (a *app) judgeCacheDir(hint string) (string, error) {
	base := a.xdg("XDG_CACHE_HOME", ".cache")
	if base == "" {
		return "", fail(exit.Failure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), hint)
	}
	return filepath.Join(base, "gaia", "judgments"), nil
}

// badCache is the failure of a run that a judge cache keeps from beginning or
// going on.
func (a *app) badCache(err *grading.CacheError, code int, then string) error {
	f := &failure{Code: code, Err: err, Reasons: badEntries(err.Dir, err.Sweep.Bad), Hints: cacheHints(err.Dir, err.Sweep.Bad)}
	f.Hints = append(f.Hints, then)
	return f
}

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
		Short: "Run the self-test of a judge",
		Long: `Check asks a judge about answers to invented questions that have no content, tell
it what to say, or pretend to be part of its prompt. The judge passes if it calls all
of them incorrect. It fails if it calls one correct, or if its reply is not a verdict:
exit code 3. Runs make the same self-test before the first verdict that they need,
and use no verdict of a judge that failed it.

The result is stored, signed, in the judge cache, so that runs with the same judge at
the same endpoint do not repeat the test. A failed result counts until you delete its
entry. An entry that does not verify is reported before anything is asked: exit code 4.

Judge, endpoint, prices, key and judge cache are those of gaia.yaml unless a flag
says otherwise. Where "gaia run" would rehearse, check tests the built-in scripted
judge, offline.`,
		Example: `  OPENAI_API_KEY=… gaia judge check --judge-model gpt-4o-mini
  gaia judge check --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NotEmpty(cmd, "judge-model", "base-url", "prices", "key", "settings"); err != nil {
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
	ctx, release := stop.Context(cmd.Context())
	defer release()
	context.AfterFunc(ctx, release)
	fmt.Fprintf(a.stderr, "gaia: asking %s at %s about %d answers without content\n", view.Line(e.Name), view.Line(e.Origin), len(judge.Battery()))
	t := grading.TestJudge(ctx, *e, time.Now)
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted; nothing is kept of it"))
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
	base, err := remote.ParseURL(s.baseURL)
	if err != nil {
		return nil, prices, nil, err
	}
	apiKey := a.getenv("OPENAI_API_KEY")
	if apiKey == "" && !remote.IsLocal(base) {
		return nil, prices, nil, noKeyFor(base)
	}
	if prices, err = remote.Prices(s.prices); err != nil {
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

// Stored results of a self-test.
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

// recallOutcome looks up the result of an earlier self-test of the judge. What would
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
	f := &failure{Code: exit.Evidence, Err: errors.New("the stored result of an earlier self-test of this judge does not verify"), Reasons: badEntries(dir, all)}
	if bad.Name == judgecache.Place {
		f.Err, f.Reasons = fmt.Errorf("the judge cache %q is %s", dir, bad.Reason), nil
	}
	f.Hints = append(cacheHints(dir, all), "the judge was not asked; --no-judge-cache tests it without the cache")
	return f
}

// keep stores a result for runs: that a judge passed its self-test, or that it
// paid an item, which stands. Anything else is tried again.
func (k knownOutcome) keep(t grading.SelfTest) error {
	withstood := t.Passed()
	if k.cache == nil || !t.Lasts() || withstood && k.outcome == outcomePaid {
		return nil
	}
	return k.cache.PutBattery(k.name, withstood)
}

// checkedJudge is what check prints with --json.
type checkedJudge struct {
	Battery      string        `json:"battery_sha256"`
	CostMicroUSD *int64        `json:"cost_microusd"` // null where the price is unknown
	Items        []checkedItem `json:"items"`
	Model        string        `json:"model"`
	Origin       string        `json:"origin"`
	Problem      string        `json:"problem,omitzero"` // why not all items were put to it
	Rehearsal    bool          `json:"rehearsal,omitzero"`
	Remembered   string        `json:"remembered"` // of an earlier self-test: outcomeWithstood, outcomePaid, or "" for none
	TokensIn     int64         `json:"tokens_in"`
	TokensOut    int64         `json:"tokens_out"`
	Withstood    bool          `json:"withstood"` // this one
}

type checkedItem struct {
	Candidate string `json:"candidate"`
	Name      string `json:"name"`
	Verdict   string `json:"verdict"` // incorrect, as it should be; or correct, unreadable, refused (by the endpoint), "not asked"
}

func newCheckedJudge(e grading.Judge, t grading.SelfTest, remembered string) checkedJudge {
	out := checkedJudge{Battery: judge.BatteryDigest(), CostMicroUSD: t.CostMicroUSD, Model: e.Name, Origin: e.Origin, Problem: t.Err,
		Remembered: remembered, TokensIn: t.TokensIn, TokensOut: t.TokensOut, Withstood: t.Passed()}
	for i, n := range judge.Battery() {
		verdict := "incorrect"
		switch {
		case i >= t.Asked:
			verdict = "not asked"
		case slices.Contains(t.Accepted, n.Name):
			verdict = "correct"
		case slices.Contains(t.Unreadable, n.Name):
			verdict = "unreadable"
		case slices.Contains(t.Refused, n.Name):
			verdict = "refused"
		}
		out.Items = append(out.Items, checkedItem{n.Candidate, n.Name, verdict})
	}
	return out
}

func (a *app) printChecked(out checkedJudge, t grading.SelfTest, entry string, asJSON bool) (err error) {
	switch {
	case asJSON:
		err = view.JSON(a.stdout, out)
	case t.Asked > 0:
		err = a.printCheckedTable(out)
	}
	if err != nil {
		return err
	}
	return checkFailure(out, t, entry)
}

// checkFailure is the error of a judge whose verdicts no run uses, or that could not
// be asked; nil if it passed its self-test. entry is the file of an earlier result.
func checkFailure(out checkedJudge, t grading.SelfTest, entry string) error {
	const another = "take another model with --judge-model: without a judge the official scores stand alone"
	switch {
	case out.Withstood && out.Remembered == outcomePaid:
		return fail(exit.Findings, errors.New("this judge failed an earlier self-test, and that result counts until its entry is deleted"),
			"rm "+view.Quote(entry), another)
	case out.Withstood:
		return nil
	case t.Err != "" && len(t.Accepted) == 0:
		err := errors.New(t.Err)
		if t.Why != nil {
			err = t.Why
		}
		return fail(exit.Failure, fmt.Errorf("asking the judge: %w", err), judgeRemedies(t.Why)...)
	}
	why := runview.ExplainBattery(&rundir.BatterySummary{Accepted: t.Accepted, Asked: t.Asked, Refused: t.Refused, Unreadable: t.Unreadable})
	if len(t.Accepted) == 0 && out.Remembered == outcomeWithstood {
		return fail(exit.Findings, errors.New("this judge failed its self-test: "+why), "runs use the earlier result, which it passed, until you delete it: rm "+view.Quote(entry))
	}
	return fail(exit.Findings, errors.New("no verdict of this judge counts: "+why), another)
}

// judgeRemedies says what can be done about a request that failed, where more is
// known than what the endpoint said.
func judgeRemedies(e *llm.Error) []string {
	switch {
	case e == nil:
	case e.Hint != "":
		return []string{e.Hint}
	case e.Code == "unreachable":
		return []string{"check --base-url, and that the server is running there"}
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return []string{"set OPENAI_API_KEY to a key of the endpoint"}
	case e.Status == http.StatusNotFound:
		return []string{"name a model that the endpoint has with --judge-model, or look at the path of --base-url"}
	}
	return nil
}

func (a *app) printCheckedTable(out checkedJudge) error {
	const width = 60 // of a candidate, before it is quoted
	rows := view.NewTable("item", "verdict", "candidate")
	for _, i := range out.Items {
		rows.Row(i.Name, i.Verdict, strconv.QuoteToGraphic(text.Snip(i.Candidate, width, "…")))
	}
	outcome := "passed its self-test"
	switch {
	case out.Withstood:
	case out.Problem != "":
		outcome = "was not asked its whole self-test"
	default:
		outcome = "failed its self-test"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n\n%s at %s: %s; %d tokens in, %d out, cost %s\n", rows,
		view.Line(out.Model), view.Line(out.Origin), outcome, out.TokensIn, out.TokensOut, view.Dollars(out.CostMicroUSD))
	return err
}

func (a *app) judgeRunCommand() *cobra.Command {
	c := &judgeCheck{ofRun: &cobra.Command{}}
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Judge a finished run with another judge",
		Long: `Run asks another LLM judge about the answers of a finished run that the official
scorer calls wrong, and writes its verdicts, signed, into the run directory. The run
itself does not change: its first judgment stays, and its package counts judgments.

The judge must pass its self-test first, as in a run; else its verdicts are withheld.
All answers are judged or nothing is written. Replies are stored in the judge cache,
so you can repeat the command after an interruption. A judge with the same model,
endpoint and prompt judges a run once.

The gold answers are those that the run stored. The key is the one that planned the
run. A rehearsal is judged by a built-in scripted judge, offline: second-judge, or
gullible-judge, which fails its self-test.`,
		Example: `  OPENAI_API_KEY=… gaia judge run runs/01J… --judge-model gpt-4o-mini --max-cost 2
  gaia judge run runs/01J… --judge-model llama3.1 --base-url http://localhost:11434/v1 --json`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "judge-model", "base-url", "prices", "key", "settings", "max-cost"); err != nil {
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
		return usage("give another model or endpoint: the run's first judgment stays the run's", "%q at %s is the run's own judge", view.Line(plan.Model), view.Line(plan.Origin))
	case err == nil:
		return fail(exit.Failure, fmt.Errorf("this judge has judged the run: %q", path), "a judge judges a run once: give another model or endpoint", "gaia verify "+view.Quote(dir))
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
		return fail(exit.Failure, err, append(judgeRemedies(asked), "nothing was written; what the judge has said is in the judge cache")...)
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
		return j, 0, fail(exit.Failure, errors.New("the run has no gold answers, so there is nothing to judge by"))
	}
	if _, attempts := audit.Rejudged(j.Run); len(attempts) == 0 {
		return j, 0, fail(exit.Failure, errors.New("the official scorer called no answer of the run wrong, so there is nothing to judge"))
	}
	gold, err := grading.PrivateGold(dir)
	if err != nil {
		return j, 0, err
	}
	if gold == nil {
		return j, 0, fail(exit.Failure, fmt.Errorf("%s is missing, which holds the gold answers", grading.PrivateFile), "judge where the run was made")
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
			return nil, usage("give --judge-model "+fixtures.SecondJudgeModel, "a rehearsal is judged by a built-in judge, and %q is none", view.Line(c.judge()))
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
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	rows = append(rows, runview.JudgeRows(&out.Totals)...)
	if s := out.Score; s != nil {
		rows = append(rows, [2]string{"judged", fmt.Sprintf("%d of %d, %s, by this judge", s.Correct, s.Planned, view.Percent(s.AccuracyPPM))})
	}
	return view.Rows(a.stdout, append(rows, [2]string{"judgments", fmt.Sprintf("%d of this run; the run's own files are as they were", out.Judgments)},
		[2]string{"written to", path}, [2]string{"signed by", out.KeyID}, [2]string{"next", "gaia verify " + view.Quote(dir)}))
}
