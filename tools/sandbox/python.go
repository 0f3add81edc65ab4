package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json"
)

// Limits of the tool python, besides those of what is watched and of a workspace.
const (
	pythonTime     = 60 * time.Second // a call
	pythonOpen     = 256              // files open in a process
	pythonCode     = 256 << 10        // bytes
	pythonDocument = 1 << 20          // bytes of output that are kept
	pythonTail     = 64 << 10         // of them the last, which have the traceback
	pythonListed   = 20               // changed files that are named
)

type pythonArgs struct {
	Code     string `json:"code"`
	TimeoutS int    `json:"timeout_s,omitzero"`
}

// NewPython makes python, which runs code in the sandbox.
func NewPython(s *Sandbox, i Interpreter) tools.Tool {
	return newPython(&python{sandbox: s, interpreter: i},
		"in the workspace without a network")
}

// NewUnsafePython makes python without a sandbox: code has this machine and its
// network.
func NewUnsafePython(i Interpreter) tools.Tool {
	return newPython(&python{interpreter: i},
		"in the workspace")
}

func newPython(p *python, where string) tools.Tool {
	description := fmt.Sprintf("Runs Python %s %s; shows prints and a last expression, keeps variables.", p.interpreter.Version, where)
	return tools.Define(tools.Definition[pythonArgs]{Name: "python", Description: description, Run: p.run, Writes: true})
}

// FindPython returns the Python at a path once it has run a line of code as the
// tool would, without a sandbox where s is nil. It asks one outside of the system's
// folder what it is before ([FindInterpreter]); the system's own is in every sandbox,
// and says so itself. An error that is [*Unusable] says why the tool would not work.
func FindPython(ctx context.Context, s *Sandbox, path string, env []string) (Interpreter, error) {
	if s != nil && filepath.Dir(path) == systemPrograms {
		i := Interpreter{Path: path}
		if err := i.run(ctx, s); err == nil && i.recent() {
			return i, nil
		}
	}
	i, err := FindInterpreter(ctx, path, env)
	if err != nil {
		return i, err
	}
	tried := Interpreter{Path: i.Path, Required: i.Required}
	if err = tried.run(ctx, s); ctx.Err() != nil {
		return i, ctx.Err()
	}
	if err == nil && tried.Version != i.Version {
		err = errors.New("it is another one there")
	}
	if err != nil {
		return i, &Unusable{fmt.Sprintf("Python %s does not work in the sandbox: %s", i.Version, tools.Clipped(err.Error())),
			"use a Python whose files lie below its own folders, such as the one of the system"}
	}
	return i, nil
}

// systemPrograms is the folder of the system's programs, which each sandbox has.
const systemPrograms = "/usr/bin"

// run asks an interpreter for its version by a line of code.
func (i *Interpreter) run(ctx context.Context, s *Sandbox) error {
	session := newPythonSession(&python{sandbox: s, interpreter: *i}, nil)
	defer session.Close()
	got, err := session.call(ctx, "import sys; print(*sys.version_info[:3], sep='.')", pythonTime)
	if err != nil {
		return err
	}
	version, whole := strings.CutSuffix(got.text(), "\n")
	if got.status != "ok" || !whole {
		return errors.New("it does not answer")
	}
	i.Version = version
	return nil
}

// python is the tool without an attempt.
type python struct {
	sandbox     *Sandbox // nil: unconfined
	interpreter Interpreter
}

func (p *python) run(ctx context.Context, env *tools.Env, a pythonArgs) (tools.Output, error) {
	timeout := time.Duration(a.TimeoutS) * time.Second
	switch {
	case timeout == 0:
		timeout = pythonTime
	case timeout < 0 || timeout > pythonTime:
		return tools.Failed("timeout_s is %d; give seconds from 1 to %d", a.TimeoutS, pythonTime/time.Second), nil
	}
	if len(a.Code) > pythonCode {
		return tools.Failed("the code has %d bytes; %d are the most, so write what is long to a file in parts", len(a.Code), pythonCode), nil
	}
	known, err := env.Kept.Get("python", func() (io.Closer, error) { return newPythonSession(p, env.Root), nil })
	if err != nil {
		return tools.Output{}, err
	}
	session := known.(*pythonSession)
	session.mu.Lock() // a turn may ask for several calls at once
	defer session.mu.Unlock()
	before := listing(env.Root)
	result, err := session.call(ctx, a.Code, timeout)
	if err != nil {
		return tools.Output{}, err
	}
	result.files = env.Root != nil
	return result.output(before.changed(listing(env.Root))), nil
}

// pythonResult is the result of a call.
type pythonResult struct {
	captured
	status string // "ok", "raised", or "lost": the process is gone
	why    string // it is
	files  bool   // those of the workspace are there without it
}

// output is the result for the model. The document is what the code wrote, after how it
// ended where it failed: of Shown, the evidence has no more than a digest.
func (r pythonResult) output(changed []string) tools.Output {
	about := map[string]string{"ok": "finished", "raised": "ended with an exception"}[r.status]
	if r.status == "lost" {
		about = r.why + "; variables and imports are lost, files are kept, and the next call starts afresh"
		if !r.files {
			about = r.why + "; variables, imports and files are lost, and the next call starts afresh"
		}
	}
	notes := []string{"python: " + about}
	if n := r.lost(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes of its output in the middle are lost: it wrote more than %d", n, pythonDocument))
	}
	if len(changed) > 0 {
		named := changed[:min(len(changed), pythonListed)]
		note := "files now in the workspace that changed: " + strings.Join(named, ", ")
		if more := len(changed) - len(named); more > 0 {
			note += fmt.Sprintf(" and %d more", more)
		}
		notes = append(notes, note)
	}
	document := strings.ToValidUTF8(r.text(), "\ufffd")
	head, shown := "["+strings.Join(notes, "; ")+"]\n", document
	if r.status != "ok" {
		document = "[python: " + about + "]\n" + document
	}
	if shown == "" {
		shown = "(no output)\n"
	}
	if utf8.RuneCountInString(shown) > tools.PageRunes {
		from, to := tools.RuneOffset(shown, tools.PageRunes*3/4), len(shown)
		for range tools.PageRunes / 4 {
			_, size := utf8.DecodeLastRuneInString(shown[:to])
			to -= size
		}
		shown = fmt.Sprintf("%s\n[%d bytes in the middle are not shown: print less, or write it to a file and look into that with read_file]\n%s",
			shown[:from], to-from, shown[to:])
	}
	return tools.Output{Document: document, Shown: head + shown, IsError: r.status != "ok"}
}

// captured is output of which the middle is lost when there is too much.
type captured struct {
	head, tail []byte
	total      int
}

func (c *captured) add(b []byte) {
	c.total += len(b)
	n := min(len(b), pythonDocument-pythonTail-len(c.head))
	c.head = append(c.head, b[:n]...)
	c.tail = append(c.tail, b[n:]...)
	if extra := len(c.tail) - pythonTail; extra > 0 {
		c.tail = slices.Delete(c.tail, 0, extra)
	}
}

func (c *captured) lost() int { return c.total - len(c.head) - len(c.tail) }

func (c *captured) text() string {
	if n := c.lost(); n > 0 {
		return fmt.Sprintf("%s\n[%d bytes are lost]\n%s", c.head, n, c.tail)
	}
	return string(c.head) + string(c.tail)
}

// A fileList is what lies in a workspace, by name.
type fileList map[string]fileState

type fileState struct {
	size     int64
	mode     fs.FileMode
	modified time.Time
}

// listing lists a workspace, up to twice as many files as it may have. It is for words
// alone: what cannot be read is left out.
func listing(root *tools.Folder) fileList {
	list, seen := fileList{}, 0
	_ = root.Walk(func(name string, info fs.FileInfo, err error) error {
		if seen++; seen > tools.MaxNames {
			return fs.SkipAll
		}
		switch {
		case err != nil || info.IsDir() && tools.TooDeep(name):
			return fs.SkipDir
		case !info.IsDir():
			list[name] = fileState{info.Size(), info.Mode(), info.ModTime()}
		}
		return nil
	})
	return list
}

// changed words what is new or other in now.
func (l fileList) changed(now fileList) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] == l[name] {
			continue
		}
		size := tools.Count(int(now[name].size), "byte")
		if !now[name].mode.IsRegular() {
			size = "not a regular file"
		}
		out = append(out, tools.PlainName(name)+" ("+size+")")
	}
	return out
}

// An Interpreter is a Python of this machine.
type Interpreter struct {
	Path     string   // absolute; what a shim leads to
	Version  string   // such as "3.11.7"
	Required []string // files and folders outside of /usr that it does not work without
}

// findTime bounds how long an interpreter may take to say what it is; shims of
// version managers start programs of their own.
const findTime = 20 * time.Second

// identify has an interpreter describe itself. -I keeps other files from answering.
const identify = `import json, os, sys
print(json.dumps({"executable": sys.executable, "version": list(sys.version_info[:3]),
	"prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]}))`

type identity struct {
	Executable string   `json:"executable"`
	Version    []int    `json:"version"`
	Prefixes   []string `json:"prefixes"`
}

// FindInterpreter asks the Python at a path what it is: it may be a shim, or of a
// virtual environment. It gets env and nothing else, such as the PATH and HOME that
// shims need: it may be anything. An error that is [*Unusable] says why it is of no
// use.
func FindInterpreter(ctx context.Context, path string, env []string) (Interpreter, error) {
	if path == "" {
		return Interpreter{}, &Unusable{"python3 is not installed", "install Python 3.8 or later: apt install python3"}
	}
	limited, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "-I", "-c", identify)
	cmd.Env = append([]string{}, env...) // nil would be all that there is
	cmd.WaitDelay = time.Second
	child.Group(cmd)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return Interpreter{}, ctx.Err()
	}
	remedy := "put a Python that works before " + path + " on PATH: apt install python3"
	if err != nil {
		return Interpreter{}, &Unusable{"python3 does not start: " + tools.Clipped(err.Error()), remedy}
	}
	var id identity
	if err := json.Unmarshal(out, &id); err != nil || !filepath.IsAbs(id.Executable) || len(id.Version) != 3 {
		return Interpreter{}, &Unusable{"python3 does not report its version and path", remedy}
	}
	i := Interpreter{id.Executable, strings.Trim(strings.ReplaceAll(fmt.Sprint(id.Version), " ", "."), "[]"), id.required()}
	if !i.recent() {
		return Interpreter{}, &Unusable{"python3 is " + i.Version + ", which is too old", "install Python 3.8 or later: apt install python3"}
	}
	return i, nil
}

// recent reports whether the version is 3.8 or later.
func (i Interpreter) recent() bool {
	var major, minor, patch int
	n, err := fmt.Sscanf(i.Version, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && n == 3 && (major > 3 || major == 3 && minor >= 8)
}

// maxLinks bounds the links that are followed, as the system does.
const maxLinks = 40

// Required lists what must be given to the interpreter: of its prefixes only the
// folders that are Python's, since a virtual environment may be made in a folder
// with other things; and nothing that packages were installed in place from,
// which is someone's project.
func (id identity) required() []string {
	wanted := []string{}
	for _, prefix := range id.Prefixes {
		for _, part := range []string{"bin", "lib", "lib64", "pyvenv.cfg"} {
			wanted = append(wanted, filepath.Join(prefix, part))
		}
	}
	for at, links := id.Executable, 0; links < maxLinks; links++ { // what it leads to, link by link
		if info, err := os.Stat(at); err != nil || info.IsDir() {
			break
		}
		wanted = append(wanted, at)
		target, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
	var needs []string
	for _, p := range wanted {
		contains := func(dir string) bool { _, below := Within(dir, p); return below }
		if _, err := os.Stat(p); err != nil || !filepath.IsAbs(p) || slices.ContainsFunc(append(SystemFolders(), "/usr"), contains) {
			continue
		}
		if !slices.ContainsFunc(needs, contains) {
			needs = append(needs, filepath.Clean(p))
		}
	}
	return needs
}
