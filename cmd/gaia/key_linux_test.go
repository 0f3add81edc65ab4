package main

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
)

// TestKeyExportOnFullDisk: where the public key has no room there is no file.
func TestKeyExportOnFullDisk(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if _, err := sign.CreateKey(key, rand.Reader); err != nil {
		t.Fatal(err)
	}
	disk := smallDisk(t, 16)
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	code, _, stderr := command(t, "key", "export", "--key", key, "-o", filepath.Join(disk, "key.pub"))
	if code != exit.Failure || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}
