package tools

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// inline writes what stands in a paragraph. White space is one space: more of
// it is written as elements.
func (d *odf) inline(l *line, n *node, mark string) {
	for _, k := range n.kids {
		if l.b.Len() > maxDocument {
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
