package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// States of what doctor looks at.
const (
	stateOK      = "ok"
	stateMissing = "missing"
	stateFailed  = "failed"
)

// A diagnosis is what doctor says of one thing that gaia uses.
type diagnosis struct {
	Detail string `json:"detail"` // what was found, or why it does not work
	Name   string `json:"name"`
	Remedy string `json:"remedy,omitzero"`
	State  string `json:"state"` // stateOK, stateMissing or stateFailed
	Use    string `json:"use"`   // what gaia does with it
}

// A checkup is what doctor prints with --json; its state is the worst of the
// findings'.
type checkup struct {
	Findings []diagnosis `json:"findings"`
	State    string      `json:"state"` // stateOK, stateMissing or stateFailed
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say which optional programs work on this machine, and what mends it",
		Long: `Doctor looks for the programs that gaia can do without, tries them, and says
what each is for and what would mend it. Without a sandbox the model gets no
tool that runs code. Nothing is changed, and no model is asked.

What is missing is optional, and the exit code is 0. What is there and does not
work is failed, and the exit code is 3.`,
		Example: `  gaia doctor
  gaia doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) doctor(ctx context.Context, asJSON bool) error {
	var w world
	if err := a.confine(ctx, settings{runs: "runs"}, &w); err != nil {
		return err
	}
	found := []diagnosis{
		diagnose("sandbox", "the model's code, MCP servers and poppler run in it", "bubblewrap shuts programs in", w.noSandbox),
		a.pythonFinding(ctx, &w),
		a.popplerFinding(ctx, "pdftotext", "reads the text of PDF files"),
		a.popplerFinding(ctx, "pdftoppm", "makes pictures of the pages of PDF files"),
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := checkup{Findings: found, State: stateOK}
	var failed []string
	for _, f := range found {
		switch {
		case f.State == stateFailed:
			out.State = stateFailed
			failed = append(failed, f.Name)
		case f.State == stateMissing && out.State == stateOK:
			out.State = stateMissing
		}
	}
	var err error
	if asJSON {
		err = a.printJSON(out)
	} else {
		err = a.printFindings(found)
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	return fail(exitFindings, fmt.Errorf("what is there and does not work: %s", strings.Join(failed, ", ")))
}

// diagnose words what became of trying something.
func diagnose(name, use, fine string, err error) diagnosis {
	f := diagnosis{Name: name, Use: use, State: stateOK, Detail: fine}
	if err != nil {
		f.State, f.Detail, f.Remedy = stateFailed, err.Error(), mending(err)
		if strings.HasSuffix(f.Detail, "is not installed") {
			f.State = stateMissing
		}
	}
	return f
}

func (a *app) pythonFinding(ctx context.Context, w *world) diagnosis {
	const use = "the model's code runs in it, by the tool python"
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

func (a *app) printFindings(found []diagnosis) error {
	t := newTable()
	t.AppendHeader(table.Row{"what", "state", "found", "used for"})
	for _, f := range found {
		t.AppendRow(table.Row{f.Name, f.State, oneLine(f.Detail), f.Use})
	}
	if _, err := fmt.Fprintln(a.stdout, printable(t.Render())); err != nil {
		return err
	}
	for _, f := range found {
		if f.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", f.Name, oneLine(f.Remedy)); err != nil {
			return err
		}
	}
	return nil
}
