package mcp

import (
	"bufio"
	"fmt"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Hints returns what a server that could not be used may lack in the sandbox, each with the setting that
// helps: the network, the folder of its interpreter, the folder of a file that its arguments name.
func (s Server) Hints() []string {
	if s.Sandbox == nil || len(s.Command) == 0 {
		return nil
	}
	var hints []string
	program := s.Command[0]
	if name := filepath.Base(program); s.Network != NetworkHost && slices.Contains(fetchers, name) {
		hints = append(hints, fmt.Sprintf("%s fetches programs, and the sandbox has no network: install the server and give its own program "+
			"as command, or give 'network: host' (such a run cannot be submitted)", name))
	}
	if interpreters.MatchString(filepath.Base(program)) && s.interpreter(program) != "" {
		hints = append(hints, fmt.Sprintf("%q is a script that starts an interpreter from elsewhere: give that interpreter as command", program))
	}
	for _, folder := range s.interpreterFolders() {
		hints = append(hints, fmt.Sprintf("the sandbox does not show it the folder %q, from which %q runs: add it to folders", folder, program))
	}
	for _, arg := range s.Command[1:] {
		path, err := filepath.Abs(arg)
		switch {
		case err != nil || !isThere(path):
		case !s.sees(path):
			hints = append(hints, fmt.Sprintf("the sandbox does not show it %q: add its folder to folders, and give %q", arg, path))
		case path != filepath.Clean(arg):
			hints = append(hints, fmt.Sprintf("in the sandbox it is in another folder: give %q in place of %q", path, arg))
		}
	}
	return hints
}

// interpreters matches the names of interpreters that need the folder they are installed in.
var interpreters = regexp.MustCompile(`^(?:python|pypy|ruby|perl|java)`)

// fetchers are programs that fetch the server from the network.
var fetchers = []string{"npx", "uvx", "npm", "uv", "pipx", "pnpm", "yarn", "bunx", "docker"}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sees reports whether the sandbox shows a path to the server.
func (s Server) sees(path string) bool {
	return isWithin(path, slices.Concat([]string{"/usr"}, sandbox.SystemFolders(), s.Folders))
}

// interpreterFolders are folders that the program of a server is known to need and does not see: of its
// virtual environment, of the installation that a link leads to, of the interpreter in its first line.
func (s Server) interpreterFolders() (folders []string) {
	need := func(folder string) {
		if !s.sees(folder) && folder != "/" && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	program := s.Command[0]
	for range 4 { // a script may be run by a link into an environment, and that leads to an installation
		at, err := filepath.EvalSymlinks(program)
		if err != nil {
			break
		}
		if root := installation(program); isThere(filepath.Join(root, "pyvenv.cfg")) {
			need(root)
		}
		next := s.interpreter(at)
		switch {
		case next != "":
			if at != program {
				need(filepath.Dir(at))
			}
			need(installation(next))
		case at != program || interpreters.MatchString(filepath.Base(at)):
			need(installation(at))
		}
		if program = next; next == "" {
			break
		}
	}
	return folders
}

// installation is the folder that a program was installed in: the one above its bin.
func installation(program string) string {
	if dir := filepath.Dir(program); filepath.Base(dir) == "bin" {
		return filepath.Dir(dir)
	}
	return filepath.Dir(program)
}

// interpreter is the program that the first line of a script names, "" where it names none. What env looks
// for is looked for where the server would find it, and then on Path.
func (s Server) interpreter(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _, _ := bufio.NewReader(io.LimitReader(f, 1024)).ReadLine()
	named, found := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(named)
	if !found || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	if len(words) == 0 {
		return ""
	}
	for _, dir := range append([]string{"/usr/bin", "/bin"}, filepath.SplitList(s.Path)...) {
		if path := filepath.Join(dir, words[0]); filepath.IsAbs(dir) && isThere(path) {
			return path
		}
	}
	return ""
}
