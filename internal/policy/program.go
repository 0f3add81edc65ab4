package policy

import "strings"

// starts takes in the program that a call starts: of the first argument that says one, and of those
// that say one by their name.
func (p *piece) starts(r *reading, args []argument) {
	found := false
	for _, a := range args {
		switch a.key {
		case "":
			if at := a.from + 2; at < a.to && p.all[a.from].is("*") && p.all[at].is("{") && p.partner[at] > 0 { // **{'args': …}
				p.starts(r, p.items(at))
				continue
			}
			found = found || p.program(r, a.span)
		case "args", "cmd", "command", "executable":
			p.program(r, a.span)
		}
	}
}

// items returns the members of a dict, whose bracket is at place open, as arguments.
func (p *piece) items(open int) []argument {
	items := p.arguments(open)
	for i, a := range items {
		if key := p.text(a.span); key != "" {
			colon := a.from
			for colon < a.to && !p.all[colon].is(":") {
				colon++
			}
			items[i] = argument{key, span{from: min(colon+1, a.to), to: a.to}}
		}
	}
	return items
}

// program takes in a program given as a line or as a list of words, here or where a name in its place
// was assigned, and says whether there was one.
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
