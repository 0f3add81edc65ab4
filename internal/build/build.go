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
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/module"
)

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
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(info)
}

// describe reads what the go command builds in. The version is that of the module that 'go install MODULE@VERSION'
// downloaded, or the tag or pseudo-version of the checkout that was built, or [trajectory.Devel]. The commit is that of
// the checkout, or the one that a pseudo-version names, which is shortened.
func describe(info *debug.BuildInfo) trajectory.Harness {
	h := trajectory.Harness{Version: info.Main.Version}
	if !strings.HasPrefix(h.Version, "v") { // "(devel)", or "" in a test
		h.Version = trajectory.Devel
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			h.Commit = s.Value
		case "vcs.modified":
			h.Dirty = s.Value == "true"
		}
	}
	if h.Commit == "" && module.IsPseudoVersion(h.Version) {
		h.Commit, _ = module.PseudoVersionRev(h.Version)
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
