package runfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// removeStrays removes the files that a killed process was about to rename, and the copies of workspaces that it would
// have restored. The run is locked: no other process writes here.
func (d *Dir) removeStrays() error {
	for dir, ours := range map[string]func(string) bool{
		d.Path: isHidden,
		filepath.Join(d.Path, filepath.FromSlash(trajectory.BodiesDir)): func(name string) bool { return name[0] == '.' },
		filepath.Join(d.Path, WorkDir):                                  func(name string) bool { return strings.HasSuffix(name, tools.KeptSuffix) },
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

// Repair cuts a half-written line from the private file, and creates the marker again if it is missing: its reason is
// unknown then. It also marks a run that has results without evidence.
func (d *Dir) Repair() error {
	path := filepath.Join(d.Path, rundir.PrivateFile)
	data, err := os.ReadFile(path)
	if err != nil && !d.hasNoPrivate(err) {
		return err
	}
	if err == nil {
		err = os.Truncate(path, int64(bytes.LastIndexByte(data, '\n')+1))
		if err != nil {
			return fmt.Errorf("cutting a half-written line of %s: %w", rundir.PrivateFile, err)
		}
	}
	marker := filepath.Join(d.Path, rundir.MarkerFile)
	if _, err := os.Stat(marker); errors.Is(err, fs.ErrNotExist) {
		return File{Name: rundir.MarkerFile, Data: markerText("the marker was missing when the run was resumed")}.writeNew(d.Path)
	}
	if marked, err := rundir.ReadMarker(os.DirFS(d.Path)); err != nil || marked != "" {
		return err
	}
	if _, err := os.Lstat(filepath.Join(d.Path, UnrecordedResults)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.WriteFile(marker, markerText("the run had continued without evidence, and its marker had no reason"), 0o644)
}

// Closing reports whether a file exists that is written only once run_completed is durable.
func (d *Dir) Closing() (bool, error) {
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		if _, err := os.Lstat(filepath.Join(d.Path, name)); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return false, nil
}

// Closed reports whether the marker has been removed, or has a reason to stay.
func (d *Dir) Closed() (bool, error) {
	if _, err := os.Lstat(filepath.Join(d.Path, rundir.MarkerFile)); err != nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	marked, err := rundir.ReadMarker(os.DirFS(d.Path))
	return marked != "", err
}

// CutTail cuts an unfinished last line from the journal and returns what run_resumed records of it. It first keeps the
// line aside, durably, after what was cut at the same place before. If tail is nil it returns what an earlier resume
// cut and was killed before it recorded, nil if there is none.
func (d *Dir) CutTail(tail *trajectory.Tail) (*trajectory.Torn, error) {
	path := filepath.Join(d.Path, trajectory.JournalFile)
	if tail == nil {
		journal, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		kept, err := d.kept(journal.Size())
		if err != nil || kept == nil {
			return nil, err
		}
		return newTorn(journal.Size(), kept), nil
	}
	kept, err := d.kept(tail.Offset)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(kept, tail.Bytes) { // else an earlier resume kept it and was killed before it cut it
		kept = append(kept, tail.Bytes...)
	}
	torn := newTorn(tail.Offset, kept)
	if err := d.Write(File{Name: torn.File, Data: kept}); err != nil {
		return nil, fmt.Errorf("keeping the torn line aside: %w", err)
	}
	if err := durable.SyncDir(d.Path); err != nil {
		return nil, err
	}
	journal, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	if err := journal.Truncate(tail.Offset); err != nil {
		return nil, fmt.Errorf("cutting the torn line: %w", err)
	}
	return torn, journal.Sync()
}

// maxCompleted bounds a line with run_completed, in bytes. It holds numbers only.
const maxCompleted = 1 << 16

// CutLast keeps the last line of the journal, a run_completed, aside and cuts it.
func (d *Dir) CutLast() (*trajectory.Torn, error) {
	journal, err := os.Open(filepath.Join(d.Path, trajectory.JournalFile))
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	info, err := journal.Stat()
	if err != nil {
		return nil, err
	}
	end := make([]byte, min(info.Size(), maxCompleted))
	if _, err := journal.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return nil, err
	}
	last := end[bytes.LastIndexByte(end[:len(end)-1], '\n')+1:]
	return d.CutTail(&trajectory.Tail{Offset: info.Size() - int64(len(last)), Bytes: last})
}

const tornPrefix = "torn-"

func tornFile(offset int64) string { return fmt.Sprint(tornPrefix, offset) }

func newTorn(offset int64, kept []byte) *trajectory.Torn {
	return &trajectory.Torn{Bytes: int64(len(kept)), File: tornFile(offset), SHA256: canonical.Digest(kept)}
}

// maxTorn bounds what is cut at one place, in bytes: a line, and another for each resume that was killed there.
const maxTorn = 4 * trajectory.MaxLine

// kept returns all that was ever cut at an offset of the journal, nil if nothing was.
func (d *Dir) kept(offset int64) ([]byte, error) {
	name := tornFile(offset)
	if err := checkTypes(d.Path, name); err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(d.Path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxTorn {
		err = trajectory.Faultf(name, "is larger than %d bytes", maxTorn)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(d.Path, name))
}
