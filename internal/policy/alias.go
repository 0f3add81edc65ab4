package policy

import "slices"

// target is what a name of code stands for: a function or class, and the last part of the module or
// object that it is taken from, "" where it is a name of its own.
type target struct{ module, name string }

// starter says whether calling it starts a program. Other things have a run, a call and a spawn too.
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

// loader says whether calling it loads a module.
func (t target) loader() bool {
	return t.name == "__import__" || t.name == "import_module" || t.name == "run_module"
}

// acts says whether a call of it is looked into.
func (t target) acts() bool {
	return t.starter() || t.loader() || slices.Contains([]string{"compile", "eval", "exec", "fork", "getattr", "rmtree"}, t.name)
}

// names notes what the code gives to names, anywhere: a function can be called above where what it
// uses is bound.
func (p *piece) names() {
	for i := 0; i < len(p.all); i++ {
		switch x := p.all[i]; {
		case x.is("=") && i > 0 && !p.all[i+1].is("="):
			p.assigns(i)
		case x.kind != identifier:
		case x.text == "from" || x.text == "import":
			i = p.binds(i)
		case x.text == "for":
			p.loops(i)
		}
	}
}

// means notes what a name stands for. A name that once stood for what is looked into still does.
func (p *piece) means(name string, t target) {
	if before := p.meant[name]; !before.acts() {
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
