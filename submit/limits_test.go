package submit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestLimitsOfFiles enlarges each file of a package beyond its limit, without taking
// room on the disk. Its size alone refuses it: what it holds would take minutes to read.
func TestLimitsOfFiles(t *testing.T) {
	folder := mustBuild(t, config(t, two)).Path
	files := load(t, folder)
	for name, data := range files {
		path := filepath.Join(folder, name)
		large := max(limitOf(name)+1, 1<<20)
		if limitOf(name) == rundir.MaxFile {
			large = 60 << 30
		}
		if err := os.Truncate(path, large); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
		_, err := Verify(os.DirFS(folder), Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != name || !strings.HasPrefix(fault.Reason, "is larger than ") {
			t.Errorf("%s of %d bytes: %v", name, large, err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Verify(os.DirFS(folder), Options{}); err != nil {
		t.Error(err)
	}
	if audit.MaxRejudgments > rundir.MaxFile || limitOf("anything else") > rundir.MaxFile {
		t.Error("a file of a package can be larger than any file")
	}
}
