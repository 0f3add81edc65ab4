package document

import (
	"strings"

	"golang.org/x/net/html"
)

// isScript reports whether an element raises, lowers or stacks what is in it,
// which text alone would run together.
func isScript(n *html.Node) bool {
	switch n.Data {
	case "sup", "sub", "mfrac", "msup", "msub", "msubsup", "munder", "mover", "munderover", "msqrt", "mroot":
		return true
	}
	return false
}

// writeScript puts signs around what an element of HTML or MathML raises, lowers
// or stacks: ^(…), _(…), (…)/(…) and √(…).
func writeScript(n *html.Node) {
	switch n.Data {
	case "sup", "sub":
		text := strings.TrimSpace(textOf(n, 2))
		if n.FirstChild == nil || text == "" || strings.HasPrefix(text, "[") { // a reference, which has brackets
			return
		}
		sign := map[string]string{"sup": "^(", "sub": "_("}[n.Data]
		n.InsertBefore(textNode(sign), n.FirstChild)
		n.AppendChild(textNode(")"))
		return
	case "msqrt":
		n.InsertBefore(textNode("√("), n.FirstChild)
		n.AppendChild(textNode(")"))
		return
	}
	var parts []*html.Node
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode {
			parts = append(parts, c)
		}
	}
	around := map[string][]string{
		"mfrac": {"(", ")", "/(", ")"}, "msup": {"", "", "^(", ")"}, "mover": {"", "", "^(", ")"}, "msub": {"", "", "_(", ")"}, "munder": {"", "", "_(", ")"},
		"msubsup": {"", "", "_(", ")", "^(", ")"}, "munderover": {"", "", "_(", ")", "^(", ")"}, "mroot": {"(", ")", "^(1/(", "))"},
	}[n.Data]
	if len(parts)*2 != len(around) {
		return
	}
	for i, part := range parts {
		n.InsertBefore(textNode(around[2*i]), part)
		n.InsertBefore(textNode(around[2*i+1]), part.NextSibling)
	}
}

func textNode(text string) *html.Node { return &html.Node{Type: html.TextNode, Data: text} }

// textOf is the text below n, which ends after so many bytes and a piece.
func textOf(n *html.Node, limit int) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
		if len(strings.TrimSpace(b.String())) >= limit {
			break
		}
	}
	return b.String()
}
