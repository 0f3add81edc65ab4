package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
)

func (a *app) tasksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Look at the tasks of a dataset, and fetch their attachments",
		Long: `Tasks shows what a run would be given: the tasks of one split, the whole text of
some, what there is of them by level and kind of attachment. It takes the flags
that choose tasks for "gaia run", so that what a selection holds can be seen
before anything is spent on it.

Answers are shown with --gold only.`,
		Example: `  gaia tasks list --level 1
  gaia tasks show fab1e021
  gaia tasks stats --source dir:GAIA --split test
  gaia tasks download --source hub`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tasksListCommand(), a.tasksShowCommand(), a.tasksDownloadCommand(), a.tasksStatsCommand())
	return cmd
}

// taskQuery is what the flags of a command on tasks say.
type taskQuery struct {
	taskFlags
	asJSON bool
	gold   bool
}

// add makes the flags that all these commands have.
func (q *taskQuery) add(cmd *cobra.Command) {
	q.addTasks(cmd)
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// addGold makes the flag of the commands that can show answers.
func (q *taskQuery) addGold(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&q.gold, "gold", false, "show the answers, too: keep them out of anything that an agent reads")
}

// withTasks loads the tasks that the flags of cmd name and hands them on. An
// interrupt ends the context; a second one, the program.
func (a *app) withTasks(cmd *cobra.Command, q *taskQuery, do func(context.Context, loader.Set, loader.Gold) error) error {
	if err := q.checkTasks(cmd.Flags().Changed); err != nil {
		return err
	}
	a.settleSource(&q.taskFlags)
	if q.notice == nil {
		a.tellNews(&q.taskFlags)
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop)
	set, gold, err := a.loadTasks(ctx, q.taskFlags)
	if err != nil {
		return err
	}
	return do(ctx, set, gold)
}

// settleSource chooses the source as run does, where the flags do not, and says
// so when it is not GAIA that is shown.
func (a *app) settleSource(t *taskFlags) {
	if a.rehearses(*t) {
		t.source = sourceFixtures
		fmt.Fprintln(a.stderr, "gaia: built-in tasks; --source hub for GAIA")
	}
	t.source = cmp.Or(t.source, sourceHub)
}

// answers returns the answers by task if they are to be shown, after a warning;
// nil if they are not, or if the split has none.
func (a *app) answers(q *taskQuery, set loader.Set, gold loader.Gold) map[string]string {
	if !q.gold {
		return nil
	}
	if gold.Len() == 0 {
		fmt.Fprintf(a.stderr, "gaia: the answers of split %s are withheld; none is shown\n", set.Split)
		return nil
	}
	fmt.Fprint(a.stderr, `gaia: warning: these are the answers. What stands in terminals and logs ends up
gaia: warning: in training data and in contexts: keep it out of anything that an
gaia: warning: agent or a model reads
`)
	return gold.Map()
}

// shownDataset says which dataset was read, and what was chosen of it.
type shownDataset struct {
	Hub            string       `json:"hub,omitzero"`
	MetadataFile   string       `json:"metadata_file"`
	MetadataSHA256 string       `json:"metadata_sha256"`
	Name           string       `json:"name"`
	Revision       string       `json:"revision"`
	Selection      string       `json:"selection"` // the rule, or "all"
	Split          loader.Split `json:"split"`
	SplitSize      int          `json:"split_size"`
}

func datasetOf(q *taskQuery, set loader.Set) shownDataset {
	return shownDataset{Hub: set.Hub, MetadataFile: set.MetadataFile, MetadataSHA256: set.Digest, Name: set.Dataset, Revision: set.Revision,
		Selection: q.filter.Rule(), Split: set.Split, SplitSize: len(set.IDs)}
}

// datasetRows are the lines that say the same to a person.
func datasetRows(q *taskQuery, set loader.Set) [][2]string {
	d := datasetOf(q, set)
	rows := [][2]string{{"dataset", d.Name + ", revision " + d.Revision}}
	if d.Hub != "" {
		rows = append(rows, [2]string{"hub", d.Hub})
	}
	l := set.Levels
	rows = append(rows,
		[2]string{"split", fmt.Sprintf("%s, %s (by level %d/%d/%d)", d.Split, counted(d.SplitSize, "task"), l[0], l[1], l[2])},
		[2]string{"tasks", fmt.Sprintf("%s (%d of %d)", d.Selection, len(set.Tasks), d.SplitSize)},
		[2]string{"file", d.MetadataFile},
		[2]string{"digest", d.MetadataSHA256})
	if planned := plannedDataset(set); planned.ClaimsGAIA() {
		rows = append(rows, [2]string{"counts", cmp.Or(planned.Mismatch(), "as GAIA declares")})
	}
	return rows
}

// plannedDataset is the dataset as a plan would name it, as far as the counts
// of its split go.
func plannedDataset(set loader.Set) plan.Dataset {
	return plan.Dataset{Levels: set.Levels, Name: set.Dataset, Split: string(set.Split)}
}
