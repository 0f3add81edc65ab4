//go:build linux

package sandbox

import (
	"os/exec"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools/internal/tooltest"
)

// What holds for root has to hold for an unprivileged user, and the other way
// round.
func TestSandboxUnprivileged(t *testing.T) {
	long.NotRaced(t) // nor are the tests that it runs
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("the system has no python3 that everybody can read")
	}
	sandbox(t)
	tooltest.AsOrdinaryUser(t, "TestAgent(Deadline|Sees|OfKilledParent|NotConfined|Tries)?$|TestAgentLimits/(fork|memory|deleted|files)|TestSandbox(Layout|Hides|Ends)|TestPythonEscapes/(files_outside|roots|environment|processes|network|abstract|writing|privileges|fork|thread|nameless|hidden_files|closed|left|no_workspace)")
}
