package document

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/tools"
)

// ooxml converts the parts of a docx (ECMA-376, part 1, 17) or pptx (19) to text.
type ooxml struct {
	parts     *parts
	styles    map[string]docxStyle
	lists     map[string]*docxList // by id
	relations map[string]relation  // of the part that is being written
	notes     []string
}

type docxStyle struct {
	basedOn, list, level string
	heading              int // 1 to 9, 0 for none
	hidden               bool
}

// readDocx turns a docx into text: headings and lists as markdown, tables as
// rows. Notes, comments, headers and footers follow the text.
func readDocx(ctx context.Context, data []byte) (tools.Document, error) {
	p, err := openParts("docx", data)
	if err != nil {
		return tools.Document{}, err
	}
	root, main, ids, err := p.main("word/document.xml")
	if err != nil {
		return tools.Document{}, err
	}
	d := &ooxml{parts: p, styles: map[string]docxStyle{}}
	byKind := map[string][]string{} // kind of part → parts
	for _, id := range ids {
		if to := main[id]; to.part && p.has(to.target) {
			byKind[to.kind] = append(byKind[to.kind], to.target)
		}
	}
	for _, name := range byKind["styles"] {
		d.readStyles(d.part(name))
	}
	for _, name := range byKind["numbering"] {
		d.lists = readNumbering(d.part(name))
	}
	d.relations = main
	var b strings.Builder
	d.blocks(&b, root)
	for _, a := range []struct{ kind, element, title string }{
		{"footnotes", "footnote", "footnotes"}, {"endnotes", "endnote", "endnotes"}, {"comments", "comment", "comments"},
		{"header", "", "header"}, {"footer", "", "footer"},
	} {
		for _, part := range byKind[a.kind] {
			if err := ctx.Err(); err != nil {
				return tools.Document{}, err
			}
			section(&b, a.title, d.aside(part, a.element))
		}
	}
	return officeDocument("docx", d.notes, &b), nil
}

// part reads a part that the document can do without.
func (d *ooxml) part(name string) *node {
	root, err := d.parts.tree(name)
	if err != nil {
		d.notes = append(d.notes, fmt.Sprintf("without %s, which cannot be read", tools.PlainName(name)))
	}
	return root
}

// aside returns the text of a part beside the document's body: all of it, or each
// element of a name under a label.
func (d *ooxml) aside(name, element string) string {
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
	}
	for _, n := range root.all(cmp.Or(element, "-")) {
		if kind := n.attr("type"); kind != "" && kind != "normal" {
			continue // the lines between text and notes
		}
		var text strings.Builder
		d.blocks(&text, n)
		label := authored(noteLabel(element, n.attr("id")), n.attr("author"), n.attr("date"))
		b.WriteString(label + ": " + strings.TrimSpace(text.String()) + "\n")
	}
	return b.String()
}

func noteLabel(element, id string) string {
	return "[" + strings.TrimSuffix(element, "Reference") + " " + tools.PlainName(id) + "]"
}

func (d *ooxml) readStyles(root *node) {
	for _, s := range root.all("style") {
		p := s.kid("pPr")
		style := docxStyle{
			basedOn: s.kid("basedOn").attr("val"),
			list:    p.kid("numPr", "numId").attr("val"), level: p.kid("numPr", "ilvl").attr("val"),
			heading: outline(p), hidden: s.kid("rPr", "vanish").on(),
		}
		name := strings.ToLower(s.kid("name").attr("val"))
		if n, is := strings.CutPrefix(name, "heading "); is && style.heading == 0 {
			if v, err := strconv.Atoi(n); err == nil && v >= 1 && v <= 9 {
				style.heading = v
			}
		} else if name == "title" {
			style.heading = 1
		}
		d.styles[s.attr("styleId")] = style
	}
}

// outline is the level of a heading from 1, which the format counts from 0; 0
// for text.
func outline(p *node) int {
	if i, ok := levelOf(p.kid("outlineLvl").attr("val")); ok {
		return i + 1
	}
	return 0
}

// style is a style with what it takes from those it is based on.
func (d *ooxml) style(id string) docxStyle {
	s := d.styles[id]
	for base, steps := s.basedOn, 0; base != "" && steps < 10; steps++ {
		from := d.styles[base]
		s.heading = cmp.Or(s.heading, from.heading)
		if s.list == "" {
			s.list, s.level = from.list, from.level
		}
		s.hidden = s.hidden || from.hidden
		base = from.basedOn
	}
	return s
}

// blocks writes the paragraphs and tables below n.
func (d *ooxml) blocks(b *strings.Builder, n *node) {
	for _, k := range n.kids {
		if b.Len() > tools.MaxDocument {
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
// others are the same content in older formats.
func alternative(n *node) *node {
	return cmp.Or(n.kid("Choice"), n.kid("Fallback"), &node{})
}

func (d *ooxml) paragraph(b *strings.Builder, n *node) {
	p := n.kid("pPr")
	style := d.style(p.kid("pStyle").attr("val"))
	if own := p.kid("numPr", "numId").attr("val"); own != "" {
		style.list, style.level = own, p.kid("numPr", "ilvl").attr("val")
	}
	var l line
	d.inline(&l, n, "")
	text := strings.TrimRight(l.String(), " \t")
	label := ""
	if style.list != "" {
		label = d.listLabel(style.list, style.level)
	}
	heading := cmp.Or(outline(p), style.heading)
	switch {
	case strings.TrimSpace(text) == "":
		b.WriteString("\n")
	case heading > 0:
		b.WriteString(strings.Repeat("#", min(heading, 6)) + " " + strings.TrimLeft(label, " ") + text + "\n")
	default:
		b.WriteString(label + text + "\n")
	}
}

func (d *ooxml) table(b *strings.Builder, n *node) {
	for _, row := range n.all("tr") {
		if b.Len() > tools.MaxDocument {
			return
		}
		p := row.kid("trPr")
		cells := make([]string, max(0, min(valueOf(p.kid("gridBefore")), 64)))
		for _, c := range row.all("tc") {
			var text strings.Builder
			d.blocks(&text, c)
			cells = append(cells, shaded(c.kid("tcPr"))+text.String())
			spanned := min(valueOf(c.kid("tcPr", "gridSpan"))-1, 64)
			cells = append(cells, make([]string, max(0, spanned))...) // so that columns stay under each other
		}
		switch {
		case p.kid("del") != nil:
			b.WriteString("[deleted row] ")
		case p.kid("hidden").on():
			b.WriteString("[hidden row] ")
		}
		tableRow(b, cells)
	}
}

// shaded names the background colour of a cell or run; "" for none and for white.
func shaded(p *node) string {
	if fill := strings.ToUpper(p.kid("shd").attr("fill")); fill != "" && fill != "AUTO" && fill != "FFFFFF" {
		return "[filled #" + plainWords(fill) + "] "
	}
	return ""
}

// valueOf is the number that an element holds, 0 if it holds none.
func valueOf(n *node) int {
	v, err := strconv.Atoi(n.attr("val"))
	if err != nil {
		return 0
	}
	return v
}

// listLevels is the number of levels of a list, by the format.
const listLevels = 9

// docxList is a list. Lists of one definition share its levels and count on.
type docxList struct {
	levels   *[listLevels]listLevel // nil: not defined
	restarts map[int]int            // level → number it begins with
}

type listLevel struct {
	format, text string
	start, count int
}

func readNumbering(root *node) map[string]*docxList {
	definitions := map[string]*[listLevels]listLevel{}
	for _, a := range root.all("abstractNum") {
		levels := new([listLevels]listLevel)
		for i := range levels {
			levels[i].count = -1
		}
		for _, n := range a.all("lvl") {
			if i, ok := levelOf(n.attr("ilvl")); ok {
				start := valueOf(n.kid("start"))
				levels[i] = listLevel{n.kid("numFmt").attr("val"), n.kid("lvlText").attr("val"), start, start - 1}
			}
		}
		definitions[a.attr("abstractNumId")] = levels
	}
	lists := map[string]*docxList{}
	for _, n := range root.all("num") {
		l := &docxList{definitions[n.kid("abstractNumId").attr("val")], map[int]int{}}
		for _, o := range n.all("lvlOverride") {
			start := o.kid("startOverride")
			if i, ok := levelOf(o.attr("ilvl")); ok && start != nil {
				l.restarts[i] = valueOf(start)
			}
		}
		lists[n.attr("numId")] = l
	}
	return lists
}

func levelOf(s string) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < listLevels
}

// listLabel counts a paragraph of a list and returns the label before it, "" for
// a paragraph that is taken out of its list.
func (d *ooxml) listLabel(list, level string) string {
	i, ok := levelOf(cmp.Or(level, "0"))
	if list == "0" || !ok {
		return ""
	}
	indent := strings.Repeat("  ", i)
	l := d.lists[list]
	if l == nil || l.levels == nil {
		return indent + "- "
	}
	own := &l.levels[i]
	if start, restart := l.restarts[i]; restart {
		own.count = start - 1
		delete(l.restarts, i)
	}
	own.count++
	for j := i + 1; j < listLevels; j++ {
		l.levels[j].count = l.levels[j].start - 1
	}
	if own.format == "bullet" || own.format == "none" || own.text == "" {
		return indent + "- "
	}
	text := own.text
	for j, at := range l.levels {
		if j < i {
			at.count = max(at.count, at.start) // a level that was skipped counts as begun
		}
		if place := "%" + strconv.Itoa(j+1); strings.Contains(text, place) {
			text = strings.ReplaceAll(text, place, numeral(at.format, at.count))
		}
	}
	return indent + plainWords(text) + " "
}

// numeral writes a number as a list does.
func numeral(format string, n int) string {
	s := strconv.Itoa(n)
	switch {
	case n < 1 || n > 3999:
	case strings.HasSuffix(format, "Letter"):
		s = strings.Repeat(string(rune('A'+(n-1)%26)), min((n-1)/26+1, 20))
	case strings.HasSuffix(format, "Roman"):
		s = ""
		letters := strings.Fields("M CM D CD C XC L XL X IX V IV I")
		for i, value := range []int{1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1} {
			s += strings.Repeat(letters[i], n/value)
			n %= value
		}
	}
	if strings.HasPrefix(format, "lower") {
		return strings.ToLower(s)
	}
	return s
}

// equation has the signs around the parts of an equation, whose text alone would
// read as another.
var equation = map[string][2]string{
	"e": {"", " "}, "mr": {"[", "]"}, "num": {"(", ")"}, "den": {"/(", ")"}, "deg": {"[", "]"}, "lim": {"_(", ")"},
	"sub": {"_(", ")"}, "sup": {"^(", ")"}, "d": {"(", ")"}, "rad": {"√(", ")"},
}

// shownParts are elements that show a part of the file, and the attribute that
// refers to it.
var shownParts = map[string][2]string{
	"imagedata": {"picture", "id"}, "chart": {"chart", "id"}, "relIds": {"diagram", "dm"},
	"OLEObject": {"embedded", "id"}, "oleObj": {"embedded", "id"},
}

// inline writes the content of a paragraph. The mark describes all of it.
func (d *ooxml) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > tools.MaxDocument {
			return
		}
		switch k.name {
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
		case "r", "fld":
			to := d.relations[k.kid("rPr", "hlinkClick").relation("id")].target
			l.within(runScript(k), func() { d.link(l, k, d.runMark(k, mark), to) })
		case "del", "moveFrom":
			d.inline(l, k, "deleted")
		case "hyperlink":
			d.link(l, k, mark, d.relations[k.relation("id")].target)
		case "instrText":
			l.write(mark, fieldLink(k.words()))
		case "fldSimple":
			l.write(mark, fieldLink(k.attr("instr")))
			d.inline(l, k, mark)
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
		case "blip":
			l.write(mark, mention(d.relations, "picture", pictureID(k)))
		case "imagedata", "chart", "relIds", "OLEObject":
			shown := shownParts[k.name]
			l.write(mark, mention(d.relations, shown[0], k.relation(shown[1])))
		case "chr": // the sign of a sum or an integral
			l.write(mark, plainWords(k.attr("val")))
		case "", "pPr", "rPr", "sdtPr", "instrDel", "delInstrText":
		default:
			around := equation[k.name]
			l.write(mark, around[0])
			d.inline(l, k, mark)
			l.write(mark, around[1])
		}
	}
}

// runMark describes a run that is not plain text: in a docx by elements, in a pptx
// by attributes.
func (d *ooxml) runMark(run *node, mark string) string {
	p := run.kid("rPr")
	vanish := p.kid("vanish")
	switch {
	case mark != "":
		return mark
	case vanish.on() || vanish == nil && d.style(p.kid("rStyle").attr("val")).hidden:
		return "hidden"
	case p.kid("strike").on() || p.kid("dstrike").on() || !slices.Contains([]string{"", "noStrike"}, p.attr("strike")):
		return "struck out"
	}
	if color := p.kid("highlight").attr("val"); color != "" && color != "none" {
		return "highlighted " + plainWords(color)
	}
	return strings.TrimSuffix(strings.TrimPrefix(shaded(p), "["), "] ")
}

// runScript is "^" for a raised run and "_" for a lowered one.
func runScript(run *node) string {
	p := run.kid("rPr")
	position := p.kid("vertAlign").attr("val")
	raised, _ := strconv.Atoi(strings.TrimSuffix(p.attr("baseline"), "%"))
	switch {
	case position == "superscript" || raised > 0:
		return "^"
	case position == "subscript" || raised < 0:
		return "_"
	}
	return ""
}

// link writes an element as a markdown link. A link without an address leads to a
// place in the document.
func (d *ooxml) link(l *line, n *node, mark, to string) {
	if to == "" {
		d.inline(l, n, mark)
		return
	}
	l.write(mark, "[")
	d.inline(l, n, mark)
	l.write(mark, "]("+plainWords(to)+")")
}

// fieldLink is the address of a link that is a field, whose text follows; other
// fields show their last result only.
func fieldLink(code string) string {
	words := strings.Fields(code)
	if len(words) < 2 || words[0] != "HYPERLINK" || strings.HasPrefix(words[1], `\`) {
		return ""
	}
	return "[link to " + plainWords(strings.Trim(words[1], `"`)) + "] "
}
