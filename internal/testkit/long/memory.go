package long

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Main runs the tests of a package whose time goes into waiting for the disk, and
// returns their exit code. Temporary folders are in memory, where a sync costs
// nothing; in the thorough run, and where there is no such place, they are on disk.
// The python3 of the tests is the one of the system, where there is one.
func Main(m *testing.M) int {
	Prepare()
	return m.Run()
}

// Prepare does for this process what Main does before it runs the tests.
func Prepare() {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.bench=") }) {
		debug.SetGCPercent(400) // a quarter of the time of cmd/gaia's tests went into collecting garbage
	}
	plainPython()
	const dir = "/dev/shm"
	if !Thorough() && os.Getenv("TMPDIR") == "" && usable(dir) {
		_ = os.Setenv("TMPDIR", dir) // which fails for no name without "=" or NUL
	}
}
