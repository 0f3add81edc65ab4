package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

const someTime = "2026-01-02T03:04:05.000Z"

// newKey makes a key that is the same in every run.
func newKey(t testing.TB, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newStore(t testing.TB) *Store {
	key := newKey(t, 1)
	return &Store{Dir: filepath.Join(t.TempDir(), "history"), Key: &key, Trusted: []sign.PublicKey{key.Public()}}
}

// someRun is a record of a run and what was counted of it.
func someRun(run int) (Record, *rundir.RunStats) {
	events := benchEvents(run, 3)
	e := events[0]
	r := Record{Created: someTime, Files: "sha256:files", Kind: KindRun, ManifestSHA256: e.ManifestSHA256, Path: "/runs/" + e.RunID, RunID: e.RunID, SignedBy: e.SignedBy}
	return r, &rundir.RunStats{Events: events, ManifestSHA256: e.ManifestSHA256, RunID: e.RunID, Schema: rundir.StatsSchema, SignedBy: e.SignedBy, Started: someTime,
		Tasks: []rundir.TaskStats{{TaskID: "t", Outcome: trajectory.Solved}}}
}

func prunedRecord(t *testing.T, r Record) Record {
	t.Helper()
	r.Files, r.Pruned = "", someTime
	text, err := trajectory.Checkpoint{RunID: r.RunID, Size: 3, ManifestSHA256: r.ManifestSHA256, Journal: trajectory.End{Events: 9, Head: r.ManifestSHA256, LastID: r.RunID}}.Sign(newKey(t, 1))
	must(t, err)
	r.Checkpoint = string(text)
	return r
}

// TestStore: a record counts while its files are what they were and both of its files are good. Otherwise the
// run has to be read again.
func TestStore(t *testing.T) {
	r, stats := someRun(1)
	for name, c := range map[string]struct {
		change func(s *Store, r *Record)
		found  bool
	}{
		"nothing":          {func(*Store, *Record) {}, true},
		"other files":      {func(_ *Store, r *Record) { r.Files = "sha256:other" }, false},
		"another place":    {func(_ *Store, r *Record) { r.Path = "/elsewhere" }, false},
		"attempts changed": {func(s *Store, r *Record) { flip(t, s.attempts(*r), 100) }, false},
		"envelope changed": {func(s *Store, r *Record) { n, _ := s.names(r.ManifestSHA256, r.Path); flip(t, n, 100) }, false},
		"without attempts": {func(s *Store, r *Record) { must(t, os.Remove(s.attempts(*r))) }, false},
		"by another's key": {func(s *Store, _ *Record) { key := newKey(t, 2); s.Key = &key }, false},
		"without a key":    {func(s *Store, _ *Record) { s.Key = nil }, false},
		"of another's name": {func(s *Store, r *Record) {
			n, _ := s.names(r.ManifestSHA256, r.Path)
			o, _ := s.names(r.ManifestSHA256, "/o")
			must(t, os.Rename(n, o))
			r.Path = "/o"
		}, false},
	} {
		s, r := newStore(t), r
		must(t, s.Keep(r, stats))
		c.change(s, &r)
		got, found := s.Recall(r.Path, r.Files)
		if found != c.found || found && (len(got.Events) != 3 || len(got.Tasks) != 1) {
			t.Errorf("%s: found %v, %d events", name, found, len(got.Events))
		}
	}
	if _, found := (*Store)(nil).Recall("", ""); found {
		t.Error("there is no store, and a record was found")
	}
}

// TestHistory: the record of a removed run counts, takes the place of that of the run, and is never passed over
// where it is not good.
func TestHistory(t *testing.T) {
	all := func(Record) bool { return true }
	r, stats := someRun(1)
	gone := prunedRecord(t, r)
	s := newStore(t)
	must(t, s.Keep(r, stats), s.Keep(gone, stats))
	if _, found := s.Recall(r.Path, r.Files); found {
		t.Error("the run is still there")
	}
	removed, err := s.Removed(all)
	if err != nil || len(removed) != 1 || removed[0].Stats == nil || len(removed[0].Stats.Events) != 3 || removed[0].RunID != r.RunID {
		t.Fatalf("%+v, %v", removed, err)
	}
	if none, err := s.Removed(func(Record) bool { return false }); err != nil || len(none) > 0 {
		t.Errorf("%+v, %v", none, err)
	}
	other := *stats
	other.Events = stats.Events[:2]
	if err := s.Keep(r, &other); err == nil || !strings.Contains(err.Error(), "is of another history of the run") {
		t.Errorf("the attempts of a removed run were replaced: %v", err)
	}
	_, name := s.names(r.ManifestSHA256, r.Path)
	for what, change := range map[string]func(){
		"attempts": func() { flip(t, s.attempts(r), 100) },
		"envelope": func() { flip(t, name, 100) },
		"stranger": func() { s.Trusted = nil },
	} {
		trusted := s.Trusted
		change()
		if _, err := s.Removed(all); !errors.As(err, new(*trajectory.Fault)) {
			t.Errorf("%s: %v", what, err)
		}
		s.Trusted = trusted
		must(t, os.RemoveAll(s.Dir), s.Keep(gone, stats))
	}
	unfinished := gone
	unfinished.Path, unfinished.Checkpoint = "/unfinished", ""
	must(t, s.Keep(unfinished, nil))
	if removed, err := s.Removed(all); err != nil || len(removed) != 2 || removed[1].Stats != nil {
		t.Errorf("%+v, %v", removed, err)
	}
	for name, change := range map[string]func(*Record){
		"kind":       func(r *Record) { r.Kind = "x" },
		"digest":     func(r *Record) { r.ManifestSHA256 = "sha256:../../x" },
		"time":       func(r *Record) { r.Pruned = "today" },
		"checkpoint": func(r *Record) { r.Checkpoint = "x" },
		"both":       func(r *Record) { r.Files = "x" },
	} {
		bad := unfinished
		change(&bad)
		if err := s.Keep(bad, nil); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	for name, change := range map[string]func(*rundir.RunStats){
		"run":       func(s *rundir.RunStats) { s.RunID = "01JAAAAAAAAAAAAAAAAAAAAAAA" },
		"plan":      func(s *rundir.RunStats) { s.ManifestSHA256 = canonical.Digest(nil) },
		"rehearsal": func(s *rundir.RunStats) { s.Rehearsal = !s.Rehearsal },
		"event":     func(s *rundir.RunStats) { s.Events[0].RunID = "01JAAAAAAAAAAAAAAAAAAAAAAA" },
		"tokens":    func(s *rundir.RunStats) { s.Events[0].Tokens = -1 },
	} {
		bad := *stats
		bad.Events = slices.Clone(stats.Events)
		change(&bad)
		if err := s.Keep(gone, &bad); err == nil {
			t.Errorf("%s: counted for another run", name)
		}
	}
	must(t, os.WriteFile(filepath.Join(s.Dir, strings.Repeat("0", 64)+EnvelopeSuffix), nil, 0o600))
	if _, err := s.Removed(all); err == nil || !strings.Contains(err.Error(), "gaia.history/1, which gaia 0.1.0 reads") {
		t.Errorf("of an older version: %v", err)
	}
}

// TestEvict: beyond a thousand the oldest records of runs that are there go, and those of removed runs stay.
func TestEvict(t *testing.T) {
	s := newStore(t)
	r, stats := someRun(1)
	must(t, s.Keep(prunedRecord(t, r), stats))
	for i := range maxCounted + 2 {
		name := filepath.Join(s.Dir, canonical.Digest([]byte{byte(i), byte(i >> 8)})[len("sha256:"):]+"-0"+EnvelopeSuffix)
		at := time.Unix(int64(1000+i), 0)
		must(t, os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at))
	}
	s.Evict()
	left, err := os.ReadDir(s.Dir)
	if err != nil || len(left) != maxCounted+2 {
		t.Errorf("%d files, %v", len(left), err)
	}
}

// TestStamp: a stamp changes with its files, and one of files that were just changed is not kept.
func TestStamp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	later := time.Now().Add(time.Hour)
	first, keep := Stamp(dir, []string{"a", "b"}, "program", later)
	if !keep {
		t.Error("an old file has no stamp that is kept")
	}
	if _, keep := Stamp(dir, []string{"a", "b"}, "program", time.Now()); keep {
		t.Error("a new file has one")
	}
	for name, change := range map[string]func() string{
		"program": func() string { s, _ := Stamp(dir, []string{"a", "b"}, "other", later); return s },
		"written": func() string {
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			s, _ := Stamp(dir, []string{"a", "b"}, "program", later)
			return s
		},
		"came": func() string {
			must(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
			s, _ := Stamp(dir, []string{"a", "b"}, "program", later)
			return s
		},
	} {
		if change() == first {
			t.Errorf("%s: the same stamp", name)
		}
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// flip changes a bit of a file.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	data[at] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}
