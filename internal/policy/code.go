package policy

import (
	"iter"
	"slices"
	"strings"
)

// reading is what a piece of code would do, as far as the code shows. It is read as the
// interpreter reads it: what is in a comment, or in a string that is data, is not done.
type reading struct {
	commands []string // programs that would be started, by base name in lower case, and forkBomb, removeAll
	packages []string // that would be imported or installed, as distribution gives them
	names    []string // identifiers, and variables of a shell
	literals []string // strings, those that are put together as one
	tangled  bool     // nested deeper than any interpreter takes
	reach    Reach    // of its names and commands
	rooted   bool     // it has gone to the root of the host's files
}

// maxCode is how many bytes of code are read. Longer code does not run: no one could say what it does.
const maxCode = 256 << 10

// readCode reads Python code of at most maxCode bytes, and of longer code nothing.
func readCode(code string) reading {
	var r reading
	if len(code) <= maxCode {
		r.code(code, 0)
	}
	return r
}

// piece is code that is being read.
type piece struct {
	all             []lexeme
	partner, inside []int
	assigned        map[string][]span // what is right of a name's equals signs
	meant           map[string]target // what a name stands for
	run             map[int]bool      // strings that are taken in as code or as a command: each is once
	within          int
}

// span is a range of lexemes, in each of which, where it is a list, each element is meant.
type span struct {
	from, to int
	each     bool
}

func (r *reading) code(code string, within int) {
	if within > maxWithin {
		return
	}
	// To the interpreter, a carriage return ends a line, a comment too.
	l := &scanner{source: strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(code, "\ufeff"))}
	l.run(false)
	all := append(append(l.out, lexeme{end, ""}), l.inner...)
	r.tangled = r.tangled || l.deep
	if r.tangled {
		return
	}
	p := &piece{all: all, assigned: map[string][]span{}, meant: map[string]target{}, run: map[int]bool{}, within: within}
	p.partner, p.inside = brackets(all)
	// What the code gives to names counts anywhere: a function can be called above where what it uses is bound.
	for i := 0; i < len(all); i++ {
		switch x := all[i]; {
		case x.is("=") && i > 0 && !all[i+1].is("="):
			p.assigns(i)
		case x.kind != identifier:
		case x.text == "from" || x.text == "import":
			i = p.binds(i)
		case x.text == "for":
			p.loops(i)
		}
	}
	endless := false
	for i := 0; i < len(all); i++ {
		switch x := all[i]; x.kind {
		case literal:
			merged, next := p.joined(i, len(all))
			r.literals = append(r.literals, merged)
			i = next - 1
		case identifier:
			r.names = append(r.names, x.text)
			p.looks(r, i)
			switch {
			case x.text == "from" || x.text == "import":
				i = p.imported(r, i)
			case x.text == "while":
				endless = endless || p.endless(i)
			case p.partner[i+1] > 0 && all[i+1].is("("):
				t := p.meaning(i)
				if t.name == "fork" && endless {
					r.commands = append(r.commands, forkBomb)
				}
				p.walks(r, i)
				p.called(r, t, i+1)
			}
		}
	}
}

// endless reports whether a while has a condition that is always true.
func (p *piece) endless(i int) bool {
	for i++; p.all[i].is("("); i++ {
	}
	if p.all[i].text != "True" && p.all[i].kind != numeral {
		return false
	}
	for i++; i < len(p.all) && p.all[i].is(")"); i++ {
	}
	return i < len(p.all) && p.all[i].is(":")
}

// joined returns the string at place i with those that it is put together with, by nothing, by + or,
// as the parts of a path are, by /, and the place behind.
func (p *piece) joined(i, to int) (string, int) {
	whole := []byte(p.all[i].text)
	for i++; i < to; i++ {
		next, between := i, ""
		if p.all[i].is(")") && p.all[i+1].is("/") {
			next++
		}
		switch {
		case p.all[next].is("/"):
			next, between = next+1, "/"
		case p.all[next].is("+"):
			next++
		}
		if next >= to || p.all[next].kind != literal {
			break
		}
		whole = append(append(whole, between...), p.all[next].text...)
		i = next
	}
	return string(whole), i
}

// imported records the packages of an import statement and returns the place of its last lexeme.
func (p *piece) imported(r *reading, i int) int {
	if p.all[i].text == "from" {
		at := p.module(i)
		if p.all[i+1].kind == identifier && i+1 < at { // else it is relative
			r.imports(p.all[i+1].text)
		}
		return at
	}
	for at := i + 1; at < len(p.all) && p.all[at].kind == identifier; at++ {
		r.imports(p.all[at].text)
		for at < len(p.all) && p.all[at].kind != end && !p.all[at].is(",") {
			at++
		}
		if at >= len(p.all) || p.all[at].kind == end {
			return at
		}
		i = at
	}
	return i
}

// module returns the place of the import that belongs to the from at place i, and i where none does.
// What it looks at it does not look at again: no name of a module is from.
func (p *piece) module(i int) int {
	for at := i + 1; p.all[at].kind == identifier && p.all[at].text != "from" || p.all[at].is("."); at++ {
		if p.all[at].text == "import" {
			return at
		}
	}
	return i
}

// imports records a module, of which the first part names the package.
func (r *reading) imports(module string) {
	top, _, _ := strings.Cut(module, ".")
	r.packages = append(r.packages, distribution(top))
	r.names = append(r.names, top)
}

// called records what a call of t does with its arguments, whose bracket is at place open.
func (p *piece) called(r *reading, t target, open int) {
	args := p.arguments(open)
	if t.starter() {
		p.starts(r, args)
		return
	}
	if t.loader() {
		for _, text := range p.texts(args, 1) {
			r.imports(text)
		}
		return
	}
	switch t.name {
	case "compile":
		if t.module == "" || t.module == "builtins" { // others make patterns
			p.runs(r, args)
		}
	case "exec", "eval":
		p.runs(r, args)
	case "getattr":
		if behind := p.partner[open] + 1; p.all[behind].is("(") && p.partner[behind] > behind {
			if t, ok := p.attribute(args); ok && t.name != "getattr" {
				p.called(r, t, behind)
			}
		}
	case "main", "install":
		if slices.Contains([]string{"pip", "_internal", "micropip"}, t.module) {
			r.installs(append([]string{"install"}, p.texts(args, len(args))...))
		}
	case "rmtree":
		if texts := p.texts(args, 1); len(texts) > 0 && isEverything(texts[0]) {
			r.commands = append(r.commands, removeAll)
		}
	case "join", "joinpath", "Path", "PurePath", "PosixPath":
		// The path is made of these parts, or of a list of them; {} stands for one that is no string.
		if len(args) == 1 && args[0].from < args[0].to && p.all[args[0].from].is("[") && p.partner[args[0].from] > 0 {
			args = p.arguments(args[0].from)
		}
		var parts []string
		for _, a := range args {
			part := "{}"
			if p.all[a.from].kind == literal {
				part, _ = p.joined(a.from, a.to)
			}
			parts = append(parts, part)
		}
		r.literals = append(r.literals, strings.Join(parts, "/"))
	}
}

// argument is one argument of a call; key is "" where it has none.
type argument struct {
	key string
	span
}

// arguments cuts the arguments of a call, whose bracket is at place open, at their commas.
func (p *piece) arguments(open int) []argument {
	var args []argument
	for at := open + 1; at < p.partner[open]; at++ {
		arg := argument{span: span{from: at, to: at}}
		if p.all[at].kind == identifier && p.all[at+1].is("=") && !p.all[at+2].is("=") {
			arg.key, arg.from = p.all[at].text, at+2
		}
		for ; at < p.partner[open] && !p.all[at].is(","); at++ {
			if p.partner[at] > at {
				at = p.partner[at]
			}
		}
		arg.to = at
		args = append(args, arg)
	}
	return args
}

// texts returns the strings of the first n arguments, those in lists too.
func (p *piece) texts(args []argument, n int) []string {
	var all []string
	for _, a := range args[:min(n, len(args))] {
		for _, text := range p.literals(a.span) {
			all = append(all, text)
		}
	}
	return all
}

// literals yields the strings of an expression, those that are put together as one, with their places.
func (p *piece) literals(s span) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := s.from; i < s.to; {
			if p.all[i].kind != literal {
				i++
				continue
			}
			text, next := p.joined(i, s.to)
			if !yield(i, text) {
				return
			}
			i = next
		}
	}
}

// runs records the code that the first argument of a call is.
func (p *piece) runs(r *reading, args []argument) {
	if len(args) == 0 {
		return
	}
	for at, text := range p.literals(args[0].span) {
		if !p.run[at] {
			p.run[at] = true
			r.code(text, p.within+1)
		}
	}
}

// target is what a name of code stands for: a function or class, and the last part of the module or
// object that it is taken from, "" where there is none.
type target struct{ module, name string }

// starter reports whether calling it starts a program. Other things have a run, a call and a spawn too.
func (t target) starter() bool {
	switch t.name {
	case "run", "call", "spawn":
		return slices.Contains([]string{"commands", "os", "pexpect", "pty", "sh", "subprocess"}, t.module)
	case "system", "popen", "Popen", "check_call", "check_output", "getoutput", "getstatusoutput",
		"create_subprocess_exec", "create_subprocess_shell", "execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe",
		"posix_spawn", "posix_spawnp", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe":
		return true
	}
	return false
}

// loader reports whether calling it loads a module.
func (t target) loader() bool {
	return t.name == "__import__" || t.name == "import_module" || t.name == "run_module"
}

// means notes what a name stands for. A name that once stood for something whose calls are read keeps it.
func (p *piece) means(name string, t target) {
	before := p.meant[name]
	if !before.starter() && !before.loader() && !slices.Contains([]string{"compile", "eval", "exec", "fork", "getattr", "rmtree"}, before.name) {
		p.meant[name] = t
	}
}

// binds notes what an import gives names to, and returns the place of its last lexeme.
func (p *piece) binds(i int) int {
	module := ""
	if p.all[i].text == "from" {
		at := p.module(i)
		if at == i {
			return i
		}
		module, i = p.all[at-1].text, at
	}
	for i++; p.all[i].kind != end; i++ {
		if p.all[i].is("*") {
			for _, name := range []string{"call", "run", "spawn"} {
				p.means(name, target{module, name})
			}
		}
		if p.all[i].kind != identifier {
			continue
		}
		for p.all[i+1].is(".") && p.all[i+2].kind == identifier {
			i += 2
		}
		t := target{module, p.all[i].text}
		if p.all[i+1].text == "as" && p.all[i+2].kind == identifier {
			i += 2
		}
		p.means(p.all[i].text, t)
	}
	return i
}

// assigns notes what an equals sign gives to a name.
func (p *piece) assigns(i int) {
	name := i - 1
	for name > 0 && (p.all[name].is(":") || p.all[name].is("+")) {
		name--
	}
	if p.all[name].kind != identifier {
		return
	}
	to := i + 1
	for to < len(p.all) && p.all[to].kind != end && !p.all[to].is("=") && !(p.all[to].is(",") && p.inside[to] == p.inside[i] && p.inside[i] >= 0) {
		if p.partner[to] > to {
			to = p.partner[to]
		} else if p.all[to].is(")") || p.all[to].is("]") || p.all[to].is("}") {
			break
		}
		to++
	}
	whole := span{from: i + 1, to: to}
	p.assigned[p.all[name].text] = append(p.assigned[p.all[name].text], whole)
	if t, ok := p.value(whole); ok {
		p.means(p.all[name].text, t)
	}
}

// loops notes what the for at place i gives to its name, one after another.
func (p *piece) loops(i int) {
	if p.all[i+1].kind != identifier || p.all[i+2].text != "in" {
		return
	}
	from := i + 3
	to := from
	for to < len(p.all) && p.all[to].kind != end && !p.all[to].is(":") && p.all[to].text != "for" && p.all[to].text != "if" {
		if p.partner[to] > to {
			to = p.partner[to]
		} else if p.partner[to] >= 0 {
			break
		}
		to++
	}
	name := p.all[i+1].text
	p.assigned[name] = append(p.assigned[name], span{from, min(to, len(p.all)-1), true})
}

// meaning returns what the name at place i stands for, with what it is taken from.
func (p *piece) meaning(i int) target {
	name := p.all[i].text
	if i == 0 || !p.all[i-1].is(".") {
		if t, ok := p.meant[name]; ok {
			return t
		}
		return target{"", name}
	}
	switch before := p.all[max(i-2, 0)]; {
	case before.kind == identifier && (i < 3 || !p.all[i-3].is(".")):
		if t, ok := p.meant[before.text]; ok {
			return target{t.name, name}
		}
		return target{before.text, name}
	case before.kind == identifier:
		return target{before.text, name}
	case i > 1 && p.partner[i-2] >= 0: // __import__('os').system, sys.modules['os'].system
		return target{p.text(span{from: p.partner[i-2] + 1, to: i - 2}), name}
	}
	return target{"?", name}
}

// value returns what an expression stands for where that is a name, or getattr or the loading of a
// module with its names written out.
func (p *piece) value(s span) (target, bool) {
	at := s.from
	if p.all[at].kind != identifier {
		return target{}, false
	}
	for at+2 < s.to && p.all[at+1].is(".") && p.all[at+2].kind == identifier {
		at += 2
	}
	t := p.meaning(at)
	switch {
	case at+1 == s.to:
		return t, true
	case !p.all[at+1].is("(") || p.partner[at+1] != s.to-1:
		return target{}, false
	case t.loader():
		return target{"", p.text(span{from: at + 2, to: s.to - 1})}, true
	case t.name == "getattr":
		return p.attribute(p.arguments(at + 1))
	}
	return target{}, false
}

// attribute returns what getattr gives with these arguments.
func (p *piece) attribute(args []argument) (target, bool) {
	if len(args) < 2 {
		return target{}, false
	}
	of, ok := p.value(args[0].span)
	if !ok {
		of.name = "?"
	}
	return target{of.name, p.text(args[1].span)}, true
}

// text returns the string that an expression begins with, or "".
func (p *piece) text(s span) string {
	if s.from >= s.to || p.all[s.from].kind != literal {
		return ""
	}
	text, _ := p.joined(s.from, s.to)
	return text
}

// starts records the program that a call starts: that of the first argument with one, and those of
// arguments whose names say so.
func (p *piece) starts(r *reading, args []argument) {
	found := false
	for _, a := range args {
		switch a.key {
		case "":
			if at := a.from + 2; at < a.to && p.all[a.from].is("*") && p.all[at].is("{") && p.partner[at] > 0 { // **{'args': …}
				items := p.arguments(at)
				for i, item := range items { // the members of the dict
					if key := p.text(item.span); key != "" {
						colon := item.from
						for colon < item.to && !p.all[colon].is(":") {
							colon++
						}
						items[i] = argument{key, span{from: min(colon+1, item.to), to: item.to}}
					}
				}
				p.starts(r, items)
				continue
			}
			found = found || p.program(r, a.span)
		case "args", "cmd", "command", "executable":
			p.program(r, a.span)
		}
	}
}

// program records a program given as a line or as a list of words, here or where a name in its place
// was assigned, and reports whether there was one.
func (p *piece) program(r *reading, s span) bool {
	found, first := false, s.from
	if s.each && s.from < s.to && p.partner[s.from] > s.from {
		for _, element := range p.arguments(s.from) {
			found = p.program(r, element.span) || found
		}
		return found
	}
	for first < s.to && p.all[first].kind != literal {
		first++
	}
	for i := s.from; i < first; i++ {
		if name := p.all[i]; name.kind == identifier {
			spans := p.assigned[name.text]
			p.assigned[name.text] = nil // each is read once
			for _, assigned := range spans {
				assigned.each = assigned.each || s.each
				found = p.program(r, assigned) || found
			}
		}
	}
	if first == s.to {
		return found
	}
	if p.run[first] {
		return true
	}
	p.run[first] = true
	open := p.inside[first]
	list := open >= s.from && (p.all[open].is("[") || p.all[open].is("(") && (open == 0 || p.all[open-1].kind != identifier))
	if !list {
		line, _ := p.joined(first, s.to)
		r.shell(line, p.within)
		return true
	}
	words := p.texts([]argument{{span: s}}, 1)
	switch {
	case first == open+1 && len(words) == 1 && strings.ContainsAny(words[0], " \t\n"): // a line in brackets
		r.shell(words[0], p.within)
		return true
	case first == open+1:
		r.argv(words, p.within)
		return true
	}
	// The program itself is not said here; its own options may say what it runs.
	if words = r.interpreter(words, p.within); len(words) > 0 {
		r.argv(words, p.within)
	}
	return true
}
