package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// reading is a reader of sheets in a home of its own, an hour ahead of its files.
type reading struct {
	*testing.T
	program
	*sheetReader
	stderr *bytes.Buffer
}

func newReading(t *testing.T, runs int) reading {
	p := newProgram(t)
	for range runs {
		p.want(exitOK, "run", "--limit", "2")
	}
	var stderr bytes.Buffer
	a := &app{began: time.Now(), stderr: &stderr, getenv: func(name string) string { return map[string]string{"HOME": p.dir}[name] }}
	kept := a.openKept()
	if kept == nil {
		t.Skip("no sheet is kept on this system")
	}
	kept.now = func() time.Time { return time.Now().Add(time.Hour) }
	return reading{t, p, &sheetReader{app: a, kept: kept, ahead: 2}, &stderr}
}

// all reads the runs at paths, which lie in the program's directory.
func (r reading) all(paths ...string) (sheets []givenSheet, failed error) {
	r.Helper()
	for i := range paths {
		paths[i] = filepath.Join(r.dir, paths[i])
	}
	found, err := r.find(paths, false, nil)
	if err != nil {
		r.Fatal(err)
	}
	read, err := r.each(found, func(s givenSheet) error {
		sheets = append(sheets, s)
		return nil
	})
	if err != nil || read.runs != len(sheets) {
		r.Fatalf("%d sheets of %d runs: %v", len(sheets), read.runs, err)
	}
	return sheets, read.failed
}

// mark makes the kept sheet of the first run say what no run does, so that it
// shows whether it is used.
func (r reading) mark(s givenSheet) {
	r.Helper()
	of, settled, ok := r.kept.stamp(s.path)
	if !settled || !ok {
		r.Fatal("the run has no stamp")
	}
	s.Model = "kept"
	r.kept.keep(of, s.Sheet)
}

// TestSheetsKept: a kept sheet is used while nothing has changed that the run was
// verified by, and then no longer.
func TestSheetsKept(t *testing.T) {
	r := newReading(t, 1)
	first, failed := r.all("runs")
	if len(first) != 1 || failed != nil || len(first[0].Events) != 2 {
		t.Fatalf("%+v, %v", first, failed)
	}
	run := first[0].path
	for name, c := range map[string]struct {
		change func()
		used   bool
	}{
		"nothing":             {func() {}, true},
		"all read anew":       {func() { r.anew = true }, false},
		"a file was changed":  {func() { touch(t, filepath.Join(run, trajectory.JournalFile)) }, false},
		"a file came":         {func() { write(t, filepath.Join(run, ledger.MarkerFile), "open\n") }, false},
		"another program":     {func() { r.kept.program = "another" }, false},
		"a byte was changed":  {func() { change(t, r.kept.file(run), -1) }, false},
		"the line is changed": {func() { change(t, r.kept.file(run), 3) }, false},
		"cut":                 {func() { halve(t, r.kept.file(run), 1) }, false},
		"cut to nothing":      {func() { halve(t, r.kept.file(run), 0) }, false},
		"others can write it": {func() { chmod(t, r.kept.file(run), 0o622) }, false},
		"a link": {func() {
			must(t, os.Rename(r.kept.file(run), r.kept.file(run)+".aside"))
			must(t, os.Symlink(r.kept.file(run)+".aside", r.kept.file(run)))
		}, false},
	} {
		r.mark(first[0])
		program := r.kept.program
		c.change()
		again, _ := r.all("runs")
		if got := len(again) == 1 && again[0].Model == "kept"; got != c.used {
			t.Errorf("%s: the kept sheet is used: %v", name, got)
		}
		r.anew, r.kept.program = false, program
		must(t, os.RemoveAll(filepath.Join(run, ledger.MarkerFile)), os.RemoveAll(r.kept.file(run)))
	}
}

// TestSheetsNotKept: what was changed a moment ago is not kept, since a change right
// after it would not show.
func TestSheetsNotKept(t *testing.T) {
	r := newReading(t, 1)
	r.kept.now = time.Now
	if sheets, failed := r.all("runs"); len(sheets) != 1 || failed != nil {
		t.Fatalf("%+v, %v", sheets, failed)
	}
	if kept, err := filepath.Glob(filepath.Join(r.kept.dir, "*")); err != nil || len(kept) > 0 {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// TestSheetsOrder: runs come in the order in which they began, each once, whatever the
// order of the paths and whether they are kept; what cannot be used is named, and
// keeps nothing else from being read.
func TestSheetsOrder(t *testing.T) {
	r := newReading(t, 3)
	names, err := filepath.Glob(filepath.Join(r.dir, "runs", "0*"))
	if err != nil || len(names) != 3 {
		t.Fatalf("%q, %v", names, err)
	}
	for range 2 {
		sheets, failed := r.all("runs/"+filepath.Base(names[2]), "runs")
		if failed != nil || len(sheets) != 3 || !slices.IsSortedFunc(sheets, func(a, b givenSheet) int { return strings.Compare(a.Started, b.Started) }) {
			t.Errorf("%v, %v", sheets, failed)
		}
	}
	if said := r.stderr.String(); strings.Count(said, "the run "+filepath.Base(names[2])+" was read from") != 2 {
		t.Errorf("said: %s", said)
	}

	r.stderr.Reset()
	change(t, filepath.Join(names[0], ledger.ResultsFile), 40)
	unfinish(t, names[1])
	must(t, os.Rename(names[2], filepath.Join(r.dir, "runs", ".new-"+filepath.Base(names[2]))))
	sheets, failed := r.all("runs")
	f := (*failure)(nil)
	if len(sheets) > 0 || !errors.As(failed, &f) || f.Code != exitEvidence || len(f.Reasons) != 1 || !strings.Contains(f.Reasons[0], "results.jsonl: line 1: is not what the journal gives") {
		t.Errorf("%v, %+v", sheets, f)
	}
	if said := r.stderr.String(); !strings.Contains(said, "gaia: left out: "+names[1]+": the run is not complete: ") {
		t.Errorf("said: %s", said)
	}
	if _, failed = r.all("runs/" + filepath.Base(names[1])); !errors.As(failed, &f) || f.Code != exitIncomplete {
		t.Errorf("an unfinished run that is named: %v", failed)
	}
	if _, failed = r.all("runs", "runs/"+filepath.Base(names[1])); !errors.As(failed, &f) || f.Code != exitEvidence || len(f.Reasons) != 2 {
		t.Errorf("both: %+v", failed)
	}
}

// TestSheetsPruned: the oldest go.
func TestSheetsPruned(t *testing.T) {
	k := &keptSheets{dir: t.TempDir(), now: time.Now}
	for i := range maxSheets + 2 {
		path := k.file(string(rune('a' + i)))
		write(t, path, "")
		at := time.Unix(int64(1000+i), 0)
		must(t, os.Chtimes(path, at, at))
	}
	write(t, filepath.Join(k.dir, ".new-1"), "")
	write(t, filepath.Join(k.dir, ".new-2"), "")
	must(t, os.Chtimes(filepath.Join(k.dir, ".new-2"), time.Unix(1, 0), time.Unix(1, 0)))
	k.prune()
	left, err := os.ReadDir(k.dir)
	if err != nil || len(left) != maxSheets+1 {
		t.Errorf("%d files, %v", len(left), err)
	}
	for i, want := range []bool{false, false, true} {
		if _, err := os.Lstat(k.file(string(rune('a' + i)))); (err == nil) != want {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

func someSheet(tasks int) ledger.Sheet {
	cost, yes, no := int64(1<<60), true, false
	s := ledger.Sheet{RunID: "01J", Dataset: plan.Dataset{Levels: [3]int{1, -2, 3}, Name: "gaïa"}, Rehearsal: true}
	for i := range tasks {
		e := ledger.RunEvent{ID: strings.Repeat("x", i%300), CostMicroUSD: &cost, FilesTouched: []string{}, OutcomeAccepted: &yes, ToolsUsed: []string{"a", "b", "a"}}
		if i%3 == 0 {
			e.CostMicroUSD, e.OutcomeAccepted, e.FilesTouched = nil, &no, nil
			e.Violations = []ledger.Violation{{AutoCorrected: true, RuleID: "R004"}, {}}
		}
		s.Events = append(s.Events, e)
	}
	return s
}

// TestPack: what was packed is unpacked to the last member, nil and empty told apart.
func TestPack(t *testing.T) {
	long.NotRaced(t)
	for _, n := range []int{0, 1, 5000} {
		want := someSheet(n)
		data, err := pack(want)
		var got ledger.Sheet
		if err = errors.Join(err, unpack(data, &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d events: %s", n, diff)
		}
		if unpack(append(data, 0), &got) == nil || unpack(data[:len(data)-1], &got) == nil {
			t.Errorf("%d events: more or fewer bytes are a sheet, too", n)
		}
	}
	if _, err := pack(1.5); err == nil {
		t.Error("a float was packed")
	}
	type renamed struct{ B []*string }
	if a, b := shape(reflect.TypeFor[struct{ A []*string }]()), shape(reflect.TypeFor[renamed]()); a == b || a != "{A []*string}" {
		t.Errorf("the shapes are %s and %s", a, b)
	}
}

// FuzzUnpack: whatever the bytes are, they are refused or are a sheet.
func FuzzUnpack(f *testing.F) {
	data, err := pack(someSheet(4))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again ledger.Sheet
		if unpack(data, &got) != nil {
			return
		}
		packed, err := pack(got)
		if err = errors.Join(err, unpack(packed, &again)); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%v: %+v, then %+v", err, got, again)
		}
	})
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

func chmod(t testing.TB, path string, mode os.FileMode) {
	t.Helper()
	must(t, os.Chmod(path, mode))
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

// halve cuts a file down to its first half, or to nothing.
func halve(t testing.TB, path string, halves int) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err, os.Truncate(path, info.Size()*int64(halves)/2))
}

// unfinish makes of a finished run one that has no end.
func unfinish(t *testing.T, run string) {
	t.Helper()
	path := filepath.Join(run, trajectory.JournalFile)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	must(t, os.WriteFile(path, bytes.Join(lines[:len(lines)-1], nil), 0o600))
	for _, name := range []string{ledger.ResultsFile, ledger.SummaryFile, trajectory.CheckpointFile} {
		must(t, os.Remove(filepath.Join(run, name)))
	}
	write(t, filepath.Join(run, ledger.MarkerFile), "open")
}

// TestExportAnew: what is signed is read from the runs, whatever is kept of them; a
// query takes what is kept.
func TestExportAnew(t *testing.T) {
	r := newReading(t, 1)
	sheets, failed := r.all("runs")
	must(t, failed)
	sheets[0].Events[0].Model = "kept"
	r.mark(sheets[0])
	var out bytes.Buffer
	r.stdout = &out
	q := func() *ledgerQuery { return &ledgerQuery{runs: []string{filepath.Join(r.dir, "runs")}, asJSON: true} }
	must(t, r.list(q()))
	if !strings.Contains(out.String(), `"model":"kept"`) {
		t.Errorf("the list does not take what is kept: %s", out.String())
	}
	for range 2 { // the second time after what the first may have kept
		r.mark(sheets[0])
		out.Reset()
		must(t, r.exportEvents(t.Context(), q(), "", ""))
		if strings.Contains(out.String(), `"model":"kept"`) || strings.Count(out.String(), "\n") != 3 {
			t.Errorf("exported: %s", out.String())
		}
	}
}
