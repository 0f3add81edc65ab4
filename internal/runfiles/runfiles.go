// Package runfiles writes the files of one run directory, and repairs what a killed process left in one.
//
// A [Dir] holds two locks, so one process writes a run at a time. Files that grow are opened once; every other file
// appears whole, by renaming a synced file beside it. The marker file has its full size from the start, so a reason can
// be written when the disk is full. A failed sync is final and is not tried again.
//
// After a crash, [Lock] removes unfinished files, [Dir.Repair] cuts a half-written line from the private file and
// creates a missing marker, and [Dir.CutTail] keeps a torn last line of the journal aside before it cuts it. TestResume
// and TestKilledWriterLosesNothing show that no acknowledged byte is lost.
package runfiles

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// WorkDir is the folder of the workspaces.
const WorkDir = "work"

// lockFile exists only to be locked.
const lockFile = "lock"

// ServerPrefix, and the id of a run, name the folder beside runs that a server of workers keeps: in it are copies of their
// journals, named 1, 2, and so on.
const ServerPrefix = ".serve-"

// The files of a run that reached its end without evidence, in the forms of results.jsonl and summary.json.
const (
	UnrecordedResults = "results.unrecorded.jsonl"
	UnrecordedSummary = "summary.unrecorded.json"
)

// ErrBusy means that another process writes the run.
var ErrBusy = errors.New("another process is writing this run")

// ErrUnmarked means that recording failed and that the marker could not be written either.
var ErrUnmarked = errors.New("the run could not be marked as not submittable")

// Dir is a run directory that this process writes.
type Dir struct {
	Path                                   string
	Journal, Trajectories, Private, Marker *os.File // open after Open

	locks []*flock.Flock
}

// A File is one file of a new run directory.
type File struct {
	Name  string
	Data  []byte
	Write func(io.Writer) error // if not nil, writes the content in place of Data
}

func (f File) writeTo(w io.Writer) error {
	if f.Write == nil {
		_, err := w.Write(f.Data)
		return err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := f.Write(b); err != nil {
		return err
	}
	return b.Flush()
}

// Create makes the directory at path with these files, each synced, an open marker, the private file, the empty files
// that grow, and a folder for the workspaces. The folder of a shard has no private file: private is nil. The caller
// syncs the directory. On an error nothing is left of it.
func Create(path string, private []byte, files ...File) (_ *Dir, err error) {
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("making the run directory: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(path)
		}
	}()
	files = append(files, File{Name: rundir.MarkerFile, Data: markerText(rundir.MarkerOpen)}, File{Name: trajectory.JournalFile}, File{Name: rundir.TrajectoriesFile})
	if private != nil {
		files = append(files, File{Name: rundir.PrivateFile, Data: private})
	}
	for _, f := range files {
		if err := f.writeNew(path); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(path, WorkDir), 0o700); err != nil { // no one else may run what code leaves there
		return nil, err
	}
	return &Dir{Path: path}, nil
}

// writeNew writes a file, which must not exist, in a directory and syncs it. Only its owner can read the private file.
func (f File) writeNew(dir string) error {
	mode := fs.FileMode(0o644)
	if f.Name == rundir.PrivateFile {
		mode = 0o600
	}
	out, err := os.OpenFile(filepath.Join(dir, f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := f.writeTo(out); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}

// RemoveUnfinished removes what a killed process left of a directory that it was about to make. It returns ErrBusy where
// another process is at it.
func RemoveUnfinished(path string) error {
	busy, err := Busy(path)
	if err == nil && busy {
		err = ErrBusy
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// Lock locks the directory of an interrupted run and removes what a killed process was about to rename. It returns a
// *trajectory.Fault for a journal, lock or private file that is not a regular file, and ErrBusy.
func Lock(path string) (*Dir, error) {
	if err := checkTypes(path, lockFile, rundir.PrivateFile); err != nil {
		return nil, err
	}
	journal, _, err := rundir.OpenFile(os.DirFS(path), trajectory.JournalFile, rundir.MaxFile) // before it is locked: a pipe would block
	if err != nil {
		return nil, err
	}
	journal.Close()
	d := &Dir{Path: path}
	if err = d.lock(); err == nil {
		err = d.removeStrays()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// lock locks the run by the lock file, and by the journal itself, which no one removes from a run that is being
// written.
func (d *Dir) lock() error {
	if len(d.locks) > 0 {
		return nil
	}
	for _, lock := range []*flock.Flock{flock.New(filepath.Join(d.Path, lockFile)), journalLock(d.Path)} {
		if err := tryLock(lock); err != nil {
			return err
		}
		d.locks = append(d.locks, lock)
	}
	return nil
}

func journalLock(dir string) *flock.Flock {
	return flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY))
}

// tryLock locks at once or returns ErrBusy. It tries again, since a process that lists runs looks at the lock (Busy).
func tryLock(lock *flock.Flock) error {
	for range 4 {
		got, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("locking the run: %w", err)
		}
		if got {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ErrBusy
}

// Hold locks a run directory against a process that would write it, until release is called. It returns ErrBusy if one
// does. It makes nothing in the directory.
func Hold(dir string) (release func() error, err error) {
	if err := checkTypes(dir, lockFile, trajectory.JournalFile); err != nil {
		return nil, err
	}
	lock := journalLock(dir)
	return lock.Unlock, tryLock(lock)
}

// Busy reports whether a process writes the run, or keeps others from writing it. It shares its look at the lock with
// others that look.
func Busy(dir string) (bool, error) {
	if err := checkTypes(dir, lockFile, trajectory.JournalFile); err != nil {
		return false, err
	}
	lock := journalLock(dir)
	got, err := lock.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at the lock of the run: %w", err)
	}
	return !got, lock.Unlock()
}

// Open locks the run, if it is not locked yet, and opens the files that grow.
func (d *Dir) Open() (err error) {
	if err := d.lock(); err != nil {
		return err
	}
	for _, o := range []struct {
		name string
		flag int
		file **os.File
	}{
		{trajectory.JournalFile, os.O_APPEND, &d.Journal}, {rundir.TrajectoriesFile, os.O_APPEND, &d.Trajectories},
		{rundir.PrivateFile, os.O_APPEND, &d.Private}, {rundir.MarkerFile, 0, &d.Marker},
	} {
		if *o.file, err = os.OpenFile(filepath.Join(d.Path, o.name), os.O_RDWR|o.flag, 0); err != nil {
			if o.file == &d.Private && d.hasNoPrivate(err) {
				*o.file = nil
				continue
			}
			return fmt.Errorf("opening %s: %w", o.name, err)
		}
	}
	return nil
}

// hasNoPrivate reports whether err says that there is no private file, where none should be: in the folder of a shard.
func (d *Dir) hasNoPrivate(err error) bool {
	_, shard := os.Lstat(filepath.Join(d.Path, plan.DelegationFile))
	return errors.Is(err, fs.ErrNotExist) && shard == nil
}

// Sizes returns the bytes of the journal and of the trajectories, which are open.
func (d *Dir) Sizes() (journal, trajectories int64, err error) {
	j, err := d.Journal.Stat()
	if err != nil {
		return 0, 0, err
	}
	t, err := d.Trajectories.Stat()
	if err != nil {
		return 0, 0, err
	}
	return j.Size(), t.Size(), nil
}

// Close closes the files and unlocks the run.
func (d *Dir) Close() error {
	var errs []error
	for _, file := range []*os.File{d.Journal, d.Trajectories, d.Private, d.Marker} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	for _, lock := range d.locks {
		errs = append(errs, lock.Unlock())
	}
	return errors.Join(errs...)
}

// markerSize is the size of the marker file, in bytes.
const markerSize = 1 << 10

// Mark overwrites the marker in place with the reason why recording failed. If that fails it removes the marker: a run
// that is resumed without one is marked then. The error matches ErrUnmarked.
func (d *Dir) Mark(reason string) error {
	_, err := d.Marker.WriteAt(markerText(reason), 0)
	if err == nil {
		err = d.Marker.Sync()
	}
	if err == nil || os.Remove(filepath.Join(d.Path, rundir.MarkerFile)) == nil && durable.SyncDir(d.Path) == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnmarked, err)
}

// markerText returns a reason as one line, padded or cut to the size of the marker.
func markerText(reason string) []byte {
	text := strings.ReplaceAll(reason, "\n", " ")
	text = strings.ToValidUTF8(text[:min(len(text), markerSize-1)], "")
	return []byte(text + strings.Repeat("\n", markerSize-len(text)))
}

// Write writes a file of the run directory, whole and durable or not at all. Its temporary file is in the directory
// too.
func (d *Dir) Write(f File) error {
	out, err := d.pending(f.Name)
	if err == nil {
		defer out.Cleanup()
		err = f.writeTo(out)
	}
	if err == nil {
		err = out.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Name, err)
	}
	return nil
}

// pending returns a file that replaces the one of its name when it is committed.
func (d *Dir) pending(name string) (*renameio.PendingFile, error) {
	return renameio.NewPendingFile(filepath.Join(d.Path, name), renameio.WithPermissions(0o644), renameio.WithTempDir(d.Path))
}

// Rewrite returns a pending file that replaces the trajectories when it is committed.
func (d *Dir) Rewrite() (*renameio.PendingFile, error) { return d.pending(rundir.TrajectoriesFile) }

// Written is what a process knows of a file that it has written line by line.
type Written struct {
	Bytes int64
	last  []byte // its last line; empty: this process has written none
}

// Add notes the next line.
func (w *Written) Add(line []byte) {
	w.Bytes += int64(len(line))
	w.last = append(w.last[:0], line...)
}

// CheckEnd returns a *trajectory.Fault unless a file is as long as what was written and ends with the line that was
// written last. What lies before that is for the verifier to check.
func (d *Dir) CheckEnd(name string, w Written) error {
	f, size, err := rundir.OpenFile(os.DirFS(d.Path), name, rundir.MaxFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if size != w.Bytes {
		return trajectory.Faultf(name, "is not what this run has written: it has %d bytes, and %d were written", size, w.Bytes)
	}
	last := make([]byte, len(w.last))
	if _, err := f.(io.ReaderAt).ReadAt(last, size-int64(len(last))); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if !bytes.Equal(last, w.last) {
		return trajectory.Faultf(name, "is not what this run has written: it ends with another line")
	}
	return nil
}

// Seal syncs the files that grew, writes the files of a completed run in their order, and removes the marker unless it
// has a reason.
func (d *Dir) Seal(files ...File) error {
	for _, f := range []*os.File{d.Trajectories, d.Private} {
		if f == nil {
			continue
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := d.Write(f); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(d.Path); err != nil {
		return err
	}
	marked, err := rundir.ReadMarker(os.DirFS(d.Path))
	if err != nil || marked != "" {
		return err
	}
	if err := os.Remove(filepath.Join(d.Path, rundir.MarkerFile)); err != nil {
		return err
	}
	return durable.SyncDir(d.Path)
}

// KeepBodies makes whole bodies durable. A body that exists already is the same: files are named by their digests and
// appear whole.
func (d *Dir) KeepBodies(bodies []trajectory.Body) error {
	dir := filepath.Join(d.Path, filepath.FromSlash(trajectory.BodiesDir))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := errors.Join(durable.SyncDir(filepath.Dir(dir)), durable.SyncDir(d.Path)); err != nil {
			return err
		}
	}
	for _, b := range bodies {
		path := filepath.Join(d.Path, filepath.FromSlash(trajectory.BodyFile(b.SHA256)))
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

// renamed are the files that appear by renaming a hidden one beside them.
func renamed() []string {
	return []string{rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile, tornPrefix,
		UnrecordedResults, UnrecordedSummary}
}

// isHidden reports whether a file of this name was to be renamed to one of those.
func isHidden(name string) bool {
	return slices.ContainsFunc(renamed(), func(n string) bool { return strings.HasPrefix(name, "."+n) })
}

// Foreign returns the name of a file or folder in a run directory that no run makes, "" if there is none.
func Foreign(dir string) (string, error) {
	bodies, _, _ := strings.Cut(trajectory.BodiesDir, "/")
	own := append(renamed(), plan.ManifestFile, plan.EnvelopeFile, trajectory.JournalFile, rundir.MarkerFile, rundir.PrivateFile,
		lockFile, WorkDir, plan.ConstitutionFile, plan.AgentFilesFile, plan.DelegationFile, rundir.ShardsFile, rundir.ShardsDir, bodies,
		audit.AttestationsDir)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); !isHidden(name) && !strings.HasPrefix(name, tornPrefix) && !slices.Contains(own, name) {
			return name, nil
		}
	}
	if err != nil {
		return "", err
	}
	foreign := ""
	err = fs.WalkDir(os.DirFS(dir), rundir.ShardsDir, func(name string, e fs.DirEntry, err error) error {
		switch depth := strings.Count(name, "/"); {
		case errors.Is(err, fs.ErrNotExist) && depth == 0:
			return nil
		case err != nil:
			return err
		case e.IsDir() && depth <= 1, depth == 2 && e.Type().IsRegular() &&
			slices.Contains([]string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile}, e.Name()):
			return nil
		}
		foreign = name
		return fs.SkipAll
	})
	return foreign, err
}

// checkTypes refuses anything but regular files under names that rundir.Verify does not read, and anything but a folder
// for the workspaces: opening a pipe would never return, and a link could lead out of the run.
func checkTypes(dir string, names ...string) error {
	for _, name := range append(names, WorkDir) {
		info, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case name == WorkDir && !info.IsDir():
			return trajectory.Faultf(name, "is not a directory")
		case name != WorkDir && !info.Mode().IsRegular():
			return trajectory.Faultf(name, "is not a regular file")
		}
	}
	return nil
}
