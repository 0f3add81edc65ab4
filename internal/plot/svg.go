package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/visible"
)

// The measures of all plots, in the units of the view box. Letters stay legible where a
// plot is 360 px wide.
const (
	width    = 440.0
	fontSize = 13.0
	line     = 17.0 // from one line of text to the next
)

// colours are what the classes stand for in a saved file. Each has a contrast of at least
// 4.5 with the background (TestContrast).
var colours = map[string]string{
	"s0": "#1f5fa8", "s1": "#a8440a", "s2": "#2a7530", "s3": "#7b3fa0", "s4": "#7a6000", "s5": "#555555",
	"axis": "#333333", "grid": "#d5d5d5",
}

// background is the colour behind a saved plot.
const background = "#ffffff"

// drawing is an SVG that is written.
type drawing struct {
	b      bytes.Buffer
	height float64
}

// finish returns the SVG with its title and description.
func (d *drawing) finish(title, desc string) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" font-family="system-ui, sans-serif" font-size="%s">`,
		num(width), num(d.height), num(fontSize))
	fmt.Fprintf(&b, "<title>%s</title><desc>%s</desc>", escape(title), escape(desc))
	fmt.Fprintf(&b, `<rect class="bg" width="%s" height="%s" fill="%s"/>`, num(width), num(d.height), background)
	b.Write(d.b.Bytes())
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// num writes a coordinate with at most one decimal.
func num(x float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// escape returns text from outside for XML; characters that cannot be seen are shown.
func escape(s string) string {
	return html.EscapeString(visible.Line(strings.ToValidUTF8(s, "\uFFFD")))
}

// short cuts a text from outside to most characters, counted when hidden ones are shown.
func short(s string, most int) string {
	runes := []rune(visible.Line(strings.ToValidUTF8(s, "\uFFFD")))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}

// attributes returns the class and the colour of an element.
func attributes(class string) string {
	first, _, _ := strings.Cut(class, " ")
	return fmt.Sprintf(`class="%s" color="%s"`, class, cmp.Or(colours[first], colours["axis"]))
}

// text writes a text at its baseline. anchor is "start", "middle" or "end".
func (d *drawing) text(x, y float64, anchor, s string) {
	d.b.WriteString(`<text class="axis" color="` + colours["axis"] + `" fill="currentColor" x="` + num(x) + `" y="` + num(y) + `"`)
	if anchor != "start" {
		d.b.WriteString(` text-anchor="` + anchor + `"`)
	}
	d.b.WriteString(">" + escape(s) + "</text>")
}

// stroke writes lines.
func (d *drawing) stroke(class, path string, thick float64, dashed bool) {
	if path == "" {
		return
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(&d.b, `<path %s fill="none" stroke="currentColor" stroke-width="%s"%s d="%s"/>`, attributes(class), num(thick), dash, path)
}

// fill writes areas. opacity is from 0 to 1.
func (d *drawing) fill(class, path string, opacity float64) {
	if path == "" {
		return
	}
	faint := ""
	if opacity < 1 {
		faint = ` fill-opacity="` + num(opacity) + `"`
	}
	fmt.Fprintf(&d.b, `<path %s fill="currentColor"%s d="%s"/>`, attributes(class), faint, path)
}

// segment returns a straight line.
func segment(x1, y1, x2, y2 float64) string {
	switch {
	case y1 == y2:
		return "M" + num(x1) + " " + num(y1) + "H" + num(x2)
	case x1 == x2:
		return "M" + num(x1) + " " + num(y1) + "V" + num(y2)
	}
	return "M" + num(x1) + " " + num(y1) + "L" + num(x2) + " " + num(y2)
}

// lineTo returns a path with a line to a place, where an empty one begins.
func lineTo(path string, x, y float64) string {
	if path == "" {
		return "M" + num(x) + " " + num(y)
	}
	return path + "L" + num(x) + " " + num(y)
}

// box returns a rectangle.
func box(x, y, w, h float64) string {
	return "M" + num(x) + " " + num(y) + "h" + num(w) + "v" + num(h) + "h" + num(-w) + "z"
}

// The shapes of marks: of series, so that they differ without colour.
const (
	circle = iota
	square
	diamond
	triangle
)

// mark returns a mark of a shape around a place; r is half its size.
func mark(shape int, x, y, r float64) string {
	switch shape {
	case square:
		return box(x-r, y-r, 2*r, 2*r)
	case diamond:
		return fmt.Sprintf("M%s %sl%s %sl%s %sl%s %sz", num(x), num(y-r-1), num(r+1), num(r+1), num(-r-1), num(r+1), num(-r-1), num(-r-1))
	case triangle:
		return fmt.Sprintf("M%s %sl%s %sh%sz", num(x), num(y-r), num(r), num(2*r), num(-2*r))
	}
	return fmt.Sprintf("M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0z", num(x-r), num(y), num(r), num(r), num(2*r), num(r), num(r), num(-2*r))
}

// mark draws the mark of a series, whose line is as thick if the mark is hollow.
func (d *drawing) mark(e entry, x, y, r, thick float64) {
	if m := mark(e.shape, x, y, r); e.hollow {
		d.stroke(e.class, m, thick, false)
	} else {
		d.fill(e.class, m, 1)
	}
}

// whisker returns an interval with its ends, across from one value to another.
func whisker(x1, x2, y float64) string {
	return segment(x1, y, x2, y) + segment(x1, y-4, x1, y+4) + segment(x2, y-4, x2, y+4)
}

// upright is whisker from top to bottom.
func upright(x, y1, y2 float64) string {
	return segment(x, y1, x, y2) + segment(x-4, y1, x+4, y1) + segment(x-4, y2, x+4, y2)
}

// entry is a line of a legend.
type entry struct {
	class  string
	shape  int
	hollow bool
	text   string
}

// legend writes entries side by side as far as they fit, and returns where it ends.
func (d *drawing) legend(y float64, entries ...entry) float64 {
	x := 8.0
	for _, e := range entries {
		w := 30 + 7*float64(len([]rune(e.text)))
		if x > 8 && x+w > width {
			x, y = 8, y+line
		}
		d.mark(e, x+5, y-4, 4, 1.5)
		d.text(x+14, y, "start", e.text)
		x += w
	}
	return y + 8
}
