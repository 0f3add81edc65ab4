package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/examples/agents"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/trial"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) agentCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "agent",
		Short: "Begin with an agent of your own, try it, check it",
		Long: `An agent of your own is a folder with an executable named agent, in any language.
It reads a question, asks models and tools at addresses that its environment has,
and answers. "gaia run --agent DIR" lets it solve the tasks, recorded from outside.
docs/agents.md has the contract, and agents of some 15 lines.`,
		Example: `  gaia agent init smolagents           copy a recipe into the folder smolagents
  gaia agent doctor ./my-agent         check the folder, and what the agent uses
  gaia agent try ./my-agent            one rehearsal task, and what was seen`,
	}, a.agentListCommand(), a.agentInitCommand(), a.agentTryCommand(), a.agentDoctorCommand())
}

func (a *app) agentListCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the recipes",
		Example: "  gaia agent list",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := agents.List()
			if err != nil {
				return err
			}
			t := view.NewTable("recipe", "what")
			for _, r := range all {
				t.Row(r.Name, r.Summary)
			}
			return view.Result(a.stdout, asJSON, all, t.String()+"\n")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) agentInitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init NAME [DIR]",
		Short: "Copy a recipe into a new folder",
		Long: `Init copies the files of a recipe, which runs an agent of another project. DIR is
the name of the recipe unless it is given. The script install in the folder then
fetches the agent, in pinned versions, into the folder.`,
		Example: `  gaia agent init codex
  gaia agent init smolagents ./my-agent
  gaia agent list                      the names`,
		Args: cli.Args(1, 2, "the name of a recipe and perhaps a folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			next, err := agents.Copy(args[0], args[len(args)-1])
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.stdout, next)
			return err
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if all, _ := agents.List(); len(args) == 0 {
			for _, r := range all {
				names = append(names, cobra.CompletionWithDesc(r.Name, r.Summary))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}

// rehearsal is one task of the rehearsal, solved by an own agent.
type rehearsal struct {
	*app
	task, file string
	asJSON     bool
}

func (x *rehearsal) command(cmd *cobra.Command, run func(context.Context, string, *settings.File) error) *cobra.Command {
	cmd.Args = cli.Args(0, 1, "the agent's folder")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.NotEmpty(cmd, "task", "settings"); err != nil {
			return err
		}
		file, err := settings.Open(x.file)
		if err != nil {
			return err
		}
		ctx, release := stop.Context(cmd.Context())
		defer release()
		return run(ctx, strings.Join(args, ""), file)
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	f := cmd.Flags()
	f.StringVar(&x.task, "task", "fab1e001", "id of a built-in task, or its beginning")
	f.StringVar(&x.file, "settings", "", "settings file, read only for its agent block (default: gaia.yaml)")
	f.BoolVar(&x.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) agentTryCommand() *cobra.Command {
	x := &rehearsal{app: a}
	return x.command(&cobra.Command{
		Use:   "try [DIR]",
		Short: "Let an agent solve one rehearsal task, and show what was seen",
		Long: `Try runs one built-in task through the same path as "gaia run --agent": sandbox,
recorded model calls, tools behind the Gate. The model is scripted and nothing
leaves this machine. It prints calls, tools, refused requests, the answer and how
it was given, and explains an attempt without one. Nothing is kept.

DIR is the folder of the agent block in gaia.yaml unless it is given. Exit code 0
means that the agent answered, 3 that it did not.`,
		Example: `  gaia agent try ./my-agent
  gaia agent try ./my-agent --task fab1e008   a task with a spreadsheet
  gaia agent try --json`,
	}, func(ctx context.Context, folder string, file *settings.File) error {
		r, err := x.rehearse(ctx, folder, file)
		if err != nil {
			return err
		}
		if err := view.Result(x.stdout, x.asJSON, r, r.Text()); err != nil || r.Outcome == trajectory.Answered {
			return err
		}
		return fail(exit.Findings, errors.New("the agent gave no answer"))
	})
}

func (a *app) agentDoctorCommand() *cobra.Command {
	x := &rehearsal{app: a}
	return x.command(&cobra.Command{
		Use:   "doctor [DIR]",
		Short: "Check the folder of an agent, and what the agent uses",
		Long: `Doctor looks at the agent's folder: the program and its interpreter, libraries,
links that lead out, folders to plan. If nothing fails there, it lets the agent
solve one built-in task, as "gaia agent try" does, and prints what it used.

"missing" is optional: exit code 0. "failed" keeps the agent from answering:
exit code 3.`,
		Example: `  gaia agent doctor ./my-agent
  gaia agent doctor ./my-agent --json`,
	}, func(ctx context.Context, folder string, file *settings.File) error {
		own, err := file.OwnAgent(settings.AgentFlags{Folder: folder}, plan.Plan{}, false)
		if err != nil {
			return err
		}
		if own == nil {
			return usage("give it: gaia agent doctor DIR", "no folder of an agent is named")
		}
		report := doctor.NewReport(trial.Check(*own), true)
		if len(report.Failures()) == 0 {
			r, err := x.rehearse(ctx, folder, file)
			if err != nil {
				return err
			}
			report = doctor.NewReport(append(report.Findings, r.Observed()...), true)
		}
		err = view.Result(x.stdout, x.asJSON, report, report.Text())
		if failed := report.Failures(); err == nil && len(failed) > 0 {
			err = fail(exit.Findings, fmt.Errorf("checks failed: %s", strings.Join(failed, ", ")))
		}
		return err
	})
}

// rehearse runs the task in a temporary place, with nothing of the user's but the agent and the settings of it.
func (x *rehearsal) rehearse(ctx context.Context, folder string, file *settings.File) (trial.Report, error) {
	var r trial.Report
	dir, err := os.MkdirTemp("", "gaia-try-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	quiet := *x.app
	quiet.stdin, quiet.stdout, quiet.stderr, quiet.tty, quiet.asks = strings.NewReader(""), io.Discard, io.Discard, false, false
	quiet.getenv = func(name string) string {
		switch name {
		case "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME":
			return filepath.Join(dir, name)
		case "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "SEARXNG_URL", "GAIA_SIGNING_KEY", "GAIA_SIGNING_KEY_FILE":
			return ""
		}
		return x.getenv(name)
	}
	if file != nil {
		file = &settings.File{Name: file.Name, Agent: file.Agent}
	}
	s, cmd := &runflags.Settings{}, &cobra.Command{}
	cmd.SetContext(ctx)
	s.AddRunFlags(cmd)
	set, _, err := quiet.user().LoadTasks(ctx, runflags.Tasks{Source: runflags.SourceFixtures, Split: string(loader.Validation)})
	if err != nil {
		return r, err
	}
	task, err := tasklist.Named(set, []string{x.task})
	if err != nil {
		return r, err
	}
	flags := []string{"--dataset", runflags.SourceFixtures, "--task", task[0].ID, "--no-preflight", "--out", filepath.Join(dir, "runs")}
	if folder != "" {
		flags = append(flags, "--agent", folder)
	} else if file == nil || file.Agent == nil {
		return r, usage("give it: gaia agent try DIR", "no folder of an agent is named")
	}
	if err := cmd.ParseFlags(flags); err != nil {
		return r, err
	}
	if file != nil && file.Agent != nil { // the run below knows no keys to compare with
		if _, err := settings.AgentEnv(file.Agent.Env, x.getenv, x.getenv("OPENAI_API_KEY"), x.getenv("ANTHROPIC_API_KEY")); err != nil {
			return r, err
		}
	}
	failed := quiet.run(cmd, s, file)
	made, err := filepath.Glob(filepath.Join(dir, "runs", "*", trajectory.JournalFile))
	if err != nil || len(made) != 1 || ctx.Err() != nil {
		return r, cmp.Or(failed, err, ctx.Err())
	}
	if r, err = trial.Read(os.DirFS(filepath.Dir(made[0]))); err != nil {
		return r, cmp.Or(failed, err)
	}
	return r, nil
}
