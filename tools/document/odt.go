package document

import (
	"cmp"
	"context"
	"fmt"
	"github.com/gaia-harness/gaia/tools"
	"strconv"
	"strings"
)

// odf is a file of OpenDocument (ISO 26300) on its way to text: a text, a
// presentation or a spreadsheet.
type odf struct {
	hidden map[string]bool // styles that hide what they are given to
	struck map[string]bool
	script map[string]string // styles that raise ("^") or lower ("_")
	masked map[string]bool   // styles of tables and slides that are not shown
	notes  []string
	aside  strings.Builder // footnotes, endnotes and comments
	count  int             // of those
	depth  int             // of lists
}

// readODF turns an odt, odp or ods into text, as readDocx does.
func readODF(ctx context.Context, data []byte) (tools.Document, error) {
	p, err := openParts("odt", data)
	if err != nil {
		return tools.Document{}, err
	}
	if mime, err := p.read("mimetype"); err == nil {
		p.kind = odfKind(string(mime))
	}
	if p.has("META-INF/manifest.xml") {
		manifest, err := p.tree("META-INF/manifest.xml")
		if err == nil && len(manifest.all("encryption-data")) > 0 {
			return tools.Document{}, tools.Unreadablef("it is an encrypted %s file, and cannot be read without its password", p.kind)
		}
	}
	root, err := p.tree("content.xml")
	if err != nil {
		return tools.Document{}, err
	}
	d := &odf{hidden: map[string]bool{}, struck: map[string]bool{}, script: map[string]string{}, masked: map[string]bool{}}
	var outside *node
	if p.has("styles.xml") {
		if outside, err = p.tree("styles.xml"); err != nil {
			d.notes = append(d.notes, "without headers and footers, which cannot be read")
		}
	}
	d.readStyles(outside)
	d.readStyles(root)
	if err := ctx.Err(); err != nil {
		return tools.Document{}, err
	}
	var b strings.Builder
	switch body := root.kid("*", "body"); {
	case body.kid("presentation") != nil:
		d.slides(&b, body.kid("presentation").all("page"))
	case body.kid("spreadsheet") != nil:
		d.sheets(&b, body.kid("spreadsheet").all("table"))
	default:
		d.deletions(&b, body.kid("text").kid("tracked-changes"))
		d.blocks(&b, body)
		section(&b, "notes and comments", d.aside.String())
		for _, name := range []string{"header", "footer"} {
			for _, n := range outside.all(name) {
				var text strings.Builder
				d.blocks(&text, n)
				section(&b, name, text.String())
			}
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		d.notes = append(d.notes, "without text")
	}
	return tools.Document{Kind: p.kind, Notes: d.notes, Text: strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}, nil
}

// odfKind is the usual extension for a media type of OpenDocument, "" for
// other types and for kinds that are not read.
func odfKind(mime string) string {
	kind, is := strings.CutPrefix(strings.TrimSpace(mime), "application/vnd.oasis.opendocument.")
	if !is {
		return ""
	}
	switch strings.TrimSuffix(kind, "-template") {
	case "text":
		return "odt"
	case "presentation":
		return "odp"
	case "spreadsheet":
		return "ods"
	}
	return ""
}

func (d *odf) readStyles(root *node) {
	for _, s := range root.all("style") {
		name, text := s.attr("name"), s.kid("text-properties")
		if text.attr("display") == "none" {
			d.hidden[name] = true
		}
		if line := text.attr("text-line-through-style"); line != "" && line != "none" {
			d.struck[name] = true
		}
		switch position := text.attr("text-position"); {
		case strings.HasPrefix(position, "sub") || strings.HasPrefix(position, "-"):
			d.script[name] = "_"
		case position != "" && !strings.HasPrefix(position, "0"):
			d.script[name] = "^"
		}
		if s.kid("table-properties").attr("display") == "false" || s.kid("drawing-page-properties").attr("visibility") == "hidden" {
			d.masked[name] = true
		}
	}
}

// blocks writes the paragraphs, lists and tables below n.
func (d *odf) blocks(b *strings.Builder, n *node) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		if b.Len() > tools.MaxDocument {
			return
		}
		switch k.name {
		case "p":
			d.paragraph(b, k, "")
		case "h":
			level, err := strconv.Atoi(k.attr("outline-level"))
			if err != nil {
				level = 1
			}
			d.paragraph(b, k, strings.Repeat("#", max(1, min(level, 6)))+" ")
		case "list":
			d.list(b, k)
		case "table":
			d.table(b, k, false)
		case "frame", "custom-shape", "rect", "ellipse", "g", "line", "annotation":
			var l line
			d.inline(&l, &node{kids: []*node{k}}, "")
			if text := l.String(); text != "" {
				b.WriteString(text + "\n")
			}
		case "", "tracked-changes", "sequence-decls", "forms", "variable-decls", "user-field-decls":
		default:
			d.blocks(b, k)
		}
	}
}

func (d *odf) paragraph(b *strings.Builder, n *node, before string) {
	var l line
	d.inline(&l, n, d.markOf(n, ""))
	text := strings.TrimRight(l.String(), " \t")
	if strings.TrimSpace(text) == "" {
		before = ""
	}
	b.WriteString(before + text + "\n")
}

func (d *odf) markOf(n *node, mark string) string {
	switch style := n.attr("style-name"); {
	case mark != "":
		return mark
	case d.hidden[style]:
		return "hidden"
	case d.struck[style]:
		return "struck out"
	}
	return ""
}

// list writes the items of a list; whether and how they are numbered is a
// matter of styles that is left out.
func (d *odf) list(b *strings.Builder, n *node) {
	d.depth++
	defer func() { d.depth-- }()
	for _, item := range n.kids {
		if item.name != "list-item" && item.name != "list-header" {
			continue
		}
		indent := strings.Repeat("  ", d.depth-1) + "- "
		for _, k := range item.kids {
			switch k.name {
			case "p", "h":
				d.paragraph(b, k, indent)
			case "list":
				d.list(b, k)
			case "":
			default:
				d.blocks(b, &node{kids: []*node{k}})
			}
			if k.name != "" {
				indent = strings.Repeat("  ", d.depth)
			}
		}
	}
}

// deletions writes what tracked changes took out.
func (d *odf) deletions(b *strings.Builder, n *node) {
	for _, k := range n.all("deletion") {
		var text strings.Builder
		for _, p := range k.kids {
			if p.name != "change-info" {
				d.blocks(&text, &node{kids: []*node{p}})
			}
		}
		b.WriteString("[deleted: " + strings.TrimSpace(text.String()) + "]\n")
	}
}

func (d *odf) slides(b *strings.Builder, pages []*node) {
	hidden := 0
	for i, page := range pages {
		fmt.Fprintf(b, "\n[slide %d of %d", i+1, len(pages))
		if d.masked[page.attr("style-name")] {
			b.WriteString(" (hidden)")
			hidden++
		}
		b.WriteString("]\n")
		for _, k := range page.kids {
			var text strings.Builder
			if k.name == "notes" {
				for _, f := range k.all("text-box") {
					d.blocks(&text, f)
				}
				section(b, "speaker notes", text.String())
				continue
			}
			box := k.kid("text-box")
			if box == nil {
				d.blocks(&text, &node{kids: []*node{k}})
			} else {
				d.blocks(&text, box)
			}
			body := strings.Trim(text.String(), "\n")
			if body != "" && k.attr("class") == "title" {
				body = "# " + strings.ReplaceAll(body, "\n", " ")
			}
			if body != "" {
				b.WriteString(body + "\n")
			}
		}
	}
	section(b, "comments", d.aside.String())
	d.notes = append([]string{tools.Count(len(pages), "slide")}, d.notes...)
	if hidden > 0 {
		d.notes[0] += fmt.Sprintf(" (%d of them hidden)", hidden)
	}
}

// inline writes what stands in a paragraph. White space is one space: more of
// it is written as elements.
func (d *odf) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > tools.MaxDocument {
			return
		}
		switch k.name {
		case "":
			l.write(mark, oneSpace(k.text))
		case "s":
			l.write(mark, strings.Repeat(" ", repeated(k, "c", 1000)))
		case "tab":
			l.write(mark, "\t")
		case "line-break":
			l.write(mark, "\n")
		case "span":
			script := cmp.Or(d.script[k.attr("style-name")], l.script)
			l.within(script, func() { d.inline(l, k, d.markOf(k, mark)) })
		case "hidden-text", "hidden-paragraph":
			l.write("hidden", k.attr("string-value")+k.words())
		case "a":
			l.write(mark, "[")
			d.inline(l, k, mark)
			l.write(mark, "]("+plainWords(k.attr("href"))+")")
		case "note":
			l.within("", func() { d.note(l, k, mark) })
		case "annotation":
			d.annotation(l, k, mark)
		case "frame":
			d.frame(l, k, mark)
		case "text-box", "custom-shape", "rect", "ellipse", "line":
			var text strings.Builder
			d.blocks(&text, k)
			if body := strings.Trim(text.String(), "\n"); body != "" {
				l.write(mark, "[text box: "+body+"]")
			}
		case "p", "h":
			d.inline(l, k, mark)
			l.write(mark, "\n")
		case "list", "table":
			var text strings.Builder
			d.blocks(&text, &node{kids: []*node{k}})
			l.write(mark, text.String())
		case "annotation-end", "bookmark", "tracked-changes", "event-listeners":
		default:
			d.inline(l, k, mark)
		}
	}
}

// oneSpace makes every stretch of white space one space.
func oneSpace(s string) string {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		if s == "" {
			return ""
		}
		return " "
	}
	text := strings.Join(fields, " ")
	if strings.ContainsAny(s[:1], " \t\r\n") {
		text = " " + text
	}
	if strings.ContainsAny(s[len(s)-1:], " \t\r\n") {
		text += " "
	}
	return text
}

// repeated is how often an element counts, at most limit times.
func repeated(n *node, attr string, limit int) int {
	v, err := strconv.Atoi(n.attr(attr))
	if err != nil || v < 1 {
		return 1
	}
	return min(v, limit)
}

func (d *odf) note(l *line, n *node, mark string) {
	label := "[" + plainWords(n.attr("note-class")+" "+n.kid("note-citation").words()) + "]"
	l.write(mark, label)
	d.beside(label, n.kid("note-body"))
}

func (d *odf) annotation(l *line, n *node, mark string) {
	d.count++
	label := fmt.Sprintf("[comment %d]", d.count)
	l.write(mark, label)
	if who := n.kid("creator").words(); who != "" {
		label += " by " + plainWords(who)
	}
	if when := n.kid("date").words(); when != "" {
		label += ", " + plainWords(when)
	}
	body := &node{}
	for _, k := range n.kids {
		if k.name == "p" || k.name == "list" {
			body.kids = append(body.kids, k)
		}
	}
	d.beside(label, body)
}

func (d *odf) beside(label string, body *node) {
	var text strings.Builder
	d.blocks(&text, body)
	d.aside.WriteString(label + ": " + strings.TrimSpace(text.String()) + "\n")
}

// frame writes a text box, or names the picture or object that is shown: it is
// a member of the file.
func (d *odf) frame(l *line, n *node, mark string) {
	for _, k := range n.kids {
		href := plainWords(strings.TrimPrefix(k.attr("href"), "./"))
		switch k.name {
		case "image":
			if href != "" {
				l.write(mark, "[picture: "+href+"]")
			}
		case "object", "object-ole":
			l.write(mark, "[embedded: "+href+"]")
		case "title", "desc":
			l.write(mark, "["+plainWords(k.words())+"]")
		case "text-box", "table":
			d.inline(l, &node{kids: []*node{k}}, mark)
		}
	}
}

// maxCopies bounds how often a repeated cell is written: a few bytes can claim
// millions. Rows are written once.
const maxCopies = 256

// table writes the rows of a table; those of a sheet with their numbers, and
// with the formulas and exact values of their cells.
func (d *odf) table(b *strings.Builder, n *node, sheet bool) {
	number := 1
	for _, row := range n.all("table-row") {
		if b.Len() > tools.MaxDocument {
			return
		}
		var cells []string
		left := tools.MaxDocument // bytes of this row
		for _, c := range row.kids {
			if c.name != "table-cell" && c.name != "covered-table-cell" {
				continue
			}
			text, times := d.cell(c, sheet), repeated(c, "number-columns-repeated", 1<<20)
			if text != "" && (times > maxCopies || len(text)*times > left) {
				text += fmt.Sprintf(" (in this and the next %d columns)", times-1)
				times = 1
			}
			left -= len(text) * times
			if len(cells)+times <= maxCells>>4 && left > 0 {
				cells = append(cells, make([]string, times)...)
				for i := range times {
					cells[len(cells)-1-i] = text
				}
			}
		}
		for len(cells) > 0 && cells[len(cells)-1] == "" && sheet {
			cells = cells[:len(cells)-1]
		}
		times := repeated(row, "number-rows-repeated", 1<<30)
		if len(cells) > 0 {
			before := ""
			if sheet {
				before = fmt.Sprint(number)
				if times > 1 {
					before += fmt.Sprintf(" to %d, all alike", number+times-1)
				}
				if v := row.attr("visibility"); v == "collapse" || v == "filter" {
					before += " (hidden)"
				}
				before += "\t"
			}
			b.WriteString(before)
			tableRow(b, cells)
			if !sheet && times > 1 {
				fmt.Fprintf(b, "(and %d more rows alike)\n", times-1)
			}
		}
		number = min(number+times, 1<<30)
	}
}

func (d *odf) cell(n *node, sheet bool) string {
	var b strings.Builder
	d.blocks(&b, n)
	text := strings.TrimSpace(b.String())
	if !sheet {
		return text
	}
	exact := ""
	for _, name := range []string{"value", "date-value", "time-value"} {
		if v := n.attr(name); v != "" && v != text {
			exact = v
		}
	}
	if exact != "" {
		text = strings.TrimLeft(text+" {"+exact+"}", " ")
	}
	if formula := n.attr("formula"); formula != "" {
		_, formula, _ = strings.Cut(formula, "=") // the name of its grammar stands before it
		text = strings.TrimLeft(text+" [="+formula+"]", " ")
	}
	return text
}

func (d *odf) sheets(b *strings.Builder, tables []*node) {
	hidden := 0
	b.WriteString("Cells are separated by |. [=…] is a cell's formula; {…} is the stored value where the cell shows it formatted.\n")
	for i, t := range tables {
		fmt.Fprintf(b, "\nsheet %d of %d: %q", i+1, len(tables), t.attr("name"))
		if d.masked[t.attr("style-name")] {
			b.WriteString(" (hidden)")
			hidden++
		}
		b.WriteString("\n")
		d.table(b, t, true)
	}
	section(b, "comments", d.aside.String())
	d.notes = append([]string{tools.Count(len(tables), "sheet")}, d.notes...)
	if hidden > 0 {
		d.notes[0] += fmt.Sprintf(" (%d of them hidden)", hidden)
	}
}
