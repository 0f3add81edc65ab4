package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/rundir"
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
		Short: "Count solved tasks, broken rules and costs",
		Long: `Scorecard counts tasks: solved or not, rules broken, rollbacks, cost, latency, tokens,
retries, and the share of solved tasks with complete evidence. It reads runs, full
packages, their archives and folders of them, or witness bundles (.rvw) and folders
of them. What a bundle of another program lacks is null. A run that is given twice is
counted once.

Several runs are ranked by their solve rate, each with the difference from the next
one if both are of the same tasks; the card below is the sum of all.

Violations are broken rules and tools on the deny list. Denials by mode and by budget,
and calls that a person refused, are counted separately.

--accept compares the card with thresholds. Exit code 3: a threshold is missed, a
value is unknown, a run continued without evidence, or tasks had different policies or
rules.`,
		Example: `  gaia scorecard runs/01J…
  gaia scorecard runs/ --json
  gaia scorecard runs/01J… --accept --min-solve-rate 0.75
  gaia scorecard bundles/ --hmac-key-file shared.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
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
	cli.RejectEmpty(cmd, "hmac-key-file")
	f := cmd.Flags()
	f.BoolVar(&s.asJSON, "json", false, "print the card as JSON")
	f.BoolVar(&s.accept, "accept", false, "exit with 3 if a threshold is missed")
	f.Var((*fraction)(&s.want.SolveRate), "min-solve-rate", "with --accept: minimum share of solved tasks")
	f.IntVar(&s.want.Violations, "max-violations", 0, "with --accept: maximum of violations")
	f.Var((*fraction)(&s.want.EvidenceCoverage), "min-evidence-coverage", "with --accept: minimum share of solved tasks with complete evidence")
	f.Var((*fraction)(&s.want.RollbackCorrectness), "min-rollback-correctness", "with --accept: minimum share of rollbacks proven correct")
	f.BoolVar(&s.want.MixedPolicies, "mixed-policies", false, "with --accept: allow different policies or rules")
	f.StringVar(&s.hmacKey, "hmac-key-file", "", "check that all bundles are signed with the key in this file")
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

func (a *app) scorecard(paths []string, s scoring) error {
	bundles, err := witnessfile.AllBundles(paths)
	if err != nil {
		return err
	}
	card := &ledger.Card{}
	if bundles {
		if s.hmacKey != "" {
			key, err := keyring.Shared(s.hmacKey)
			if err != nil {
				return err
			}
			card.Key = &key
		}
		err = card.AddPaths(paths)
	} else if s.hmacKey != "" {
		err = usage("leave it out: runs and packages are signed by the key of their plan", "--hmac-key-file is for witness bundles")
	} else if r, failed := a.runReader(); failed != nil {
		err = failed
	} else {
		card, err = r.Card(paths)
	}
	if err != nil {
		return err
	}
	var want *rundir.Thresholds
	if s.accept {
		want = &s.want
	}
	result := card.Result(want)
	err = view.Result(a.stdout, s.asJSON, result, card.Text(result))
	return cmp.Or(err, exit.First(card.Untrusted, result.Err()))
}

func (a *app) compareCommand() *cobra.Command {
	var asJSON, differentPlans bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs, task by task",
		Long: `Compare verifies two finished runs, each a run directory, a full package or its
archive, and pairs their tasks: how many both, one or neither solved, which verdicts
differ, the difference in cost, and whether the difference may be chance.

Outcomes are the official scorer's. The p-value is of the exact two-sided McNemar
test. The 95 % interval of the difference of the solve rates is the percentile
interval of the bootstrap over the pairs, counted exactly. Runs of different plans are
refused unless --different-plans compares the tasks that ask the same in both.`,
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
	var untrusted []error
	for i, path := range paths {
		found, err := a.finishedRun(path)
		if err != nil {
			return err
		}
		if runs[i] = found; i == 0 || !runs[0].Key.Equal(found.Key) {
			untrusted = append(untrusted, a.checkSigner(found))
		}
	}
	c, err := ledger.Compare(runs, [2]string(paths), differentPlans)
	if err != nil {
		return err
	}
	signer := exit.First(untrusted...)
	c.SignerTrusted = signer == nil
	return cmp.Or(view.Result(a.stdout, asJSON, c, c.Text()), signer)
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
		return nil, fail(exit.Evidence, fmt.Errorf("%s: %w", path, err), "give another copy, or another run: only finished runs as gaia left them are read")
	case err != nil:
		return nil, err
	case !found.Complete:
		return nil, exit.First(a.checkSigner(found), incomplete(path, found))
	}
	return found, nil
}

func (a *app) trendCommand() *cobra.Command {
	var by, draw string
	var asJSON, costs, verifyAll bool
	cmd := &cobra.Command{
		Use:   "trend PATH…",
		Short: "Show by day or week whether runs get better",
		Long: `Trend verifies finished runs and counts them by the day or the ISO week, in UTC, in
which they began: tasks, solved, cost and tokens per solved task, retries, guidance,
model, and regressions. A regression is a task that the previous run with it solved,
and this one did not. Rehearsals have separate rows. Runs without gold answers count
neither for solved tasks nor for regressions.

Runs that were verified before and are unchanged are not read again; --verify reads
all. Runs that do not verify are named and left out, exit code 4.

--costs prints a line of JSON for each run instead, to append to a file: tasks, solved,
cost and tokens, with the digests of the run. It prints nothing if a run does not
verify or is by a key that you do not trust. --draw draws the cost per task and per
solved task in such a file as SVG; the lines themselves are not verified.`,
		Example: `  gaia trend runs
  gaia trend runs --costs >> costs.jsonl
  gaia trend --draw costs.jsonl > costs.svg
  gaia trend runs submission-2026-01-02-5XK9QZ7M.tar.gz --by day
  gaia trend runs --json | jq '.buckets[].regressions[].task_id'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("draw") {
				return cli.NoArgs(cmd, args)
			}
			return cli.SomeArgs("see 'gaia trend --help'", "trend takes the runs to follow")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "draw"); err != nil {
				return err
			}
			for _, other := range []string{"by", "json", "costs", "verify"} {
				if given := cmd.Flags().Changed; given(other) && (draw != "" || costs && (other == "by" || other == "json")) {
					return usage("leave one of them out", "--%s does not apply to --%s", other, map[bool]string{true: "draw", false: "costs"}[draw != ""])
				}
			}
			if draw != "" {
				return a.write(ledger.DrawCosts(draw))
			}
			if by != history.ByDay && by != history.ByWeek {
				return usage("give day or week", "--by is %q", by)
			}
			return a.trend(args, by, ledger.Query{Verify: verifyAll}, costs, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", history.ByWeek, "day or week")
	f.BoolVar(&asJSON, "json", false, "print the rows as JSON, with all regressions")
	f.BoolVar(&costs, "costs", false, "print a line of JSON for each run, for a cost curve")
	f.StringVar(&draw, "draw", "", "draw the lines of --costs in this file as SVG")
	f.BoolVar(&verifyAll, "verify", false, "verify all runs again")
	cli.Complete(cmd, "by", history.ByDay, history.ByWeek)
	return cmd
}

func (a *app) trend(paths []string, by string, q ledger.Query, costs, asJSON bool) error {
	r, err := a.runReader()
	if err != nil {
		return err
	}
	if costs {
		return a.write(r.Costs(paths, q))
	}
	result, read, err := r.Trend(paths, by, q)
	if err != nil {
		return err
	}
	return cmp.Or(view.Result(a.stdout, asJSON, result, result.Text()), read.End(nil))
}
