package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/witnessfile"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// scoring is how a scorecard is asked for.
type scoring struct {
	asJSON, accept bool
	hmacKey        string
	want           rundir.Thresholds
}

func (a *app) scorecardCommand() *cobra.Command {
	s := scoring{want: rundir.DefaultThresholds()}
	cmd := &cobra.Command{
		Use:   "scorecard DIR…|FILE.rvw…",
		Short: "Say what it cost to be right, and how often rules were broken",
		Long: `Scorecard counts tasks: solved or not, rules broken, rollbacks, cost, latency,
tokens, retries, and how much of what is solved has complete evidence. It takes
runs, full packages, their archives and folders that hold some, all of which it
verifies, or else witness bundles (.rvw) and folders of them, but not both. Bundles
of other programs do not say why calls were denied or what was rolled back: each
denied call counts as a violation, and the other numbers are null. A run that is
there twice is counted once, and of two copies of a bundle none is.

Violations are broken rules and tools on the deny list. Denials by mode and by
budget, and calls that a person refused, are counted apart.

--accept holds the card against thresholds, each of which has a flag, and exits
with 3 where one is missed, where a run went on after its recording had failed, or
where tasks were run under different policies or rules (--mixed-policies allows it).
What is not known misses. The MACs of bundles are
checked with --hmac-key-file only; all must then be signed with that key.`,
		Example: `  gaia scorecard runs/01J…
  gaia scorecard runs/ --json
  gaia scorecard runs/01J… --accept --min-solve-rate 0.75
  gaia scorecard bundles/ --hmac-key-file shared.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			if len(args) == 0 {
				return usage("see 'gaia scorecard --help'", "scorecard takes runs, or witness bundles")
			}
			for _, name := range []string{"min-solve-rate", "max-violations", "min-evidence-coverage", "min-rollback-correctness", "mixed-policies"} {
				if cmd.Flags().Changed(name) && !s.accept {
					return usage("give --accept, too", "--%s is a threshold of --accept", name)
				}
			}
			if s.want.Violations < 0 {
				return usage("give a number from 0", "--max-violations is %d", s.want.Violations)
			}
			return a.scorecard(args, s)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&s.asJSON, "json", false, "print the card as JSON")
	f.BoolVar(&s.accept, "accept", false, "exit with 3 where a threshold is missed")
	f.Var((*fraction)(&s.want.SolveRate), "min-solve-rate", "with --accept: solved of all tasks, at least")
	f.IntVar(&s.want.Violations, "max-violations", 0, "with --accept: violations, at most")
	f.Var((*fraction)(&s.want.EvidenceCoverage), "min-evidence-coverage", "with --accept: solved tasks with complete evidence of the solved, at least")
	f.Var((*fraction)(&s.want.RollbackCorrectness), "min-rollback-correctness", "with --accept: rollbacks proven to be right of all, at least")
	f.BoolVar(&s.want.MixedPolicies, "mixed-policies", false, "with --accept: runs may be under different policies or rules")
	f.StringVar(&s.hmacKey, "hmac-key-file", "", "of bundles: check that all are signed with this key")
	return cmd
}

// kindFraction is the type of a flag that takes a fraction.
const kindFraction = "fraction"

// fraction is a flag from 0 to 1.
type fraction float32

func (f *fraction) String() string { return strconv.FormatFloat(float64(*f), 'g', -1, 32) }
func (f *fraction) Type() string   { return kindFraction }

func (f *fraction) Set(s string) error {
	n, err := strconv.ParseFloat(s, 32)
	if err != nil || !(n >= 0 && n <= 1) {
		return errors.New("it is not from 0 to 1")
	}
	*f = fraction(n)
	return nil
}

// scored is what a scorecard was made of.
type scored struct {
	witnessfile.Tally
	runs       int
	unscored   bool        // a task was answered, and has no gold answer
	unrecorded [][2]string // runs that went on without evidence: id and why
	untrusted  error       // runs are by keys that the user does not trust; nil: none
}

func (a *app) scorecard(paths []string, s scoring) error {
	bundles, err := witnessfile.AllBundles(paths)
	if err != nil {
		return err
	}
	var found scored
	if bundles {
		if s.hmacKey != "" {
			key, err := sharedKey(s.hmacKey)
			if err != nil {
				return err
			}
			found.Key = &key
		}
		err = found.AddPaths(paths)
	} else if s.hmacKey != "" {
		err = usage("leave it out: runs and packages are signed by the key of their plan", "--hmac-key-file is for witness bundles")
	} else {
		err = a.readRuns(&found, paths)
	}
	if err != nil {
		return err
	}
	return a.printScorecard(&found, s)
}

// readRuns verifies runs and counts their tasks. Nothing is counted where one of them
// does not verify, or is not finished though the user named it.
func (a *app) readRuns(found *scored, paths []string) error {
	r, err := a.runReader()
	if err != nil {
		return err
	}
	read, err := r.Runs(paths, ledger.Query{Verify: true, Live: true}, func(s ledger.Run) error {
		found.runs++
		found.Rehearsal = found.Rehearsal || s.Rehearsal
		found.unscored = found.unscored || slices.ContainsFunc(s.Tasks, func(t rundir.TaskStats) bool { return t.Outcome == trajectory.Unscored })
		if s.RecordingFailed != "" {
			found.unrecorded = append(found.unrecorded, [2]string{s.RunID, s.RecordingFailed})
		}
		if err := found.AddRun(s.RunStats); err != nil {
			return fmt.Errorf("%s: %w", view.Quote(s.Path), err)
		}
		return nil
	})
	if f := (*failure)(nil); ledger.IsPathError(err) && errors.As(err, &f) {
		return fail(f.Code, f.Err, witnessfile.WantScored)
	}
	found.untrusted = read.UntrustedErr
	if read.FailedErr != nil {
		err = cmp.Or(err, read.End(nil))
	}
	if err == nil && found.runs == 0 {
		return usage(witnessfile.WantScored, "there is no finished run to count")
	}
	return err
}

// scorecardResult is what scorecard prints with --json: the card's members, in their
// order, and what came of --accept.
type scorecardResult struct {
	rundir.Scorecard
	Acceptance      *rundir.Acceptance `json:"acceptance,omitzero"`
	RecordingFailed []string           `json:"recording_failed,omitzero"` // ids of the runs
	Rehearsal       bool               `json:"rehearsal,omitzero"`
	SignerTrusted   *bool              `json:"signer_trusted,omitzero"` // of all runs; left out for witness bundles
}

// printScorecard prints the card of what was counted, and fails where it is held
// against thresholds and misses one.
func (a *app) printScorecard(found *scored, s scoring) error {
	r := scorecardResult{Scorecard: found.Scorecard(), Rehearsal: found.Rehearsal}
	if found.Bundles == 0 {
		all := found.untrusted == nil
		r.SignerTrusted = &all
	}
	for _, run := range found.unrecorded {
		r.RecordingFailed = append(r.RecordingFailed, run[0])
	}
	if s.accept {
		accepted := found.Accept(s.want)
		r.Acceptance = &accepted
	}
	if s.asJSON {
		if err := view.JSON(a.stdout, r); err != nil {
			return err
		}
	} else if err := a.printCard(found, r); err != nil {
		return err
	}
	if r.Acceptance == nil || r.Acceptance.Pass {
		return found.untrusted
	}
	f := &failure{Code: exit.Findings, Err: errors.New("not accepted")}
	for _, c := range r.Acceptance.Criteria {
		if !c.Pass {
			f.Reasons = append(f.Reasons, c.Name+" is "+held(c))
			if c.Name == rundir.CriterionPolicies {
				f.Hints = append(f.Hints, "give the runs of one policy, or --mixed-policies; 'gaia ledger metrics' lists them")
			}
		}
	}
	return exit.First(found.untrusted, f)
}

func (a *app) printCard(found *scored, r scorecardResult) error {
	c := r.Scorecard
	if r.Rehearsal {
		if _, err := fmt.Fprintf(a.stdout, "rehearsal: %s\n\n", runview.RehearsalNote); err != nil {
			return err
		}
	}
	rows := [][2]string{{"counted", view.Count(found.runs, "run")}}
	if found.Bundles > 0 {
		said := "signatures not checked"
		if found.Key != nil {
			said = "all signed with the key of --hmac-key-file"
		}
		rows = [][2]string{{"counted", view.Count(found.Bundles, "witness bundle") + ", " + said}}
	}
	for _, run := range found.unrecorded {
		rows = append(rows, [2]string{"recording", "failed in the run " + run[0] + ": " + run[1]})
	}
	rate, perSolve, evidence := share(c.SolveRate), view.Dollars(c.CostPerSolveMicros), "complete of "+share(c.EvidenceCoverage)+" of what is solved"
	if c.Solved == 0 {
		perSolve, evidence = "–", "–, nothing was solved"
		if found.unscored && c.Failed == 0 {
			rate = "– (unscored)"
		}
	}
	rollbacks := "unknown: a bundle does not say"
	denials := rollbacks
	if c.RollbackCount != nil {
		rollbacks = strconv.Itoa(*c.RollbackCount)
		denials = fmt.Sprintf("%d by mode, %d by budget, %d by a person", *c.ModeDenials, *c.BudgetDenials, *c.PersonRefusals)
	}
	rows = append(rows,
		[2]string{"tasks", fmt.Sprintf("%d: %d solved, %d failed, %d error, %d skipped or unscored", c.TotalTasks, c.Solved, c.Failed, c.Errors, c.Skipped)},
		[2]string{"solve rate", rate},
		[2]string{"violations", strconv.Itoa(c.PolicyViolations)},
		[2]string{"denials", denials},
		[2]string{"rollbacks", rollbacks},
		[2]string{"cost", fmt.Sprintf("%s, %s per solved task", view.Dollars(c.TotalCostMicroUSD), perSolve)},
		[2]string{"latency", fmt.Sprintf("median %s, 95th percentile %s", ledger.Milliseconds(c.MedianLatencyMs), ledger.Milliseconds(c.P95LatencyMs))},
		[2]string{"tokens", strconv.FormatInt(c.TotalTokens, 10)},
		[2]string{"retries", strconv.Itoa(c.TotalRetries)},
		[2]string{"evidence", evidence})
	if r.Acceptance != nil {
		label := "accepted"
		if !r.Acceptance.Pass {
			label = "not accepted"
		}
		for _, each := range r.Acceptance.Criteria {
			mark := "passes"
			if !each.Pass {
				mark = "fails"
			}
			rows = append(rows, [2]string{label, fmt.Sprintf("%s %s: %s", each.Name, mark, held(each))})
			label = ""
		}
	}
	return view.Rows(a.stdout, rows)
}

// held says what a criterion was held against.
func held(c rundir.Criterion) string {
	got, how := c.Got, "at least"
	switch c.Wanted.(type) {
	case int:
		how = "at most"
	case bool:
		how = "wanted"
	}
	if got == nil {
		got = "unknown"
	}
	return fmt.Sprintf("%v, %s %v", got, how, c.Wanted)
}

// share prints a fraction.
func share(f float32) string { return view.Percent(int64(math.Round(float64(f) * 1e6))) }

func (a *app) compareCommand() *cobra.Command {
	var asJSON, differentPlans bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs, task by task",
		Long: `Compare verifies two finished runs, each a run directory, a full package or its
archive, and pairs their tasks: how many both solved, one of them or none, which
flipped, what B took more than A, and whether the difference may be chance.

Outcomes are those of the official scorer, as recorded. The p-value is of the
exact two-sided McNemar test. The interval of the difference of the solve rates,
B less A, is the 95 % percentile interval of the bootstrap over the pairs: not
of some resamples but of all, counted exactly, so nothing is left to chance and
every machine gets the same.

Runs of different plans are refused. Of each run are its own: its id, when it was
planned, who signed it, the program, and the salt of its commitment to the gold
answers; whether these answers are the same cannot be told. --different-plans
compares the tasks that both have, and says in what the plans differ. An id by
which the plans ask different questions is of no task of both.`,
		Example: `  gaia compare runs/01J… runs/01K…
  gaia compare submission-2026-01-02-5XK9QZ7M.tar.gz runs/01K… --different-plans
  gaia compare runs/01J… runs/01K… --json | jq '.flips[].task_id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("see 'gaia compare --help'", "compare takes two arguments, each a run directory, package or archive")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.compare(args, differentPlans, asJSON)
		},
	}
	cmd.Flags().BoolVar(&differentPlans, "different-plans", false, "compare the tasks that both plans have")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	return cmd
}

func (a *app) compare(paths []string, differentPlans, asJSON bool) error {
	var runs [2]*rundir.Run
	var tasks [2][]stats.Scored
	var untrusted []error
	for i, path := range paths {
		found, err := a.finishedRun(path)
		if err != nil {
			return err
		}
		if tasks[i], err = found.ScoredTasks(); errors.Is(err, rundir.ErrUnscored) {
			return usage("compare runs of a split with answers", "%q: %v", path, err)
		}
		if err != nil {
			return err
		}
		if runs[i] = found; i == 0 || !runs[0].Key.Equal(found.Key) {
			untrusted = append(untrusted, a.checkSigner(found))
		}
	}
	if runs[0].Manifest.RunID == runs[1].Manifest.RunID {
		return cmp.Or(verify.Equivocation(runs[0].Signed(), runs[1].Signed(), [2]string(paths)), usage("give two runs", "both are the run %s", runs[0].Manifest.RunID))
	}
	differences, err := planDifferences(runs[0].Manifest, runs[1].Manifest)
	if err != nil {
		return err
	}
	if len(differences) > 0 && !differentPlans {
		return &failure{Code: exit.Usage, Err: errors.New("the runs are of different plans"), Reasons: differences,
			Hints: []string{"--different-plans compares the tasks that both have"}}
	}
	c, err := stats.Compare(tasks[0], tasks[1])
	if err != nil {
		return fail(exit.Failure, err, "'gaia show DIR' lists the tasks of a run, and 'gaia run --task' plans those that are to be compared")
	}
	side := func(i int, of stats.Compared) history.ComparedRun {
		return history.ComparedRun{Compared: of, Path: paths[i], RecordingFailed: runs[i].Marked, Identity: history.Identify(runs[i])}
	}
	shown := history.Comparison{Comparison: c, A: side(0, c.A), B: side(1, c.B),
		Differences: append([]string{}, differences...), Rehearsal: runs[0].Manifest.Rehearsal || runs[1].Manifest.Rehearsal}
	signer := exit.First(untrusted...)
	shown.SignerTrusted = signer == nil
	if asJSON {
		err = view.JSON(a.stdout, shown)
	} else {
		err = a.printComparison(shown)
	}
	if err != nil {
		return err
	}
	return signer
}

// finishedRun reads a finished run, which is verified with what was decided about it.
func (a *app) finishedRun(path string) (*rundir.Run, error) {
	given, err := verify.OpenJournal(path)
	if err != nil {
		return nil, err
	}
	defer given.Close()
	read := given.Run
	if !given.Packaged {
		read = func() (*rundir.Run, error) {
			found, _, err := verify.Run(given.Files)
			return found, err
		}
	}
	found, err := read()
	var fault *trajectory.Fault
	switch {
	case errors.As(err, &fault):
		return nil, fail(exit.Evidence, fmt.Errorf("%s: %w", path, err), "compare takes finished runs as gaia left them: give another copy, or another run")
	case err != nil:
		return nil, err
	case !found.Complete:
		return nil, exit.First(a.checkSigner(found), incomplete(path, found))
	}
	return found, nil
}

// planDifferences says in what two plans differ, but for what each run has of its
// own. Salts differ in any two: of two commitments to gold answers, and of two
// digests of a question, nothing else is known.
func planDifferences(a, b plan.Plan) ([]string, error) {
	b.RunID, b.Created, b.SigningKey, b.Harness = a.RunID, a.Created, a.SigningKey, a.Harness
	if a.Scored() == b.Scored() {
		b.GoldCommitment = a.GoldCommitment
	}
	return plan.Diff(a.Unsalted(), b.Unsalted())
}

// printComparison prints the two runs beside each other, what their difference is
// worth, and each task that flipped.
func (a *app) printComparison(c history.Comparison) error {
	out := ""
	switch {
	case c.A.Rehearsal && c.B.Rehearsal:
		out = "rehearsal: " + runview.RehearsalNote + "\n\n"
	case c.A.Rehearsal:
		out = "rehearsal: A is of " + runview.RehearsalNote + "\n\n"
	case c.B.Rehearsal:
		out = "rehearsal: B is of " + runview.RehearsalNote + "\n\n"
	}
	for _, side := range []struct {
		name string
		history.ComparedRun
	}{{"A", c.A}, {"B", c.B}} {
		if side.RecordingFailed != "" {
			out += fmt.Sprintf("recording failed: %s went on without evidence: %s\n\n", side.name, view.Line(side.RecordingFailed))
		}
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n\n", out, history.ComparisonTable(c)); err != nil {
		return err
	}
	if err := view.Rows(a.stdout, history.ComparisonRows(c)); err != nil || len(c.Flips) == 0 {
		return err
	}
	t := view.NewTable("flipped", "level", "A", "B")
	for _, f := range c.Flips {
		t.Row(view.Line(f.TaskID), f.Level, f.From, f.To)
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n", t.String())
	return err
}

func (a *app) trendCommand() *cobra.Command {
	var by string
	var asJSON, anew bool
	cmd := &cobra.Command{
		Use:   "trend PATH…",
		Short: "Show by day or week whether runs get better",
		Long: `Trend verifies finished runs and counts them by the day or the ISO week, in UTC,
in which they began: tasks, how many the official scorer found solved, what a
solve took in money and tokens, model calls that were tried again, under which
guidance and model, and regressions: tasks that the last earlier run with them
solved, and this one did not. Each PATH is a run directory, a full package, its
archive, or a folder that holds some, such as runs/.

What a solve took is all that the tasks of scored runs took, over those that they
solved; it is – where nothing was solved or a price is unknown. Runs without gold
answers have no part in it, nor in regressions. Rehearsals have rows of their own.

Runs that were verified before and are as they were are not read again; --verify
reads all anew. Runs that do not verify are named and left out, exit code 4.`,
		Example: `  gaia trend runs
  gaia trend runs submission-2026-01-02-5XK9QZ7M.tar.gz --by day
  gaia trend runs --json | jq '.buckets[].regressions[].task_id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia trend --help'", "trend takes the runs to follow")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if by != history.ByDay && by != history.ByWeek {
				return usage("give day or week", "--by is %q", by)
			}
			return a.trend(args, by, ledger.Query{Verify: anew}, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", history.ByWeek, "day or week")
	f.BoolVar(&asJSON, "json", false, "print the rows as JSON, with all regressions")
	f.BoolVar(&anew, "verify", false, "verify all runs anew")
	cli.Complete(cmd, "by", history.ByDay, history.ByWeek)
	return cmd
}

// trendResult is what trend prints with --json.
type trendResult struct {
	Buckets []history.TrendBucket `json:"buckets"` // by time
	By      string                `json:"by"`
	ledger.Shortfall
	Rehearsal bool `json:"rehearsal,omitzero"` // some of them are
	Runs      int  `json:"runs"`
}

func (a *app) trend(paths []string, by string, q ledger.Query, asJSON bool) error {
	all := history.Trend{By: by}
	r, err := a.runReader()
	if err != nil {
		return err
	}
	read, err := r.Runs(paths, q, func(s ledger.Run) error { return all.Add(s.RunStats) })
	if err != nil {
		return err
	}
	if read.Runs == 0 {
		if err := read.End(nil); err != nil {
			return err
		}
		return fail(exit.Incomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
	}
	result := trendResult{Buckets: all.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	result.Rehearsal = slices.ContainsFunc(result.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal })
	show := a.printTrend
	if asJSON {
		show = func(r trendResult) error { return view.JSON(a.stdout, r) }
	}
	if err := show(result); err != nil {
		return err
	}
	return read.End(nil)
}

// printTrend prints a row for each day or week, and below what solved no more.
func (a *app) printTrend(r trendResult) error {
	out := ""
	switch {
	case r.Rehearsal && slices.ContainsFunc(r.Buckets, func(b history.TrendBucket) bool { return !b.Rehearsal }):
		out = "rehearsal: the rows that say so are of " + runview.RehearsalNote + "\n\n"
	case r.Rehearsal:
		out = "rehearsal: " + runview.RehearsalNote + "\n\n"
	}
	t := view.NewTable(r.By, "runs", "tasks", "solved", "", "cost/solve", "tokens/solve", "retries", "regressions", "guidance", "model")
	for _, b := range r.Buckets {
		t.Row(history.TrendRow(b)...)
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n", out, t.String()); err != nil {
		return err
	}
	below := ""
	if regressed := history.RegressionTable(r.Buckets); regressed != "" {
		below = "\n" + regressed + "\n"
	}
	if r.Failed > 0 || len(r.RecordingFailed) > 0 {
		below += fmt.Sprintf("\nof %s%s\n%s", view.Count(r.Runs, "run"), r.Unread(), r.Unrecorded())
	}
	_, err := fmt.Fprint(a.stdout, below)
	return err
}
