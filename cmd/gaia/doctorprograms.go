package main

import (
	"cmp"
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
		return []diagnosis{troubled(sandbox, use, err, "start gaia by its whole path")}
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
		x.serversFinding(&w),
	}
}

// diagnose words what became of trying something that a run goes without where it
// does not work.
func diagnose(name, use, works string, err error) diagnosis {
	if err != nil {
		return lacking(name, use, err.Error(), mended(err))
	}
	return fine(name, use, works)
}

// mended is what mends a program that does not work. Whatever fails before it is
// tried fails for want of a place to try it in.
func mended(err error) string {
	return cmp.Or(mending(err), "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp")
}

// serversFinding looks for what the MCP servers of the settings are started with.
// None is started.
func (x *exam) serversFinding(w *world) diagnosis {
	const name, use = "MCP servers", "their tools"
	if len(x.servers) == 0 {
		return fine(name, use, "the settings name none")
	}
	var names, bare []string
	for _, e := range x.servers {
		_, _, err := x.server(e, x.runs)
		outside := e.url == "" && (e.unconfined || w.noSandbox != nil)
		if err == nil && outside && x.submitIntent {
			err = x.unconfined(w, x.settings, e)
		}
		if err != nil {
			return troubled(name, use, err, "mend it, or leave it out of "+quoteArg(x.serversFrom))
		}
		names = append(names, e.name)
		if outside {
			bare = append(bare, e.name)
		}
	}
	if len(bare) > 0 {
		return lacking(name, use, strings.Join(bare, ", ")+": would run outside of the sandbox, so the run will not be submittable",
			"see sandbox; leave out 'sandbox: false' in "+quoteArg(x.serversFrom))
	}
	return fine(name, use, strings.Join(names, ", ")+", not started")
}

func (a *app) pythonFinding(ctx context.Context, w *world) diagnosis {
	const use = "the model's code runs in it"
	interpreter, err := tools.FindInterpreter(ctx, onPath("python3"), a.forShims())
	if err == nil && w.noSandbox == nil {
		err = tools.CheckPython(ctx, w.sandbox, interpreter)
	}
	f := diagnose("python", use, "Python "+interpreter.Version+" at "+interpreter.Path, err)
	if err == nil && w.noSandbox != nil {
		return lacking(f.Name, f.Use, f.Detail+" is not offered to the model, for want of a sandbox", mended(w.noSandbox))
	}
	return f
}

// unconfinedFinding is that of python where --unsafe-local-python wants it in any
// case.
func (a *app) unconfinedFinding(ctx context.Context, w *world) diagnosis {
	const name, use = "python", "the model's code runs in it"
	if _, err := a.pythonTool(ctx, true, w); err != nil {
		return diagnosis{Name: name, Use: use, State: stateFailed, Detail: "--unsafe-local-python: " + err.Error(), Remedy: mended(err)}
	}
	return lacking(name, use, "runs the model's code WITHOUT a sandbox, as you, with your files and network", "such a run is not submittable: leave out --unsafe-local-python")
}

// popplerFinding asks a program of poppler for its version.
func (a *app) popplerFinding(ctx context.Context, name, use string) diagnosis {
	path := onPath(name)
	if path == "" {
		return diagnose(name, use, "", &tools.Unusable{Why: name + " is not installed", Remedy: "apt install poppler-utils (brew install poppler on macOS)"})
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "-v")
	cmd.Env = a.forShims()
	out, err := cmd.CombinedOutput() // some versions exit with an error all the same
	line, _, _ := strings.Cut(string(out), "\n")
	if !strings.Contains(line, "version") {
		return diagnose(name, use, "", &tools.Unusable{Why: fmt.Sprintf("%s does not say its version: %v", path, err), Remedy: "apt reinstall poppler-utils (brew reinstall poppler on macOS)"})
	}
	return diagnose(name, use, line+" at "+path, nil)
}
