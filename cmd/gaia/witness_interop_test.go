package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
)

// TestWitnessInterop: the bundles of a rehearsal, signed, are read by a program that
// shares no code with this one, and it prints of each what 'gaia witness show' does.
func TestWitnessInterop(t *testing.T) {
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("witness bundles are not read with other programs: set GAIA_INTEROP=1")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: there is no python3 here, so no witness bundle is read with it")
	}
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent")
	key := filepath.Join(p.dir, "shared.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("a shared key\n", 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.want(exit.OK, "witness", "export", p.runDir(), "--hmac-key-file", key, "--out", "bundles")
	bundles, err := filepath.Glob(filepath.Join(p.dir, "bundles", "*.rvw"))
	if err != nil || len(bundles) != 40 {
		t.Fatalf("%d bundles, %v", len(bundles), err)
	}
	reader := filepath.Join(root(t), "trajectory", "witness", "testdata", "read.py")
	cmd := exec.Command(python, append([]string{"-I", reader, "--key", key}, bundles...)...)
	cmd.Env, cmd.Stderr = []string{}, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	if len(lines) != len(bundles)+1 {
		t.Fatalf("Python prints %d lines for %d bundles", len(lines)-1, len(bundles))
	}
	for i, line := range lines[:len(bundles)] {
		if want := p.want(exit.OK, "witness", "show", "--json", bundles[i]); line != want {
			t.Errorf("%s: Python reads\n%s\nwant\n%s", bundles[i], line, want)
		}
	}
	p.want(exit.OK, append([]string{"witness", "verify", "--hmac-key-file", key}, bundles...)...)
}
