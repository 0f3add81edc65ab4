//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCgroup: memory and processes of a program are bounded as a whole, its group
// is gone with it, and so are groups of processes that were killed.
func TestCgroup(t *testing.T) {
	s, i := sandbox(t), interpreter(t)
	if s.cgroups == "" {
		t.Skipf("no control group can be made on this machine: %v", s.noCgroups)
	}
	run := func(code string) (string, *Program) {
		var out strings.Builder
		p := s.Command(t.Context(), Jail{ReadOnly: i.Required}, i.Path, "-I", "-c", code)
		p.Stdout, p.Stderr = &out, &out
		_ = p.Run()
		return out.String(), p
	}
	if out, p := run("x = bytearray(b'x') * (3 << 30); print('ESCAPED')"); !p.exhausted || strings.Contains(out, "ESCAPED") {
		t.Errorf("3 GiB of memory: %v, %q", p.exhausted, out)
	}
	if out, p := run("print('small')"); p.exhausted || out != "small\n" {
		t.Errorf("a small program: %v, %q", p.exhausted, out)
	}
	out, _ := run(`
import threading, time
try:
    for n in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    print('ESCAPED')
except RuntimeError: print(n < 400)`)
	if out != "True\n" {
		t.Errorf("1000 threads: %q", out)
	}
	groups, err := filepath.Glob(filepath.Join(s.cgroups, groupName+"*"))
	must(t, err)
	if len(groups) > 0 {
		t.Errorf("groups are left: %v", groups)
	}
}

// A group of a process that is gone is removed at the next start; one of a process
// that runs stays.
func TestCgroupsAreSwept(t *testing.T) {
	parent, ended := t.TempDir(), exec.Command("true")
	must(t, ended.Run())
	for _, pid := range []int{ended.Process.Pid, os.Getpid()} {
		must(t, os.Mkdir(filepath.Join(parent, fmt.Sprintf("%s%d-x", groupName, pid)), 0o700))
	}
	sweepCgroups(parent)
	left, err := filepath.Glob(filepath.Join(parent, "*"))
	must(t, err)
	if len(left) != 1 || filepath.Base(left[0]) != fmt.Sprintf("%s%d-x", groupName, os.Getpid()) {
		t.Errorf("there are %v", left)
	}
}
