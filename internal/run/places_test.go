package run

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

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
