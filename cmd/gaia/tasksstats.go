package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/loader"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) tasksStatsCommand() *cobra.Command {
	q := &taskQuery{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the tasks of a split by level, and their attachments by kind",
		Long: `Stats counts the selected tasks by level and their attachments by level and
ending, says what other splits the dataset has, and whether the split has as
many tasks of each level as GAIA declares. The digest is that of the file the
tasks were read from.`,
		Example: `  gaia tasks stats
  gaia tasks stats --source hub --split test
  gaia tasks stats --level 3 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTasks(cmd, q, func(_ context.Context, set loader.Set, _ loader.Gold) error {
				return a.printStats(q, set)
			})
		},
	}
	q.add(cmd)
	return cmd
}

// taskStats is what stats prints with --json.
type taskStats struct {
	CarriedGold bool         `json:"carried_gold"` // the split has answers
	Dataset     shownDataset `json:"dataset"`
	Levels      []levelStats `json:"levels"`
	Mismatch    string       `json:"mismatch,omitzero"` // with what GAIA declares
	OtherSplits []otherSplit `json:"other_splits"`
}

type levelStats struct {
	Attachments []endingStats `json:"attachments"` // in the order of their endings
	Level       int           `json:"level"`
	SplitSize   int           `json:"split_size"` // of this level in the whole split
	Tasks       int           `json:"tasks"`      // selected
}

type endingStats struct {
	Ending string `json:"ending"` // such as ".csv", in lower case; "" for names without one
	Files  int    `json:"files"`
}

// files counts the attachments with this ending.
func (l levelStats) files(ending string) int {
	for _, a := range l.Attachments {
		if a.Ending == ending {
			return a.Files
		}
	}
	return 0
}

type otherSplit struct {
	CarriedGold bool         `json:"carried_gold"`
	Name        loader.Split `json:"name"`
	Size        int          `json:"size"`
}

func statsOf(q *taskQuery, set loader.Set) taskStats {
	s := taskStats{CarriedGold: set.CarriedGold, Dataset: datasetOf(q, set), OtherSplits: []otherSplit{}}
	for i, size := range set.Levels {
		s.Levels = append(s.Levels, statsOfLevel(set, i+1, size))
	}
	for _, o := range set.Others {
		s.OtherSplits = append(s.OtherSplits, otherSplit{CarriedGold: o.CarriedGold, Name: o.Split, Size: len(o.IDs)})
	}
	s.Mismatch = plannedDataset(set).Mismatch()
	return s
}

func statsOfLevel(set loader.Set, level, splitSize int) levelStats {
	l := levelStats{Attachments: []endingStats{}, Level: level, SplitSize: splitSize}
	files := map[string]int{}
	for _, t := range set.Tasks {
		if t.Level != level {
			continue
		}
		l.Tasks++
		if t.FileName != "" {
			files[ending(t)]++
		}
	}
	for _, e := range slices.Sorted(maps.Keys(files)) {
		l.Attachments = append(l.Attachments, endingStats{Ending: e, Files: files[e]})
	}
	return l
}

func ending(t loader.Task) string { return strings.ToLower(path.Ext(t.FileName)) }

func (a *app) printStats(q *taskQuery, set loader.Set) error {
	s := statsOf(q, set)
	if q.asJSON {
		return a.printJSON(s)
	}
	if _, err := fmt.Fprintf(a.stdout, "%s\n\n", visible.Text(statsTable(s))); err != nil {
		return err
	}
	rows := datasetRows(q, set)
	rows = append(rows, [2]string{"answers", withAnswers(s.CarriedGold)})
	for _, o := range s.OtherSplits {
		rows = append(rows, [2]string{"other", fmt.Sprintf("split %s, %s; answers %s", o.Name, counted(o.Size, "task"), withAnswers(o.CarriedGold))})
	}
	return a.printRows(rows)
}

func withAnswers(carried bool) string {
	if carried {
		return "in the dataset"
	}
	return "withheld"
}

func statsTable(s taskStats) string {
	t := newTable()
	t.AppendHeader(table.Row{"", "level 1", "level 2", "level 3", "all"})
	add := func(name string, count func(levelStats) int) {
		row, all := table.Row{name}, 0
		for _, l := range s.Levels {
			row = append(row, count(l))
			all += count(l)
		}
		t.AppendRow(append(row, all))
	}
	add("tasks", func(l levelStats) int { return l.Tasks })
	add("with attachment", func(l levelStats) (n int) {
		for _, a := range l.Attachments {
			n += a.Files
		}
		return n
	})
	var endings []string
	for _, l := range s.Levels {
		for _, a := range l.Attachments {
			endings = append(endings, a.Ending)
		}
	}
	slices.Sort(endings)
	for _, e := range slices.Compact(endings) {
		name := oneLine(e)
		if e == "" {
			name = "no ending"
		}
		add("  "+name, func(l levelStats) int { return l.files(e) })
	}
	return t.Render()
}
