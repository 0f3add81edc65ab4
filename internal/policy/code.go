package policy

import (
	"slices"
	"strings"
)

// reading is what a piece of code would do, as far as it can be told from the code. It is read as the
// interpreter reads it: what stands in a comment, or in a string that is data, is not done.
type reading struct {
	commands []string // programs that would be started, by base name in lower case, and forkBomb, removeAll
	packages []string // that would be imported or installed, as distribution gives them
	names    []string // identifiers, and variables of a shell
	literals []string // strings, those that are put together as one
	tangled  bool     // nested deeper than any interpreter takes
	reach    Reach    // of its names and commands
	rooted   bool     // it has gone to the root of the host's files
}

// maxCode is how many bytes of code are read. Longer code does not run: nobody could say what it does.
const maxCode = 256 << 10

// readCode reads Python code of at most maxCode bytes, and of longer code nothing.
func readCode(code string) reading {
	var r reading
	if len(code) <= maxCode {
		r.code(code, 0)
	}
	return r
}

// readLine reads a line for a shell.
func readLine(line string) reading {
	r := reading{literals: []string{line}}
	r.shell(line, 0)
	return r
}

// piece is code that is being read.
type piece struct {
	all             []lexeme
	partner, inside []int
	assigned        map[string][]span // what stands right of a name's equals signs
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
	all, deep := lex(code)
	r.tangled = r.tangled || deep
	if r.tangled {
		return
	}
	p := &piece{all: all, assigned: map[string][]span{}, meant: map[string]target{}, run: map[int]bool{}, within: within}
	p.partner, p.inside = brackets(all)
	p.names()
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

// endless says whether a while has no end of its own.
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

// imported takes in the packages of an import statement and returns the place of its last lexeme.
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

// imports takes in a module, of which the first part names the package.
func (r *reading) imports(module string) {
	top, _, _ := strings.Cut(module, ".")
	r.packages = append(r.packages, distribution(top))
	r.names = append(r.names, top)
}

// called takes in what a call of t does with its arguments, whose bracket is at place open.
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
		r.literals = append(r.literals, p.path(args))
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
		for i := a.from; i < a.to; i++ {
			if p.all[i].kind == literal {
				var text string
				text, i = p.joined(i, a.to)
				all = append(all, text)
				i--
			}
		}
	}
	return all
}

// runs takes in the code that the first argument of a call is.
func (p *piece) runs(r *reading, args []argument) {
	if len(args) == 0 {
		return
	}
	for i := args[0].from; i < args[0].to; i++ {
		if p.all[i].kind == literal {
			from := i
			var text string
			text, i = p.joined(i, args[0].to)
			i--
			if !p.run[from] {
				p.run[from] = true
				r.code(text, p.within+1)
			}
		}
	}
}

// path returns the path that is made of parts, or of a list of them, with {} for those that are not
// strings.
func (p *piece) path(args []argument) string {
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
	return strings.Join(parts, "/")
}
