package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) planCommand() *cobra.Command {
	s := &runflags.Settings{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Sign a plan that several machines run in shards",
		Long: `Plan writes a folder with the signed plan of a run and one key for each shard.
'gaia run --plan DIR --shard I/N' then runs a shard, on any machine that has the
folder and the tasks; 'gaia merge' makes one run of all shards and grades it. No
model is asked anything.

--max-cost is divided by number of tasks, --rpm and --tpm likewise. Gold answers
and salts stay out of the folder: DIR.private, beside it, has the salts, which
only merging needs. See docs/many-machines.md.`,
		Example: `  gaia plan --shards 4 -o plan         rehearse, offline
  OPENAI_API_KEY=… gaia plan --dataset dir:GAIA --model gpt-4o \
      --max-cost 200 --shards 64 -o plan
  gaia plan --like runs/01J… --shards 8 -o plan`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(cli.NotEmpty(cmd, unemptied()...), s.CheckPlanFlags(cmd.Flags())); err != nil {
				return err
			}
			file, err := settings.Open(s.File)
			if err != nil {
				return err
			}
			return file.Point(a.plan(cmd, s, file))
		},
	}
	s.AddPlanFlags(cmd)
	return cmd
}

// plan plans a run as run --dry-run does, signs the plan, and writes its folder.
func (a *app) plan(cmd *cobra.Command, s *runflags.Settings, file *settings.File) error {
	if err := cmp.Or(a.settle(cmd, s, file), s.CheckPlanned()); err != nil {
		return err
	}
	ctx, release := stop.Context(cmd.Context())
	defer release()
	a.user().TellNews(&s.Tasks)
	w, err := a.user().Configure(ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := s.CheckShards(len(w.Set.Tasks)); err != nil {
		return err
	}
	signed, salts, err := run.Sign(s.Plan, w.Env)
	if err != nil {
		return cmp.Or(runflags.NotPlanned(err, s.Plan.Budgets.RunCostMicroUSD), err)
	}
	parts, err := s.PlanParts()
	if err != nil {
		return err
	}
	parts.Plan, parts.Manifest, parts.Envelope, parts.AgentFiles = signed.Plan, signed.Manifest, signed.Envelope, w.AgentFiles
	parts.Salts, parts.Key, parts.Rand, parts.Redact = salts, w.Key, w.Rand, w.Redact
	if err := planfolder.Write(s.PlanDir, parts); err != nil {
		return cmp.Or(runflags.NotPlanned(err, 0), err)
	}
	f, err := planfolder.Open(s.PlanDir)
	if err != nil {
		return err
	}
	a.announcePlan(f.Plan, s)
	if err := a.compareWith(s, f.Plan); err != nil {
		return err
	}
	r := f.Result(s.PlanDir)
	return view.Result(a.stdout, s.AsJSON, r, r.Text())
}

// runShard runs or resumes one shard of a plan folder.
func (a *app) runShard(cmd *cobra.Command, s *runflags.Settings) error {
	f, index, err := s.OpenShard(cmd.Flags(), a.getenv)
	if err != nil {
		return err
	}
	d, envelope, key, err := f.Shard(index, s.ShardKey)
	if err != nil {
		return err
	}
	if err := a.takeFolder(s, f, d); err != nil {
		return err
	}
	dir, begin := f.ShardDir(s.Runs, index), run.CreateShard
	if _, err := os.Lstat(dir); err == nil {
		begin = run.ResumeShard
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, trajectory.CheckpointFile)); err == nil { // most likely the shard is finished
		found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
		if err != nil {
			return err
		}
		if found.ShardDone && found.ManifestSHA256 == f.ManifestSHA256 && found.Shard.Shard == d.Shard {
			return a.nothingToDo(dir, s)
		}
	}
	return a.begin(cmd.Context(), s, func(w equip.World) (*run.Run, error) {
		r, err := begin(dir, run.Signed{Plan: s.Plan, Manifest: f.Manifest, Envelope: f.Envelope}, run.Part{Delegation: d, Envelope: envelope, Key: key}, w.Env)
		return r, a.notResumed(err, s.ResumeLine(dir))
	})
}

// takeFolder settles a shard or worker by a plan folder, as resume settles a run by its plan.
func (a *app) takeFolder(s *runflags.Settings, f *planfolder.Folder, d plan.Delegation) error {
	s.TakeFolder(f, d)
	return a.goOn(s, f.Plan)
}
