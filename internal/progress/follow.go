package progress

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Follower prints the steps of a run as its journal gets them.
type Follower struct {
	Steps   io.Writer                         // gets the steps
	Notices io.Writer                         // gets a line if recording fails
	JSON    bool                              // a line for each step, as JSON
	Task    func(*rundir.Run) (string, error) // called once the plan is verified; returns the id of the task to follow, "" for all
}

// stepLine is a step as JSON.
type stepLine struct {
	Attempt   int    `json:"attempt"`
	Seq       int64  `json:"seq"`
	Step      any    `json:"step"` // as in trajectories.jsonl; a tool_call is printed before it is decided and has no rule hits yet
	TaskID    string `json:"task_id"`
	Timestamp string `json:"timestamp"`
}

// followPoll is how often a journal is read again.
const followPoll = 200 * time.Millisecond

// Follow prints the steps of the run in files until it, or the task, is sealed, or ctx ends.
func (v Follower) Follow(ctx context.Context, files fs.FS) error {
	run, err := rundir.Begin(files)
	if err != nil {
		return err
	}
	task, err := v.Task(run)
	if err != nil {
		return err
	}
	if !v.JSON {
		if _, err := io.WriteString(v.Steps, runview.Opening(run.Manifest)); err != nil {
			return err
		}
	}
	marked, text := "", &runview.Follower{W: v.Steps}
	return rundir.Follow(files, run, new(sync.Mutex), func() error {
		if now, err := rundir.ReadMarker(files); err == nil && now != marked {
			marked = now
			fmt.Fprintf(v.Notices, "gaia: recording failed: %s; the journal may get no more steps\n", view.Line(now))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPoll):
			return nil
		}
	}, func(e trajectory.Event, _ []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if task != "" && e.TaskID != task {
			return nil
		}
		print := text.Event
		if v.JSON {
			print = v.printJSON
		}
		err := print(run.Fold, e)
		_, ends := e.Payload.(trajectory.TaskSealed)
		if _, commits := e.Payload.(trajectory.TaskCommitted); task != "" && err == nil && (ends || commits && run.Shard != nil) {
			return fs.SkipAll
		}
		return err
	})
}

// printJSON prints the step of an event, if it has one.
func (v Follower) printJSON(f *rundir.Fold, e trajectory.Event) error {
	if e.Attempt == 0 {
		return nil
	}
	step := f.Task(e.TaskID).Attempts[e.Attempt-1].StepOf(e)
	if step == nil {
		return nil
	}
	return view.JSON(v.Steps, stepLine{Attempt: e.Attempt, Seq: e.Seq, Step: step, TaskID: e.TaskID, Timestamp: e.Timestamp})
}
