package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/renameio/v2"
)

// PlanError means that what a run would be resumed with is not what it
// planned.
type PlanError struct{ Differences []string }

func (e *PlanError) Error() string {
	return "the run cannot go on with another plan: " + strings.Join(e.Differences, "; ")
}

// ErrComplete means that there is nothing left to do in a run.
var ErrComplete = errors.New("the run is complete")

// Resume takes up an interrupted run. Its evidence must verify, and plan must be its
// own plan again. An unfinished last line is kept aside and cut; attempts without an
// answer are ended as errors, those with one as answered.
func Resume(dir string, plan plan.Plan, e Env) (_ *Run, err error) {
	e.Rand = &serial{r: e.Rand}
	r := &Run{Dir: dir, env: e, secrets: secrets{gold: e.Gold.Map()}}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := regular(dir, lockFile, grading.PrivateFile); err != nil {
		return nil, err
	}
	journal, _, err := rundir.OpenFile(os.DirFS(dir), trajectory.JournalFile, rundir.MaxFile) // before it is locked: a pipe would be waited for
	if err != nil {
		return nil, err
	}
	journal.Close()
	if err := r.takeLocks(dir); err != nil {
		return nil, err
	}
	if err := r.removeStrays(); err != nil {
		return nil, err
	}
	found, records, err := r.rebuild()
	if err != nil {
		return nil, err
	}
	defer func() {
		if records != nil {
			records.Cleanup()
		}
	}()
	if found.Complete {
		return nil, ErrComplete
	}
	if err := r.samePlan(plan, found.Manifest); err != nil {
		return nil, err
	}
	if r.swept, err = r.env.sweep(plan); err != nil {
		return nil, err
	}
	if err := r.repairHelpers(); err != nil {
		return nil, err
	}
	marked, err := rundir.ReadMarker(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	var torn *trajectory.Torn
	closing, err := r.closing()
	if err != nil {
		return nil, err
	}
	if found.Completed != nil && marked != "" && found.NotRecorded == "" && !closing {
		// It was written and not synced: no one was told that the run was complete,
		// and it does not say that recording had failed.
		if torn, err = r.cutLast(); err != nil {
			return nil, err
		}
		records.Cleanup()
		if found, records, err = r.rebuild(); err != nil {
			return nil, err
		}
	} else if torn, err = r.cutTail(found.Torn); err != nil {
		return nil, err
	}
	if err := records.CloseAtomicallyReplace(); err != nil {
		return nil, fmt.Errorf("writing %s again: %w", rundir.TrajectoriesFile, err)
	}
	r.fold = found.Fold
	r.fold.Follow(r.ended)
	if r.env.Resumed != nil {
		r.env.Resumed(r.fold)
	}
	if err := r.open(found.End); err != nil {
		return nil, err
	}
	if r.fold.Completed != nil {
		return r, nil
	}
	if err := r.goOn(found.End, torn, marked); err != nil {
		return nil, errors.Join(err, r.unmarked)
	}
	return r, nil
}

// samePlan compares the plan that the run would have here with the recorded one. The
// program may be another version; that is recorded, not refused.
func (r *Run) samePlan(given, old plan.Plan) error {
	now, err := r.env.complete(given)
	if err != nil {
		return err
	}
	r.approved = now.Approved // each process has its own, and run_resumed says which
	now.Approved, now.RunID, now.Created, now.Harness = old.Approved, old.RunID, old.Created, old.Harness
	if old.Judge != nil && old.Judge.Battery == "" && now.Judge != nil { // the plan is older than self-tests
		now.Judge.Battery, now.Judge.Endpoint = "", old.Judge.Endpoint
	}
	now.Splits, now.Tasks = knownThen(old.Splits, now.Splits), hashedThen(old.Tasks, now.Tasks)
	if _, r.secrets.salts, err = grading.ReadPrivate(r.Dir); err != nil {
		return err
	}
	if err := r.env.commit(&now, r.secrets.salts); err != nil {
		return err
	}
	differences, err := plan.Diff(old, now)
	if err == nil && len(differences) > 0 {
		err = &PlanError{differences}
	}
	return err
}

// knownThen returns the splits that the plan knew of, as they are now where that is known: of the splits that are not run,
// a hub may have given one then or now only.
func knownThen(then, now []plan.SplitPlan) []plan.SplitPlan {
	var out []plan.SplitPlan
	for _, s := range then {
		if at := slices.IndexFunc(now, func(n plan.SplitPlan) bool { return n.Name == s.Name }); at >= 0 {
			s = now[at]
		}
		out = append(out, s)
	}
	return out
}

// hashedThen returns the tasks of now without the digests of attachments that an
// earlier version did not write into the plan.
func hashedThen(then, now []plan.PlannedTask) []plan.PlannedTask {
	if slices.ContainsFunc(then, func(t plan.PlannedTask) bool { return t.FileSHA256 != "" }) {
		return now
	}
	now = slices.Clone(now)
	for i := range now {
		now[i].FileSHA256, now[i].FileBytes = "", 0
	}
	return now
}

// rebuild verifies the run and writes its records again beside the file, since
// that may end early: the journal is read once. What speaks against submitting
// the run is looked for on the way.
func (r *Run) rebuild() (*rundir.Run, *renameio.PendingFile, error) {
	plan, _, _, err := rundir.ReadPlan(os.DirFS(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	r.unfit.follow(plan, r.secrets.gold)
	records, err := renameio.NewPendingFile(filepath.Join(r.Dir, rundir.TrajectoriesFile), renameio.WithPermissions(0o644), renameio.WithTempDir(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(records, 1<<16)
	found, err := rundir.Verify(os.DirFS(r.Dir), rundir.Options{
		Event: func(e trajectory.Event) error {
			r.unfit.add(e)
			r.outage.saw(e)
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

// removeStrays removes what a killed process was about to put in its place, and the
// copies of workspaces that it would have put back. The run is locked: no one else
// writes here.
func (r *Run) removeStrays() error {
	for dir, ours := range map[string]func(string) bool{
		r.Dir: isHidden,
		filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodiesDir)): func(name string) bool { return name[0] == '.' },
		filepath.Join(r.Dir, workDir):                                  func(name string) bool { return strings.HasSuffix(name, tools.KeptSuffix) },
	} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if !ours(e.Name()) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("removing what a killed process left: %w", err)
			}
		}
	}
	return nil
}

// closing reports whether anything is there that is written once run_completed
// is on disk.
func (r *Run) closing() (bool, error) {
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		if _, err := os.Lstat(filepath.Join(r.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return false, nil
}

// cutTail keeps an unfinished last line aside, behind what was cut there
// before, and cuts it from the journal.
func (r *Run) cutTail(tail *trajectory.Tail) (*trajectory.Torn, error) {
	if tail == nil {
		return r.cutBefore()
	}
	before, err := r.keptFrom(tail.Offset)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(before, tail.Bytes) { // else an earlier resume kept it and did not live to cut it
		before = append(before, tail.Bytes...)
	}
	torn := newTorn(tail.Offset, before)
	if err := r.writeFile(torn.File, before); err != nil {
		return nil, fmt.Errorf("keeping the torn line aside: %w", err)
	}
	if err := durable.SyncDir(r.Dir); err != nil {
		return nil, err
	}
	journal, err := os.OpenFile(filepath.Join(r.Dir, trajectory.JournalFile), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	if err := journal.Truncate(tail.Offset); err != nil {
		return nil, fmt.Errorf("cutting the torn line: %w", err)
	}
	return torn, journal.Sync()
}

// cutLast keeps the journal's last line aside and cuts it.
func (r *Run) cutLast() (*trajectory.Torn, error) {
	journal, err := os.Open(filepath.Join(r.Dir, trajectory.JournalFile))
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	info, err := journal.Stat()
	if err != nil {
		return nil, err
	}
	// run_completed is short: a line of numbers
	end := make([]byte, min(info.Size(), 1<<16))
	if _, err := journal.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return nil, err
	}
	last := end[bytes.LastIndexByte(end[:len(end)-1], '\n')+1:]
	return r.cutTail(&trajectory.Tail{Offset: info.Size() - int64(len(last)), Bytes: last})
}

// cutBefore returns what an earlier resume cut and did not live to record: what
// is kept aside from where the journal ends now.
func (r *Run) cutBefore() (*trajectory.Torn, error) {
	journal, err := os.Stat(filepath.Join(r.Dir, trajectory.JournalFile))
	if err != nil {
		return nil, err
	}
	kept, err := r.keptFrom(journal.Size())
	if err != nil || kept == nil {
		return nil, err
	}
	return newTorn(journal.Size(), kept), nil
}

func newTorn(offset int64, kept []byte) *trajectory.Torn {
	return &trajectory.Torn{Bytes: int64(len(kept)), File: tornFile(offset), SHA256: canonical.Digest(kept)}
}

const tornPrefix = "torn-"

func tornFile(offset int64) string { return fmt.Sprint(tornPrefix, offset) }

// maxTorn bounds, in bytes, what is cut at one place: a line, and another for
// each resume that was killed there.
const maxTorn = 4 * trajectory.MaxLine

// keptFrom returns all that was ever cut at an offset of the journal, nil if
// nothing was: where one resume after another is killed it is more than a line.
func (r *Run) keptFrom(offset int64) ([]byte, error) {
	if err := regular(r.Dir, tornFile(offset)); err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(r.Dir, tornFile(offset)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxTorn {
		err = trajectory.Faultf(tornFile(offset), "is larger than %d bytes", maxTorn)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(r.Dir, tornFile(offset)))
}

// repairHelpers cuts a half-written line from the private file, and makes the
// marker again if it is gone: no one knows then what it said.
func (r *Run) repairHelpers() error {
	path := filepath.Join(r.Dir, grading.PrivateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Truncate(path, int64(bytes.LastIndexByte(data, '\n')+1)); err != nil {
		return fmt.Errorf("cutting a half-written line of %s: %w", grading.PrivateFile, err)
	}
	marker := filepath.Join(r.Dir, rundir.MarkerFile)
	if _, err := os.Stat(marker); errors.Is(err, os.ErrNotExist) {
		return writeNew(marker, markerText("the marker was missing when the run was resumed"))
	}
	if marked, err := rundir.ReadMarker(os.DirFS(r.Dir)); err != nil || marked != "" {
		return err
	}
	if _, err := os.Lstat(filepath.Join(r.Dir, UnrecordedResults)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return os.WriteFile(marker, markerText("the run had gone on without evidence, and its marker said nothing of it"), 0o644)
}

// goOn records that the run goes on, and what its marker says, and ends the
// attempts that were cut off.
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
