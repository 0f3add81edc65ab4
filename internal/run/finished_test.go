package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestFinished: what a run reports without reading its journal is what a verifier
// reads, also of a run that was marked and resumed.
func TestFinished(t *testing.T) {
	for _, marked := range []string{"", "the disk was full"} {
		c := config(t, goldenTask)
		r, err := Create(t.TempDir(), c.plan, c.env)
		if err != nil {
			t.Fatal(err)
		}
		if marked != "" {
			if err := errors.Join(r.files.Mark(marked), r.Close()); err != nil {
				t.Fatal(err)
			}
			if r, err = Resume(r.Dir, c.plan, c.env); err != nil {
				t.Fatal(err)
			}
		}
		defer r.Close()
		if err := r.Execute(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		got, err := r.Finished()
		if err != nil {
			t.Fatal(err)
		}
		want := verified(t, r.Dir)
		if got.Complete != want.Complete || got.Marked != want.Marked || got.Marked != marked || got.End != want.End {
			t.Errorf("complete %v, marked %q, end %+v; a verifier reads %v, %q, %+v", got.Complete, got.Marked, got.End, want.Complete, want.Marked, want.End)
		}
		gotSummary, err := got.Summary().Encode()
		wantSummary, wrong := want.Summary().Encode()
		if err != nil || wrong != nil || !bytes.Equal(gotSummary, wantSummary) {
			t.Errorf("the summary is %s, a verifier reads %s; %v, %v", gotSummary, wantSummary, err, wrong)
		}
	}
}

// TestChangedEnd: a run whose growing files do not end as it wrote them is not
// sealed.
func TestChangedEnd(t *testing.T) {
	for _, name := range []string{trajectory.JournalFile, rundir.TrajectoriesFile} {
		for what, change := range map[string]func([]byte) []byte{
			"longer":        func(b []byte) []byte { return append(b, "{}\n"...) },
			"shorter":       func(b []byte) []byte { return b[:len(b)-1] },
			"another end":   func(b []byte) []byte { return append(b[:len(b)-2], "]\n"...) },
			"without lines": func([]byte) []byte { return nil },
		} {
			c := config(t, goldenTask)
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.env.Watch = func(e trajectory.Event) {
				if _, last := e.Payload.(trajectory.RunCompleted); !last {
					return
				}
				path := filepath.Join(r.Dir, name)
				b, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, change(b), 0o644)
				}
				if err != nil {
					t.Error(err)
				}
			}
			err = r.Execute(context.Background(), nil)
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != name {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if _, err := os.Stat(filepath.Join(r.Dir, trajectory.CheckpointFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s, %s: the run is sealed, %v", name, what, err)
			}
		}
	}
}

// TestWritten: the end of a file is checked without one line of it, too.
func TestWritten(t *testing.T) {
	c := config(t, goldenTask)
	r := execute(t, t.TempDir(), c)
	journal, _, err := r.files.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.files.CheckEnd(trajectory.JournalFile, runfiles.Written{Bytes: journal}); err != nil {
		t.Error(err)
	}
	if err := r.files.CheckEnd(trajectory.JournalFile, runfiles.Written{Bytes: journal + 1}); err == nil {
		t.Error("a byte more was not missed")
	}
}
