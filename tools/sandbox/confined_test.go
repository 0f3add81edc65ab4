//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/trajectory"
)

// faults change the arguments of bubblewrap, so that it does not confine as asked.
var faults = map[string]func(args []string) []string{
	"none": func(args []string) []string { return args },
	"network": func(args []string) []string {
		return slices.Insert(args, slices.Index(args, "--unshare-all")+1, "--share-net")
	},
	"filter": func(args []string) []string {
		at := slices.Index(args, "--seccomp")
		return slices.Delete(args, at, at+2)
	},
	"processes": func(args []string) []string {
		at := slices.Index(args, "--unshare-all")
		return slices.Replace(args, at, at+1, "--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup")
	},
	"names": func(args []string) []string { // of hosts: the namespace of --hostname
		at := slices.Index(args, "--unshare-all")
		args = slices.Replace(args, at, at+1, "--unshare-ipc", "--unshare-net", "--unshare-pid")
		at = slices.Index(args, "--hostname")
		return slices.Delete(args, at, at+2)
	},
	"proc": func(args []string) []string {
		at := slices.Index(args, "--proc")
		return slices.Replace(args, at, at+2, "--ro-bind", "/proc", "/proc")
	},
	"folder": func(args []string) []string {
		for i, a := range args {
			if a == "--ro-bind" && strings.HasSuffix(args[i+1], "/given") {
				args[i] = "--bind"
			}
		}
		return args
	},
	"below": func(args []string) []string { // a folder in one that it cannot write to
		at := slices.Index(args, "--remount-ro")
		return slices.Insert(args, at, "--tmpfs", "/usr/local")
	},
	"root": func(args []string) []string {
		for i, a := range args {
			if a == "--remount-ro" && args[i+1] == "/" {
				return slices.Delete(args, i, i+2)
			}
		}
		return args
	},
}

// faultyBwrap is bubblewrap with a fault, which only an agent meets.
func faultyBwrap(bwrap, fault string, args []string) int {
	if slices.Contains(args, shim.Command) {
		args = faults[fault](args)
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(bwrap, append([]string{bwrap}, args...), os.Environ()))
	return 1
}

// TestAgentNotConfined: an agent does not start where bubblewrap does not confine it.
func TestAgentNotConfined(t *testing.T) {
	real := sandbox(t).bwrap
	self, err := os.Executable()
	must(t, err)
	for fault, want := range map[string]string{
		"none": "", "network": "isolated", "filter": "filtered", "processes": "namespace", "names": "its uts namespace", "proc": "alone",
		"folder": "read-only", "below": "/usr/local", "root": "read-only",
	} {
		t.Run(fault, func(t *testing.T) {
			bwrap := filepath.Join(t.TempDir(), "bwrap")
			must(t, os.WriteFile(bwrap, fmt.Appendf(nil, "#!/bin/sh\nexec %s faulty-bwrap %s %s \"$@\"\n", self, real, fault), 0o755))
			s, err := New(t.Context(), Config{Bwrap: bwrap})
			must(t, err)
			b := newAgentBench(t, s)
			given := filepath.Join(t.TempDir(), "given")
			must(t, os.Mkdir(given, 0o755))
			b.agent.Folders, b.agent.Command = []string{given}, []string{"/bin/sh", "-c", "echo >/work/begun"}
			r, err := s.RunAgent(t.Context(), b.agent)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || (r.Confined == nil) != (want != "") {
				t.Errorf("%+v, %v", r, err)
			}
			if u := (*Unusable)(nil); want != "" && fault != "processes" && !errors.As(err, &u) {
				t.Errorf("%v has no remedy", err)
			}
			if _, err := os.Stat(filepath.Join(b.agent.Workspace, "begun")); (err == nil) != (want == "") {
				t.Errorf("the agent began: %v", err)
			}
		})
	}
}

// TestAgentTries: what an agent tries past its sockets reaches nothing and is counted, whatever it does to its sandbox.
func TestAgentTries(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("the system has no python3")
	}
	b := newAgentBench(t, sandbox(t))
	b.serve(t, http.NotFoundHandler())
	b.agent.ProxySocket = b.agent.Socket
	const tries = `
import os, socket
def send(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(5)
            s.connect(address)
            s.send(b'x')
            print('sent', address)
    except OSError as e: print(e.strerror)
send(socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 443))
send(socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53))
send(socket.AF_INET, socket.SOCK_DGRAM, ('224.0.0.251', 5353))
send(socket.AF_INET6, socket.SOCK_STREAM, ('2001:db8::1', 443))
send(socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8::1', 443))
send(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', 53))
send(socket.AF_INET6, socket.SOCK_DGRAM, ('::1', 53))
`
	const saw = "Network is unreachable\nNetwork is unreachable\nNetwork is unreachable\nNetwork is unreachable\nNetwork is unreachable\nsent ('127.0.0.1', 53)\nsent ('::1', 53)\n"
	for name, c := range map[string]struct {
		script, stdout   string
		noRoute, unheard int64
	}{
		"nothing": {"exit 0", "", 0, 0},
		"all":     {`exec /usr/bin/python3 -c "$1"`, saw, 5, 2},
		"a lookup of a name": {`/usr/bin/python3 -c "import socket
try: socket.getaddrinfo('an-answer.example.com', 80)
except OSError as e: print('no')"`, "no\n", 0, -1},
		"without a shim": {`/usr/bin/python3 -c "$1"; kill -9 $PPID; sleep 98764`, saw, 5, 2},
		"all descriptors used": {`/usr/bin/python3 -c "
import os, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
held = []
for port in (4180, 4181):
    for i in range(most):
        try: s = socket.create_connection(('127.0.0.1', port), 5)
        except OSError: break
        held.append(s)
for s in held[:10]: s.close()
exec(sys.argv[1])
sys.stdout.flush()
os._exit(0)" "$1"`, saw, 5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.run(t, t.Context(), c.script, tries)
			got := b.confined
			if r.Ended != trajectory.AgentExited || b.stdout.String() != c.stdout || got.NoRoute != c.noRoute || got.Unheard != c.unheard && (c.unheard >= 0 || got.Unheard == 0) {
				t.Errorf("%+v, %+v, %q, %q", r, got, b.stdout, b.stderr)
			}
		})
	}
}

// TestCounters: the counters are read whatever else a kernel writes there.
func TestCounters(t *testing.T) {
	found := map[string]int64{}
	readCounters("Ip: Forwarding OutNoRoutes\nIp: 2 7\nIcmp: InMsgs\nIcmp: 5\nUdp: NoPorts X\nUdp: 3 -1\nUdpLite: NoPorts\nUdpLite: 9\n", found)
	readCounters("Ip6OutNoRoutes                  \t11\nUdp6NoPorts \t13\nodd\n\n", found)
	if found["Ip OutNoRoutes"] != 7 || found["Udp NoPorts"] != 3 || found["Ip6OutNoRoutes"] != 11 || found["Udp6NoPorts"] != 13 {
		t.Errorf("%v", found)
	}
}
