package tools

import (
	"fmt"
	"strings"
)

// inline writes what stands in a paragraph. The mark says what is with all of it.
func (d *docx) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > maxDocument {
			return
		}
		switch k.name {
		case "":
		case "t", "delText":
			l.write(mark, xmlText(k.words()))
		case "tab", "ptab":
			l.write(mark, "\t")
		case "br", "cr":
			l.write(mark, "\n")
		case "noBreakHyphen":
			l.write(mark, "-")
		case "sym":
			l.write(mark, fmt.Sprintf("[symbol %s of %s]", k.attr("char"), k.attr("font")))
		case "r":
			l.within(runScript(k), func() { d.inline(l, k, d.runMark(k, mark)) })
		case "del", "moveFrom":
			d.inline(l, k, "deleted")
		case "hyperlink":
			d.hyperlink(l, k, mark)
		case "instrText", "fldSimple":
			d.field(l, k, mark)
		case "footnoteReference", "endnoteReference", "commentReference":
			l.within("", func() { l.write(mark, noteLabel(k.name, k.attr("id"))) })
		case "txbxContent":
			var text strings.Builder
			d.blocks(&text, k)
			l.write(mark, "[text box: "+strings.Trim(text.String(), "\n")+"]")
		case "AlternateContent":
			d.inline(l, alternative(k), mark)
		case "docPr":
			if alt := k.attr("descr"); alt != "" {
				l.write(mark, "["+plainWords(alt)+"]")
			}
		case "blip", "imagedata", "chart", "relIds", "OLEObject":
			d.picture(l, k, mark)
		case "chr": // the sign of a sum or an integral
			l.write(mark, plainWords(k.attr("val")))
		case "e", "mr", "num", "den", "deg", "lim", "sub", "sup", "d", "rad": // of an equation, whose text alone would read as another
			around := map[string][2]string{"e": {"", " "}, "mr": {"[", "]"}, "num": {"(", ")"}, "den": {"/(", ")"}, "deg": {"[", "]"},
				"lim": {"_(", ")"}, "sub": {"_(", ")"}, "sup": {"^(", ")"}, "d": {"(", ")"}, "rad": {"√(", ")"}}[k.name]
			l.write(mark, around[0])
			d.inline(l, k, mark)
			l.write(mark, around[1])
		case "pPr", "rPr", "sdtPr", "instrDel", "delInstrText":
		default:
			d.inline(l, k, mark)
		}
	}
}

func (d *docx) runMark(run *node, mark string) string {
	p := run.kid("rPr")
	vanish := p.kid("vanish")
	switch {
	case mark != "":
		return mark
	case vanish.on() || vanish == nil && d.style(p.kid("rStyle").attr("val")).hidden:
		return "hidden"
	case p.kid("strike").on() || p.kid("dstrike").on():
		return "struck out"
	}
	if color := p.kid("highlight").attr("val"); color != "" && color != "none" {
		return "highlighted " + plainWords(color)
	}
	return strings.TrimSuffix(strings.TrimPrefix(shaded(p), "["), "] ")
}

// runScript says whether a run is raised or lowered.
func runScript(run *node) string {
	switch run.kid("rPr", "vertAlign").attr("val") {
	case "superscript":
		return "^"
	case "subscript":
		return "_"
	}
	return ""
}

func (d *docx) hyperlink(l *line, n *node, mark string) {
	to := d.relations[n.relation("id")].target
	if to == "" { // to a place in the document
		d.inline(l, n, mark)
		return
	}
	l.write(mark, "[")
	d.inline(l, n, mark)
	l.write(mark, "]("+plainWords(to)+")")
}

// field writes the address of a link that is a field, whose text follows; other
// fields show their last result only.
func (d *docx) field(l *line, n *node, mark string) {
	code := n.attr("instr")
	if n.name == "instrText" {
		code = n.words()
	}
	if words := strings.Fields(code); len(words) > 1 && words[0] == "HYPERLINK" && !strings.HasPrefix(words[1], `\`) {
		l.write(mark, "[link to "+plainWords(strings.Trim(words[1], `"`))+"] ")
	}
	if n.name == "fldSimple" {
		d.inline(l, n, mark)
	}
}

// picture names the part that is shown here: it is a member of the file.
func (d *docx) picture(l *line, n *node, mark string) {
	switch n.name {
	case "blip":
		l.write(mark, mention(d.relations, "picture", pictureID(n)))
	case "imagedata":
		l.write(mark, mention(d.relations, "picture", n.relation("id")))
	case "chart":
		l.write(mark, mention(d.relations, "chart", n.relation("id")))
	case "relIds":
		l.write(mark, mention(d.relations, "diagram", n.relation("dm")))
	case "OLEObject":
		l.write(mark, mention(d.relations, "embedded", n.relation("id")))
	}
}
