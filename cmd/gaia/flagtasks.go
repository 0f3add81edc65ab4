package main

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
)

// taskFlags say which tasks are meant: of what source and split, and which of
// them.
type taskFlags struct {
	source   string // "hub", "hub:REPO", "dir:PATH" or "fixtures"; "" until it is settled
	revision string // of the hub's dataset
	split    string
	filter   loader.Filter

	notice   func(string)          // told of waits and the like; may be nil
	progress func(loader.Progress) // told of downloads; may be nil
}

// How sources are written.
const (
	sourceFixtures = "fixtures"
	sourceHub      = "hub"
	sourceRepo     = "hub:"
	sourceDir      = "dir:"
)

// add makes the flags of a command that takes tasks.
func (t *taskFlags) addTasks(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.source, "source", "", "source of the tasks: hub (GAIA), hub:OWNER/NAME, dir:PATH, or fixtures (built in)")
	f.StringVar(&t.revision, "revision", "", "branch, tag or commit of the hub's dataset (default: main)")
	f.StringVar(&t.split, "split", string(loader.Validation), "split of the dataset: validation or test")
	f.IntSliceVar(&t.filter.Levels, "level", nil, "only these levels, such as 1,2")
	f.StringSliceVar(&t.filter.IDs, "task", nil, "only these task ids")
	f.IntVar(&t.filter.Sample, "sample", 0, "only N of the selected tasks, drawn at random")
	f.Int64Var(&t.filter.Seed, "seed", 0, "seed of --sample: the same seed draws the same tasks")
	f.IntVar(&t.filter.Limit, "limit", 0, "only the first N of the selected tasks")
	cli.CompletePrefixes(cmd, "source", sourceHub, sourceRepo, sourceDir, sourceFixtures)
	cli.Complete(cmd, "split", string(loader.Validation), string(loader.Test))
	cli.Complete(cmd, "level", "1", "2", "3")
}

// checkTasks refuses what the flags alone show to be wrong; given reports which were given
// or are of the settings file.
func (t *taskFlags) checkTasks(given func(string) bool) error {
	for _, f := range []struct{ name, value string }{{"source", t.source}, {"revision", t.revision}, {"split", t.split}} {
		if given(f.name) && f.value == "" {
			return cli.EmptyFlag(f.name)
		}
	}
	if err := t.checkSource(); err != nil {
		return err
	}
	switch {
	case given("revision") && given("source") && !isHub(t.source):
		return exit.Usagef("leave it out, or give --source hub", "--revision is of the hub's dataset, not of %s", t.source)
	case given("limit") && t.filter.Limit < 1:
		return exit.Usagef("leave --limit out to select all tasks", "--limit is %d, which leaves no task", t.filter.Limit)
	case given("sample") && t.filter.Sample < 1:
		return exit.Usagef("leave --sample out to select all tasks", "--sample is %d, which leaves no task", t.filter.Sample)
	case given("seed") && !given("sample"):
		return exit.Usagef("also give --sample N", "--seed has no effect without --sample")
	case given("task") && len(t.filter.IDs) == 0:
		return exit.Usagef("leave --task out to select all tasks", "--task names no task")
	}
	return nil
}

// checkSource refuses what is no source; "" is one that is still to be settled.
func (t *taskFlags) checkSource() error {
	if err := plan.CheckDatasetName(t.repo()); err != nil {
		return exit.Usagef("type the name as the hub writes it: --source hub is "+loader.GAIA, "%v", err)
	}
	path, isDir := strings.CutPrefix(t.source, sourceDir)
	if t.source == "" || t.source == sourceFixtures || isHub(t.source) || isDir && path != "" {
		return nil
	}
	return exit.Usagef("a source is hub, hub:OWNER/NAME, dir:PATH or fixtures", "unknown source %q", t.source)
}

func isHub(source string) bool { return source == sourceHub || strings.HasPrefix(source, sourceRepo) }

// repo names the dataset of the hub that is meant, "" where none is.
func (t *taskFlags) repo() string {
	if t.source == sourceHub {
		return loader.GAIA
	}
	repo, _ := strings.CutPrefix(t.source, sourceRepo)
	if repo == t.source {
		return ""
	}
	return repo
}
