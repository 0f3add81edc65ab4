package policy

import (
	"slices"
	"strings"
)

// Reach is what a call looks at of the process and the host that it runs in, each in the words that say it; "" for
// nothing. The Gate refuses none of it, since each has an honest use: who reads the record has to look.
type Reach struct {
	Frames      string // frames of its callers, or all objects of the interpreter: sys._getframe
	Processes   string // what is to be had of a process: /proc/1/cmdline, psutil.pids. Of environ and mem R003 tells
	Outside     string // a file: address of what is not in the workspace
	Environment string // all variables of the environment: printenv. To look one up is nothing
	Answers     string // a variable of the environment whose name promises answers: GOLD_ANSWER
	Walks       string // a walk through all files of the host: find /
}

// Reaches returns what a call reaches for, as far as its arguments tell.
func Reaches(c Call) Reach {
	var found Reach
	for _, url := range c.URLs {
		keep(&found.Outside, fileOutside(url))
	}
	for _, path := range c.Paths {
		keep(&found.Outside, fileOutside(path))
		keep(&found.Processes, processPlace(path))
	}
	for _, r := range readings(c) {
		keep(&found.Frames, r.reach.Frames)
		keep(&found.Environment, r.reach.Environment)
		keep(&found.Walks, r.reach.Walks)
		if Promises(r.reach.Answers) > Promises(found.Answers) {
			found.Answers = r.reach.Answers
		}
		keep(&found.Processes, r.reach.Processes)
		for _, text := range r.literals {
			if slices.Contains(frameNames(), text) { // as for getattr
				keep(&found.Frames, text)
			}
			if clean := strings.TrimRight(text, "/"); clean == "/proc" {
				keep(&found.Processes, clean)
			}
			if !strings.ContainsAny(text, " \t\n") { // it may have marks that stand for any name
				keep(&found.Processes, processPlace(text))
			}
			for token := range strings.FieldsFuncSeq(text, betweenPaths) {
				keep(&found.Processes, processPlace(token))
				keep(&found.Outside, fileOutside(token))
			}
		}
	}
	return found
}

// keep keeps the first that is found, and not the code around it.
func keep(to *string, found string) {
	if *to == "" {
		*to = strings.Clone(found)
	}
}

// frameNames are the names that only frames, and ways to them, have.
func frameNames() []string {
	return []string{"_current_exceptions", "_current_frames", "_getframe", "f_back", "f_builtins", "f_globals", "f_locals", "gi_frame", "tb_frame"}
}

// frameCalls are the calls that give frames or all objects, of modules that have honest ones too.
func frameCalls() []string {
	return []string{"gc.get_objects", "gc.get_referrers", "inspect.getinnerframes", "inspect.getouterframes", "inspect.stack", "traceback.extract_stack",
		"traceback.walk_stack"}
}

// processCalls are the calls that tell of other processes. A Process whose id is not
// a number is mostly the caller's own.
func processCalls() []string {
	return []string{"psutil.Process", "psutil.pids", "psutil.process_iter"}
}

// processParts are what /proc has of a process and what tells more of it than how much it takes.
func processParts() []string {
	return []string{"auxv", "cmdline", "cwd", "exe", "fd", "fdinfo", "map_files", "maps", "ns", "numa_maps", "root", "smaps", "stack", "syscall", "task"}
}

// processPlace returns the place below /proc that a path leads to, if it tells of a process.
func processPlace(path string) string {
	path = strings.ToLower(strings.TrimPrefix(strings.ToLower(path), "file://"))
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	parts, _ := resolve(path)
	if len(parts) < 3 || parts[0] != "proc" || !slices.Contains(processParts(), parts[2]) {
		return ""
	}
	if !isProcess(parts[1]) && !strings.ContainsAny(parts[1], "*?[{$%") {
		return ""
	}
	return "/" + strings.Join(parts[:3], "/")
}

// fileOutside returns a file: address if it leads out of the workspace. What another part of it says, nobody knows.
func fileOutside(address string) string {
	const scheme = "file:"
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return ""
	}
	path := percentDecode(address[len(scheme):])
	if after, ok := strings.CutPrefix(path, "//"); ok {
		slash := strings.IndexByte(after, '/')
		if slash < 0 {
			return ""
		}
		path = after[slash:]
	}
	parts, _ := resolve(path)
	if !strings.HasPrefix(path, "/") || len(parts) == 0 || strings.Contains(parts[0], "{}") || parts[0] == "workspace" || parts[0] == "tmp" {
		return ""
	}
	return address
}

// looks takes in what the name at place i reaches for.
func (p *piece) looks(r *reading, i int) {
	name := p.all[i].text
	p.variables(r, i)
	if name == "environ" || name == "environb" {
		if p.whole(i) {
			keep(&r.reach.Environment, name)
		}
		return
	}
	if slices.Contains(frameNames(), name) {
		keep(&r.reach.Frames, name)
		return
	}
	t := p.meaning(i)
	switch called := t.module + "." + t.name; {
	case slices.Contains(frameCalls(), called):
		keep(&r.reach.Frames, called)
	case slices.Contains(processCalls(), called) && (t.name != "Process" || p.all[i+1].is("(") && p.all[i+2].kind == numeral):
		keep(&r.reach.Processes, called)
	}
}

// whole says whether all of the environment is taken at place i to be shown or gone through. A copy of it for
// another program, and one with something added, is not.
func (p *piece) whole(i int) bool {
	before, next := i-1, p.all[i+1]
	for range 4 { // os.environ, or a little more: no chain is walked as often as it has names
		if before > 0 && p.all[before].is(".") && p.all[before-1].kind == identifier {
			before -= 2
		}
	}
	if next.is(".") {
		return slices.Contains([]string{"items", "keys", "values"}, p.all[i+2].text)
	}
	if before < 0 || p.all[before].kind == end {
		return next.kind == end // an expression of its own, whose value a notebook or an f-string shows
	}
	switch {
	case p.all[before].text == "in" && p.all[before].kind == identifier:
		return before > 1 && p.all[before-1].kind == identifier && (p.all[before-2].text == "for" || p.all[before-2].is(","))
	case p.all[before].is("(") && before > 0 && p.all[before-1].kind == identifier && (next.is(")") || next.is(",")):
		shows := []string{"dumps", "list", "pp", "pprint", "print", "repr", "sorted", "str"}
		return slices.Contains(shows, p.all[before-1].text) || p.all[before-1].text == "dict" && next.is(")")
	case next.is("}") && p.spread(before): // as in {**os.environ}, with nothing added
		return true
	case p.all[before].is(",") && p.inside[before] > 0:
		return (next.is(")") || next.is(",")) && p.all[p.inside[before]-1].text == "print"
	}
	return false
}

// spread says whether at place at the stars end that copy a mapping to the beginning of another.
func (p *piece) spread(at int) bool {
	for range 2 {
		if at < 0 || strings.Trim(p.all[at].text, "*") != "" || p.all[at].text == "" {
			break
		}
		at--
	}
	return at >= 0 && p.all[at].is("{") && p.all[at+1].text != "" && strings.Trim(p.all[at+1].text, "*") == ""
}
