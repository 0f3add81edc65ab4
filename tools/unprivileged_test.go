package tools_test

import (
	"testing"

	"github.com/gaia-harness/gaia/tools/internal/tooltest"
)

// To root no folder is closed.
func TestWorkspaceUnprivileged(t *testing.T) {
	tooltest.AsOrdinaryUser(t, "TestWalk|TestWorkspace(Restores|KeepsNoPipes)")
}
