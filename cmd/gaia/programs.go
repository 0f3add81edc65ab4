package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/servers"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/mcp"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/spf13/cobra"
)

// child is this program as a reader of documents, with what of this machine helps it, in
// the sandbox.
func child(sandbox *sandboxtools.Sandbox) (document.Reader, error) {
	executable, err := os.Executable()
	if err != nil {
		return document.Reader{}, fmt.Errorf("finding this program, which reads documents: %w", err)
	}
	r := document.Reader{Child: []string{executable, convertName}, Memory: new(document.Memory)}
	if p := (document.Poppler{Text: onPath("pdftotext"), Pages: onPath("pdftoppm"), Sandbox: sandbox}); p.Text != "" || p.Pages != "" {
		r.Poppler = &p // its programs run in the sandbox, if there is one
	}
	return r, nil
}

const convertName = "convert-document"

// convertCommand is what a run starts to read one document in a separate
// process. It takes no arguments and is for no one else.
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

// found are the programs that a run may start.
type found struct {
	sandbox   *sandboxtools.Sandbox // nil: there is none
	noSandbox error                 // why
	python    tools.Tool            // nil: it is not wanted or does not work
	noPython  error                 // why it does not work
}

// findPrograms tries the sandbox and, as it is wanted, Python, beside other work. The
// function that it returns waits for that.
func (a *app) findPrograms(ctx context.Context, s *runSettings, wanted string) (func() found, error) {
	hidden, err := a.hidden(s)
	if err != nil {
		return nil, err
	}
	done := make(chan found, 1)
	bwrap, python, env := onPath("bwrap"), onPath("python3"), a.forShims()
	go func() {
		var f found
		if f.sandbox, f.noSandbox = sandboxtools.New(ctx, sandboxtools.Config{Bwrap: bwrap, Hidden: hidden}); f.noSandbox != nil {
			f.sandbox = nil
		}
		switch {
		case wanted == pythonNo:
		case wanted == pythonUnconfined:
			var i sandboxtools.Interpreter
			if i, f.noPython = sandboxtools.FindPython(ctx, nil, python, env); f.noPython == nil {
				f.python = sandboxtools.NewUnsafePython(i)
			}
		case f.noSandbox != nil:
			f.noPython = f.noSandbox
		default:
			var i sandboxtools.Interpreter
			if i, f.noPython = sandboxtools.FindPython(ctx, f.sandbox, python, env); f.noPython == nil {
				f.python = sandboxtools.NewPython(f.sandbox, i)
			}
		}
		done <- f
	}()
	return sync.OnceValue(func() found { return <-done }), nil
}

// hidden lists what no program in the sandbox may see: where answers, keys and
// runs are, and this program, which holds the answers of the built-in tasks.
func (a *app) hidden(s *runSettings) ([]string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to hide it: %w", err)
	}
	paths := []string{executable, "runs", s.runs, a.hubEnv().Cache(), a.hubEnv().Home(), a.hubEnv().Expand(a.getenv("HF_TOKEN_PATH")), s.key, a.getenv("GAIA_SIGNING_KEY_FILE")}
	for _, base := range []string{a.xdg("XDG_CONFIG_HOME", ".config"), a.xdg("XDG_CACHE_HOME", ".cache"), a.xdg("XDG_DATA_HOME", ".local/share")} {
		if base != "" {
			paths = append(paths, filepath.Join(base, "gaia"))
		}
	}
	if dir, found := strings.CutPrefix(s.source, sourceDir); found {
		paths = append(paths, dir)
	}
	if c, err := s.tape(); err == nil {
		paths = append(paths, c.Dir)
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
func (a *app) addPython(s *runSettings, w *world, f found) error {
	switch err := f.noPython; {
	case s.python == pythonNo:
		return nil
	case err == nil:
	case s.python == pythonIfWorks:
		fmt.Fprintf(a.stderr, "gaia: python is not offered: %s ('gaia doctor' says more)\n", view.Line(err.Error()))
		return nil
	case s.resumed:
		return fail(exit.Failure, fmt.Errorf("the run was planned with python %s, which does not work here: %w", s.python, err), unusableHint(err), "or start a new run")
	default:
		return fail(exit.Failure, fmt.Errorf("--unsafe-local-python: %w", err), unusableHint(err))
	}
	w.Tools = append(w.Tools, f.python)
	if s.python == pythonUnconfined {
		s.plan.Unconfined = append(s.plan.Unconfined, pythonName)
		a.warn("the model's Python code runs without a sandbox, as you, with your files and network; the run will not be submittable")
	}
	return nil
}

// unusableHint returns what would make a program usable; "" if that is not known.
func unusableHint(err error) string {
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
		server, values, err := servers.Env{Getenv: a.getenv, Runs: s.runs}.Settle(e)
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
func cannotUse(server mcp.Server, settings string, err error) error {
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
