//go:build unix

package tools

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe is refused, not waited for.
func TestReadFilePipe(t *testing.T) {
	env := workspace(t, nil)
	must(t, syscall.Mkfifo(filepath.Join(env.Root.Name(), "pipe"), 0o600))
	for _, inside := range []string{"", ".", "a.txt"} {
		out := use(t, NewReadFile(Reader{}), env, object{"path": "pipe", "inside": inside})
		mustHold(t, "a pipe", out.Shown, "error: cannot read \"pipe\": it is not a regular file")
	}
}
