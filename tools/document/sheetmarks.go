package document

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/xuri/excelize/v2"
)

// unknownFill stands for a fill whose colour cannot be told.
const unknownFill = "a fill"

// maxMarked bounds the cells of a workbook whose fills are looked at.
const maxMarked = 500_000

// marks are what a sheet shows besides values: fills, also those of empty
// cells, merged ranges, what is hidden, and comments.
type marks struct {
	fills    []string // by row: "A1:C1=#FF0000, D1=#00FF00"
	merged   []string
	whole    []string // rows and columns that are filled as a whole
	rows     []string // hidden
	columns  []string // hidden
	comments []string
	cut      bool // there are more fills
}

// marking reads the marks of a workbook's sheets from their parts: the library
// tells the fill of a cell that it is asked for only.
type marking struct {
	parts  *parts
	sheets map[string]string // name of a sheet → its part
	fills  []string          // by style, "" for none
	left   int               // cells
}

func newMarking(data []byte, f *excelize.File) (*marking, error) {
	p, err := openParts("xlsx", data)
	if err != nil {
		return nil, err
	}
	name := p.mainPart("xl/workbook.xml")
	root, err := p.tree(name)
	if err != nil {
		return nil, err
	}
	relations, ids, err := p.relations(name)
	if err != nil {
		return nil, err
	}
	m := &marking{p, map[string]string{}, nil, maxMarked}
	for _, s := range root.kid("*", "sheets").all("sheet") {
		m.sheets[s.attr("name")] = relations[s.relation("id")].target
	}
	for _, id := range ids {
		if to := relations[id]; to.kind == "styles" && p.has(to.target) {
			styles, err := p.tree(to.target)
			if err != nil {
				return nil, err
			}
			m.readFills(styles.kid(), f)
		}
	}
	return m, nil
}

// readFills finds the colour of each style: that of its pattern's foreground,
// which is what a solid fill shows.
func (m *marking) readFills(styles *node, f *excelize.File) {
	var colors []string
	for _, fill := range styles.kid("fills").all("fill") {
		pattern := fill.kid("patternFill")
		kind := pattern.attr("patternType")
		c := ""
		switch {
		case fill.kid("gradientFill") != nil:
			for _, stop := range fill.all("color") {
				c = strings.TrimPrefix(c+" to "+cmp.Or(fillColor(stop, f), "a colour"), " to ")
			}
		case pattern == nil || kind == "" || kind == "none":
		case kind == "solid":
			c = cmp.Or(fillColor(pattern.kid("fgColor"), f), unknownFill)
		default:
			c = strings.TrimSpace(fillColor(pattern.kid("fgColor"), f) + " " + plainWords(kind))
		}
		colors = append(colors, c)
	}
	for _, xf := range styles.kid("cellXfs").all("xf") {
		c := ""
		if i, err := strconv.Atoi(xf.attr("fillId")); err == nil && i >= 0 && i < len(colors) {
			c = colors[i]
		}
		m.fills = append(m.fills, c)
	}
}

// fillColor writes a colour as #RRGGBB, with the theme and the tint applied.
func fillColor(n *node, f *excelize.File) string {
	if n == nil {
		return ""
	}
	base := n.attr("rgb")
	index, err := strconv.Atoi(n.attr("indexed"))
	if err != nil || index < 0 {
		index = math.MaxInt
	}
	if base == "" {
		if theme, err := strconv.Atoi(n.attr("theme")); err == nil {
			base = f.GetBaseColor("", math.MaxInt, &theme)
		} else {
			base = f.GetBaseColor("", index, nil)
		}
	}
	if len(base) == 8 {
		base = base[2:] // without its transparency, which is not shown
	}
	if _, err := strconv.ParseUint(base, 16, 32); err != nil || len(base) != 6 {
		return ""
	}
	if tint, err := strconv.ParseFloat(n.attr("tint"), 64); err == nil && math.Abs(tint) <= 1 {
		base = excelize.ThemeColor(base, tint)[2:]
	}
	return "#" + strings.ToUpper(base)
}

// of reads the marks of a sheet.
func (m *marking) of(sheet string) (marks, error) {
	var s marks
	data, err := m.parts.read(m.sheets[sheet])
	if err != nil {
		return s, err
	}
	if err := m.scan(&s, data); err != nil {
		return s, err
	}
	relations, ids, err := m.parts.relations(m.sheets[sheet])
	if err != nil {
		return s, err
	}
	for _, id := range ids {
		if to := relations[id]; to.kind == "comments" && to.part {
			root, err := m.parts.tree(to.target)
			if err != nil {
				return s, err
			}
			s.readComments(root)
		}
	}
	return s, nil
}

func (s *marks) readComments(root *node) {
	authors := root.all("author")
	for _, c := range root.all("comment") {
		who := ""
		if i, err := strconv.Atoi(c.attr("authorId")); err == nil && i >= 0 && i < len(authors) {
			who = plainWords(authors[i].words())
		}
		var text strings.Builder
		for _, t := range c.kid("text").all("t") {
			text.WriteString(t.words())
		}
		about := plainWords(c.attr("ref"))
		if who != "" {
			about += " by " + who
		}
		s.comments = append(s.comments, about+": "+cellBreaks.Replace(strings.TrimSpace(text.String())))
	}
}

// scan goes through a sheet's part as a stream: laid out as a tree a large one
// would take too much.
func (m *marking) scan(s *marks, data []byte) error {
	d := newXML(data)
	row, column, hiddenFrom, hiddenTo := 0, 0, 0, 0
	var run fillRun
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			s.fills = run.end(s.fills)
			return nil
		}
		if err != nil {
			return err
		}
		t, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		n := &node{name: t.Name.Local, attrs: t.Attr}
		switch n.name {
		case "row":
			row, column = row+1, 0
			if r, err := strconv.Atoi(n.attr("r")); err == nil {
				row = r
			}
			if on(n.attr("hidden")) {
				if len(s.rows) > 0 && row == hiddenTo+1 {
					s.rows = s.rows[:len(s.rows)-1]
				} else {
					hiddenFrom = row
				}
				hiddenTo = row
				s.rows = append(s.rows, stretch(strconv.Itoa(hiddenFrom), strconv.Itoa(row)))
			}
			if fill := m.fill(n.attr("s")); fill != "" && on(n.attr("customFormat")) {
				s.whole = append(s.whole, fmt.Sprintf("row %d=%s", row, fill))
			}
		case "col":
			if on(n.attr("hidden")) {
				s.columns = append(s.columns, columnRange(n.attr("min"), n.attr("max")))
			}
			if fill := m.fill(n.attr("style")); fill != "" {
				s.whole = append(s.whole, "column "+columnRange(n.attr("min"), n.attr("max"))+"="+fill)
			}
		case "mergeCell":
			s.merged = append(s.merged, plainWords(n.attr("ref")))
		case "c":
			column++
			if c, r, err := excelize.CellNameToCoordinates(n.attr("r")); err == nil {
				column, row = c, r
			}
			fill := m.fill(n.attr("s"))
			if fill == "" || row < 1 {
				continue
			}
			if m.left--; m.left < 0 {
				s.cut = true
				continue
			}
			s.fills = run.add(s.fills, row, column, fill)
		}
	}
}

// fill is the fill of a style, "" for none.
func (m *marking) fill(style string) string {
	i, err := strconv.Atoi(style)
	if err != nil || i < 0 || i >= len(m.fills) {
		return ""
	}
	return m.fills[i]
}

func on(v string) bool { return v == "1" || v == "true" }

func columnRange(first, last string) string {
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	if errA != nil || errB != nil || a < 1 || b < a || b > 1<<14 {
		return ""
	}
	return stretch(columnName(a-1), columnName(b-1))
}

func stretch(from, to string) string {
	if from == to {
		return from
	}
	return from + ":" + to
}

// fillRun is a stretch of cells of one fill in a row.
type fillRun struct {
	row, from, to int // counted from 1; row 0 for none yet
	color         string
	line          []string // stretches of this row that are done
}

func (r *fillRun) add(fills []string, row, column int, color string) []string {
	if row == r.row && column == r.to+1 && color == r.color {
		r.to = column
		return fills
	}
	if row != r.row {
		fills = r.end(fills)
	} else {
		r.line = append(r.line, r.Text())
	}
	r.row, r.from, r.to, r.color = row, column, column, color
	return fills
}

// end finishes the row.
func (r *fillRun) end(fills []string) []string {
	if r.row == 0 {
		return fills
	}
	fills = append(fills, strings.Join(append(r.line, r.Text()), ", "))
	*r = fillRun{}
	return fills
}

func (r *fillRun) Text() string {
	row := strconv.Itoa(r.row)
	return stretch(columnName(r.from-1)+row, columnName(r.to-1)+row) + "=" + r.color
}

// write writes the marks down, below the cells.
func (s marks) write(b *strings.Builder) {
	list := func(title string, all []string, between string) {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
		if len(all) > 0 && b.Len() < tools.MaxDocument {
			fmt.Fprintf(b, "%s%s%s\n", title, between[len(between)-1:], strings.Join(all, between))
		}
	}
	list("merged cells:", s.merged, ", ")
	list("hidden rows:", s.rows, ", ")
	list("hidden columns:", s.columns, ", ")
	list("fills of whole rows and columns:", s.whole, ", ")
	list("fills, by row:", s.fills, "\n")
	if s.cut {
		b.WriteString("(more cells are filled than are looked at)\n")
	}
	list("comments:", s.comments, "\n")
}
