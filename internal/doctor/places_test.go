package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestRoom: too little room is reported before a run fills it.
func TestRoom(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dir                   string
		free                  int64
		err                   error
		state, detail, remedy string
	}{
		{home, 20 << 30, nil, OK, "20 GiB free at " + home, ""},
		{filepath.Join(home, "not", "yet"), littleRoom, nil, OK, "1024 MiB free at " + home, ""},
		{home, littleRoom - 1, nil, Missing, "1023 MiB free", "make room, or go elsewhere"},
		{home, noRoom - 1, nil, Failed, "63 MiB free", "make room, or go elsewhere"},
		{home, 0, errors.ErrUnsupported, Unknown, "cannot be determined", ""},
		{file, 20 << 30, nil, Failed, "is not a directory", "go elsewhere"},
		{filepath.Join(file, "runs"), 20 << 30, nil, Failed, "not a directory", "go elsewhere"},
	} {
		f := Room("room", "runs", test.dir, "go elsewhere", func(dir string) (int64, error) { return test.free, test.err })
		if f.State != test.state || !strings.Contains(f.Detail, test.detail) || !strings.Contains(f.Remedy, test.remedy) {
			t.Errorf("%+v\nwant %s, %q, %q", f, test.state, test.detail, test.remedy)
		}
	}
	if n, err := FreeBytes(home); err != nil || n <= 0 {
		t.Errorf("%d bytes are free: %v", n, err)
	}
	if _, err := FreeBytes(filepath.Join(home, "none")); err == nil {
		t.Error("there is room in what is not there")
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Errorf("a check created something: %v, %v", entries, err)
	}
}

// TestBuild: a build of a released version or of a clean commit is good.
func TestBuild(t *testing.T) {
	for _, c := range []struct {
		h             trajectory.Harness
		state, detail string
	}{
		{trajectory.Harness{Version: "v0.9.9"}, OK, "gaia v0.9.9"},
		{trajectory.Harness{Version: "v0.9.9", Commit: "0a1b"}, OK, "gaia v0.9.9 of commit 0a1b"},
		{trajectory.Harness{Version: "v0.9.9+dirty", Commit: "0a1b", Dirty: true}, Missing, "gaia v0.9.9+dirty of commit 0a1b with changes that are not in it"},
		{trajectory.Harness{Version: trajectory.Devel}, Missing, "gaia devel of an unknown commit"},
	} {
		if f := Build(c.h, nil); f.State != c.state || f.Detail != c.detail {
			t.Errorf("%+v of %+v, want %s, %q", f, c.h, c.state, c.detail)
		}
	}
}

// TestReport: a report has the worst state of its findings, and names those that failed.
func TestReport(t *testing.T) {
	good, lacks, unseen := good("a", "", ""), lacks("b", "", "", "x"), unseen("c", "", "")
	fails := Fails("d", "", errors.New("broken"), "fix it")
	for _, c := range []struct {
		found []Finding
		state string
	}{{nil, OK}, {[]Finding{good}, OK}, {[]Finding{lacks, good}, Missing}, {[]Finding{unseen, lacks}, Unknown}, {[]Finding{fails, good}, Failed}} {
		if r := NewReport(c.found, false); r.State != c.state || (c.state == Failed) != (len(r.Failures()) == 1) {
			t.Errorf("%+v, want %s", r, c.state)
		}
	}
	if fails.Remedy != "fix it" || fails.Detail != "broken" {
		t.Errorf("%+v", fails)
	}
}
