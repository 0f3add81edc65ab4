package run

import (
	"os"
	"testing"

	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestMain has the test binary serve as the shim of own agents.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == shim.Command {
		os.Exit(shim.Main(os.Args[2:], os.Environ()))
	}
	os.Exit(long.Main(m))
}
