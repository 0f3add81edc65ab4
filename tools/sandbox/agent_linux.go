package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sys/unix"
)

// A namespace is the process namespace of a program in the sandbox, by a descriptor of its first process. The kernel ends
// that process only when all others of the namespace are gone.
type namespace struct {
	init     int
	pid      int // of that process
	counters counters
	confined trajectory.Confinement
}

// openNamespace returns the namespace that a bubblewrap has made. A program in it is known to run, and to go on.
func openNamespace(bwrap int) (*namespace, error) {
	first := children(bwrap)
	if len(first) == 0 {
		return nil, errors.New("bubblewrap has no process in the sandbox")
	}
	fd, err := unix.PidfdOpen(first[0], 0)
	if err != nil {
		return nil, fmt.Errorf("opening the first process of the sandbox: %w", err)
	}
	n := &namespace{init: fd, pid: first[0]}
	// It is the one that was listed if it still is bubblewrap's child.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", first[0]))
	if err != nil {
		return n, fmt.Errorf("opening the first process of the sandbox: %w", err)
	}
	var parent, own string
	for line := range strings.Lines(string(status)) {
		switch fields := strings.Fields(line); fields[0] {
		case "PPid:":
			parent = fields[len(fields)-1]
		case "NSpid:":
			own = fields[len(fields)-1]
		}
	}
	if parent != strconv.Itoa(bwrap) || own != "1" {
		return n, errors.New("the child of bubblewrap is not the first process of a namespace")
	}
	return n, nil
}

// kill kills all processes of the namespace.
func (n *namespace) kill() { _ = unix.PidfdSendSignal(n.init, unix.SIGKILL, nil, 0) }

// gone waits until no process of the namespace is left.
func (n *namespace) gone(within time.Duration) error {
	for end := time.Now().Add(within); ; {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(n.init), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		switch {
		case ready == 1:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for the end of the sandbox: %w", err)
		case time.Now().After(end):
			return fmt.Errorf("the sandbox has processes %v after SIGKILL", within)
		}
	}
}

func (n *namespace) close() error {
	if n == nil {
		return nil
	}
	closeAll(n.counters.files)
	return unix.Close(n.init)
}

// socketPair returns two ends of a stream. The first can be used with deadlines.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// agentRlimits are the limits that the shim sets, in its words. That of processes does not hold where the user outside is
// root; the watch does.
func agentRlimits(l AgentLimits) string {
	return fmt.Sprintf("%d=%d,%d=%d,%d=0,%d=%d", syscall.RLIMIT_FSIZE, max(l.Disk, tools.MaxWorkspace), syscall.RLIMIT_NOFILE, agentOpen,
		syscall.RLIMIT_CORE, unix.RLIMIT_NPROC, agentThreads*l.Processes)
}
