package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPutNew: a file gets its name where none has it, with links and without.
func TestPutNew(t *testing.T) {
	none := func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} }
	twice := func(from, to string) error { return errors.Join(os.Link(from, to), os.Link(from, to)) }
	for what, link := range map[string]func(from, to string) error{"links": os.Link, "no links": none, "links asked for twice": twice} {
		dir := t.TempDir()
		path := filepath.Join(dir, "harbour")
		aside, err := WriteAside(dir, []byte("lit"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := putNew(filepath.Join(dir, "gone"), path, link); !errors.Is(err, fs.ErrNotExist) || SameFile(path, path) {
			t.Errorf("%s: of no file: %v", what, err)
		}
		if err := putNew(aside, path, link); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", what, info, err)
		}
		other, err := WriteAside(dir, []byte("dark"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := putNew(other, path, link); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: twice: %v", what, err)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "lit" {
			t.Errorf("%s: %q, %v", what, content, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
			t.Fatal(err)
		}
		if err := putNew(other, path, link); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over a link that leads nowhere: %v", what, err)
		}
	}
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
