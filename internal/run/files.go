package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Files of a run directory that only this package touches.
const (
	lockFile = "lock"
	workDir  = "work"
)

// markerSize is how much room the marker has from the start, so that a reason can be
// written when the disk is full.
const markerSize = 1 << 10

// ErrBusy means that another process writes the run.
var ErrBusy = errors.New("another process is writing this run")

// ErrUnmarked means that recording failed and that not even this could be written
// down.
var ErrUnmarked = errors.New("the run could not be marked as not submittable")

// files are the open files of a run directory.
type files struct {
	locks        []*flock.Flock
	journal      *os.File
	trajectories *os.File
	marker       *os.File
	private      grading.Private // judgments
	work         string          // directory of the workspaces
	unmarked     error           // why the marker could not be written when recording failed
}

func (f *files) openFiles(dir string) (err error) {
	if err := f.takeLocks(dir); err != nil {
		return err
	}
	for _, o := range []struct {
		name string
		flag int
		file **os.File
	}{
		{trajectory.JournalFile, os.O_APPEND, &f.journal}, {rundir.TrajectoriesFile, os.O_APPEND, &f.trajectories},
		{grading.PrivateFile, os.O_APPEND, &f.private.File}, {rundir.MarkerFile, 0, &f.marker},
	} {
		if *o.file, err = os.OpenFile(filepath.Join(dir, o.name), os.O_RDWR|o.flag, 0); err != nil {
			return fmt.Errorf("opening %s: %w", o.name, err)
		}
	}
	return nil
}

// takeLocks locks the run by a file that is there for nothing else, and by the
// journal itself, which no one removes from a run that is being written.
func (f *files) takeLocks(dir string) error {
	if len(f.locks) > 0 {
		return nil
	}
	for _, lock := range []*flock.Flock{
		flock.New(filepath.Join(dir, lockFile)),
		flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY)),
	} {
		if err := tryLock(lock); err != nil {
			return err
		}
		f.locks = append(f.locks, lock)
	}
	return nil
}

func tryLock(lock *flock.Flock) error {
	got, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("locking the run: %w", err)
	}
	if !got {
		return ErrBusy
	}
	return nil
}

// Close gives up the files and the lock.
func (f *files) Close() error {
	var errs []error
	for _, file := range []*os.File{f.journal, f.trajectories, f.private.File, f.marker} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	for _, lock := range f.locks {
		errs = append(errs, lock.Unlock())
	}
	return errors.Join(errs...)
}

// Hold locks a run directory against a process that would write it, until release is
// called; ErrBusy where one does. It makes nothing in the directory.
func Hold(dir string) (release func() error, err error) {
	if err := regular(dir, lockFile, trajectory.JournalFile); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY)) // which takeLocks locks, too
	return lock.Unlock, tryLock(lock)
}

// mark overwrites the marker in place. Where that fails it is removed: a run that goes
// on without one is marked then.
func (f *files) mark(dir, reason string) error {
	_, err := f.marker.WriteAt(markerText(reason), 0)
	if err == nil {
		err = f.marker.Sync()
	}
	if err == nil || os.Remove(filepath.Join(dir, rundir.MarkerFile)) == nil && durable.SyncDir(dir) == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnmarked, err)
}

// markerText is a reason in the size that the marker always has.
func markerText(reason string) []byte {
	text := strings.ReplaceAll(reason, "\n", " ")
	text = strings.ToValidUTF8(text[:min(len(text), markerSize-1)], "")
	return []byte(text + strings.Repeat("\n", markerSize-len(text)))
}

// wholeFiles are the files that appear whole, beside a hidden one that takes their place.
func wholeFiles() []string {
	return []string{rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile, tornPrefix, UnrecordedResults, UnrecordedSummary}
}

// isHidden reports whether a file of a name was to take the place of one of wholeFiles.
func isHidden(name string) bool {
	return slices.ContainsFunc(wholeFiles(), func(n string) bool { return strings.HasPrefix(name, "."+n) })
}

// Foreign returns the name of a file or folder that a run directory holds and that no
// run makes, "" if there is none.
func Foreign(dir string) (string, error) {
	bodies, _, _ := strings.Cut(trajectory.BodiesDir, "/")
	own := append(wholeFiles(), plan.ManifestFile, plan.EnvelopeFile, trajectory.JournalFile, rundir.MarkerFile, grading.PrivateFile,
		lockFile, workDir, plan.ConstitutionFile, bodies, audit.AttestationsDir)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); !isHidden(name) && !strings.HasPrefix(name, tornPrefix) && !slices.Contains(own, name) {
			return name, nil
		}
	}
	return "", err
}

// regular refuses anything but regular files under names that rundir.Verify does not
// read, and anything but a directory for the workspaces: opening a pipe would never
// return, and a link could lead out of the run.
func regular(dir string, names ...string) error {
	for _, name := range append(names, workDir) {
		info, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case name == workDir && !info.IsDir():
			return trajectory.Faultf(name, "is not a directory")
		case name != workDir && !info.Mode().IsRegular():
			return trajectory.Faultf(name, "is not a regular file")
		}
	}
	return nil
}

// writeFile writes a file of the run directory, whole and durable or not at all.
// Nothing of it leaves the directory.
func (r *Run) writeFile(name string, data []byte) error {
	return renameio.WriteFile(filepath.Join(r.Dir, name), data, 0o644, renameio.WithTempDir(r.Dir))
}

// writeNew writes a file that must not exist and syncs it. The private file is for its
// owner alone.
func writeNew(path string, data []byte) error {
	mode := fs.FileMode(0o644)
	if filepath.Base(path) == grading.PrivateFile {
		mode = 0o600
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// keepBodies makes whole bodies durable. One that is there already is the same: files
// are called by their digests and appear whole.
func (r *Run) keepBodies(bodies []trajectory.Body) error {
	dir := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodiesDir))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := errors.Join(durable.SyncDir(filepath.Dir(dir)), durable.SyncDir(r.Dir)); err != nil {
			return err
		}
	}
	for _, b := range bodies {
		path := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodyFile(b.SHA256)))
		info, err := os.Lstat(path)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Size() == int64(len(b.Text)):
			continue
		case err == nil:
			return fmt.Errorf("keeping a body: %s is there and is something else", trajectory.BodyFile(b.SHA256))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := renameio.WriteFile(path, []byte(b.Text), 0o644, renameio.WithTempDir(dir)); err != nil {
			return fmt.Errorf("keeping a body: %w", err)
		}
	}
	return durable.SyncDir(dir)
}
