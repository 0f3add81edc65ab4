package tools

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
)

// Limits of an office file, which is a zip of XML parts.
const (
	maxPart  = 32 << 20  // bytes of one part, unpacked
	maxParts = 128 << 20 // bytes of all parts that are read, unpacked
	maxNodes = 2_000_000 // elements and texts of one part
	maxDepth = 256       // elements inside each other; the walkers recurse as deep
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

func (p *parts) has(name string) bool { return p.byName[partName(name)] != nil }

func (p *parts) read(name string) ([]byte, error) {
	f := p.byName[partName(name)]
	if f == nil {
		return nil, unreadablef("it is a %s file without its part %q, so it is probably damaged", p.kind, name)
	}
	data, err := unpack(f, min(maxPart, p.left))
	p.left -= int64(len(data))
	if errors.Is(err, errUnpacksToMore) {
		return nil, unreadablef("it is a %s file whose part %q unpacks to too much (the limits are %d MiB a part, %d MiB together)", p.kind, name, maxPart>>20, maxParts>>20)
	}
	if err != nil {
		return nil, unreadablef("it is a %s file whose part %q cannot be unpacked: %v", p.kind, name, err)
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
		return nil, unreadablef("it is a %s file whose part %q cannot be read: %v", p.kind, name, err)
	}
	return root, nil
}

// relation is what a part says of another, or of an address outside.
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

// mainPart is the part the file is about: what its relations say, or else the
// usual name.
func (p *parts) mainPart(usual string) string {
	byID, ids, err := p.relations("")
	if err == nil {
		for _, id := range ids {
			if to := byID[id]; to.kind == "officeDocument" && p.has(to.target) {
				return to.target
			}
		}
	}
	return usual
}

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
			if len(open) > maxDepth {
				return nil, fmt.Errorf("its elements are nested deeper than %d", maxDepth)
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
func (n *node) attr(name string) string {
	if n != nil {
		for _, a := range n.attrs {
			if a.Name.Local == name && !strings.HasSuffix(a.Name.Space, "/relationships") {
				return a.Value
			}
		}
	}
	return ""
}

func (n *node) relation(name string) string {
	if n != nil {
		for _, a := range n.attrs {
			if a.Name.Local == name && strings.HasSuffix(a.Name.Space, "/relationships") {
				return a.Value
			}
		}
	}
	return ""
}

// on reports whether a switch such as <w:vanish/> is there and not turned off.
func (n *node) on() bool {
	if n == nil {
		return false
	}
	v := n.attr("val")
	return v != "0" && v != "false" && v != "off" && v != "none"
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
		var next *node
		for _, k := range n.kids {
			if k.name == name || name == "*" && k.name != "" {
				next = k
				break
			}
		}
		n = next
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

// line is a paragraph on its way to text. Stretches that are not simply there
// stand in brackets with what they are: [hidden: …].
type line struct {
	b    strings.Builder
	mark string
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
	l.b.WriteString(text)
}

func (l *line) end() {
	if l.mark != "" {
		l.b.WriteString("]")
	}
	l.mark = ""
}

func (l *line) String() string {
	l.end()
	return l.b.String()
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

// section writes a heading in brackets and what stands under it, if anything does.
func section(b *strings.Builder, title, body string) {
	if body = strings.Trim(body, "\n"); body != "" {
		b.WriteString("\n[" + title + "]\n" + body + "\n")
	}
}

// xmlText drops the carriage returns that XML keeps when they are written as
// references; lines of a document end with \n.
func xmlText(s string) string { return strings.ReplaceAll(s, "\r", "") }
