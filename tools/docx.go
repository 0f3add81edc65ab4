package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// docx is a text document of Office Open XML (ECMA-376, part 1, 17) on its way
// to text.
type docx struct {
	parts     *parts
	styles    map[string]docxStyle
	lists     *numbering
	relations map[string]relation // of the part that is being written
	notes     []string
}

type docxStyle struct {
	basedOn, list, level string
	heading              int // 1 to 9, 0 for none
	hidden               bool
}

// readDocx turns a docx into text: headings and lists as markdown, tables as
// rows; what stands beside the text (notes, comments, headers and footers)
// comes after it.
func readDocx(ctx context.Context, data []byte) (document, error) {
	p, err := openParts("docx", data)
	if err != nil {
		return document{}, err
	}
	name := p.mainPart("word/document.xml")
	root, err := p.tree(name)
	if err != nil {
		return document{}, err
	}
	d := &docx{parts: p, styles: map[string]docxStyle{}}
	main, ids, err := p.relations(name)
	if err != nil {
		return document{}, err
	}
	aside := map[string][]string{} // kind of part → parts
	for _, id := range ids {
		if to := main[id]; to.part && p.has(to.target) {
			aside[to.kind] = append(aside[to.kind], to.target)
		}
	}
	d.readStyles(aside)
	d.relations = main
	var b strings.Builder
	d.blocks(&b, root.kid())
	for _, a := range []struct{ kind, element, title string }{
		{"footnotes", "footnote", "footnotes"}, {"endnotes", "endnote", "endnotes"}, {"comments", "comment", "comments"},
		{"header", "", "header"}, {"footer", "", "footer"},
	} {
		for _, part := range aside[a.kind] {
			if err := ctx.Err(); err != nil {
				return document{}, err
			}
			section(&b, a.title, d.aside(part, a.element))
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		d.notes = append(d.notes, "without text")
	}
	return document{"docx", d.notes, strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}, nil
}

// part reads a part that the document can do without.
func (d *docx) part(name string) *node {
	root, err := d.parts.tree(name)
	if err != nil {
		d.notes = append(d.notes, fmt.Sprintf("without %s, which cannot be read", plainName(name)))
		return nil
	}
	return root
}

// aside writes a part that stands beside the text.
func (d *docx) aside(name, element string) string {
	root := d.part(name)
	if root == nil {
		return ""
	}
	before := d.relations
	defer func() { d.relations = before }()
	if own, _, err := d.parts.relations(name); err == nil {
		d.relations = own
	}
	var b strings.Builder
	if element == "" {
		d.blocks(&b, root.kid())
		return b.String()
	}
	for _, n := range root.all(element) {
		if kind := n.attr("type"); kind != "" && kind != "normal" {
			continue // the lines between text and notes
		}
		var text strings.Builder
		d.blocks(&text, n)
		label := noteLabel(element, n.attr("id"))
		if who := n.attr("author"); who != "" {
			label += " by " + plainName(who)
		}
		if when := n.attr("date"); when != "" {
			label += ", " + plainName(when)
		}
		b.WriteString(label + ": " + strings.TrimSpace(text.String()) + "\n")
	}
	return b.String()
}

func noteLabel(element, id string) string {
	return "[" + strings.TrimSuffix(element, "Reference") + " " + plainName(id) + "]"
}

func (d *docx) readStyles(aside map[string][]string) {
	for _, name := range aside["styles"] {
		for _, s := range d.part(name).all("style") {
			p := s.kid("pPr")
			style := docxStyle{
				basedOn: s.kid("basedOn").attr("val"),
				list:    p.kid("numPr", "numId").attr("val"), level: p.kid("numPr", "ilvl").attr("val"),
				heading: outline(p), hidden: s.kid("rPr", "vanish").on(),
			}
			words := strings.ToLower(s.kid("name").attr("val"))
			if n, is := strings.CutPrefix(words, "heading "); is && style.heading == 0 {
				style.heading = digit(n)
			} else if words == "title" {
				style.heading = 1
			}
			d.styles[s.attr("styleId")] = style
		}
	}
	var root *node
	for _, name := range aside["numbering"] {
		root = d.part(name)
	}
	d.lists = readNumbering(root)
}

// outline is the level of a heading from 1, which the format counts from 0; 0
// for text.
func outline(p *node) int {
	if level := p.kid("outlineLvl").attr("val"); level != "" && level != "9" {
		if n, err := strconv.Atoi(level); err == nil && n >= 0 && n < 9 {
			return n + 1
		}
	}
	return 0
}

func digit(s string) int {
	if len(s) == 1 && s[0] >= '1' && s[0] <= '9' {
		return int(s[0] - '0')
	}
	return 0
}

// style is a style with what it takes from those it is based on.
func (d *docx) style(id string) docxStyle {
	s := d.styles[id]
	for base, steps := s.basedOn, 0; base != "" && steps < 10; steps++ {
		from := d.styles[base]
		if s.heading == 0 {
			s.heading = from.heading
		}
		if s.list == "" {
			s.list, s.level = from.list, from.level
		}
		s.hidden = s.hidden || from.hidden
		base = from.basedOn
	}
	return s
}

// blocks writes the paragraphs and tables below n.
func (d *docx) blocks(b *strings.Builder, n *node) {
	for _, k := range n.kids {
		if b.Len() > maxDocument {
			return
		}
		switch k.name {
		case "p":
			d.paragraph(b, k)
		case "tbl":
			d.table(b, k)
		case "altChunk":
			b.WriteString(mention(d.relations, "embedded", k.relation("id")) + "\n")
		case "AlternateContent":
			d.blocks(b, alternative(k))
		case "pPr", "rPr", "sectPr", "sdtPr", "tblPr", "trPr", "tcPr", "":
		default:
			d.blocks(b, k)
		}
	}
}

// alternative is the first of the contents that a reader may choose from: the
// others say the same in older words.
func alternative(n *node) *node {
	if choice := n.kid("Choice"); choice != nil {
		return choice
	}
	if fallback := n.kid("Fallback"); fallback != nil {
		return fallback
	}
	return &node{}
}

func (d *docx) paragraph(b *strings.Builder, n *node) {
	p := n.kid("pPr")
	style := d.style(p.kid("pStyle").attr("val"))
	var l line
	d.inline(&l, n, "")
	text := strings.TrimRight(l.String(), " \t")
	heading := outline(p)
	if heading == 0 {
		heading = style.heading
	}
	label := ""
	if own := p.kid("numPr", "numId").attr("val"); own != "" {
		label = d.lists.label(own, p.kid("numPr", "ilvl").attr("val"))
	} else if style.list != "" {
		label = d.lists.label(style.list, style.level)
	}
	switch {
	case strings.TrimSpace(text) == "":
		b.WriteString("\n")
	case heading > 0:
		b.WriteString(strings.Repeat("#", min(heading, 6)) + " " + strings.TrimLeft(label, " ") + text + "\n")
	default:
		b.WriteString(label + text + "\n")
	}
}

func (d *docx) table(b *strings.Builder, n *node) {
	for _, row := range n.all("tr") {
		if b.Len() > maxDocument {
			return
		}
		var cells []string
		for range min(valueOf(row.kid("trPr", "gridBefore")), 64) {
			cells = append(cells, "")
		}
		for _, c := range row.all("tc") {
			var text strings.Builder
			d.blocks(&text, c)
			cells = append(cells, shaded(c.kid("tcPr"))+text.String())
			for range min(valueOf(c.kid("tcPr", "gridSpan"))-1, 64) {
				cells = append(cells, "") // so that columns stay under each other
			}
		}
		switch p := row.kid("trPr"); {
		case p.kid("del") != nil:
			b.WriteString("[deleted row] ")
		case p.kid("hidden").on():
			b.WriteString("[hidden row] ")
		}
		tableRow(b, cells)
	}
}

// shaded says which colour the ground of a cell has; "" for none and for white.
func shaded(p *node) string {
	if fill := strings.ToUpper(p.kid("shd").attr("fill")); fill != "" && fill != "AUTO" && fill != "FFFFFF" {
		return "[filled #" + plainWords(fill) + "] "
	}
	return ""
}

// valueOf is a number that an element holds, 0 if it holds none.
func valueOf(n *node) int {
	v, err := strconv.Atoi(n.attr("val"))
	if err != nil {
		return 0
	}
	return v
}
