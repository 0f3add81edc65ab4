package document

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/tools"
)

// odf converts a file of OpenDocument (ISO 26300) to text: a text, a presentation or
// a spreadsheet.
type odf struct {
	marks  map[string]string // style → "hidden" or "struck out"
	script map[string]string // style → "^" (raised) or "_" (lowered)
	masked map[string]bool   // styles of tables and slides that are not shown
	notes  []string
	aside  strings.Builder // footnotes, endnotes and comments
	count  int             // of comments
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
	d := &odf{marks: map[string]string{}, script: map[string]string{}, masked: map[string]bool{}}
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
		d.pages(&b, "slide", body.kid("presentation").all("page"))
	case body.kid("spreadsheet") != nil:
		b.WriteString("Cells are separated by |. [=…] is a cell's formula; " +
			"{…} is the stored value where the cell shows it formatted.\n")
		d.pages(&b, "sheet", body.kid("spreadsheet").all("table"))
	default:
		for _, k := range body.kid("text", "tracked-changes").all("deletion") {
			var text strings.Builder
			for _, p := range k.kids {
				if p.name != "change-info" {
					d.block(&text, p)
				}
			}
			b.WriteString("[deleted: " + strings.TrimSpace(text.String()) + "]\n")
		}
		d.blocks(&b, body)
		section(&b, "notes and comments", d.aside.String())
		for _, name := range []string{"header", "footer"} {
			for _, n := range outside.all(name) {
				section(&b, name, d.textOf(n))
			}
		}
	}
	return officeDocument(p.kind, d.notes, &b), nil
}

// odfKind is the usual extension for a media type of OpenDocument, "" for
// other types and for kinds that are not read.
func odfKind(mime string) string {
	kind, is := strings.CutPrefix(strings.TrimSpace(mime), "application/vnd.oasis.opendocument.")
	if !is {
		return ""
	}
	return map[string]string{"text": "odt", "presentation": "odp", "spreadsheet": "ods"}[strings.TrimSuffix(kind, "-template")]
}

func (d *odf) readStyles(root *node) {
	for _, s := range root.all("style") {
		name, text := s.attr("name"), s.kid("text-properties")
		if line := text.attr("text-line-through-style"); line != "" && line != "none" {
			d.marks[name] = cmp.Or(d.marks[name], "struck out")
		}
		if text.attr("display") == "none" {
			d.marks[name] = "hidden"
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

// textOf returns the blocks below n; "" for nil.
func (d *odf) textOf(n *node) string {
	var b strings.Builder
	d.blocks(&b, n)
	return b.String()
}

// blocks writes the paragraphs, lists and tables below n, which may be nil.
func (d *odf) blocks(b *strings.Builder, n *node) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		d.block(b, k)
	}
}

func (d *odf) block(b *strings.Builder, k *node) {
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

func (d *odf) paragraph(b *strings.Builder, n *node, before string) {
	var l line
	d.inline(&l, n, d.marks[n.attr("style-name")])
	text := strings.TrimRight(l.String(), " \t")
	if strings.TrimSpace(text) == "" {
		before = ""
	}
	b.WriteString(before + text + "\n")
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
			if k.name == "" {
				continue
			}
			if k.name == "p" || k.name == "h" {
				d.paragraph(b, k, indent)
			} else {
				d.block(b, k)
			}
			indent = strings.Repeat("  ", d.depth)
		}
	}
}

// pages writes the slides or sheets of a file, then the comments on them.
func (d *odf) pages(b *strings.Builder, thing string, pages []*node) {
	hidden := 0
	for i, page := range pages {
		title := fmt.Sprintf("%s %d of %d", thing, i+1, len(pages))
		if thing == "sheet" {
			title += fmt.Sprintf(": %q", page.attr("name"))
		}
		if d.masked[page.attr("style-name")] {
			title += " (hidden)"
			hidden++
		}
		if thing == "sheet" {
			b.WriteString("\n" + title + "\n")
			d.table(b, page, true)
		} else {
			b.WriteString("\n[" + title + "]\n")
			d.slide(b, page)
		}
	}
	section(b, "comments", d.aside.String())
	d.notes = append([]string{countShown(len(pages), thing, hidden)}, d.notes...)
}

func (d *odf) slide(b *strings.Builder, page *node) {
	for _, k := range page.kids {
		var text strings.Builder
		if k.name == "notes" {
			for _, f := range k.all("text-box") {
				d.blocks(&text, f)
			}
			section(b, "speaker notes", text.String())
			continue
		}
		if box := k.kid("text-box"); box != nil {
			d.blocks(&text, box)
		} else {
			d.block(&text, k)
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

// inline writes the content of a paragraph. White space is one space: more of
// it is written as elements.
func (d *odf) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > tools.MaxDocument {
			return
		}
		style := k.attr("style-name")
		switch k.name {
		case "":
			l.write(mark, spaces.ReplaceAllString(k.text, " "))
		case "s":
			l.write(mark, strings.Repeat(" ", repeated(k, "c", 1000)))
		case "tab":
			l.write(mark, "\t")
		case "line-break":
			l.write(mark, "\n")
		case "span":
			l.within(cmp.Or(d.script[style], l.script), func() { d.inline(l, k, cmp.Or(mark, d.marks[style])) })
		case "hidden-text", "hidden-paragraph":
			l.write("hidden", k.attr("string-value")+k.words())
		case "a":
			l.write(mark, "[")
			d.inline(l, k, mark)
			l.write(mark, "]("+plainWords(k.attr("href"))+")")
		case "note":
			label := "[" + plainWords(k.attr("note-class")+" "+k.kid("note-citation").words()) + "]"
			l.within("", func() { l.write(mark, label) })
			d.beside(label, k.kid("note-body"))
		case "annotation":
			d.count++
			label := fmt.Sprintf("[comment %d]", d.count)
			l.write(mark, label)
			body := &node{}
			for _, k := range k.kids {
				if k.name == "p" || k.name == "list" {
					body.kids = append(body.kids, k)
				}
			}
			d.beside(authored(label, k.kid("creator").words(), k.kid("date").words()), body)
		case "frame": // a text box, or the picture or object that is shown: it is a member of the file
			for _, k := range k.kids {
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
		case "text-box", "custom-shape", "rect", "ellipse", "line":
			if body := strings.Trim(d.textOf(k), "\n"); body != "" {
				l.write(mark, "[text box: "+body+"]")
			}
		case "p", "h":
			d.inline(l, k, mark)
			l.write(mark, "\n")
		case "list", "table":
			l.write(mark, d.textOf(&node{kids: []*node{k}}))
		case "annotation-end", "bookmark", "tracked-changes", "event-listeners":
		default:
			d.inline(l, k, mark)
		}
	}
}

var spaces = regexp.MustCompile(`[\s\v\x{85}\pZ]+`)

// repeated is how often an element counts, at most limit times.
func repeated(n *node, attr string, limit int) int {
	v, err := strconv.Atoi(n.attr(attr))
	if err != nil || v < 1 {
		return 1
	}
	return min(v, limit)
}

// beside adds a note or comment to those that follow the text.
func (d *odf) beside(label string, body *node) {
	text := d.textOf(body)
	d.aside.WriteString(label + ": " + strings.TrimSpace(text) + "\n")
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
		cells := d.row(row, sheet)
		times := repeated(row, "number-rows-repeated", 1<<30)
		if len(cells) > 0 {
			if sheet {
				b.WriteString(strconv.Itoa(number))
				if times > 1 {
					fmt.Fprintf(b, " to %d, all alike", number+times-1)
				}
				if v := row.attr("visibility"); v == "collapse" || v == "filter" {
					b.WriteString(" (hidden)")
				}
				b.WriteString("\t")
			}
			tableRow(b, cells)
			if !sheet && times > 1 {
				fmt.Fprintf(b, "(and %d more rows alike)\n", times-1)
			}
		}
		number = min(number+times, 1<<30)
	}
}

// row returns the cells of a row; those of a sheet without the empty ones at its end.
func (d *odf) row(n *node, sheet bool) (cells []string) {
	left := tools.MaxDocument // bytes of this row
	for _, c := range n.kids {
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
			cells = append(cells, slices.Repeat([]string{text}, times)...)
		}
	}
	for len(cells) > 0 && cells[len(cells)-1] == "" && sheet {
		cells = cells[:len(cells)-1]
	}
	return cells
}

func (d *odf) cell(n *node, sheet bool) string {
	text := strings.TrimSpace(d.textOf(n))
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
		_, formula, _ = strings.Cut(formula, "=") // the name of its grammar comes before it
		text = strings.TrimLeft(text+" [="+formula+"]", " ")
	}
	return text
}
