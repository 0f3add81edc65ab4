package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A cgroup is the control group of one program, a directory; "" is none.
type cgroup string

// groupName begins the name of a control group, before the id of its gaia.
const groupName = "gaia-"

// findCgroups returns the directory in which this process can make control groups
// that limit memory and processes: its own group or the one above it.
// It removes groups that killed processes left there.
func findCgroups() (string, error) {
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	// This succeeds in the root group only: elsewhere a group with processes has no controllers below it.
	_ = os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("+memory +pids"), 0)
	var why error
	for _, parent := range []string{own, filepath.Dir(own)} {
		text, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err != nil {
			continue // above the mount
		}
		if given := " " + strings.TrimSpace(string(text)) + " "; !strings.Contains(given, " memory ") || !strings.Contains(given, " pids ") {
			why = errors.Join(why, fmt.Errorf("%s gives no group below it the controllers memory and pids", parent))
			continue
		}
		sweepCgroups(parent)
		group, err := newCgroup(parent, groupMemory, groupTasks)
		if err == nil {
			group.remove()
			return parent, nil
		}
		why = errors.Join(why, err)
	}
	return "", why
}

// ownCgroup returns the directory of this process's group of version 2.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	_, path, found := strings.Cut("\n"+string(text), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if !found || !strings.Contains(line, " - cgroup2 ") {
			continue
		}
		if rest, below := Within(fields[3], path); below {
			return filepath.Join(fields[4], rest), nil
		}
	}
	return "", errors.New("this machine shows no control groups of version 2")
}

// sweepCgroups removes the groups of processes that are gone. One in which anything
// runs stays.
func sweepCgroups(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, groupName+"*"))
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupName), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = syscall.Rmdir(dir)
		}
	}
}

// newCgroup makes a group with the limits of a program: bytes of memory, and processes and threads.
func newCgroup(parent string, memory, tasks int64) (cgroup, error) {
	g := cgroup(filepath.Join(parent, fmt.Sprintf("%s%d-%s", groupName, os.Getpid(), rand.Text())))
	err := os.Mkdir(string(g), 0o755)
	if err != nil {
		return "", fmt.Errorf("making a control group: %w", err)
	}
	for _, limit := range []struct {
		file     string
		value    int64
		optional bool
	}{
		{"memory.max", memory, false}, {"pids.max", tasks, false},
		{"memory.swap.max", 0, true}, // not where the kernel does not count swap
		{"memory.oom.group", 1, true},
	} {
		err := os.WriteFile(filepath.Join(string(g), limit.file), []byte(strconv.FormatInt(limit.value, 10)), 0)
		if err != nil && !(limit.optional && errors.Is(err, os.ErrNotExist)) {
			g.remove()
			return "", fmt.Errorf("limiting a control group: %w", err)
		}
	}
	return g, nil
}

// closeInherited keeps from programs in the sandbox what this process was started with besides
// its standard streams. What it opens itself they do not get anyway.
func closeInherited() {
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range open {
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// start starts a command in the group.
func (g cgroup) start(cmd *exec.Cmd) error {
	if g == "" {
		return cmd.Start()
	}
	dir, err := os.Open(string(g))
	if err != nil {
		return fmt.Errorf("entering a control group: %w", err)
	}
	defer dir.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// exhausted reports whether the kernel killed a process of the group for its memory.
func (g cgroup) exhausted() bool {
	text, _ := os.ReadFile(filepath.Join(string(g), "memory.events"))
	for line := range strings.Lines(string(text)) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" && n != "0" {
			return true
		}
	}
	return false
}

// remove kills what is left in the group and removes it. The kernel takes a moment
// to clear away what was killed.
func (g cgroup) remove() {
	if g == "" {
		return
	}
	_ = os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	for wait := 0; wait < 200 && errors.Is(syscall.Rmdir(string(g)), syscall.EBUSY); wait++ {
		time.Sleep(5 * time.Millisecond)
	}
}
