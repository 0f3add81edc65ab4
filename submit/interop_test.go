package submit

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// interopPackage builds a package to be verified by other programs, and puts
// KEY.pub and OTHER.pub, the key that signed it and another, in the folder
// above it.
func interopPackage(t *testing.T) Package {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("packages are not verified with other programs: set GAIA_INTEROP=1")
	}
	p := mustBuild(t, config(t, two))
	for name, key := range map[string]string{"KEY.pub": runs.Key().Public().Line(), "OTHER.pub": otherKey(t).Public().Line()} {
		put(t, filepath.Join(filepath.Dir(p.Path), name), []byte(key+" someone@harbour.example\n"))
	}
	return p
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// documented returns the block of docs/verifying.md that stands between two
// lines.
func documented(t *testing.T, heading, fence string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "verifying.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n"+heading+"\n")
	_, block, opened := strings.Cut(section, "\n"+fence+"\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !opened || !closed {
		t.Fatalf("docs/verifying.md has no block %s below %q", fence, heading)
	}
	return block + "\n"
}

// accepts runs a program and tells by its exit code whether it accepted.
func accepts(t *testing.T, cmd *exec.Cmd) (accepted bool, out string) {
	t.Helper()
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return err == nil, string(b)
}

// flipped returns data with one bit changed.
func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 1
	return data
}
