package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/sync/errgroup"
)

// interpreter finds the Python of this machine, or skips.
func interpreter(t testing.TB) Interpreter {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 on this machine, so no code is run")
	}
	i, err := FindInterpreter(t.Context(), path, []string{"PATH=" + os.Getenv("PATH")})
	must(t, err)
	return i
}

// pythonBench is the tool with its workspace.
type pythonBench struct {
	tools.Tool
	env *tools.Env
	dir string // the workspace
}

func benchPython(t testing.TB, tool tools.Tool) pythonBench {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	b := pythonBench{tool, &tools.Env{Root: &tools.Folder{Root: root}, Kept: &tools.Kept{}}, dir}
	t.Cleanup(func() {
		must(t, b.env.Kept.Close())
		must(t, root.Close())
	})
	return b
}

func (b pythonBench) Run(t testing.TB, code string, seconds int) tools.Output {
	t.Helper()
	args := object{"code": code}
	if seconds > 0 {
		args["timeout_s"] = seconds
	}
	text, err := json.Marshal(args)
	must(t, err)
	out, err := callTool(t.Context(), b.Tool, b.env, text)
	if err != nil {
		t.Fatalf("python: %v", err)
	}
	return out
}

func TestPython(t *testing.T) {
	i := interpreter(t)
	for name, tool := range map[string]tools.Tool{"unconfined": NewUnsafePython(i), "confined": nil} {
		t.Run(name, func(t *testing.T) {
			if tool == nil {
				tool = NewPython(sandbox(t), i)
			}
			b := benchPython(t, tool)
			must(t, os.WriteFile(filepath.Join(b.dir, "table.csv"), []byte("a,b\n1,2\n"), 0o444))
			for _, c := range []struct{ code, want string }{
				{"print(6 * 7)", "[python: finished]\n42\n"},
				{"x = 20\nx + 1", "[python: finished]\n21\n"},
				{"_ * 2 + x", "[python: finished]\n62\n"},
				{"x = 1", "[python: finished]\n(no output)\n"},
				{"None", "[python: finished]\n(no output)\n"},
				{"import sys; print('a'); print('b', file=sys.stderr); print('c')", "[python: finished]\na\nb\nc\n"},
				{"import subprocess; print('first'); subprocess.run(['echo', 'second']).returncode", "[python: finished]\nfirst\nsecond\n0\n"},
				{"open('table.csv').read()", "[python: finished]\n'a,b\\n1,2\\n'\n"},
				{"open('made.txt', 'w').write('new')", "[python: finished; files now in the workspace that changed: made.txt (3 bytes)]\n3\n"},
				{"import os; os.makedirs('d'); open('d/x y', 'w').close(); open('d/\\n', 'w').close(); os.symlink('x', 'd/z')", "[python: finished; files now in the workspace that changed: \"d/\\n\" (0 bytes), d/x y (0 bytes), d/z (not a regular file)]\n(no output)\n"},
				{"def f():\n    return 1 / 0\nf()", "[python: ended with an exception]\nTraceback (most recent call last):\n  File \"<call 11>\", line 3, in <module>\n    f()\n  File \"<call 11>\", line 2, in f\n    return 1 / 0\n"},
				{"x +", "[python: ended with an exception]\n  File \"<call 12>\", line 1\n    x +\n"},
				{"import sys; sys.exit('gone')", "[python: ended with an exception]\nSystemExit: gone\n"},
				{"raise SystemExit", "[python: finished]\n(no output)\n"},
				{"input()", "[python: ended with an exception]\nTraceback"},
				{"open('lib.py', 'w').write('y = 5'); import lib; lib.y", "[python: finished; files now in the workspace that changed: lib.py (5 bytes)]\n5\n"},
				{"x, sys.argv", "[python: finished]\n(1, [''])\n"},
				{"print('\\ud800 \\x00')", "[python: finished]\n\\ud800 \x00\n"},
				{"class A:\n  def __repr__(self): raise ValueError('no')\nA()", "ValueError: no"},
				{"import pickle; pickle.loads(pickle.dumps(A())).__class__ is A", "[python: finished]\nTrue\n"},
				{"import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait(); print('parent')", "[python: finished]\nchild\nparent\n"},
				{"import multiprocessing as m\ndef g(x): return x * x\nwith m.get_context('fork').Pool(2) as p: print(p.map(g, [1, 2, 3]))", "[python: finished]\n[1, 4, 9]\n"},
				{"import os; os.close(0); os.close(1); os.close(2); sys.stdout = None", "[python: finished]\n(no output)\n"},
				{"print('still here')", "[python: finished]\nstill here\n"},
				{"def r(): r()\nr()", "RecursionError: maximum recursion depth exceeded"},
				{"x" + strings.Repeat(" + 1", 3), "[python: finished]\n4\n"},
			} {
				out := b.Run(t, c.code, 0)
				if !strings.Contains(out.Shown, c.want) || strings.HasPrefix(c.want, "[") != strings.HasPrefix(out.Shown, c.want) {
					t.Errorf("%s\n gives %q\n not   %q", c.code, out.Shown, c.want)
				}
				if out.IsError != strings.Contains(out.Shown, "ended with an exception") {
					t.Errorf("%s: an error is %v: %q", c.code, out.IsError, out.Shown)
				}
				if strings.Contains(out.Shown, "<string>") {
					t.Errorf("%s shows the driver: %q", c.code, out.Shown)
				}
			}
		})
	}
}

func TestPythonArguments(t *testing.T) {
	b := benchPython(t, NewUnsafePython(Interpreter{Path: "/nowhere", Version: "3.9.1"}))
	for seconds, want := range map[int]string{61: "timeout_s is 61; give seconds from 1 to 60", -1: "timeout_s is -1"} {
		text, err := json.Marshal(object{"code": "1", "timeout_s": seconds})
		must(t, err)
		out, err := callTool(t.Context(), b.Tool, b.env, text)
		must(t, err)
		mustHold(t, "a time", out.Shown, want)
	}
	mustHold(t, "long code", b.Run(t, strings.Repeat("#", pythonCode+1), 0).Shown, "error: the code has 262145 bytes; 262144 are the most")
	if gate, err := tools.NewGate(tools.GateConfig{}, b.Tool); err != nil || !gate.Writes() {
		t.Error("it is said not to write")
	}
}

// Calls of one turn run one after the other, in one process.
func TestPythonAtOnce(t *testing.T) {
	b := benchPython(t, NewPython(sandbox(t), interpreter(t)))
	b.Run(t, "n = 0", 0)
	var all errgroup.Group
	for range 5 {
		all.Go(func() error {
			_, err := callTool(t.Context(), b.Tool, b.env, []byte(`{"code":"m = n\nimport time\ntime.sleep(0.02)\nn = m + 1"}`))
			return err
		})
	}
	must(t, all.Wait())
	mustHold(t, "the count", b.Run(t, "n", 0).Shown, "[python: finished]\n5\n")
}

// An attempt without files has a folder all the same, and a call that is
// interrupted is no result.
func TestPythonWithoutWorkspace(t *testing.T) {
	env := &tools.Env{Kept: &tools.Kept{}}
	defer env.Kept.Close()
	b := pythonBench{NewPython(sandbox(t), interpreter(t)), env, ""}
	mustHold(t, "a file", b.Run(t, "open('x', 'w').write('abc'); open('x').read()", 0).Shown, "[python: finished]\n'abc'\n")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := callTool(ctx, b.Tool, env, []byte(`{"code":"while True: pass"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted call: %v", err)
	}
}

// What is long is kept whole up to a limit, and shown from both ends.
func TestPythonOutput(t *testing.T) {
	b := benchPython(t, NewPython(sandbox(t), interpreter(t)))
	out := b.Run(t, "for i in range(20000): print('line', i)", 0)
	mustHold(t, "long output", out.Shown, "[python: finished]\nline 0\n", "bytes in the middle are not shown", "line 19999\n")
	if strings.Count(out.Document, "\n") != 20000 || len(out.Shown) > tools.PageRunes+300 {
		t.Errorf("%d lines, %d bytes shown", strings.Count(out.Document, "\n"), len(out.Shown))
	}
	out = b.Run(t, "import sys\nsys.stdout.write('é' * 3000000)\nprint('end')", 0)
	mustHold(t, "a flood", out.Shown, "bytes of its output in the middle are lost: it wrote more than 1048576", "end\n")
	if len(out.Document) > pythonDocument+1000 || !utf8.ValidString(out.Document) {
		t.Errorf("the document has %d bytes", len(out.Document))
	}
}

// BenchmarkPythonStart is a first call, with the start of its process.
func BenchmarkPythonStart(b *testing.B) {
	p := &python{sandbox: sandbox(b), interpreter: interpreter(b)}
	for b.Loop() {
		s := newPythonSession(p, nil)
		if _, err := s.call(b.Context(), "1 + 1", pythonTime); err != nil {
			b.Fatal(err)
		}
		must(b, s.Close())
	}
}

// BenchmarkPythonCall is a call of a process that runs.
func BenchmarkPythonCall(b *testing.B) {
	s := newPythonSession(&python{sandbox: sandbox(b), interpreter: interpreter(b)}, nil)
	defer s.Close()
	for b.Loop() {
		if _, err := s.call(b.Context(), "1 + 1", pythonTime); err != nil {
			b.Fatal(err)
		}
	}
}

// How a call ended stands in the document, since of what is shown the evidence
// has no more than a digest.
func TestPythonDocument(t *testing.T) {
	said := captured{}
	said.add([]byte("so far\n"))
	for _, c := range []struct {
		result pythonResult
		want   string
	}{
		{pythonResult{captured: said, status: "ok"}, "so far\n"},
		{pythonResult{captured: said, status: "raised"}, "[python: ended with an exception]\nso far\n"},
		{pythonResult{captured: said, status: "lost", why: "stopped after 1s", files: true},
			"[python: stopped after 1s; variables and imports are lost, files are kept, and the next call starts afresh]\nso far\n"},
		{pythonResult{status: "lost", why: "stopped after 1s"},
			"[python: stopped after 1s; variables, imports and files are lost, and the next call starts afresh]\n"},
	} {
		out := c.result.output(nil)
		if out.Document != c.want {
			t.Errorf("%s: the document is %q, not %q", c.result.status, out.Document, c.want)
		}
		if strings.Count(out.Shown, "[python: ") != 1 || !strings.HasPrefix(out.Shown, "[python: ") {
			t.Errorf("%s: shown is %q", c.result.status, out.Shown)
		}
	}
	late := benchPython(t, NewUnsafePython(interpreter(t))).Run(t, "print('so far')\nwhile True: pass", 1)
	mustHold(t, "the document of a call that ran too long", late.Document, "[python: ", "so far\n")
}

// TestPythonShowsLines: a traceback shows the lines of this call and of earlier
// ones, though the driver imports what shows them late, and there is one when no
// file can be opened for that.
func TestPythonShowsLines(t *testing.T) {
	b := benchPython(t, NewPython(sandbox(t), interpreter(t)))
	b.Run(t, "def grind():\n    raise ValueError('no sacks')", 0)
	for _, code := range []string{"grind()", "import traceback\ntry: grind()\nexcept ValueError: traceback.print_exc()"} {
		if got := b.Run(t, code, 0).Shown; !strings.Contains(got, "    raise ValueError('no sacks')") {
			t.Errorf("%q shows %s", code, got)
		}
	}
	b = benchPython(t, NewPython(sandbox(t), interpreter(t)))
	if got := b.Run(t, "held = []\nwhile True: held.append(open('/dev/null'))", 0).Shown; !strings.Contains(got, "OSError: [Errno 24]") {
		t.Errorf("without descriptors it shows %s", got)
	}
	if got := b.Run(t, "held.clear()\nprint('freed, without a traceback')", 0).Shown; !strings.Contains(got, "freed") {
		t.Errorf("a call that is to free descriptors shows %s", got)
	}
}
