package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/verify"
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
			if err := notEmpty(cmd, "hmac-key-file"); err != nil {
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
	rundir.Tally
	runs       int
	bundles    int
	rehearsal  bool
	unscored   bool        // a task was answered, and has no gold answer
	unrecorded [][2]string // runs that went on without evidence: id and why
	checked    bool        // the bundles' MACs
	untrusted  error       // runs are by keys that the user does not trust; nil: none
}

func (a *app) scorecard(paths []string, s scoring) error {
	bundles, err := areBundles(paths)
	if err != nil {
		return err
	}
	var found scored
	if bundles {
		err = found.readBundles(paths, s.hmacKey)
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

// areBundles tells witness bundles and folders of them from runs, packages and
// archives; what is neither, or some of both, is a matter of usage.
func areBundles(paths []string) (bool, error) {
	kinds := map[bool]string{}
	for _, path := range paths {
		is, err := isBundle(path)
		if err != nil {
			return false, err
		}
		kinds[is] = cmp.Or(kinds[is], path)
	}
	if len(kinds) > 1 {
		return false, usage("give them one after another", "%q is of witness bundles and %q is not: they do not tell the same, and are not counted together", kinds[true], kinds[false])
	}
	return kinds[true] != "", nil
}

const wantScored = "give run directories, full packages, their archives or folders that hold some, or else witness bundles (" + witnessSuffix + ") and folders of them"

// isBundle tells a witness bundle, or a folder that holds such and is no run, from
// what runs are read from.
func isBundle(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	case err != nil:
		return false, usage(wantScored, "reading %q: %v", path, unwrapPath(err))
	case !info.IsDir() && strings.HasSuffix(path, witnessSuffix): // by its name, since there may be thousands
		return true, nil
	case verify.IsPackage(path): // an archive, too
		return false, nil
	case !info.IsDir():
		return false, usage(wantScored, "%q is neither a package's archive nor called as a witness bundle", path)
	}
	if verify.IsRun(path) == nil {
		return false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("reading the folder %q: %w", path, unwrapPath(err))
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), witnessSuffix) }), nil
}

// readRuns verifies runs and counts their tasks. Nothing is counted where one of them
// does not verify, or is not finished though the user named it.
func (a *app) readRuns(found *scored, paths []string) error {
	read, err := a.eachRun(paths, history.Query{Verify: true, Live: true}, func(s history.Run) error {
		found.runs++
		found.rehearsal = found.rehearsal || s.Rehearsal
		found.unscored = found.unscored || slices.ContainsFunc(s.Tasks, func(t rundir.TaskStats) bool { return t.Outcome == trajectory.Unscored })
		if s.RecordingFailed != "" {
			found.unrecorded = append(found.unrecorded, [2]string{s.RunID, s.RecordingFailed})
		}
		if err := found.AddRun(s.RunStats); err != nil {
			return fmt.Errorf("%s: %w", quoteArg(s.Path), err)
		}
		return nil
	})
	if f := (*failure)(nil); history.IsPathError(err) && errors.As(err, &f) {
		return fail(f.Code, f.Err, wantScored)
	}
	found.untrusted = read.UntrustedErr
	if read.FailedErr != nil {
		err = cmp.Or(err, read.End(nil))
	}
	if err == nil && found.runs == 0 {
		return usage(wantScored, "there is no finished run to count")
	}
	return err
}
