package document

import (
	"context"
	"fmt"
	"github.com/gaia-harness/gaia/tools"
	"strconv"
	"strings"
)

// readPptx turns the slides of a presentation (ECMA-376, part 1, 19) into text,
// in the order in which they are shown.
func readPptx(ctx context.Context, data []byte) (tools.Document, error) {
	p, err := openParts("pptx", data)
	if err != nil {
		return tools.Document{}, err
	}
	name := p.mainPart("ppt/presentation.xml")
	root, err := p.tree(name)
	if err != nil {
		return tools.Document{}, err
	}
	relations, _, err := p.relations(name)
	if err != nil {
		return tools.Document{}, err
	}
	slides := root.kid("*", "sldIdLst").all("sldId")
	var b strings.Builder
	hidden := 0
	for i, s := range slides {
		if err := ctx.Err(); err != nil {
			return tools.Document{}, err
		}
		if b.Len() > tools.MaxDocument {
			break
		}
		text, shown, err := readSlide(p, relations[s.relation("id")].target)
		title := fmt.Sprintf("[slide %d of %d", i+1, len(slides))
		switch {
		case err != nil:
			title += ": not readable: " + tools.Plain(err)
		case !shown:
			hidden++
			title += " (hidden)"
		case text == "":
			title += ": no text"
		}
		b.WriteString("\n" + title + "]\n" + text)
	}
	notes := []string{tools.Count(len(slides), "slide")}
	if hidden > 0 {
		notes[0] += fmt.Sprintf(" (%d of them hidden)", hidden)
	}
	return tools.Document{Kind: "pptx", Notes: notes, Text: strings.TrimLeft(strings.ToValidUTF8(b.String(), "\ufffd"), "\n")}, nil
}

// slide is a slide on its way to text.
type slide struct {
	relations map[string]relation
	b         strings.Builder
}

// readSlide writes a slide, then the speaker's notes and the comments on it.
func readSlide(p *parts, name string) (text string, shown bool, err error) {
	root, err := p.tree(name)
	if err != nil {
		return "", true, err
	}
	relations, ids, err := p.relations(name)
	if err != nil {
		return "", true, err
	}
	s := &slide{relations: relations}
	s.shapes(root.kid("*", "cSld", "spTree"), false)
	for _, id := range ids {
		to := relations[id]
		if to.kind != "notesSlide" && to.kind != "comments" || !to.part {
			continue
		}
		beside, err := p.tree(to.target)
		if err != nil {
			s.b.WriteString("[" + to.kind + ": not readable: " + tools.Plain(err) + "]\n")
			continue
		}
		if to.kind == "comments" {
			s.comments(beside)
			continue
		}
		n := &slide{}
		n.shapes(beside.kid("*", "cSld", "spTree"), true)
		section(&s.b, "speaker notes", n.b.String())
	}
	show := root.kid().attr("show")
	return s.b.String(), show != "0" && show != "false", nil
}

// comments are in one of two formats, both with their text below them.
func (s *slide) comments(root *node) {
	for _, c := range root.all("cm") {
		text := c.kid("text").words()
		if body := c.kid("txBody"); body != nil {
			text = strings.TrimSpace(s.Text(body))
		}
		s.b.WriteString("[comment: " + xmlText(text) + "]\n")
	}
}

// shapes writes what stands on a slide, in the order of drawing. Of a page of
// notes only the notes count: the rest repeats the slide.
func (s *slide) shapes(n *node, notes bool) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		if s.b.Len() > tools.MaxDocument {
			return
		}
		if notes && k.name == "sp" && k.kid("nvSpPr", "nvPr", "ph").attr("type") != "body" {
			continue
		}
		switch k.name {
		case "sp", "cxnSp":
			s.shape(k)
		case "pic":
			s.b.WriteString(s.about(k.kid("nvPicPr", "cNvPr")) + mention(s.relations, "picture", pictureID(k.kid("blipFill", "blip"))) + "\n")
		case "graphicFrame":
			s.frame(k)
		case "grpSp":
			s.shapes(k, notes)
		case "AlternateContent":
			s.shapes(alternative(k), notes)
		}
	}
}

// about says of an object that it is hidden, and what it shows.
func (s *slide) about(n *node) string {
	text := ""
	if v := n.attr("hidden"); v == "1" || v == "true" {
		text = "[hidden] "
	}
	if alt := n.attr("descr"); alt != "" {
		text += "[" + plainWords(alt) + "] "
	}
	return text
}

func (s *slide) shape(n *node) {
	text := s.Text(n.kid("txBody"))
	fill := mention(s.relations, "picture", pictureID(n.kid("spPr", "blipFill", "blip")))
	if strings.TrimSpace(text) == "" && fill == "" {
		return
	}
	about := s.about(n.kid("nvSpPr", "cNvPr"))
	if kind := n.kid("nvSpPr", "nvPr", "ph").attr("type"); kind == "title" || kind == "ctrTitle" {
		about = "# " + about
		text = strings.ReplaceAll(strings.TrimSpace(text), "\n", " ") + "\n"
	}
	s.b.WriteString(about + text)
	if fill != "" {
		s.b.WriteString(fill + "\n")
	}
}

func (s *slide) frame(n *node) {
	s.b.WriteString(s.about(n.kid("nvGraphicFramePr", "cNvPr")))
	inside := n.kid("graphic", "graphicData")
	if t := inside.kid("tbl"); t != nil {
		for _, row := range t.all("tr") {
			var cells []string
			for _, c := range row.all("tc") {
				cells = append(cells, s.Text(c.kid("txBody"))) // those that are covered by a span are there, empty
			}
			tableRow(&s.b, cells)
		}
		return
	}
	for _, object := range []struct{ element, what, id string }{{"chart", "chart", "id"}, {"relIds", "diagram", "dm"}, {"oleObj", "embedded", "id"}} {
		for _, o := range inside.all(object.element) {
			s.b.WriteString(mention(s.relations, object.what, o.relation(object.id)))
		}
	}
	s.b.WriteString("\n")
}

// text writes the paragraphs of a text body, indented by their levels.
func (s *slide) Text(body *node) string {
	if body == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range body.all("p") {
		var l line
		s.inline(&l, p)
		if text := strings.TrimRight(l.String(), " \t"); text != "" {
			level, err := strconv.Atoi(p.kid("pPr").attr("lvl"))
			if err != nil {
				level = 0
			}
			b.WriteString(strings.Repeat("  ", max(0, min(level, 9))) + text + "\n")
		}
	}
	return b.String()
}

func (s *slide) inline(l *line, n *node) {
	for _, k := range n.kids {
		switch k.name {
		case "", "pPr", "rPr", "endParaRPr":
		case "t":
			l.write("", xmlText(k.words()))
		case "br":
			l.write("", "\n")
		case "r", "fld":
			s.Run(l, k)
		case "AlternateContent":
			s.inline(l, alternative(k))
		default:
			s.inline(l, k)
		}
	}
}

func (s *slide) Run(l *line, n *node) {
	p := n.kid("rPr")
	mark := ""
	if v := p.attr("strike"); v != "" && v != "noStrike" {
		mark = "struck out"
	}
	text := xmlText(n.kid("t").words())
	if to := s.relations[p.kid("hlinkClick").relation("id")].target; to != "" {
		text = "[" + text + "](" + plainWords(to) + ")"
	}
	script := ""
	if v, err := strconv.Atoi(strings.TrimSuffix(p.attr("baseline"), "%")); err == nil && v > 0 {
		script = "^"
	} else if err == nil && v < 0 {
		script = "_"
	}
	l.within(script, func() { l.write(mark, text) })
}
