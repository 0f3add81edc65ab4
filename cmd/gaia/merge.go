package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/merge"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/spf13/cobra"
)

func (a *app) mergeCommand() *cobra.Command {
	s, lost := &runflags.Settings{}, []string(nil)
	cmd := &cobra.Command{
		Use:   "merge SHARD…",
		Short: "Make one run of the shards of a plan",
		Long: `Merge verifies the folders of shards that 'gaia run --plan --shard' wrote, copies
their journals into one run directory, grades the answers and signs the run. A
SHARD is such a folder, or one that holds several.

While a shard is missing or not done, nothing is written (exit code 5). If a shard
ran twice, give both: the journal that began first counts as a whole, the other
one stays in the run as superseded. --lost names journals that are gone: their
tasks count as wrong, and the audit has a finding for each.

Merge needs the salts in PLAN.private beside the plan folder, the tasks and the
plan's key. The same command, or 'gaia resume', continues an interrupted merge.`,
		Example: `  gaia merge shards/* -o runs
  gaia merge shards --plan plan --lost 3,7-9
  gaia merge shards --plan plan --dataset dir:GAIA --json`,
		Args: cli.SomeArgs("gaia merge shards", "no folder of a shard is given"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(cli.NotEmpty(cmd, "key", "cassette", "settings", "approve", "plan", "out"), s.CheckGoing()); err != nil {
				return err
			}
			return a.merge(cmd, args, lost, s)
		},
	}
	s.AddMergeFlags(cmd, &lost)
	return cmd
}

// merge makes the run of the shards in some folders, or continues that.
func (a *app) merge(cmd *cobra.Command, folders, lost []string, s *runflags.Settings) error {
	shown := time.Now()
	m, err := merge.Prepare(s.PlanDir, s.Runs, folders, lost, func(_ string, done, of int) {
		if time.Since(shown) > 2*time.Second {
			shown = time.Now()
			fmt.Fprintf(a.stderr, "gaia: %d of %d journals verified\n", done, of)
		}
	})
	if err != nil {
		return err
	}
	if s.TakeMerge(m.Plan); m.Begun {
		return a.resume(cmd.Context(), m.Place, s)
	}
	if err := a.goOn(s, m.Plan.Plan); err != nil {
		return err
	}
	var made *run.Run
	err = a.begin(cmd.Context(), s, func(w equip.World) (_ *run.Run, err error) {
		given := m
		m = merge.Merge{} // what is large in it is not held to the end
		made, err = run.CreateMerged(s.Runs, run.Merged{Signed: given.Plan.Signed(), Files: os.DirFS(given.Plan.Dir), Given: s.Plan, Salts: given.Salts, Shards: given.Shards, Folders: given.Folders}, w.Env)
		return made, a.notResumed(err, "gaia merge")
	})
	if made != nil {
		if unspent := merge.Unspent(made.State().Fold); unspent != "" {
			a.warn(unspent)
		}
	}
	return err
}
