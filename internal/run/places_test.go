package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

func TestWithoutPlaces(t *testing.T) {
	full := errors.New("no space left on device")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{full, "no space left on device"},
		{&fs.PathError{Op: "mkdir", Path: "/srv/runs/01/0001-1", Err: full}, "mkdir 0001-1: no space left on device"},
		{&fs.PathError{Op: "openat", Path: "a.csv", Err: full}, "openat a.csv: no space left on device"},
		{fmt.Errorf("copying: %w", errors.Join(&os.LinkError{Op: "rename", Old: "/srv/ada/a", New: "/srv/ada/b", Err: full}, &exec.Error{Name: "/srv/ada/bin/python3", Err: full})),
			"copying: rename a b: no space left on device\nexec: \"python3\": no space left on device"},
	} {
		if got := withoutPlaces(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// misplaced is a machine that lacks a file.
type misplaced struct{ path string }

func (m misplaced) Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error) {
	return llm.Response{}, fmt.Errorf("starting the sandbox: %w", &fs.PathError{Op: "fork/exec", Path: m.path, Err: fs.ErrNotExist})
}

// TestPlacesStayOut: an attempt that fails for lack of a file of this machine says
// so in the journal, and not where it should have been.
func TestPlacesStayOut(t *testing.T) {
	c, out := config(t), t.TempDir()
	c.env.Model = misplaced{filepath.Join(out, "bin", "sandbox")}
	r, err := Create(out, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	failed := r.Execute(t.Context(), nil)
	r.Close()
	journal, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(journal, []byte("starting the sandbox: fork/exec sandbox: file does not exist")) {
		t.Errorf("the journal does not say why attempts failed (%v)", failed)
	}
	if bytes.Contains(journal, []byte(out)) {
		t.Error("the journal says where something lies")
	}
}
