package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
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
	shown := comparison{Comparison: c, A: comparedRun{c.A, paths[0], runs[0].Marked, identified(runs[0])}, B: comparedRun{c.B, paths[1], runs[1].Marked, identified(runs[1])},
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
	return run.Differences(a.Unsalted(), b.Unsalted())
}

// comparison is what compare prints with --json.
type comparison struct {
	stats.Comparison
	A           comparedRun `json:"a"`
	B           comparedRun `json:"b"`
	Differences []string    `json:"differences"` // of the plans
	Rehearsal   bool        `json:"rehearsal,omitzero"`

	SignerTrusted bool `json:"signer_trusted"` // of both runs
}

type comparedRun struct {
	stats.Compared
	Path            string `json:"path"`
	RecordingFailed string `json:"recording_failed,omitzero"` // why, where the run went on without evidence
	identity
}

// identity says which run is compared, and what it was under.
type identity struct {
	GuidanceHash   string `json:"guidance_hash"`
	ManifestSHA256 string `json:"manifest_sha256"`
	Model          string `json:"model"`
	PolicyHash     string `json:"policy_hash"`
	PolicyMode     string `json:"policy_mode"`
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	SignedBy       string `json:"signed_by"` // id of the key
	Started        string `json:"started"`
	Version        string `json:"version"` // of the program
}

func identified(r *rundir.Run) identity {
	m := r.Manifest
	return identity{GuidanceHash: m.GuidanceHash, ManifestSHA256: r.ManifestSHA256, Model: m.Model.Name, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode,
		Rehearsal: m.Rehearsal, RunID: m.RunID, SignedBy: r.Key.ID(), Started: r.Summary().Started, Version: m.Harness.Version}
}
