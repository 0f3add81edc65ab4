package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// newGrader returns the grader of a plan, which records in the journal.
func (r *Run) newGrader(m plan.Plan) *grading.Grader {
	record := func(p trajectory.Payload) error {
		_, err := r.log.Append(trajectory.Draft{Payload: p})
		return err
	}
	return &grading.Grader{Judge: r.env.Judge, Plan: m.Judge, Cache: r.env.Verdicts(m), Redact: r.env.Redact, Now: r.env.Now, Warn: r.warn,
		Recorded: func() (passed, settled bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			before, settled := r.fold.Battery()
			return settled && before.Passed, settled
		},
		Record: func(b trajectory.JudgeBattery) error { return record(b) },
		Reject: func(bad judgecache.Bad) error {
			return record(grading.BadEntries(trajectory.JudgeCacheRead, 1, []judgecache.Bad{bad}))
		}}
}

// gradeTask judges every answer that a task's attempts committed, in their order, if there is gold, and seals the task.
// What was graded or sealed before stays as it is.
func (r *Run) gradeTask(ctx context.Context, t *rundir.Task) error {
	if t.Sealed != nil {
		return nil
	}
	if r.fold.Scored() {
		answered := false
		for _, a := range t.Attempts {
			answered = answered || a.Answer != nil
			if a.Answer == nil || a.Judgment != nil {
				continue
			}
			if err := r.judge(ctx, t, a); err != nil {
				return err
			}
		}
		if !answered { // the private file holds the gold of every task
			if err := r.keepPrivate(t, grading.PrivateVerdict{Path: "none"}); err != nil {
				return err
			}
		}
	}
	salt, err := plan.TaskSalt(r.secrets.salts.Secret, t.Plan.TaskID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	outcome, attempt, settled := r.fold.Outcome(t)
	attempts, shard := len(t.Attempts), 0
	if r.fold.Shards != nil {
		shard = r.fold.Shards.Counted[t.Index]
	}
	r.mu.Unlock()
	if !settled {
		return fmt.Errorf("task %q cannot be sealed: an attempt is open, or the plan votes with more", t.Plan.TaskID)
	}
	_, err = r.log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Payload: trajectory.TaskSealed{
		Attempt: attempt, Attempts: attempts, Outcome: outcome, Salt: salt, Shard: shard,
	}})
	return err
}

// judge asks for both verdicts on a committed answer and records them: usage and verdict in the journal, gold and texts
// in the private file alone.
func (r *Run) judge(ctx context.Context, t *rundir.Task, a *rundir.Attempt) error {
	item := judge.Item{TaskID: t.Plan.TaskID, Question: r.env.Set.Tasks[t.Index].Question, Gold: r.secrets.gold[t.Plan.TaskID], Answer: &a.Answer.Answer}
	v, event, err := r.grader.Score(ctx, item)
	if failed := (*grading.UnavailableError)(nil); errors.As(err, &failed) {
		return &StopError{trajectory.PreflightJudge, failed.Error(), err}
	}
	if err != nil {
		return err
	}
	err = r.keepPrivate(t, grading.PrivateVerdict{Answer: a.Answer.Answer, Attempt: a.Number, Judged: v.Judged, Official: v.Official, Path: v.Path, Problem: v.Err})
	if err != nil {
		return err
	}
	if _, err := r.log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Attempt: a.Number, Payload: event}); err != nil {
		return err
	}
	r.grader.Keep(item, v)
	return nil
}

// keepPrivate writes a verdict with its gold to the private file, durably: of what is recorded.
func (r *Run) keepPrivate(t *rundir.Task, v grading.PrivateVerdict) error {
	if r.lost != nil {
		return nil
	}
	v.Gold, v.Rehearsal, v.TaskID = r.secrets.gold[t.Plan.TaskID], r.fold.Manifest.Rehearsal, t.Plan.TaskID
	return r.secrets.private.Append(v)
}

// seal writes what derives from a completed journal, signs the tree head, and removes the marker if recording never
// failed. The fold has followed the events on their way to the disk, so they are not read again: only whether the files
// that grew end as they should.
func (r *Run) seal() error {
	if r.part != nil {
		return r.sealShard()
	}
	results := runfiles.File{Name: rundir.ResultsFile, Write: r.fold.WriteResults}
	summary, err := r.fold.Summary().Encode()
	if err != nil {
		return err
	}
	if r.lost != nil {
		results.Name = runfiles.UnrecordedResults
		for _, f := range []runfiles.File{results, {Name: runfiles.UnrecordedSummary, Data: summary}} {
			if err := r.files.Write(f); err != nil { // the disk may be the reason; the results are still printed
				r.warn(err)
			}
		}
		return nil
	}
	if err := r.checkEnds(); err != nil {
		return err
	}
	head, err := r.fold.Checkpoint(r.log.End())
	if err != nil {
		return err
	}
	note, err := head.Sign(r.env.Key)
	if err != nil {
		return fmt.Errorf("signing the checkpoint: %w", err)
	}
	return r.files.Seal(results, runfiles.File{Name: rundir.SummaryFile, Data: summary}, runfiles.File{Name: trajectory.CheckpointFile, Data: note})
}

// checkEnds checks that the files that grew are whole and end as they were written.
func (r *Run) checkEnds() error {
	if r.unwritten != nil {
		return fmt.Errorf("writing %s: %w", rundir.TrajectoriesFile, r.unwritten)
	}
	return cmp.Or(r.files.CheckEnd(trajectory.JournalFile, r.journal), r.files.CheckEnd(rundir.TrajectoriesFile, r.records))
}
