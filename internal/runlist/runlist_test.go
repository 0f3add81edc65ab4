package runlist

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// reading returns options whose reader keeps records, and how many runs it has verified.
func reading(t testing.TB) (Options, *atomic.Int64) {
	key, verified := runs.Key(), new(atomic.Int64)
	return Options{Reader: &ledger.Reader{Store: &history.Store{Dir: t.TempDir(), Key: &key}, Program: "test", AtOnce: 2, Log: t.Output(),
		Now: func() time.Time { return time.Now().Add(time.Hour) }, // the files are settled
		Verify: func(path string) (rundir.RunStats, *rundir.Run, error) {
			verified.Add(1)
			return ledger.Stats(path)
		}}}, verified
}

// write writes a run to folder/name, with the first events of its journal alone if events is not 0.
func write(t testing.TB, c runs.Case, folder, name string, events int) (dir string) {
	t.Helper()
	dir = filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	if events == 0 {
		return dir
	}
	path := filepath.Join(dir, trajectory.JournalFile)
	journal, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, trajectory.JournalFile, string(bytes.Join(bytes.SplitAfter(journal, []byte("\n"))[:events], nil)))
	put(t, dir, rundir.TrajectoriesFile, "")
	put(t, dir, rundir.MarkerFile, rundir.MarkerOpen+"\n")
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, o Options, folders ...string) map[string]Entry {
	t.Helper()
	entries, _, err := List(folders, o)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Entry{}
	for _, e := range entries {
		byName[filepath.Base(e.Dir)] = e
	}
	return byName
}

// TestList: each state of a run is listed as what it is, with what is verified of it.
func TestList(t *testing.T) {
	folder, c := t.TempDir(), runs.Good()["pair"]
	write(t, c, folder, "whole", 0)
	write(t, c, folder, "cut", 12)
	release, err := runfiles.Hold(write(t, c, folder, "written", 12))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	put(t, write(t, c, folder, "results", 0), rundir.ResultsFile, "{}\n")
	put(t, write(t, c, folder, "plan", 0), "manifest.json", "{}")
	os.Remove(filepath.Join(write(t, c, folder, "none", 0), trajectory.JournalFile))
	write(t, c, folder, ".new-run", 0)
	put(t, folder, "notes.txt", "no run")
	if err := os.Symlink(filepath.Join(folder, "whole"), filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	o, _ := reading(t)
	found := list(t, o, folder)
	if len(found) != 6 {
		t.Fatalf("found %d runs: %v", len(found), found)
	}
	run, err := rundir.Verify(os.DirFS(filepath.Join(folder, "whole")), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := run.Summary()
	if e := found["whole"]; e.State != page.Complete || e.Done != 2 || e.Planned != 2 || *e.Score != s.Scores.Official || *e.CostMicroUSD != *s.CostMicroUSD ||
		e.ID != s.RunID || e.Started != s.Started || e.Model != s.Model || !e.Row().Verified {
		t.Errorf("%+v is not %+v", e, s)
	}
	for name, want := range map[string]string{
		"cut": "interrupted 0 of 2: ", "written": "running 0 of 2: ", "results": "damaged 0 of 2: results.jsonl: line 1: is not what the journal gives",
		"plan": "damaged 0 of 0: manifest.json: ", "none": "damaged 0 of 2: events.jsonl: is missing",
	} {
		e := found[name]
		if got := fmt.Sprintf("%s %d of %d: %s", e.State, e.Done, e.Planned, e.Problem); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
		if e.Score != nil || (e.Err != nil) != (e.State == page.Damaged) || e.Row().Verified {
			t.Errorf("%s: %+v", name, e)
		}
	}
	entries, left, err := List([]string{folder}, Options{Reader: o.Reader, Limit: 2})
	if err != nil || len(entries) != 2 || left != 4 {
		t.Errorf("%v: %d runs, %d left", err, len(entries), left)
	}
	if err := Problems(entriesOf(found), keyring.Trust{}); exit.Of(err).Code != exit.Evidence || err.Error() != "3 of 6 runs damaged or unreadable" {
		t.Errorf("%v", err)
	}
	if err := Problems([]Entry{found["whole"]}, keyring.Trust{}); exit.Of(err).Code != exit.Untrusted {
		t.Errorf("%v", err)
	}
}

func entriesOf(found map[string]Entry) (entries []Entry) {
	for _, e := range found {
		entries = append(entries, e)
	}
	return entries
}

// TestScoresAreVerified: a finished run is verified once; a list takes its score from the record of that for as long as no file
// has changed, and never from one that has.
func TestScoresAreVerified(t *testing.T) {
	folder := t.TempDir()
	dir := write(t, runs.Good()["pair"], folder, "run", 0)
	o, verified := reading(t)
	for i, want := range []int64{1, 1} {
		if e := list(t, o, folder)["run"]; e.Score == nil || verified.Load() != want {
			t.Fatalf("list %d: %+v, verified %d times", i, e, verified.Load())
		}
	}
	o.Verify = true
	if e := list(t, o, folder)["run"]; e.Score == nil || verified.Load() != 2 {
		t.Errorf("%+v, verified %d times", e, verified.Load())
	}
	o.Verify = false
	summary, err := os.ReadFile(filepath.Join(dir, rundir.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, rundir.SummaryFile, strings.Replace(string(summary), `"official"`, `"officiaI"`, 1))
	if e := list(t, o, folder)["run"]; e.State != page.Damaged || e.Score != nil || !strings.HasPrefix(e.Problem, rundir.SummaryFile) {
		t.Errorf("%+v", e)
	}
}

// TestWatch: a finished run without a record is listed at once without a score, and with it when it was verified; what is
// unchanged is not read again.
func TestWatch(t *testing.T) {
	folder := t.TempDir()
	dir := write(t, runs.Good()["pair"], folder, "run", 0)
	write(t, runs.Good()["lookup"], folder, "cut", 5)
	o, verified := reading(t)
	w := NewWatch([]string{folder}, *o.Reader)
	rows, err := w.Rows()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	row := func() page.RunRow {
		rows, err := w.Rows()
		if err != nil {
			t.Fatal(err)
		}
		return rows[slices.IndexFunc(rows, func(r page.RunRow) bool { return r.Dir == dir })]
	}
	first := rows[slices.IndexFunc(rows, func(r page.RunRow) bool { return r.Dir == dir })]
	if first.State != page.Complete || first.Score != nil || first.Verified {
		t.Errorf("at first %+v", first)
	}
	for range 1000 {
		if row().Verified {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r := row(); r.Score == nil || r.Score.Planned != 2 {
		t.Fatalf("%+v", r)
	}
	before := verified.Load()
	if r := row(); !r.Verified || verified.Load() != before {
		t.Errorf("%+v, verified %d times more", r, verified.Load()-before)
	}
	put(t, dir, rundir.ResultsFile, "{}\n")
	for range 1000 {
		if row().State == page.Damaged {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r := row(); r.State != page.Damaged || r.Score != nil || r.Verified || r.Problem == "" {
		t.Errorf("%+v", r)
	}
}

// TestFolders: a folder may be a run, hold runs, or have a folder runs; what is named twice is listed once, and what is none is
// an error of usage.
func TestFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	o, _ := reading(t)
	if entries, _, err := List(nil, o); err != nil || entries == nil || len(entries) != 0 {
		t.Errorf("without a folder: %v, %v", entries, err)
	}
	dir := write(t, runs.Good()["pair"], "project/runs", "one", 0)
	for _, folders := range [][]string{{"project"}, {"project/runs"}, {dir}, {dir, "project", "./project/runs"}} {
		if entries, _, err := List(folders, o); err != nil || len(entries) != 1 || filepath.Clean(entries[0].Dir) != dir {
			t.Errorf("%q: %v, %v", folders, entries, err)
		}
	}
	put(t, "project", "file", "")
	for _, folder := range []string{"nowhere", "project/file"} {
		if _, _, err := List([]string{folder}, o); exit.Of(err).Code != exit.Usage {
			t.Errorf("%q: %v", folder, err)
		}
	}
}

// TestFind: a path wins, then "latest" and ids count; a name that several runs have, or none, is an error that says so.
func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	folders := []string{"runs", "other", "./runs"}
	if _, err := Find(Latest, folders); exit.Of(err).Code != exit.Usage || err.Error() != "there is no run in 'runs and other and ./runs'" {
		t.Errorf("no runs: %v", err)
	}
	first := write(t, runs.Good()["pair"], "runs", "first", 0)
	put(t, write(t, runs.Good()["lookup"], "runs", "damaged", 0), "manifest.json", "{")
	older := write(t, runs.Honest(3), "other", "older", 0)
	place := begun(first, os.DirFS(first))
	all := named(folders)
	if len(all) != 3 {
		t.Fatalf("%v", all)
	}
	for name, want := range map[string]string{
		place.id: first, strings.ToLower(place.id): first, Latest: all[0].dir, "nowhere": "nowhere", "runs/x": "runs/x", "": "",
		begun(older, os.DirFS(older)).id: older,
		place.id + "0":                   place.id + "0", // longer than any id
	} {
		if got, err := Find(name, folders); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", name, got, err, want)
		}
	}
	common := place.id[:4]
	for name, want := range map[string]string{
		common[:3]: fmt.Sprintf("%q is no path, and too short for the start of a run id", common[:3]),
		"7ZZZZ":    `"7ZZZZ" is no path, and the start of no run id in 'runs and other and ./runs'`,
		common:     fmt.Sprintf("%q is the start of the ids of 3 runs", common),
	} {
		_, err := Find(name, folders)
		e := exit.Of(err)
		if e.Code != exit.Usage || err.Error() != want || len(e.Hints) == 0 || name == common && len(e.Reasons) != 3 {
			t.Errorf("%q: %v (%d), want %s", name, err, e.Code, want)
		}
	}
	for _, name := range []string{Latest, common} { // of these names, there are files
		put(t, ".", name, "")
		if got, err := Find(name, folders); err != nil || got != name {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if names := Names(folders); len(names) != 4 || !strings.HasPrefix(names[0], "latest\t") || !strings.HasPrefix(names[1], all[0].id+"\t") {
		t.Errorf("%q", names)
	}
}

// TestText: a table fits 80 columns, tells runs by the start of their ids, and shows no control character of a plan.
func TestText(t *testing.T) {
	cost := int64(123_456_789)
	entries := []Entry{
		{ID: "01JABCDEFGHJKMNPQRSTVWXYZ0", State: page.Interrupted, Done: 123, Planned: 165, Started: "2026-01-02T03:04:05.678Z", CostMicroUSD: &cost, Model: "\x1b[31ma-model-with-a-long-name", Agent: "mine"},
		{ID: "01JABCDEFGHZKMNPQRSTVWXYZ1", State: page.Complete, Planned: 165, Model: "m", Rehearsal: true},
		{ID: "01KABCDEFGHJKMNPQRSTVWXYZ1", Dir: "runs/\x1b", State: page.Damaged, Problem: "events.jsonl: \x1b[2J", Err: os.ErrNotExist},
		{ID: "01KABCDEFGHJKMNPQRSTVWXYZ1", State: page.Damaged, Err: os.ErrNotExist},
	}
	text := Text(entries, 2)
	for line := range strings.Lines(text) {
		if w := utf8.RuneCountInString(strings.TrimRight(line, "\n")); w > 80 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	for _, want := range []string{" 01JABCDEFGHJ  2026", " 01JABCDEFGHZ  –", " 01KABCDEFG    –", "interrupted 123/165", "2026-01-02 03:04", "$123.46", "not scored, 165", "rehearsal, m",
		`\u001b[2J`, "2 older runs left out by --limit"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, 0x1b) {
		t.Errorf("a control character: %q", text)
	}
}

// BenchmarkList lists 200 finished runs: that have records, for the first time, and again and again as a viewer does.
func BenchmarkList(b *testing.B) {
	folder := b.TempDir()
	for i := range 200 {
		write(b, runs.Honest(uint64(i)), folder, fmt.Sprint(i), 0)
	}
	o, _ := reading(b)
	list := func(o Options) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if _, _, err := List([]string{folder}, o); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("first", func(b *testing.B) {
		again := o
		again.Verify = true
		list(again)(b)
	})
	b.Run("records", list(o))
	o.Seen = new(Seen)
	b.Run("seen", list(o))
}

// TestShards: a merged run is listed as any other, and the folders of shards as what they are, by the same id.
func TestShards(t *testing.T) {
	t.Parallel()
	c, _ := runs.Varied()
	m, err := c.Merged(2)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, files := range map[string]map[string][]byte{"s1": m.Shards[0], "s2": m.Shards[1], "merged": m.Files} {
		if err := runs.WriteFiles(filepath.Join(folder, name), files); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(folder, "s2", trajectory.CheckpointFile)); err != nil {
		t.Fatal(err)
	}
	for _, quick := range []bool{false, true} {
		o, _ := reading(t)
		o.Quick = quick
		all := list(t, o, folder)
		if e := all["s1"]; e.State != page.Committed || e.Shard != "shard 1 of 2" || e.Done != e.Planned || e.Done == 0 || e.Done == all["merged"].Planned || e.Problem != "" || e.Score != nil {
			t.Errorf("quick %v: %+v", quick, e)
		}
		if e := all["s2"]; e.State != page.Interrupted || e.Shard != "shard 2 of 2" || e.result() != fmt.Sprintf("shard 2 of 2, interrupted %d/%d", e.Planned, e.Planned) {
			t.Errorf("quick %v: %+v", quick, e)
		}
		if e := all["merged"]; e.State != page.Complete || e.Shard != "" || e.ID != all["s1"].ID || !quick && e.Score == nil {
			t.Errorf("quick %v: %+v", quick, e)
		}
	}
	o, _ := reading(t)
	id := list(t, o, folder)["merged"].ID
	for _, name := range []string{id, id[:12], Latest} {
		if dir, err := Find(name, []string{folder}); err != nil || filepath.Base(dir) != "merged" {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(folder, "merged")); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(id, []string{folder}); exit.Of(err).Code != exit.Usage || len(exit.Of(err).Reasons) != 2 {
		t.Errorf("%v", err)
	}
}
