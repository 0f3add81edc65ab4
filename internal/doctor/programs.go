package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/sandbox"
)

// Programs are the programs that a run can do without.
type Programs struct {
	Sandbox             *sandbox.Sandbox // nil: there is none
	NoSandbox           error            // why
	Python, Text, Pages string           // paths of python3, pdftotext and pdftoppm; "" is none
	Environ             []string         // of the programs when they are asked what they are
	Unconfined          bool             // the user wants Python without a sandbox
}

// Check tries the programs as a run does.
func (p Programs) Check(ctx context.Context) []Finding {
	limits := lacks("limits", "bound what runs in it", "there is no sandbox", remedy(p.NoSandbox))
	if p.NoSandbox == nil {
		held, err := p.Sandbox.Limits()
		limits = tried(limits.Name, limits.Use, held, err)
	}
	return []Finding{
		tried("sandbox", "code, servers, poppler in it", "bubblewrap shuts programs in", p.NoSandbox),
		limits,
		p.CheckPython(ctx),
		p.poppler(ctx, p.Text, "pdftotext", "reads the text of PDF files"),
		p.poppler(ctx, p.Pages, "pdftoppm", "makes pictures of PDF pages"),
	}
}

// tried returns the finding of trying something that a run does without where it does not work.
func tried(name, use, works string, err error) Finding {
	if err != nil {
		return lacks(name, use, err.Error(), remedy(err))
	}
	return good(name, use, works)
}

// remedy returns what fixes a program that does not work. A program that could not even be started lacks a
// directory to be tried in.
func remedy(err error) string {
	if u := (*sandbox.Unusable)(nil); errors.As(err, &u) && u.Remedy != "" {
		return u.Remedy
	}
	return "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp"
}

// CheckPython runs a line of Python as a run would.
func (p Programs) CheckPython(ctx context.Context) Finding {
	const name, use = "python", "the model's code runs in it"
	var interpreter sandbox.Interpreter
	var err error
	switch {
	case p.Unconfined:
		interpreter, err = sandbox.FindPython(ctx, nil, p.Python, p.Environ)
	case p.NoSandbox == nil:
		interpreter, err = sandbox.FindPython(ctx, p.Sandbox, p.Python, p.Environ)
	default:
		interpreter, err = sandbox.FindInterpreter(ctx, p.Python, p.Environ)
	}
	found := "Python " + interpreter.Version + " at " + interpreter.Path
	switch {
	case p.Unconfined && err != nil:
		return Finding{Name: name, Use: use, State: Failed, Detail: "--unsafe-local-python: " + err.Error(), Remedy: remedy(err)}
	case p.Unconfined:
		return lacks(name, use, "runs the model's code WITHOUT a sandbox, as you, with your files and network",
			"such a run is not submittable: leave out --unsafe-local-python")
	case err == nil && p.NoSandbox != nil:
		return lacks(name, use, found+" is not offered to the model: there is no sandbox", remedy(p.NoSandbox))
	}
	return tried(name, use, found, err)
}

// poppler asks a program of poppler for its version.
func (p Programs) poppler(ctx context.Context, path, name, use string) Finding {
	if path == "" {
		return lacks(name, use, name+" is not installed", "apt install poppler-utils (brew install poppler on macOS)")
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "-v")
	cmd.Env = p.Environ
	out, err := cmd.CombinedOutput() // some versions exit with an error all the same
	line, _, _ := strings.Cut(string(out), "\n")
	if !strings.Contains(line, "version") {
		return lacks(name, use, fmt.Sprintf("%s does not print its version: %v", path, err),
			"apt reinstall poppler-utils (brew reinstall poppler on macOS)")
	}
	return good(name, use, line+" at "+path)
}

// Server is an MCP server of the settings.
type Server struct {
	Name    string
	Refused error                              // why no run can use it; nil if one can
	Skip    bool                               // it is not to be asked
	Outside bool                               // it runs outside of the sandbox
	Network bool                               // it has the network
	Tools   func(context.Context) (int, error) // starts it, and counts its tools
}

// CheckServers starts MCP servers and asks for their tools, as the plan of a run does. file is the settings
// file that names them.
func CheckServers(ctx context.Context, servers []Server, file string) Finding {
	const name, use = "MCP servers", "their tools"
	if len(servers) == 0 {
		return good(name, use, "the settings name none")
	}
	file = view.Quote(file)
	var found, open, remedies []string
	for _, s := range servers {
		n, err := 0, s.Refused
		if err == nil && s.Skip {
			found = append(found, s.Name+" (not asked)")
			continue
		}
		if err == nil {
			n, err = s.Tools(ctx)
		}
		if err != nil {
			return Fails(name, use, err, "correct it, or leave it out of "+file)
		}
		found = append(found, fmt.Sprintf("%s (%s)", s.Name, view.Count(n, "tool")))
		switch {
		case s.Outside:
			open = append(open, s.Name+" runs outside of the sandbox")
			remedies = append(remedies, "see sandbox; leave out 'sandbox: false'")
		case s.Network:
			open = append(open, s.Name+" has the network")
			remedies = append(remedies, "leave out 'network: host'")
		}
	}
	detail := strings.Join(found, ", ")
	if len(open) == 0 {
		return good(name, use, detail)
	}
	slices.Sort(remedies)
	return lacks(name, use, detail+"; "+strings.Join(open, ", ")+", so the run will not be submittable",
		strings.Join(slices.Compact(remedies), "; ")+" in "+file)
}
