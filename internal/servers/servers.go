// Package servers settles the MCP servers of a settings file on this machine: their programs, variables and folders.
//
// No server gets a folder in which answers may be: one that holds the user's home, the current folder or the runs, and
// one that has a run, its verdicts or a copy of the dataset up to eight levels below (TestServerFolders). Values of
// headers and variables are returned apart, so that they are recorded nowhere.
package servers

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/trajectory"
)

// Env is what servers are settled with.
type Env struct {
	Getenv func(string) string
	Runs   string // folder of the runs
}

// Settle returns the server that the settings name, and the values that must not be recorded.
func (v Env) Settle(e settings.Server) (mcp.Server, []string, error) {
	server := mcp.Server{Name: e.Name, URL: e.URL, Only: e.Tools, Path: v.Getenv("PATH"), Headers: map[string]string{}, Env: map[string]string{}, Network: e.Network, StartTimeout: e.StartTimeout}
	var secrets []string
	for header, variable := range e.Headers {
		value := v.Getenv(variable)
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return server, nil, exit.Usagef("set "+variable, "the MCP server %q is asked with the header %s, whose value %s is not in the environment, or is none", e.Name, header, variable)
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
		value := v.Getenv(name)
		if value == "" {
			return server, nil, exit.Usagef("set "+name, "the MCP server %q is to be given the variable %s, which is not in the environment, or is empty", e.Name, name)
		}
		server.Env[name] = value
		secrets = append(secrets, value)
	}
	program, err := exec.LookPath(e.Command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return server, nil, exit.Usagef("give the path of a program, or the name of one that is on PATH", "the MCP server %q cannot be started: %v", e.Name, err)
	}
	server.Command = append([]string{program}, e.Command[1:]...)
	for _, folder := range e.Folders {
		abs, err := v.folder(e.Name, folder)
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

// folder settles a folder that an MCP server may read, and refuses one in which
// it could find answers: those of other runs, or of the dataset.
func (v Env) folder(server, folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	resolved := abs
	if err == nil {
		resolved, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", exit.Usagef("", "the MCP server %q is to be given the folder %q: %v", server, folder, regular.Cause(err))
	}
	why := ""
	for _, kept := range [][2]string{{v.Getenv("HOME"), "your home folder"}, {".", "the current folder"}, {v.Runs, "the folder of the runs"}} {
		if kept[0] != "" && holds(resolved, kept[0]) {
			why = kept[1]
			break
		}
	}
	if why == "" {
		why = answersIn(resolved)
	}
	if why != "" {
		return "", exit.Usagef("give it a folder that has what it needs, and no runs and no copy of the dataset in it",
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
		case name == plan.EnvelopeFile:
			if _, err := os.Lstat(filepath.Join(dir, trajectory.JournalFile)); err != nil {
				return nil
			}
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
