package main

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
)

// version is the program's own; the build adds the commit.
const version = "0.2.0"

// harness describes this program: its version, its commit and the digest of its
// executable, which is read once.
var harness = sync.OnceValues(func() (trajectory.Harness, error) {
	h, f, err := thisProgram()
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

// thisProgram says which program this is by what was built into it, and opens its
// executable, which the caller must close.
func thisProgram() (trajectory.Harness, *os.File, error) {
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

// secrets returns the values of environment variables whose names say that
// they are secret, to be kept out of everything that is written.
func (a *app) secrets() []string {
	var values []string
	for _, entry := range a.environ {
		name, value, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	return values
}
