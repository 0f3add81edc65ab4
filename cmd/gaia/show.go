package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show DIR [TASK]",
		Short: "Show what happened in a run, or at one task",
		Long: `Show prints a run as a table of its tasks, or one task step by step: question,
turns, tool calls, answer and verdicts. It reads the journal, after verifying
it. TASK is a task id or the start of one.`,
		Example: `  gaia show runs/01J…
  gaia show runs/01J… 3f2a`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("see 'gaia show --help'", "show takes a run directory and, if you like, a task id")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.showRun(args[0], asJSON)
			}
			return a.showTask(args[0], args[1], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary, or the task's trajectories, as JSON")
	return cmd
}

func (a *app) showRun(dir string, asJSON bool) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	if !found.Complete {
		return a.showUnfinished(dir, found, asJSON)
	}
	if asJSON {
		return a.printJSON(runResult{ManifestSHA256: found.ManifestSHA256, Rehearsal: found.Manifest.Rehearsal, RunDir: dir, Summary: found.Summary()})
	}
	if err := a.printTasks(found); err != nil {
		return err
	}
	return a.printSummary(dir, found)
}

// showUnfinished shows the tasks of a run as far as it got.
func (a *app) showUnfinished(dir string, found *ledger.Run, asJSON bool) error {
	var err error
	if asJSON {
		err = a.printJSON(unfinished{Missing: found.Missing, Planned: len(found.Tasks), Rehearsal: found.Manifest.Rehearsal, RunDir: dir, Settled: settled(found.Fold)})
	} else {
		err = a.printTasks(found)
	}
	if err != nil {
		return err
	}
	return fail(exitIncomplete, fmt.Errorf("the run is not complete: %s", found.Missing), "gaia resume "+quoteArg(dir))
}

// unfinished is what show prints of an unfinished run with --json.
type unfinished struct {
	Missing   string `json:"missing"`
	Planned   int    `json:"planned"`
	Rehearsal bool   `json:"rehearsal,omitzero"`
	RunDir    string `json:"run_dir"`
	Settled   int    `json:"settled"` // tasks whose counted attempt has ended
}

func settled(f *ledger.Fold) int {
	n := 0
	for _, t := range f.Tasks {
		if a := t.Counted(); a != nil && a.Ended != nil {
			n++
		}
	}
	return n
}

func (a *app) showTask(dir, prefix string, asJSON bool) error {
	if err := isRun(dir); err != nil {
		return err
	}
	var records []ledger.Trajectory
	found, err := ledger.Verify(os.DirFS(dir), func(t ledger.Trajectory) error {
		if strings.HasPrefix(t.TaskID, prefix) {
			records = append(records, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	task, err := oneTask(found.Fold, prefix)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(t ledger.Trajectory) bool { return t.TaskID != task.Plan.TaskID })
	if asJSON {
		return a.printJSON(records)
	}
	question, err := questionOf(dir, found, task.Plan.TaskID)
	if err != nil {
		return err
	}
	w := &strings.Builder{}
	if found.Manifest.Rehearsal {
		fmt.Fprintln(w, "rehearsal: "+rehearsalNote)
	}
	fmt.Fprintf(w, "task %s, level %d\n\n", task.Plan.TaskID, task.Plan.Level)
	section(w, "question", question)
	if task.Plan.FileName != "" {
		fmt.Fprintf(w, "attachment: %s\n\n", task.Plan.FileName)
	}
	for i, r := range records {
		writeAttempt(w, r, task.Attempts[i])
	}
	writeVerdicts(w, task)
	_, err = io.WriteString(a.stdout, printable(w.String()))
	return err
}

// oneTask finds the task whose id starts with prefix.
func oneTask(f *ledger.Fold, prefix string) (*ledger.Task, error) {
	var found *ledger.Task
	for _, t := range f.Tasks {
		if t.Plan.TaskID == prefix {
			return t, nil
		}
		if strings.HasPrefix(t.Plan.TaskID, prefix) {
			if found != nil {
				return nil, usage("give more of the id", "%q is the start of several task ids", prefix)
			}
			found = t
		}
	}
	if found == nil {
		return nil, usage("'gaia show DIR' lists the tasks", "the run has no task %q", prefix)
	}
	return found, nil
}

// questionOf finds a task's question in the journal.
func questionOf(dir string, found *ledger.Run, task string) (string, error) {
	f, err := os.Open(dir + "/" + trajectory.JournalFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	question := "(not begun)"
	_, _, err = trajectory.ReadJournal(f, found.Manifest.RunID, found.ManifestSHA256, func(e trajectory.Event, _ []byte) error {
		if p, ok := e.Payload.(trajectory.TaskStarted); ok && e.TaskID == task {
			question = p.Question
		}
		return nil
	})
	return question, err
}

// shownLines bounds how much of a long text show prints.
const shownLines = 12

func section(w io.Writer, title, text string) {
	fmt.Fprintf(w, "%s:\n%s\n", title, indent(text))
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := ""
	if len(lines) > shownLines {
		more = fmt.Sprintf("    … %d more lines\n", len(lines)-shownLines)
		lines = lines[:shownLines]
	}
	return "    " + strings.Join(lines, "\n    ") + "\n" + more
}

func writeAttempt(w io.Writer, r ledger.Trajectory, a *ledger.Attempt) {
	fmt.Fprintf(w, "attempt %d: %s", r.Attempt, a.Ended.Outcome)
	if a.Ended.Reason != "" {
		fmt.Fprintf(w, " (%s)", a.Ended.Reason)
	}
	fmt.Fprintln(w)
	turn := 0
	for _, step := range r.Steps {
		if p, ok := step.(ledger.PromptStep); ok && p.Turn != turn {
			turn = p.Turn
			fmt.Fprintf(w, "\n  turn %d\n", turn)
		}
		writeStep(w, step)
	}
	fmt.Fprintln(w)
	if r.FinalAnswer != nil {
		fmt.Fprintf(w, "  answer: %s (rule %s)\n", *r.FinalAnswer, a.Answer.Rule)
	}
}

func writeStep(w io.Writer, step any) {
	switch s := step.(type) {
	case ledger.LLMCallStep:
		if s.Error != nil {
			fmt.Fprintf(w, "  model failed: %d %s\n", s.Error.Status, s.Error.Message)
			return
		}
		fmt.Fprintf(w, "  model %s: %d tokens in, %d out, %d ms\n%s", s.ResponseModel, s.TokensIn, s.TokensOut, s.LatencyMs, indent(spoken(s.Head)))
	case ledger.ToolCallStep:
		fmt.Fprintf(w, "  call %s(%s)\n", s.Name, arguments(s))
		if len(s.RuleHits) > 0 {
			fmt.Fprintf(w, "  rules hit: %s\n", strings.Join(s.RuleHits, ", "))
		}
	case ledger.ToolResultStep:
		what := "result"
		if s.Refused {
			what = "refused"
		} else if s.IsError {
			what = "error"
		}
		fmt.Fprintf(w, "  %s of %s: %d bytes\n%s", what, s.Name, s.Bytes, indent(s.Head))
		for _, u := range s.URLs {
			fmt.Fprintf(w, "    %d %s\n", u.Status, u.URL)
		}
	}
}

func arguments(s ledger.ToolCallStep) string {
	if s.Malformed != "" {
		return "malformed: " + s.Malformed
	}
	names := make([]string, 0, len(s.Args))
	for name := range s.Args {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s=%q", name, s.Args[name])
	}
	return strings.Join(names, ", ")
}

func writeVerdicts(w io.Writer, t *ledger.Task) {
	if t.Sealed == nil {
		fmt.Fprintln(w, "not sealed")
		return
	}
	fmt.Fprintf(w, "\nsealed as %s", t.Sealed.Outcome)
	if a := t.Counted(); a != nil && a.Judgment != nil {
		fmt.Fprintf(w, ": official %s, judged %s (%s)", correct(&a.Judgment.Official), correct(a.Judgment.Judged), a.Judgment.Path)
	}
	fmt.Fprintln(w)
}

func correct(v *bool) string {
	switch {
	case v == nil:
		return "not judged"
	case *v:
		return "correct"
	}
	return "wrong"
}

// spoken takes the text and the calls out of the head of a recorded message;
// a head that was cut is shown as it is.
func spoken(head string) string {
	var m struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal([]byte(head), &m); err != nil {
		return head
	}
	return m.Content
}
