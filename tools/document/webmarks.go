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
		if c.Type == html.ElementNode && isHidden(c) {
			bracket(c, "hidden")
			continue
		}
		markHidden(c)
	}
}

func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
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
	if strings.TrimSpace(textOf(n, 1)) == "" {
		return
	}
	n.InsertBefore(textNode("["+what+": "), n.FirstChild)
	n.AppendChild(textNode("]"))
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
	told := reversed
	for _, item := range items {
		if value, err := strconv.Atoi(valueIn(item, "value")); err == nil {
			number, told = value, true
		}
		if told {
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
	for n.FirstChild != nil {
		n.RemoveChild(n.FirstChild)
	}
	n.Type, n.DataAtom, n.Data, n.Attr = html.TextNode, 0, text, nil
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
