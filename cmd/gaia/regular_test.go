package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
)

// TestIrregular: a file that the user names and that is none is refused at once; a
// pipe that no one writes to, and a device without an end, are not read.
func TestIrregular(t *testing.T) {
	t.Parallel()
	run, key := foreignRun(t, "honest/search-echo.txt")
	dir := t.TempDir()
	data, pipe := filepath.Join(dir, "data"), filepath.Join(dir, "pipe")
	if err := os.CopyFS(data, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, keyring.MaxAllowed+1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string // before the file
		code int
	}{
		{[]string{"verify", run, "--trusted-key"}, exit.Usage},
		{[]string{"verify", run, "--allowed-signers"}, exit.Usage},
		{[]string{"verify", key, "--checkpoint"}, exit.Usage},
		{[]string{"verify", key, "--hmac-key-file"}, exit.Failure},
		{[]string{"disclose", run, "--hmac-key-file"}, exit.Failure},
		{[]string{"key", "trust"}, exit.Usage},
		{[]string{"audit", run, "--usage-export"}, exit.Failure},
		{[]string{"audit", run, "--body"}, exit.Failure},
		{[]string{"doctor", "--settings"}, exit.Usage},
		{[]string{"policy", "check"}, exit.Usage},
		{[]string{"run", "--out", dir, "--dataset", "dir:" + data, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--prices"}, exit.Usage},
	} {
		for _, file := range []string{pipe, dir, os.DevNull} {
			if file == os.DevNull && slices.Contains(tt.args, "--settings") { // which is to have none
				continue
			}
			type ending struct {
				code   int
				stderr string
			}
			ended := make(chan ending, 1)
			go func() {
				code, _, stderr := command(t, append(tt.args[:len(tt.args):len(tt.args)], file)...)
				ended <- ending{code, stderr}
			}()
			select {
			case e := <-ended:
				if e.code != tt.code || !strings.Contains(e.stderr, "not a regular file") {
					t.Errorf("%q %s: exit code %d, want %d\n%s", tt.args, file, e.code, tt.code, e.stderr)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%q waits for %s", tt.args, file)
			}
		}
	}
	for _, file := range []string{pipe, dir, os.DevNull} { // of which the environment names the file
		a := &app{getenv: func(name string) string { return map[string]string{"HF_TOKEN_PATH": file}[name] }}
		if _, _, err := a.user().Hub().Token(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("the hub's token in %s: %v", file, err)
		}
	}
	for _, args := range [][]string{{"verify", run, "--trusted-key", large}, {"verify", run, "--allowed-signers", large}, {"key", "trust", large}} {
		if code, _, stderr := command(t, args...); code != exit.Usage || !strings.Contains(stderr, "it is larger than") {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
}
