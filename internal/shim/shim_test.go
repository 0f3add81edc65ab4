package shim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMain has the test binary serve as the shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(Main(os.Args[2:], os.Environ()))
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shimmed returns the address of a shim and the socket that it leads to.
func shimmed(t testing.TB) (address string, socket net.Listener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := net.Listen("unix", path)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go serve(l, path)
	t.Cleanup(func() { l.Close(); socket.Close() })
	return l.Addr().String(), socket
}

// TestStreams: many streams at once, of which each event arrives before the next is sent.
func TestStreams(t *testing.T) {
	address, socket := shimmed(t)
	const streams, events = 64, 5
	got := make([]chan bool, streams) // the client has the event
	for i := range got {
		got[i] = make(chan bool)
	}
	var all sync.WaitGroup
	all.Add(streams)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		fmt.Fscan(r.Body, &i)
		all.Done()
		all.Wait() // all are open at once
		for n := range events {
			fmt.Fprintf(w, "data: %d.%d\n\n", i, n)
			_ = http.NewResponseController(w).Flush()
			<-got[i]
		}
	})}
	go func() { _ = server.Serve(socket) }()
	defer server.Close()
	var wait sync.WaitGroup
	for i := range streams {
		wait.Go(func() {
			resp, err := http.Post("http://"+address+"/v1/chat/completions", "text/plain", strings.NewReader(fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for n := 0; lines.Scan(); {
				if lines.Text() == "" {
					continue
				}
				if want := fmt.Sprintf("data: %d.%d", i, n); lines.Text() != want {
					t.Errorf("%q, not %q", lines.Text(), want)
				}
				n++
				got[i] <- true
			}
		})
	}
	wait.Wait()
}

// TestHalfClose: each side may end before the other, and what was sent arrives all the same.
func TestHalfClose(t *testing.T) {
	address, socket := shimmed(t)
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	dial := func() (agent *net.TCPConn, gaia *net.UnixConn) {
		a, err := net.Dial("tcp", address)
		must(t, err)
		g, err := socket.Accept()
		must(t, err)
		t.Cleanup(func() { a.Close(); g.Close() })
		return a.(*net.TCPConn), g.(*net.UnixConn)
	}
	send := func(to interface {
		io.Writer
		CloseWrite() error
	}) {
		go func() {
			_, _ = to.Write(long)
			_ = to.CloseWrite()
		}()
	}
	receive := func(from io.Reader) {
		t.Helper()
		if text, err := io.ReadAll(from); err != nil || !bytes.Equal(text, long) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	}
	agent, gaia := dial()
	send(agent)
	receive(gaia)
	send(gaia)
	receive(agent)

	agent, gaia = dial()
	send(gaia)
	receive(agent)
	send(agent)
	receive(gaia)

	agent, gaia = dial() // gaia answers a request that it does not read
	go func() { _, _ = agent.Write(long) }()
	_, err := gaia.Read(make([]byte, 1))
	must(t, err)
	_, err = gaia.Write([]byte("too large"))
	must(t, err)
	must(t, gaia.Close())
	if text, _ := io.ReadAll(agent); string(text) != "too large" {
		t.Errorf("%q", text)
	}

	agent, gaia = dial() // the agent hangs up
	must(t, agent.SetLinger(0))
	must(t, agent.Close())
	_, _ = gaia.Read(make([]byte, 1))
	for err = nil; err == nil; {
		_, err = gaia.Write(long)
	}

	must(t, socket.Close()) // gaia takes no more
	a, err := net.Dial("tcp", address)
	must(t, err)
	if n, err := a.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes of a closed socket", n)
	}
}

// runShim runs the shim as a program.
func runShim(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{Command}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "NAME=value"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in"), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestMainRuns(t *testing.T) {
	for script, want := range map[string]struct {
		code        int
		out, stderr string
	}{
		"cat; echo $NAME; echo e >&2": {0, "invalue\n", "e\n"},
		"exit 7":                      {7, "", ""},
		"kill -9 $$":                  {137, "", ""},
		"kill -TERM $PPID; sleep 100": {143, "", ""},
		"trap 'exit 3' TERM; kill -TERM $PPID; while :; do :; done": {3, "", ""},
		"ulimit -n; ulimit -c": {0, "99\n0\n", ""},
	} {
		limits := fmt.Sprintf("%d=99,%d=0", syscall.RLIMIT_NOFILE, syscall.RLIMIT_CORE)
		if code, out, stderr := runShim(t, "-limits", limits, "--", "sh", "-c", script); code != want.code || out != want.out || stderr != want.stderr {
			t.Errorf("%s: %d, %q, %q", script, code, out, stderr)
		}
	}
	for name, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"none":    {nil, exitUsage, "there is no command"},
		"gone":    {[]string{"/nowhere/agent"}, exitNotRun, "/nowhere/agent: no such file"},
		"limits":  {[]string{"-limits", "7", "true"}, exitUsage, `reading the limit "7"`},
		"address": {[]string{"-port", "192.0.2.1:1=/nowhere", "true"}, exitUsage, "192.0.2.1:1"},
		"flag":    {[]string{"-x", "true"}, exitUsage, "flag provided but not defined"},
	} {
		if code, _, stderr := runShim(t, c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: %d, %q", name, code, stderr)
		}
	}
}

// TestLook: outside of a sandbox nothing is seen that is not so.
func TestLook(t *testing.T) {
	for _, folder := range []string{t.TempDir(), "/nowhere/folder"} {
		if seen := look([]string{folder}); slices.Contains(seen, Alone) || slices.Contains(seen, ReadOnly) {
			t.Errorf("%s: %q", folder, seen)
		}
	}
	const status = "Name:\tgaia\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
	for was, change := range map[string][3]any{
		"":                 {"", false, true},
		"NoNewPrivs:\t1":   {"NoNewPrivs:\t0", true, true},
		"NoNewPrivs:":      {"Other:", true, true},
		"Seccomp:\t2":      {"Seccomp:\t1", false, false},
		"Seccomp:":         {"Seccomp_filters:", false, false},
		"CapBnd:\t0000000": {"CapBnd:\t0000001", true, true},
		"CapAmb:":          {"", true, true},
	} {
		if privileges, filtered := Status(strings.Replace(status, was, change[0].(string), 1)); privileges != change[1] || filtered != change[2] {
			t.Errorf("%q to %q: %t, %t", was, change[0], privileges, filtered)
		}
	}
}

// BenchmarkStart is the time from the start of the shim to the end of an agent that does nothing.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), os.Args[0], Command, "-port", "127.0.0.1:0=/nowhere", "--", "/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequest is a request over a connection that is kept, through the shim.
func BenchmarkRequest(b *testing.B) {
	address, socket := shimmed(b)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, 2000))
	})}
	go func() { _ = server.Serve(socket) }()
	defer server.Close()
	body := make([]byte, 20_000)
	for b.Loop() {
		resp, err := http.Post("http://"+address, "", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
