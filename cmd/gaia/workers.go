package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/workers"
	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	s, o := &runflags.Settings{}, workers.Network{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Give the tasks of a plan to workers, and merge what they do",
		Long: `Serve gives the tasks of a plan folder to 'gaia worker' processes and copies their
journals. When all tasks are claimed it merges, grades, seals and signs one run.
Stopped or killed, it continues when it is started again. --rpm and --max-cost of
the plan hold for all workers together. Off loopback it needs TLS and the public
NKey of each machine that may work: see 'gaia worker --new-key'.`,
		Example: `  gaia serve --plan plan
  gaia serve --plan plan --listen 10.0.0.5:4222 \
      --tls-cert c.pem --tls-key k.pem --worker-key UABC…
  gaia serve --plan plan --nats tls://nats.example:4222 --nkey server.nk`,
		Args: cli.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), s, o) },
	}
	f := cmd.Flags()
	s.AddRateFlags(cmd)
	for _, name := range []string{"rpm", "tpm", "approve", "cassette"} {
		f.Lookup(name).Hidden = true // of the plan
	}
	runflags.AddDataset(cmd, &s.Source, "where the tasks are, if not where the plan says", "source")
	cli.Section(f, cli.TaskFlags)
	f.StringVar(&s.BaseURL, "base-url", "", "`URL` of the judge, if not that of the plan")
	cli.Section(f, cli.ModelFlags)
	f.StringVar(&s.PlanDir, "plan", "plan", "plan `folder` that 'gaia plan' wrote, with its .private beside it")
	o.AddServerFlags(f)
	cli.Section(f, cli.MachineFlags)
	f.StringVarP(&s.Runs, "out", "o", "runs", "`directory` for run directories")
	f.BoolVar(&s.AsJSON, "json", false, "print the result as JSON")
	cli.Section(f, cli.OutputFlags)
	cli.CompleteDirs(cmd, "plan")
	cli.CompleteDirs(cmd, "out")
	return cmd
}

func (a *app) serve(ctx context.Context, s *runflags.Settings, o workers.Network) error {
	f, err := planfolder.Open(s.PlanDir)
	if err != nil {
		return err
	}
	key, err := a.user().ExistingKey(s.Key)
	if err != nil {
		return err
	}
	salts, err := f.Salts()
	if err != nil {
		return err
	}
	if err := a.takeFolder(s, f, plan.Delegation{}); err != nil {
		return err
	}
	s.Folder = nil // what is merged is a whole run
	if _, err := os.Lstat(filepath.Join(s.Runs, f.Plan.RunID)); err == nil {
		return a.resume(ctx, filepath.Join(s.Runs, f.Plan.RunID), s)
	}
	list, folders, remove, err := workers.Serve(ctx, f, key, s.Runs, o, workers.Terminal{Out: a.stderr, TTY: a.tty, Verbose: s.Verbose})
	if err != nil {
		return err
	}
	if err := a.begin(ctx, s, func(w equip.World) (*run.Run, error) {
		return run.CreateMerged(s.Runs, run.Merged{Signed: f.Signed(), Files: os.DirFS(f.Dir), Given: s.Plan, Salts: salts, Shards: list, Folders: folders}, w.Env)
	}); err != nil {
		return err
	}
	return remove()
}

func (a *app) workerCommand() *cobra.Command {
	s, o, trusted, newKey := &runflags.Settings{}, workers.Network{}, trustFlags{}, ""
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Do tasks for a 'gaia serve'",
		Long: `Worker joins a 'gaia serve' and does tasks until none is left. The plan comes from
the server; you must trust the key that signed it: your own, or one of 'gaia key
trust' or --trusted-key. Keys of models stay on this machine. While the server is
gone it waits. The first SIGTERM or Ctrl-C finishes the tasks under way and
leaves, the second stops at once.`,
		Example: `  gaia worker --join nats://127.0.0.1:4222
  gaia worker --new-key worker.nk
  OPENAI_API_KEY=… gaia worker --join tls://10.0.0.5:4222 \
      --nkey worker.nk --ca ca.pem --dataset dir:GAIA`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if newKey != "" {
				return workers.NewKey(newKey, a.stdout)
			}
			return a.worker(cmd.Context(), s, o, trusted)
		},
	}
	f := cmd.Flags()
	s.AddRateFlags(cmd)
	for _, name := range []string{"key", "rpm", "tpm", "approve", "recheck", "on-unsubmittable"} {
		f.Lookup(name).Hidden = true // of the server, or of the plan
	}
	runflags.AddDataset(cmd, &s.Source, "where the tasks are here, if not where the plan says", "source")
	cli.Section(f, cli.TaskFlags)
	f.StringVar(&s.BaseURL, "base-url", "", "`URL` of the model, if not that of the plan")
	cli.Section(f, cli.ModelFlags)
	f.StringVar(&s.SearXNG, "searxng-url", "", "`URL` of SearXNG, if not that of the plan")
	cli.Section(f, cli.AgentFlags)
	trusted.register(cmd)
	cli.Section(f, cli.EvidenceFlags)
	o.AddClientFlags(f)
	f.StringVar(&newKey, "new-key", "", "write a new NKey to this `file`, print its public half for --worker-key, and end")
	cli.Section(f, cli.MachineFlags)
	f.StringVarP(&s.Runs, "out", "o", "", "`folder` of the worker (default: runs/.worker-KEY, another one each time)")
	f.BoolVar(&s.AsJSON, "json", false, "print the result as JSON")
	cli.Section(f, cli.OutputFlags)
	return cmd
}

func (a *app) worker(ctx context.Context, s *runflags.Settings, o workers.Network, trusted trustFlags) error {
	trust, err := a.trustedKeys(trusted)
	if err != nil {
		return err
	}
	r, err := workers.Work(ctx, o, workers.Terminal{Out: a.stderr, TTY: a.tty, Verbose: s.Verbose}, s.Runs, func(key sign.PublicKey) error {
		_, err := trust.Of(key)
		return err
	}, func(ctx context.Context, f *planfolder.Folder) (plan.Plan, run.Env, func() error, error) {
		if err := a.takeFolder(s, f, plan.Delegation{}); err != nil {
			return plan.Plan{}, run.Env{}, nil, err
		}
		w, err := a.user().Configure(ctx, s)
		return s.Plan, w.Env, w.Close, err
	})
	if err != nil {
		return err
	}
	return view.Result(a.stdout, s.AsJSON, r, r.Text())
}
