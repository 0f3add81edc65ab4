package prune

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/history"
)

func TestChoose(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	var created []time.Time
	for _, days := range []int{1, 40, 3, 10, 40} {
		created = append(created, now.AddDate(0, 0, -days))
	}
	for name, tt := range map[string]struct {
		rule Rule
		want []bool
	}{
		"all":                 {Rule{Keep: 0}, []bool{true, true, true, true, true}},
		"older":               {Rule{Age: 5 * 24 * time.Hour, Keep: -1}, []bool{false, true, false, true, true}},
		"not older than that": {Rule{Age: 40 * 24 * time.Hour, Keep: -1}, []bool{false, false, false, false, false}},
		"but the newest":      {Rule{Keep: 2}, []bool{false, true, false, true, true}},
		"both":                {Rule{Age: 20 * 24 * time.Hour, Keep: 4}, []bool{false, false, false, false, true}},
		"more than there are": {Rule{Keep: 9}, []bool{false, false, false, false, false}},
	} {
		if got := tt.rule.Choose(created, now); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestRemove: links are removed and not followed, what stands in the place of what was
// looked at stays, and so does all else.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("twelve bytes"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lstat := func(path string) os.FileInfo {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	outside, run := filepath.Join(dir, "outside", "file"), filepath.Join(dir, "runs", "run")
	write(outside)
	write(filepath.Join(run, "work", "file"))
	write(filepath.Join(dir, "runs", "other", "file"))
	for _, to := range []string{outside, filepath.Dir(outside)} {
		if err := os.Symlink(to, filepath.Join(run, "work", "to-"+filepath.Base(to))); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := sizeOf(run); n != 12 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	was := lstat(run)
	if err := os.Rename(run, run+"-moved"); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(run, "another"))
	if err := removeAt(run, was); err == nil {
		t.Error("another folder of the name is removed")
	}
	lstat(filepath.Join(run, "another"))
	// What a crash left of an earlier removal of the same name is in no one's way.
	left := filepath.Join(dir, "runs", history.RemovalPrefix+"run-moved")
	write(filepath.Join(left, "file"))
	if found, err := unfinished(filepath.Dir(run)); err != nil || !slices.Equal(found, []string{left}) {
		t.Errorf("left: %q, %v", found, err)
	}
	if err := removeAt(run+"-moved", was); err != nil {
		t.Error(err)
	}
	write(filepath.Join(left, "file"))
	if err := finish(left); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(run))
	if err != nil || len(entries) != 2 || entries[0].Name() != "other" || entries[1].Name() != "run" {
		t.Errorf("there are %v, %v", entries, err)
	}
	lstat(outside)
}

// TestParseAge: an age is a duration above zero, or a whole number of days up to a century.
func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"720h": 720 * time.Hour, "30d": 30 * 24 * time.Hour, "36500d": 36500 * 24 * time.Hour,
		"0d": 0, "0h": 0, "-1h": 0, "36501d": 0, "1.5d": 0, "d": 0, "": 0, "30": 0,
	} {
		if got, err := ParseAge(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestResult: the list and the line below it say what goes, in words for the kind.
func TestResult(t *testing.T) {
	r := Result{Bytes: 1234, Kept: 2, Kind: "runs", Left: []Left{{}}, Removed: []*Item{{Bytes: 1234, Created: "2031-02-03T04:05:06.000Z", Path: "runs/a b", Unfinished: true}}}
	if got := strings.Join(strings.Fields(r.Table()), " "); !strings.HasSuffix(got, "'runs/a b' 2031-02-03 1.2 KB unfinished") {
		t.Errorf("table %q", got)
	}
	if got := r.Size() + "; " + r.Summary(); got != "1 run of 1.2 KB; removed 1 run, 1.2 KB; 2 kept, 1 left\n" {
		t.Errorf("%q", got)
	}
	r = Result{DryRun: true, Kind: "bodies"}
	if got := r.Table() + r.Summary(); got != "would remove 0 folders of bodies, 0 bytes; 0 kept, 0 left\n" {
		t.Errorf("%q", got)
	}
}
