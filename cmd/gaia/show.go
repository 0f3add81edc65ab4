package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/spf13/cobra"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON, wholeDiff, follow, gold bool
	var body, out, dataset string
	var filter runview.Filter
	cmd := &cobra.Command{
		Use:   "show DIR [TASK]",
		Short: "Show the tasks of a run, or the steps of one task",
		Long: `Show verifies a run and prints a table of its tasks, or one task step by step:
question, turns, tool calls, approvals, rollbacks, answer, changed files, verdicts.
TASK is a task id or the start of one.

--failed, --level and --tool leave tasks out of the table, and combine. --gold shows
the gold answers of the dataset that --dataset names, which must be the plan's. It
writes them nowhere.

--follow prints steps as they are recorded, from the first one, until the run is
completed, TASK is sealed, or Ctrl-C. It checks plan, chain and order of events, not
the derived files. With --json each step is one line.

A run with --evidence-full-bodies has whole prompts, replies, arguments and results
beside the journal. --body checks the one of a digest and writes it: the exact bytes
to a file or pipe, with control characters as escapes to a terminal.`,
		Example: `  gaia show runs/01J… 3f2a
  gaia show runs/01J… --failed --level 1,2 --gold --dataset dir:GAIA
  gaia show runs/01J… --follow
  gaia show runs/01J… --body sha256:9f86d0… --out page.html`,
		Args: cli.Args(1, 2, "a run directory and optionally a task id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case follow && (wholeDiff || body != ""):
				return usage("leave one of them out", "--follow prints steps, so --diff and --body say nothing")
			case out != "" && body == "":
				return usage("gaia show DIR --body DIGEST --out FILE", "--out is for --body")
			case body != "" && (len(args) > 1 || asJSON):
				return usage("gaia show DIR --body DIGEST", "--body writes one body of the run, so TASK and --json say nothing")
			}
			switch {
			case filter.Selects() && (len(args) > 1 || follow || body != ""):
				return usage("gaia show DIR --failed", "--failed, --level and --tool select tasks of the table: leave out TASK, --follow and --body")
			case gold && (follow || body != ""):
				return usage("gaia show DIR --gold --dataset dir:PATH", "--gold shows answers beside those of the run, so --follow and --body say nothing")
			case gold != (dataset != ""):
				return usage("give both: --gold --dataset dir:PATH, hub or fixtures", "--gold needs the source of the gold answers, and --dataset is for nothing else")
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
				return a.showRun(cmd.Context(), args[0], asJSON, filter, dataset)
			}
			return a.showTask(cmd.Context(), args[0], args[1], asJSON, wholeDiff, dataset)
		},
	}
	cli.RejectEmpty(cmd, "body", "out", "dataset", "tool")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary, the task's trajectories, or with --follow each step, as JSON")
	cmd.Flags().BoolVar(&filter.Failed, "failed", false, "only tasks that are wrong, unanswered, in error or never begun")
	cmd.Flags().IntSliceVar(&filter.Levels, "level", nil, "only tasks of these levels, such as 1,2")
	cmd.Flags().StringSliceVar(&filter.Tools, "tool", nil, "only tasks in which all of these tools ran")
	cmd.Flags().BoolVar(&gold, "gold", false, "also show the gold answers: keep them out of anything that an agent reads")
	runflags.AddDataset(cmd, &dataset, "with --gold: the plan's dataset: hub, hub:OWNER/NAME, dir:PATH or fixtures", "")
	cli.CompleteList(cmd, "level", "1", "2", "3")
	cli.CompleteList(cmd, "tool", policy.BuiltinTools()...)
	cmd.Flags().BoolVar(&wholeDiff, "diff", false, "print the whole diff of the workspace, not its beginning")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print steps as they are recorded, until the run or task ends")
	cmd.Flags().StringVar(&body, "body", "", "write the whole body of this digest, a body_sha256 of the journal")
	cmd.Flags().StringVarP(&out, "out", "o", "", "with --body: file to write, which must not exist")
	return cmd
}

// showBody writes a body that the run kept, byte for byte. A terminal gets what
// would control it as escapes.
func (a *app) showBody(ctx context.Context, dir, digest, out string) error {
	body, err := verify.ReadBody(dir, digest)
	if err != nil {
		return err
	}
	if out != "" && out != "-" {
		if err := verify.NotWithin("the body", dir, filepath.Dir(out)); err != nil {
			return err
		}
		return outfile.WriteStream(ctx, out, func(w io.Writer) error {
			_, err := w.Write(body)
			return err
		})
	}
	if screen, is := a.stdout.(*view.Screen); is {
		_, err := screen.File.WriteString(visible.Text(string(body)) + "\n") // as it is: what looks like a table is none
		return err
	}
	return a.write(body, nil)
}

// goldOf returns the gold answers of a run from a dataset that is the plan's; nil without one.
func (a *app) goldOf(ctx context.Context, dataset string, found *rundir.Run) (map[string]string, error) {
	if dataset == "" {
		return nil, nil
	}
	gold, err := a.user().GoldFor(ctx, dataset, found.Manifest)
	if err == nil && gold == nil {
		err = usage("leave out --gold", "the plan has no gold answers")
	}
	if err != nil {
		return nil, err
	}
	a.warnAnswers()
	return gold.Answers, nil
}

func (a *app) showRun(ctx context.Context, dir string, asJSON bool, filter runview.Filter, dataset string) error {
	found, err := verify.RunAt(dir)
	if err == nil {
		err = filter.Check(found.Manifest)
	}
	if err == nil {
		filter.Gold, err = a.goldOf(ctx, dataset, found)
	}
	if err != nil {
		return err
	}
	var listed *runview.List
	if asJSON && filter.Any() {
		listed = filter.List(found)
	}
	later, err := verify.Additions(os.DirFS(dir), found)
	if err != nil {
		return err
	}
	decided, err := audit.ReadAdjudications(os.DirFS(dir), found)
	if err != nil {
		return err
	}
	untrusted := a.checkSigner(found)
	if !asJSON {
		if err := runview.Tasks(a.stdout, found, filter); err != nil {
			return err
		}
		if err := view.Rows(a.stdout, append(verify.DecisionRows(decided), verify.LaterRows(found, later)...)); err != nil {
			return err
		}
	}
	if found.Complete {
		return exit.First(untrusted, a.printFinished(dir, found, nil, &runflags.Settings{AsJSON: asJSON, Listed: listed}))
	}
	if broken := runview.RulesBroken(found.Fold); broken != "" && !asJSON {
		if _, err := fmt.Fprintf(a.stdout, "rules: %s\n", broken); err != nil {
			return err
		}
	}
	if err := a.printPartial(asJSON, dir, found, partial{Missing: found.Missing, Tasks: listed, Unsubmittable: found.Marked}); err != nil {
		return err
	}
	return exit.First(untrusted, incomplete(dir, found))
}

// partial is what show prints of an unfinished run with --json.
type partial struct {
	Missing       string        `json:"missing"`
	Planned       int           `json:"planned"`
	Rehearsal     bool          `json:"rehearsal,omitzero"`
	RunDir        string        `json:"run_dir"`
	Settled       int           `json:"settled"`          // tasks at which no further attempt is due
	Stopped       string        `json:"stopped,omitzero"` // why the run was closed before its end, and can be resumed
	Tasks         *runview.List `json:"tasks,omitzero"`   // of a filter
	Unsubmittable string        `json:"unsubmittable,omitzero"`
}

// printPartial prints an unfinished run as JSON, if that is what the user reads.
func (a *app) printPartial(asJSON bool, dir string, found *rundir.Run, p partial) error {
	if !asJSON {
		return nil
	}
	p.Planned, p.Rehearsal, p.RunDir = len(found.Tasks), found.Manifest.Rehearsal, dir
	for _, t := range found.Tasks {
		if found.Settled(t) {
			p.Settled++
		}
	}
	return view.JSON(a.stdout, p)
}

// taskResult is what show prints of a task with --json.
type taskResult struct {
	Complete     bool                `json:"complete"`           // the run is
	ErrorsOf     string              `json:"errors_of,omitzero"` // run whose errors are the tasks of this one
	Gold         *string             `json:"gold,omitzero"`      // left out: no dataset was given
	Rehearsal    bool                `json:"rehearsal,omitzero"`
	RunDir       string              `json:"run_dir"`
	TaskID       string              `json:"task_id"`
	Trajectories []rundir.Trajectory `json:"trajectories"` // of the attempts that have ended
}

func (a *app) showTask(ctx context.Context, dir, prefix string, asJSON, wholeDiff bool, dataset string) error {
	if err := verify.IsRun(dir); err != nil {
		return err
	}
	records := []rundir.Trajectory{}
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{Ended: func(t rundir.Trajectory, _ []byte) error {
		if strings.HasPrefix(t.TaskID, prefix) {
			records = append(records, t)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	untrusted := a.checkSigner(found)
	task, err := tasklist.InRun(found.Fold, prefix)
	if err != nil {
		return err
	}
	answers, err := a.goldOf(ctx, dataset, found)
	if err != nil {
		return err
	}
	var gold *string
	if answers != nil {
		gold = new(answers[task.Plan.TaskID])
	}
	records = slices.DeleteFunc(records, func(t rundir.Trajectory) bool { return t.TaskID != task.Plan.TaskID })
	if asJSON {
		err = view.JSON(a.stdout, taskResult{Complete: found.Complete, ErrorsOf: found.Manifest.Dataset.ErrorsOf.RunID, Gold: gold, Rehearsal: found.Manifest.Rehearsal, RunDir: dir, TaskID: task.Plan.TaskID, Trajectories: records})
	} else {
		err = runview.Task(a.stdout, os.DirFS(dir), found, task, records, wholeDiff)
		if err == nil && gold != nil {
			_, err = fmt.Fprintf(a.stdout, "gold answer: %s\n", view.Line(*gold))
		}
	}
	if err == nil && !found.Complete {
		err = incomplete(dir, found)
	}
	return exit.First(untrusted, err)
}

// followRun prints the steps of a run, or of the task whose id starts with prefix, as the journal gets them.
func (a *app) followRun(ctx context.Context, dir, prefix string, asJSON bool) error {
	if err := verify.IsRun(dir); err != nil {
		return err
	}
	stopper := stop.Catch(ctx, a.stderr)
	defer stopper.Release()
	var untrusted error
	follower := progress.Follower{Steps: a.stdout, Notices: a.stderr, JSON: asJSON, Task: func(run *rundir.Run) (string, error) {
		if untrusted = a.checkSigner(run); untrusted != nil { // following may take hours
			a.warn(untrusted.Error())
		}
		if prefix == "" {
			return "", nil
		}
		t, err := tasklist.InRun(run.Fold, prefix)
		if err != nil {
			return "", err
		}
		return t.Plan.TaskID, nil
	}}
	err := follower.Follow(stopper.Context, os.DirFS(dir))
	if errors.Is(err, rundir.ErrRemoved) {
		err = fail(exit.Failure, fmt.Errorf("%q: %w", dir, err))
	}
	return exit.First(untrusted, err)
}
