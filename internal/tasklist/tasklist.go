// Package tasklist describes the tasks of a split for people and programs: the dataset, the tasks as a table or in full,
// counts by level, and whether attachments can be read.
//
// Gold answers appear only where the caller passes them in. The members of the JSON forms are documented in
// docs/datasets.md. Attachments are fetched several at a time, and an error names the task it belongs to.
package tasklist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/loader"
)

// Dataset describes which dataset was read, and what was selected.
type Dataset struct {
	Hub            string       `json:"hub,omitzero"`
	MetadataFile   string       `json:"metadata_file"`
	MetadataSHA256 string       `json:"metadata_sha256"`
	Name           string       `json:"name"`
	Revision       string       `json:"revision"`
	Selection      string       `json:"selection"` // the rule, or "all"
	Split          loader.Split `json:"split"`
	SplitSize      int          `json:"split_size"`
}

// datasetOf describes a set whose tasks were selected by a rule.
func datasetOf(set loader.Set, rule string) Dataset {
	return Dataset{Hub: set.Hub, MetadataFile: set.MetadataFile, MetadataSHA256: set.Digest, Name: set.Dataset, Revision: set.Revision,
		Selection: rule, Split: set.Split, SplitSize: len(set.IDs)}
}

// Rows describes the same for people.
func Rows(set loader.Set, rule string) [][2]string {
	rows := view.List{{"dataset", set.Dataset + ", revision " + set.Revision}}
	rows.AddNonEmpty("hub", set.Hub)
	l := set.Levels
	rows = append(rows,
		[2]string{"split", fmt.Sprintf("%s, %s (by level %d/%d/%d)", set.Split, view.Count(len(set.IDs), "task"), l[0], l[1], l[2])},
		[2]string{"tasks", fmt.Sprintf("%s (%d of %d)", rule, len(set.Tasks), len(set.IDs))},
		[2]string{"file", set.MetadataFile},
		[2]string{"digest", set.Digest})
	if planned := planned(set); planned.ClaimsGAIA() {
		rows.Add("counts", cmp.Or(planned.Mismatch(), "as GAIA declares"))
	}
	return rows
}

// planned returns the dataset as a plan would name it, for the counts of its split.
func planned(set loader.Set) plan.Dataset {
	return plan.Dataset{Levels: set.Levels, Name: set.Dataset, Split: string(set.Split)}
}

// List is the JSON form of tasks.
type List struct {
	Dataset Dataset `json:"dataset"`
	Tasks   []Task  `json:"tasks"`
}

// Task is a task of a List.
type Task struct {
	FileName string `json:"file_name,omitzero"`
	Gold     string `json:"gold,omitzero"` // only if answers are shown
	Level    int    `json:"level"`
	Question string `json:"question"`
	TaskID   string `json:"task_id"`
}

// ListOf returns the JSON form of tasks of a set; answers is nil if none are shown.
func ListOf(set loader.Set, rule string, tasks []loader.Task, answers map[string]string) List {
	l := List{Dataset: datasetOf(set, rule), Tasks: []Task{}}
	for _, t := range tasks {
		l.Tasks = append(l.Tasks, Task{FileName: t.FileName, Gold: answers[t.ID], Level: t.Level, Question: t.Question, TaskID: t.ID})
	}
	return l
}

// Table returns a table of tasks of at most width columns, if that leaves room for the
// beginnings of the questions, or of the answers if there are any.
func Table(tasks []loader.Task, answers map[string]string, width int) string {
	const (
		apart    = 2 // columns between two columns
		leastCut = 16
		mostCut  = 80
	)
	last := "question"
	if answers != nil {
		last = "answer"
	}
	head := []any{"task", "level", "file", last}
	rest := width - apart
	for column, title := range head[:3] {
		widest := text.StringWidth(title.(string))
		for _, t := range tasks {
			widest = max(widest, text.StringWidth([]string{view.Line(t.ID), fmt.Sprint(t.Level), attachmentName(t)}[column]))
		}
		rest -= widest + apart
	}
	rest = min(max(rest, leastCut), mostCut)
	table := view.NewTable(head...)
	for _, t := range tasks {
		shown := t.Question
		if answers != nil {
			shown = answers[t.ID]
		}
		line, more, _ := strings.Cut(strings.TrimSpace(shown), "\n")
		line = strings.ReplaceAll(view.Line(strings.TrimSpace(line)), "\t", " ")
		if strings.TrimSpace(more) != "" {
			line += " …"
		}
		table.Row(t.ID, fmt.Sprint(t.Level), attachmentName(t), text.Snip(line, rest, "…"))
	}
	return table.String()
}

// attachmentName returns the name of an attachment, or its ending where the rest is the
// task's id, as it is in GAIA.
func attachmentName(t loader.Task) string {
	const most = 12
	name := t.FileName
	if ending, ok := strings.CutPrefix(name, t.ID); ok && strings.HasPrefix(ending, ".") {
		name = ending
	}
	return text.Snip(view.Line(name), most, "…")
}

// Text returns tasks whole. What the dataset contains is indented, so that it cannot
// look like a line of this program. The place of attachments is included unless the
// dataset is remote, since that would fetch them.
func Text(ctx context.Context, set loader.Set, tasks []loader.Task, answers map[string]string, remote bool) string {
	var out strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&out, "task %s, level %d\n\nquestion:\n%s\n", view.Line(t.ID), t.Level, view.Indent(t.Question))
		if t.FileName != "" {
			place := ""
			if !remote {
				place = view.Indent(view.Line(attachmentPlace(ctx, set, t)))
			}
			fmt.Fprintf(&out, "attachment: %s\n%s\n", view.Line(t.FileName), place)
		}
		if answer, ok := answers[t.ID]; ok {
			fmt.Fprintf(&out, "answer:\n%s\n", view.Indent(answer))
		}
	}
	return visible.Text(out.String())
}

func attachmentPlace(ctx context.Context, set loader.Set, t loader.Task) string {
	rc, err := set.Attachment(ctx, t)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing: this copy of the dataset does not have it"
	case err != nil:
		return err.Error()
	}
	defer rc.Close()
	if f, ok := rc.(*os.File); ok {
		return f.Name()
	}
	return "built in"
}

// Stats are the counts of a split.
type Stats struct {
	CarriedGold bool    `json:"carried_gold"` // the split has answers
	Dataset     Dataset `json:"dataset"`
	Levels      []Level `json:"levels"`
	Mismatch    string  `json:"mismatch,omitzero"` // with what GAIA declares
	OtherSplits []Split `json:"other_splits"`
}

// Level counts the tasks of a level.
type Level struct {
	Attachments []Ending `json:"attachments"` // in the order of their endings
	Level       int      `json:"level"`
	SplitSize   int      `json:"split_size"` // of this level in the whole split
	Tasks       int      `json:"tasks"`      // selected
}

// Files returns the number of attachments with an ending.
func (l Level) Files(ending string) (n int) {
	for _, a := range l.Attachments {
		if a.Ending == ending {
			n += a.Files
		}
	}
	return n
}

// Ending counts attachments by the ending of their names.
type Ending struct {
	Ending string `json:"ending"` // such as ".csv", in lower case; "" for names without one
	Files  int    `json:"files"`
}

// Split is another split of the dataset.
type Split struct {
	CarriedGold bool         `json:"carried_gold"`
	Name        loader.Split `json:"name"`
	Size        int          `json:"size"`
}

// StatsOf counts a set.
func StatsOf(set loader.Set, rule string) Stats {
	s := Stats{CarriedGold: set.CarriedGold, Dataset: datasetOf(set, rule), Mismatch: planned(set).Mismatch(), OtherSplits: []Split{}}
	for i, size := range set.Levels {
		l := Level{Attachments: []Ending{}, Level: i + 1, SplitSize: size}
		files := map[string]int{}
		for _, t := range set.Tasks {
			if t.Level != l.Level {
				continue
			}
			l.Tasks++
			if t.FileName != "" {
				files[strings.ToLower(path.Ext(t.FileName))]++
			}
		}
		for _, e := range slices.Sorted(maps.Keys(files)) {
			l.Attachments = append(l.Attachments, Ending{e, files[e]})
		}
		s.Levels = append(s.Levels, l)
	}
	for _, o := range set.Others {
		s.OtherSplits = append(s.OtherSplits, Split{CarriedGold: o.CarriedGold, Name: o.Split, Size: len(o.IDs)})
	}
	return s
}

// Table returns the counts as a table.
func (s Stats) Table() string {
	t := view.NewTable("", "level 1", "level 2", "level 3", "all")
	add := func(name string, count func(Level) int) {
		row, all := []any{name}, 0
		for _, l := range s.Levels {
			row = append(row, count(l))
			all += count(l)
		}
		t.Row(append(row, all)...)
	}
	add("tasks", func(l Level) int { return l.Tasks })
	add("with attachment", func(l Level) (n int) {
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
		add("  "+cmp.Or(e, "no ending"), func(l Level) int { return l.Files(e) })
	}
	return t.String()
}

// Answers describes for people whether a split has answers.
func Answers(carried bool) string {
	if carried {
		return "in the dataset"
	}
	return "withheld"
}
