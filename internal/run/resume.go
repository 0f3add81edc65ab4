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
	"github.com/gaia-harness/gaia/internal/policy"
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

// Resume takes up an interrupted run. Its evidence must verify, and c must
// give the same plan. An unfinished last line is kept aside and cut; attempts
// without an answer are ended as errors, those with one as answered.
func Resume(dir string, c Config) (_ *Run, err error) {
	c.Rand = &serial{r: c.Rand}
	r := &Run{Dir: dir, cfg: c, gold: c.Gold.Map()}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := regular(dir, lockFile, PrivateFile); err != nil {
		return nil, err
	}
	journal, _, err := rundir.OpenFile(os.DirFS(dir), trajectory.JournalFile, rundir.MaxFile) // before it is locked: a pipe would be waited for
	if err != nil {
		return nil, err
	}
	journal.Close()
	if err := r.takeLocks(); err != nil {
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
	if err := r.samePlan(found.Manifest); err != nil {
		return nil, err
	}
	if r.swept, err = r.cfg.sweep(); err != nil {
		return nil, err
	}
	if err := r.mendHelpers(); err != nil {
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
		// It was written and not synced: nobody was told that the run was complete,
		// and it does not say that recording had failed.
		if torn, err = r.cutLast(); err != nil {
			return nil, err
		}
		records.Cleanup()
		if found, records, err = r.rebuild(); err != nil {
			return nil, err
		}
	} else if torn, err = r.mendTail(found.Torn); err != nil {
		return nil, err
	}
	if err := records.CloseAtomicallyReplace(); err != nil {
		return nil, fmt.Errorf("writing %s anew: %w", rundir.TrajectoriesFile, err)
	}
	r.fold = found.Fold
	r.fold.Follow(r.ended)
	if r.cfg.Resumed != nil {
		r.cfg.Resumed(r.fold)
	}
	if err := r.open(found.End); err != nil {
		return nil, err
	}
	if r.fold.Completed != nil {
		return r, nil
	}
	if err := r.takeUp(found.End, torn, marked); err != nil {
		return nil, errors.Join(err, r.unmarked)
	}
	return r, nil
}

// rebuild verifies the run and writes its records anew beside the file, since
// that may end early: the journal is read once. What speaks against submitting
// the run is looked for on the way.
func (r *Run) rebuild() (*rundir.Run, *renameio.PendingFile, error) {
	plan, _, _, err := rundir.ReadPlan(os.DirFS(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	r.early.follow(plan, r.gold)
	records, err := renameio.NewPendingFile(filepath.Join(r.Dir, rundir.TrajectoriesFile), renameio.WithPermissions(0o644), renameio.WithTempDir(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(records, 1<<16)
	found, err := rundir.Verify(os.DirFS(r.Dir), rundir.Options{
		Event: func(e trajectory.Event) error {
			r.early.add(e)
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

// writeFile writes a file of the run directory, whole and durable or not at
// all. Nothing of it leaves the directory.
func (r *Run) writeFile(name string, data []byte) error {
	return renameio.WriteFile(filepath.Join(r.Dir, name), data, 0o644, renameio.WithTempDir(r.Dir))
}

// removeStrays removes what a killed process was about to put in its place, and the
// copies of workspaces that it would have put back. The run is locked: nobody else
// writes here.
func (r *Run) removeStrays() error {
	names := []string{rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile, tornPrefix, UnrecordedResults, UnrecordedSummary}
	for dir, ours := range map[string]func(string) bool{
		r.Dir: func(name string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, "."+n) })
		},
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

// regular refuses anything but regular files under names that rundir.Verify
// does not read, and anything but a directory for the workspaces: opening a
// pipe would never return, and a link could lead out of the run.
func regular(dir string, names ...string) error {
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return trajectory.Faultf(name, "is not a regular file")
		}
	}
	info, err := os.Lstat(filepath.Join(dir, workDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = trajectory.Faultf(workDir, "is not a directory")
	}
	return err
}

// mendTail keeps an unfinished last line aside, behind what was cut there
// before, and cuts it from the journal.
func (r *Run) mendTail(tail *trajectory.Tail) (*trajectory.Torn, error) {
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
	return r.mendTail(&trajectory.Tail{Offset: info.Size() - int64(len(last)), Bytes: last})
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

// mendHelpers cuts a half-written line from the private file, and makes the
// marker again if it is gone: nobody knows then what it said.
func (r *Run) mendHelpers() error {
	path := filepath.Join(r.Dir, PrivateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Truncate(path, int64(bytes.LastIndexByte(data, '\n')+1)); err != nil {
		return fmt.Errorf("cutting a half-written line of %s: %w", PrivateFile, err)
	}
	marker := filepath.Join(r.Dir, rundir.MarkerFile)
	if _, err := os.Stat(marker); errors.Is(err, os.ErrNotExist) {
		return writeNew(marker, markerText("the marker was missing when the run was resumed"), 0o644)
	}
	if marked, err := rundir.ReadMarker(os.DirFS(r.Dir)); err != nil || marked != "" {
		return err
	}
	if _, err := os.Lstat(filepath.Join(r.Dir, UnrecordedResults)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return os.WriteFile(marker, markerText("the run had gone on without evidence, and its marker said nothing of it"), 0o644)
}

// takeUp records that the run goes on, and what its marker says, and ends the
// attempts that were cut off.
func (r *Run) takeUp(end trajectory.End, torn *trajectory.Torn, marked string) error {
	drafts := []trajectory.Draft{{Payload: trajectory.RunResumed{
		Approved: slices.Compact(slices.Sorted(slices.Values(r.cfg.Approved))), Events: end.Events, GuidanceHash: policy.GuidanceHash(policy.Constitution(r.cfg.Policy)), Harness: r.cfg.Harness,
		PolicyHash: r.cfg.Policy.Hash(), PolicyMode: string(r.cfg.Policy.Mode), Torn: torn, Unsubmittable: marked,
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
