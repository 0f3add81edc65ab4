package run

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// ErrDrained means that the run was asked to stop and did so before all tasks had
// their attempts. Where none was left out the run is graded and closed.
var ErrDrained = errors.New("stopped on request")

// Execute solves what is not solved, grades, seals and closes. When drain is
// closed no further task begins and those under way are finished. Every error
// leaves a run that can be resumed; one that matches trajectory.ErrNotRecorded
// has marked it as not submittable. It is an *UnrecordedError where the run went
// on without evidence and came to its end.
func (r *Run) Execute(ctx context.Context, drain <-chan struct{}) error {
	err := r.execute(ctx, drain)
	if err != nil { // what was recorded last and nobody waited for, such as how a cancelled call ended
		_, _ = r.log.Append()
	}
	if stop := (*StopError)(nil); errors.As(err, &stop) && ctx.Err() == nil {
		r.closeStopped()
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
	if !r.cfg.Continue || ctx.Err() != nil || isClosed(drain) || r.followed != r.log.Durable().Events {
		return err
	}
	return r.goOn(ctx, drain, failed)
}

func (r *Run) execute(ctx context.Context, drain <-chan struct{}) error {
	if r.fold.Completed != nil {
		return r.seal()
	}
	r.cfg.Model.Limiter.OnUnreachable(r.warn)
	if r.cfg.Judge != nil {
		r.cfg.Judge.Limiter.OnUnreachable(r.warn)
	}
	r.money = newPurse(r.cfg, r.fold)
	if err := r.preflight(ctx, drain); err != nil {
		return err
	}
	if err := r.solveFit(ctx, drain); err != nil {
		return err
	}
	if err := r.gradeAll(ctx); err != nil {
		return err
	}
	if err := r.complete(); err != nil {
		return err
	}
	return r.seal()
}

// solveFit is solveAll until the run turns out unfit to be submitted, where it is
// to stop then.
func (r *Run) solveFit(ctx context.Context, drain <-chan struct{}) error {
	solving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	end := context.CancelCauseFunc(stop)
	r.stop.Store(&end)
	defer r.stop.Store(nil)
	if unfit := r.stopped.Load(); unfit != nil { // before there was anything to stop
		return unfit
	}
	err := r.solveAll(solving, drain)
	if unfit := r.stopped.Load(); err != nil && ctx.Err() == nil && unfit != nil && !errors.Is(err, trajectory.ErrNotRecorded) {
		return unfit
	}
	return err
}

// errLeftOut tells of attempts that the run's budget does not allow.
var errLeftOut = errors.New(prompt.RunMoneySpent + ", or not enough for another attempt: what has not begun is left out, and counts as wrong")

// solveAll makes attempts until every task has its answers or none can be had.
// Without submit intent a task is graded as soon as it is solved.
func (r *Run) solveAll(ctx context.Context, drain <-chan struct{}) error {
	var leftOut sync.Once
	for _, again := range []bool{false, true} {
		err := r.each(ctx, drain, func(ctx context.Context, i int, t *rundir.Task) error {
			return r.solve(ctx, drain, i, t, again, &leftOut)
		})
		if errors.Is(err, ErrDrained) && r.allSettled() {
			drain, err = nil, nil // it came too late to leave a task out
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// solve makes attempts at a task. One that infrastructure failed is made again
// only when all other tasks had theirs: what failed it may have passed by then.
func (r *Run) solve(ctx context.Context, drain <-chan struct{}, i int, t *rundir.Task, again bool, leftOut *sync.Once) error {
	for !r.settled(t) {
		if !again && r.failedBefore(t) {
			return nil
		}
		share, enough := r.money.attempt(ctx, r.cfg.Set.Tasks[i], r.gate.Specs())
		if isClosed(drain) {
			share.close()
			return nil
		}
		if !enough {
			if ctx.Err() == nil {
				leftOut.Do(func() { r.warn(errLeftOut) })
			}
			break // it is graded with what it has
		}
		err := r.attempt(ctx, r.cfg.Set.Tasks[i], t, i, share)
		share.close()
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.cfg.SubmitIntent {
		return nil
	}
	return r.grade(ctx, t)
}

// failedBefore reports whether infrastructure has failed an attempt at a task.
func (r *Run) failedBefore(t *rundir.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(t.Attempts, func(a *rundir.Attempt) bool {
		return a.Ended != nil && a.Ended.Outcome == trajectory.Errored && a.Ended.Reason == trajectory.Infrastructure
	})
}

// each does something for every task, several at once. When drain closes it
// begins no more, lets those under way finish, and returns ErrDrained.
func (r *Run) each(ctx context.Context, drain <-chan struct{}, do func(context.Context, int, *rundir.Task) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	inside := newCrowd(r.atOnce)
	r.follow(inside)
	for i, t := range r.fold.Tasks {
		if isClosed(drain) || inside.enter(groupCtx) != nil {
			break
		}
		group.Go(func() error {
			defer inside.leave()
			if isClosed(drain) { // while it waited for its turn
				return nil
			}
			return do(groupCtx, i, t)
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

// tasksPerRequest is how many tasks are under way for each request that the
// endpoint is given at once: while some wait for their tools, others ask.
const tasksPerRequest = 2

// atOnce returns how many tasks may be under way now.
func (r *Run) atOnce() int {
	if r.cfg.Concurrency > 0 || r.cfg.Model.Limiter == nil {
		return r.cfg.Concurrency
	}
	return tasksPerRequest * int(r.limit.Load())
}

// follow records what the endpoint is given at once, and lets tasks in by it.
func (r *Run) follow(inside *crowd) {
	r.limit.Store(int64(r.cfg.Model.Limiter.Limit()))
	r.cfg.Model.Limiter.Follow(func(c llm.LimitChange) {
		r.limit.Store(int64(c.To)) // in effect as soon as this is told
		// A failure is the log's to remember: nothing is sent after it.
		_, _ = r.log.Enqueue(trajectory.Draft{Payload: trajectory.LimitChanged{From: c.From, Origin: r.cfg.Model.Origin, Reason: c.Reason, To: c.To}})
		inside.wake()
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settled reports whether no further attempt is to be made at a task.
func (r *Run) settled(t *rundir.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.Sealed != nil || r.fold.Settled(t)
}

// attempt makes one attempt at a task and records how it ended. It returns an
// error only where the run itself cannot go on.
func (r *Run) attempt(ctx context.Context, task loader.Task, t *rundir.Task, index int, share *share) error {
	r.mu.Lock()
	number, spent, tokens := len(t.Attempts)+1, spentOn(t), tokensOf(t)
	r.mu.Unlock()
	rec := &trajectory.Attempt{Log: r.log, TaskID: task.ID, Number: number, Redact: r.cfg.Redact, Hashes: r.fold.Manifest.Evidence == plan.EvidenceHashes}
	prober := probe.New(probe.Target{TaskID: task.ID, Question: task.Question, Gold: r.gold[task.ID], SplitIDs: r.splitIDs, Answers: r.answers})
	workspace, files, err := r.furnish(ctx, task, prober, filepath.Join(r.work, fmt.Sprintf("%04d-%d", index+1, number)))
	if err != nil {
		return err
	}
	if workspace != nil {
		defer func() {
			if err := workspace.Close(); err != nil {
				r.warn(fmt.Errorf("closing the workspace of task %q: %w", task.ID, err))
			}
		}()
	}
	question, err := r.ask(task, workspace)
	if err != nil {
		return err
	}
	if err := rec.Append(0, trajectory.TaskStarted{FileName: task.FileName, Question: task.Question, Workspace: files}); err != nil {
		return err
	}
	session := r.gate.Open(rec, workspace, spent, prober)
	solver := agent.Agent{Model: r.cfg.Model.Client, Name: r.cfg.Model.Name, MaxTurns: r.cfg.MaxTurns, MaxTokens: r.cfg.MaxTokens,
		Tools: r.gate.Specs(), Now: r.cfg.Now, Window: r.cfg.Model.ContextWindow,
		Limits: agent.Limits{Tokens: r.cfg.TaskTokens, Used: tokens, Wall: r.cfg.TaskWall}}
	if share != nil {
		solver.Limits.Budget = share
	}
	answer, err := solver.Solve(ctx, question, session, rec)
	if closing := session.Close(); closing != nil {
		r.warn(fmt.Errorf("ending what the tools of task %q kept: %w", task.ID, closing))
	}
	if errors.Is(err, trajectory.ErrNotRecorded) || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	ended := trajectory.AttemptEnded{Reason: answer.Reason, Workspace: r.changed(rec, workspace)}
	if err != nil {
		return r.failed(rec, ended, err)
	}
	r.mu.Lock()
	r.outage.ended()
	r.mu.Unlock()
	if !answer.Found {
		ended.Outcome = trajectory.NoAnswer
		return rec.Append(0, ended)
	}
	ended.Outcome = trajectory.Answered
	text, hidden := r.cfg.Redact.Redact(answer.Text)
	reasoning, more := r.cfg.Redact.Redact(answer.Reasoning)
	err = rec.Append(0, trajectory.AnswerCommitted{Answer: text, ReasoningTrace: reasoning, Redactions: hidden + more, Rule: answer.Rule}, ended)
	if errors.Is(err, trajectory.ErrTooLarge) {
		return r.failed(rec, trajectory.AttemptEnded{Workspace: ended.Workspace}, err)
	}
	return err
}

// changed returns what an attempt has made of its workspace, nil where no tool can
// change one, or where that cannot be told: the answer counts all the same.
func (r *Run) changed(rec *trajectory.Attempt, workspace *tools.Workspace) *trajectory.WorkspaceChange {
	if workspace == nil || !r.gate.Writes() {
		return nil
	}
	change, err := workspace.Change(rec)
	if err != nil {
		r.warn(fmt.Errorf("comparing the workspace of task %q with its start: %w", rec.TaskID, err))
		return nil
	}
	return change
}

// ask returns what the agent is told of a task.
func (r *Run) ask(task loader.Task, workspace *tools.Workspace) (agent.Question, error) {
	q := agent.Question{Text: task.Question, FileName: task.FileName}
	if task.FileName == "" || !r.cfg.Model.Images {
		return q, nil
	}
	root := workspace.Root()
	info, err := root.Stat(task.FileName)
	if err != nil || info.Size() > tools.MaxPicture {
		return q, err
	}
	data, err := root.ReadFile(task.FileName)
	if err != nil {
		return q, err
	}
	r.pictures.Lock() // one at a time, since a large one takes much memory
	defer r.pictures.Unlock()
	if picture, err := tools.NewPicture(data); err == nil { // else there is nothing to show
		q.Picture = picture
	}
	return q, nil
}

// inItsPlace returns the attempts at a task that failed since the last one
// that did not: the next one is made in their place and has their budgets.
func inItsPlace(t *rundir.Task) []*rundir.Attempt {
	from := 0
	for i, a := range t.Attempts {
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			from = i + 1
		}
	}
	return t.Attempts[from:]
}

// spentOn returns what the next attempt at a task finds spent of its budgets.
func spentOn(t *rundir.Task) tools.Spent {
	var s tools.Spent
	for _, a := range inItsPlace(t) {
		s.Calls += a.ToolCalls
		s.CostMicroUSD += a.KnownMicroUSD
	}
	return s
}

func tokensOf(t *rundir.Task) (n int64) {
	for _, a := range inItsPlace(t) {
		n += a.Tokens.In + a.Tokens.Out
	}
	return n
}

// failed ends an attempt whose model or tools failed. A failure that every
// other task would meet stops the run.
func (r *Run) failed(rec *trajectory.Attempt, ended trajectory.AttemptEnded, cause error) error {
	ended.Outcome, ended.Reason = trajectory.Errored, trajectory.Infrastructure
	text, _ := r.cfg.Redact.Redact(withoutPlaces(cause))
	e := trajectory.Error{Message: text, Stage: "solve"}
	why := ""
	if model := (*llm.Error)(nil); errors.As(cause, &model) {
		e.Code, e.Stage = r.cfg.Redact.Label(model.Code), "model"
		_, _ = r.log.Append() // what was replied to others before this counts; an error comes back below
		r.mu.Lock()
		why = r.outage.failed(rec.TaskID, model, text)
		r.mu.Unlock()
	}
	if why != "" {
		ended.Reason = trajectory.RunStopped
	}
	if err := rec.Append(0, e, ended); err != nil {
		return err
	}
	if why != "" {
		return &StopError{trajectory.PreflightModel, why, cause}
	}
	return nil
}

// maxProbed bounds, in bytes, the attachments that are looked through. A larger
// one has no probes, which the audit counts as a gap.
const maxProbed = 64 << 20

// furnish makes an attempt's workspace, a directory with a read-only copy of the
// attachment, and lists what is in it. Without an attachment and a tool that writes
// there is none.
func (r *Run) furnish(ctx context.Context, task loader.Task, prober *probe.Prober, dir string) (*tools.Workspace, []trajectory.File, error) {
	files := []trajectory.File{}
	if task.FileName == "" && !r.gate.Writes() {
		return nil, files, nil
	}
	if err := os.RemoveAll(dir); err != nil { // of an attempt that never began
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	workspace, err := tools.OpenWorkspace(dir)
	if err != nil {
		return nil, nil, err
	}
	if task.FileName != "" {
		file, err := r.attach(ctx, workspace.Root(), task, prober)
		if err != nil {
			return nil, nil, errors.Join(err, workspace.Close())
		}
		files = append(files, file)
	}
	return workspace, files, nil
}

func (r *Run) attach(ctx context.Context, root *os.Root, task loader.Task, prober *probe.Prober) (trajectory.File, error) {
	in, err := r.cfg.Set.Attachment(ctx, task)
	if err != nil {
		return trajectory.File{}, err
	}
	defer in.Close()
	out, err := root.OpenFile(task.FileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return trajectory.File{}, err
	}
	defer out.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err != nil {
		return trajectory.File{}, fmt.Errorf("copying the attachment of task %q: %w", task.ID, err)
	}
	file := trajectory.File{Bytes: n, Path: task.FileName, SHA256: canonical.DigestOf(sum)}
	metadata := func(o loader.Other) bool { return o.Digest == file.SHA256 }
	if file.SHA256 == r.cfg.Set.Digest || slices.ContainsFunc(r.cfg.Set.Others, metadata) {
		return file, fmt.Errorf("the attachment of task %q is the dataset's metadata, which holds the answers: repair the copy of the dataset", task.ID)
	}
	if task.SHA256 != "" && file.SHA256 != task.SHA256 {
		return file, fmt.Errorf("the attachment of task %q is not the file that the plan has the digest of: repair the copy of the dataset", task.ID)
	}
	if err := out.Close(); err != nil || n > maxProbed {
		return file, err
	}
	data, err := root.ReadFile(task.FileName)
	if err != nil {
		return file, err
	}
	text, err := r.cfg.Reader.Text(ctx, task.FileName, data)
	if err != nil {
		return file, fmt.Errorf("reading the attachment of task %q: %w", task.ID, err)
	}
	probes := prober.Probe(text, "", nil)
	file.Probes = &probes
	return file, nil
}
