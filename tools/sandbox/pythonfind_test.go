package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindInterpreterRefuses(t *testing.T) {
	stub := func(script string) string {
		path := filepath.Join(t.TempDir(), "python3")
		must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
		return path
	}
	says := func(json string) string { return stub("echo '" + json + "'") }
	for name, c := range map[string]struct{ path, why string }{
		"none":    {"", "python3 is not installed"},
		"gone":    {"/nowhere/python3", "python3 does not start: fork/exec"},
		"fails":   {stub("exit 3"), "python3 does not start: exit status 3"},
		"old":     {says(`{"executable":"/x/python3","version":[3,7,9],"prefixes":[]}`), "python3 is 3.7.9, which is too old"},
		"two":     {says(`{"executable":"/x/python3","version":[2,7,18],"prefixes":[]}`), "python3 is 2.7.18, which is too old"},
		"silent":  {stub(""), "does not report its version and path"},
		"chatter": {says("hello"), "does not report its version and path"},
		"nowhere": {says(`{"executable":"","version":[3,9,1],"prefixes":[]}`), "does not report its version and path"},
	} {
		_, err := FindInterpreter(t.Context(), c.path, nil)
		var u *Unusable
		if !errors.As(err, &u) || !strings.Contains(u.Why, c.why) || u.Remedy == "" {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// TestFindInterpreterEnvironment: what is found on PATH may be anything, and sees
// nothing of what is meant for this program.
func TestFindInterpreterEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "canary")
	dir := t.TempDir()
	stub := filepath.Join(dir, "python3")
	must(t, os.WriteFile(stub, []byte("#!/bin/sh\nexport >"+dir+"/seen\n"), 0o755))
	for _, env := range [][]string{nil, {"PATH=/usr/bin:/bin", "HOME=/nowhere"}} {
		var u *Unusable
		if _, err := FindInterpreter(t.Context(), stub, env); !errors.As(err, &u) {
			t.Fatalf("a stub that says nothing: %v", err)
		}
		seen, err := os.ReadFile(filepath.Join(dir, "seen"))
		must(t, err)
		if strings.Contains(string(seen), "canary") || strings.Contains(string(seen), "HOME") != (env != nil) {
			t.Errorf("with %q it sees\n%s", env, seen)
		}
	}
}

// A shim is followed to what it starts, and a virtual environment works in the
// sandbox without what lies beside it in its folder.
func TestFindInterpreterOfProject(t *testing.T) {
	system, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("the system has no python3, so there is nothing to make an environment of")
	}
	project := t.TempDir()
	must(t, os.WriteFile(filepath.Join(project, "answers"), []byte("secret"), 0o644))
	if out, err := exec.Command(system, "-m", "venv", "--without-pip", project).CombinedOutput(); err != nil {
		t.Skipf("python3 makes no virtual environment: %s", out)
	}
	shim := filepath.Join(t.TempDir(), "python3")
	must(t, os.WriteFile(shim, []byte("#!/bin/sh\nexec "+project+"/bin/python3 \"$@\"\n"), 0o755))
	i, err := FindInterpreter(t.Context(), shim, nil)
	must(t, err)
	if i.Path != filepath.Join(project, "bin", "python3") || slices.Contains(i.Required, project) {
		t.Fatalf("it is %+v", i)
	}
	b := benchPython(t, NewPython(sandbox(t), i))
	out := b.Run(t, "import os, sys\nsys.prefix == "+`"`+project+`"`+", sorted(os.listdir(sys.prefix))", 0)
	if !strings.Contains(out.Shown, "(True, [") || strings.Contains(out.Shown, "answers") {
		t.Errorf("it sees %s", out.Shown)
	}
}

// FuzzIdentity: what calls itself an interpreter gets nothing bound that is not
// there, nor the whole of this machine.
func FuzzIdentity(f *testing.F) {
	f.Add("/usr/bin/python3", "/usr")
	f.Add("/proc/self/exe", "/")
	f.Fuzz(func(t *testing.T, executable, prefix string) {
		for _, p := range (identity{Executable: executable, Prefixes: []string{prefix}}).required() {
			_, ofSystem := Within("/usr", p)
			if _, err := os.Stat(p); err != nil || !filepath.IsAbs(p) || p == "/" || ofSystem {
				t.Errorf("%q is to be bound", p)
			}
		}
	})
}
