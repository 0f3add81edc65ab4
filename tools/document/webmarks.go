package document

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markHidden puts into brackets what a page does not show until something is
// done to it, or never; not once more inside of that.
func markHidden(n *html.Node) {
	for c := range n.ChildNodes() {
		switch c.DataAtom {
		case atom.Head, atom.Script, atom.Style, atom.Template, atom.Noscript:
			continue
		}
		_, hidden := attribute(c, "hidden")
		style := strings.ToLower(strings.Join(strings.Fields(valueIn(c, "style")), ""))
		if hidden || strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
			bracket(c, "hidden")
		} else {
			markHidden(c)
		}
	}
}

// bracket puts what an element says into brackets with what it is; rows and lists
// hold nothing but their elements, so theirs are marked.
func bracket(n *html.Node, what string) {
	switch n.DataAtom {
	case atom.Table, atom.Thead, atom.Tbody, atom.Tr, atom.Ul, atom.Ol, atom.Dl, atom.Select:
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode {
				bracket(c, what)
			}
		}
		return
	}
	if strings.TrimSpace(textOf(n, 1)) != "" {
		wrap(n, "["+what+": ", "]")
	}
}

// writeOrdinals writes the numbers of a list that does not count up from its
// start, beside those that it gets.
func writeOrdinals(list *html.Node) {
	var items []*html.Node
	for c := range list.ChildNodes() {
		if c.DataAtom == atom.Li {
			items = append(items, c)
		}
	}
	number, step := 1, 1
	_, reversed := attribute(list, "reversed")
	if reversed {
		number, step = len(items), -1
	}
	if start, err := strconv.Atoi(valueIn(list, "start")); err == nil {
		number = start
	}
	shown := reversed
	for _, item := range items {
		if value, err := strconv.Atoi(valueIn(item, "value")); err == nil {
			number, shown = value, true
		}
		if shown {
			item.InsertBefore(textNode(fmt.Sprintf("(number %d) ", number)), item.FirstChild)
		}
		number += step
	}
}

// writeField makes text of a field of a form, which the converter leaves out.
func writeField(n *html.Node) {
	value, text := valueIn(n, "value"), ""
	_, checked := attribute(n, "checked")
	switch kind := strings.ToLower(valueIn(n, "type")); {
	case n.DataAtom == atom.Textarea:
		text = "[field: " + strings.TrimSpace(textOf(n, tools.MaxDocument)) + "]"
	case kind == "hidden" || kind == "password":
	case kind == "checkbox" || kind == "radio":
		text = "[not chosen] "
		if checked {
			text = "[chosen] "
		}
	case strings.TrimSpace(value) != "":
		text = "[field: " + value + "]"
	}
	toText(n, text)
}

// toText makes a text of an element.
func toText(n *html.Node, text string) {
	for n.FirstChild != nil {
		n.RemoveChild(n.FirstChild)
	}
	n.Type, n.DataAtom, n.Data, n.Attr = html.TextNode, 0, text, nil
}

// wrap writes texts before and after the content of an element.
func wrap(n *html.Node, before, after string) {
	n.InsertBefore(textNode(before), n.FirstChild)
	n.AppendChild(textNode(after))
}

func attribute(n *html.Node, key string) (value string, found bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func valueIn(n *html.Node, key string) string {
	value, _ := attribute(n, key)
	return strings.TrimSpace(value)
}

// scripts are the elements of MathML whose parts are raised, lowered or stacked, and
// what is written before and after each part.
var scripts = map[string][]string{
	"mfrac": {"(", ")", "/(", ")"}, "mroot": {"(", ")", "^(1/(", "))"},
	"msup": {"", "", "^(", ")"}, "mover": {"", "", "^(", ")"}, "msub": {"", "", "_(", ")"}, "munder": {"", "", "_(", ")"},
	"msubsup": {"", "", "_(", ")", "^(", ")"}, "munderover": {"", "", "_(", ")", "^(", ")"},
}

// writeScript puts signs around what an element of HTML or MathML raises, lowers
// or stacks, which text alone would run together: ^(…), _(…), (…)/(…) and √(…).
func writeScript(n *html.Node) {
	switch n.Data {
	case "sup", "sub":
		text := strings.TrimSpace(textOf(n, 2))
		if text != "" && !strings.HasPrefix(text, "[") { // a reference has brackets
			wrap(n, map[string]string{"sup": "^(", "sub": "_("}[n.Data], ")")
		}
	case "msqrt":
		wrap(n, "√(", ")")
	default:
		around := scripts[n.Data]
		if around == nil {
			return
		}
		var parts []*html.Node
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode {
				parts = append(parts, c)
			}
		}
		if len(parts)*2 != len(around) {
			return
		}
		for i, part := range parts {
			n.InsertBefore(textNode(around[2*i]), part)
			n.InsertBefore(textNode(around[2*i+1]), part.NextSibling)
		}
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
		if b.Len() >= limit && len(strings.TrimSpace(b.String())) >= limit {
			break
		}
	}
	return b.String()
}
