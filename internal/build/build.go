// Package build describes the running program: its version, the commit that it was built from, and the digest of its
// executable.
//
// A plan names the program by these, so that a verifier can compare them with a build of their own. [Harness] reads the
// executable once, since it has many megabytes; [Describe] and [Open] do without its digest.
package build

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// version is the program's own; the build adds the commit.
const version = "0.2.0"

// Harness describes this program: its version, its commit and the digest of its
// executable, which is read once.
var Harness = sync.OnceValues(func() (trajectory.Harness, error) {
	h, f, err := Open()
	if err != nil {
		return h, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return h, fmt.Errorf("reading the program's own file: %w", err)
	}
	h.ExecutableSHA256 = canonical.DigestOf(sum)
	return h, nil
})

// Describe says which program this is by what was built into it, without the digest.
func Describe() trajectory.Harness {
	h := trajectory.Harness{Version: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				h.Commit = s.Value
			case "vcs.modified":
				h.Dirty = s.Value == "true"
			}
		}
	}
	return h
}

// Open is Describe, and opens the executable, which the caller must close.
func Open() (trajectory.Harness, *os.File, error) {
	h := Describe()
	path, err := os.Executable()
	if err != nil {
		return h, nil, fmt.Errorf("finding the program's own file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return h, nil, fmt.Errorf("reading the program's own file: %w", err)
	}
	return h, f, nil
}
