package sign

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipes: a pipe is refused, not waited for.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	for _, name := range []string{path, path + ".pub"} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Skipf("pipes cannot be made here: %v", err)
		}
	}
	if _, err := LoadKey(path); err == nil || !strings.HasPrefix(err.Error(), "signing key ") || !strings.HasSuffix(err.Error(), " is not a regular file") {
		t.Errorf("signing key: %v", err)
	}
	if _, err := LoadHMACKey(path); err == nil || !strings.HasPrefix(err.Error(), "HMAC key ") || !strings.HasSuffix(err.Error(), " is not a regular file") {
		t.Errorf("HMAC key: %v", err)
	}
	if _, err := readPublic(path + ".pub"); err == nil {
		t.Error("a public key was read from a pipe")
	}
}
