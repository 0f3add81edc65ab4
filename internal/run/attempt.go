package run

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/agent/external"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/attachment"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
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
	rec := &trajectory.Attempt{Log: r.log, TaskID: task.ID, Number: number, Redact: r.env.Redact, Hashes: m.Evidence == plan.EvidenceHashes, Known: r.fold.Known}
	prober := probe.New(probe.Target{TaskID: task.ID, Question: task.Question, Gold: r.secrets.gold[task.ID], SplitIDs: r.secrets.splitIDs, Answers: r.secrets.answers})
	given := origin.New() // to an own agent
	files, question, shownAs := []trajectory.File{}, agent.Question{Text: task.Question, FileName: task.FileName}, ""
	if m.Agent != nil && task.FileName != "" {
		shownAs = plan.AgentAttachment(path.Ext(task.FileName))
		question.FileName = shownAs
	}
	var err error
	dir := filepath.Join(r.work, fmt.Sprintf("%04d-%d", t.Index+1, number))
	var workspace *tools.Workspace // nil: the task has no attachment, and nothing writes
	writes := r.gate.Writes() || m.Agent != nil
	if task.FileName != "" || writes {
		like := &r.untouched
		if m.Agent != nil { // which writes without a call
			like = nil
		}
		if workspace, files, err = attachment.Prepare(ctx, dir, r.env.Set, task, question.FileName, r.env.Reader,
			external.Given{Prober: prober, Origins: given, Source: origin.Workspace}, like); err != nil {
			return err
		}
		defer func() {
			if err := workspace.Close(); err != nil {
				r.warn(fmt.Errorf("closing the workspace of task %q: %w", task.ID, err))
			}
		}()
	}
	if task.FileName != "" && m.Model.Images {
		if question.Picture, err = attachment.Picture(workspace.Root(), task.FileName); err != nil {
			return err
		}
	}
	// It is durable with the first request, before that is sent: nothing outside of this process depends on it earlier.
	if _, err := rec.Enqueue(0, trajectory.TaskStarted{FileName: task.FileName, Question: task.Question, ShownAs: shownAs, Workspace: files}); err != nil {
		return err
	}
	if m.Agent != nil { // whose process begins without a request
		if err := rec.Append(0); err != nil {
			return err
		}
	}
	session := r.gate.Open(rec, workspace, spent, prober)
	answer, err := r.solver(dir, tokens, paid, given, prober).Solve(ctx, question, session, rec)
	if closing := session.Close(); closing != nil {
		r.warn(fmt.Errorf("ending what the tools of task %q kept: %w", task.ID, closing))
	}
	if errors.Is(err, trajectory.ErrNotRecorded) || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	ended := trajectory.AttemptEnded{Agent: answer.End, Reason: answer.Reason}
	if workspace != nil && writes {
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
	r.outage.Reached()
	r.mu.Unlock()
	if !answer.Found {
		ended.Outcome = trajectory.NoAnswer
		return rec.Append(0, ended)
	}
	ended.Outcome = trajectory.Answered
	text, hidden := r.env.Redact.Redact(answer.Text)
	reasoning, more := r.env.Redact.Redact(answer.Reasoning)
	// The fold keeps them, and without a copy the whole reply.
	text, reasoning = strings.Clone(text), strings.Clone(reasoning)
	err = rec.Append(0, trajectory.AnswerCommitted{Answer: text, InReply: answer.InReply, ReasoningTrace: reasoning, Redactions: hidden + more, Rule: answer.Rule,
		SeenIn: answer.SeenIn, SharesWord: answer.SharesWord}, ended)
	if errors.Is(err, trajectory.ErrTooLarge) {
		return r.failed(rec, trajectory.AttemptEnded{Agent: ended.Agent, Workspace: ended.Workspace}, err)
	}
	return err
}

// solver returns what makes an attempt in a workspace, at a task of which earlier attempts have used tokens.
func (r *Run) solver(workspace string, used int64, paid *budget.Reservation, given *origin.Index, prober tools.Prober) agent.Solver {
	m := r.fold.Manifest
	if m.Agent != nil {
		own := *r.env.Own
		own.Plan, own.Model, own.Workspace, own.Bodies = *m.Agent, m.Model.Name, workspace, m.Evidence == plan.EvidenceBodies
		own.Money, own.Tokens, own.Used, own.Now = r.money, m.Budgets.Tokens, used, r.env.Now
		own.Origins, own.Passages, own.Probe = given, r.secrets.passages, prober
		return own
	}
	a := agent.Agent{Model: r.env.Model, Name: m.Model.Name, MaxTurns: m.Budgets.Turns, MaxTokens: m.Model.MaxTokens,
		Tools: r.gate.Specs(), Now: r.env.Now, Window: m.Model.ContextWindow,
		Limits: agent.Limits{Tokens: m.Budgets.Tokens, Used: used, Wall: time.Duration(m.Budgets.WallMs) * time.Millisecond}}
	if len(m.Model.Stop) > 0 {
		a.Extra = map[string]any{"stop": m.Model.Stop}
	}
	if paid != nil {
		a.Limits.Budget = paid
	}
	return a
}

// failed ends an attempt whose model or tools failed. A failure that every other task would meet stops the run.
func (r *Run) failed(rec *trajectory.Attempt, ended trajectory.AttemptEnded, cause error) error {
	ended.Outcome, ended.Reason = trajectory.Errored, trajectory.Infrastructure
	text, _ := r.env.Redact.Redact(runfiles.WithoutPlaces(cause))
	e := trajectory.Error{Message: text, Stage: "solve"}
	why := ""
	if model := (*llm.Error)(nil); errors.As(cause, &model) {
		e.Code, e.Stage = r.env.Redact.Label(model.Code), "model"
		_, _ = r.log.Append() // what was replied to others before this counts; an error comes back below
		r.mu.Lock()
		why = r.outage.Failed(rec.TaskID, model, text)
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
