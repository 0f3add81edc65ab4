package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
)

// shut is a workspace in which most is closed to its owner.
func shut(t *testing.T) (*Workspace, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a", "b", "notes.txt"), []byte("one\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "a", "table.csv"), []byte("1,2\n"), 0o600))
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "a", "pipe")).CombinedOutput(); err != nil {
		t.Skipf("no pipe can be made here: %v: %s", err, out)
	}
	w, err := OpenWorkspace(dir)
	must(t, err)
	for _, name := range []string{"a/b/notes.txt", "a/b", "a", ""} { // from the inside out
		must(t, os.Chmod(filepath.Join(dir, name), 0))
	}
	t.Cleanup(func() {
		for _, name := range []string{"", "a", "a/b"} {
			_ = os.Chmod(filepath.Join(dir, name), 0o700)
		}
		_ = w.Close()
	})
	return w, dir
}

// TestWalkClosedFolders: whoever looks at a workspace sees what is in folders that
// are closed to their owner, and leaves them closed.
func TestWalkClosedFolders(t *testing.T) {
	for name, c := range map[string]struct {
		look func(w *Workspace) string
		want string
	}{
		"the watch": {func(w *Workspace) string {
			files, size := countFiles(w.root)
			return fmt.Sprint(files, " ", size)
		}, "5 8"},
		"list_files": {func(w *Workspace) string { return use(t, NewListFiles(), &Env{Root: w.root}, object{}).Shown },
			"a/b/notes.txt\t4 bytes\na/pipe\tnot a regular file\na/table.csv\t4 bytes\n"},
		"the digest": {func(w *Workspace) string { found, _, err := w.now(); return fmt.Sprint(len(found), err) }, "6 <nil>"},
		"the copy":   {func(w *Workspace) string { removed, err := w.keep(); return fmt.Sprint(removed, len(w.kept), err) }, "[a/pipe] 5 <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := shut(t)
			before, _, err := w.now()
			must(t, err)
			if got := c.look(w); got != c.want {
				t.Errorf("it sees %q, not %q", got, c.want)
			}
			if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != 0 {
				t.Errorf("the workspace has mode %v (%v)", info.Mode(), err)
			}
			after, _, err := w.now()
			must(t, err)
			if diff := changed(before, after); len(diff) > 0 && !slices.Equal(diff, []string{"a/pipe"}) {
				t.Errorf("looking has changed %q", diff)
			}
			for _, e := range after {
				if (e.Kind == kindDir || e.Path == "a/b/notes.txt") && e.Mode != 0 {
					t.Errorf("%s has mode %o", e.Path, e.Mode)
				}
			}
		})
	}
}

// TestWalkRestoresClosedFolders: what is closed can be put back.
func TestWalkRestoresClosedFolders(t *testing.T) {
	w, dir := shut(t)
	_, err := w.keep()
	must(t, err)
	for _, name := range []string{"", "a"} {
		must(t, os.Chmod(filepath.Join(dir, name), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(dir, "a", "table.csv"), []byte("3\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	for _, name := range []string{"a", ""} {
		must(t, os.Chmod(filepath.Join(dir, name), 0))
	}
	must(t, w.restore())
	if _, sum, err := w.now(); err != nil || sum != w.keptSum {
		t.Errorf("the digest is %s, not %s (%v)", sum, w.keptSum, err)
	}
}

// TestWalkAtOnce: no one sees a folder that is open because someone else looks.
func TestWalkAtOnce(t *testing.T) {
	w, _ := shut(t)
	_, want, err := w.now()
	must(t, err)
	var all errgroup.Group
	for range 3 {
		all.Go(func() error {
			for range 200 {
				if files, _ := countFiles(w.root); files != 5 {
					return fmt.Errorf("%d files are counted", files)
				}
			}
			return nil
		})
	}
	for range 200 {
		if _, sum, err := w.now(); err != nil || sum != want {
			t.Fatalf("the digest is %s, not %s (%v)", sum, want, err)
		}
	}
	must(t, all.Wait())
}

// TestWalkLeavesChanges: permissions that a program gives while a folder is looked
// at stay, and so does the folder that a name led to.
func TestWalkLeavesChanges(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want map[string]fs.FileMode
	}{
		"other permissions": {func(dir string) error { return os.Chmod(dir+"/a", 0o755) }, map[string]fs.FileMode{"a": 0o755}},
		"another folder": {func(dir string) error { return errors.Join(os.Rename(dir+"/a", dir+"/c"), os.Mkdir(dir+"/a", 0o700)) },
			map[string]fs.FileMode{"c": 0, "a": 0o700}},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := shut(t)
			must(t, os.Chmod(dir, 0o700))
			err := w.root.Walk(func(name string, _ fs.FileInfo, err error) error {
				if name != "a/b" {
					return err
				}
				must(t, c.do(dir))
				return fs.SkipAll
			})
			must(t, err)
			for name, want := range c.want {
				if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s has mode %v, not %v (%v)", name, info.Mode(), want, err)
				}
				_ = os.Chmod(filepath.Join(dir, name), 0o700)
			}
			_ = os.Chmod(filepath.Join(dir, "c", "b"), 0o700)
		})
	}
}

// TestWalkEnds: what a workspace cannot hold is not looked through to its end.
func TestWalkEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 46 {
		for j := range 46 {
			must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i), fmt.Sprint(j)), 0o755))
		}
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	f := &Folder{Root: root}
	if files, _ := countFiles(f); files != MaxNames {
		t.Errorf("%d files are counted", files)
	}
	if out := use(t, NewListFiles(), &Env{Root: f}, object{}); out.Shown != "and more: not all folders were looked into\n" || out.IsError {
		t.Errorf("list_files gives %q", out.Shown)
	}
}

// countFiles counts what is in a folder, and the bytes of it, as the watch of a program does.
func countFiles(f *Folder) (n int, size int64) {
	_ = f.Walk(func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if name != "." {
			n++
			if info.Mode().IsRegular() {
				size += info.Size()
			}
		}
		if n >= MaxNames {
			return fs.SkipAll
		}
		return nil
	})
	return n, size
}
