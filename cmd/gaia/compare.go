package main

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/view"
	"slices"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

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
		return &failure{Code: exitUsage, Err: errors.New("the runs are of different plans"), Reasons: differences,
			Hints: []string{"--different-plans compares the tasks that both have"}}
	}
	c, err := stats.Compare(tasks[0], tasks[1])
	if err != nil {
		return fail(exitFailure, err, "'gaia show DIR' lists the tasks of a run, and 'gaia run --task' plans those that are to be compared")
	}
	side := func(i int, of stats.Compared) history.ComparedRun {
		return history.ComparedRun{Compared: of, Path: paths[i], RecordingFailed: runs[i].Marked, Identity: history.Identify(runs[i])}
	}
	shown := history.Comparison{Comparison: c, A: side(0, c.A), B: side(1, c.B),
		Differences: append([]string{}, differences...), Rehearsal: runs[0].Manifest.Rehearsal || runs[1].Manifest.Rehearsal}
	signer := firstOf(untrusted...)
	shown.SignerTrusted = signer == nil
	if asJSON {
		err = a.printJSON(shown)
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
		return nil, fail(exitEvidence, fmt.Errorf("%s: %w", path, err), "compare takes finished runs as gaia left them: give another copy, or another run")
	case err != nil:
		return nil, err
	case !found.Complete:
		return nil, firstOf(a.checkSigner(found), incomplete(path, found))
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
		out = "rehearsal: " + rehearsalNote + "\n\n"
	case c.A.Rehearsal:
		out = "rehearsal: A is of " + rehearsalNote + "\n\n"
	case c.B.Rehearsal:
		out = "rehearsal: B is of " + rehearsalNote + "\n\n"
	}
	for _, side := range []struct {
		name string
		history.ComparedRun
	}{{"A", c.A}, {"B", c.B}} {
		if side.RecordingFailed != "" {
			out += fmt.Sprintf("recording failed: %s went on without evidence: %s\n\n", side.name, oneLine(side.RecordingFailed))
		}
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n\n", out, history.ComparisonTable(c)); err != nil {
		return err
	}
	if err := a.printRows(history.ComparisonRows(c)); err != nil || len(c.Flips) == 0 {
		return err
	}
	t := view.NewTable("flipped", "level", "A", "B")
	for _, f := range c.Flips {
		t.Row(oneLine(f.TaskID), f.Level, f.From, f.To)
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
			return a.trend(args, by, history.Query{Verify: anew}, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", history.ByWeek, "day or week")
	f.BoolVar(&asJSON, "json", false, "print the rows as JSON, with all regressions")
	f.BoolVar(&anew, "verify", false, "verify all runs anew")
	completeFixed(cmd, "by", history.ByDay, history.ByWeek)
	return cmd
}

// trendResult is what trend prints with --json.
type trendResult struct {
	Buckets []history.TrendBucket `json:"buckets"` // by time
	By      string                `json:"by"`
	history.Shortfall
	Rehearsal bool `json:"rehearsal,omitzero"` // some of them are
	Runs      int  `json:"runs"`
}

func (a *app) trend(paths []string, by string, q history.Query, asJSON bool) error {
	all := history.Trend{By: by}
	read, err := a.eachRun(paths, q, func(s history.Run) error { return all.Add(s.RunStats) })
	if err != nil {
		return err
	}
	if read.Runs == 0 {
		if err := read.End(nil); err != nil {
			return err
		}
		return fail(exitIncomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
	}
	result := trendResult{Buckets: all.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	result.Rehearsal = slices.ContainsFunc(result.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal })
	show := a.printTrend
	if asJSON {
		show = func(r trendResult) error { return a.printJSON(r) }
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
		out = "rehearsal: the rows that say so are of " + rehearsalNote + "\n\n"
	case r.Rehearsal:
		out = "rehearsal: " + rehearsalNote + "\n\n"
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
		below += fmt.Sprintf("\nof %s%s\n%s", counted(r.Runs, "run"), r.Unread(), r.Unrecorded())
	}
	_, err := fmt.Fprint(a.stdout, below)
	return err
}
