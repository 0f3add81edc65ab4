package rundir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestFollow: a journal that grows under the reader, in each of the ways in which one
// does, and in those in which none may.
func TestFollow(t *testing.T) {
	m := planOf(t, "a")
	all := files(t, m, oneSolved)
	whole := all[trajectory.JournalFile]
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	half := func(n int) []byte { return append(bytes.Join(lines[:n], nil), lines[n][:len(lines[n])/2]...) }
	upTo := func(n int) []byte { return bytes.Join(lines[:n], nil) }
	other := bytes.SplitAfter(files(t, m, strings.ReplaceAll(oneSolved, "in=10", "in=11"))[trajectory.JournalFile], []byte("\n"))
	stopped := errors.New("stopped")
	var byLine [][]byte
	for n := 1; n <= len(lines); n++ {
		byLine = append(byLine, half(n-1), upTo(n))
	}
	for _, tt := range []struct {
		name   string
		stages [][]byte // the journal at the start, and at each wait; nil: the run is removed
		events int
		err    error  // errors.Is
		fault  string // in a *trajectory.Fault
	}{
		{"finished", [][]byte{whole}, len(lines), nil, ""},
		{"line by line, in halves", byLine, len(lines), nil, ""},
		{"a torn line that a resumed run cuts", [][]byte{half(5), upTo(5), upTo(5), whole}, len(lines), nil, ""},
		{"a torn line that never ends", [][]byte{half(5)}, 5, stopped, ""},
		{"all waits", [][]byte{upTo(3), upTo(3), upTo(3)}, 3, stopped, ""},
		{"cut off", [][]byte{upTo(6), upTo(5)}, 6, nil, "was cut off while it was followed"},
		{"another chain", [][]byte{upTo(5), append(upTo(5), bytes.Join(other[5:], nil)...)}, 5, nil, "does not follow the line before it"},
		{"not the chain", [][]byte{append(upTo(3), lines[4]...)}, 3, nil, "does not follow the line before it"},
		{"a line of any length", [][]byte{append(upTo(3), bytes.Repeat([]byte("a"), trajectory.MaxLine+2)...)}, 3, nil, "longer than"},
		{"an event out of order", [][]byte{write(t, m, "run started\na.1.1 turn\n")}, 1, nil, "has not begun"},
		{"removed", [][]byte{upTo(5), nil}, 5, ErrRemoved, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := directory(t, all)
			put := func(n int) {
				journal := filepath.Join(dir, trajectory.JournalFile)
				if tt.stages[n] == nil {
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(journal, tt.stages[n], 0o644); err != nil {
					t.Fatal(err)
				}
			}
			put(0)
			var seen []string
			steps, stage := 0, 0
			run, err := Begin(os.DirFS(dir))
			if err != nil || run.Manifest.RunID != testRunID {
				t.Fatal(err)
			}
			err = Follow(os.DirFS(dir), run, new(sync.Mutex), func() error {
				if stage++; stage == len(tt.stages) {
					return stopped
				}
				put(stage)
				return nil
			}, func(e trajectory.Event, _ []byte) error {
				seen = append(seen, e.ID)
				if e.Attempt > 0 && run.Task(e.TaskID).Attempts[0].StepOf(e) != nil {
					if run.Task("a").Open() == nil {
						t.Errorf("the step of seq %d is shown after its attempt", e.Seq)
					}
					steps++
				}
				return nil
			})
			var fault *trajectory.Fault
			switch {
			case tt.fault != "":
				if !errors.As(err, &fault) || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
			case !errors.Is(err, tt.err):
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if len(seen) != tt.events || !slices.IsSorted(seen) {
				t.Errorf("shows %d events, want %d", len(seen), tt.events)
			}
			if tt.events == len(lines) && steps != 5 {
				t.Errorf("shows %d steps, want 5", steps)
			}
		})
	}
}

// TestFollowSigned: nothing is shown of a run whose plan is not signed, and a visit
// may end the reading.
func TestFollowSigned(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	dir := directory(t, all)
	n := 0
	wait := func() error { t.Error("waits"); return fs.ErrClosed }
	run, err := Begin(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := Follow(os.DirFS(dir), run, new(sync.Mutex), wait, func(trajectory.Event, []byte) error {
		if n++; n == 3 {
			return fs.SkipAll
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("%d events, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, plan.ManifestFile), bytes.Replace(all[plan.ManifestFile], []byte(`"rehearsal":true`), []byte(`"rehearsal":false`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := Begin(os.DirFS(dir)); !errors.As(err, &fault) {
		t.Errorf("another plan: %v", err)
	}
}

// TestExtend: a journal taken in pieces is the one that is read whole, and a line that does not follow is refused.
func TestExtend(t *testing.T) {
	m := planOf(t, "a")
	all := files(t, m, oneSolved)
	whole, err := Verify(os.DirFS(directory(t, all)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(all[trajectory.JournalFile], []byte("\n"))
	lines = lines[:len(lines)-1]
	run, err := Begin(os.DirFS(directory(t, all)))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, line := range lines {
		if tail, err := run.Extend(bytes.NewReader(line), func(trajectory.Event, []byte) error { seen++; return nil }); err != nil || tail != nil {
			t.Fatalf("line %d: %v, %v", seen+1, tail, err)
		}
	}
	if seen != len(lines) || run.End != whole.End || run.Completed == nil {
		t.Errorf("%d of %d lines, end %+v, not %+v", seen, len(lines), run.End, whole.End)
	}
	var fault *trajectory.Fault
	if _, err := run.Extend(bytes.NewReader(lines[1]), nil); !errors.As(err, &fault) {
		t.Errorf("a line twice: %v", err)
	}
}
