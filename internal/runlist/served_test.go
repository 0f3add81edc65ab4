package runlist

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestServed: the copies that a server has of two workers' journals are one run, which counts a task once that both have
// committed, grows with the copies, is damaged by any of them, and gives way to the merged run.
func TestServed(t *testing.T) {
	t.Parallel()
	m, err := runs.Honest(5).Merged(0, runs.Part{Index: 1, Tasks: []int{0, 1}, Begun: []int{2}}, runs.Part{Index: 2, Tasks: []int{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	id, started := begunID(t, m.Shards[0])
	folder := t.TempDir()
	dir := filepath.Join(folder, runfiles.ServerPrefix+id)
	o, _ := reading(t)
	o.Seen = new(Seen)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if all := list(t, o, folder); len(all) != 0 {
		t.Errorf("without workers there is %+v", all)
	}
	for i, name := range []string{"1", "2"} {
		delete(m.Shards[i], trajectory.CheckpointFile)
		if err := runs.WriteFiles(filepath.Join(dir, name), m.Shards[i]); err != nil {
			t.Fatal(err)
		}
	}
	lines := bytes.SplitAfter(m.Shards[1][trajectory.JournalFile], []byte("\n"))
	put(t, filepath.Join(dir, "2"), trajectory.JournalFile, string(bytes.Join(lines[:2], nil))+`{"half`)
	get := func(folder string) Entry {
		t.Helper()
		all, _, err := List([]string{folder}, o)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	e := get(folder)
	if e.State != page.Interrupted || e.ID != id || e.Started != started || e.Workers != 2 || e.Done != 2 || e.Done != e.workers[0].Work.Committed ||
		e.workers[1].Work.Committed != 0 || e.workers[1].Work.Last == "" || e.Planned < 3 || e.SignedBy != runs.Key().Public().ID() {
		t.Errorf("while the second has begun: %+v", e)
	}
	release, err := runfiles.Hold(filepath.Join(dir, "1"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "2"), trajectory.JournalFile, string(m.Shards[1][trajectory.JournalFile]))
	before := e
	e = get(dir)
	one, two := e.workers[0], e.workers[1]
	if want := "served by 2 workers, 3/"; !strings.HasPrefix(e.result(), want) || e.State != page.Served || one.Work.Committed != 2 || two.Work.Committed != 2 {
		t.Errorf("%s: %+v", e.result(), e)
	}
	if one.Key != runs.ShardKey(1).Public().ID() || one.State == page.Interrupted || two.State != page.Interrupted || two.Key == one.Key {
		t.Errorf("workers %+v", e.workers)
	}
	if w := e.work; w.Tokens != one.Work.Tokens+two.Work.Tokens || w.Attempts != one.Work.Attempts+two.Work.Attempts || w.Tokens <= before.work.Tokens || w.Attempts < 4 ||
		w.Errors != one.Work.Errors+two.Work.Errors || w.Last != max(one.Work.Last, two.Work.Last) {
		t.Errorf("together %+v", w)
	}
	fresh, _ := reading(t)
	if all, _, err := List([]string{folder}, fresh); err != nil || len(all) != 1 || all[0].work.Tokens != e.work.Tokens || all[0].Done != e.Done {
		t.Errorf("read at once: %+v, %v", all, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "2"), trajectory.JournalFile, string(bytes.Join(lines[:2], nil))) // cut
	if e := get(folder); e.Done != 2 || e.State != page.Interrupted {
		t.Errorf("cut: %+v", e)
	}
	for name, files := range map[string]map[string][]byte{
		"an edited journal":   {trajectory.JournalFile: bytes.Replace(m.Shards[1][trajectory.JournalFile], []byte(`"seq":3`), []byte(`"seq":4`), 1)},
		"of another worker":   {plan.DelegationFile: m.Shards[0][plan.DelegationFile], trajectory.JournalFile: m.Shards[0][trajectory.JournalFile]},
		"an edited plan":      {plan.ManifestFile: append([]byte(" "), m.Shards[1][plan.ManifestFile]...)},
		"without its journal": {trajectory.JournalFile: nil},
	} {
		o.Seen = new(Seen)
		for file, content := range files {
			if put(t, filepath.Join(dir, "2"), file, string(content)); content == nil {
				if err := os.Remove(filepath.Join(dir, "2", file)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if e := get(folder); e.State != page.Damaged || !strings.Contains(e.Problem, "worker 2") || e.workers[0].State == page.Damaged || e.workers[1].State != page.Damaged || Problems([]Entry{e}, o.Reader.Trust) == nil {
			t.Errorf("%s: %+v", name, e)
		}
		for file := range files {
			put(t, filepath.Join(dir, "2"), file, string(m.Shards[1][file]))
		}
	}
	if err := runs.WriteFiles(filepath.Join(folder, id), m.Files); err != nil {
		t.Fatal(err)
	}
	if e := get(folder); filepath.Base(e.Dir) != id || e.Workers != 0 { // whatever it is worth
		t.Errorf("merged: %+v", e)
	}
}

// begunID returns the id of a run and when its journal begins.
func begunID(t *testing.T, files map[string][]byte) (id, started string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := runs.WriteFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	at := begun(dir, os.DirFS(dir))
	return at.id, at.started
}
