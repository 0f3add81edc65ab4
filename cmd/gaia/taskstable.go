package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/loader"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) tasksListCommand() *cobra.Command {
	q := &taskQuery{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a split",
		Long: `List prints a line for each selected task, in the order of the dataset: its id,
its level, its attachment (".csv" stands for the id with .csv behind it) and the
beginning of its question. With --gold the answer stands in the question's
place; with --json both are there, whole.`,
		Example: `  gaia tasks list
  gaia tasks list --split test --level 2,3
  gaia tasks list --source hub --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTasks(cmd, q, func(_ context.Context, set loader.Set, gold loader.Gold) error {
				return a.listTasks(q, set, a.answers(q, set, gold))
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
the place of the file in a copy of the dataset. ID is a task id or the start of
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
				return a.showTasks(ctx, q, set, tasks, a.answers(q, set, gold))
			})
		},
	}
	q.add(cmd)
	q.addGold(cmd)
	return cmd
}

// taskList is what list and show print with --json.
type taskList struct {
	Dataset shownDataset `json:"dataset"`
	Tasks   []listedTask `json:"tasks"`
}

type listedTask struct {
	FileName string `json:"file_name,omitzero"`
	Gold     string `json:"gold,omitzero"` // only with --gold
	Level    int    `json:"level"`
	Question string `json:"question"`
	TaskID   string `json:"task_id"`
}

func (a *app) printTaskList(q *taskQuery, set loader.Set, tasks []loader.Task, answers map[string]string) error {
	listed := taskList{Dataset: datasetOf(q, set), Tasks: []listedTask{}}
	for _, t := range tasks {
		listed.Tasks = append(listed.Tasks, listedTask{FileName: t.FileName, Gold: answers[t.ID], Level: t.Level, Question: t.Question, TaskID: t.ID})
	}
	return a.printJSON(listed)
}

func (a *app) listTasks(q *taskQuery, set loader.Set, answers map[string]string) error {
	if q.asJSON {
		return a.printTaskList(q, set, set.Tasks, answers)
	}
	if _, err := fmt.Fprintf(a.stdout, "%s\n\n", visible.Text(taskTable(set.Tasks, answers, columns(a.stdout)))); err != nil {
		return err
	}
	return a.printRows(datasetRows(q, set))
}

// taskTable is a table of tasks that is at most width columns wide, if that
// leaves room for the beginnings of the questions.
func taskTable(tasks []loader.Task, answers map[string]string, width int) string {
	const (
		apart    = 2 // columns between two columns
		leastCut = 16
		mostCut  = 80
	)
	last := "question"
	if answers != nil {
		last = "answer"
	}
	head := []string{"task", "level", "file"}
	rows, widths := make([][]string, len(tasks)), make([]int, len(head))
	for i, t := range tasks {
		rows[i] = []string{oneLine(t.ID), fmt.Sprint(t.Level), attachmentName(t)}
		for c, cell := range rows[i] {
			widths[c] = max(widths[c], text.StringWidth(head[c]), text.StringWidth(cell))
		}
	}
	rest := width - apart
	for _, w := range widths {
		rest -= w + apart
	}
	rest = min(max(rest, leastCut), mostCut)
	t := newTable()
	t.AppendHeader(table.Row{head[0], head[1], head[2], last})
	for i, task := range tasks {
		shown := task.Question
		if answers != nil {
			shown = answers[task.ID]
		}
		t.AppendRow(table.Row{rows[i][0], rows[i][1], rows[i][2], firstLine(shown, rest)})
	}
	return t.Render()
}

// attachmentName is the name of an attachment, or its ending where the rest is
// the task's id, as it is in GAIA.
func attachmentName(t loader.Task) string {
	const most = 12
	if ending, ok := strings.CutPrefix(t.FileName, t.ID); ok && strings.HasPrefix(ending, ".") {
		return text.Snip(oneLine(ending), most, "…")
	}
	return text.Snip(oneLine(t.FileName), most, "…")
}

// firstLine is the first line of a text, cut to so many columns.
func firstLine(s string, columns int) string {
	line, more, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.ReplaceAll(oneLine(strings.TrimSpace(line)), "\t", " ")
	if strings.TrimSpace(more) != "" {
		line += " …"
	}
	return text.Snip(line, columns, "…")
}

// columns is the width of the terminal that w is; what is no terminal has room
// for more than the usual 80.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 120
}

// tasksNamed finds the tasks whose ids are, or start with, what was given.
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

// startingWith returns the place of the one of n ids that start is, or is the
// start of, -1 if there is none. A start of several is an error.
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
	f := &failure{Code: exitUsage, Err: fmt.Errorf("%q is the start of %d task ids", start, len(found)), Hints: []string{"give more of the id"}}
	for i, at := range found {
		if i == maxHinted {
			f.Reasons = append(f.Reasons, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		f.Reasons = append(f.Reasons, id(at))
	}
	return 0, f
}

// showTasks prints tasks whole. What the dataset says stands indented, so that
// it cannot pass for a line of ours.
func (a *app) showTasks(ctx context.Context, q *taskQuery, set loader.Set, tasks []loader.Task, answers map[string]string) error {
	if q.asJSON {
		return a.printTaskList(q, set, tasks, answers)
	}
	var out strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&out, "task %s, level %d\n\nquestion:\n%s\n", oneLine(t.ID), t.Level, indented(t.Question))
		if t.FileName != "" {
			fmt.Fprintf(&out, "attachment: %s\n%s\n", oneLine(t.FileName), whereabouts(ctx, q, set, t))
		}
		if answer, ok := answers[t.ID]; ok {
			fmt.Fprintf(&out, "answer:\n%s\n", indented(answer))
		}
	}
	if _, err := io.WriteString(a.stdout, visible.Text(out.String())); err != nil {
		return err
	}
	return a.printRows(datasetRows(q, set))
}

func indented(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
}

// whereabouts says where the attachment of a task lies, as a line; "" where
// that would take fetching it.
func whereabouts(ctx context.Context, q *taskQuery, set loader.Set, t loader.Task) string {
	if isHub(q.source) {
		return ""
	}
	rc, err := set.Attachment(ctx, t)
	if errors.Is(err, fs.ErrNotExist) {
		return indented("missing: this copy of the dataset does not have it")
	}
	if err != nil {
		return indented(oneLine(err.Error()))
	}
	defer rc.Close()
	if f, ok := rc.(*os.File); ok {
		return indented(oneLine(f.Name()))
	}
	return indented("built in")
}
