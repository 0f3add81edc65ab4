package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
)

// ofPrograms tries the programs that gaia can do without, as a run would.
func (x *exam) ofPrograms(ctx context.Context) []diagnosis {
	const sandbox = "sandbox"
	const use = "code, servers, poppler in it"
	var w world
	if err := x.confine(ctx, x.settings, &w); err != nil {
		return []diagnosis{troubled(sandbox, use, err)}
	}
	python := x.pythonFinding
	if x.python == pythonUnconfined {
		python = x.unconfinedFinding
	}
	return []diagnosis{
		diagnose(sandbox, use, "bubblewrap shuts programs in", w.noSandbox),
		python(ctx, &w),
		x.popplerFinding(ctx, "pdftotext", "reads the text of PDF files"),
		x.popplerFinding(ctx, "pdftoppm", "makes pictures of PDF pages"),
	}
}

// diagnose words what became of trying something.
func diagnose(name, use, works string, err error) diagnosis {
	f := fine(name, use, works)
	if err != nil {
		f.State, f.Detail, f.Remedy = stateFailed, err.Error(), mending(err)
		if strings.HasSuffix(f.Detail, "is not installed") {
			f.State = stateMissing
		}
	}
	return f
}

func (a *app) pythonFinding(ctx context.Context, w *world) diagnosis {
	const use = "the model's code runs in it"
	interpreter, err := tools.FindInterpreter(ctx, onPath("python3"), a.forShims())
	if err == nil && w.noSandbox == nil {
		err = tools.CheckPython(ctx, w.sandbox, interpreter)
	}
	f := diagnose("python", use, "Python "+interpreter.Version+" at "+interpreter.Path, err)
	if err == nil && w.noSandbox != nil {
		f.State, f.Detail, f.Remedy = diagnose("", "", "", w.noSandbox).State, f.Detail+" is not offered to the model, for want of a sandbox", mending(w.noSandbox)
	}
	return f
}

// unconfinedFinding is that of python where --unsafe-local-python wants it in any
// case.
func (a *app) unconfinedFinding(ctx context.Context, w *world) diagnosis {
	const name, use = "python", "the model's code runs in it"
	if _, err := a.pythonTool(ctx, true, w); err != nil {
		return diagnosis{Name: name, Use: use, State: stateFailed, Detail: "--unsafe-local-python: " + err.Error(), Remedy: mending(err)}
	}
	return lacking(name, use, "runs the model's code WITHOUT a sandbox, as you, with your files and network", "such a run is not submittable: leave out --unsafe-local-python")
}

// popplerFinding asks a program of poppler for its version.
func (a *app) popplerFinding(ctx context.Context, name, use string) diagnosis {
	path := onPath(name)
	if path == "" {
		return diagnose(name, use, "", &tools.Unusable{Why: name + " is not installed", Remedy: "install the package poppler-utils (poppler on macOS)"})
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "-v")
	cmd.Env = a.forShims()
	out, err := cmd.CombinedOutput() // some versions exit with an error all the same
	line, _, _ := strings.Cut(string(out), "\n")
	if !strings.Contains(line, "version") {
		return diagnose(name, use, "", &tools.Unusable{Why: fmt.Sprintf("%s does not say its version: %v", path, err), Remedy: "install the package poppler-utils anew"})
	}
	return diagnose(name, use, line+" at "+path, nil)
}
