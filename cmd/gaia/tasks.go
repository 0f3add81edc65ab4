package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) tasksCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "tasks",
		Short: "Show the tasks of a dataset, and fetch their attachments",
		Long: `Tasks shows what a run would get: the tasks of one split, the whole text of some,
and counts by level and kind of attachment. It takes the flags that select tasks
for "gaia run", so that you can check a selection before a run.

Answers are shown only with --gold.`,
		Example: `  gaia tasks list --level 1
  gaia tasks show fab1e021
  gaia tasks stats --dataset dir:GAIA --split test
  gaia tasks download --dataset hub`,
	}, a.tasksListCommand(), a.tasksShowCommand(), a.tasksDownloadCommand(), a.tasksStatsCommand())
}

// taskQuery holds the flags of a command on tasks.
type taskQuery struct {
	runflags.Tasks
	asJSON bool
	gold   bool
}

// onTasks adds the flags that select tasks to a command, and with showsGold the one that shows answers. The command
// calls do with the selected tasks. An interrupt ends the context; a second one, the program.
func (a *app) onTasks(cmd *cobra.Command, q *taskQuery, showsGold bool, do func(ctx context.Context, args []string, set loader.Set, gold loader.Gold) error) *cobra.Command {
	q.AddTasks(cmd)
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
	if showsGold {
		cmd.Flags().BoolVar(&q.gold, "gold", false, "also show the answers: keep them out of anything that an agent reads")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := q.CheckTasks(cmd.Flags().Changed); err != nil {
			return err
		}
		if a.user().Rehearses(q.Tasks) {
			q.Source = runflags.SourceFixtures
			fmt.Fprintln(a.stderr, "gaia: built-in tasks; --dataset hub for GAIA")
		}
		q.Source = cmp.Or(q.Source, runflags.SourceHub) // as run does
		if q.Notice == nil {
			a.user().TellNews(&q.Tasks)
		}
		ctx, release := stop.Context(cmd.Context())
		defer release()
		context.AfterFunc(ctx, release)
		set, gold, err := a.user().LoadTasks(ctx, q.Tasks)
		if err != nil {
			return err
		}
		return do(ctx, args, set, gold)
	}
	return cmd
}

// answers returns the answers by task after a warning; nil without --gold, or if the
// split has none.
func (a *app) answers(q *taskQuery, set loader.Set, gold loader.Gold) map[string]string {
	if !q.gold {
		return nil
	}
	if gold.Len() == 0 {
		fmt.Fprintf(a.stderr, "gaia: the answers of split %s are withheld; none is shown\n", set.Split)
		return nil
	}
	a.warnAnswers()
	return gold.Map()
}

func (a *app) warnAnswers() {
	fmt.Fprint(a.stderr, `gaia: warning: these are the answers. Text in terminals and logs ends up
gaia: warning: in training data and in contexts: keep it out of anything that an
gaia: warning: agent or a model reads
`)
}

func (a *app) tasksListCommand() *cobra.Command {
	q := &taskQuery{}
	return a.onTasks(&cobra.Command{
		Use:   "list",
		Short: "List the tasks of a split",
		Long: `List prints a line for each selected task, in the order of the dataset: its id,
its level, its attachment (".csv" is the id followed by .csv) and the beginning
of its question. --gold prints the answer instead of the question; --json prints
both, whole.`,
		Example: `  gaia tasks list
  gaia tasks list --split test --level 2,3
  gaia tasks list --dataset hub --json`,
		Args: cli.NoArgs,
	}, q, true, func(_ context.Context, _ []string, set loader.Set, gold loader.Gold) error {
		answers := a.answers(q, set, gold)
		return view.Result(a.stdout, q.asJSON, tasklist.ListOf(set, q.Filter.Rule(), set.Tasks, answers),
			tasklist.Table(set.Tasks, answers, columns(a.stdout))+"\n\n"+view.RowsText(tasklist.Rows(set, q.Filter.Rule())))
	})
}

func (a *app) tasksShowCommand() *cobra.Command {
	q := &taskQuery{}
	return a.onTasks(&cobra.Command{
		Use:   "show ID…",
		Short: "Show tasks whole",
		Long: `Show prints the whole question of each task, its level, and its attachment with
the path of the file in a copy of the dataset. ID is a task id or the start of
one, among the tasks that the flags select.`,
		Example: `  gaia tasks show fab1e021
  gaia tasks show fab1e021 fab1e009 --json
  gaia tasks show --dataset dir:GAIA --gold 3f2a`,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.user().LocalTasks(cmd), cobra.ShellCompDirectiveNoFileComp
		},
		Args: cli.SomeArgs("'gaia tasks list' lists them", "tasks show takes task ids, or the starts of some"),
	}, q, true, func(ctx context.Context, args []string, set loader.Set, gold loader.Gold) error {
		tasks, err := tasklist.Named(set, args)
		if err != nil {
			return err
		}
		answers := a.answers(q, set, gold)
		return view.Result(a.stdout, q.asJSON, tasklist.ListOf(set, q.Filter.Rule(), tasks, answers),
			tasklist.Text(ctx, set, tasks, answers, runflags.IsHub(q.Source))+view.RowsText(tasklist.Rows(set, q.Filter.Rule())))
	})
}

// columns returns the width of the terminal that w is, and 120 if it is none.
func columns(w io.Writer) int {
	if screen, ok := w.(*view.Screen); ok {
		if width, _, err := term.GetSize(int(screen.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 120
}

func (a *app) tasksStatsCommand() *cobra.Command {
	q := &taskQuery{}
	return a.onTasks(&cobra.Command{
		Use:   "stats",
		Short: "Count the tasks of a split by level and attachment",
		Long: `Stats counts the selected tasks by level and their attachments by level and
ending. It lists the other splits of the dataset, and whether the split has as
many tasks of each level as GAIA declares. The digest is that of the file that
the tasks were read from.`,
		Example: `  gaia tasks stats
  gaia tasks stats --dataset hub --split test
  gaia tasks stats --level 3 --json`,
		Args: cli.NoArgs,
	}, q, false, func(_ context.Context, _ []string, set loader.Set, _ loader.Gold) error {
		s := tasklist.StatsOf(set, q.Filter.Rule())
		rows := view.List(append(tasklist.Rows(set, q.Filter.Rule()), [2]string{"answers", tasklist.Answers(s.CarriedGold)}))
		for _, o := range s.OtherSplits {
			rows.Addf("other", "split %s, %s; answers %s", o.Name, view.Count(o.Size, "task"), tasklist.Answers(o.CarriedGold))
		}
		return view.Result(a.stdout, q.asJSON, s, s.Table()+"\n\n"+view.RowsText(rows))
	})
}

func (a *app) tasksDownloadCommand() *cobra.Command {
	q := &taskQuery{}
	d := &tasklist.Download{Out: a.stderr, Terminal: a.tty}
	d.Above = a.user().TellNews(&q.Tasks).Say
	q.Progress = d.Fetched
	return a.onTasks(&cobra.Command{
		Use:   "download",
		Short: "Fetch the attachments of the selected tasks",
		Long: `Download reads every attachment of the selected tasks to its end, which fetches
and checks what is not on this machine yet. A run fetches what it needs; this
command does it before, and lists what is missing.

A file that cannot be fetched does not stop the others. Fetched files stay, also
after Ctrl-C: the same command continues with the rest.`,
		Example: `  gaia tasks download --dataset hub
  gaia tasks download --dataset hub --split test --level 1 --json`,
		Args: cli.NoArgs,
	}, q, false, func(ctx context.Context, _ []string, set loader.Set, _ loader.Gold) error {
		return a.download(ctx, q, set, d)
	})
}

func (a *app) download(ctx context.Context, q *taskQuery, set loader.Set, d *tasklist.Download) error {
	result, summary, failed := d.Run(ctx, set, q.Filter.Rule(), runflags.IsHub(q.Source))
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted; "+summary), "the same command continues with the rest")
	}
	if runflags.IsHub(q.Source) {
		result.Cache = a.user().Hub().Cache()
		summary += ", in " + view.Quote(result.Cache)
	}
	return cmp.Or(view.Result(a.stdout, q.asJSON, result, view.Line(summary)+"\n"), failed)
}
