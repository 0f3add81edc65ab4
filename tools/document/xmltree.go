package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
)

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
