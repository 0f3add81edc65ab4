package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/internal/shim"
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

// check compares what the shim has seen of the sandbox, and what is to be seen of it from outside, with what it is to be. The
// agent has not begun. network says that it has this machine's network.
func (n *namespace) check(seen []string, network bool) error {
	n.confined.Filtered, n.confined.ReadOnly = slices.Contains(seen, shim.Filtered), slices.Contains(seen, shim.ReadOnly)
	n.confined.NoPrivileges, n.confined.Isolated = slices.Contains(seen, shim.NoPrivileges), !network && slices.Contains(seen, shim.Isolated)
	want := []string{shim.Alone, shim.Filtered, shim.NoPrivileges, shim.ReadOnly}
	if !network {
		want = append(want, shim.Isolated)
	}
	for _, word := range want {
		if !slices.Contains(seen, word) {
			return notConfined("the shim does not see that it is " + word)
		}
	}
	place := fmt.Sprintf("/proc/%d/", n.pid)
	started := children(n.pid)
	if len(started) != 1 {
		return notConfined("it has other processes than the shim")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", started[0]))
	if err != nil {
		return notConfined(err.Error())
	}
	switch privileges, filtered := shim.Status(string(status)); {
	case privileges:
		return notConfined("it has privileges")
	case !filtered:
		return notConfined("its system calls are not filtered")
	}
	for _, name := range namespaces() {
		its, err := os.Readlink(place + "ns/" + name)
		ours, err2 := os.Readlink("/proc/self/ns/" + name)
		if err != nil || err2 != nil || its == ours && !(network && name == "net") {
			return notConfined("its " + name + " namespace is this machine's")
		}
	}
	mounts, err := os.ReadFile(place + "mountinfo")
	if err != nil {
		return notConfined(err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !slices.Contains(strings.Split(fields[5], ","), "ro") && !mayWrite(fields[4]) {
			return notConfined("it can write to " + tools.Clipped(fields[min(4, len(fields)-1)]))
		}
	}
	if network {
		return nil
	}
	devices, err := os.ReadFile(place + "net/dev")
	if err != nil {
		return notConfined(err.Error())
	}
	for line := range strings.Lines(string(devices)) {
		if name, _, device := strings.Cut(line, ":"); device && strings.TrimSpace(name) != "lo" {
			return notConfined("it has the network device " + strings.TrimSpace(name))
		}
	}
	return n.counters.open(place + "net/")
}

func notConfined(why string) error {
	return &Unusable{"the sandbox does not confine the agent: " + why, "see which program bwrap is, and that it is bubblewrap 0.8 or later"}
}

// mayWrite reports whether an agent may write to a mount: its working folder, temporary files, and devices that hold nothing.
func mayWrite(point string) bool {
	return point == AgentFolder || point == "/tmp" || strings.HasPrefix(point, "/dev/")
}

// count adds what the kernel counted of what the agent tried, once it has ended.
func (n *namespace) count() error {
	n.confined.Ended = true
	if n.counters.files == nil { // this machine's network
		return nil
	}
	noRoute, unheard, err := n.counters.read()
	n.confined.NoRoute, n.confined.Unheard = noRoute-n.counters.noRoute, unheard-n.counters.unheard
	return err
}

// counters are those of a network namespace, of IPv4 and IPv6. The open files keep the namespace when its processes are gone.
type counters struct {
	files            []*os.File
	noRoute, unheard int64 // before the agent
}

func (c *counters) open(place string) (err error) {
	for _, name := range []string{"snmp", "snmp6"} {
		f, err := os.Open(place + name)
		if os.IsNotExist(err) && name == "snmp6" { // a kernel without IPv6
			continue
		}
		if err != nil {
			return fmt.Errorf("opening the counters of the sandbox's network: %w", err)
		}
		c.files = append(c.files, f)
	}
	c.noRoute, c.unheard, err = c.read()
	return err
}

// read returns how many connections and datagrams had no route, and how many datagrams no one to hear them.
func (c *counters) read() (noRoute, unheard int64, err error) {
	found := map[string]int64{}
	for _, f := range c.files {
		text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		if err != nil {
			return 0, 0, fmt.Errorf("reading the counters of the sandbox's network: %w", err)
		}
		readCounters(string(text), found)
	}
	for _, name := range []string{"Ip OutNoRoutes", "Udp NoPorts"} {
		if _, there := found[name]; !there {
			return 0, 0, fmt.Errorf("reading the counters of the sandbox's network: there is no %s", name)
		}
	}
	return found["Ip OutNoRoutes"] + found["Ip6OutNoRoutes"], found["Udp NoPorts"] + found["Udp6NoPorts"], nil
}

// readCounters reads the file snmp, which has a line of names before each line of numbers, or snmp6, which has a counter a line.
func readCounters(text string, found map[string]int64) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 2 && !strings.HasSuffix(fields[0], ":") {
			found[fields[0]], _ = strconv.ParseInt(fields[1], 10, 64)
			continue
		}
		if len(names) != len(fields) || names[0] != fields[0] {
			names = fields
			continue
		}
		for i := 1; i < len(fields); i++ {
			found[strings.TrimSuffix(names[0], ":")+" "+names[i]], _ = strconv.ParseInt(fields[i], 10, 64)
		}
		names = nil
	}
}
