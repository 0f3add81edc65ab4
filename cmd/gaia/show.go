package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON, wholeDiff, follow bool
	var body, out string
	cmd := &cobra.Command{
		Use:   "show DIR [TASK]",
		Short: "Show what happened in a run, or at one task",
		Long: `Show prints a run as a table of its tasks, or one task step by step: question,
turns, tool calls, approvals, rollbacks, answer, what became of the files, and
verdicts. It reads the journal, after verifying it. TASK is a task id or the start
of one.

--follow prints steps as they are recorded, from the first one, also of attempts
that have not ended, and waits for more until the run is completed, or TASK is
sealed. It checks plan, chain and order of events, not the derived files. With
--json each step is one line. Ctrl-C ends it.

A run with --evidence-full-bodies has whole prompts, replies, arguments and
results beside the journal. --body writes the one of a digest, after checking
it: the exact bytes to a file or pipe, with control characters as escapes to a
terminal.`,
		Example: `  gaia show runs/01J…
  gaia show runs/01J… 3f2a
  gaia show runs/01J… --follow
  gaia show runs/01J… --body sha256:9f86d0… --out page.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("see 'gaia show --help'", "show takes a run directory and, if you like, a task id")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "body", "out"); err != nil {
				return err
			}
			switch {
			case follow && (wholeDiff || body != ""):
				return usage("leave one of them out", "--follow prints steps, so --diff and --body say nothing")
			case out != "" && body == "":
				return usage("gaia show DIR --body DIGEST --out FILE", "--out is for --body")
			case body != "" && (len(args) > 1 || asJSON):
				return usage("gaia show DIR --body DIGEST", "--body writes one body of the run, so TASK and --json say nothing")
			}
			if wholeDiff && (len(args) == 1 || asJSON || body != "") {
				return usage("gaia show DIR TASK --diff", "--diff is for one task, step by step")
			}
			if body != "" {
				return a.showBody(cmd.Context(), args[0], body, out)
			}
			if follow {
				return a.followRun(cmd.Context(), args[0], strings.Join(args[1:], ""), asJSON)
			}
			if len(args) == 1 {
				return a.showRun(args[0], asJSON)
			}
			return a.showTask(args[0], args[1], asJSON, wholeDiff)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary, the task's trajectories, or each step that is followed, as JSON")
	cmd.Flags().BoolVar(&wholeDiff, "diff", false, "print the whole diff of the workspace, not its beginning")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print steps as they are recorded, until the run or task ends")
	cmd.Flags().StringVar(&body, "body", "", "write the whole body of this digest, a body_sha256 of the journal")
	cmd.Flags().StringVarP(&out, "out", "o", "", "with --body: file to write, which must not be there")
	return cmd
}

// showBody writes a body that the run kept, byte for byte. A terminal gets what
// would control it as escapes.
func (a *app) showBody(ctx context.Context, dir, digest, out string) error {
	if err := isRun(dir); err != nil {
		return err
	}
	if trajectory.BodyFile(digest) == "" {
		return usage("a digest is sha256: and 64 hexadecimal digits; 'gaia show --json DIR TASK' has those of a task", "--body %q is no digest", digest)
	}
	body, err := ledger.ReadBody(os.DirFS(dir), digest)
	if errors.Is(err, fs.ErrNotExist) {
		return usage("runs keep bodies with --evidence-full-bodies", "the run keeps no body %s", digest)
	}
	if err != nil {
		return err
	}
	if out != "" && out != "-" {
		if err := notWithin("the body", dir, filepath.Dir(out)); err != nil {
			return err
		}
		return writeStream(ctx, out, func(w io.Writer) error {
			_, err := w.Write(body)
			return err
		})
	}
	if f, is := a.stdout.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		body = []byte(visible.Text(string(body)) + "\n")
	}
	return a.write(body, nil)
}

func (a *app) showRun(dir string, asJSON bool) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	later, err := readAdditions(os.DirFS(dir), found)
	if err != nil {
		return err
	}
	decided, err := audit.ReadAdjudications(os.DirFS(dir), found)
	if err != nil {
		return err
	}
	untrusted := a.checkSigner(found)
	if !asJSON {
		if err := a.printTasks(found); err != nil {
			return err
		}
		if err := a.printRows(append(decisionRows(decided), laterRows(found, later)...)); err != nil {
			return err
		}
	}
	if found.Complete {
		return firstOf(untrusted, a.printFinished(dir, found, nil, asJSON))
	}
	if broken := rulesBroken(found.Fold); broken != "" && !asJSON {
		if _, err := fmt.Fprintf(a.stdout, "rules: %s\n", broken); err != nil {
			return err
		}
	}
	if asJSON {
		if err := a.printJSON(partial{Missing: found.Missing, Planned: len(found.Tasks), Rehearsal: found.Manifest.Rehearsal,
			RunDir: dir, Settled: settled(found.Fold), Unsubmittable: found.Marked}); err != nil {
			return err
		}
	}
	return firstOf(untrusted, incomplete(dir, found))
}

// partial is what show prints of an unfinished run with --json.
type partial struct {
	Missing       string `json:"missing"`
	Planned       int    `json:"planned"`
	Rehearsal     bool   `json:"rehearsal,omitzero"`
	RunDir        string `json:"run_dir"`
	Settled       int    `json:"settled"`          // tasks at which no further attempt is due
	Stopped       string `json:"stopped,omitzero"` // why the run was closed before its end, and can be resumed
	Unsubmittable string `json:"unsubmittable,omitzero"`
}

func settled(f *ledger.Fold) int {
	n := 0
	for _, t := range f.Tasks {
		if f.Settled(t) {
			n++
		}
	}
	return n
}

// taskResult is what show prints of a task with --json.
type taskResult struct {
	Complete     bool                `json:"complete"` // the run is
	Rehearsal    bool                `json:"rehearsal,omitzero"`
	RunDir       string              `json:"run_dir"`
	TaskID       string              `json:"task_id"`
	Trajectories []ledger.Trajectory `json:"trajectories"` // of the attempts that have ended
}

func (a *app) showTask(dir, prefix string, asJSON, wholeDiff bool) error {
	if err := isRun(dir); err != nil {
		return err
	}
	records := []ledger.Trajectory{}
	found, err := ledger.Verify(os.DirFS(dir), ledger.Options{Ended: func(t ledger.Trajectory, _ []byte) error {
		if strings.HasPrefix(t.TaskID, prefix) {
			records = append(records, t)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	untrusted := a.checkSigner(found)
	task, err := oneTask(found.Fold, prefix)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(t ledger.Trajectory) bool { return t.TaskID != task.Plan.TaskID })
	if asJSON {
		err = a.printJSON(taskResult{Complete: found.Complete, Rehearsal: found.Manifest.Rehearsal, RunDir: dir, TaskID: task.Plan.TaskID, Trajectories: records})
	} else {
		err = a.printTask(dir, found, task, records, wholeDiff)
	}
	if err == nil && !found.Complete {
		err = incomplete(dir, found)
	}
	return firstOf(untrusted, err)
}

// printTask prints a task step by step. What others wrote stands indented, or
// on the line that names it, so that it cannot pass for a line of ours.
func (a *app) printTask(dir string, found *ledger.Run, task *ledger.Task, records []ledger.Trajectory, wholeDiff bool) error {
	told, err := toldOf(dir, found, task.Plan.TaskID)
	if err != nil {
		return err
	}
	w := &strings.Builder{}
	w.WriteString(notices(found.Manifest))
	fmt.Fprintf(w, "task %s, level %d\n\n", oneLine(task.Plan.TaskID), task.Plan.Level)
	section(w, "question", told.question)
	if task.Plan.FileName != "" {
		fmt.Fprintf(w, "attachment: %s\n\n", oneLine(task.Plan.FileName))
	}
	for i, r := range records {
		writeAttempt(w, r, task.Attempts[i], told, wholeDiff)
		if found.Manifest.Voting.Rule == ledger.VoteMajority {
			writeVote(w, task, task.Attempts[i])
		}
	}
	if open := task.Open(); open != nil {
		fmt.Fprintf(w, "attempt %d: open, %d turns and %d tool calls so far\n", open.Number, open.Turns, open.ToolCalls)
	}
	writeVerdicts(w, task)
	if task.Sealed != nil && task.Sealed.Outcome == trajectory.Skipped && found.Manifest.Budgets.RunCostMicroUSD > 0 {
		fmt.Fprintf(w, "not begun: %s\n", runBudget(found.Manifest.Budgets))
	}
	_, err = io.WriteString(a.stdout, visible.Text(w.String()))
	return err
}

// oneTask finds the task whose id starts with prefix.
func oneTask(f *ledger.Fold, prefix string) (*ledger.Task, error) {
	at, err := startingWith(prefix, len(f.Tasks), func(i int) string { return f.Tasks[i].Plan.TaskID })
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, usage("'gaia show DIR' lists the tasks", "the run has no task %q", prefix)
	}
	return f.Tasks[at], nil
}

// told is what the journal says of a task beside its trajectories.
type told struct {
	question  string
	condensed map[int][][]trajectory.ContextCondensed // of each attempt: what stands before its first prompt, its second, …
	governed  governed
}

// toldOf reads the journal for a task.
func toldOf(dir string, found *ledger.Run, task string) (told, error) {
	f, err := os.Open(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		return told{}, err
	}
	defer f.Close()
	all, before := told{question: "(not begun)", condensed: map[int][][]trajectory.ContextCondensed{}, governed: governed{}}, []trajectory.ContextCondensed(nil)
	_, _, err = trajectory.ReadJournal(f, found.Manifest.RunID, found.ManifestSHA256, func(e trajectory.Event, _ []byte) error {
		if e.TaskID != task {
			return nil
		}
		switch p := e.Payload.(type) {
		case trajectory.TaskStarted:
			all.question, before = p.Question, nil
		case trajectory.ContextCondensed:
			before = append(before, p)
		case trajectory.ContextCompiled:
			all.condensed[e.Attempt] = append(all.condensed[e.Attempt], before)
			before = nil
		}
		all.governed.add(e)
		return nil
	})
	return all, err
}
