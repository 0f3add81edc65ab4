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

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
	"github.com/spf13/cobra"
)

// pythonName is the tool that runs code.
const pythonName = "python"

// Whether a run has the tool python. What a plan says is kept to; a new run has
// it where it works.
const (
	pythonIfWorks    = ""
	pythonNo         = "no"
	pythonConfined   = "in the sandbox"
	pythonUnconfined = "without a sandbox"
)

// addPythonFlag makes the flag that lets code have this machine.
func (s *settings) addPythonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.unsafePython, "unsafe-local-python", false, "run the model's Python code WITHOUT a sandbox, as you, with your files and network")
}

// checkPython refuses what cannot go together with code that nothing confines.
func (s *settings) checkPython() error {
	if !s.unsafePython {
		return nil
	}
	if s.submitIntent {
		return usage("leave one of them out; 'gaia doctor' says what a sandbox needs", "--unsafe-local-python runs code that nothing confines, so such a run cannot be submitted")
	}
	s.python = pythonUnconfined
	return nil
}

// plannedPython takes from a plan whether it has python, and how.
func (s *settings) plannedPython(m plan.Plan) {
	switch {
	case !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Name == pythonName }):
		s.python = pythonNo
	case slices.Contains(m.Unconfined, pythonName):
		s.python = pythonUnconfined
	default:
		s.python = pythonConfined
	}
}

// confine fills in the sandbox, or why there is none: programs that a run starts
// see nothing of what it keeps to itself.
func (a *app) confine(ctx context.Context, s settings, w *world) error {
	hidden, err := a.hidden(s)
	if err != nil {
		return err
	}
	w.sandbox, w.noSandbox = tools.NewSandbox(ctx, tools.SandboxConfig{Bwrap: onPath("bwrap"), Hidden: hidden})
	if w.noSandbox != nil {
		w.sandbox = nil
	}
	return ctx.Err()
}

// hidden lists what no program in the sandbox may see: where answers, keys and
// runs are, and this program, which holds the answers of the built-in tasks.
func (a *app) hidden(s settings) ([]string, error) {
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
func (a *app) addPython(ctx context.Context, s settings, w *world) error {
	if s.python == pythonNo {
		return nil
	}
	tool, err := a.pythonTool(ctx, s.python == pythonUnconfined, w)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && s.python == pythonIfWorks:
		fmt.Fprintf(a.stderr, "gaia: python is not offered: %s ('gaia doctor' says more)\n", oneLine(err.Error()))
		return nil
	case err != nil && s.resumed:
		return fail(exitFailure, fmt.Errorf("the run was planned with python %s, which does not work here: %w", s.python, err), mending(err), "or start a new run")
	case err != nil:
		return fail(exitFailure, fmt.Errorf("--unsafe-local-python: %w", err), mending(err))
	}
	w.Tools = append(w.Tools, tool)
	if s.python == pythonUnconfined {
		w.Unconfined = append(w.Unconfined, pythonName)
		a.warn("the model's Python code runs without a sandbox, as you, with your files and network; the run will not be submittable")
	}
	return nil
}

// pythonTool makes the tool once it has run a line of code.
func (a *app) pythonTool(ctx context.Context, unconfined bool, w *world) (tools.Tool, error) {
	if !unconfined && w.noSandbox != nil {
		return nil, w.noSandbox
	}
	interpreter, err := tools.FindInterpreter(ctx, onPath("python3"), a.forShims())
	if err != nil {
		return nil, err
	}
	if unconfined {
		return tools.NewUnsafePython(interpreter), tools.CheckPython(ctx, nil, interpreter)
	}
	return tools.NewPython(w.sandbox, interpreter), tools.CheckPython(ctx, w.sandbox, interpreter)
}

// mending is what would mend what cannot be used; "" if that is not known.
func mending(err error) string {
	var u *tools.Unusable
	if errors.As(err, &u) {
		return u.Remedy
	}
	return ""
}
