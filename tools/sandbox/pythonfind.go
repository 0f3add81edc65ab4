package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json"
)

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
