package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// reading is a reader of runs in a temporary home, an hour ahead of its files.
type reading struct {
	*testing.T
	program
	*ledger.Reader
	app    *app
	stderr *bytes.Buffer
}

func newReading(t *testing.T, runs int) reading {
	p := newProgram(t)
	for range runs {
		p.want(exit.OK, "run", "--limit", "2")
	}
	var stderr bytes.Buffer
	a := &app{began: time.Now(), stderr: &stderr, getenv: func(name string) string { return map[string]string{"HOME": p.dir}[name] }}
	r, err := a.runReader()
	must(t, err)
	r.AtOnce = 2
	r.Now = func() time.Time { return time.Now().Add(time.Hour) }
	return reading{t, p, r, a, &stderr}
}

// all reads the runs at paths, which are in the program's directory.
func (r reading) all(q ledger.Query, paths ...string) (runs []ledger.Run, failed error) {
	r.Helper()
	for i := range paths {
		paths[i] = filepath.Join(r.dir, paths[i])
	}
	read, err := r.Runs(paths, q, func(s ledger.Run) error {
		runs = append(runs, s)
		return nil
	})
	if err != nil || read.Runs != len(runs) {
		r.Fatalf("%d of %d runs: %v", len(runs), read.Runs, err)
	}
	return runs, read.FailedErr
}

// mark makes the record of a run say what no run does, so that it shows whether it is used.
func (r reading) mark(s ledger.Run) {
	r.Helper()
	names, err := ledger.Files(s.Path)
	must(r.T, err)
	path, err := history.RealPath(s.Path)
	must(r.T, err)
	files, keep := history.Stamp(path, names, r.Program, r.Now())
	if !keep {
		r.Fatal("the run has no stamp")
	}
	s.Model = "kept"
	must(r.T, r.Store.Keep(history.Record{Created: s.Started, Files: files, Kind: history.KindRun, ManifestSHA256: s.ManifestSHA256, Path: path, Rehearsal: s.Rehearsal,
		RunID: s.RunID, SignedBy: s.SignedBy}, &s.RunStats))
}

// TestRunsKept: what was kept of a run is used while nothing has changed that the run was verified by.
func TestRunsKept(t *testing.T) {
	t.Parallel()
	r := newReading(t, 1)
	first, failed := r.all(ledger.Query{}, "runs")
	if len(first) != 1 || failed != nil || len(first[0].Events) != 2 {
		t.Fatalf("%+v, %v", first, failed)
	}
	if got, err := filepath.Glob(filepath.Join(r.Store.Dir, "*")); err != nil || len(got) != 2 {
		t.Fatalf("kept %q, %v", got, err)
	}
	run := first[0].Path
	parquet := filepath.Join(r.Store.Dir, strings.TrimPrefix(first[0].ManifestSHA256, "sha256:")+".parquet")
	for name, c := range map[string]struct {
		change func()
		query  ledger.Query
		used   bool
	}{
		"nothing":            {func() {}, ledger.Query{}, true},
		"all verified":       {func() {}, ledger.Query{Verify: true}, false},
		"a file was changed": {func() { touch(t, filepath.Join(run, trajectory.JournalFile)) }, ledger.Query{}, false},
		"a file came":        {func() { write(t, filepath.Join(run, rundir.MarkerFile), "open\n") }, ledger.Query{}, false},
		"another program":    {func() { r.Program = "another" }, ledger.Query{}, false},
		"no program":         {func() { r.Program = "" }, ledger.Query{}, false},
		"a byte was changed": {func() { change(t, parquet, -20) }, ledger.Query{}, false},
		"cut":                {func() { must(t, os.Truncate(parquet, 0)) }, ledger.Query{}, false},
	} {
		r.mark(first[0])
		program := r.Program
		c.change()
		again, _ := r.all(c.query, "runs")
		if got := len(again) == 1 && again[0].Model == "kept"; got != c.used {
			t.Errorf("%s: the record is used: %v", name, got)
		}
		r.Program = program
		must(t, os.RemoveAll(filepath.Join(run, rundir.MarkerFile)), os.RemoveAll(r.Store.Dir))
	}
	r.Now = time.Now // files that were changed a moment ago are not kept: a second change would not show
	if runs, failed := r.all(ledger.Query{}, "runs"); len(runs) != 1 || failed != nil || exists(r.Store.Dir) {
		t.Errorf("%+v, %v, kept %v", runs, failed, exists(r.Store.Dir))
	}
}

// TestRunsOrder: runs are in the order in which they began, each once, whatever the order of the paths and whether they
// are kept; what cannot be used is named, and the others are read.
func TestRunsOrder(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	r := newReading(t, 3)
	names, err := filepath.Glob(filepath.Join(r.dir, "runs", "0*"))
	if err != nil || len(names) != 3 {
		t.Fatalf("%q, %v", names, err)
	}
	for range 2 {
		runs, failed := r.all(ledger.Query{}, "runs/"+filepath.Base(names[2]), "runs")
		if failed != nil || len(runs) != 3 || !slices.IsSortedFunc(runs, func(a, b ledger.Run) int { return strings.Compare(a.Started, b.Started) }) {
			t.Errorf("%v, %v", runs, failed)
		}
	}
	if said := r.stderr.String(); strings.Count(said, "the run "+filepath.Base(names[2])+" was read from") != 2 {
		t.Errorf("said: %s", said)
	}

	r.stderr.Reset()
	change(t, filepath.Join(names[0], rundir.ResultsFile), 40)
	unfinish(t, names[1])
	must(t, os.Rename(names[2], filepath.Join(r.dir, "runs", ".new-"+filepath.Base(names[2]))))
	runs, failed := r.all(ledger.Query{}, "runs")
	f := (*failure)(nil)
	if len(runs) > 0 || !errors.As(failed, &f) || f.Code != exit.Evidence || len(f.Reasons) != 1 || !strings.Contains(f.Reasons[0], "results.jsonl: line 1: is not what the journal gives") {
		t.Errorf("%v, %+v", runs, f)
	}
	if said := r.stderr.String(); !strings.Contains(said, "gaia: left out: "+names[1]+": the run is not complete: ") {
		t.Errorf("said: %s", said)
	}
	if _, failed = r.all(ledger.Query{}, "runs/"+filepath.Base(names[1])); !errors.As(failed, &f) || f.Code != exit.Incomplete {
		t.Errorf("an unfinished run that is named: %v", failed)
	}
	if _, failed = r.all(ledger.Query{}, "runs", "runs/"+filepath.Base(names[1])); !errors.As(failed, &f) || f.Code != exit.Evidence || len(f.Reasons) != 2 {
		t.Errorf("both: %+v", failed)
	}
}

// TestRunsRivals: of two runs with one id that differ neither is given, whichever comes first, and others are read. A
// copy is left out.
func TestRunsRivals(t *testing.T) {
	t.Parallel()
	r := newReading(t, 2)
	runs, failed := r.all(ledger.Query{}, "runs")
	if len(runs) != 2 || failed != nil {
		t.Fatalf("%d runs, %v", len(runs), failed)
	}
	path := runs[0].Path
	other := filepath.Join(r.dir, "again", filepath.Base(path))
	must(t, os.CopyFS(other, os.DirFS(path)))
	if copied, failed := r.all(ledger.Query{}, "again", "runs"); failed != nil || len(copied) != 2 {
		t.Errorf("with a copy: %d runs, %v", len(copied), failed)
	}
	if said := r.stderr.String(); strings.Count(said, "gaia: left out: ") != 1 || !strings.Contains(said, "was read from ") {
		t.Errorf("of a copy it is said: %s", said)
	}
	verify := r.Verify
	for name, change := range map[string]func(*rundir.RunStats){
		"by another key": func(s *rundir.RunStats) { s.ManifestSHA256, s.SignedBy = "sha256:another", "SHA256:another" },
		"another plan":   func(s *rundir.RunStats) { s.ManifestSHA256 = "sha256:another" },
		"journal":        func(s *rundir.RunStats) { s.JournalHead = "sha256:another" },
		"tree":           func(s *rundir.RunStats) { s.Root = "another" },
	} {
		r.Verify = func(path string) (rundir.RunStats, *rundir.Run, error) {
			stats, run, err := verify(path)
			if path == other {
				change(&stats)
			}
			return stats, run, err
		}
		t.Run(name, func(t *testing.T) {
			for _, paths := range [][]string{{"runs", "again"}, {"again", "runs", "runs"}} {
				left, failed := r.all(ledger.Query{Verify: true}, paths...)
				if len(left) != 1 || left[0].Path != runs[1].Path {
					t.Errorf("%q: %d runs are given", paths, len(left))
				}
				f := (*failure)(nil)
				if !errors.As(failed, &f) || f.Code != exit.Evidence || len(f.Hints) != 1 {
					t.Fatalf("%q: %v", paths, failed)
				}
				id := runs[0].RunID
				wants := []string{path + ": has the id " + id + ", as the run at " + other + " has", other + ": has the id " + id + ", as the run at " + path + " has"}
				if name != "by another key" {
					wants = []string{path + ": the key " + runs[0].SignedBy + " signed another ", name + " of the run " + id + ": ", " at " + other, "another at " + other + ", "}
				}
				for _, want := range wants {
					if !strings.Contains(strings.Join(f.Reasons, "\n"), want) {
						t.Errorf("%q: %q is not among %q", paths, want, f.Reasons)
					}
				}
			}
		})
	}
}

// TestRunsPassedOver: what may be a run in a folder is not passed over silently.
func TestRunsPassedOver(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	r := newReading(t, 1)
	run := r.runDir()
	folder := filepath.Join(r.dir, "folder")
	must(t, os.Mkdir(folder, 0o700), os.Symlink(run, filepath.Join(folder, "link")), os.Symlink(folder, filepath.Join(folder, "elsewhere")),
		os.Symlink("gone", filepath.Join(folder, "gone.tar.gz")))
	write(t, filepath.Join(folder, "damaged.tar.gz"), "no\x8b")
	write(t, filepath.Join(folder, "empty.tar.gz"), "")
	write(t, filepath.Join(folder, "notes.txt"), "")
	runs, failed := r.all(ledger.Query{}, "folder", "runs")
	f := (*failure)(nil)
	if len(runs) != 1 || !errors.As(failed, &f) || f.Code != exit.Evidence || len(f.Reasons) != 2 ||
		!strings.HasSuffix(f.Reasons[0], "/damaged.tar.gz: damaged.tar.gz: is named as an archive and does not begin as one") {
		t.Fatalf("%d runs, %+v", len(runs), f)
	}
	want := "gaia: left out: " + folder + "/gone.tar.gz is a link\ngaia: left out: " + folder + "/link is a link\n"
	if said := r.stderr.String(); said != want {
		t.Errorf("said %q, not %q", said, want)
	}
	if _, failed := r.all(ledger.Query{}, "folder/damaged.tar.gz"); classify(failed).Code != exit.Evidence {
		t.Errorf("one that is named: %v", failed)
	}
}

// TestExportVerifies: what is signed is read from the runs, whatever was kept of them; a query takes what was kept.
func TestExportVerifies(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	r := newReading(t, 1)
	runs, failed := r.all(ledger.Query{}, "runs")
	must(t, failed)
	must(t, os.Chtimes(filepath.Join(runs[0].Path, rundir.ResultsFile), time.Time{}, time.Now()))
	runs[0].Events = slices.Clone(runs[0].Events)
	runs[0].Events[0].Model = "kept"
	time.Sleep(2100 * time.Millisecond) // what was changed a moment ago is read again
	r.mark(runs[0])
	var out bytes.Buffer
	r.app.stdout = &out
	q := func() *ledgerQuery {
		return &ledgerQuery{Selection: ledger.Selection{Paths: []string{filepath.Join(r.dir, "runs")}}, asJSON: true}
	}
	must(t, r.app.list(r.Reader, q()))
	if !strings.Contains(out.String(), `"model":"kept"`) {
		t.Errorf("the list does not take what was kept: %s", out.String())
	}
	out.Reset()
	must(t, r.app.exportEvents(t.Context(), q(), ""))
	if strings.Contains(out.String(), `"model":"kept"`) || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("exported: %s", out.String())
	}
}

// TestImportRefuses: a file of others that is no good Parquet file of events is refused by the process that reads it,
// though its envelope is good; then nothing is imported.
func TestImportRefuses(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	dir := t.TempDir()
	a := &app{began: time.Now(), stdout: io.Discard, stderr: io.Discard, getenv: func(name string) string { return map[string]string{"HOME": dir}[name] }}
	key, err := a.user().Keyring().Signing("")
	must(t, err)
	r := newReading(t, 1)
	runs, failed := r.all(ledger.Query{}, "runs")
	must(t, failed)
	good, _, err := history.SealExport(runs[0].Events, key)
	must(t, err)
	for name, data := range map[string][]byte{
		"no Parquet": []byte("no Parquet at all"),
		"empty":      {},
		"cut":        good[:len(good)-1],
		"half":       good[:len(good)/2],
		"flipped":    flipped(good, len(good)/3),
	} {
		path := filepath.Join(dir, "export.parquet")
		payload, err := canonical.Encode(history.Export{Attempts: canonical.Digest(data), Events: 2, Key: key.Public().Line(), Schema: "gaia.ledger/2"})
		must(t, err)
		envelope, err := sign.Seal(key, "application/vnd.gaia-harness.ledger+json", payload)
		must(t, err, os.WriteFile(path, data, 0o600), os.WriteFile(path+history.EnvelopeSuffix, envelope, 0o600))
		if err := a.importEvents(t.Context(), []string{path}, importing{}); classify(err).Code != exit.Evidence {
			t.Errorf("%s: %v", name, err)
		}
		reader, err := a.runReader()
		must(t, err)
		if m, err := reader.Imported(); err != nil || m.Events > 0 {
			t.Errorf("%s: imported all the same: %v", name, err)
		}
	}
}

func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x40
	return data
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// touch changes no byte of a file, but when it was last changed.
func touch(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err, os.WriteFile(path, data, 0o644))
}

// change changes the byte at a place of a file, from its end if that is negative.
func change(t testing.TB, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}

// unfinish makes of a finished run one that has no end.
func unfinish(t *testing.T, run string) {
	t.Helper()
	path := filepath.Join(run, trajectory.JournalFile)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	must(t, os.WriteFile(path, bytes.Join(lines[:len(lines)-1], nil), 0o600))
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		must(t, os.Remove(filepath.Join(run, name)))
	}
	write(t, filepath.Join(run, rundir.MarkerFile), "open")
}
