package mcp

import (
	"bytes"
	"fmt"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pythonServer is a server that no Go has part in, in the sandbox. It lies in a
// own folder, with what is hidden beside it and below it.
func pythonServer(t *testing.T, hidden ...string) (Server, string) {
	t.Helper()
	python := interpreter(t)
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/mcpserver.py")
	must(t, err)
	given := filepath.Join(dir, "given")
	must(t, os.MkdirAll(filepath.Join(given, "runs"), 0o755))
	must(t, os.WriteFile(filepath.Join(given, "mcpserver.py"), source, 0o644))
	s := sandboxOf(t, append(hidden, filepath.Join(given, "runs"))...)
	return Server{Name: "plain", Command: []string{python.Path, filepath.Join(given, "mcpserver.py")}, Folders: append([]string{given}, python.Required...), Sandbox: s}, dir
}

// TestMCPEscapes: code that runs in a server finds nothing of what is outside
// and changes nothing there. Each row prints "got" if it got out.
func TestMCPEscapes(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "canary of the environment")
	s, dir := pythonServer(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	abstract, err := net.Listen("unix", "@gaia-mcp-escape")
	must(t, err)
	defer abstract.Close()
	for _, name := range []string{"gold.jsonl", "id_ed25519", "verdicts.json", "given/runs/journal.jsonl"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("canary of a file"), 0o644))
	}
	all, env := mcpNamed(t, s), mcpAttempt(t)
	if out := use(t, all["plain__echo"], env, object{"text": "grüße"}); out.Shown != "grüße" {
		t.Fatalf("a server of another make: %q", out.Shown)
	}
	reads := func(path string) string { return "print('got', open(" + mcpQuoted(path) + ").read())" }
	for name, code := range map[string]string{
		"gold":        reads(filepath.Join(dir, "gold.jsonl")),
		"key":         reads(filepath.Join(dir, "id_ed25519")),
		"judge cache": reads(filepath.Join(dir, "verdicts.json")),
		"journal":     reads(filepath.Join(dir, "given/runs/journal.jsonl")),
		"above":       reads(filepath.Join(dir, "given") + "/../gold.jsonl"),
		"root":        reads("/proc/1/root" + filepath.Join(dir, "gold.jsonl")),
		"a link":      "import os; os.symlink(" + mcpQuoted(filepath.Join(dir, "gold.jsonl")) + ", '/tmp/l'); " + reads("/tmp/l"),
		"passwords":   reads("/etc/passwd"),
		"environment": "import os, glob\nfor f in glob.glob('/proc/[0-9]*/environ'):\n if b'canary' in open(f,'rb').read(): print('got')\nif any('canary' in v for v in os.environ.values()): print('got')",
		"processes":   "import glob\nif len(glob.glob('/proc/[0-9]*')) > 3: print('got')",
		"network":     "import socket; socket.create_connection(" + mcpAddress(listener) + ", 5); print('got')",
		"abstract":    "import socket; socket.socket(socket.AF_UNIX).connect('\\0gaia-mcp-escape'); print('got')",
		"names":       "import socket; socket.getaddrinfo('notes.example', 80); print('got')",
		"metadata":    "import socket; socket.create_connection(('169.254.169.254', 80), 5); print('got')",
		"own folder":  "open(" + mcpQuoted(filepath.Join(dir, "given/made")) + ", 'w').write('x'); print('got')",
		"itself":      "open(" + mcpQuoted(filepath.Join(dir, "given/mcpserver.py")) + ", 'a').write('x'); print('got')",
		"outside":     "open(" + mcpQuoted(filepath.Join(dir, "made")) + ", 'w').write('x')", // which is the sandbox's own, see below
		"system":      "open('/usr/bin/made', 'w').write('x'); print('got')",
		"mount":       "import subprocess; print('got' * (subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], capture_output=True).returncode == 0))",
		"user":        "import subprocess; print('got' * (subprocess.run(['unshare', '-U', 'true'], capture_output=True).returncode == 0))",
		"signals":     "import os; os.kill(" + mcpPID() + ", 0); print('got')",
		"disk":        "f = open('/tmp/big', 'wb')\nfor _ in range(300): f.write(bytes(1 << 20))\nf.flush(); print('got')",
	} {
		out := use(t, all["plain__run"], env, object{"code": code})
		if strings.Contains(out.Document, "got") || strings.Contains(out.Document, "canary of") {
			t.Errorf("%s: %s", name, out.Shown)
		}
	}
	for _, name := range []string{"made", "given/made"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made outside", name)
		}
	}
	out := use(t, all["plain__run"], env, object{"code": "import subprocess, time\nfor _ in range(300): subprocess.Popen(['sleep', '86753.5'])\ntime.sleep(100)"})
	mustHold(t, "the end of too many processes", out.Shown, "error: the server was stopped: it ran more than 64 processes; the next call starts it again")
	use(t, all["plain__run"], env, object{"code": "import subprocess; subprocess.Popen(['setsid', 'sleep', '86753.5'])"})
	must(t, env.Kept.Close())
	goneFromHost(t, "86753.5")
}

// TestMCPProcessorTime: what a server may use is of an attempt, however often it is
// started.
func TestMCPProcessorTime(t *testing.T) {
	s, _ := pythonServer(t)
	all, env := mcpNamed(t, s), mcpAttempt(t)
	run := func(code, want string) {
		t.Helper()
		out := use(t, all["plain__run"], env, object{"code": code})
		mustHold(t, "the server", out.Shown, want)
	}
	run("import os, time\nwhile time.process_time() < 0.6: pass\nos._exit(0)", "error: the server ended")
	kept, err := env.Kept.Get("mcp:plain", nil)
	must(t, err)
	conn := kept.(*attemptServer)
	if conn.cpu < 300*time.Millisecond {
		t.Errorf("%v of processor time are counted", conn.cpu)
	}
	run("print('again')", "again")
	if left := conn.live.watch.CPULeft; left != sandbox.LimitCPU-conn.cpu {
		t.Errorf("%v are left", left)
	}
	run("import os; os._exit(0)", "error: the server ended")
	conn.cpu = sandbox.LimitCPU - 2*time.Second
	run("while True: pass", "error: the server was stopped: the attempt used all of its 10m0s of processor time")
	run("print('again')", "error: the server has used all of its 10m0s of processor time in this attempt")
	if conn.starts != 3 {
		t.Errorf("it was started %d times", conn.starts)
	}
}

// TestMCPGiven: a server in the sandbox has the variables and the network that it is given, and says neither
// its secrets nor anything else of what is outside.
func TestMCPGiven(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "canary-of-notes")
	t.Setenv("OPENAI_API_KEY", "canary of the environment")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	connect := "import socket; socket.create_connection(" + mcpAddress(listener) + ", 5).close(); print('got')"
	for name, tt := range map[string]struct {
		network, want string
	}{"host": {NetworkHost, "got"}, "none": {NetworkNone, "Error"}, "default": {"", "Error"}} {
		t.Run(name, func(t *testing.T) {
			s, _ := pythonServer(t)
			s.Network, s.Env = tt.network, map[string]string{"NOTES_TOKEN": "canary-of-notes", "SHORT": "on"}
			all, env := mcpNamed(t, s), mcpAttempt(t)
			spec, network := all["plain__run"].Spec(), NetworkNone
			if tt.network == NetworkHost {
				network = NetworkHost
			}
			if spec.Network != network || !slices.Equal(spec.Env, []string{"NOTES_TOKEN", "SHORT"}) {
				t.Errorf("%+v", spec)
			}
			mustHold(t, "a connection", use(t, all["plain__run"], env, object{"code": connect}).Shown, tt.want)
			out := use(t, all["plain__run"], env, object{"code": "import os\nfor name in sorted(os.environ): print(name, os.environ[name])"})
			mustHold(t, "the environment", out.Shown, "HOME /tmp\nLANG C.UTF-8\n", "NOTES_TOKEN [redacted]\nPATH /usr/bin:/bin\n", "SHORT on\n")
			if strings.Contains(out.Document, "canary") || strings.Contains(out.Document, "OPENAI") {
				t.Errorf("%q", out.Document)
			}
			for _, path := range []string{"/etc/passwd", "/etc/shadow", "/etc/ssl/private"} {
				out := use(t, all["plain__run"], env, object{"code": "import os; print('got' * os.path.exists(" + mcpQuoted(path) + "))"})
				if strings.Contains(out.Document, "got") {
					t.Errorf("it sees %s", path)
				}
			}
		})
	}
}

// TestMCPInterpreterUnseen: a program whose interpreter the sandbox does not show says so, and the folder is
// named.
func TestMCPInterpreterUnseen(t *testing.T) {
	s, dir := pythonServer(t)
	interpreter, script := filepath.Join(dir, "tools/bin/runner"), filepath.Join(dir, "given/notes")
	must(t, os.MkdirAll(filepath.Dir(interpreter), 0o755))
	must(t, os.Symlink("/bin/sh", interpreter))
	must(t, os.WriteFile(script, []byte("#!"+interpreter+"\nexec "+s.Command[0]+" "+s.Command[1]+"\n"), 0o755))
	s.Command = []string{script}
	_, err := s.Tools(t.Context())
	if err == nil || !strings.Contains(err.Error(), "; it wrote to standard error: \"bwrap: execvp ") {
		t.Errorf("%v", err)
	}
	want := fmt.Sprintf("the sandbox does not show it the folder %q, from which %q runs: add it to folders", filepath.Join(dir, "tools"), script)
	if hints := s.Hints(); !slices.Equal(hints, []string{want}) {
		t.Errorf("%q", hints)
	}
	s.Folders = append(s.Folders, filepath.Join(dir, "tools"))
	mcpNamed(t, s)
}

func mcpQuoted(path string) string { return fmt.Sprintf("%q", path) }

func mcpPID() string { return strconv.Itoa(os.Getpid()) }

func mcpAddress(l net.Listener) string {
	host, port, _ := net.SplitHostPort(l.Addr().String())
	return fmt.Sprintf("(%q, %s)", host, port)
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

// interpreter finds the Python of this machine, or skips.
func interpreter(t testing.TB) sandbox.Interpreter {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 on this machine, so no code is run")
	}
	i, err := sandbox.FindInterpreter(t.Context(), path, []string{"PATH=" + os.Getenv("PATH")})
	must(t, err)
	return i
}
