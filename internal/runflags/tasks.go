package runflags

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
)

// Tasks says which tasks are meant: of what source and split, and which of them.
type Tasks struct {
	Source   string // "hub", "hub:REPO", "dir:PATH" or "fixtures"; "" until it is settled
	Revision string // of the hub's dataset
	Split    string
	Filter   loader.Filter

	Notice   func(string)          // told of waits and the like; may be nil
	Progress func(loader.Progress) // told of downloads; may be nil
}

// How sources are written.
const (
	SourceFixtures = "fixtures"
	SourceHub      = "hub"
	SourceRepo     = "hub:"
	SourceDir      = "dir:"
)

// AddDataset adds the flag --dataset, which names the source of tasks and gold answers in every command. old is the name that
// it had in this command before, or "". more are values that it takes besides the sources.
func AddDataset(cmd *cobra.Command, value *string, usage, old string, more ...string) {
	cmd.Flags().StringVar(value, "dataset", "", usage)
	cli.CompletePrefixes(cmd, "dataset", append(more, SourceHub, SourceRepo, SourceDir, SourceFixtures)...)
	if old != "" {
		cli.OldName(cmd, old, "dataset")
	}
}

// AddTasks adds the flags of a command that takes tasks.
func (t *Tasks) AddTasks(cmd *cobra.Command) {
	f := cmd.Flags()
	AddDataset(cmd, &t.Source, "tasks and answers: hub (GAIA), hub:OWNER/NAME, dir:PATH or fixtures (built in)", "source")
	f.StringVar(&t.Revision, "revision", "", "branch, tag or commit of the hub's dataset (default: main)")
	f.StringVar(&t.Split, "split", string(loader.Validation), "split of the dataset: validation or test")
	f.IntSliceVar(&t.Filter.Levels, "level", nil, "only these levels, such as 1,2")
	f.StringSliceVar(&t.Filter.IDs, "task", nil, "only these task ids")
	f.IntVar(&t.Filter.Sample, "sample", 0, "only N of the selected tasks, drawn at random")
	f.Int64Var(&t.Filter.Seed, "seed", 0, "seed of --sample: the same seed draws the same tasks")
	f.IntVar(&t.Filter.Limit, "limit", 0, "only the first N of the selected tasks")
	cli.Section(f, cli.TaskFlags)
	cli.Complete(cmd, "split", string(loader.Validation), string(loader.Test))
	cli.CompleteList(cmd, "level", "1", "2", "3")
}

// CheckTasks rejects what the flags alone show to be wrong; given reports which were given
// or are of the settings file.
func (t *Tasks) CheckTasks(given func(string) bool) error {
	for _, f := range []struct{ name, value string }{{"dataset", t.Source}, {"revision", t.Revision}, {"split", t.Split}} {
		if given(f.name) && f.value == "" {
			return cli.EmptyFlag(f.name)
		}
	}
	if err := t.CheckSource(); err != nil {
		return err
	}
	switch {
	case given("revision") && given("dataset") && !IsHub(t.Source):
		return exit.Usagef("leave it out, or give --dataset hub", "--revision is of the hub's dataset, not of %s", t.Source)
	case given("limit") && t.Filter.Limit < 1:
		return exit.Usagef("leave --limit out to select all tasks", "--limit is %d, which leaves no task", t.Filter.Limit)
	case given("sample") && t.Filter.Sample < 1:
		return exit.Usagef("leave --sample out to select all tasks", "--sample is %d, which leaves no task", t.Filter.Sample)
	case given("seed") && !given("sample"):
		return exit.Usagef("also give --sample N", "--seed has no effect without --sample")
	case given("task") && len(t.Filter.IDs) == 0:
		return exit.Usagef("leave --task out to select all tasks", "--task names no task")
	}
	return nil
}

// CheckSource rejects what is no source; "" is one that is still to be settled.
func (t *Tasks) CheckSource() error {
	if err := plan.CheckDatasetName(t.Repo()); err != nil {
		return exit.Usagef("type the name as the hub writes it: --dataset hub is "+loader.GAIA, "%v", err)
	}
	path, isDir := strings.CutPrefix(t.Source, SourceDir)
	if t.Source == "" || t.Source == SourceFixtures || IsHub(t.Source) || isDir && path != "" {
		return nil
	}
	return exit.Usagef("a dataset is hub, hub:OWNER/NAME, dir:PATH or fixtures", "unknown dataset %q", t.Source)
}

// IsHub reports whether a source is a dataset of the hub.
func IsHub(source string) bool { return source == SourceHub || strings.HasPrefix(source, SourceRepo) }

// Repo names the dataset of the hub that is meant, "" where none is.
func (t *Tasks) Repo() string {
	if t.Source == SourceHub {
		return loader.GAIA
	}
	repo, _ := strings.CutPrefix(t.Source, SourceRepo)
	if repo == t.Source {
		return ""
	}
	return repo
}
