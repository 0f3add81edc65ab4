package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

func (a *app) tasksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Show the tasks of a dataset, and fetch their attachments",
		Long: `Tasks shows what a run would get: the tasks of one split, the whole text of some,
and counts by level and kind of attachment. It takes the flags that select tasks
for "gaia run", so that you can check a selection before a run.

Answers are shown only with --gold.`,
		Example: `  gaia tasks list --level 1
  gaia tasks show fab1e021
  gaia tasks stats --source dir:GAIA --split test
  gaia tasks download --source hub`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tasksListCommand(), a.tasksShowCommand(), a.tasksDownloadCommand(), a.tasksStatsCommand())
	return cmd
}

// taskQuery holds the flags of a command on tasks.
type taskQuery struct {
	taskFlags
	asJSON bool
	gold   bool
}

// add adds the flags that all these commands have.
func (q *taskQuery) add(cmd *cobra.Command) {
	q.addTasks(cmd)
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// addGold adds the flag of the commands that can show answers.
func (q *taskQuery) addGold(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&q.gold, "gold", false, "also show the answers: keep them out of anything that an agent reads")
}

// withTasks calls do with the tasks that the flags select. An interrupt ends the
// context; a second one, the program.
func (a *app) withTasks(cmd *cobra.Command, q *taskQuery, do func(context.Context, loader.Set, loader.Gold) error) error {
	if err := q.checkTasks(cmd.Flags().Changed); err != nil {
		return err
	}
	a.settleSource(&q.taskFlags)
	if q.notice == nil {
		a.tellNews(&q.taskFlags)
	}
	ctx, release := stop.Context(cmd.Context())
	defer release()
	context.AfterFunc(ctx, release)
	set, gold, err := a.loadTasks(ctx, q.taskFlags)
	if err != nil {
		return err
	}
	return do(ctx, set, gold)
}

// settleSource chooses the source as run does where the flags do not, and reports if
// the tasks are not GAIA's.
func (a *app) settleSource(t *taskFlags) {
	if a.rehearses(*t) {
		t.source = sourceFixtures
		fmt.Fprintln(a.stderr, "gaia: built-in tasks; --source hub for GAIA")
	}
	t.source = cmp.Or(t.source, sourceHub)
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
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a split",
		Long: `List prints a line for each selected task, in the order of the dataset: its id,
its level, its attachment (".csv" is the id followed by .csv) and the beginning
of its question. --gold prints the answer instead of the question; --json prints
both, whole.`,
		Example: `  gaia tasks list
  gaia tasks list --split test --level 2,3
  gaia tasks list --source hub --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTasks(cmd, q, func(_ context.Context, set loader.Set, gold loader.Gold) error {
				answers := a.answers(q, set, gold)
				if q.asJSON {
					return view.JSON(a.stdout, tasklist.ListOf(set, q.filter.Rule(), set.Tasks, answers))
				}
				if _, err := fmt.Fprintf(a.stdout, "%s\n\n", tasklist.Table(set.Tasks, answers, columns(a.stdout))); err != nil {
					return err
				}
				return view.Rows(a.stdout, tasklist.Rows(set, q.filter.Rule()))
			})
		},
	}
	q.add(cmd)
	q.addGold(cmd)
	return cmd
}

func (a *app) tasksShowCommand() *cobra.Command {
	q := &taskQuery{}
	cmd := &cobra.Command{
		Use:   "show ID…",
		Short: "Show tasks whole",
		Long: `Show prints the whole question of each task, its level, and its attachment with
the path of the file in a copy of the dataset. ID is a task id or the start of
one, among the tasks that the flags select.`,
		Example: `  gaia tasks show fab1e021
  gaia tasks show fab1e021 fab1e009 --json
  gaia tasks show --source dir:GAIA --gold 3f2a`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("'gaia tasks list' lists them", "tasks show takes task ids, or the starts of some")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTasks(cmd, q, func(ctx context.Context, set loader.Set, gold loader.Gold) error {
				tasks, err := tasksNamed(set, args)
				if err != nil {
					return err
				}
				answers := a.answers(q, set, gold)
				if q.asJSON {
					return view.JSON(a.stdout, tasklist.ListOf(set, q.filter.Rule(), tasks, answers))
				}
				if _, err := io.WriteString(a.stdout, tasklist.Text(ctx, set, tasks, answers, isHub(q.source))); err != nil {
					return err
				}
				return view.Rows(a.stdout, tasklist.Rows(set, q.filter.Rule()))
			})
		},
	}
	q.add(cmd)
	q.addGold(cmd)
	return cmd
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

// tasksNamed returns the tasks whose ids are names, or start with them.
func tasksNamed(set loader.Set, names []string) ([]loader.Task, error) {
	var found []loader.Task
	for _, name := range names {
		at, err := startingWith(name, len(set.Tasks), func(i int) string { return set.Tasks[i].ID })
		if err != nil {
			return nil, err
		}
		if at < 0 {
			return nil, usage("'gaia tasks list' lists them, with the same flags", "there is no task %q among the %d selected ones of split %s", name, len(set.Tasks), set.Split)
		}
		found = append(found, set.Tasks[at])
	}
	return found, nil
}

// startingWith returns the index of the id that is start or begins with it, -1 if
// there is none. The start of several is an error.
func startingWith(start string, n int, id func(int) string) (int, error) {
	found := []int{}
	for i := range n {
		if id(i) == start {
			return i, nil
		}
		if strings.HasPrefix(id(i), start) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return -1, nil
	case 1:
		return found[0], nil
	}
	f := &failure{Code: exit.Usage, Err: fmt.Errorf("%q is the start of %d task ids", start, len(found)), Hints: []string{"give more of the id"}}
	for i, at := range found {
		if i == maxHinted {
			f.Reasons = append(f.Reasons, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		f.Reasons = append(f.Reasons, id(at))
	}
	return 0, f
}

func (a *app) tasksStatsCommand() *cobra.Command {
	q := &taskQuery{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the tasks of a split by level, and their attachments by kind",
		Long: `Stats counts the selected tasks by level and their attachments by level and
ending. It lists the other splits of the dataset, and whether the split has as
many tasks of each level as GAIA declares. The digest is that of the file that
the tasks were read from.`,
		Example: `  gaia tasks stats
  gaia tasks stats --source hub --split test
  gaia tasks stats --level 3 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTasks(cmd, q, func(_ context.Context, set loader.Set, _ loader.Gold) error {
				s := tasklist.StatsOf(set, q.filter.Rule())
				if q.asJSON {
					return view.JSON(a.stdout, s)
				}
				if _, err := fmt.Fprintf(a.stdout, "%s\n\n", s.Table()); err != nil {
					return err
				}
				rows := append(tasklist.Rows(set, q.filter.Rule()), [2]string{"answers", tasklist.Answers(s.CarriedGold)})
				for _, o := range s.OtherSplits {
					rows = append(rows, [2]string{"other", fmt.Sprintf("split %s, %s; answers %s", o.Name, view.Count(o.Size, "task"), tasklist.Answers(o.CarriedGold))})
				}
				return view.Rows(a.stdout, rows)
			})
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) tasksDownloadCommand() *cobra.Command {
	q := &taskQuery{}
	p := &downloading{out: a.stderr}
	cmd := &cobra.Command{
		Use:   "download",
		Short: "Fetch the attachments of the selected tasks",
		Long: `Download reads every attachment of the selected tasks to its end, which fetches
and checks what is not on this machine yet. A run fetches what it needs; this
command does it before, and lists what is missing.

A file that cannot be fetched does not stop the others. Fetched files stay, also
after Ctrl-C: the same command continues with the rest.`,
		Example: `  gaia tasks download --source hub
  gaia tasks download --source hub --split test --level 1 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.news = a.tellNews(&q.taskFlags)
			q.progress = p.came
			return a.withTasks(cmd, q, func(ctx context.Context, set loader.Set, _ loader.Gold) error {
				return a.download(ctx, q, set, p)
			})
		},
	}
	q.add(cmd)
	return cmd
}

// downloadResult is the JSON form of download.
type downloadResult struct {
	Bytes   int64            `json:"bytes"`
	Cache   string           `json:"cache,omitzero"` // of the hub, where they are
	Dataset tasklist.Dataset `json:"dataset"`
	Failed  []failedFile     `json:"failed"`
	Files   int              `json:"files"` // that are there
}

type failedFile struct {
	Error    string `json:"error"`
	FileName string `json:"file_name"`
	TaskID   string `json:"task_id"`
}

func (a *app) download(ctx context.Context, q *taskQuery, set loader.Set, p *downloading) error {
	wanted := slices.DeleteFunc(slices.Clone(set.Tasks), func(t loader.Task) bool { return t.FileName == "" })
	p.begin(len(wanted), a.tty)
	errs := tasklist.Fetch(ctx, set, wanted, p.ended)
	p.done()
	if ctx.Err() != nil {
		return fail(exit.Interrupted, errors.New("interrupted; "+p.there(len(wanted))), "the same command continues with the rest")
	}
	result := downloadResult{Bytes: p.bytes, Dataset: tasklist.DatasetOf(set, q.filter.Rule()), Failed: []failedFile{}, Files: p.files}
	where := ""
	if isHub(q.source) {
		result.Cache = a.hubEnv().Cache()
		where = ", in " + view.Quote(result.Cache)
	}
	for i, err := range errs {
		if err != nil {
			result.Failed = append(result.Failed, failedFile{Error: err.Error(), FileName: wanted[i].FileName, TaskID: wanted[i].ID})
		}
	}
	if q.asJSON {
		if err := view.JSON(a.stdout, result); err != nil {
			return err
		}
	} else {
		text := p.there(len(wanted))
		switch {
		case len(wanted) == 0:
			text = "nothing to download: the selected tasks have no attachments"
		case p.files == len(wanted) && len(p.fetched) == 0:
			text = "nothing to download: " + text
		}
		if _, err := fmt.Fprintln(a.stdout, text+view.Line(where)); err != nil {
			return err
		}
	}
	return notDownloaded(q, errs)
}

// notDownloaded returns the error of attachments that could not be read, with the
// remedies that the source names; nil if there are none.
func notDownloaded(q *taskQuery, errs []error) error {
	f := &failure{Code: exit.Failure}
	for _, err := range errs {
		if err == nil {
			continue
		}
		f.Reasons = append(f.Reasons, err.Error())
		var source *loader.SourceError
		if !errors.As(err, &source) {
			continue
		}
		for _, r := range source.Remedies {
			if !slices.Contains(f.Hints, r) {
				f.Hints = append(f.Hints, r)
			}
		}
	}
	if len(f.Reasons) == 0 {
		return nil
	}
	then := "the same command fetches what is missing, and only that"
	if !isHub(q.source) {
		then = "copy the dataset again, whole: attachments lie beside the metadata file"
	}
	f.Hints = append(f.Hints, then)
	f.Err = fmt.Errorf("%d of %s could not be read", len(f.Reasons), view.Count(len(errs), "attachment"))
	return f
}

// downloading counts files as they come: a bar on a terminal, a line for each
// otherwise.
type downloading struct {
	mu      sync.Mutex
	files   int              // that are there
	bytes   int64            // of them
	fetched map[string]int64 // bytes so far of what was not there, by file; nil before begin

	out  io.Writer
	news *news        // of the hub
	log  *slog.Logger // without a terminal
	bar  *mpb.Bar     // with one
	all  *mpb.Progress
}

// begin is called once the files are known. What was fetched to know them does
// not count.
func (d *downloading) begin(total int, terminal bool) {
	d.mu.Lock()
	d.fetched = map[string]int64{}
	d.mu.Unlock()
	if !terminal || total == 0 {
		d.log = progress.NewLogger(d.out, false)
		return
	}
	d.all = mpb.New(mpb.WithOutput(d.out))
	d.bar = d.all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name("gaia"), decor.CountersNoUnit(" %d of %d attachments")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Any(d.state)))
	d.news.say(d.all)
}

// came takes the bytes of a file that is being fetched.
func (d *downloading) came(p loader.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fetched != nil {
		d.fetched[p.Path] = p.Done
	}
}

// state is what stands behind the bar.
func (d *downloading) state(decor.Statistics) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var fetched int64
	for _, n := range d.fetched {
		fetched += n
	}
	if fetched == 0 {
		return ""
	}
	return " " + view.Bytes(fetched) + " fetched"
}

// ended counts a file of n bytes, or says that one could not be had; on a
// terminal, the list at the end does that.
func (d *downloading) ended(t loader.Task, n int64, err error) {
	d.mu.Lock()
	if err == nil {
		d.files++
		d.bytes += n
	}
	d.mu.Unlock()
	switch {
	case d.bar != nil && err == nil:
		d.bar.Increment()
	case d.bar != nil:
	case err != nil:
		d.log.Warn("attachment failed", "task", t.ID, "file", t.FileName)
	default:
		d.log.Info("attachment is there", "task", t.ID, "file", t.FileName, "bytes", n)
	}
}

// done takes the bar down.
func (d *downloading) done() {
	if d.bar == nil {
		return
	}
	d.bar.Abort(false)
	d.all.Wait()
}

func (d *downloading) there(wanted int) string {
	files, verb := view.Count(wanted, "attachment"), "are"
	if d.files < wanted {
		files = fmt.Sprintf("%d of %s", d.files, files)
	}
	if wanted == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s there (%s)", files, verb, view.Bytes(d.bytes))
}
