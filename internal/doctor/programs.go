package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools/sandbox"
)

// Tried words what became of trying something that a run goes without where it
// does not work.
func Tried(name, use, works string, err error) Finding {
	if err != nil {
		return Lacks(name, use, err.Error(), Remedy(err))
	}
	return Good(name, use, works)
}

// Remedy is what repairs a program that does not work. Whatever fails before it is
// tried fails for lack of a place to try it in.
func Remedy(err error) string {
	if u := (*sandbox.Unusable)(nil); errors.As(err, &u) && u.Remedy != "" {
		return u.Remedy
	}
	return "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp"
}

// Poppler asks a program of poppler for its version.
func Poppler(ctx context.Context, path, name, use string, environ []string) Finding {
	if path == "" {
		return Tried(name, use, "", &sandbox.Unusable{Why: name + " is not installed", Remedy: "apt install poppler-utils (brew install poppler on macOS)"})
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "-v")
	cmd.Env = environ
	out, err := cmd.CombinedOutput() // some versions exit with an error all the same
	line, _, _ := strings.Cut(string(out), "\n")
	if !strings.Contains(line, "version") {
		return Tried(name, use, "", &sandbox.Unusable{Why: fmt.Sprintf("%s does not say its version: %v", path, err), Remedy: "apt reinstall poppler-utils (brew reinstall poppler on macOS)"})
	}
	return Tried(name, use, line+" at "+path, nil)
}
