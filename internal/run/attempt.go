package run

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/trajectory"
)

// attempt makes one attempt at a task, paid from a reservation, and records how it ended. It returns an error only
// where the run itself cannot go on.
func (r *Run) attempt(ctx context.Context, task loader.Task, t *rundir.Task, paid *budget.Reservation) error {
	m := r.fold.Manifest
	r.mu.Lock()
	number, spent, tokens := len(t.Attempts)+1, tools.Spent{}, int64(0)
	for _, a := range t.Attempts { // what failed since the last attempt that did not: this one has the budgets of those
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			spent, tokens = tools.Spent{}, 0
			continue
		}
		spent.Calls += a.ToolCalls
		spent.CostMicroUSD += a.KnownMicroUSD
		tokens += a.Tokens.In + a.Tokens.Out
	}
	r.mu.Unlock()
	rec := &trajectory.Attempt{Log: r.log, TaskID: task.ID, Number: number, Redact: r.env.Redact, Hashes: m.Evidence == plan.EvidenceHashes}
	prober := probe.New(probe.Target{TaskID: task.ID, Question: task.Question, Gold: r.secrets.gold[task.ID], SplitIDs: r.secrets.splitIDs, Answers: r.secrets.answers})
	workspace, files, err := r.prepareWorkspace(ctx, task, prober, filepath.Join(r.work, fmt.Sprintf("%04d-%d", t.Index+1, number)))
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
	question, err := r.question(task, workspace)
	if err != nil {
		return err
	}
	if err := rec.Append(0, trajectory.TaskStarted{FileName: task.FileName, Question: task.Question, Workspace: files}); err != nil {
		return err
	}
	session := r.gate.Open(rec, workspace, spent, prober)
	solver := agent.Agent{Model: r.env.Model, Name: m.Model.Name, MaxTurns: m.Budgets.Turns, MaxTokens: m.Model.MaxTokens,
		Tools: r.gate.Specs(), Now: r.env.Now, Window: m.Model.ContextWindow,
		Limits: agent.Limits{Tokens: m.Budgets.Tokens, Used: tokens, Wall: time.Duration(m.Budgets.WallMs) * time.Millisecond}}
	if len(m.Model.Stop) > 0 {
		solver.Extra = map[string]any{"stop": m.Model.Stop}
	}
	if paid != nil {
		solver.Limits.Budget = paid
	}
	answer, err := solver.Solve(ctx, question, session, rec)
	if closing := session.Close(); closing != nil {
		r.warn(fmt.Errorf("ending what the tools of task %q kept: %w", task.ID, closing))
	}
	if errors.Is(err, trajectory.ErrNotRecorded) || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	ended := trajectory.AttemptEnded{Reason: answer.Reason}
	if workspace != nil && r.gate.Writes() {
		if change, err := workspace.Change(rec); err == nil {
			ended.Workspace = change
		} else { // the answer counts all the same
			r.warn(fmt.Errorf("comparing the workspace of task %q with its start: %w", task.ID, err))
		}
	}
	if err != nil {
		return r.failed(rec, ended, err)
	}
	r.mu.Lock()
	r.outage.unreachable = nil // the endpoint is there
	r.mu.Unlock()
	if !answer.Found {
		ended.Outcome = trajectory.NoAnswer
		return rec.Append(0, ended)
	}
	ended.Outcome = trajectory.Answered
	text, hidden := r.env.Redact.Redact(answer.Text)
	reasoning, more := r.env.Redact.Redact(answer.Reasoning)
	err = rec.Append(0, trajectory.AnswerCommitted{Answer: text, ReasoningTrace: reasoning, Redactions: hidden + more, Rule: answer.Rule}, ended)
	if errors.Is(err, trajectory.ErrTooLarge) {
		return r.failed(rec, trajectory.AttemptEnded{Workspace: ended.Workspace}, err)
	}
	return err
}

// onePicture is held while a picture is prepared, since a large one takes much memory.
var onePicture sync.Mutex

// question returns what the agent is asked, with the picture that comes with it.
func (r *Run) question(task loader.Task, workspace *tools.Workspace) (agent.Question, error) {
	q := agent.Question{Text: task.Question, FileName: task.FileName}
	if task.FileName == "" || !r.fold.Manifest.Model.Images {
		return q, nil
	}
	root := workspace.Root()
	info, err := root.Stat(task.FileName)
	if err != nil || info.Size() > media.MaxPicture {
		return q, err
	}
	data, err := root.ReadFile(task.FileName)
	if err != nil {
		return q, err
	}
	onePicture.Lock()
	defer onePicture.Unlock()
	if picture, err := media.NewPicture(data); err == nil { // else there is nothing to show
		q.Picture = picture
	}
	return q, nil
}

// failed ends an attempt whose model or tools failed. A failure that every other task would meet stops the run.
func (r *Run) failed(rec *trajectory.Attempt, ended trajectory.AttemptEnded, cause error) error {
	ended.Outcome, ended.Reason = trajectory.Errored, trajectory.Infrastructure
	text, _ := r.env.Redact.Redact(withoutPlaces(cause))
	e := trajectory.Error{Message: text, Stage: "solve"}
	why := ""
	if model := (*llm.Error)(nil); errors.As(cause, &model) {
		e.Code, e.Stage = r.env.Redact.Label(model.Code), "model"
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

// maxProbed bounds, in bytes, the attachments that are looked through. A larger one has no probes, which the audit
// counts as a gap.
const maxProbed = 64 << 20

// prepareWorkspace makes an attempt's workspace, a directory with a read-only copy of the attachment, and lists what is
// in it. Without an attachment and a tool that writes there is none.
func (r *Run) prepareWorkspace(ctx context.Context, task loader.Task, prober *probe.Prober, dir string) (*tools.Workspace, []trajectory.File, error) {
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
	in, err := r.env.Set.Attachment(ctx, task)
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
	if file.SHA256 == r.env.Set.Digest || slices.ContainsFunc(r.env.Set.Others, metadata) {
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
	text, err := r.env.Reader.Text(ctx, task.FileName, data)
	if err != nil {
		return file, fmt.Errorf("reading the attachment of task %q: %w", task.ID, err)
	}
	probes := prober.Probe(text, "", nil)
	file.Probes = &probes
	return file, nil
}
