package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sandbox makes one, or skips where this machine has none.
func sandbox(t testing.TB, hidden ...string) *Sandbox {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("there is no bubblewrap on this machine, so nothing is run in it")
	}
	s, err := New(t.Context(), Config{Bwrap: bwrap, Hidden: hidden})
	var u *Unusable
	if errors.As(err, &u) {
		t.Skipf("there is no sandbox on this machine: %v; %s", u, u.Remedy)
	}
	must(t, err)
	return s
}

// shell runs a line in the sandbox.
func shell(t testing.TB, s *Sandbox, j Jail, line string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := s.Command(t.Context(), j, "/bin/sh", append([]string{"-c", line, "sh"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, &out)
	}
	return out.String()
}

func TestSandboxLayout(t *testing.T) {
	s := sandbox(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "note"), []byte("to be read"), 0o644))
	work := t.TempDir()
	for line, want := range map[string]string{
		"echo * && pwd":                       "note\n/workspace\n",
		"id -u; id -g; hostname":              "65534\n65534\nsandbox\n",
		"ls /etc | grep -c passwd; true":      "0\n",
		"cat $1/note":                         "to be read",
		"(: >$1/more) 2>&1 | grep -c only":    "1\n",
		"echo x >made && cat made && rm made": "x\n",
		"for f in /x /dev/x /usr/x /etc/x /proc/sys/kernel/core_pattern; do (: >>$f) 2>/dev/null && echo $f; done; true": "",
		"grep CapEff /proc/self/status | grep -c 0000000000000000":                                                       "1\n",
		"unshare -U true 2>/dev/null || echo no":                                                                         "no\n",
		"head -c 70000000 /dev/zero 2>/dev/null >/tmp/big; stat -c %s /tmp/big":                                          "67108864\n",
		"head -c 70000000 /dev/zero 2>/dev/null >/dev/shm/big; stat -c %s /dev/shm/big":                                  "67108864\n",
		"tr '\\0' '\\n' </proc/1/environ | grep -c . ; cat /proc/1/environ | tr -d '\\0' | wc -c":                        "0\n0\n",
	} {
		must(t, os.WriteFile(filepath.Join(work, "note"), nil, 0o644))
		if got := shell(t, s, Jail{ReadOnly: []string{dir}, workspace: work}, line, dir); got != want {
			t.Errorf("%s gives %q, not %q", line, got, want)
		}
	}
}

// What is hidden is not seen below what is given, also where a link leads to it.
func TestSandboxHides(t *testing.T) {
	dir := t.TempDir()
	given, other := filepath.Join(dir, "given"), filepath.Join(dir, "other")
	must(t, os.MkdirAll(filepath.Join(given, "cache", "deep"), 0o755))
	must(t, os.Mkdir(other, 0o755))
	must(t, os.WriteFile(filepath.Join(given, "cache", "deep", "gold"), []byte("gold"), 0o644))
	must(t, os.WriteFile(filepath.Join(given, "key"), []byte("gold"), 0o644))
	must(t, os.WriteFile(filepath.Join(given, "fine"), []byte("fine"), 0o644))
	link := filepath.Join(other, "link")
	must(t, os.Symlink(filepath.Join(given, "cache"), link))
	s := sandbox(t, link, filepath.Join(given, "key"), filepath.Join(dir, "not there"))
	for _, j := range []Jail{{ReadOnly: []string{given}}, {workspace: given}, {ReadOnly: []string{given, other}}} {
		at := given
		if j.workspace != "" {
			at = "/workspace"
		}
		if got := shell(t, s, j, `cat "$1/fine"; grep -rs gold "$1" "$2"; ls "$1/cache"`, at, other); got != "fine" {
			t.Errorf("%+v: a program sees %q", j, got)
		}
	}
}

// A program ends with its context, and so does what it started.
func TestSandboxEnds(t *testing.T) {
	s := sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := s.Command(ctx, Jail{}, "/bin/sh", "-c", "(setsid sleep 98761 &) ; echo ready; sleep 98762")
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if cmd.Wait() == nil {
		t.Error("the program ended by itself")
	}
	goneFromHost(t, "98761", "98762")
}

// goneFromHost waits until no process of this machine has an argument that is
// one of the marks. The kernel takes a moment to clear a namespace away; one
// that stays is found by the test's own time running out.
func goneFromHost(t testing.TB, marks ...string) {
	t.Helper()
	for wait := 0; ; wait++ {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		must(t, err)
		left := ""
		for _, name := range lines {
			text, _ := os.ReadFile(name) // it may have ended
			for _, m := range marks {
				if bytes.Contains(text, []byte(m)) {
					left = string(text)
				}
			}
		}
		if left == "" {
			return
		}
		if wait == 500 {
			t.Fatalf("%q is still there", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestSandboxUnusable(t *testing.T) {
	stub := func(script string) string {
		path := filepath.Join(t.TempDir(), "bwrap")
		must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
		return path
	}
	for name, c := range map[string]struct{ bwrap, why, remedy string }{
		"none":      {"", "bubblewrap is not installed", "apt install bubblewrap"},
		"gone":      {"/nowhere/bwrap", "bubblewrap cannot make a sandbox: fork/exec", "see whether"},
		"old":       {stub("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1"), "too old", "0.8 or later"},
		"shut":      {stub("echo 'bwrap: No permissions to create new namespace' >&2; exit 1"), "No permissions to create new namespace", "kernel.apparmor_restrict_unprivileged_userns=0"},
		"open":      {stub(`while [ "$1" != -- ]; do shift; done; shift; exec "$@"`), "does not shut programs in on this machine: its pid namespace", "run without"},
		"no filter": {stub("echo 'bwrap: prctl(PR_SET_SECCOMP): Invalid argument' >&2; exit 1"), "PR_SET_SECCOMP", "CONFIG_SECCOMP_FILTER=y"},
		"quiet":     {stub("exit 0"), "the probe did not come to its end", "run without"},
	} {
		_, err := New(t.Context(), Config{Bwrap: c.bwrap})
		var u *Unusable
		if !errors.As(err, &u) || !strings.Contains(u.Why, c.why) || !strings.Contains(u.Remedy, c.remedy) {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// Each thing that a sandbox could let through is a reason not to use it.
func TestLeaks(t *testing.T) {
	outside := map[string]bool{"net:[1]": true, "filter Seccomp_filters: 1": true}
	const good, environ = "pid:[2]\nnet:[2]\nipc:[2]\nuts:[2]\nmnt:[2]\nuser:[2]\ninterface lo\n", "HOME=/tmp\x00PATH=/bin\x00"
	const filter = "filter Seccomp: 2\n"
	for add, want := range map[string]string{
		"done\n":                    "it has no system-call filter",
		"filter Seccomp: 0\ndone\n": "it has no system-call filter",
		filter + "filter Seccomp_filters: 1\ndone\n": "it has no system-call filter",
		filter + "filter Seccomp_filters: 2\ndone\n": "",
		filter + "done\n":            "",
		"":                           "the probe did not come to its end",
		"net:[1]\ndone\n":            "its net namespace is this machine's",
		"interface eth0\ndone\n":     "it has a network",
		"writable /usr\ndone\n":      "it can write to /usr",
		"visible /somewhere\ndone\n": "it sees files that were not given to it",
	} {
		if got := leaks(good+add+environ, outside); got != want {
			t.Errorf("%q: %q, not %q", add, got, want)
		}
	}
	for saw, want := range map[string]string{
		good + filter + "done\n":                                      "the probe did not come to its end",
		good + filter + "done\nA=x\ny\x00" + environ:                  "it sees variables of the environment",
		good + filter + "done\n" + environ + "OPENAI_API_KEY=\x00":    "it sees variables of the environment",
		good + filter + "done\n" + environ + "OPENAI_API_KEY":         "it sees variables of the environment",
		strings.Replace(good, "net:[2]\n", "", 1) + filter + "done\n": "the probe did not come to its end",
	} {
		if got := leaks(saw, outside); got != want {
			t.Errorf("%q: %q, not %q", saw, got, want)
		}
	}
}
