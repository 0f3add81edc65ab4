//go:build linux

package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// Nobody is not root, and root is not everybody: what holds for the one has to
// hold for the other.
func TestSandboxAsNobody(t *testing.T) {
	long.NotRaced(t) // nor are the tests that it runs
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("the system has no python3 that everybody can read")
	}
	sandbox(t)
	asNobody(t, "TestSandbox(Layout|Hides|Ends)|TestPythonEscapes/(files_outside|roots|environment|processes|network|abstract|writing|privileges|fork|thread|nameless|hidden_files|closed|left|no_workspace)")
}

// To root no folder is closed.
func TestWorkspaceAsNobody(t *testing.T) {
	asNobody(t, "TestWalk|TestWorkspace(Restores|KeepsNoPipes)")
}

// asNobody runs tests once more, as the user nobody.
func asNobody(t *testing.T, pattern string) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("it runs what other tests run, once more")
	}
	self, err := os.Executable()
	must(t, err)
	dir, err := os.MkdirTemp("/tmp", "gaia-nobody-")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chown(dir, 65534, 65534))
	program, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "tests"), program, 0o755))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tests"), "-test.v", "-test.run", pattern)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
