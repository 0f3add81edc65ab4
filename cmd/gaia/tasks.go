package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/hubenv"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
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
		if a.rehearses(q.Tasks) {
			q.Source = runflags.SourceFixtures
			fmt.Fprintln(a.stderr, "gaia: built-in tasks; --dataset hub for GAIA")
		}
		q.Source = cmp.Or(q.Source, runflags.SourceHub) // as run does
		if q.Notice == nil {
			a.tellNews(&q.Tasks)
		}
		ctx, release := stop.Context(cmd.Context())
		defer release()
		context.AfterFunc(ctx, release)
		set, gold, err := a.loadTasks(ctx, q.Tasks)
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
	fmt.Fprint(a.stderr, `gaia: warning: these are the answers. Text in terminals and logs ends up
gaia: warning: in training data and in contexts: keep it out of anything that an
gaia: warning: agent or a model reads
`)
	return gold.Map()
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
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              cli.SomeArgs("'gaia tasks list' lists them", "tasks show takes task ids, or the starts of some"),
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
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 120
}

func (a *app) tasksStatsCommand() *cobra.Command {
	q := &taskQuery{}
	return a.onTasks(&cobra.Command{
		Use:   "stats",
		Short: "Count the tasks of a split by level, and their attachments by kind",
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
	d.Above = a.tellNews(&q.Tasks).say
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
		result.Cache = a.hubEnv().Cache()
		summary += ", in " + view.Quote(result.Cache)
	}
	return cmp.Or(view.Result(a.stdout, q.asJSON, result, view.Line(summary)+"\n"), failed)
}

// rehearses reports whether the built-in tasks are meant: they are named, or
// nothing here and in the environment speaks for others.
func (a *app) rehearses(t runflags.Tasks) bool {
	return t.Source == runflags.SourceFixtures ||
		t.Source == "" && t.Revision == "" && a.getenv("OPENAI_API_KEY") == "" && a.getenv("OPENAI_BASE_URL") == ""
}

// loadTasks reads the tasks that the flags name, and their answers.
func (a *app) loadTasks(ctx context.Context, t runflags.Tasks) (loader.Set, loader.Gold, error) {
	split, err := loader.ParseSplit(t.Split)
	if err != nil {
		return loader.Set{}, loader.Gold{}, usage("give --split validation or --split test", "%s", err)
	}
	source, err := a.openSource(t)
	if err != nil {
		return loader.Set{}, loader.Gold{}, err
	}
	set, gold, err := loader.Load(ctx, source, split, t.Filter)
	if filter := (*loader.FilterError)(nil); errors.As(err, &filter) {
		err = usage("see --split, --level, --task, --sample and --limit in the help; 'gaia tasks list' shows what there is", "%s", filter)
	} else if err != nil && strings.HasPrefix(t.Source, runflags.SourceDir) {
		err = fmt.Errorf("%s: %w", t.Source, err)
	}
	return set, gold, err
}

// openSource returns the source that the flags name.
func (a *app) openSource(t runflags.Tasks) (loader.Source, error) {
	env := a.hubEnv()
	if runflags.IsHub(t.Source) {
		token, from, err := env.Token()
		if err != nil {
			return nil, err
		}
		source, err := loader.Hub(loader.HubConfig{Endpoint: env.Endpoint(), Repo: t.Repo(), Revision: cmp.Or(t.Revision, loader.MainBranch), Token: token, TokenFrom: from,
			Cache: env.Cache(), Offline: env.IsSet("HF_HUB_OFFLINE") || env.IsSet("TRANSFORMERS_OFFLINE"),
			Transport: http.DefaultTransport, Notice: t.Notice, Progress: t.Progress})
		if wrong := (*loader.SourceError)(nil); errors.As(err, &wrong) {
			err = &failure{Code: exit.Usage, Err: err, Hints: wrong.Remedies}
		}
		return source, err
	}
	path, ok := strings.CutPrefix(t.Source, runflags.SourceDir)
	if path = env.InHome(path); !ok {
		return loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, usage("give the directory that holds 2023/", "reading the dataset %q: %v", path, regular.Cause(err))
	}
	if !info.IsDir() {
		return nil, usage("give the directory that holds 2023/", "the dataset %q is not a directory", path)
	}
	// What the directory holds is for its digests to say, not for its name.
	return loader.Dir(os.DirFS(path), "directory", loader.Unpinned), nil
}

// hubEnv is the environment as the hub's own tools read it.
func (a *app) hubEnv() hubenv.Environment {
	return hubenv.Environment{Getenv: a.getenv, Caches: a.xdg("XDG_CACHE_HOME", ".cache")}
}

// news prints what the hub is about, a line each.
type news struct {
	mu  sync.Mutex
	out io.Writer
}

// tellNews prints what the hub is about to standard error, until it is told to
// say it elsewhere.
func (a *app) tellNews(t *runflags.Tasks) *news {
	n := &news{out: a.stderr}
	t.Notice = func(s string) { n.print(s) }
	t.Progress = func(p loader.Progress) {
		if p.Kept {
			n.print(fmt.Sprintf("fetched %s, %d bytes", p.Path, p.Size))
		}
	}
	return n
}

func (n *news) print(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, "gaia: hub: %s\n", view.Line(s))
}

// say prints elsewhere from now on: above a progress bar.
func (n *news) say(out io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = out
}

// goldFor compares a plan with a dataset, written as --dataset writes it, at the
// plan's revision, and returns the gold answers of the plan's tasks; nil for a plan
// without gold answers. A difference is a *trajectory.Fault that names the dataset's
// metadata file or the plan. Attachments that cannot be read are an error.
func (a *app) goldFor(ctx context.Context, source string, m plan.Plan) (*audit.Gold, error) {
	set, gold, err := a.plannedSplit(ctx, source, m.Dataset)
	if err != nil {
		return nil, err
	}
	if err := grading.ComparePlan(ctx, source, m, set, false, a.warn); err != nil {
		return nil, err
	}
	return grading.GoldOf(source, m, set, gold)
}

// loadedSplit is a split of a dataset with its answers.
type loadedSplit struct {
	set  loader.Set
	gold loader.Gold
}

// plannedSplit loads the whole split that a plan names, once for several plans. Its
// metadata file must have the plan's digest.
func (a *app) plannedSplit(ctx context.Context, source string, d plan.Dataset) (loader.Set, loader.Gold, error) {
	t := runflags.Tasks{Source: source, Split: d.Split}
	if source == "" {
		return loader.Set{}, loader.Gold{}, cli.EmptyFlag("dataset")
	}
	if err := t.CheckSource(); err != nil {
		return loader.Set{}, loader.Gold{}, err
	}
	if d.Hub != "" && t.Repo() == d.Name {
		t.Revision = d.Revision
	}
	key := [3]string{t.Source, t.Split, t.Revision}
	loaded, there := a.splits[key]
	if !there {
		a.tellNews(&t)
		set, gold, err := a.loadTasks(ctx, t)
		if err != nil {
			return set, gold, err
		}
		loaded = loadedSplit{set, gold}
		if a.splits == nil {
			a.splits = map[[3]string]loadedSplit{}
		}
		a.splits[key] = loaded
	}
	set, gold, err := loaded.set, loaded.gold, error(nil)
	if set.Digest != d.MetadataSHA256 {
		err = fail(exit.Evidence, trajectory.Faultf(set.MetadataFile, "of %s is %s, but the plan's tasks are from %s", source, set.Digest, d.MetadataSHA256),
			fmt.Sprintf("give the dataset that the run was planned from: %q at revision %q", d.Name, d.Revision))
	}
	return set, gold, err
}

// compareQuestions compares what a run asked with the dataset that goldFor has read.
func (a *app) compareQuestions(ctx context.Context, source string, of *rundir.Run) error {
	set, _, err := a.plannedSplit(ctx, source, of.Manifest.Dataset)
	if err != nil {
		return err
	}
	return grading.CompareQuestions(source, set, of)
}
