package judgecache_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

	fileOf := func(n int) string { return filepath.Base(path(t, "", question(n))) }
	bad := func(reason, file string) judgecache.Entry { return judgecache.Entry{Name: file, Reason: reason} }
	want := []judgecache.Entry{
		{Name: name}, {Name: fileOf(2)}, {Name: filepath.Base(batteryPath(t, "", battery()))},
		bad(Untrusted, fileOf(3)), bad(malformed, "."+name), bad(notRegular, "link.json"), bad(notRegular, "d.json"),
		{Name: "old.json", Legacy: true}, {Name: "." + name + "815", Leftover: true},
	}
	slices.SortFunc(want, func(a, b judgecache.Entry) int { return strings.Compare(a.Name, b.Name) })
	r, err := judgecache.Look(dir, []sign.PublicKey{own.Public(), other.Public()})
	must(t, err)
	got := entries(t, r)
	if !slices.Equal(got, want) {
		t.Errorf("Each gives\n%+v\nwant\n%+v", got, want)
	}
}
