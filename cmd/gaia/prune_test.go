package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
)

// TestPruneInUse: a run that a process writes stays, whatever the flags say.
func TestPruneInUse(t *testing.T) {
	from, _ := foreignRun(t, "AUD-04/fires-cache-read.txt")
	m, _, _, err := rundir.ReadPlan(os.DirFS(from))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), m.RunID)
	if err := os.Rename(from, dir); err != nil {
		t.Fatal(err)
	}
	release, err := runfiles.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, "prune", "runs", dir, "--keep", "0", "--force", "--yes")
	if code != exit.OK || !strings.Contains(stderr, ": a process writes it\n") || !strings.Contains(stdout, "removed 0 runs") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, err := runfiles.Hold(dir); err != runfiles.ErrBusy {
		t.Errorf("the run is held: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, "prune", "runs", dir, "--keep", "0", "--yes"); code != exit.OK {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the run is there: %v", err)
	}
}
