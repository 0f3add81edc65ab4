package trial

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
)

// mostLooked bounds the files of a folder that [Check] looks at.
const mostLooked = 200_000

// searchPath is the PATH of an agent.
var searchPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// systemLibraries are where the dynamic linker looks by itself.
var systemLibraries = []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*"}

// folder is the agent's folder, and the others that it can read.
type folder struct {
	path  string
	given []string
}

// Check reports what of an agent's folder will not work in the sandbox, before anything runs. Of the plan it takes the command
// and the paths of the folders.
func Check(own plan.AgentPlan) []doctor.Finding {
	var paths []string
	for _, given := range own.Folders {
		path, err := agentdir.Actual(given.Path)
		if err != nil {
			return []doctor.Finding{finding("folder", "can be read by the agent", err.Error(), "", "")}
		}
		paths = append(paths, path)
	}
	f := folder{path: paths[0], given: paths[1:]}
	program := own.Command[0]
	if !filepath.IsAbs(program) {
		program = filepath.Join(f.path, program)
	}
	found := []doctor.Finding{f.checkProgram(program)}
	if found[0].State != doctor.Failed {
		found = append(found, f.checkStart(program))
	}
	return append(found, f.checkContents()...)
}

func finding(name, use, problem, good, remedy string) doctor.Finding {
	if problem == "" {
		return doctor.Finding{Name: name, State: doctor.OK, Detail: good, Use: use}
	}
	return doctor.Finding{Name: name, State: doctor.Failed, Detail: problem, Remedy: remedy, Use: use}
}

// sees reports whether the agent sees a path at its place: what it leads to, through all links, is in the sandbox.
func (f folder) sees(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for _, place := range slices.Concat([]string{"/usr", f.path}, f.given, sandbox.SystemFolders()) {
		if at, err := filepath.EvalSymlinks(place); err == nil && agentdir.Within(real, at) {
			return true
		}
	}
	return false
}

func (f folder) checkProgram(program string) doctor.Finding {
	info, err := os.Stat(program)
	problem, remedy := "", ""
	switch {
	case err != nil:
		problem, remedy = fmt.Sprintf("%s is not there", program), "write an executable named agent, or begin with a recipe: gaia agent init NAME DIR"
	case !info.Mode().IsRegular():
		problem, remedy = fmt.Sprintf("%s is not a file", program), "name the program in 'command' below agent in gaia.yaml"
	case info.Mode()&0o111 == 0:
		problem, remedy = fmt.Sprintf("%s cannot be executed", program), "chmod +x "+view.Quote(program)
	case info.Mode()&0o005 != 0o005:
		problem, remedy = fmt.Sprintf("%s can be executed by its owner only", program), "chmod a+rx "+view.Quote(program)
		return doctor.Finding{Name: "program", State: doctor.Missing, Detail: problem, Remedy: remedy, Use: "is started for each attempt"}
	}
	return finding("program", "is started for each attempt", problem, program, remedy)
}

// checkStart looks at what the kernel needs to start a program: the interpreter that its first line names, or the linker
// and libraries of a native one.
func (f folder) checkStart(program string) doctor.Finding {
	use := "starts the program"
	file, err := os.Open(program)
	if err != nil {
		return finding("interpreter", use, err.Error(), "", "let yourself read it")
	}
	defer file.Close()
	line, err := bufio.NewReaderSize(file, 256).ReadSlice('\n')
	if !bytes.HasPrefix(line, []byte("#!")) {
		if missing, native := f.libraries(program); native {
			found := finding("interpreter", use, strings.Join(missing, ", "), "none: a native program", "link it statically, or put the libraries beside it and set its RUNPATH to $ORIGIN")
			if len(missing) > 0 { // as far as can be told: the linker has further ways
				found.State = doctor.Missing
			}
			return found
		}
		return finding("interpreter", use, "the first line names no interpreter, and it is no native program", "", "begin it with a line such as #!/usr/bin/python3 or #!/bin/sh")
	}
	if err != nil {
		return finding("interpreter", use, "the first line is too long", "", "write a shorter one, such as #!/bin/sh")
	}
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return finding("interpreter", use, "the first line ends in a carriage return", "", "save the file with Unix line ends")
	}
	words := strings.Fields(string(line[2:]))
	if len(words) == 0 {
		return finding("interpreter", use, "the first line names no interpreter", "", "begin it with a line such as #!/usr/bin/python3")
	}
	name := words[0]
	if filepath.Base(name) == "env" && len(words) > 1 && f.sees(name) {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
		if len(words) == 0 {
			return finding("interpreter", use, "env is given no program", "", "begin it with a line such as #!/usr/bin/env python3")
		}
		for _, dir := range searchPath {
			if at := filepath.Join(dir, words[0]); f.sees(at) {
				return finding("interpreter", use, "", at, "")
			}
		}
		return finding("interpreter", use, fmt.Sprintf("%s is not on the PATH of the sandbox, %s", words[0], strings.Join(searchPath, ":")), "",
			"name the interpreter by its path, and the folder that it is in in 'folders' below agent in gaia.yaml, unless it is below /usr")
	}
	problem, remedy := "", ""
	if _, err := os.Stat(name); err != nil {
		problem, remedy = fmt.Sprintf("%s is not there", name), "install it, or name another in the first line"
	} else if !f.sees(name) {
		problem, remedy = fmt.Sprintf("%s is not in the sandbox", name), "plan its folder: write 'folders: ["+root(name)+"]' below agent in gaia.yaml"
	}
	return finding("interpreter", use, problem, name, remedy)
}

// root returns the folder to plan for an interpreter: the one above bin.
func root(program string) string {
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	dir := filepath.Dir(program)
	if filepath.Base(dir) == "bin" {
		return filepath.Dir(dir)
	}
	return dir
}

// checkContents looks through the folder for what leads out of it: links, the interpreters of Python's virtual environments,
// and libraries of native programs.
func (f folder) checkContents() []doctor.Finding {
	var links, missing, needed []string
	starts := true // each environment holds its interpreter, which may find a library of its version below /usr
	files, native, size := 0, 0, int64(0)
	err := filepath.WalkDir(f.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if files++; files > mostLooked {
			return fs.SkipAll
		}
		name, _ := filepath.Rel(f.path, path)
		switch d.Type() {
		case fs.ModeSymlink:
			if !f.sees(path) {
				links = append(links, name)
			}
			return nil
		case 0:
		default:
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		if d.Name() == "pyvenv.cfg" {
			if home := venvHome(path); home != "" && !f.sees(home) {
				needed = append(needed, filepath.Dir(home))
				starts = starts && f.sees(filepath.Join(filepath.Dir(path), "bin", "python"))
			}
		}
		if info.Mode()&0o111 != 0 && info.Size() > 64 && native < 1000 {
			lost, is := f.libraries(path)
			if is {
				native++
			}
			for _, library := range lost {
				missing = append(missing, name+" needs "+library)
			}
		}
		return nil
	})
	use := "can be read by the agent"
	if err != nil {
		return []doctor.Finding{finding("folder", use, err.Error(), "", "let yourself read all of it")}
	}
	found := []doctor.Finding{finding("folder", use, "", fmt.Sprintf("%s, %s", view.Count(files, "file"), view.Bytes(size)), "")}
	if len(needed) > 0 {
		slices.Sort(needed)
		needed = slices.Compact(needed)
		found = append(found, finding("environment", "has the Python packages", "the interpreter of the virtual environment is in "+strings.Join(needed, ", ")+", which is not in the sandbox", "",
			"plan it: write 'folders: ["+strings.Join(needed, ", ")+"]' below agent in gaia.yaml; or make the environment with /usr/bin/python3"))
		if starts {
			found[len(found)-1].State = doctor.Missing
		}
		links = slices.DeleteFunc(links, func(name string) bool { return strings.HasPrefix(filepath.Base(name), "python") })
	}
	optional := func(name, use string, what []string, remedy string) {
		if len(what) > 0 {
			found = append(found, doctor.Finding{Name: name, State: doctor.Missing, Detail: strings.Join(view.First(3, what), ", "), Remedy: remedy, Use: use})
		}
	}
	optional("links", "lead to files that the sandbox has not", links, "copy what they lead to into the folder, or name its folder in 'folders' below agent in gaia.yaml")
	optional("libraries", "are needed by native programs", missing, "install them below /usr, or put them into the folder")
	return found
}

// venvHome returns the folder of the interpreter that a virtual environment is made of, by its pyvenv.cfg.
func venvHome(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, 64<<10))
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "home" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// libraries returns what the sandbox lacks of the linker and libraries of a native program, and whether it is one.
func (f folder) libraries(path string) (missing []string, native bool) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if linker := string(bytes.TrimRight(name, "\x00")); !f.sees(linker) {
				missing = append(missing, linker)
			}
		}
	}
	needed, err := file.ImportedLibraries()
	if err != nil {
		return missing, true
	}
	dirs := systemLibraries
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, _ := file.DynString(tag)
		for _, p := range paths {
			for dir := range strings.SplitSeq(p, ":") {
				dirs = append([]string{strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(dir)}, dirs...)
			}
		}
	}
	for _, library := range needed {
		if !slices.ContainsFunc(dirs, func(dir string) bool {
			at, _ := filepath.Glob(filepath.Join(dir, library))
			return slices.ContainsFunc(at, f.sees)
		}) {
			missing = append(missing, library)
		}
	}
	return missing, true
}

// Observed reports what an attempt showed of an agent: whether it started, asked, used the tools and answered.
func (r Report) Observed() []doctor.Finding {
	var models, tools, refused []string
	for _, c := range r.Calls {
		variable := "OPENAI_BASE_URL"
		if c.Dialect == llm.DialectMessages {
			variable = "ANTHROPIC_BASE_URL"
		}
		models = append(models, fmt.Sprintf("%s: %s of %s", variable, view.Count(c.Count, "call"), c.Dialect))
	}
	for _, t := range r.Tools {
		tools = append(tools, t.Name)
	}
	hints := []string{}
	for _, f := range r.Refused {
		if !harmless(f) {
			refused = append(refused, fmt.Sprintf("%s: %s", clip(f.Path, 100), f.Code))
			hints = append(hints, f.Hint)
		}
	}
	cause := Cause{What: r.ended()}
	if len(r.Why) > 0 {
		cause = r.Why[0]
	}
	asked := finding("models", "answer the agent", "", strings.Join(models, ", "), "")
	if len(models) == 0 {
		asked = finding("models", "answer the agent", "the agent asked none", "", "let its client read OPENAI_BASE_URL or ANTHROPIC_BASE_URL")
	}
	found := []doctor.Finding{asked}
	optional := func(name, use string, what []string, none, remedy string) {
		f := doctor.Finding{Name: name, State: doctor.OK, Detail: strings.Join(what, ", "), Use: use}
		if len(what) == 0 {
			f.State, f.Detail, f.Remedy = doctor.Missing, none, remedy
		}
		found = append(found, f)
	}
	optional("tools", "are called through the Gate", tools, "the agent called none", "if it is to use those of the run: they are at GAIA_MCP_URL and GAIA_TOOLS_URL")
	if len(refused) > 0 {
		found = append(found, doctor.Finding{Name: "refused", State: doctor.Missing, Detail: strings.Join(refused, ", "), Remedy: strings.Join(slices.Compact(hints), "; "), Use: "were not passed on"})
	}
	found = append(found, r.observedNetwork()...)
	if m := noNetwork.FindString(r.End.Stderr); m != "" && r.Network != plan.NetworkRecord {
		found = append(found, doctor.Finding{Name: "network", State: doctor.Missing, Detail: "the agent looked for it: " + m, Use: "is not there",
			Remedy: "switch off updates, telemetry and downloads of the agent, or put what it loads into its folder"})
	}
	answer := finding("answer", "is scored", "", "by "+by[r.Rule], "")
	if r.Outcome != trajectory.Answered {
		answer = finding("answer", "is scored", cause.What, "", cause.Hint)
	}
	return append(found, answer)
}
