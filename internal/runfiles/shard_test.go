package runfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCopyShard: the files of a shard are copied as they are, bodies by their digests; a link, a file that is missing and a
// body of another content are refused.
func TestCopyShard(t *testing.T) {
	from := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile}
	for _, name := range names {
		write(name, "text of "+name+"\n")
	}
	body := trajectory.BodyFile(canonical.Digest([]byte("a body")))
	write(body, "a body")
	write(trajectory.BodiesDir+"/notes", "no digest")
	write(rundir.PrivateFile, "not of a shard")

	d, err := Create(filepath.Join(t.TempDir(), "run"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CopyShard("7", from, true); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(d.Path, rundir.ShardsDir, "7", name))
		if err != nil || string(data) != "text of "+name+"\n" {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(d.Path, filepath.FromSlash(body))); err != nil || string(data) != "a body" {
		t.Errorf("the body is %q, %v", data, err)
	}
	if all, err := os.ReadDir(filepath.Join(d.Path, filepath.FromSlash(trajectory.BodiesDir))); err != nil || len(all) != 1 {
		t.Errorf("%d bodies, %v", len(all), err)
	}
	if all, err := os.ReadDir(filepath.Join(d.Path, rundir.ShardsDir, "7")); err != nil || len(all) != len(names) {
		t.Errorf("%d files, %v", len(all), err)
	}
	if name, err := Foreign(d.Path); name != "" || err != nil {
		t.Errorf("no run makes %q, %v", name, err)
	}

	refused := func(number, want string) {
		t.Helper()
		if err := d.CopyShard(number, from, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	write(body, "another")
	refused("8", "is not what its name says")
	write(body, "a body")
	journal := filepath.Join(from, trajectory.JournalFile)
	if err := errors.Join(os.Rename(journal, journal+".away"), os.Symlink(journal+".away", journal)); err != nil {
		t.Fatal(err)
	}
	refused("9", "is not a regular file")
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	refused("10", rundir.Missing)
}
