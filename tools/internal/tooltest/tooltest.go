// Package tooltest is shared by the tests of the folders below tools: it calls a tool without the Gate.
//
// A test of one tool is about what the tool returns for its arguments, not about rules, records and budgets, which the
// tests of package tools cover. It needs the key of package direct, which nothing but this package may import
// (TestGateIsTheOnlyWay). Only tests import it.
package tooltest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/internal/direct"
	"github.com/go-json-experiment/json"
)

// Object is the arguments of a call.
type Object = map[string]any

// Workspace is an Env over a folder with the given files, in which every redirect is
// allowed and tools can keep something.
func Workspace(t testing.TB, files map[string][]byte) *tools.Env {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		Must(t, os.WriteFile(path, data, 0o644))
	}
	root, err := os.OpenRoot(dir)
	Must(t, err)
	t.Cleanup(func() { root.Close() })
	return &tools.Env{Root: &tools.Folder{Root: root}, AllowURL: func(string) error { return nil }}
}

// Use calls a tool, which must not break.
func Use(t testing.TB, tool tools.Tool, env *tools.Env, args any) tools.Output {
	t.Helper()
	text, err := json.Marshal(args)
	Must(t, err)
	out, err := Call(t.Context(), tool, env, text)
	if err != nil {
		t.Fatalf("%s %s: %v", tool.Spec().Name, text, err)
	}
	return out
}

// Call calls a tool with the JSON text of its arguments.
func Call(ctx context.Context, tool tools.Tool, env *tools.Env, args []byte) (tools.Output, error) {
	return tools.CallDirectly(ctx, direct.Key{}, tool, env, args)
}

// Admits returns the addresses that a tool makes of the JSON text of its arguments.
func Admits(tool tools.Tool, args []byte) ([]string, error) {
	return tools.AdmitsDirectly(direct.Key{}, tool, args)
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Holds reports an error for each part that a text does not contain.
func Holds(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not contain %q:\n%.2000s", what, part, text)
		}
	}
}

// AsOrdinaryUser runs the tests of the package that match a pattern again, as a user without privileges.
func AsOrdinaryUser(t *testing.T, pattern string) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("it runs what other tests run, once more")
	}
	self, err := os.Executable()
	Must(t, err)
	dir, err := os.MkdirTemp("/tmp", "gaia-user-")
	Must(t, err)
	defer os.RemoveAll(dir)
	Must(t, os.Chown(dir, 65534, 65534))
	program, err := os.ReadFile(self)
	Must(t, err)
	Must(t, os.WriteFile(filepath.Join(dir, "tests"), program, 0o755))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tests"), "-test.v", "-test.run", pattern)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir, long.Setting()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
