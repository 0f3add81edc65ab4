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

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/spf13/cobra"
)

// scoring is how a scorecard is asked for.
type scoring struct {
	asJSON, accept bool
	hmacKey        string
	want           ledger.Thresholds
}

func (a *app) scorecardCommand() *cobra.Command {
	s := scoring{want: ledger.DefaultThresholds()}
	cmd := &cobra.Command{
		Use:   "scorecard DIR…|FILE.rvw…",
		Short: "Say what it cost to be right, and how often rules were broken",
		Long: `Scorecard counts tasks: solved or not, rules broken, rollbacks, cost, latency,
tokens, retries, and how much of what is solved has complete evidence. It takes
runs, full packages and their archives, which it verifies first, or else witness
bundles (.rvw) and folders of them, but not both: bundles do not tell of
rollbacks, so that their number is null, and of rules only what their traces say
was denied.

--accept holds the card against thresholds, each of which has a flag, and exits
with 3 where one is missed. What is not known misses. The MACs of bundles are
checked with --hmac-key-file only; all must then be signed with that key.`,
		Example: `  gaia scorecard runs/01J…
  gaia scorecard runs/01J… runs/01K… --json
  gaia scorecard runs/01J… --accept --min-solve-rate 0.75
  gaia scorecard bundles/ --hmac-key-file shared.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			if len(args) == 0 {
				return usage("see 'gaia scorecard --help'", "scorecard takes runs, or witness bundles")
			}
			for _, name := range []string{"min-solve-rate", "max-violations", "min-evidence-coverage", "min-rollback-correctness"} {
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
	f.IntVar(&s.want.Violations, "max-violations", 0, "with --accept: rules broken, at most")
	f.Var((*fraction)(&s.want.EvidenceCoverage), "min-evidence-coverage", "with --accept: solved tasks with complete evidence of the solved, at least")
	f.Var((*fraction)(&s.want.RollbackCorrectness), "min-rollback-correctness", "with --accept: rollbacks proven to be right of all, at least")
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
	ledger.Tally
	runs      int
	bundles   int
	rehearsal bool
	checked   bool // the bundles' MACs
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

// isBundle tells a witness bundle, or a folder that holds such and is nothing else,
// from a run, a package or an archive.
func isBundle(path string) (bool, error) {
	const hint = "give run directories, full packages, archives, or witness bundles (" + witnessSuffix + ") and folders of them"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	case err != nil:
		return false, usage(hint, "reading %q: %v", path, unwrapPath(err))
	case !info.IsDir() && strings.HasSuffix(path, witnessSuffix): // by its name, since there may be thousands
		return true, nil
	case isPackage(path): // an archive, too
		return false, nil
	case !info.IsDir():
		return false, usage(hint, "%q is neither a package's archive nor called as a witness bundle", path)
	}
	notRun := isRun(path)
	if notRun == nil {
		return false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("reading the folder %q: %w", path, unwrapPath(err))
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), witnessSuffix) }) {
		return false, usage(hint, "%q is no run directory and holds no witness bundles", path)
	}
	return true, nil
}

// readRuns verifies runs and counts their tasks. All are looked at; of what is wrong
// with them, the gravest is told.
func (a *app) readRuns(found *scored, paths []string) error {
	seen := map[string]string{} // run id → path
	var worst *failure
	for _, path := range paths {
		run, err := a.countRun(path)
		if err == nil && seen[run.Manifest.RunID] != "" {
			err = usage("give each run once", "%q and %q are the same run", seen[run.Manifest.RunID], path)
		}
		if err == nil {
			seen[run.Manifest.RunID] = path
			found.runs++
			found.rehearsal = found.rehearsal || run.Manifest.Rehearsal
			err = found.AddRun(run.Fold)
		}
		if err == nil {
			continue
		}
		if len(paths) > 1 {
			f := *classify(err)
			f.err = fmt.Errorf("%s: %w", quoteArg(path), f.err)
			err = &f
		}
		if f := classify(err); worst == nil || graver(f.code, worst.code) {
			worst = f
		}
	}
	if worst != nil {
		return worst
	}
	return nil
}

// graver reports whether one exit code goes before another where both hold.
func graver(code, than int) bool {
	order := []int{exitUsage, exitEvidence, exitIncomplete, exitFindings, exitFailure}
	return slices.Index(order, code) < slices.Index(order, than)
}

// countRun verifies a run that is to be counted: a finished one.
func (a *app) countRun(path string) (*ledger.Run, error) {
	given, err := openJournal(path)
	if err != nil {
		return nil, err
	}
	defer given.Close()
	run, err := given.run()
	if err != nil {
		return nil, err
	}
	a.noticeTrust(run)
	if !run.Complete {
		return nil, incomplete(path, run)
	}
	return run, nil
}
