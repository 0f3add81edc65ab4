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
		if n.kid("fPr", "type").attr("val") == "noBar" {
			part("num", "binomial(", "")
			part("den", ", ", ")")
			return
		}
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
	case "m":
		d.formulaRows(l, n, "mr", mark)
	case "eqArr":
		d.formulaRows(l, n, "", mark)
	case "func":
		part("fName", "", "")
		part("e", "(", ")")
	case "acc":
		part("e", "", character(n.kid("accPr", "chr"), "\u0302"))
	case "bar":
		part("e", "bar(", ")")
	case "limLow":
		part("e", "", "")
		part("lim", "_(", ") ")
	case "limUpp":
		part("e", "", "")
		part("lim", "^(", ") ")
	default:
		part("e", "", "")
		part("sub", "_(", ")")
		part("sup", "^(", ")")
	}
}

// formulaRows writes a matrix as [a, b; c, d]; without a name for its rows each
// element is one.
func (d *docx) formulaRows(l *line, n *node, row, mark string) {
	l.write(mark, "[")
	between := ""
	for _, r := range n.kids {
		cells := []*node{r}
		if row != "" {
			if r.name != row {
				continue
			}
			cells = r.kids
		}
		for _, e := range cells {
			if e.name == "e" {
				l.write(mark, between)
				d.inline(l, e, mark)
				between = ", "
			}
		}
		if between != "" {
			between = "; "
		}
	}
	l.write(mark, "]")
}

// character is what an element says, which may be nothing, or the usual one
// where there is no element.
func character(n *node, usual string) string {
	if n == nil {
		return usual
	}
	return plainWords(n.attr("val"))
}
