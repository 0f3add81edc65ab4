package judgecache_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/judgecache"
)

// warm returns a cache directory with a judgment and a battery that are good.
func warm(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "judgments")
	c := open(t, dir, newKey(t, 1))
	put(t, c, question(1), true)
	putBattery(t, c, battery(), true)
	return dir
}

// TestBadDirectory: where others could have written, or where the user's own
// directory is not, nothing is read and nothing is written, and no run is
// stopped.
func TestBadDirectory(t *testing.T) {
	mode := func(mode fs.FileMode) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			must(t, os.Chmod(dir, mode))
			return dir
		}
	}
	link := func(after string) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			link := dir + "-link"
			must(t, os.Symlink(dir, link))
			return link + after
		}
	}
	instead := func(make func(path string) error) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			must(t, os.Rename(dir, dir+"-aside"))
			must(t, make(dir))
			return dir
		}
	}
	for _, c := range []struct {
		name string
		make func(*testing.T, string) string
		want string
	}{
		{"symlink", link(""), judgecache.Linked},
		{"symlink with a slash", link("/"), judgecache.Linked},
		{"symlink to nothing", func(t *testing.T, dir string) string {
			must(t, os.Rename(dir, dir+"-aside"))
			must(t, os.Symlink(dir+"-nowhere", dir))
			return dir
		}, judgecache.Linked},
		{"symlink to a file", func(t *testing.T, dir string) string {
			must(t, os.WriteFile(dir+"-file", nil, 0o600))
			must(t, os.Symlink(dir+"-file", dir+"-link"))
			return dir + "-link"
		}, judgecache.Linked},
		{"world-writable", mode(0o777), judgecache.Writable},
		{"world-writable only", mode(0o702), judgecache.Writable},
		{"group-writable", mode(0o770), judgecache.Writable},
		{"sticky", mode(0o777 | fs.ModeSticky), judgecache.Writable},
		{"file", instead(func(path string) error { return os.WriteFile(path, nil, 0o600) }), judgecache.NotDirectory},
		{"pipe", instead(func(path string) error { return syscall.Mkfifo(path, 0o600) }), judgecache.NotDirectory},
		{"socket", instead(func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}), judgecache.NotDirectory},
		{"of another user", func(t *testing.T, dir string) string {
			if err := os.Chown(dir, 12345, -1); err != nil {
				t.Skipf("this user cannot give a directory away: %v", err)
			}
			return dir
		}, judgecache.NotOwned},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.make(t, warm(t))
			before := tree(t, filepath.Dir(dir))
			want := judgecache.Bad{Name: judgecache.Place, Reason: c.want}
			cache := open(t, dir, newKey(t, 1))
			_, found, bad, err := cache.Get(question(1))
			if found || bad == nil || *bad != want || err != nil {
				t.Errorf("Get: found %v, bad %v, %v", found, bad, err)
			}
			_, found, bad, err = cache.Get(battery())
			if found || bad != nil || err != nil {
				t.Errorf("BatteryContext: found %v, bad %v again, %v", found, bad, err)
			}
			swept := open(t, dir, newKey(t, 1))
			if s := sweep(t, swept); s.Checked != 1 || !slices.Equal(s.Bad, []judgecache.Bad{want}) {
				t.Errorf("Sweep = %+v", s)
			}
			if _, found, bad, err := swept.Get(battery()); found || bad != nil || err != nil {
				t.Errorf("BatteryContext after Sweep: found %v, bad %v, %v", found, bad, err)
			}
			put(t, cache, question(2), true)
			putBattery(t, cache, battery(), false)
			wantShut(t, dir, c.want)
			if after := tree(t, filepath.Dir(dir)); !slices.Equal(after, before) {
				t.Errorf("it changed\n%q\nto\n%q", before, after)
			}
		})
	}
}

// wantShut wants that who looks at a directory sees why nothing in it counts.
func wantShut(t *testing.T, dir, want string) {
	t.Helper()
	r, err := judgecache.Look(dir, nil)
	must(t, err)
	if got := entries(t, r); r.Shut() != want || !slices.Equal(got, []judgecache.Entry{{Name: judgecache.Place, Reason: want}}) {
		t.Errorf("Look: %q, %v", r.Shut(), got)
	}
}

// TestRepaired: once no one else can write to it, what is signed counts again.
func TestRepaired(t *testing.T) {
	dir := warm(t)
	must(t, os.Chmod(dir, 0o777))
	open(t, dir, newKey(t, 1))
	must(t, os.Chmod(dir, 0o700))
	if correct, found, bad, err := open(t, dir, newKey(t, 1)).Get(question(1)); !correct || !found || bad != nil || err != nil {
		t.Errorf("Get = %v, %v, %v, %v", correct, found, bad, err)
	}
}

// TestPrivate: Open closes a directory that others can read, Look leaves it.
func TestPrivate(t *testing.T) {
	dir := warm(t)
	for _, mode := range []fs.FileMode{0o755, 0o750, 0o701, 0o740, 0o500, 0o600} {
		must(t, os.Chmod(dir, mode))
		if _, err := judgecache.Look(dir, nil); err != nil {
			t.Errorf("%o: %v", mode, err)
		}
		if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%o: Look made it %o, %v", mode, info.Mode().Perm(), err)
		}
		c := open(t, dir, newKey(t, 1))
		if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%o: Open made it %o, %v", mode, info.Mode().Perm(), err)
		}
		if _, found, bad, err := c.Get(question(1)); !found || bad != nil || err != nil {
			t.Errorf("%o: Get: found %v, bad %v, %v", mode, found, bad, err)
		}
	}
}

func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if cache, err := judgecache.Open("", newKey(t, 1), nil, clock); cache != nil || err == nil || err.Error() != "the judge cache has no directory" {
		t.Errorf("Open without a directory: %v", err)
	}
	for _, dir := range []string{filepath.Join(file, "below"), filepath.Join(file, "far", "below"), file + strings.Repeat("x", 300)} {
		wantUnused(t, dir, judgecache.NotMade)
		wantShut(t, dir, judgecache.NotRead)
	}
	if _, err := judgecache.Look(file+"-nowhere", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Look where nothing is: %v", err)
	}
	if _, err := os.Lstat(file + "-nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Look made a directory")
	}
}

// TestNotPrivate has a directory of this process that is readable to all and that
// no one can close.
func TestNotPrivate(t *testing.T) {
	dir := fmt.Sprintf("/proc/%d/task", os.Getpid())
	if _, err := os.Lstat(dir); err != nil {
		t.Skipf("there is no directory here that cannot be changed: %v", err)
	}
	wantUnused(t, dir, judgecache.NotPrivate)
}

// wantUnused wants that a run goes on without the cache in a directory.
func wantUnused(t *testing.T, dir, reason string) {
	t.Helper()
	c := open(t, dir, newKey(t, 1))
	want := judgecache.Bad{Name: judgecache.Place, Reason: reason}
	if _, found, bad, err := c.Get(question(1)); found || bad == nil || *bad != want || err != nil {
		t.Errorf("%q: Get: found %v, bad %v, %v", dir, found, bad, err)
	}
	put(t, c, question(1), true)
	putBattery(t, c, battery(), true)
	if s := sweep(t, c); s.Checked != 1 || !slices.Equal(s.Bad, []judgecache.Bad{want}) {
		t.Errorf("%q: Sweep = %+v", dir, s)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists what lies below a directory, with modes and contents.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		line := path + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			must(t, err)
			line += " " + string(data)
		}
		all = append(all, line)
		return err
	}))
	return all
}

func entries(t testing.TB, r *judgecache.Reader) []judgecache.Entry {
	t.Helper()
	var all []judgecache.Entry
	r.Each(func(e judgecache.Entry) { all = append(all, e) })
	return all
}
