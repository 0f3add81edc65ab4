package tools

// formula writes the structures of a formula that change its meaning, in a line.
func (d *docx) formula(l *line, n *node, mark string) {
	part := func(name, before, after string) {
		if k := n.kid(name); k != nil {
			l.write(mark, before)
			d.inline(l, k, mark)
			l.write(mark, after)
		}
	}
	switch n.name {
	case "f":
		part("num", "(", ")")
		part("den", "/(", ")")
	case "rad":
		part("deg", "root[", "]")
		part("e", "√(", ")")
	case "nary":
		l.write(mark, character(n.kid("naryPr", "chr"), "∫"))
		part("sub", "_(", ")")
		part("sup", "^(", ") ")
		part("e", "", "")
	case "d":
		l.write(mark, character(n.kid("dPr", "begChr"), "("))
		between := ""
		for _, e := range n.kids {
			if e.name == "e" {
				l.write(mark, between)
				d.inline(l, e, mark)
				between = character(n.kid("dPr", "sepChr"), "|")
			}
		}
		l.write(mark, character(n.kid("dPr", "endChr"), ")"))
	default:
		part("e", "", "")
		part("sub", "_(", ")")
		part("sup", "^(", ")")
	}
}

// character is what an element says, which may be nothing, or the usual one
// where there is no element.
func character(n *node, usual string) string {
	if n == nil {
		return usual
	}
	return plainWords(n.attr("val"))
}
