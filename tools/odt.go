package tools

import (
	"context"
	"fmt"
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
func readODF(ctx context.Context, data []byte) (document, error) {
	p, err := openParts("odt", data)
	if err != nil {
		return document{}, err
	}
	if mime, err := p.read("mimetype"); err == nil {
		p.kind = odfKind(string(mime))
	}
	if p.has("META-INF/manifest.xml") {
		manifest, err := p.tree("META-INF/manifest.xml")
		if err == nil && len(manifest.all("encryption-data")) > 0 {
			return document{}, unreadablef("it is an encrypted %s file, and cannot be read without its password", p.kind)
		}
	}
	root, err := p.tree("content.xml")
	if err != nil {
		return document{}, err
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
		return document{}, err
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
	return document{p.kind, d.notes, strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}, nil
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
		if b.Len() > maxDocument {
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
	d.notes = append([]string{count(len(pages), "slide")}, d.notes...)
	if hidden > 0 {
		d.notes[0] += fmt.Sprintf(" (%d of them hidden)", hidden)
	}
}
