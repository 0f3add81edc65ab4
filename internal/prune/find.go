package prune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Item is a run, a folder of bodies, a package or a cassette that can be removed.
type Item struct {
	Bytes      int64  `json:"bytes"`
	Created    string `json:"created"`
	Path       string `json:"path"`
	Unfinished bool   `json:"unfinished,omitzero"`

	record *history.Record  // that stays of it; nil: none
	stats  *rundir.RunStats // what is counted of it; nil: nothing
	run    string           // the run directory to be locked; "": none
	named  error            // why it is an error to leave it: it is unfinished and was named; nil: it is none
	was    fs.FileInfo
	at     time.Time
}

// Left is something that is of the kind and is not removed.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Result is what is to be removed, or was.
type Result struct {
	Bytes   int64   `json:"bytes"` // of what is removed
	DryRun  bool    `json:"dry_run"`
	Kept    int     `json:"kept"` // that the rules do not choose
	Kind    string  `json:"kind"`
	Left    []Left  `json:"left"`
	Removed []*Item `json:"removed"`
}

// Size counts what is to be removed, or was, with its bytes.
func (r Result) Size() string { return r.count() + " of " + view.Bytes(r.Bytes) }

func (r Result) count() string {
	if r.Kind == "bodies" {
		return view.Count(len(r.Removed), "folder") + " of bodies"
	}
	return view.Count(len(r.Removed), strings.TrimSuffix(r.Kind, "s"))
}

// Table returns a line for each item that is to be removed, or was; "" if there is none.
func (r Result) Table() string {
	if len(r.Removed) == 0 {
		return ""
	}
	t := view.NewTable("path", "created", "", "")
	for _, item := range r.Removed {
		state := ""
		if item.Unfinished {
			state = "unfinished"
		}
		day, _, _ := strings.Cut(item.Created, "T")
		t.Row(view.Quote(item.Path), day, view.Bytes(item.Bytes), state)
	}
	return t.String() + "\n"
}

// Summary returns the line that ends the list.
func (r Result) Summary() string {
	verb := "removed"
	if r.DryRun {
		verb = "would remove"
	}
	return fmt.Sprintf("%s %s, %s; %d kept, %d left\n", verb, r.count(), view.Bytes(r.Bytes), r.Kept, len(r.Left))
}

// Package is what a verified package says.
type Package struct {
	Date   string // of its statement
	Record *history.Record
	Stats  *rundir.RunStats // nil: its journal is withheld
}

// Finder finds what can be removed, after it has verified it, and removes it. It recognises runs and packages
// by functions of its caller.
type Finder struct {
	Force bool // unfinished runs, too

	IsRun, IsPackage, IsCassette func(path string) bool
	Verify                       func(dir string) (rundir.RunStats, *rundir.Run, error) // a run directory
	Check                        func(dir string) (*rundir.Run, error)                  // a run directory, with what was decided about it
	Package                      func(path string) (Package, error)                     // verifies a package
	Foreign                      func(dir string) (string, error)                       // the path of a file that no run makes
	Hold                         func(dir string) (release func() error, err error)     // locks a run
	Busy                         error                                                  // of Hold: a process writes the run

	Half  []string // what a removal that did not end has left
	items []*Item
	left  []Left
	bad   error // what does not verify; nil: nothing
	named error // why something that the user named is left
}

// Choose returns what the rule chooses of what was found. The error is about what is left: something that does not
// verify, or an unfinished run that the user named.
func (f *Finder) Choose(kind string, rule Rule, now time.Time) (Result, error) {
	slices.SortFunc(f.items, func(a, b *Item) int { return strings.Compare(a.Path, b.Path) })
	f.items = slices.CompactFunc(f.items, func(a, b *Item) bool { return a.Path == b.Path })
	created := make([]time.Time, len(f.items))
	for i, item := range f.items {
		created[i] = item.at
	}
	chosen := rule.Choose(created, now)
	r := Result{Kind: kind, Left: []Left{}, Removed: []*Item{}}
	for i, item := range f.items {
		busy := false
		if chosen[i] && item.run != "" {
			release, err := f.Hold(item.run)
			if err == nil {
				err = release()
			}
			busy = errors.Is(err, f.Busy)
		}
		switch {
		case !chosen[i]:
			r.Kept++
		case busy:
			f.leave(item.Path, "a process writes it", nil)
		case item.Unfinished && !f.Force:
			f.leave(item.Path, "unfinished: --force removes it, too", nil)
			f.named = cmp.Or(item.named, f.named)
		default:
			r.Removed = append(r.Removed, item)
			r.Bytes += item.Bytes
		}
	}
	r.Left = append(r.Left, f.left...)
	return r, cmp.Or(f.bad, f.named)
}

// Remove finishes removals that did not end, and removes what was chosen. The record of an item is durable before
// the item is removed.
func (f *Finder) Remove(r Result, store *history.Store, now time.Time) error {
	for _, half := range f.Half {
		if err := finish(half); err != nil {
			return fmt.Errorf("removing what was left of %q: %w", half, err)
		}
	}
	for i, item := range r.Removed {
		if err := f.remove(item, store, now); err != nil {
			return exit.New(exit.Failure, fmt.Errorf("%d of %d were removed, and %q was not: %w", i, len(r.Removed), item.Path, err))
		}
	}
	return nil
}

func (f *Finder) remove(item *Item, store *history.Store, now time.Time) error {
	if item.run != "" {
		release, err := f.Hold(item.run)
		if err != nil {
			return err
		}
		defer release()
	}
	if item.record != nil {
		item.record.Pruned = now.UTC().Format(trajectory.TimeFormat)
		if err := store.Keep(*item.record, item.stats); err != nil {
			return fmt.Errorf("writing the history: %w", err)
		}
	}
	return removeAt(item.Path, item.was)
}

// KeepsRecords reports whether a record of something that was chosen stays.
func (r Result) KeepsRecords() bool {
	return slices.ContainsFunc(r.Removed, func(i *Item) bool { return i.record != nil })
}

func (f *Finder) leave(path, why string, err error) {
	f.left = append(f.left, Left{path, why})
	if err != nil {
		e := *exit.Of(err)
		e.Err = fmt.Errorf("%s: %w", view.Line(view.Quote(path)), e.Err)
		f.bad = cmp.Or(f.bad, error(&e))
	}
}

// each finds what is of a kind at the path, or in the folder there. Links are left out. find returns the item, or why
// the thing is left and an error that says the same.
func (f *Finder) each(path string, is func(string) bool, find func(path string, named bool) (item *Item, left string, err error)) error {
	info, err := os.Lstat(path)
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		return exit.Usagef("give paths that are there", "reading %q: %v", path, at.Err)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return exit.Usagef("give the path that it leads to", "%q is a link", path)
	}
	paths := []string{path}
	named := is(path)
	if !named {
		if !info.IsDir() {
			return exit.Usagef("see 'gaia prune --help'", "%q is not of the kind to be removed", path)
		}
		half, err := unfinished(path)
		if err != nil {
			return err
		}
		f.Half = append(f.Half, half...)
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		paths = nil
		for _, e := range entries {
			in := filepath.Join(path, e.Name())
			if !strings.HasPrefix(e.Name(), ".") && e.Type()&fs.ModeSymlink == 0 && is(in) {
				paths = append(paths, in)
			}
		}
	}
	for _, path := range paths {
		item, left, err := find(path, named)
		switch {
		case left != "":
			f.leave(path, left, err)
		case err != nil:
			return err
		case item != nil:
			f.items = append(f.items, item)
		}
	}
	return nil
}

const unverified = "does not verify"

// Runs finds run directories at a path or in the folder there.
func (f *Finder) Runs(path string) error {
	return f.each(path, f.IsRun, func(dir string, named bool) (*Item, string, error) {
		if _, err := os.Lstat(filepath.Join(dir, plan.DelegationFile)); err == nil {
			if named {
				f.named = exit.New(exit.Incomplete, fmt.Errorf("%q is the folder of a shard, not a run", dir), "when it is merged, remove it by hand")
			}
			return nil, "is the folder of a shard, which a run may still be made of", nil
		}
		item, err := ofRun(dir)
		if err != nil {
			return nil, unverified, err
		}
		if other, err := f.Foreign(dir); err != nil || other != "" {
			return nil, fmt.Sprintf("holds %q, which no run makes", other), err
		}
		stats, run, err := f.Verify(dir)
		if err != nil {
			return nil, unverified, err
		}
		if item.record, err = RecordOf(os.DirFS(dir), dir, history.KindRun); err != nil {
			return nil, "", err
		}
		if item.Unfinished = !run.Complete; run.Complete {
			item.stats = &stats
		} else if item.record.Checkpoint = ""; named && !f.Force {
			item.named = exit.New(exit.Incomplete, fmt.Errorf("the run %q is not complete: %s", dir, run.Missing), "--force removes it all the same")
		}
		return item, "", nil
	})
}

// ofRun reads the plan of a run directory.
func ofRun(dir string) (*Item, error) {
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	if abs, err := filepath.Abs(dir); err != nil || filepath.Base(abs) != m.RunID {
		return nil, trajectory.Faultf(plan.ManifestFile, "is of the run %q, and the folder has another name", m.RunID)
	}
	item, err := itemAt(dir, m.Created)
	item.run = dir
	return item, err
}

// itemAt describes what is at a path and was made at a time.
func itemAt(path, created string) (*Item, error) {
	item := &Item{Created: created, Path: path}
	var err error
	if item.at, err = time.Parse(trajectory.TimeFormat, created); err != nil {
		return item, fmt.Errorf("%q: %w", path, err)
	}
	if item.was, err = os.Lstat(path); err != nil {
		return item, err
	}
	item.Bytes, err = sizeOf(path)
	return item, err
}

// Bodies finds the folders of bodies in runs.
func (f *Finder) Bodies(path string) error {
	return f.each(path, f.IsRun, func(dir string, _ bool) (*Item, string, error) {
		top, _, _ := strings.Cut(trajectory.BodiesDir, "/")
		half, err := unfinished(dir)
		if err != nil {
			return nil, "", err
		}
		f.Half = append(f.Half, half...)
		at := filepath.Join(dir, top)
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return nil, "", nil
		}
		of, err := ofRun(dir)
		if err != nil {
			return nil, unverified, err
		}
		if other, err := foreignBody(at); err != nil || other != "" {
			f.leave(at, fmt.Sprintf("holds %q, which is no body", other), err)
			return nil, "", nil
		}
		run, err := f.Check(dir)
		if err != nil {
			return nil, unverified, err
		}
		item, err := itemAt(at, of.Created)
		item.run, item.Unfinished = dir, !run.Complete
		return item, "", err
	})
}

// foreignBody returns the path of something in a folder of bodies that is none.
func foreignBody(dir string) (other string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, outside := filepath.Rel(filepath.Dir(dir), path)
		switch {
		case err != nil || outside != nil:
			return errors.Join(err, outside)
		case path == dir || filepath.ToSlash(rel) == trajectory.BodiesDir && d.IsDir():
		case d.Type().IsRegular() && filepath.ToSlash(rel) == trajectory.BodyFile("sha256:"+d.Name()):
		default:
			other = filepath.ToSlash(rel)
			return fs.SkipAll
		}
		return nil
	})
	return other, err
}

// Packages finds submission packages and archives.
func (f *Finder) Packages(path string) error {
	return f.each(path, f.IsPackage, func(path string, _ bool) (*Item, string, error) {
		of, err := f.Package(path)
		if err != nil {
			return nil, unverified, err
		}
		item, err := itemAt(path, of.Date+"T00:00:00.000Z")
		if err != nil {
			return nil, unverified, err
		}
		item.record, item.stats = of.Record, of.Stats
		return item, "", nil
	})
}

// Cassettes finds cassettes.
func (f *Finder) Cassettes(path string) error {
	return f.each(path, f.IsCassette, func(dir string, _ bool) (*Item, string, error) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, "", err
		}
		newest := time.Time{}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return nil, "", err
			}
			if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".json") {
				return nil, fmt.Sprintf("holds %q, which no cassette has", e.Name()), nil
			}
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
		item, err := itemAt(dir, newest.UTC().Format(trajectory.TimeFormat))
		return item, "", err
	})
}

// maxCheckpoint bounds a checkpoint, in bytes.
const maxCheckpoint = 4 << 10

// RecordOf returns the record of the run or package at path.
func RecordOf(files fs.FS, path, kind string) (*history.Record, error) {
	m, digest, key, err := rundir.ReadPlan(files)
	if err != nil {
		return nil, err
	}
	r := &history.Record{Created: m.Created, Kind: kind, ManifestSHA256: digest, Rehearsal: m.Rehearsal, RunID: m.RunID, SignedBy: key.ID()}
	if r.Path, err = history.RealPath(path); err != nil {
		return nil, err
	}
	note, err := rundir.ReadFile(files, trajectory.CheckpointFile, maxCheckpoint)
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && fault.Reason == rundir.Missing {
		return r, nil
	}
	r.Checkpoint = string(note)
	return r, err
}
