package document

import (
	"context"
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/tools"
)

// readPptx turns the slides of a presentation (ECMA-376, part 1, 19) into text,
// in the order in which they are shown.
func readPptx(ctx context.Context, data []byte) (tools.Document, error) {
	p, err := openParts("pptx", data)
	if err != nil {
		return tools.Document{}, err
	}
	root, relations, _, err := p.main("ppt/presentation.xml")
	if err != nil {
		return tools.Document{}, err
	}
	slides := root.kid("sldIdLst").all("sldId")
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
	return officeDocument("pptx", []string{countShown(len(slides), "slide", hidden)}, &b), nil
}

// slide converts a slide to text.
type slide struct {
	ooxml
	b strings.Builder
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
	s := &slide{ooxml: ooxml{relations: relations}}
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
		for _, c := range beside.all("cm") { // in one of two formats
			text := c.kid("text").words()
			if body := c.kid("txBody"); body != nil {
				text = strings.TrimSpace(s.text(body))
			}
			s.b.WriteString("[comment: " + xmlText(text) + "]\n")
		}
		notes := &slide{}
		notes.shapes(beside.kid("*", "cSld", "spTree"), true)
		section(&s.b, "speaker notes", notes.b.String())
	}
	return s.b.String(), root.kid().attr("show") != "0" && root.kid().attr("show") != "false", nil
}

// shapes writes the objects of a slide, in the order of drawing. Of a page of notes
// only the notes count: the rest repeats the slide.
func (s *slide) shapes(n *node, notes bool) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		if s.b.Len() > tools.MaxDocument {
			return
		}
		placeholder := k.kid("nvSpPr", "nvPr", "ph").attr("type")
		if notes && k.name == "sp" && placeholder != "body" {
			continue
		}
		switch k.name {
		case "sp", "cxnSp":
			text := s.text(k.kid("txBody"))
			fill := mention(s.relations, "picture", pictureID(k.kid("spPr", "blipFill", "blip")))
			if strings.TrimSpace(text) == "" && fill == "" {
				continue
			}
			about := describe(k.kid("nvSpPr", "cNvPr"))
			if placeholder == "title" || placeholder == "ctrTitle" {
				about = "# " + about
				text = strings.ReplaceAll(strings.TrimSpace(text), "\n", " ") + "\n"
			}
			s.b.WriteString(about + text)
			if fill != "" {
				s.b.WriteString(fill + "\n")
			}
		case "pic":
			picture := mention(s.relations, "picture", pictureID(k.kid("blipFill", "blip")))
			s.b.WriteString(describe(k.kid("nvPicPr", "cNvPr")) + picture + "\n")
		case "graphicFrame":
			s.frame(k)
		case "grpSp":
			s.shapes(k, notes)
		case "AlternateContent":
			s.shapes(alternative(k), notes)
		}
	}
}

// describe says whether an object is hidden, and what it shows.
func describe(n *node) string {
	text := ""
	if on(n.attr("hidden")) {
		text = "[hidden] "
	}
	if alt := n.attr("descr"); alt != "" {
		text += "[" + plainWords(alt) + "] "
	}
	return text
}

// frame writes a table, or names the chart, diagram or object that is shown.
func (s *slide) frame(n *node) {
	s.b.WriteString(describe(n.kid("nvGraphicFramePr", "cNvPr")))
	inside := n.kid("graphic", "graphicData")
	if t := inside.kid("tbl"); t != nil {
		for _, row := range t.all("tr") {
			var cells []string
			for _, c := range row.all("tc") {
				cells = append(cells, s.text(c.kid("txBody"))) // those that are covered by a span are there, empty
			}
			tableRow(&s.b, cells)
		}
		return
	}
	for _, element := range []string{"chart", "relIds", "oleObj"} {
		for _, o := range inside.all(element) {
			s.b.WriteString(mention(s.relations, shownParts[element][0], o.relation(shownParts[element][1])))
		}
	}
	s.b.WriteString("\n")
}

// text returns the paragraphs of a text body, indented by their levels.
func (s *slide) text(body *node) string {
	var b strings.Builder
	for _, p := range body.all("p") {
		var l line
		s.inline(&l, p, "")
		if text := strings.TrimRight(l.String(), " \t"); text != "" {
			level, _ := levelOf(p.kid("pPr").attr("lvl"))
			b.WriteString(strings.Repeat("  ", max(0, min(level, listLevels))) + text + "\n")
		}
	}
	return b.String()
}
