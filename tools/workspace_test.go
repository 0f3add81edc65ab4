package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// prepared is a workspace with some of everything that can be kept.
func prepared(t testing.TB) (*Workspace, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	write := func(name, content string, mode fs.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("tides.csv", "Monday,7\nTuesday,8\n", 0o444)
	write("notes.txt", "one\ntwo\nthree\n", 0o644)
	write("picture.bin", "\x00\xff\x01", 0o600)
	write("deep/er/log.txt", "begun\n", 0o640)
	write("-rf", "a name like an option\n", 0o755)
	write("two\nlines", "a name of two lines\n", 0o644)
	write("latin\xff1", "a name that is not UTF-8\n", 0o644)
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o500))
	must(t, os.Symlink("notes.txt", filepath.Join(dir, "link")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, os.Symlink("../../outside", filepath.Join(dir, "leading-out")))
	must(t, os.Symlink("latin\xff1", filepath.Join(dir, "odd-link")))
	w, err := OpenWorkspace(dir)
	must(t, err)
	t.Cleanup(func() {
		_ = os.Chmod(dir, 0o755)
		_ = os.Chmod(filepath.Join(dir, "empty"), 0o700)
		_ = w.Close()
	})
	return w, dir
}

// contents reads a folder without the code under test: the kind, mode and content
// of everything in it.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		says := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			says += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			says += " " + target
		}
		all[strings.TrimPrefix(path, dir)] = says
		return nil
	}))
	return all
}

// TestWorkspaceRestores: whatever is done to a workspace, it is put back, and what
// was done is told.
func TestWorkspaceRestores(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "precious"), []byte("stays"), 0o644))
	for _, c := range []struct {
		name     string
		do       func(dir string) error
		restored []string
	}{
		{"nothing", func(string) error { return nil }, []string{}},
		{"added", func(dir string) error { return os.WriteFile(dir+"/new", nil, 0o644) }, []string{"new"}},
		{"changed in place", func(dir string) error { return os.WriteFile(dir+"/notes.txt", []byte("one\ntwo\nTHREE\n"), 0o644) }, []string{"notes.txt"}},
		{"changed, with the old times and size", func(dir string) error {
			info, err := os.Stat(dir + "/notes.txt")
			return errors.Join(err, os.WriteFile(dir+"/notes.txt", []byte("one\ntwo\nTHREE\n"), 0o644), os.Chtimes(dir+"/notes.txt", info.ModTime(), info.ModTime()))
		}, []string{"notes.txt"}},
		{"deleted", func(dir string) error { return os.Remove(dir + "/tides.csv") }, []string{"tides.csv"}},
		{"folder deleted", func(dir string) error { return os.RemoveAll(dir + "/deep") }, []string{"deep", "deep/er", "deep/er/log.txt"}},
		{"everything deleted", func(dir string) error {
			names, err := filepath.Glob(dir + "/*")
			for _, n := range names {
				err = errors.Join(err, os.RemoveAll(n))
			}
			return err
		}, []string{"-rf", "./\"latin\\xff1\"", "dangling", "deep", "deep/er", "deep/er/log.txt", "empty", "leading-out", "link", "notes.txt", "odd-link", "picture.bin", "tides.csv", "two\nlines"}},
		{"file made read-only", func(dir string) error { return os.Chmod(dir+"/notes.txt", 0o444) }, []string{"notes.txt"}},
		{"file no one can read", func(dir string) error { return os.Chmod(dir+"/notes.txt", 0) }, []string{"notes.txt"}},
		{"file made setuid", func(dir string) error { return os.Chmod(dir+"/notes.txt", 0o644|fs.ModeSetuid) }, []string{"notes.txt"}},
		{"folder made read-only", func(dir string) error { return os.Chmod(dir+"/deep", 0o500) }, []string{"deep"}},
		{"folder no one can enter", func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/deep/new", nil, 0o644), os.Chmod(dir+"/deep", 0))
		}, []string{"deep", "deep/new"}},
		{"the workspace itself made read-only", func(dir string) error { return os.Chmod(dir, 0o500) }, []string{"."}},
		{"replaced by a link out", func(dir string) error {
			return errors.Join(os.Remove(dir+"/tides.csv"), os.Symlink(outside+"/precious", dir+"/tides.csv"))
		}, []string{"tides.csv"}},
		{"folder replaced by a link out", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/deep"), os.Symlink(outside, dir+"/deep"))
		}, []string{"deep", "deep/er", "deep/er/log.txt"}},
		{"link turned elsewhere", func(dir string) error {
			return errors.Join(os.Remove(dir+"/link"), os.Symlink("tides.csv", dir+"/link"))
		}, []string{"link"}},
		{"link replaced by a file", func(dir string) error {
			return errors.Join(os.Remove(dir+"/link"), os.WriteFile(dir+"/link", []byte("one\ntwo\nthree\n"), 0o644))
		}, []string{"link"}},
		{"replaced by a hard link to another", func(dir string) error {
			return errors.Join(os.Remove(dir+"/notes.txt"), os.Link(dir+"/picture.bin", dir+"/notes.txt"))
		}, []string{"notes.txt"}},
		{"replaced by a hard link to one outside", func(dir string) error {
			return errors.Join(os.Remove(dir+"/notes.txt"), os.Link(outside+"/precious", dir+"/notes.txt"))
		}, []string{"notes.txt"}},
		{"folder replaced by a file", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/deep"), os.WriteFile(dir+"/deep", nil, 0o644))
		}, []string{"deep", "deep/er", "deep/er/log.txt"}},
		{"file replaced by a folder", func(dir string) error { return errors.Join(os.Remove(dir+"/-rf"), os.MkdirAll(dir+"/-rf/in", 0o755)) }, []string{"-rf", "-rf/in"}},
		{"odd names", func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/\xfe", nil, 0o644), os.WriteFile(dir+"/a\nb\t\"", nil, 0o644), os.Remove(dir+"/latin\xff1"))
		}, []string{"./\"\\xfe\"", "./\"latin\\xff1\"", "a\nb\t\""}},
		{"names that the removal uses", func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/gone-1/gone-2/gone-3", 0o755), os.WriteFile(dir+"/gone-2", nil, 0o644))
		}, []string{"gone-1", "gone-1/gone-2", "gone-1/gone-2/gone-3", "gone-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, dir := prepared(t)
			_, err := w.keep()
			must(t, err)
			want := contents(t, dir)
			must(t, c.do(dir))
			found, sum, err := w.now()
			must(t, err)
			if got := changed(found, w.kept); !slices.Equal(got, c.restored) || (sum == w.keptSum) != (len(c.restored) == 0) {
				t.Errorf("changed is %q, want %q; the digest says %v", got, c.restored, sum != w.keptSum)
			}
			must(t, w.restore())
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Errorf("not as it was (-want +got):\n%s", diff)
			}
			if _, after, err := w.now(); err != nil || after != w.keptSum {
				t.Errorf("the digest is %s, not %s (%v)", after, w.keptSum, err)
			}
			if b, err := os.ReadFile(outside + "/precious"); err != nil || string(b) != "stays" {
				t.Errorf("the file outside is %q (%v)", b, err)
			}
		})
	}
}

// TestWorkspaceKeepsNoPipes: what has no content to keep is removed, without
// waiting for it.
func TestWorkspaceKeepsNoPipes(t *testing.T) {
	w, dir := prepared(t)
	pipe := filepath.Join(dir, "deep", "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Skipf("no pipe can be made here: %v: %s", err, out)
	}
	removed, err := w.keep()
	if err != nil || !slices.Equal(removed, []string{"deep/pipe"}) {
		t.Fatalf("removed %q, error %v", removed, err)
	}
	if _, err := os.Lstat(pipe); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pipe is there: %v", err)
	}
	must(t, exec.Command("mkfifo", pipe).Run())
	found, _, err := w.now()
	must(t, err)
	if got := changed(w.kept, found); !slices.Equal(got, []string{"deep/pipe"}) {
		t.Errorf("changed is %q", got)
	}
	must(t, w.restore())
	if _, sum, err := w.now(); err != nil || sum != w.keptSum {
		t.Errorf("not put back: %v", err)
	}
}

// TestWorkspaceTooLarge: a workspace that cannot be kept says why, and is put back.
func TestWorkspaceTooLarge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(root *os.Root) error
	}{
		{"files", "more than 1000", func(r *os.Root) (err error) {
			for i := range MaxEntries + 1 {
				err = errors.Join(err, r.WriteFile(fmt.Sprintf("deep/f%d", i), nil, 0o644))
			}
			return err
		}},
		{"bytes claimed", "256 MiB", func(r *os.Root) error {
			f, err := r.Create("huge")
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(1<<40), f.Close())
		}},
		{"nested", "longer than 1024", func(r *os.Root) (err error) {
			// Made from the inside out: no call is given a path that the system refuses.
			for range 600 {
				err = errors.Join(err, r.Mkdir("outer", 0o755))
				if _, missing := r.Lstat("d"); missing == nil {
					err = errors.Join(err, r.Rename("d", "outer/d"))
				}
				err = errors.Join(err, r.Rename("outer", "d"))
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, dir := prepared(t)
			_, err := w.keep()
			must(t, err)
			want := contents(t, dir)
			must(t, c.do(w.Root()))
			var u *unkeepable
			if _, err := w.keep(); !errors.As(err, &u) || !strings.Contains(u.text, c.want) || strings.Contains(u.text, dir) {
				t.Fatalf("error is %v", err)
			}
			must(t, w.restore())
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Errorf("not as it was (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWorkspaceProperty: after any sequence of changes the workspace is put back to
// the byte, and a digest is equal if and only if the content is.
func TestWorkspaceProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := filepath.Join(t.TempDir(), "workspace")
		must(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("one\n"), 0o644))
		w, err := OpenWorkspace(dir)
		must(t, err)
		defer w.Close()
		_, err = w.keep()
		must(t, err)
		for range rapid.IntRange(1, 3).Draw(rt, "turns") {
			want := contents(t, dir)
			for range rapid.IntRange(0, 6).Draw(rt, "changes") {
				mutate(rt, dir)
			}
			_, sum, err := w.now()
			must(t, err)
			got := contents(t, dir)
			if same := cmp.Equal(want, got); same != (sum == w.keptSum) {
				rt.Fatalf("contents equal: %v, digests equal: %v", same, sum == w.keptSum)
			}
			if rapid.Bool().Draw(rt, "keep") {
				_, err := w.keep()
				must(t, err)
				continue
			}
			must(t, w.restore())
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				rt.Fatalf("not as it was (-want +got):\n%s", diff)
			}
		}
	})
}

// mutate does one thing to a workspace; what cannot be done is not.
func mutate(rt *rapid.T, dir string) {
	names := []string{"notes.txt", "tides.csv", "deep", "deep/er", "deep/er/log.txt", "link", "new", "new/er", "empty", "latin\xff1", "gone-1"}
	one := filepath.Join(dir, rapid.SampledFrom(names).Draw(rt, "one"))
	two := filepath.Join(dir, rapid.SampledFrom(names).Draw(rt, "two"))
	switch rapid.IntRange(0, 7).Draw(rt, "what") {
	case 0:
		if info, err := os.Lstat(one); err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) {
			_ = os.WriteFile(one, []byte(rapid.StringN(0, 20, -1).Draw(rt, "content")), 0o644)
		}
	case 1:
		_ = os.RemoveAll(one)
	case 2:
		_ = os.Mkdir(one, 0o755)
	case 3:
		_ = os.Symlink(rapid.SampledFrom([]string{"notes.txt", "..", "/", "deep", "no"}).Draw(rt, "target"), one)
	case 4:
		_ = os.Link(one, two)
	case 5:
		_ = os.Rename(one, two)
	case 6:
		if info, err := os.Lstat(one); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			_ = os.Chmod(one, rapid.SampledFrom([]fs.FileMode{0o700, 0o755, 0o711, 0o777}).Draw(rt, "mode"))
		}
	case 7:
		if info, err := os.Lstat(one); err == nil && info.Mode().IsRegular() {
			_ = os.Truncate(one, 1)
		}
	}
}

// TestWorkspaceChange: the diff is of text files against the start, lines are
// counted before the cut, and those that were written and changed again.
func TestWorkspaceChange(t *testing.T) {
	secret := "sk-" + strings.Repeat("a1B2", 10)
	for _, c := range []struct {
		name  string
		turns []func(r *os.Root) error
		want  trajectory.WorkspaceChange // but for the digest
		has   []string
	}{
		{"nothing", nil, trajectory.WorkspaceChange{Files: []string{}}, nil},
		{"text", []func(r *os.Root) error{
			func(r *os.Root) error { return r.WriteFile("notes.txt", []byte("one\n2\nthree\nfour\n"), 0o644) },
		}, trajectory.WorkspaceChange{Added: 2, Removed: 1, Files: []string{"notes.txt"}}, []string{"--- a/notes.txt\n+++ b/notes.txt\n", "\n-two\n+2\n three\n+four\n"}},
		{"made and removed", []func(r *os.Root) error{
			func(r *os.Root) error {
				return errors.Join(r.WriteFile("new.py", []byte("a\nb"), 0o644), r.Remove("tides.csv"))
			},
		}, trajectory.WorkspaceChange{Added: 2, Removed: 2, Files: []string{"new.py", "tides.csv"}}, []string{"--- /dev/null\n+++ b/new.py\n", "--- a/tides.csv\n+++ /dev/null\n"}},
		{"reworked", []func(r *os.Root) error{
			func(r *os.Root) error { return r.WriteFile("new.py", []byte("a\nb\nb\nc\n"), 0o644) },
			func(r *os.Root) error { return r.WriteFile("new.py", []byte("c\nb\nd\n"), 0o644) },     // a and one b
			func(r *os.Root) error { return r.WriteFile("notes.txt", []byte("one\n"), 0o644) },      // was there at the start
			func(r *os.Root) error { return r.WriteFile("notes.txt", []byte("one\ntwo\n"), 0o644) }, // again
			func(r *os.Root) error { return r.Remove("new.py") },                                    // c, b, d
		}, trajectory.WorkspaceChange{Removed: 1, Reworked: 5, Files: []string{"notes.txt"}}, nil},
		{"binary, links and modes", []func(r *os.Root) error{func(r *os.Root) error {
			return errors.Join(r.WriteFile("picture.bin", []byte("\x00"), 0o600), r.Remove("link"), r.Symlink("x", "link"), r.Chmod("-rf", 0o700), r.Mkdir("folder", 0o755))
		}}, trajectory.WorkspaceChange{Files: []string{"-rf", "link", "picture.bin"}}, []string{"Binary files a/picture.bin and b/picture.bin differ\n"}},
		{"secret and odd name", []func(r *os.Root) error{
			func(r *os.Root) error { return r.WriteFile("new\nline", []byte(secret+"\n"), 0o644) },
		}, trajectory.WorkspaceChange{Added: 1, Redactions: 1, Files: []string{"new\nline"}}, []string{`+++ "b/new\nline"`, "+[redacted]\n"}},
		{"long", []func(r *os.Root) error{
			func(r *os.Root) error { return r.WriteFile("long", []byte(strings.Repeat("a line\n", 20_000)), 0o644) },
		}, trajectory.WorkspaceChange{Added: 20_000, Truncated: true, Files: []string{"long"}}, []string{"+a line\n"}},
		{"too long to compare", []func(r *os.Root) error{
			func(r *os.Root) error { return r.WriteFile("long", []byte(strings.Repeat("a line\n", 200_000)), 0o644) },
		}, trajectory.WorkspaceChange{Files: []string{"long"}}, []string{"Binary files /dev/null and b/long differ\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := prepared(t)
			_, err := w.keep()
			must(t, err)
			for _, turn := range c.turns {
				must(t, turn(w.Root()))
				_, err := w.keep()
				must(t, err)
			}
			got, err := w.Change(&trajectory.Attempt{})
			must(t, err)
			text := got.Diff
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("the diff has no %q:\n%.500s", part, text)
				}
			}
			if len(text) > maxDiff || text != "" && !strings.HasSuffix(text, "\n") || strings.Contains(text, secret) || (text == "") != (c.has == nil && c.name != "reworked") {
				t.Errorf("the diff has %d bytes: %.500s", len(text), text)
			}
			c.want.TreeSHA256, c.want.Diff = w.keptSum, text
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			hashed, err := w.Change(&trajectory.Attempt{Hashes: true})
			must(t, err)
			if hashed.Diff != "" || hashed.Truncated != (text != "") || hashed.Added != got.Added || slices.Contains(hashed.Files, "new.py") {
				t.Errorf("with hashes only: %+v", hashed)
			}
		})
	}
}

// TestWorkspaceUnkept: where nothing was allowed to write, the end is the start, and
// no copy is made of it.
func TestWorkspaceUnkept(t *testing.T) {
	w, dir := prepared(t)
	_, sum, err := w.now()
	must(t, err)
	got, err := w.Change(&trajectory.Attempt{})
	must(t, err)
	if diff := cmp.Diff(&trajectory.WorkspaceChange{Files: []string{}, TreeSHA256: sum}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Lstat(dir + KeptSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a copy: %v", err)
	}
}

// TestWorkspaceStore: what is kept lies beside the workspace, each content once, and
// is no more than the start and the last copy need.
func TestWorkspaceStore(t *testing.T) {
	w, dir := prepared(t)
	for i := range 3 {
		_, err := w.keep()
		must(t, err)
		must(t, w.Root().WriteFile("new", []byte{byte('a' + i)}, 0o644))
		must(t, w.Root().WriteFile("same", []byte{byte('a' + i)}, 0o644))
	}
	_, err := w.keep()
	must(t, err)
	files, err := os.ReadDir(dir + KeptSuffix)
	must(t, err)
	if len(files) != 7+1 {
		t.Errorf("%d files are kept: %v", len(files), files)
	}
	must(t, w.Close())
	if _, err := os.Lstat(dir + KeptSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy is left: %v", err)
	}
}

// TestTreeDigest holds the digest against the form that docs/formats.md gives.
func TestTreeDigest(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(dir+"/a", 0o700))
	must(t, os.WriteFile(dir+"/a/f", []byte("x"), 0o600))
	must(t, os.Chmod(dir+"/a/f", 0o751|fs.ModeSticky|fs.ModeSetgid))
	must(t, os.Symlink("a/f", dir+"/l"))
	must(t, os.Symlink("\xff", dir+"/\xfe"))
	must(t, os.WriteFile(dir+"/none", nil, 0o600))
	must(t, os.Chmod(dir+"/none", 0))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	found, err := look(&Folder{Root: root}, nil)
	must(t, err)
	got, err := found.digest()
	must(t, err)
	want := `[{"kind":"dir","mode":493,"path":"."},` +
		`{"kind":"link","path":"./\"\\xfe\"","sha256":"` + canonical.Digest([]byte("\xff")) + `"},` +
		`{"kind":"dir","mode":448,"path":"a"},` +
		`{"kind":"file","mode":2025,"path":"a/f","sha256":"` + canonical.Digest([]byte("x")) + `"},` +
		`{"kind":"link","path":"l","target":"a/f"},` +
		`{"kind":"file","path":"none","sha256":"` + canonical.Digest(nil) + `"}]`
	if got != canonical.Digest([]byte(want)) {
		b, err := canonical.Encode([]entry(found))
		t.Errorf("the digest is of %s (%v)\nwant %s", b, err, want)
	}
}

// TestChangeHoldsNoCredential plants credentials in a file that an attempt makes and in
// lines that it adds to one that was there.
func TestChangeHoldsNoCredential(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("..", "internal", "secret", "testdata", "credentials.txt"))
	must(t, err)
	type planted struct{ kind, text, secret string }
	var all []planted
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // a comment
		}
		text := strings.NewReplacer("·", "", `\n`, "\n").Replace(fields[2])
		_, rest, _ := strings.Cut(text, "«")
		secret, _, _ := strings.Cut(rest, "»")
		all = append(all, planted{fields[1], strings.NewReplacer("«", "", "»", "").Replace(text) + "\n", secret})
	}
	if len(all) < 100 {
		t.Errorf("%d credentials", len(all))
	}
	for some := range slices.Chunk(all, long.Step(20)) {
		w, _ := prepared(t)
		_, err := w.keep()
		must(t, err)
		for i, p := range some {
			must(t, w.Root().WriteFile(fmt.Sprintf("new%d.txt", i), []byte(p.text), 0o644))
		}
		must(t, w.Root().WriteFile("notes.txt", []byte("one\n"+some[0].text+"two\n"), 0o644))
		got, err := w.Change(&trajectory.Attempt{Redact: trajectory.NewRedactor(nil)})
		must(t, err)
		if got.Truncated || got.Redactions < len(some)+1 {
			t.Errorf("%d redactions of %d credentials, truncated %v", got.Redactions, len(some), got.Truncated)
		}
		for _, p := range some {
			for part := range strings.Lines(p.secret) {
				if part = strings.TrimSpace(part); strings.Contains(got.Diff, part) {
					t.Errorf("%s in %s", p.kind, got.Diff)
				}
			}
		}
	}
}

// TestUnmadeWorkspace: the folder of a workspace without files is made when a call may change it, and what is read and recorded
// before is the same as of an empty folder.
func TestUnmadeWorkspace(t *testing.T) {
	dir, like := t.TempDir(), &Untouched{}
	opens := probe("open", func(probeArgs) (Output, error) { return Output{}, nil })
	opens.(*tool).run = func(_ context.Context, env *Env, args []byte) (Output, error) {
		_, err := env.ReadFile(gjson.GetBytes(args, "text").Str)
		return Failed("%v", err), nil
	}
	run := func(name string, w *Workspace, calls ...string) (texts []string, change string) {
		t.Helper()
		s := newSession(t, &gateSink{}, nil, NewListFiles(), opens, writer("save", saves))
		s.workspace = w
		for i, c := range calls {
			tool, args, _ := strings.Cut(c, " ")
			results, err := s.Run(t.Context(), i+1, []Call{{c, tool, args}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			texts = append(texts, results[0].Text)
		}
		found, err := w.Change(s.rec)
		must(t, err)
		must(t, w.Close())
		return texts, fmt.Sprintf("%+v", *found)
	}
	reads := []string{"list_files {}", `open {"text":"a.txt"}`, `open {"text":"."}`}
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, MakeFolder(path("eager")))
	eager, err := OpenWorkspace(path("eager"))
	must(t, err)
	texts, change := run("eager", eager, reads...)
	for _, name := range []string{"first", "second"} {
		got, changed := run(name, NewWorkspace(path(name), like), reads...)
		if !slices.Equal(got, texts) || changed != change {
			t.Errorf("%s: %q and %s, of an empty folder %q and %s", name, got, changed, texts, change)
		}
	}
	if _, err := os.Lstat(path("second")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the second workspace: %v", err)
	}
	must(t, os.MkdirAll(path("third/left"), 0o700)) // of an attempt that never began
	if _, changed := run("third", NewWorkspace(path("third"), like), "list_files {}", `save {"text":"x"}`); !strings.Contains(changed, "Files:[out]") {
		t.Errorf("a call that writes: %s", changed)
	}
	if names := slices.Sorted(maps.Keys(contents(t, path("third")))); !slices.Equal(names, []string{"", "/out"}) {
		t.Errorf("in the folder of the third workspace: %q", names)
	}
}
