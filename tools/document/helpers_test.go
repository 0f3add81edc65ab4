package document

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/gaia-harness/gaia/tools/internal/tooltest"
	"github.com/gaia-harness/gaia/tools/sandbox"
)

var (
	must      = tooltest.Must
	mustHold  = tooltest.Holds
	use       = tooltest.Use
	callTool  = tooltest.Call
	workspace = tooltest.Workspace
)

type object = tooltest.Object

// sandboxOf makes a sandbox, or skips where this machine has none.
func sandboxOf(t testing.TB, hidden ...string) *sandbox.Sandbox {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("there is no bubblewrap on this machine, so nothing is run in it")
	}
	s, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: bwrap, Hidden: hidden})
	var u *sandbox.Unusable
	if errors.As(err, &u) {
		t.Skipf("there is no sandbox on this machine: %v; %s", u, u.Remedy)
	}
	must(t, err)
	return s
}
