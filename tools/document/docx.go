package document

import (
	"context"
	"fmt"
	"github.com/gaia-harness/gaia/tools"
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
func readDocx(ctx context.Context, data []byte) (tools.Document, error) {
	p, err := openParts("docx", data)
	if err != nil {
		return tools.Document{}, err
	}
	name := p.mainPart("word/document.xml")
	root, err := p.tree(name)
	if err != nil {
		return tools.Document{}, err
	}
	d := &docx{parts: p, styles: map[string]docxStyle{}}
	main, ids, err := p.relations(name)
	if err != nil {
		return tools.Document{}, err
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
				return tools.Document{}, err
			}
			section(&b, a.title, d.aside(part, a.element))
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		d.notes = append(d.notes, "without text")
	}
	return tools.Document{Kind: "docx", Notes: d.notes, Text: strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}, nil
}

// part reads a part that the document can do without.
func (d *docx) part(name string) *node {
	root, err := d.parts.tree(name)
	if err != nil {
		d.notes = append(d.notes, fmt.Sprintf("without %s, which cannot be read", tools.PlainName(name)))
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
			label += " by " + tools.PlainName(who)
		}
		if when := n.attr("date"); when != "" {
			label += ", " + tools.PlainName(when)
		}
		b.WriteString(label + ": " + strings.TrimSpace(text.String()) + "\n")
	}
	return b.String()
}

func noteLabel(element, id string) string {
	return "[" + strings.TrimSuffix(element, "Reference") + " " + tools.PlainName(id) + "]"
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
		if b.Len() > tools.MaxDocument {
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

const listLevels = 9 // of a list, by the format

// numbering counts the paragraphs of a document's lists.
type numbering struct {
	abstract map[string]string // list → definition
	levels   map[string]*[listLevels]listLevel
	restarts map[string]map[int]int // list → level → number it begins with
	counted  map[string]*[listLevels]int
}

type listLevel struct {
	format, text string
	start        int
}

// readNumbering takes the lists' definitions from their part, which may be nil.
func readNumbering(root *node) *numbering {
	l := &numbering{map[string]string{}, map[string]*[listLevels]listLevel{}, map[string]map[int]int{}, map[string]*[listLevels]int{}}
	for _, a := range root.all("abstractNum") {
		var levels [listLevels]listLevel
		for _, n := range a.all("lvl") {
			if i, ok := levelOf(n.attr("ilvl")); ok {
				levels[i] = listLevel{n.kid("numFmt").attr("val"), n.kid("lvlText").attr("val"), valueOf(n.kid("start"))}
			}
		}
		l.levels[a.attr("abstractNumId")] = &levels
	}
	for _, n := range root.all("num") {
		id := n.attr("numId")
		l.abstract[id] = n.kid("abstractNumId").attr("val")
		for _, o := range n.all("lvlOverride") {
			start := o.kid("startOverride")
			if i, ok := levelOf(o.attr("ilvl")); ok && start != nil {
				if l.restarts[id] == nil {
					l.restarts[id] = map[int]int{}
				}
				l.restarts[id][i] = valueOf(start)
			}
		}
	}
	return l
}

func levelOf(s string) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < listLevels
}

// label is what stands before the next paragraph of a list, "" for a paragraph
// that is taken out of its list.
func (l *numbering) label(list, level string) string {
	i, ok := levelOf(level)
	if level == "" {
		i, ok = 0, true
	}
	if list == "0" || !ok {
		return ""
	}
	indent := strings.Repeat("  ", i)
	id := l.abstract[list]
	levels := l.levels[id]
	if levels == nil {
		return indent + "- "
	}
	counted := l.counted[id]
	if counted == nil {
		counted = new([listLevels]int)
		for j := range counted {
			counted[j] = levels[j].start - 1
		}
		l.counted[id] = counted
	}
	if start, restart := l.restarts[list][i]; restart {
		counted[i] = start - 1
		delete(l.restarts[list], i)
	}
	counted[i]++
	for j := i + 1; j < listLevels; j++ {
		counted[j] = levels[j].start - 1
	}
	if f := levels[i].format; f == "bullet" || f == "none" || levels[i].text == "" {
		return indent + "- "
	}
	text := levels[i].text
	for j := range listLevels {
		shown := counted[j]
		if j < i {
			shown = max(shown, levels[j].start) // a level that was skipped counts as begun
		}
		if place := "%" + strconv.Itoa(j+1); strings.Contains(text, place) {
			text = strings.ReplaceAll(text, place, numeral(levels[j].format, shown))
		}
	}
	return indent + plainWords(text) + " "
}

// numeral writes a number as a list does.
func numeral(format string, n int) string {
	switch {
	case n < 1 || n > 3999:
	case strings.HasSuffix(format, "Letter"):
		s := strings.Repeat(string(rune('A'+(n-1)%26)), min((n-1)/26+1, 20))
		if format == "lowerLetter" {
			return strings.ToLower(s)
		}
		return s
	case strings.HasSuffix(format, "Roman"):
		s := roman(n)
		if format == "lowerRoman" {
			return strings.ToLower(s)
		}
		return s
	}
	return strconv.Itoa(n)
}

func roman(n int) string {
	var b strings.Builder
	for _, d := range []struct {
		value  int
		letter string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}} {
		for ; n >= d.value; n -= d.value {
			b.WriteString(d.letter)
		}
	}
	return b.String()
}

// inline writes what stands in a paragraph. The mark says what is with all of it.
func (d *docx) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > tools.MaxDocument {
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
