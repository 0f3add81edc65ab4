package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
)

// taskFlags say which tasks are meant: of what source and split, and which of
// them.
type taskFlags struct {
	source string // "dir:PATH" or "fixtures"; "" until it is settled
	split  string
	filter loader.Filter
}

// How sources are written.
const (
	sourceFixtures = "fixtures"
	sourceDir      = "dir:"
)

// add makes the flags of a command that takes tasks.
func (t *taskFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.source, "source", "", `where the tasks are: dir:PATH (a copy of the dataset) or fixtures (built in)`)
	f.StringVar(&t.split, "split", string(loader.Validation), "split of the dataset: validation or test")
	f.IntSliceVar(&t.filter.Levels, "level", nil, "only these levels, such as 1,2")
	f.StringSliceVar(&t.filter.IDs, "task", nil, "only these task ids")
	f.IntVar(&t.filter.Limit, "limit", 0, "only the first N of the selected tasks")
}

// check refuses what the flags of cmd alone show to be wrong.
func (t *taskFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("limit") && t.filter.Limit < 1 {
		return usage("leave --limit out to run all tasks", "--limit is %d, which leaves no task", t.filter.Limit)
	}
	if cmd.Flags().Changed("task") && len(t.filter.IDs) == 0 {
		return usage("leave --task out to run all tasks", "--task names no task")
	}
	return nil
}

// loadTasks reads the tasks that the flags name, and their answers.
func (a *app) loadTasks(ctx context.Context, t taskFlags) (loader.Set, loader.Gold, error) {
	split, err := loader.ParseSplit(t.split)
	if err != nil {
		return loader.Set{}, loader.Gold{}, usage("", "%s", err)
	}
	source, err := a.openSource(t)
	if err != nil {
		return loader.Set{}, loader.Gold{}, err
	}
	set, gold, err := loader.Load(ctx, source, split, t.filter)
	if filter := (*loader.FilterError)(nil); errors.As(err, &filter) {
		err = usage("see --split, --level, --task and --limit in 'gaia run --help'", "%s", filter)
	}
	return set, gold, err
}

// openSource returns the source that the flags name.
func (a *app) openSource(t taskFlags) (loader.Source, error) {
	path, ok := strings.CutPrefix(t.source, sourceDir)
	if !ok {
		return loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, usage("", "reading the dataset %q: %v", path, unwrapPath(err))
	}
	if !info.IsDir() {
		return nil, usage("give the directory that holds 2023/", "the dataset %q is not a directory", path)
	}
	// What the directory holds is for its digests to say, not for its name.
	return loader.Dir(os.DirFS(path), "directory", "unpinned"), nil
}
