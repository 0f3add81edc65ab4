//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestMain has the test binary serve as the shim, and as a gaia that runs an agent which does not end.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == shim.Command {
		os.Exit(shim.Main(os.Args[2:], os.Environ()))
	}
	if len(os.Args) > 4 && os.Args[1] == "faulty-bwrap" {
		os.Exit(faultyBwrap(os.Args[2], os.Args[3], os.Args[4:]))
	}
	if len(os.Args) == 5 && os.Args[1] == "run-agent" {
		s, err := New(context.Background(), Config{Bwrap: os.Args[2]})
		if err == nil {
			fmt.Println("begun")
			_, err = s.RunAgent(context.Background(), AgentCommand{Shim: os.Args[0], Workspace: os.Args[3], Stdout: os.Stdout, Stderr: os.Stderr,
				Command: []string{"/bin/sh", "-c", marked(daemons+"sleep 98764", os.Args[4])}, Limits: AgentLimits{Memory: 1 << 30, Disk: 1 << 30, Processes: 64}})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// daemons leaves the sessions and groups of the agent in several ways, and says so.
const daemons = `
trap '' TERM HUP INT
(setsid sh -c "trap '' TERM HUP INT; setsid sleep 98761 & sleep 98762" &)
setsid sleep 98763 &
while [ $(cat /proc/[0-9]*/comm | grep -c sleep) -lt 3 ]; do sleep 0.01; done
echo running
`

// mark ends the time for which the programs of this process's agents sleep, so that they are found among those of others.
func mark() string { return fmt.Sprintf(".%d", os.Getpid()) }

// marked returns a script with its times marked.
func marked(script, mark string) string { return times.ReplaceAllString(script, "$0"+mark) }

var times = regexp.MustCompile(`sleep 987\d\d`)

// agentBench runs own agents that are texts of a shell.
type agentBench struct {
	sandbox        *Sandbox
	agent          AgentCommand
	stdout, stderr *bytes.Buffer
	confined       *trajectory.Confinement // of the last agent
}

func newAgentBench(t testing.TB, s *Sandbox) *agentBench {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	b := &agentBench{sandbox: s, stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	b.agent = AgentCommand{Shim: self, Workspace: t.TempDir(), Stdout: b.stdout, Stderr: b.stderr,
		Limits: AgentLimits{Memory: 512 << 20, Disk: 64 << 20, Processes: 64}, Grace: time.Minute}
	return b
}

// serve serves the agent's socket.
func (b *agentBench) serve(t testing.TB, h http.Handler) {
	b.agent.Socket = filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", b.agent.Socket)
	must(t, err)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

// run runs a text of the shell, and then looks at once whether anything is left of it.
func (b *agentBench) run(t testing.TB, ctx context.Context, script string, args ...string) AgentResult {
	t.Helper()
	b.stdout.Reset()
	b.stderr.Reset()
	b.agent.Command = append([]string{"/bin/sh", "-c", marked(script, mark()), "agent"}, args...)
	limited, cancel := context.WithTimeout(ctx, time.Minute) // it ends long before
	defer cancel()
	r, err := b.sandbox.RunAgent(limited, b.agent)
	if left := processesWith(t, "98761", "98762", "98763", "98764"); left != "" {
		t.Errorf("%q is left", left)
	}
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	b.confined, r.Confined = r.Confined, nil
	if c := b.confined; err == nil && (c == nil || !c.Ended || !c.Filtered || c.Isolated == b.agent.Network || !c.NoPrivileges || !c.ReadOnly) {
		t.Errorf("confined: %+v", c)
	}
	return r
}

// processesWith returns the command line of a process of this machine that has one of the marks in it, "" if there is none.
func processesWith(t testing.TB, marks ...string) string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range lines {
		text, _ := os.ReadFile(name) // it may have ended
		for _, m := range marks {
			if bytes.Contains(text, []byte("sleep\x00"+m+mark())) {
				return string(text)
			}
		}
	}
	return ""
}

// deadlineOn is a context with a deadline that passes when something is written to it.
type deadlineOn struct {
	context.Context
	io.Writer
	once   sync.Once
	passed chan struct{}
	err    error
}

func newDeadlineOn(t testing.TB, w io.Writer, err error) *deadlineOn {
	return &deadlineOn{Context: t.Context(), Writer: w, passed: make(chan struct{}), err: err}
}

func (d *deadlineOn) Done() <-chan struct{} { return d.passed }

func (d *deadlineOn) Err() error {
	select {
	case <-d.passed:
		return d.err
	default:
		return nil
	}
}

func (d *deadlineOn) Write(p []byte) (int, error) {
	defer d.once.Do(func() { close(d.passed) })
	return d.Writer.Write(p)
}

func TestAgent(t *testing.T) {
	inherited, err := syscall.Open("/etc", syscall.O_RDONLY, 0) // as from a parent: not closed on exec
	must(t, err)
	defer syscall.Close(inherited)
	b := newAgentBench(t, sandbox(t))
	b.agent.Stdin, b.agent.Env = []byte("what is it?\n"), []string{"GAIA_MODEL=m", "PATH=/nowhere"}
	folder := filepath.Join(t.TempDir(), "agent")
	must(t, os.Mkdir(folder, 0o755))
	for name, text := range map[string]string{"ok": "#!/bin/sh\necho ok\n", "none": "echo none\n", "gone": "#!/nowhere/node\n", "shut": ""} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755))
	}
	must(t, os.Chmod(filepath.Join(folder, "shut"), 0o644))
	b.agent.Folders = []string{folder}
	t.Setenv("GAIA_CANARY_KEY", canary)
	exited := func(code int) AgentResult {
		return AgentResult{Ended: trajectory.AgentExited, Exit: code, Why: fmt.Sprintf("it exited with code %d", code)}
	}
	for script, want := range map[string]struct {
		AgentResult
		stdout string
	}{
		"cat; pwd":                      {exited(0), "what is it?\n/work\n"},
		"echo x >made; ls":              {exited(0), "made\n"},
		"exit 7":                        {exited(7), ""},
		"exit 137":                      {exited(137), ""},
		"kill -9 $$":                    {AgentResult{Ended: trajectory.AgentExited, Exit: -1, Why: "signal 9 ended it: killed"}, ""},
		"kill -TERM $PPID; sleep 98764": {AgentResult{Ended: trajectory.AgentExited, Exit: -1, Why: "signal 15 ended it: terminated"}, ""},
		"kill -9 $PPID; sleep 98764":    {AgentResult{Ended: trajectory.AgentExited, Exit: -1, Why: "it ended the shim that started it"}, ""},
		"kill -9 1; exit 3":             {exited(3), ""},
		"exec $1/ok":                    {exited(0), "ok\n"},
		"(: >>$1/ok) 2>/dev/null || echo read only":   {exited(0), "read only\n"},
		"env -u PWD | sort":                           {exited(0), "GAIA_MODEL=m\nHOME=/tmp/home\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\nTMPDIR=/tmp\n"},
		"tr '\\0' '\\n' </proc/1/environ":             {exited(0), "GAIA_MODEL=m\nPATH=/nowhere\n"},
		"cd; pwd; id -un; id -gn; echo x >f && cat f": {exited(0), "/tmp/home\nagent\nagent\nx\n"},
		"ls /proc/self/fd":                            {exited(0), "0\n1\n2\n3\n"},
		daemons:                                       {exited(0), "running\n"},
	} {
		if r := b.run(t, t.Context(), script, folder); r != want.AgentResult || b.stdout.String() != want.stdout {
			t.Errorf("%s: %+v, %q, %q", script, r, b.stdout, b.stderr)
		}
	}
	for name, why := range map[string]string{
		"ok": "it exited with code 0", "gone": `no such file or directory: its interpreter is "/nowhere/node"`, "not": "no such file or directory",
		"none": "exec format error: it is no program for this machine, and has no first line that names its interpreter", "shut": "permission denied",
	} {
		b.agent.Command = []string{filepath.Join(folder, name)}
		r, err := b.sandbox.RunAgent(t.Context(), b.agent)
		if ended := r.Ended == trajectory.AgentNotStarted; err != nil || ended != (name != "ok") || !strings.HasSuffix(r.Why, why) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.agent.Workspace, "made"))
	if err != nil || string(text) != "x\n" {
		t.Errorf("%q, %v", text, err)
	}
	b.agent.Folders = []string{"/nowhere"}
	if r, err := b.sandbox.RunAgent(t.Context(), b.agent); err == nil {
		t.Errorf("without its folder the agent ran: %+v", r)
	}
	b.agent.Folders, b.agent.Socket = nil, "/nowhere"
	var u *Unusable
	if r, err := b.sandbox.RunAgent(t.Context(), b.agent); !errors.As(err, &u) || !strings.Contains(u.Why, "/nowhere") {
		t.Errorf("without its socket the agent ran: %+v, %v", r, err)
	}
}

// TestAgentDeadline: an agent has the time of grace to end, and no more; one whose run is cancelled has none.
func TestAgentDeadline(t *testing.T) {
	b := newAgentBench(t, sandbox(t))
	const over = "stopped: its time was over"
	for script, want := range map[string]AgentResult{
		"trap 'echo >saved; exit 3' TERM; (setsid sleep 98761 &); echo running; while :; do sleep 0.01; done": {Ended: trajectory.AgentDeadline, Exit: 3, Why: over},
		"echo running; sleep 98764": {Ended: trajectory.AgentDeadline, Exit: -1, Why: over},
	} {
		ctx := newDeadlineOn(t, b.stdout, context.DeadlineExceeded)
		b.agent.Stdout = ctx
		if r := b.run(t, ctx, script); r != want {
			t.Errorf("%s: %+v, %q", script, r, b.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(b.agent.Workspace, "saved")); err != nil {
		t.Error(err)
	}
	b.agent.Grace = time.Millisecond
	for _, script := range []string{daemons + "while :; do sleep 98764; done", "kill -STOP $PPID; " + daemons + "sleep 98764"} {
		ctx := newDeadlineOn(t, b.stdout, context.DeadlineExceeded)
		b.agent.Stdout = ctx
		if r := b.run(t, ctx, script); r != (AgentResult{Ended: trajectory.AgentDeadline, Exit: -1, Why: over + ", and it did not end within 1ms of SIGTERM"}) {
			t.Errorf("%s: %+v, %q", script, r, b.stderr)
		}
	}
	b.agent.Grace = time.Hour
	ctx := newDeadlineOn(t, b.stdout, context.Canceled)
	b.agent.Stdout, b.agent.Command = ctx, []string{"/bin/sh", "-c", marked(daemons+"sleep 98764", mark())}
	if r, err := b.sandbox.RunAgent(ctx, b.agent); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
	if left := processesWith(t, "98761", "98762", "98763", "98764"); left != "" {
		t.Errorf("%q is left", left)
	}
}

// TestAgentLimits: an agent that uses too much is stopped, and nothing is left of it.
func TestAgentLimits(t *testing.T) {
	long.NotRaced(t)
	s := sandbox(t)
	for name, c := range map[string]struct{ script, ended, why string }{
		"fork bomb":       {`while :; do (setsid sleep 98761 &); done`, trajectory.AgentProcesses, "more than 64 processes"},
		"memory":          {`head -c 600M /dev/zero | tail -c 600M | sleep 98764`, trajectory.AgentMemory, "more than 512 MiB of memory"},
		"temporary files": {`for i in 1 2 3; do head -c 200M /dev/zero >/tmp/f$i; done; sleep 98764`, trajectory.AgentMemory, "more than 512 MiB of memory"},
		"both":            {`head -c 240M /dev/zero >/tmp/a; head -c 250M /dev/zero >/dev/shm/b; head -c 80M /dev/zero >/tmp/home/c; sleep 98764`, trajectory.AgentMemory, "more than 512 MiB of memory"},
		"disk":            {`for i in 1 2 3 4 5; do head -c 1G /dev/zero >f$i & done; wait; sleep 98764`, trajectory.AgentDisk, "its files took more than 64 MiB"},
		"deleted":         {`exec 8>a; rm a; head -c 100M /dev/zero >&8; sleep 98764`, trajectory.AgentDisk, "its files took more than 64 MiB"},
		"preallocated":    {`: >f; fallocate -n -l 100M f; sleep 98764`, trajectory.AgentDisk, "its files took more than 64 MiB"},
		"files":           {`i=0; while [ $i -lt 1000000 ]; do : >f$i; i=$((i+1)); done`, trajectory.AgentDisk, "the workspace had more than 1000 files"},
		"deep folders":    {`while mkdir d; do cd d; done; sleep 98764`, trajectory.AgentDisk, "folders more than 64 deep"},
		"names":           {`cd /tmp; seq 1000000 | xargs touch; sleep 98764`, trajectory.AgentDisk, "more than 100000 temporary files"},
	} {
		switch name { // the limits of which have another case, which is quicker
		case "temporary files", "both", "disk", "preallocated":
			if !long.Thorough() {
				continue
			}
		}
		t.Run(name, func(t *testing.T) {
			b := newAgentBench(t, s)
			if r := b.run(t, t.Context(), c.script); r.Ended != c.ended || r.Exit != -1 || !strings.Contains(r.Why, c.why) {
				t.Errorf("%+v, %q", r, b.stderr)
			}
		})
	}
}

// TestAgentOutput: what an agent writes is passed on as it comes, and nothing of it is kept.
func TestAgentOutput(t *testing.T) {
	b := newAgentBench(t, sandbox(t))
	var out, errs counter
	b.agent.Stdout, b.agent.Stderr = &out, &errs
	if r := b.run(t, t.Context(), "head -c 300M /dev/zero; head -c 300M /dev/zero >&2"); r.Exit != 0 || out != 300<<20 || errs != 300<<20 {
		t.Errorf("%+v: %d and %d bytes", r, out, errs)
	}
}

// A counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// TestAgentOfKilledParent: kill -9 of the process that runs an agent leaves nothing of it, and nothing of a sandbox that
// is being made.
func TestAgentOfKilledParent(t *testing.T) {
	s := sandbox(t)
	self, err := os.Executable()
	must(t, err)
	killed := func(after string, later time.Duration) {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), self, "run-agent", s.bwrap, dir, mark())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if _, err := io.ReadFull(out, make([]byte, len(after))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(later)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		goneFromHost(t, dir, "98761"+mark(), "98762"+mark(), "98763"+mark(), "98764"+mark())
	}
	killed("begun\nrunning\n", 0)
	for i := 0; i < 100; i += long.Step(10) { // which lasts for some 10 ms
		killed("begun\n", time.Duration(i)*100*time.Microsecond)
	}
}

// TestAgentConnections: an agent reaches the server of its socket, by many connections at once that stream, and by the
// socket itself.
func TestAgentConnections(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("the system has no python3")
	}
	b := newAgentBench(t, sandbox(t))
	b.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for range 3 {
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	const client = `
import http.client, os, socket, threading
def ask(i):
    c = http.client.HTTPConnection('` + AgentAddress + `')
    for again in range(2):
        c.request('POST', '/v1/responses', str(i))
        got.append(c.getresponse().read() == b'data: %d\n\n' % i * 3)
got = []
threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
for t in threads: t.start()
for t in threads: t.join()
print(len(got), all(got))
s = socket.socket(socket.AF_UNIX)
s.connect('/run/gaia/socket')
s.sendall(b'GET / HTTP/1.0\r\n\r\n')
print(s.recv(12))
for address in (('127.0.0.1', 1), ('192.0.2.1', 80), ('10.0.0.1', 80)):
    try: socket.create_connection(address, 5)
    except OSError as e: print(e.strerror)
`
	if r := b.run(t, t.Context(), `exec python3 -c "$1"`, client); b.stdout.String() != "128 True\nb'HTTP/1.0 200'\nConnection refused\nNetwork is unreachable\nNetwork is unreachable\n" {
		t.Errorf("%+v, %q, %q", r, b.stdout, b.stderr)
	}
	b.agent.Network = true
	if r := b.run(t, t.Context(), `exec python3 -c "$1"`, `
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect('/run/gaia/socket')
print(os.readlink('/proc/self/ns/net'))`); b.stdout.String() != readlink(t, "/proc/self/ns/net")+"\n" {
		t.Errorf("%+v, %q, %q", r, b.stdout, b.stderr)
	}
}

func readlink(t testing.TB, name string) string {
	t.Helper()
	target, err := os.Readlink(name)
	must(t, err)
	return target
}

// TestAgentSees: an agent sees its folders wherever they lie, and nothing of the run, of other attempts or of this machine,
// though it looks for it.
func TestAgentSees(t *testing.T) {
	o := plant(t)
	home := filepath.Join(o.dir, "home", "agent")
	given := []string{filepath.Join(o.dir, "runs", "r1", "given"), filepath.Join(home, ".local", "lib"), filepath.Join(o.dir, "opt", "agent")}
	for _, dir := range given {
		must(t, os.MkdirAll(filepath.Join(dir, "keys"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "own"), []byte("own\n"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "keys", "signing"), []byte(canary), 0o644))
	}
	sockets := t.TempDir()
	for _, name := range []string{"a1", "a2"} {
		l, err := net.Listen("unix", filepath.Join(sockets, name))
		must(t, err)
		defer l.Close()
	}
	hidden := append(o.hidden(), sockets)
	for _, dir := range given {
		hidden = append(hidden, filepath.Join(dir, "keys"))
	}
	b := newAgentBench(t, sandbox(t, hidden...))
	b.agent.Workspace, b.agent.Socket, b.agent.Folders = o.workspace, filepath.Join(sockets, "a1"), given
	before := o.tree(t)
	r := b.run(t, t.Context(), `
victim=$1; shift
for d; do cat $d/own; done
grep -rIls brellin-canary-471[1] / --exclude-dir=proc --exclude-dir=usr --exclude-dir=dev
grep -ls brellin-canary-471[1] /proc/[0-9]*/environ /proc/[0-9]*/cmdline
find / -path /proc -prune -o -path /usr -prune -o -name socket -print -o -name events.jsonl -print -o -name a1 -print -o -name a2 -print
ls -A /root /opt /mnt /srv /var 2>/dev/null
for f in /work/../x /usr/x /etc/passwd /run/gaia/x $1/x; do (: >>$f) 2>/dev/null && echo "wrote $f"; done
(kill -9 $victim || unshare -U true || mount -t tmpfs x /tmp) 2>/dev/null && echo escaped
ls /run/gaia
head -c 4 /run/gaia/gaia /proc/$PPID/exe 2>/dev/null || readlink /proc/$PPID/exe /proc/$PPID/fd/*
rm -rf /work/* /run $1 2>/dev/null
echo end`, append([]string{fmt.Sprint(o.victim.Process.Pid)}, given...)...)
	if want := strings.Repeat("own\n", len(given)) + "/run/gaia/socket\ngaia\nsocket\nend\n"; r.Exit != 0 || b.stdout.String() != want {
		t.Errorf("%+v, %q, %q", r, b.stdout, b.stderr)
	}
	if o.tree(t) != before {
		t.Error("what is outside has changed")
	}
}

// TestAgentUnconfined: without a sandbox an agent has its time, its streams and its working folder, and its group ends with
// it.
func TestAgentUnconfined(t *testing.T) {
	b := newAgentBench(t, nil)
	b.agent.Stdin, b.agent.Env = []byte("what is it?\n"), []string{"GAIA_MODEL=m"}
	run := func(ctx context.Context, script string) (AgentResult, error) {
		b.stdout.Reset()
		b.agent.Command = []string{"/bin/sh", "-c", marked(script, mark())}
		return RunAgentUnconfined(ctx, b.agent)
	}
	t.Setenv("GAIA_CANARY_KEY", canary)
	for script, want := range map[string]struct {
		code   int
		stdout string
	}{
		"cat; pwd; echo $GAIA_MODEL$GAIA_CANARY_KEY; exit 7": {7, "what is it?\n" + b.agent.Workspace + "\nm\n"},
		"kill -9 $$":                       {-1, ""},
		"sleep 98771 & echo; exec sleep 0": {0, "\n"},
	} {
		if r, err := run(t.Context(), script); err != nil || r.Ended != trajectory.AgentExited || r.Exit != want.code || b.stdout.String() != want.stdout {
			t.Errorf("%s: %+v, %v, %q", script, r, err, b.stdout)
		}
	}
	b.agent.Grace = time.Millisecond
	ctx := newDeadlineOn(t, b.stdout, context.DeadlineExceeded)
	b.agent.Stdout = ctx
	if r, err := run(ctx, "trap '' TERM; echo running; while :; do sleep 98772; done"); err != nil || r.Ended != trajectory.AgentDeadline || r.Exit != -1 {
		t.Errorf("%+v, %v", r, err)
	}
	goneFromHost(t, "98771"+mark(), "98772"+mark())
	b.agent.Command = []string{"/nowhere/agent"}
	if r, err := RunAgentUnconfined(t.Context(), b.agent); err != nil || r.Ended != trajectory.AgentNotStarted || !strings.Contains(r.Why, "no such file") {
		t.Errorf("%+v, %v", r, err)
	}
}

// BenchmarkAgent is an agent that does nothing, from its start to the end of its sandbox.
func BenchmarkAgent(b *testing.B) {
	bench := newAgentBench(b, sandbox(b))
	bench.serve(b, http.NotFoundHandler())
	for b.Loop() {
		if r := bench.run(b, b.Context(), "exit 0"); r.Exit != 0 {
			b.Fatal(r)
		}
	}
}

// BenchmarkAgentWatch is one look at an agent of four processes.
func BenchmarkAgentWatch(b *testing.B) {
	bench := newAgentBench(b, sandbox(b))
	for i := range 20 {
		must(b, os.WriteFile(filepath.Join(bench.agent.Workspace, fmt.Sprint(i)), nil, 0o644))
	}
	ctx, cancel := context.WithCancel(b.Context())
	started, ended := newDeadlineOn(b, bench.stdout, context.Canceled), make(chan struct{})
	bench.agent.Stdout, bench.agent.Command = started, []string{"/bin/sh", "-c", "sleep 600 & sleep 600 & sleep 600 & echo; wait"}
	go func() {
		defer close(ended)
		_, _ = bench.sandbox.RunAgent(ctx, bench.agent)
	}()
	<-started.Done()
	root, err := os.OpenRoot(bench.agent.Workspace)
	must(b, err)
	children := below(os.Getpid(), nil, 1)
	w := NewWatch(children[0], true, &tools.Folder{Root: root}, time.Hour)
	for b.Loop() {
		if why := w.Look(); why != "" {
			b.Fatal(why)
		}
	}
	cancel()
	<-ended
}
