package document

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
)

// Limits of an office file, which is a zip of XML parts.
const (
	maxPart         = 32 << 20  // bytes of one part, unpacked
	maxParts        = 128 << 20 // bytes of all parts that are read, unpacked
	maxNodes        = 2_000_000 // elements and texts of one part
	maxElementDepth = 256       // elements inside each other; the walkers recurse as deep
)

// parts are the parts of an office file.
type parts struct {
	kind   string // for messages: "docx", …
	byName map[string]*zip.File
	left   int64 // bytes that may still be unpacked
}

func openParts(kind string, data []byte) (*parts, error) {
	z, err := openZip(data)
	if err != nil {
		return nil, err
	}
	p := &parts{kind, map[string]*zip.File{}, maxParts}
	for _, f := range z.File {
		p.byName[partName(f.Name)] = f
	}
	return p, nil
}

// partName makes names comparable: some writers use backslashes or other case.
func partName(name string) string {
	return strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "/"))
}

// a is the kind with its article.
func (p *parts) a() string {
	if strings.ContainsAny(p.kind[:1], "ox") {
		return "an " + p.kind
	}
	return "a " + p.kind
}

func (p *parts) has(name string) bool { return p.byName[partName(name)] != nil }

func (p *parts) read(name string) ([]byte, error) {
	f := p.byName[partName(name)]
	if f == nil {
		return nil, tools.Unreadablef("it is %s file without its part %q, so it is probably damaged", p.a(), name)
	}
	data, err := unpack(f, min(maxPart, p.left))
	p.left -= int64(len(data))
	if errors.Is(err, errUnpacksToMore) {
		return nil, tools.Unreadablef("it is %s file whose part %q unpacks to too much "+
			"(the limits are %d MiB a part, %d MiB together)", p.a(), name, maxPart>>20, maxParts>>20)
	}
	if err != nil {
		return nil, tools.Unreadablef("it is %s file whose part %q cannot be unpacked: %v", p.a(), name, err)
	}
	return data, nil
}

// tree reads and parses a part.
func (p *parts) tree(name string) (*node, error) {
	data, err := p.read(name)
	if err != nil {
		return nil, err
	}
	root, err := parseXML(data)
	if err != nil {
		return nil, tools.Unreadablef("it is %s file whose part %q cannot be read: %v", p.a(), name, err)
	}
	return root, nil
}

// relation is a reference of a part to another, or to an address outside.
type relation struct {
	kind   string // the last word of its type: "slide", "hyperlink", …
	target string // name of a part, or an address
	part   bool
}

// relations reads what a part refers to, by id, and the ids in their order. A
// part without relations has none.
func (p *parts) relations(of string) (byID map[string]relation, ids []string, err error) {
	name := path.Join(path.Dir(of), "_rels", path.Base(of)+".rels")
	byID = map[string]relation{}
	if !p.has(name) {
		return byID, nil, nil
	}
	root, err := p.tree(name)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range root.all("Relationship") {
		id, to := r.attr("Id"), relation{path.Base(r.attr("Type")), r.attr("Target"), r.attr("TargetMode") != "External"}
		switch {
		case to.part && strings.HasPrefix(to.target, "/"):
			to.target = strings.TrimPrefix(path.Clean(to.target), "/")
		case to.part && !strings.HasPrefix(to.target, "#"):
			to.target = strings.TrimPrefix(path.Join("/", path.Dir(of), to.target), "/")
		}
		if _, twice := byID[id]; !twice {
			ids = append(ids, id)
		}
		byID[id] = to
	}
	return byID, ids, nil
}

// main opens the part that the file is about: what its relations name, or else the
// usual one.
func (p *parts) main(usual string) (root *node, byID map[string]relation, ids []string, err error) {
	name := usual
	if byID, ids, err := p.relations(""); err == nil {
		at := slices.IndexFunc(ids, func(id string) bool {
			return byID[id].kind == "officeDocument" && p.has(byID[id].target)
		})
		if at >= 0 {
			name = byID[ids[at]].target
		}
	}
	if root, err = p.tree(name); err == nil {
		byID, ids, err = p.relations(name)
	}
	return root.kid(), byID, ids, err
}

// line collects the text of a paragraph. What is not plain text is in brackets with
// what it is: [hidden: …]. What is raised or lowered is written as ^(…) or _(…): run
// together, 10 and a raised 3 would be 103.
type line struct {
	b      strings.Builder
	mark   string
	script string // of what is written next: "^", "_" or ""
	open   string // of what was written last
}

func (l *line) write(mark, text string) {
	if text == "" {
		return
	}
	if mark != l.mark {
		l.end()
		if mark != "" {
			l.b.WriteString("[" + mark + ": ")
		}
		l.mark = mark
	}
	if l.open != l.script {
		l.endScript()
		if l.script != "" {
			l.b.WriteString(l.script + "(")
		}
		l.open = l.script
	}
	l.b.WriteString(text)
}

func (l *line) endScript() {
	if l.open != "" {
		l.b.WriteString(")")
	}
	l.open = ""
}

// within calls write, whose text is raised or lowered.
func (l *line) within(script string, write func()) {
	before := l.script
	l.script = script
	write()
	l.script = before
}

func (l *line) end() {
	l.endScript()
	if l.mark != "" {
		l.b.WriteString("]")
	}
	l.mark = ""
}

func (l *line) String() string {
	l.end()
	return l.b.String()
}

// officeDocument is what b holds as a document.
func officeDocument(kind string, notes []string, b *strings.Builder) tools.Document {
	if strings.TrimSpace(b.String()) == "" {
		notes = append(notes, "without text")
	}
	return tools.Document{Kind: kind, Notes: notes, Text: strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}
}

// countShown counts the slides or sheets of a file: "3 slides (1 of them hidden)".
func countShown(n int, thing string, hidden int) string {
	if hidden > 0 {
		return tools.Count(n, thing) + fmt.Sprintf(" (%d of them hidden)", hidden)
	}
	return tools.Count(n, thing)
}

// authored adds author and date, where they are known, to the label of a comment.
func authored(label, author, date string) string {
	if author != "" {
		label += " by " + tools.PlainName(author)
	}
	if date != "" {
		label += ", " + tools.PlainName(date)
	}
	return label
}

// tableRow writes the cells of a row on one line.
func tableRow(b *strings.Builder, cells []string) {
	b.WriteString("|")
	for _, c := range cells {
		c = strings.ReplaceAll(cellBreaks.Replace(strings.TrimSpace(c)), "|", `\|`)
		b.WriteString(" " + c + " |")
	}
	b.WriteString("\n")
}

// section writes a heading in brackets and the body under it; nothing if the body is
// empty.
func section(b *strings.Builder, title, body string) {
	if body = strings.Trim(body, "\n"); body != "" {
		b.WriteString("\n[" + title + "]\n" + body + "\n")
	}
}

// xmlText drops the carriage returns that XML keeps when they are written as
// references; lines of a document end with \n.
func xmlText(s string) string { return strings.ReplaceAll(s, "\r", "") }

// mention names the member of the file or the address that an element shows; it is
// empty for an unknown relation.
func mention(relations map[string]relation, what, id string) string {
	if to := relations[id].target; to != "" {
		return "[" + what + ": " + plainWords(to) + "]"
	}
	return ""
}

// plainWords is a text from the file on one line.
func plainWords(s string) string { return strings.Map(tools.Printable, s) }

// pictureID is the relation of a picture, which is in the file or linked to.
func pictureID(blip *node) string { return cmp.Or(blip.relation("embed"), blip.relation("link")) }
