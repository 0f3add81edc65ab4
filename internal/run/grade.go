package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// gradeAll grades and seals what is not sealed yet. All tasks have had their attempts:
// to be asked to stop now leaves none out.
func (r *Run) gradeAll(ctx context.Context) error {
	return r.each(ctx, nil, func(ctx context.Context, _ int, t *rundir.Task) error { return r.grade(ctx, t) })
}

// grade judges every answer that a task's attempts committed, in their order, if
// there is gold, and seals the task. What was graded or sealed before stays as
// it is.
func (r *Run) grade(ctx context.Context, t *rundir.Task) error {
	if t.Sealed != nil {
		return nil
	}
	if r.fold.Scored() {
		if err := r.judgeAll(ctx, t); err != nil {
			return err
		}
	}
	salt, err := plan.TaskSalt(r.salts.Secret, t.Plan.TaskID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	outcome, attempt, settled := r.fold.Outcome(t)
	attempts := len(t.Attempts)
	r.mu.Unlock()
	if !settled {
		return fmt.Errorf("task %q cannot be sealed: an attempt is open, or the plan votes with more", t.Plan.TaskID)
	}
	_, err = r.log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Payload: trajectory.TaskSealed{
		Attempt: attempt, Attempts: attempts, Outcome: outcome, Salt: salt,
	}})
	return err
}

// judgeAll judges the answers to a task that were not judged before. Where there
// is none at all its gold is kept, so that the private file holds that of every
// task.
func (r *Run) judgeAll(ctx context.Context, t *rundir.Task) error {
	answered := false
	for _, a := range t.Attempts {
		if a.Answer == nil {
			continue
		}
		answered = true
		if a.Judgment != nil {
			continue
		}
		if err := r.judge(ctx, t, a); err != nil {
			return err
		}
	}
	if answered {
		return nil
	}
	return r.keepPrivate(privateVerdict{Gold: r.gold[t.Plan.TaskID], Path: "none", Rehearsal: r.cfg.Rehearsal, TaskID: t.Plan.TaskID})
}

// judge asks for both verdicts on a committed answer and records them: usage
// and verdict in the journal, gold and texts in the private file alone.
func (r *Run) judge(ctx context.Context, t *rundir.Task, a *rundir.Attempt) error {
	gold := r.gold[t.Plan.TaskID]
	item := judge.Item{TaskID: t.Plan.TaskID, Question: r.question(t), Gold: gold, Answer: &a.Answer.Answer}
	scorer := judge.Judge{}
	var ask *asker
	memory := &judgeMemory{run: r}
	if r.cfg.Judge != nil {
		ask = r.asker(memory)
		scorer = judge.Judge{Asker: ask, Known: memory.known, Withstood: memory.withstood}
	}
	v := scorer.Score(ctx, item)
	if err := errors.Join(ctx.Err(), memory.err); err != nil {
		return err
	}
	if err := ask.ended(ctx, &v, memory.proven, r.cfg.Redact); err != nil {
		return err
	}
	event := ask.event(v, memory.untried, r.cfg.Redact)
	private := privateVerdict{a.Answer.Answer, a.Number, gold, v.Judged, v.Official, v.Path, v.Err, r.cfg.Rehearsal, t.Plan.TaskID}
	if err := r.keepPrivate(private); err != nil {
		return err
	}
	if _, err := r.log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Attempt: a.Number, Payload: event}); err != nil {
		return err
	}
	if v.Path == judge.PathJudge && !v.Known { // only now: what a crash leaves unrecorded was not asked before
		memory.remember(item, *v.Judged)
	}
	return nil
}

// question returns the text of a planned task.
func (r *Run) question(t *rundir.Task) string { return r.cfg.Set.Tasks[t.Index].Question }

// complete records the end.
func (r *Run) complete() error {
	r.mu.Lock()
	done, all := r.fold.RunCompleted()
	r.mu.Unlock()
	if !all {
		return fmt.Errorf("the run cannot be closed: a task is not sealed")
	}
	_, err := r.log.Append(trajectory.Draft{Payload: done})
	return err
}

// closeStopped records that the run is closed before its end. What fails here is
// the log's to remember.
func (r *Run) closeStopped() {
	r.mu.Lock()
	stopped := r.fold.RunStopped()
	r.mu.Unlock()
	_, _ = r.log.Append(trajectory.Draft{Payload: stopped})
}

// seal writes what derives from a completed journal, signs the tree head, and
// takes the marker away if recording never failed.
func (r *Run) seal() error {
	if r.lost != nil {
		return r.leave()
	}
	if r.unwritten != nil {
		return fmt.Errorf("writing %s: %w", rundir.TrajectoriesFile, r.unwritten)
	}
	results, err := r.fold.Results()
	if err != nil {
		return err
	}
	summary, err := r.fold.Summary().Encode()
	if err != nil {
		return err
	}
	head, err := r.fold.Checkpoint(r.log.End())
	if err != nil {
		return err
	}
	note, err := head.Sign(r.cfg.Key)
	if err != nil {
		return fmt.Errorf("signing the checkpoint: %w", err)
	}
	for _, f := range []*os.File{r.trajectories, r.judgments} {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{rundir.ResultsFile, results}, {rundir.SummaryFile, summary}, {trajectory.CheckpointFile, note}} {
		if err := r.writeFile(f.name, f.data); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := durable.SyncDir(r.Dir); err != nil {
		return err
	}
	marked, err := rundir.ReadMarker(os.DirFS(r.Dir))
	if err != nil || marked != "" {
		return err
	}
	if err := os.Remove(filepath.Join(r.Dir, rundir.MarkerFile)); err != nil {
		return err
	}
	return durable.SyncDir(r.Dir)
}

// asker puts the judge's requests to a model and adds up what they took.
type asker struct {
	endpoint  Endpoint
	memory    *judgeMemory // nil: nothing is recorded
	now       func() time.Time
	money     *purse // nil: the run's cost is not bounded
	share     *share // of it, for the request under way
	cost      *int64 // nil once a price is unknown
	tokensIn  int64
	tokensOut int64
	latencyMs int64
	failed    *llm.Error
	answered  bool // the judge
}

// asker returns one for the judge of the plan.
func (r *Run) asker(m *judgeMemory) *asker {
	return &asker{endpoint: *r.cfg.Judge, now: r.cfg.Now, memory: m, money: r.money, cost: new(int64)}
}

// failure is what the endpoint failed with last; nil without an asker.
func (a *asker) failure() *llm.Error {
	if a == nil {
		return nil
	}
	return a.failed
}

// ended returns the failure of a judge that will not answer however often it is asked;
// nil without an asker. A judge that withstood the null battery and forbids a request is
// asked once more about something else.
func (a *asker) ended(ctx context.Context, v *judge.Verdict, proven bool, redact trajectory.Redactor) error {
	if a == nil {
		return nil
	}
	err := a.stop(redact)
	if err != nil && proven && a.failed.Status == http.StatusForbidden {
		v.Tries++
		if (judge.Judge{Asker: a}).Answers(ctx) {
			err = nil // this answer alone is forbidden
		}
	}
	return err
}

// event returns what is recorded of a verdict; untried is why the judge could not be
// asked the null battery, if that is known.
func (a *asker) event(v judge.Verdict, untried *llm.Error, redact trajectory.Redactor) trajectory.Judgment {
	e := trajectory.Judgment{Cached: v.Known, CostMicroUSD: new(int64), Judged: v.Judged, Official: v.Official, Path: v.Path, Tries: v.Tries}
	if v.Known || v.Tries > 0 || v.Path == judge.PathError {
		e.Model, e.Prompt = a.endpoint.Name, prompt.JudgeID
	}
	if v.Tries > 0 {
		e.CostMicroUSD, e.TokensIn, e.TokensOut, e.LatencyMs = a.cost, a.tokensIn, a.tokensOut, a.latencyMs
	}
	if failed := cmp.Or(a.failure(), untried); v.Path == judge.PathError && failed != nil {
		e.ErrorStatus = failed.Status
	}
	if v.Reply != nil {
		e.RequestID, e.ResponseModel = redact.Label(v.Reply.RequestID), redact.Label(v.Reply.ResponseModel)
	}
	return e
}

// stop is the failure of an endpoint that will not answer however often it is
// asked; nil if that is not known. A judge that is known to answer and forbids one
// request, as filters do, forbids this one.
func (a *asker) stop(redact trajectory.Redactor) error {
	if a.failed == nil || !a.failed.Stop || a.failed.Status == http.StatusForbidden && a.answered {
		return nil
	}
	return &StopError{trajectory.PreflightJudge, fmt.Sprintf("the judge cannot be asked: status %d, %s", a.failed.Status, redact.Label(a.failed.Code)), a.failed}
}

// Ask implements judge.Asker.
func (a *asker) Ask(ctx context.Context, q judge.Request) (judge.Reply, error) {
	if a.memory != nil && a.memory.err != nil { // nothing happens that follows from what is not recorded
		return judge.Reply{}, a.memory.err
	}
	request := llm.Request{
		Model:    a.endpoint.Name,
		Messages: []llm.Message{{Role: "system", Content: q.System}, {Role: "user", Content: q.User}},
		Schema:   q.Schema, SchemaName: q.SchemaName,
	}
	if a.money != nil {
		var enough bool
		if a.share, enough = a.money.judgment(ctx, request); !enough {
			a.failed = errNoMoney()
			return judge.Reply{}, a.failed
		}
		defer a.share.close()
		request.MaxTokens = int(a.money.maxTokens)
	}
	began := a.now()
	response, err := a.endpoint.Client.Chat(ctx, request, a)
	took := a.now().Sub(began).Milliseconds()
	a.latencyMs += took
	if err != nil {
		if errors.As(err, &a.failed) {
			err = refusal(a.failed)
		}
		return judge.Reply{}, err
	}
	a.answered = true
	return judge.Reply{
		Text: response.Message.Content, RequestID: response.RequestID, ResponseModel: response.ResponseModel,
		TokensIn: response.Usage.In, TokensOut: response.Usage.Out, CostMicroUSD: response.CostMicroUSD, LatencyMs: took,
	}, nil
}

// TryStarted implements llm.Observer. The journal records the judge's calls by
// the judgment they lead to, since their messages hold gold.
func (a *asker) TryStarted(number int) error {
	if number > 1 && a.share != nil && !a.share.again() {
		return errNoMoney()
	}
	return nil
}

// TryCompleted adds up what a try took, also one whose answer was of no use.
func (a *asker) TryCompleted(t llm.Try) error {
	if a.share != nil {
		a.share.tried(t)
	}
	if t.Response == nil {
		return nil
	}
	a.tokensIn += t.Response.Usage.In
	a.tokensOut += t.Response.Usage.Out
	if cost := t.Response.CostMicroUSD; cost == nil {
		a.cost = nil
	} else if a.cost != nil {
		*a.cost += *cost
	}
	return nil
}
