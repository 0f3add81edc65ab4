package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/mcp"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// child is this program as a reader of documents, with what of this machine helps it, in
// the sandbox.
func child(sandbox *sandboxtools.Sandbox) (document.Reader, error) {
	executable, err := os.Executable()
	if err != nil {
		return document.Reader{}, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	return document.Reader{Child: []string{executable, convertName}, Poppler: poppler(sandbox), Memory: new(document.Memory)}, nil
}

const convertName = "convert-document"

// convertCommand is what a run starts to read one document in a process of its
// own. It takes no arguments and is for no one else.
func convertCommand() *cobra.Command {
	return &cobra.Command{
		Use:    convertName,
		Short:  "Read a document for a run (internal)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.Join(document.Convert(os.Stdin, os.Stdout), os.Stdout.Close())
		},
	}
}

// poppler is where poppler's programs are on this machine; nil if none is there.
// They run in the sandbox, if there is one.
func poppler(sandbox *sandboxtools.Sandbox) *document.Poppler {
	p := document.Poppler{Text: onPath("pdftotext"), Pages: onPath("pdftoppm"), Sandbox: sandbox}
	if p.Text == "" && p.Pages == "" {
		return nil
	}
	return &p
}

// confine fills in the sandbox, or why there is none: programs that a run starts
// see nothing of what it keeps to itself.
func (a *app) confine(ctx context.Context, s *runSettings, w *world) error {
	hidden, err := a.hidden(s)
	if err != nil {
		return err
	}
	w.sandbox, w.noSandbox = sandboxtools.NewSandbox(ctx, sandboxtools.SandboxConfig{Bwrap: onPath("bwrap"), Hidden: hidden})
	if w.noSandbox != nil {
		w.sandbox = nil
	}
	return ctx.Err()
}

// hidden lists what no program in the sandbox may see: where answers, keys and
// runs are, and this program, which holds the answers of the built-in tasks.
func (a *app) hidden(s *runSettings) ([]string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to hide it: %w", err)
	}
	paths := []string{executable, "runs", s.runs, a.hubCache(), a.hubHome(), a.expand(a.getenv("HF_TOKEN_PATH")), s.key, a.getenv("GAIA_SIGNING_KEY_FILE")}
	for _, base := range []string{a.xdg("XDG_CONFIG_HOME", ".config"), a.xdg("XDG_CACHE_HOME", ".cache"), a.xdg("XDG_DATA_HOME", ".local/share")} {
		if base != "" {
			paths = append(paths, filepath.Join(base, "gaia"))
		}
	}
	if dir, found := strings.CutPrefix(s.source, sourceDir); found {
		paths = append(paths, dir)
	}
	if _, dir, err := s.tape(); err == nil {
		paths = append(paths, dir)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" }), nil
}

// onPath is the absolute path of a program on PATH, "" if there is none.
func onPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil { // also one in the current folder, which is not to be trusted
		return ""
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}

// forShims is the environment of a program that was found on PATH and is asked what
// it is. It may be a script of a version manager, which needs no more; keys are none
// of its business.
func (a *app) forShims() []string {
	return []string{"PATH=" + a.getenv("PATH"), "HOME=" + a.getenv("HOME")}
}

// addPython adds the tool python where it works and is wanted. A new run goes on
// without it, and says so; a run that was planned with it does not.
func (a *app) addPython(ctx context.Context, s *runSettings, w *world) error {
	if s.python == pythonNo {
		return nil
	}
	tool, err := a.pythonTool(ctx, s.python == pythonUnconfined, w)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && s.python == pythonIfWorks:
		fmt.Fprintf(a.stderr, "gaia: python is not offered: %s ('gaia doctor' says more)\n", view.Line(err.Error()))
		return nil
	case err != nil && s.resumed:
		return fail(exit.Failure, fmt.Errorf("the run was planned with python %s, which does not work here: %w", s.python, err), mending(err), "or start a new run")
	case err != nil:
		return fail(exit.Failure, fmt.Errorf("--unsafe-local-python: %w", err), mending(err))
	}
	w.Tools = append(w.Tools, tool)
	if s.python == pythonUnconfined {
		s.plan.Unconfined = append(s.plan.Unconfined, pythonName)
		a.warn("the model's Python code runs without a sandbox, as you, with your files and network; the run will not be submittable")
	}
	return nil
}

// pythonTool makes the tool once it has run a line of code.
func (a *app) pythonTool(ctx context.Context, unconfined bool, w *world) (tools.Tool, error) {
	if !unconfined && w.noSandbox != nil {
		return nil, w.noSandbox
	}
	interpreter, err := sandboxtools.FindInterpreter(ctx, onPath("python3"), a.forShims())
	if err != nil {
		return nil, err
	}
	if unconfined {
		return sandboxtools.NewUnsafePython(interpreter), sandboxtools.CheckPython(ctx, nil, interpreter)
	}
	return sandboxtools.NewPython(w.sandbox, interpreter), sandboxtools.CheckPython(ctx, w.sandbox, interpreter)
}

// repair is what would repair what cannot be used; "" if that is not known.
func mending(err error) string {
	var u *sandboxtools.Unusable
	if errors.As(err, &u) {
		return u.Remedy
	}
	return ""
}

// addServers starts the MCP servers to ask for their tools, which become the
// run's. It returns what must not be recorded: the values of headers and variables.
func (a *app) addServers(ctx context.Context, w *world, s *runSettings) (secrets []string, err error) {
	if w.sandbox == nil && slices.ContainsFunc(s.servers, func(e settings.Server) bool { return e.URL == "" && !e.Unconfined() }) {
		a.warn(fmt.Sprintf("there is no sandbox for MCP servers: %v ('gaia doctor' says more)", w.noSandbox))
	}
	for _, e := range s.servers {
		server, values, err := a.server(e, s.runs)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
		if e.URL == "" {
			if !e.Unconfined() {
				server.Sandbox = w.sandbox
			}
			if server.Sandbox == nil {
				if err := a.unconfined(s, e); err != nil {
					return nil, err
				}
			}
		}
		if server.Sandbox != nil && e.Network == mcp.NetworkHost {
			if err := a.networked(s, e); err != nil {
				return nil, err
			}
		}
		found, err := server.Tools(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, cannotUse(server, s.serversFrom, err)
		}
		w.Tools = append(w.Tools, found...)
	}
	return secrets, nil
}

// cannotUse is the failure of a server that does not start or says what cannot be used.
func cannotUse(server mcp.MCPServer, settings string, err error) error {
	return &failure{Code: exit.Usage, Err: err, Hints: append(server.Hints(), "correct it, or leave it out of "+settings)}
}

// networked lets a server in the sandbox have the network, if the run may have such.
func (a *app) networked(s *runSettings, e settings.Server) error {
	if s.plan.SubmitIntent {
		return usage("leave out --submit-intent, or 'network: host'", "the MCP server %q would have the network, and nothing records what it reaches, so such a run cannot be submitted", e.Name)
	}
	a.warn(fmt.Sprintf("the MCP server %q has the network: nothing records what it reaches, and the run will not be submittable", e.Name))
	return nil
}

// unconfined lets a server run outside of the sandbox, if the run may have such.
func (a *app) unconfined(s *runSettings, e settings.Server) error {
	if s.plan.SubmitIntent {
		hint := "leave out --submit-intent, or 'sandbox: false'"
		if !e.Unconfined() {
			hint = "'gaia doctor' says what a sandbox needs; or leave out --submit-intent"
		}
		return usage(hint, "the MCP server %q would run outside of the sandbox, so such a run cannot be submitted", e.Name)
	}
	a.warn(fmt.Sprintf("the MCP server %q runs outside of the sandbox: the run will not be submittable", e.Name))
	s.plan.Unconfined = append(s.plan.Unconfined, "mcp:"+e.Name)
	return nil
}

// server settles where what the settings name is on this machine; runs is the
// folder of the runs.
func (a *app) server(e settings.Server, runs string) (mcp.MCPServer, []string, error) {
	server := mcp.MCPServer{Name: e.Name, URL: e.URL, Only: e.Tools, Path: a.getenv("PATH"), Headers: map[string]string{}, Env: map[string]string{}, Network: e.Network, StartTimeout: e.StartTimeout}
	var secrets []string
	for header, variable := range e.Headers {
		value := a.getenv(variable)
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return server, nil, usage("set "+variable, "the MCP server %q is asked with the header %s, whose value %s is not in the environment, or is none", e.Name, header, variable)
		}
		server.Headers[header] = value
		secrets = append(secrets, value)
		if _, credential, found := strings.Cut(value, " "); found { // of "Bearer …" the latter
			secrets = append(secrets, credential)
		}
	}
	if e.URL != "" {
		return server, secrets, nil
	}
	for _, name := range e.Env {
		value := a.getenv(name)
		if value == "" {
			return server, nil, usage("set "+name, "the MCP server %q is to be given the variable %s, which is not in the environment, or is empty", e.Name, name)
		}
		server.Env[name] = value
		secrets = append(secrets, value)
	}
	program, err := exec.LookPath(e.Command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return server, nil, usage("give the path of a program, or the name of one that is on PATH", "the MCP server %q cannot be started: %v", e.Name, err)
	}
	server.Command = append([]string{program}, e.Command[1:]...)
	for _, folder := range e.Folders {
		abs, err := a.folderOf(e.Name, folder, runs)
		if err != nil {
			return server, nil, err
		}
		server.Folders = append(server.Folders, abs)
	}
	return server, secrets, nil
}

// folderDepth is how far below a folder signs of answers are looked for: what a
// cache of the hub keeps of a dataset lies eight below the folder of all caches.
const folderDepth = 8

// folderOf settles a folder that an MCP server may read, and refuses one in which
// it could find answers: those of other runs, or of the dataset.
func (a *app) folderOf(server, folder, runs string) (string, error) {
	abs, err := filepath.Abs(folder)
	resolved := abs
	if err == nil {
		resolved, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", usage("", "the MCP server %q is to be given the folder %q: %v", server, folder, regular.Cause(err))
	}
	why := ""
	for _, kept := range [][2]string{{a.getenv("HOME"), "your home folder"}, {".", "the current folder"}, {runs, "the folder of the runs"}} {
		if kept[0] != "" && holds(resolved, kept[0]) {
			why = kept[1]
			break
		}
	}
	if why == "" {
		why = answersIn(resolved)
	}
	if why != "" {
		return "", usage("give it a folder that has what it needs, and no runs and no copy of the dataset in it",
			"the MCP server %q is to be given the folder %q, in which is %s", server, folder, why)
	}
	return abs, nil
}

// holds reports whether a path is the folder or lies in it. What does not exist yet
// lies where its nearest folder that exists does.
func holds(folder, path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for rest := ""; ; {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			path = filepath.Join(found, rest)
			break
		}
		if path == filepath.Dir(path) {
			break
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// answersIn says what below a folder tells answers, "" if nothing is found. What
// cannot be read the server cannot read either.
func answersIn(folder string) (found string) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		relative, relErr := filepath.Rel(folder, path)
		if err != nil || relErr != nil {
			return nil
		}
		if entry.IsDir() {
			if relative != "." && strings.Count(relative, string(filepath.Separator))+1 >= folderDepth {
				return filepath.SkipDir
			}
			return nil
		}
		name, dir := filepath.Base(path), filepath.Dir(path)
		switch {
		case name == rundir.PrivateFile:
			found = "verdicts of a run"
		case name == plan.EnvelopeFile && exists(filepath.Join(dir, trajectory.JournalFile)):
			found = "a run"
		case strings.HasPrefix(name, "metadata.") && filepath.Base(filepath.Dir(dir)) == "2023":
			found = "a copy of the dataset"
		default:
			return nil
		}
		if relative == "." {
			relative = name
		}
		found += " (" + relative + ")"
		return filepath.SkipAll
	})
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// version is the program's own; the build adds the commit.
const version = "0.2.0"

// harness describes this program: its version, its commit and the digest of its
// executable, which is read once.
var harness = sync.OnceValues(func() (trajectory.Harness, error) {
	h, f, err := thisProgram()
	if err != nil {
		return h, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return h, fmt.Errorf("reading the program's own file: %w", err)
	}
	h.ExecutableSHA256 = canonical.DigestOf(sum)
	return h, nil
})

// thisProgram says which program this is by what was built into it, and opens its
// executable, which the caller must close.
func thisProgram() (trajectory.Harness, *os.File, error) {
	h := trajectory.Harness{Version: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				h.Commit = s.Value
			case "vcs.modified":
				h.Dirty = s.Value == "true"
			}
		}
	}
	path, err := os.Executable()
	if err != nil {
		return h, nil, fmt.Errorf("finding the program's own file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return h, nil, fmt.Errorf("reading the program's own file: %w", err)
	}
	return h, f, nil
}

// secrets returns the values of environment variables whose names say that
// they are secret, to be kept out of everything that is written.
func (a *app) secrets() []string {
	var values []string
	for _, entry := range a.environ {
		name, value, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	return values
}
