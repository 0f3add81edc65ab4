package transcript

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// varied returns the files of a run that has every type of event.
func varied(t testing.TB) map[string][]byte {
	t.Helper()
	c, _ := runs.Varied()
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write writes the files of a run directory.
func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noWriter is a wait for a journal that is not written any longer.
func noWriter() error { return io.EOF }

// read opens a run and reads its journal.
func read(t testing.TB, dir fs.FS) *Journal {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Follow(noWriter); err != nil {
		t.Fatal(err)
	}
	return j
}

// TestChunks: every event of a run is in one chunk of its attempt, or of the run.
func TestChunks(t *testing.T) {
	j := read(t, os.DirFS(write(t, varied(t))))
	seen := map[int64]string{}
	for at := range j.attempts {
		c, err := j.Chunk(at.task, at.attempt, 0, Filter{})
		if err != nil || c.Next != -1 || c.Prev != -1 || c.Total != len(c.Items) || c.Open {
			t.Fatalf("%v: %v, %d items, %+v", at, err, len(c.Items), c)
		}
		for _, i := range c.Items {
			if seen[i.Line] != "" || i.Title == "" {
				t.Errorf("line %d: %q and %q", i.Line, seen[i.Line], i.Title)
			}
			seen[i.Line] = i.Title
		}
	}
	if s := j.State(); int64(len(seen)) != s.Events || !s.Complete || s.Fault != nil || s.Version < uint64(s.Events) {
		t.Errorf("%d items, state %+v", len(seen), s)
	}
}
