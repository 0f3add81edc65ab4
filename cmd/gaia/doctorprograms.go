package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
)

// ofPrograms tries the programs that gaia can do without, as a run would.
func (x *exam) ofPrograms(ctx context.Context) []diagnosis {
	const sandbox = "sandbox"
	const use = "code, servers, poppler in it"
	var w world
	if err := x.confine(ctx, &x.runSettings, &w); err != nil {
		return []diagnosis{troubled(sandbox, use, err, "start gaia by its whole path")}
	}
	python := x.pythonFinding
	if x.python == pythonUnconfined {
		python = x.unconfinedFinding
	}
	return []diagnosis{
		diagnose(sandbox, use, "bubblewrap shuts programs in", w.noSandbox),
		limitsFinding(&w),
		python(ctx, &w),
		x.popplerFinding(ctx, "pdftotext", "reads the text of PDF files"),
		x.popplerFinding(ctx, "pdftoppm", "makes pictures of PDF pages"),
		x.serversFinding(ctx, &w),
	}
}

// limitsFinding reports which limits hold for programs in the sandbox.
func limitsFinding(w *world) diagnosis {
	const name, use = "limits", "bound what runs in it"
	if w.noSandbox != nil {
		return lacking(name, use, "there is no sandbox", mended(w.noSandbox))
	}
	held, err := w.sandbox.Limits()
	return diagnose(name, use, held, err)
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

// serversFinding starts the MCP servers of the settings and asks for their tools, as
// the plan of a run does. In a rehearsal none is asked over a network.
func (x *exam) serversFinding(ctx context.Context, w *world) diagnosis {
	const name, use = "MCP servers", "their tools"
	if len(x.servers) == 0 {
		return fine(name, use, "the settings name none")
	}
	fix := "correct it, or leave it out of " + quoteArg(x.serversFrom)
	var found, open, remedies []string
	for _, e := range x.servers {
		server, _, err := x.server(e, x.runs)
		program := e.URL == ""
		outside := program && (e.Unconfined() || w.noSandbox != nil)
		if program && !outside {
			server.Sandbox = w.sandbox
		}
		network := program && !outside && e.Network == tools.NetworkHost
		if err == nil && x.plan.SubmitIntent && outside {
			err = x.unconfined(&x.runSettings, e)
		}
		if err == nil && x.plan.SubmitIntent && network {
			err = x.networked(&x.runSettings, e)
		}
		if err != nil {
			return troubled(name, use, err, fix)
		}
		if x.plan.Rehearsal && !program {
			found = append(found, e.Name+" (not asked)")
			continue
		}
		offered, err := server.Tools(ctx)
		if err != nil {
			return troubled(name, use, cannotUse(server, quoteArg(x.serversFrom), err), fix)
		}
		found = append(found, fmt.Sprintf("%s (%s)", e.Name, counted(len(offered), "tool")))
		switch {
		case outside:
			open = append(open, e.Name+" runs outside of the sandbox")
			remedies = append(remedies, "see sandbox; leave out 'sandbox: false'")
		case network:
			open = append(open, e.Name+" has the network")
			remedies = append(remedies, "leave out 'network: host'")
		}
	}
	detail := strings.Join(found, ", ")
	if len(open) > 0 {
		slices.Sort(remedies)
		return lacking(name, use, detail+"; "+strings.Join(open, ", ")+", so the run will not be submittable", strings.Join(slices.Compact(remedies), "; ")+" in "+quoteArg(x.serversFrom))
	}
	return fine(name, use, detail)
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
