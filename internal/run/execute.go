package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// ErrDrained means that the run was asked to stop and did so before all tasks had their attempts. Where none was left
// out the run is graded and closed.
var ErrDrained = errors.New("stopped on request")

// Execute asks the models, solves what is not solved, grades, closes and seals. When drain is closed no further task
// begins and those under way are finished. Every error leaves a run that can be resumed; one that matches
// trajectory.ErrNotRecorded has marked it as not submittable. It is an *UnrecordedError where the run reached its end
// without evidence.
func (r *Run) Execute(ctx context.Context, drain <-chan struct{}) error {
	phases := func() error {
		if r.fold.Completed != nil || r.sealed {
			return r.seal()
		}
		r.env.Limiter.OnUnreachable(r.warn)
		r.money = r.newBudget()
		r.grader.Budget = r.money
		if r.fold.Shards == nil { // else the shards did that
			if err := r.preflight(ctx, drain); err != nil {
				return err
			}
			if err := r.solve(ctx, drain); err != nil {
				return err
			}
		} else if unfit := r.stopsUnfit(); unfit != nil {
			return unfit
		}
		if r.part != nil {
			return r.seal()
		}
		if err := r.each(ctx, nil, r.inOrder(), r.gradeTask); err != nil { // all tasks had their attempts: drain leaves none out now
			return err
		}
		r.mu.Lock()
		done, all := r.fold.RunCompleted()
		r.mu.Unlock()
		if !all {
			return errors.New("the run cannot be closed: a task is not sealed")
		}
		if _, err := r.log.Append(trajectory.Draft{Payload: done}); err != nil {
			return err
		}
		return r.seal()
	}
	err := phases()
	if err != nil { // events that were enqueued last, such as how a cancelled call ended
		_, _ = r.log.Append()
	}
	if stop := (*StopError)(nil); errors.As(err, &stop) && ctx.Err() == nil {
		r.mu.Lock()
		stopped := r.fold.RunStopped()
		r.mu.Unlock()
		_, _ = r.log.Append(trajectory.Draft{Payload: stopped}) // a failure stays in the log
	}
	failed := r.log.Err()
	if failed == nil {
		return err
	}
	if !errors.Is(err, trajectory.ErrNotRecorded) { // another error came first
		err = errors.Join(failed, err)
	}
	if r.unmarked != nil {
		return errors.Join(err, r.unmarked)
	}
	if !r.env.Continue || ctx.Err() != nil || isClosed(drain) || r.part != nil || r.end.Events != r.log.Durable().Events {
		return err
	}
	return r.withoutEvidence(phases, failed)
}

// errLeftOut warns of attempts that the run's budget does not allow.
var errLeftOut = errors.New(prompt.RunMoneySpent + ", or not enough for another attempt: what has not begun is left out, and counts as wrong")

// solve makes attempts until every task has its answers or none can be had. An attempt that infrastructure failed is
// made again only when all other tasks had theirs: what failed it may have passed by then. Without submit intent a task
// is graded as soon as it is solved. Where the run turns out unfit to be submitted and is to stop then, the error is an
// *runenv.UnfitError.
func (r *Run) solve(ctx context.Context, drain <-chan struct{}) error {
	solving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.unfit.Stops(stop)
	if unfit := r.stopsUnfit(); unfit != nil { // before there was anything to stop
		return unfit
	}
	var err error
	if r.work, err = filepath.Abs(r.work); err != nil {
		return err
	}
	// They grow with the tasks. A merged run, which makes no attempt, goes without.
	r.secrets.splitIDs, r.secrets.answers = probe.NewIDs(r.env.Set.IDs), probe.NewAnswers(r.env.Targets())
	defer func() { r.secrets.splitIDs, r.secrets.answers = nil, nil }()
	var leftOut sync.Once
	passes := []bool{false, true}
	if r.isWorker() { // a task is its own until it is committed
		passes = []bool{true}
	}
	for _, again := range passes {
		err := r.each(solving, drain, r.tasks(drain), func(ctx context.Context, t *rundir.Task) error {
			task := r.env.Set.Tasks[t.Index]
			for !r.settled(t) && (again || !r.failedBefore(t)) {
				paid, enough := r.money.Wait(ctx, r.money.First(runenv.FirstTokens(task, r.gate.Specs())))
				if isClosed(drain) && !r.isWorker() {
					paid.Close()
					return nil
				}
				if !enough {
					if ctx.Err() == nil && r.money.Err() == nil {
						leftOut.Do(func() { r.warn(errLeftOut) })
					}
					break // it is graded with what it has
				}
				if r.fold.Manifest.Agent != nil { // each of its calls reserves for itself
					paid.Close()
					paid = nil
				}
				err := r.attempt(ctx, task, t, paid)
				paid.Close()
				if err != nil {
					return err
				}
			}
			if ctx.Err() != nil || !again && !r.settled(t) && r.failedBefore(t) {
				return ctx.Err()
			}
			if r.part != nil {
				if t.Committed != nil && again && !r.isWorker() { // by the first pass
					return nil
				}
				return r.commitTask(ctx, t)
			}
			if r.fold.Manifest.SubmitIntent {
				return nil
			}
			return r.gradeTask(ctx, t)
		})
		if errors.Is(err, ErrDrained) && r.allSettled() {
			drain, err = nil, nil // it came too late to leave a task out
		}
		if unfit := r.stopsUnfit(); err != nil && ctx.Err() == nil && unfit != nil && !errors.Is(err, trajectory.ErrNotRecorded) {
			return unfit
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failedBefore reports whether infrastructure has failed an attempt at a task.
func (r *Run) failedBefore(t *rundir.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(t.Attempts, func(a *rundir.Attempt) bool {
		return a.Ended != nil && a.Ended.Outcome == trajectory.Errored && a.Ended.Reason == trajectory.Infrastructure
	})
}

// settled reports whether no further attempt is to be made at a task.
func (r *Run) settled(t *rundir.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.Sealed != nil || t.Committed != nil || r.fold.Settled(t)
}

// allSettled reports whether no attempt is left to be made.
func (r *Run) allSettled() bool {
	return !slices.ContainsFunc(r.fold.Tasks, func(t *rundir.Task) bool { return !r.settled(t) })
}

// nextTask returns the next task, nil after the last.
type nextTask func(context.Context) (*rundir.Task, error)

// inOrder returns the tasks of the run in the order of the plan.
func (r *Run) inOrder() nextTask {
	left := r.fold.Tasks
	return func(context.Context) (t *rundir.Task, _ error) {
		if len(left) > 0 {
			t, left = left[0], left[1:]
		}
		return t, nil
	}
}

// each does something for every task, several at once. When drain closes it begins no more, lets those under way
// finish, and returns ErrDrained.
func (r *Run) each(ctx context.Context, drain <-chan struct{}, next nextTask, do func(context.Context, *rundir.Task) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	tasks := r.env.Limiter.Tasks(r.env.Concurrency, func(c llm.LimitChange) {
		// A failure stays in the log: nothing is sent after it.
		_, _ = r.log.Enqueue(trajectory.Draft{Payload: trajectory.LimitChanged{From: c.From, Origin: r.fold.Manifest.Model.Origin, Reason: c.Reason, To: c.To}})
	})
	for !isClosed(drain) && tasks.Enter(groupCtx) == nil {
		t, err := next(groupCtx)
		if err != nil {
			group.Go(func() error { return err })
		}
		if err != nil || t == nil {
			break
		}
		group.Go(func() error {
			if !isClosed(drain) { // while it waited for its turn
				if err := do(groupCtx, t); err != nil {
					return err // its place stays taken, so that no task begins before the group is cancelled
				}
			}
			tasks.Leave()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if isClosed(drain) {
		return ErrDrained
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// UnrecordedError means that a run came to its end, but that its evidence ends after Events events: the answers and
// scores that follow rest on nothing.
type UnrecordedError struct {
	Events int64
	Cause  error
}

func (e *UnrecordedError) Error() string {
	return fmt.Sprintf("the results are not evidence: recording ended after event %d: %v", e.Events, e.Cause)
}

func (e *UnrecordedError) Unwrap() error { return e.Cause }

// discard takes the lines of a run that cannot record any longer.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Sync() error                 { return nil }

// withoutEvidence takes a run to its end that could not record any longer, from where its evidence ends: as if it were
// resumed there, but without writing a line. Attempts whose events were lost are made again.
func (r *Run) withoutEvidence(phases func() error, cause error) error {
	end := r.log.Durable()
	r.warn(fmt.Errorf("the run continues without evidence after event %d", end.Events))
	work, err := os.MkdirTemp(r.env.Scratch, "gaia-work-")
	if err != nil {
		return fmt.Errorf("%w; and no folder can be made to continue without evidence: %w", cause, err)
	}
	defer os.RemoveAll(work)
	r.lost = &UnrecordedError{end.Events, cause}
	r.work, r.swept, r.fold.Unrecorded, r.grader.KeepNone = work, nil, cause.Error(), true
	r.log, err = trajectory.NewLog(discard{}, end, r.logConfig())
	if err == nil && r.fold.Completed == nil {
		err = r.goOn(end, nil, cause.Error())
	}
	if err == nil {
		err = phases()
	}
	if err != nil { // what was done without evidence is gone
		return fmt.Errorf("%w; and going on without evidence: %w", cause, err)
	}
	return r.lost
}

// Procs is the GOMAXPROCS of a process that executes runs: one more than Go chose, since the goroutine that syncs the
// journal keeps its place among them while it waits for the disk.
func Procs() int { return runtime.GOMAXPROCS(0) + 1 }
