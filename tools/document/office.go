package document

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
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

// node is an element of an XML part, or a text, which has no name. Names are
// without their namespaces: the two editions of Office Open XML differ in those.
type node struct {
	name  string
	text  string
	attrs []xml.Attr
	kids  []*node
}

// parseXML makes a tree of a part. Nothing in it is expanded or fetched: the
// decoder knows the five entities of XML and no others, and a document type
// declaration, which could define more, is refused.
func parseXML(data []byte) (*node, error) {
	d := newXML(data)
	open, nodes := []*node{{}}, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		within := open[len(open)-1]
		switch t := token.(type) {
		case xml.Directive:
			return nil, errors.New("it has a document type declaration, which an office file must not have")
		case xml.StartElement:
			if len(open) > maxElementDepth {
				return nil, fmt.Errorf("its elements are nested deeper than %d", maxElementDepth)
			}
			n := &node{name: t.Name.Local, attrs: t.Attr}
			within.kids = append(within.kids, n)
			open, nodes = append(open, n), nodes+1
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			within.kids = append(within.kids, &node{text: string(t)})
			nodes++
		}
		if nodes > maxNodes {
			return nil, fmt.Errorf("it has more than %d elements", maxNodes)
		}
	}
	if open[0].kid() == nil {
		return nil, errors.New("it has no element")
	}
	return open[0], nil
}

func newXML(data []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(fromUTF16(data)))
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		if strings.HasPrefix(strings.ToLower(label), "utf-16") {
			return in, nil // see fromUTF16
		}
		return charset.NewReaderLabel(label, in)
	}
	return d
}

func fromUTF16(data []byte) []byte {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		if text, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(data); err == nil {
			return text
		}
	}
	return bytes.TrimPrefix(data, []byte("\ufeff"))
}

// attr is the value of an attribute, "" if there is none. Ids of relations,
// which have the names of others, are found by [node.relation].
func (n *node) attr(name string) string { return n.attribute(name, false) }

func (n *node) relation(name string) string { return n.attribute(name, true) }

func (n *node) attribute(name string, ofRelation bool) string {
	if n != nil {
		for _, a := range n.attrs {
			if a.Name.Local == name && strings.HasSuffix(a.Name.Space, "/relationships") == ofRelation {
				return a.Value
			}
		}
	}
	return ""
}

// on reports whether a switch such as <w:vanish/> is there and not turned off.
func (n *node) on() bool {
	return n != nil && !slices.Contains([]string{"0", "false", "off", "none"}, n.attr("val"))
}

// kid follows names downwards, the first of each; without names it is the first
// element. It is nil where there is none.
func (n *node) kid(names ...string) *node {
	if len(names) == 0 {
		names = []string{"*"}
	}
	for _, name := range names {
		if n == nil {
			return nil
		}
		at := slices.IndexFunc(n.kids, func(k *node) bool { return k.name == name || name == "*" && k.name != "" })
		if at < 0 {
			return nil
		}
		n = n.kids[at]
	}
	return n
}

// all are the elements of a name below n, in order; not those inside another.
func (n *node) all(name string) (found []*node) {
	if n == nil {
		return nil
	}
	for _, k := range n.kids {
		if k.name == name {
			found = append(found, k)
		} else {
			found = append(found, k.all(name)...)
		}
	}
	return found
}

// words is all text below n.
func (n *node) words() string {
	var b strings.Builder
	var add func(*node)
	add = func(n *node) {
		b.WriteString(n.text)
		for _, k := range n.kids {
			add(k)
		}
	}
	if n != nil {
		add(n)
	}
	return b.String()
}
