package judgecache_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

// TestEach has every sort of file, and wants of each what is known of it.
func TestEach(t *testing.T) {
	dir := warm(t)
	own, other, foreign := newKey(t, 1), newKey(t, 2), newKey(t, 3)
	put(t, open(t, dir, other), question(2), false)
	put(t, open(t, dir, foreign), question(3), true)
	name := filepath.Base(path(t, "", question(1)))
	write := func(name, content string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("old.json", `{"key":"0af3","verdict":"correct"}`)
	write("."+name+"815", "half")
	write("."+name, "not a leftover, but a bad entry")
	write("."+name+"815x", "")
	write("."+name[1:]+"815", "")
	write("README", "")
	must(t, os.Symlink(dir, filepath.Join(dir, "link.json")))
	must(t, os.Mkdir(filepath.Join(dir, "d.json"), 0o700))

	created := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	good := func(key sign.Key, kind, verdict, file string) judgecache.Entry {
		info, err := os.Lstat(filepath.Join(dir, file))
		must(t, err)
		return judgecache.Entry{Name: file, Bytes: info.Size(), Kind: kind, Verdict: verdict, Model: "umpire-1", Key: key.Public().ID(), Created: created}
	}
	bad := func(reason, file string, size int64) judgecache.Entry {
		return judgecache.Entry{Name: file, Bytes: size, Reason: reason}
	}
	fileOf := func(n int) string { return filepath.Base(path(t, "", question(n))) }
	stranger := good(foreign, "", "", fileOf(3))
	want := []judgecache.Entry{
		good(own, judgecache.Judgment, "correct", name),
		good(other, judgecache.Judgment, "incorrect", fileOf(2)),
		good(own, judgecache.NullBattery, "withstood", filepath.Base(batteryPath(t, "", battery()))),
		bad(Untrusted, stranger.Name, stranger.Bytes),
		bad(malformed, "."+name, 31), bad(notRegular, "link.json", 0), bad(notRegular, "d.json", 0),
		{Name: "old.json", Bytes: 34, Legacy: true}, {Name: "." + name + "815", Bytes: 4, Leftover: true},
	}
	slices.SortFunc(want, func(a, b judgecache.Entry) int { return strings.Compare(a.Name, b.Name) })
	r, err := judgecache.Look(dir, []sign.PublicKey{own.Public(), other.Public()})
	must(t, err)
	got := entries(t, r)
	for i, e := range got {
		if e.Modified.IsZero() || e.Good() != (e.Reason == "" && !e.Legacy && !e.Leftover) {
			t.Errorf("%+v", e)
		}
		got[i].Modified = time.Time{}
	}
	if !slices.Equal(got, want) {
		t.Errorf("Each gives\n%+v\nwant\n%+v", got, want)
	}
}

// TestRemove: nothing goes but what is named, and only what a cache has or what
// stands in its place.
func TestRemove(t *testing.T) {
	dir := warm(t)
	name := filepath.Base(path(t, "", question(1)))
	outside := filepath.Join(t.TempDir(), "outside.json")
	full := filepath.Join(dir, "full.json")
	for _, file := range []string{outside, filepath.Join(dir, "README"), filepath.Join(dir, "."+name+"1"), filepath.Join(dir, "."+name+"x")} {
		must(t, os.WriteFile(file, nil, 0o600))
	}
	for _, d := range []string{full, filepath.Join(full, "x.json"), filepath.Join(dir, "empty.json")} {
		must(t, os.Mkdir(d, 0o700))
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "link.json")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "dirlink.json")))
	r, err := judgecache.Look(dir, nil)
	must(t, err)
	for _, c := range []struct{ name, want string }{
		{name, ""}, {"." + name + "1", ""}, {"empty.json", ""}, {"link.json", ""}, {"dirlink.json", ""}, {"gone.json", ""},
		{"README", `"README" is no entry`}, {"." + name + "x", "is no entry"}, {"", `"" is no entry`}, {".", `"." is no entry`},
		{"../outside.json", `"../outside.json" is no entry`}, {outside, `is no entry`}, {"full.json/x.json", `"full.json/x.json" is no entry`},
		{"full.json", "directory not empty"},
	} {
		err := r.Remove(c.name)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("Remove(%q): %v", c.name, err)
		}
		_, err = os.Lstat(filepath.Join(dir, c.name))
		if c.want == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is still there: %v", c.name, err)
		}
	}
	for _, kept := range []string{outside, filepath.Join(dir, "README"), filepath.Join(dir, "."+name+"x"), filepath.Join(full, "x.json"), batteryPath(t, dir, battery())} {
		if _, err := os.Lstat(kept); err != nil {
			t.Error(err)
		}
	}
}
