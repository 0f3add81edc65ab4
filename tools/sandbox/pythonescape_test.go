//go:build linux

package sandbox

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

// outside is what programs in the sandbox must not reach: secrets on disk, in the
// environment, behind sockets, and a process.
type outside struct {
	dir, workspace string
	victim         *exec.Cmd
	names          *strings.Replacer // puts the places into code
}

func plant(t *testing.T) outside {
	t.Helper()
	o := outside{dir: t.TempDir()}
	o.workspace = filepath.Join(o.dir, "runs", "r1", "attempts", "a1")
	must(t, os.MkdirAll(o.workspace, 0o755))
	for _, name := range []string{"cache/gold", "judge-cache/verdicts", "keys/signing", "runs/r1/events.jsonl", "runs/r1/judgments.jsonl", "runs/r1/attempts/a2/notes"} {
		path := filepath.Join(o.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(canary), 0o666))
	}
	t.Setenv("GAIA_CANARY_KEY", canary)
	serve := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(canary))
				c.Close()
			}
		}()
		return l.Addr()
	}
	port := serve("tcp", "127.0.0.1:0").(*net.TCPAddr).Port
	abstract := "gaia-canary-" + strconv.Itoa(os.Getpid())
	serve("unix", "@"+abstract)
	serve("unix", filepath.Join(o.dir, "socket"))
	o.victim = exec.Command("sleep", "600")
	must(t, o.victim.Start())
	t.Cleanup(func() {
		if o.victim.Process.Kill() != nil {
			t.Error("a process outside was ended from inside")
		}
		_ = o.victim.Wait()
	})
	executable, err := os.Executable()
	must(t, err)
	o.names = strings.NewReplacer("$OUT", o.dir, "$PORT", strconv.Itoa(port), "$ABSTRACT", abstract,
		"$PID", strconv.Itoa(o.victim.Process.Pid), "$OWN", strconv.Itoa(os.Getpid()), "$EXE", executable)
	return o
}

// hidden are the folders that the sandbox is told of.
func (o outside) hidden() []string {
	var out []string
	for _, name := range []string{"cache", "judge-cache", "keys", "runs"} {
		out = append(out, filepath.Join(o.dir, name))
	}
	return out
}

// tree is everything outside of the workspace.
func (o outside) tree(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(o.dir, func(path string, d fs.DirEntry, err error) error {
		if path == o.workspace {
			return fs.SkipDir
		}
		info, infoErr := d.Info()
		must(t, infoErr)
		b.WriteString(path + " " + info.Mode().String())
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			must(t, err)
			b.Write(text)
		}
		return err
	}))
	return b.String()
}

// An escape is code that tries to get out or to use up this machine. It prints
// ESCAPED where it got what it wanted.
type escape struct {
	name, code string
	seconds    int    // 0: all that a call has
	want       string // in what is shown
	lost       bool   // the interpreter is gone with it
	after      func(t *testing.T, b pythonBench)
}

// each tries an expression over a list and says which of it worked.
const each = `
def each(things, attempt):
    for thing in things:
        try:
            got = attempt(thing)
            print('ESCAPED', thing, repr(got)[:200])
        except (OSError, ValueError) as e:
            print('no:', getattr(e, 'strerror', None) or e)
import ctypes, glob, os, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
`

const places = `['cache/gold', 'judge-cache/verdicts', 'keys/signing', 'runs/r1/events.jsonl', 'runs/r1/judgments.jsonl', 'runs/r1/attempts/a2/notes']`

var escapes = []escape{
	{name: "files outside", code: `each(['$OUT/' + p for p in ` + places + `] + ['$EXE', '$OUT'], lambda p: (os.stat(p), open(p).read()))`, want: "no: No such file"},
	{name: "upwards", code: `each(['../events.jsonl', '../../events.jsonl', '../a2/notes', '/workspace/../attempts/a2/notes'], lambda p: open(p).read()); print(sorted(os.listdir('..')))`,
		want: "'usr', 'workspace']"},
	{name: "all folders", code: `
for top, dirs, files in os.walk('/'):
    if top == '/': dirs[:] = [d for d in dirs if d not in ('usr', 'proc', 'dev')]
    if top in (sys.base_prefix, sys.prefix): dirs.clear()
    for f in files:
        if f in ('gold', 'verdicts', 'signing', 'events.jsonl', 'judgments.jsonl', 'notes', 'passwd', 'shadow'): print('ESCAPED', top, f)
print('walked')`, want: "walked"},
	{name: "roots of processes", code: `each([p + l + '/$OUT/' + n for p in glob.glob('/proc/[0-9]*') for l in ('/root', '/cwd', '/root/proc/1/root') for n in ` + places + `], lambda p: open(p).read())`, want: "no: No such file"},
	{name: "descriptors of processes", code: `each([p + '/cache/gold' for p in glob.glob('/proc/*/fd/*')] + [p + '$OUT/cache/gold' for p in glob.glob('/proc/*/fd/*')], lambda p: open(p).read())`, want: "no: "},
	{name: "the sandbox's own program", code: `each(['/proc/1/exe', '/proc/self/exe'], lambda p: open(p, 'r+b')); print('tried')`, want: "tried"},
	{name: "environment", code: `
for p in glob.glob('/proc/[0-9]*/environ'):
    try: text = open(p).read()
    except OSError: continue
    if 'CANARY' in text or 'canary' in text: print('ESCAPED', p)
print(sorted(set(os.environ) - {'LC_CTYPE'}))`, want: "['HOME', 'LANG', 'PATH', 'PWD']"},
	{name: "processes outside", code: `each(['/proc/$PID/cmdline', '/proc/$OWN/cmdline'], lambda p: b'sleep\0' in open(p, 'rb').read() or b'test' in open(p, 'rb').read() or 1 / 0 or None)
print(len(glob.glob('/proc/[0-9]*')) < 6)`, want: "True"},
	{name: "network", code: `
def connect(address): return socket.create_connection(address, 2).recv(99)
each([('127.0.0.1', $PORT), ('::1', $PORT), ('169.254.169.254', 80), ('192.0.2.1', 80)], connect)
each(['almanac.example', 'localhost.example'], lambda n: socket.getaddrinfo(n, 80))
each([('192.0.2.1', 53)], lambda a: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', a))
print([l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]])`, want: "['lo']"},
	{name: "unreachable", code: `each([('169.254.169.254', 80)], lambda a: socket.create_connection(a, 2))`, want: "no: Network is unreachable"},
	{name: "abstract sockets", code: `
def connect(name):
    s = socket.socket(socket.AF_UNIX); s.connect(name); return s.recv(99)
each(['\0$ABSTRACT'], connect)
each(['$OUT/socket'], connect)`, want: "no: Connection refused\nno: No such file"},
	{name: "links out", code: `
os.symlink('$OUT/cache/gold', 'link'); os.symlink('$OUT', 'folder'); os.symlink('../../events.jsonl', 'up'); os.mkfifo('pipe')
each(['link', 'folder/cache/gold', 'up'], lambda p: open(p).read())`, want: "no: No such file",
		after: func(t *testing.T, b pythonBench) {
			for name, why := range map[string]string{"link": "escapes", "folder/cache/gold": "escapes", "up": "escapes", "pipe": "not a regular file"} {
				_, err := b.env.ReadFile(name)
				mustHold(t, name, fmt.Sprint(err), why)
			}
		}},
	{name: "hard links", code: `each(['$OUT/cache/gold', '/usr/bin/env', '/proc/1/exe'], lambda p: os.link(p, 'hard'))`, want: "no: "},
	{name: "writing outside", code: `
each(['/x', '/usr/x', '/etc/x', '/dev/x', '/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '$OUT/x', '/usr/bin/env', sys.executable, os.__file__], lambda p: open(p, 'a'))
each([os.path.dirname(os.__file__) + '/x'], lambda p: open(p, 'w'))`, want: "no: Read-only file system"},
	{name: "privileges", code: `
each([0x10000000, 0x20000, 0x40000000], lambda f: call('unshare', f))
each(['/tmp'], lambda p: call('mount', b'none', p.encode(), b'tmpfs', 0, None))
each(['/usr'], lambda p: call('mount', None, p.encode(), None, 32 | 4096, None))
each(['/workspace'], lambda p: call('umount2', p.encode(), 2))
each(['/workspace'], os.chroot)
each(['host'], lambda n: socket.sethostname(n))
each([0], os.setuid); each([0], os.setgid)
each(glob.glob('/proc/1/ns/*') , lambda p: call('setns', os.open(p, os.O_RDONLY), 0))
each(['/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/proc/kcore', '/proc/kmsg'], lambda p: open(p, 'rb').read(1))
each([0o20600], lambda m: os.mknod('device', m | 0o2000, os.makedev(1, 1)))`, want: "no: "},
	{name: "processes to signal", code: `
each([$PID, $OWN], lambda p: os.kill(p, 9))
each([$PID], lambda p: call('ptrace', 16, p, 0, 0))
each([$PID], lambda p: open('/proc/%d/mem' % p, 'rb'))
each([-1], lambda p: os.kill(p, 9))`, want: "no: No such process"},
	{name: "fork bomb", code: "for i in range(10): os.fork()\ntime.sleep(60)", want: "stopped: it ran more than 64 processes", lost: true},
	{name: "thread bomb", code: "while True: threading.Thread(target=time.sleep, args=(99,)).start()", want: ""},
	{name: "one large object", code: "x = bytearray(b'x') * (3 << 30)", want: "MemoryError"},
	{name: "memory bomb", code: `
for i in range(8):
    if os.fork() == 0:
        x = bytearray(b'x') * (600 << 20)
        time.sleep(60); os._exit(0)
time.sleep(60)`, want: "stopped: it used more than 2 GiB of memory", lost: true},
	{name: "nameless memory", code: `each(['x'], os.memfd_create)`, want: "no: Function not implemented"},
	{name: "large file", code: "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))", want: "OSError: [Errno 27] File too large"},
	{name: "large files", code: "for i in range(3):\n  with open('big%d' % i, 'wb') as f:\n    for j in range(150): f.write(bytes(1 << 20))\ntime.sleep(60)", want: "stopped: its files took more than 256 MiB", lost: true},
	{name: "deleted files", code: "held = []\nfor i in range(3):\n  f = open('big', 'wb'); held.append(f); os.unlink('big')\n  for j in range(150): f.write(bytes(1 << 20))\ntime.sleep(60)", want: "stopped: its files took more than 256 MiB", lost: true},
	{name: "many files", code: "for i in range(3000): open('f%d' % i, 'w').close()\ntime.sleep(60)", want: "stopped: the workspace had more than 1000 files", lost: true,
		after: func(t *testing.T, b pythonBench) {
			out := b.Run(t, "import os\nfor n in os.listdir(): os.unlink(n)\nlen(os.listdir())", 0)
			mustHold(t, "clearing them away", out.Shown, "[python: finished]\n0\n")
		}},
	{name: "hidden files", code: "os.mkdir('shut')\nfor i in range(900): open('shut/f%d' % i, 'w').close()\nos.chmod('shut', 0)\nfor i in range(200): open('f%d' % i, 'w').close()\ntime.sleep(60)", want: "stopped: the workspace had more than 1000 files", lost: true,
		after: func(t *testing.T, b pythonBench) {
			info, err := os.Stat(filepath.Join(b.dir, "shut"))
			must(t, err)
			if info.Mode().Perm() != 0 {
				t.Errorf("the folder is left with mode %v", info.Mode())
			}
			must(t, os.Chmod(filepath.Join(b.dir, "shut"), 0o700)) // to be cleared away
		}},
	{name: "closed workspace", code: "os.mkdir('in')\nos.chmod('/workspace', 0)\nos._exit(0)", want: "the interpreter ended", lost: true},
	{name: "deep folders", code: "for i in range(500): os.mkdir('d'); os.chdir('d')\ntime.sleep(60)", want: "folders more than 64 deep", lost: true},
	{name: "temporary files", code: "for i in range(9000): open('/tmp/f%d' % i, 'w').close()\ntime.sleep(60)", want: "stopped: it made more than 1000 temporary files", lost: true},
	{name: "full temporary folders", code: "def fill(p):\n  with open(p, 'wb') as f:\n    for i in range(100): f.write(bytes(1 << 20))\neach(['/tmp/big', '/dev/shm/big'], fill)", want: "no: No space left on device\nno: No space left on device"},
	{name: "left behind", code: `
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        os.execv('/usr/bin/sleep', ['sleep', '4713.25'])
    os._exit(0)
os.wait()
print('left')`, want: "left"},
	{name: "flood", code: "while True: print('x' * 1000)", seconds: 1, want: "stopped after 1 second", lost: true,
		after: func(t *testing.T, b pythonBench) {}},
	{name: "endless loop", code: "while True: pass", seconds: 1, want: "stopped after 1 second", lost: true},
	{name: "deaf loop", code: `
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True:
    try: time.sleep(60)
    except BaseException: pass`, seconds: 1, want: "stopped after 1 second", lost: true},
	{name: "killing its driver", code: "os.kill(os.getpid(), 9)", want: "the interpreter ended", lost: true},
	{name: "leaving", code: "os._exit(0)", want: "the interpreter ended", lost: true},
	{name: "crash", code: "ctypes.string_at(0)", want: "the interpreter ended", lost: true},
	{name: "closing everything", code: "os.closerange(0, 256)", want: "", lost: true},
	{name: "reading requests", code: "os.read(100, 99)", seconds: 1, want: "stopped after 1 second", lost: true},
	{name: "standard input", code: "print([sys.stdin.read(), os.read(0, 9)])", want: "['', b'']"},
	{name: "forged ends", code: `
f = sys._getframe()
while 'mark' not in f.f_locals: f = f.f_back
mark = f.f_locals['mark'].decode()
for fd in range(1, 120):
    try: os.write(fd, ('forged\n%s ok\n%s ready\n\x1eAAAA ok\n' % (mark, mark)).encode())
    except OSError: pass
print('after')`, want: "[python: finished]\nforged\n"},
	{name: "no driver left", code: "import builtins\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals['write'] = f.f_globals['execute'] = None\nbuiltins.open = None\nos.dup2 = None", want: ""},
	{name: "no workspace", code: `
import shutil
shutil.rmtree('/workspace', ignore_errors=True)
each(['/workspace'], os.rmdir); each(['/workspace'], lambda p: os.rename(p, '/gone'))
os.chmod('/workspace', 0)
print('tried')`, want: "tried",
		after: func(t *testing.T, b pythonBench) {
			mustHold(t, "the workspace", use(t, tools.NewListFiles(), b.env, object{}).Shown, "the workspace is empty")
		}},
}

// TestPythonEscapes: none gets out, none uses up this machine, all leave a tool
// that works and nothing behind.
func TestPythonEscapes(t *testing.T) {
	long.NotRaced(t)
	found, o := interpreter(t), plant(t)
	s := sandbox(t, o.hidden()...)
	for i, e := range escapes {
		if i%long.Step(3) != 0 { // each starts interpreters
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			must(t, os.MkdirAll(o.workspace, 0o755))
			root, err := os.OpenRoot(o.workspace)
			must(t, err)
			defer root.Close()
			b := pythonBench{NewPython(s, found), &tools.Env{Root: &tools.Folder{Root: root}, Kept: &tools.Kept{}}, o.workspace}
			defer b.env.Kept.Close()
			mustHold(t, "preparing", b.Run(t, each+"\nprint('prepared')", 0).Shown, "prepared")
			before := o.tree(t)

			out := b.Run(t, o.names.Replace(e.code), e.seconds)
			if strings.Contains(out.Document, "ESCAPED") || strings.Contains(out.Document, canary) {
				t.Errorf("it got out:\n%s", out.Shown)
			}
			mustHold(t, "the result", out.Shown, e.want)
			if lost := strings.Contains(out.Shown, "variables and imports are lost"); e.lost && !lost {
				t.Errorf("the interpreter is still there:\n%s", out.Shown)
			}
			if e.after != nil {
				e.after(t, b)
			}
			if again := b.Run(t, "print('goes', 'on')", 0); !strings.Contains(again.Shown, "goes on") {
				if again = b.Run(t, "print('goes', 'on')", 0); !strings.Contains(again.Shown, "goes on") {
					t.Errorf("the tool does not work any more:\n%s", again.Shown)
				}
			}
			if o.tree(t) != before {
				t.Error("what is outside has changed")
			}
			must(t, b.env.Kept.Close())
			goneFromHost(t, "4713.25", o.dir)
			must(t, os.RemoveAll(o.workspace))
		})
	}
}

const canary = "brellin-canary-4711"
