//go:build unix

package document

import (
	"os"
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

// A file that turns into a pipe while it is read over and over does not hold a
// reader up.
func TestReadFileSwapped(t *testing.T) {
	env := workspace(t, map[string][]byte{"a": []byte("a text")})
	dir := env.Root.Name()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			_ = os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
			_ = os.Rename(filepath.Join(dir, "pipe"), filepath.Join(dir, "a"))
			_ = os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "pipe"))
			_ = os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a"))
		}
	}()
	for swapping := true; swapping; {
		if _, err := env.ReadFile("a"); err != nil && err.Error() != "it is not a regular file" && err.Error() != "there is no such file; list_files shows what is there" {
			t.Fatal(err)
		}
		select {
		case <-done:
			swapping = false
		default:
		}
	}
}
