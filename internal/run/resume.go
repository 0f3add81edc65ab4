package run

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/renameio/v2"
)

// ErrComplete means that there is nothing left to do in a run.
var ErrComplete = errors.New("the run is complete")

// Resume continues an interrupted run. Its evidence must verify, and plan must be its own plan again. It keeps an
// unfinished last line of the journal aside and cuts it, and ends open attempts: those without an answer as errors,
// those with one as answered.
func Resume(dir string, plan plan.Plan, e Env) (*Run, error) {
	r := &Run{Dir: dir, env: e, secrets: secrets{gold: e.Gold.Map()}}
	if err := r.resume(plan); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Run) resume(plan plan.Plan) (err error) {
	dir := r.Dir
	if r.files, err = runfiles.Lock(dir); err != nil {
		return err
	}
	var records *renameio.PendingFile
	defer func() {
		if err != nil {
			r.Close()
		}
		if records != nil {
			records.Cleanup()
		}
	}()
	found, records, err := r.rebuild()
	if err != nil {
		return err
	}
	if (found.Shard != nil) != (r.part != nil) || r.part != nil && *found.Shard != r.part.Delegation {
		return errors.New("the folder is not of this run, or not of this shard of it")
	}
	closing, err := r.files.Closing()
	if err != nil {
		return err
	}
	closed, err := r.files.Closed()
	if err != nil {
		return err
	}
	if r.sealed = closing && r.part != nil; found.Complete || r.sealed && closed {
		return ErrComplete
	}
	r.base = found.Shards.Events()
	if err := r.samePlan(plan, found.Manifest); err != nil {
		return err
	}
	if r.swept, err = r.env.Sweep(plan); err != nil {
		return err
	}
	if err := r.files.Repair(); err != nil {
		return err
	}
	marked, err := rundir.ReadMarker(os.DirFS(dir))
	if err != nil {
		return err
	}
	var torn *trajectory.Torn
	if found.Completed != nil && marked != "" && found.NotRecorded == "" && !closing {
		// run_completed was written and not synced: it was never acknowledged, and it does not record that recording
		// had failed.
		if torn, err = r.files.CutLast(); err != nil {
			return err
		}
		records.Cleanup()
		if found, records, err = r.rebuild(); err != nil {
			return err
		}
	} else if torn, err = r.files.CutTail(found.Torn); err != nil {
		return err
	}
	if err := records.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("writing %s again: %w", rundir.TrajectoriesFile, err)
	}
	r.fold = found.Fold
	r.fold.Follow(r.ended)
	if r.env.Resumed != nil {
		r.env.Resumed(r.fold)
	}
	if err := r.open(found.End); err != nil {
		return err
	}
	if r.fold.Completed != nil || r.sealed {
		return nil
	}
	if err := r.goOn(found.End, torn, marked); err != nil {
		return errors.Join(err, r.unmarked)
	}
	return nil
}

// samePlan checks that the environment gives the plan of the run again, and takes its salts.
func (r *Run) samePlan(given, old plan.Plan) (err error) {
	if r.part != nil {
		r.approved, err = r.env.SamePlanOfShard(r.Dir, given, old)
		return err
	}
	if _, r.secrets.salts, err = grading.ReadPrivate(r.Dir); err == nil {
		r.approved, err = r.env.SamePlan(r.Dir, given, old, r.secrets.salts)
	}
	return err
}

// rebuild verifies the run and writes its records again beside the file, which may end early. It reads the journal
// once, and looks on the way for what makes the run unfit to be submitted.
func (r *Run) rebuild() (*rundir.Run, *renameio.PendingFile, error) {
	plan, _, _, err := rundir.ReadPlan(os.DirFS(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	r.unfit.Follow(plan, r.secrets.gold)
	records, err := r.files.Rewrite()
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(records, 1<<16)
	found, err := rundir.Verify(os.DirFS(r.Dir), rundir.Options{
		Event: func(e trajectory.Event) error {
			r.unfit.Add(e)
			r.outage.Saw(e)
			return nil
		},
		Ended: func(_ rundir.Trajectory, line []byte) error {
			_, err := w.Write(line)
			return err
		},
	})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		records.Cleanup()
		return nil, nil, err
	}
	return found, records, nil
}

// goOn records that the run continues, and the reason in its marker, and ends the attempts that were cut off.
func (r *Run) goOn(end trajectory.End, torn *trajectory.Torn, marked string) error {
	m := r.fold.Manifest
	drafts := []trajectory.Draft{{Payload: trajectory.RunResumed{
		Approved: r.approved, Events: end.Events, GuidanceHash: m.GuidanceHash, Harness: r.env.Harness,
		PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Torn: torn, Unsubmittable: marked,
	}}}
	drafts = append(drafts, r.sweepEvents()...)
	for _, t := range r.fold.Tasks {
		a := t.Open()
		if a == nil {
			continue
		}
		ended := trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.Interrupted}
		if a.Answer != nil {
			ended.Outcome = trajectory.Answered
		}
		drafts = append(drafts, trajectory.Draft{TaskID: t.Plan.TaskID, Attempt: a.Number, Payload: ended})
	}
	_, err := r.log.Append(drafts...)
	return err
}
