package policy

import (
	"slices"
	"strings"
)

// Reach is what a call looks at of the process and the host that it runs in, each in the words that say it; "" for
// nothing. The Gate refuses none of it, since each has an honest use: who reads the record has to look.
type Reach struct {
	Frames      string // frames of its callers, or all objects of the interpreter: sys._getframe
	Processes   string // data of a process: /proc/1/cmdline, psutil.pids; environ and mem are R003's
	Outside     string // a file: address of what is not in the workspace
	Environment string // all variables of the environment: printenv. To look one up is nothing
	Answers     string // a variable of the environment whose name promises answers: GOLD_ANSWER
	Walks       string // a walk through all files of the host: find /
}

// Reaches returns what a call reaches for, as far as its arguments tell.
func Reaches(c ReadCall) Reach {
	var found Reach
	for _, url := range c.URLs {
		keep(&found.Outside, fileOutside(url))
	}
	for _, path := range c.Paths {
		keep(&found.Outside, fileOutside(path))
		keep(&found.Processes, processPlace(path))
	}
	for _, r := range c.read {
		keep(&found.Frames, r.reach.Frames)
		keep(&found.Environment, r.reach.Environment)
		keep(&found.Walks, r.reach.Walks)
		if Promises(r.reach.Answers) > Promises(found.Answers) {
			found.Answers = r.reach.Answers
		}
		keep(&found.Processes, r.reach.Processes)
		for _, text := range r.literals {
			if slices.Contains(data().Review.FrameNames, text) { // as for getattr
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

// processPlace returns the place below /proc that a path leads to, if it describes a process.
func processPlace(path string) string {
	path = strings.ToLower(strings.TrimPrefix(strings.ToLower(path), "file://"))
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	parts, _ := resolve(path)
	if len(parts) < 3 || parts[0] != "proc" || !slices.Contains(data().Review.ProcessParts, parts[2]) {
		return ""
	}
	if !isProcess(parts[1]) && !strings.ContainsAny(parts[1], "*?[{$%") {
		return ""
	}
	return "/" + strings.Join(parts[:3], "/")
}

// fileOutside returns a file: address if it leads out of the workspace. What another part of it says, no one knows.
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

// looks records what the name at place i reaches for.
func (p *piece) looks(r *reading, i int) {
	name := p.all[i].text
	p.variables(r, i)
	if name == "environ" || name == "environb" {
		if p.whole(i) {
			keep(&r.reach.Environment, name)
		}
		return
	}
	if slices.Contains(data().Review.FrameNames, name) {
		keep(&r.reach.Frames, name)
		return
	}
	t := p.meaning(i)
	switch called := t.module + "." + t.name; {
	case slices.Contains(data().Review.FrameCalls, called):
		keep(&r.reach.Frames, called)
	case slices.Contains(data().Review.ProcessCalls, called) && // a Process whose id is no number is mostly the caller's own
		(t.name != "Process" || p.all[i+1].is("(") && p.all[i+2].kind == numeral):
		keep(&r.reach.Processes, called)
	}
}

// whole reports whether all of the environment is taken at place i to be shown or gone through. A copy of it for
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
		return next.kind == end // a whole expression, whose value a notebook or an f-string shows
	}
	switch {
	case p.all[before].text == "in" && p.all[before].kind == identifier:
		return before > 1 && p.all[before-1].kind == identifier && (p.all[before-2].text == "for" || p.all[before-2].is(","))
	case p.all[before].is("(") && before > 0 && p.all[before-1].kind == identifier && (next.is(")") || next.is(",")):
		shows := []string{"dumps", "list", "pp", "pprint", "print", "repr", "sorted", "str"}
		return slices.Contains(shows, p.all[before-1].text) || p.all[before-1].text == "dict" && next.is(")")
	case next.is("}"): // as in {**os.environ}, with nothing added
		stars := func(at int) bool { return p.all[at].text != "" && strings.Trim(p.all[at].text, "*") == "" }
		at := before
		for range 2 {
			if at >= 0 && stars(at) {
				at--
			}
		}
		return at >= 0 && p.all[at].is("{") && stars(at+1)
	case p.all[before].is(",") && p.inside[before] > 0:
		return (next.is(")") || next.is(",")) && p.all[p.inside[before]-1].text == "print"
	}
	return false
}

// Promise says how surely the name of a variable promises answers.
type Promise int

const (
	NoPromise      Promise = iota
	PerhapsPromise         // ANSWER_FILE, which may be where one's own is to be written
	CertainPromise         // GOLD_ANSWER
)

// Promises returns how surely the name of a variable of the environment promises answers. A word that
// no list has makes it another thing: ANSWER_FORMAT, GOLD_PRICE.
func Promises(name string) Promise {
	all := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	lists := &data().Review
	switch {
	case lists.CertainVariables.all(all):
		return CertainPromise
	case lists.PossibleVariables.all(all):
		return PerhapsPromise
	}
	return NoPromise
}

// promised keeps a variable that is looked up, the surest first.
func (r *reading) promised(name string) {
	if how := Promises(name); how > Promises(r.reach.Answers) {
		r.reach.Answers = strings.Clone(name)
	}
}

// variables records the variable that is looked up at place i: os.environ['A'], os.getenv('A'), process.env.A.
func (p *piece) variables(r *reading, i int) {
	next := p.all[i+1]
	var names []string
	switch name := p.all[i].text; {
	case name == "getenv" || name == "expandvars":
		if next.is("(") && p.partner[i+1] > 0 {
			names = p.values(span{from: i + 2, to: p.partner[i+1]})
		}
	case !slices.Contains([]string{"ENV", "env", "environ", "environb"}, name):
		return
	case next.is("[") && p.partner[i+1] > 0:
		if after := p.partner[i+1] + 1; p.all[after].is("=") && !p.all[after+1].is("=") { // it is given a value
			return
		}
		names = p.values(span{from: i + 2, to: p.partner[i+1]})
	case next.is(".") && p.all[i+2].kind != identifier:
		return
	case next.is(".") && p.all[i+3].is("(") && p.partner[i+3] > 0:
		if args := p.arguments(i + 3); len(args) > 0 && slices.Contains([]string{"get", "pop", "fetch"}, p.all[i+2].text) {
			names = p.values(args[0].span)
		}
	case next.is("."):
		names = []string{p.all[i+2].text}
	default: // 'A' in os.environ
		at := i - 1
		if at > 1 && p.all[at].is(".") { // of os
			at -= 2
		}
		if at > 0 && p.all[at].text == "in" && p.all[at-1].kind == literal {
			names = []string{p.all[at-1].text}
		}
	}
	common := strings.EqualFold(p.all[i].text, "env") // other things are called so too
	for _, name := range names {
		r.expanded(name)
		if !common || name == strings.ToUpper(name) {
			r.promised(name)
		}
	}
}

// expanded records the variables that a shell expands in a line, except those that the line itself assigns.
func (r *reading) expanded(line string) {
	rest := line
	for checked := 0; checked < maxExpanded; {
		_, after, found := strings.Cut(rest, "$")
		if !found {
			return
		}
		rest = after
		name := strings.TrimLeft(after, "{!")
		if end := strings.IndexFunc(name, func(c rune) bool { return !isName(string(c)) }); end >= 0 {
			name = name[:end]
		}
		if len(name) < 2 || len(name) > 64 || name != strings.ToUpper(name) || Promises(name) <= Promises(r.reach.Answers) {
			continue
		}
		checked++
		if !strings.Contains(line, name+"=") && !strings.Contains(line, "read "+name) && !strings.Contains(line, "for "+name+" ") {
			r.promised(name)
		}
	}
}

// maxExpanded bounds how many variables of a line are looked for among those that it gives a value.
const maxExpanded = 64

// walker returns the walk through all files of the host that a command of a shell is, "" if it is none. rooted says that the
// shell is at the root.
func walker(command string, words []string, rooted bool) string {
	var plain []string
	recursive, shallow := false, false
	for i, w := range words {
		switch {
		case w == "-maxdepth" || w == "-L" || w == "-d" || w == "--max-depth":
			shallow = shallow || i+1 < len(words) && len(words[i+1]) == 1 && words[i+1] < "3"
		case strings.HasPrefix(w, "--"):
			recursive = recursive || strings.HasSuffix(w, "recursive")
		case strings.HasPrefix(w, "-"):
			recursive = recursive || strings.ContainsAny(w, "rR")
		default:
			plain = append(plain, w)
		}
	}
	everywhere := slices.ContainsFunc(plain, func(w string) bool { return isEverything(w) || rooted && strings.Trim(w, "./*") == "" })
	found := false
	switch command {
	case "locate", "mlocate", "plocate":
		return command
	case "find", "tree", "du":
		found = everywhere || rooted && (command != "find" || len(plain) == 0)
	case "ag", "fd", "fdfind", "rg":
		found = everywhere || rooted && len(plain) < 2
	case "egrep", "fgrep", "grep":
		found = recursive && (everywhere || rooted && len(plain) < 2)
	case "ls":
		found = slices.ContainsFunc(words, func(w string) bool {
			return w == "--recursive" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "R")
		}) && (everywhere || rooted && len(plain) == 0)
	}
	if !found || shallow {
		return ""
	}
	return command + " /"
}

// walks records the call at place i if it goes through all files of the host: os.walk('/'), glob.glob('/**'), Path('/').rglob('*').
func (p *piece) walks(r *reading, i int) {
	t := p.meaning(i)
	if !slices.Contains([]string{"chdir", "fwalk", "glob", "iglob", "rglob", "walk"}, t.name) {
		return
	}
	args := p.arguments(i + 1)
	if t.name == "chdir" && len(args) > 0 {
		r.rooted = r.rooted || slices.ContainsFunc(p.values(args[0].span), func(s string) bool { return strings.Trim(s, "/.") == "" && strings.HasPrefix(s, "/") })
		return
	}
	everything := func(s string) bool { return isEverything(s) || r.rooted && strings.Trim(s, "./") == "" }
	var first []string
	if len(args) > 0 {
		first = p.values(args[0].span)
	}
	if slices.ContainsFunc(first, func(s string) bool {
		if strings.HasSuffix(t.name, "walk") {
			return everything(s)
		}
		deep := strings.Contains(s, "**") || strings.Count(s, "/*") > 2 // it goes through folders of folders
		return deep && everything(s[:strings.LastIndexByte(s[:strings.IndexAny(s, "*?[")], '/')+1])
	}) {
		keep(&r.reach.Walks, t.name)
		return
	}
	if i < 2 || !p.all[i-1].is(".") || t.name == "glob" && !slices.ContainsFunc(first, func(s string) bool { return strings.Contains(s, "**") }) {
		return
	}
	var of []string // the path whose method it is
	if before := p.all[i-2]; before.kind == identifier {
		of = p.values(span{from: i - 2, to: i - 1})
	} else if open := p.partner[i-2]; before.is(")") && open >= 0 {
		of = p.values(span{from: open + 1, to: i - 2})
	}
	if slices.ContainsFunc(of, everything) {
		keep(&r.reach.Walks, t.name)
	}
}

// values returns the strings that an expression may be: its own, and those that its names were given. It reads the
// beginning of a long expression.
func (p *piece) values(s span) []string {
	s.to = min(s.to, s.from+maxAssigned)
	all := p.texts([]argument{{span: s}}, 1)
	followed := map[string]bool{}
	for i := s.from; i < s.to && len(all) <= maxAssigned; i++ {
		switch x := p.all[i]; {
		case x.kind != identifier || followed[x.text]:
		case x.text == "sep":
			all = append(all, "/")
		case len(p.assigned[x.text]) <= maxAssigned:
			followed[x.text] = true
			for _, given := range p.assigned[x.text] {
				if given.to-given.from <= maxAssigned {
					all = append(all, p.texts([]argument{{span: given}}, 1)...)
				}
			}
		}
	}
	return all
}

// maxAssigned bounds what is looked at of an expression and of a name in it: how many lexemes they have, and how often the
// name is given a value.
const maxAssigned = 32
