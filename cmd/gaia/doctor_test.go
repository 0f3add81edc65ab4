package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/tools"
)

// TestDoctorMissing: what is not there is optional, also where something else goes
// without it.
func TestDoctorMissing(t *testing.T) {
	w := &world{noSandbox: &tools.Unusable{Why: "bubblewrap is not installed", Remedy: "install it"}}
	if f := (&app{getenv: os.Getenv}).pythonFinding(t.Context(), w); f.State != stateMissing {
		t.Errorf("python without a sandbox: %+v", f)
	}
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := command(t, "doctor", "--json")
	if code != exitOK || stderr != "" || !strings.HasSuffix(stdout, `,"state":"missing"}`+"\n") || strings.Contains(stdout, stateFailed) {
		t.Errorf("with nothing on PATH: exit code %d\n%s%s", code, stdout, stderr)
	}
}
