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

// maxMarked bounds the cells of a workbook whose fills are looked at.
const maxMarked = 500_000

// marks are what a sheet shows besides values: fills, also those of empty
// cells, merged ranges, what is hidden, and comments.
type marks struct {
	filled   []filledCell
	cut      bool // there are more fills
	merged   []string
	whole    []string // rows and columns that are filled as a whole
	rows     []int    // hidden
	columns  []string // hidden
	comments []string
}

type filledCell struct {
	row, column int // from 1
	color       string
}

// marking reads the marks of a workbook's sheets from their parts: the library
// has no list of the cells with a fill.
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
	root, relations, ids, err := p.main("xl/workbook.xml")
	if err != nil {
		return nil, err
	}
	m := &marking{p, map[string]string{}, nil, maxMarked}
	for _, s := range root.kid("sheets").all("sheet") {
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
		color, kind := fillColor(pattern.kid("fgColor"), f), pattern.attr("patternType")
		switch {
		case fill.kid("gradientFill") != nil:
			color = ""
			for _, stop := range fill.all("color") {
				color = strings.TrimPrefix(color+" to "+cmp.Or(fillColor(stop, f), "a colour"), " to ")
			}
		case kind == "" || kind == "none":
			color = ""
		case kind == "solid":
			color = cmp.Or(color, "a fill")
		default:
			color = strings.TrimSpace(color + " " + plainWords(kind))
		}
		colors = append(colors, color)
	}
	for _, xf := range styles.kid("cellXfs").all("xf") {
		m.fills = append(m.fills, at(colors, xf.attr("fillId")))
	}
}

// at returns the item whose index is written in a text, "" if there is none.
func at(list []string, index string) string {
	if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	return ""
}

// fillColor writes a colour as #RRGGBB, with the theme and the tint applied; "" if it
// is not known.
func fillColor(n *node, f *excelize.File) string {
	if n == nil {
		return ""
	}
	base := n.attr("rgb")
	if base == "" {
		index, err := strconv.Atoi(n.attr("indexed"))
		if err != nil || index < 0 {
			index = math.MaxInt
		}
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
		to := relations[id]
		if to.kind != "comments" || !to.part {
			continue
		}
		root, err := m.parts.tree(to.target)
		if err != nil {
			return s, err
		}
		var authors []string
		for _, a := range root.all("author") {
			authors = append(authors, plainWords(a.words()))
		}
		for _, c := range root.all("comment") {
			var text strings.Builder
			for _, t := range c.kid("text").all("t") {
				text.WriteString(t.words())
			}
			about := authored(plainWords(c.attr("ref")), at(authors, c.attr("authorId")), "")
			s.comments = append(s.comments, about+": "+cellBreaks.Replace(strings.TrimSpace(text.String())))
		}
	}
	return s, nil
}

// scan reads a sheet's part as a stream: the tree of a large one would take too much
// memory.
func (m *marking) scan(s *marks, data []byte) error {
	d := newXML(data)
	row, column := 0, 0
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
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
				s.rows = append(s.rows, row)
			}
			if fill := at(m.fills, n.attr("s")); fill != "" && on(n.attr("customFormat")) {
				s.whole = append(s.whole, fmt.Sprintf("row %d=%s", row, fill))
			}
		case "col":
			columns := columnRange(n.attr("min"), n.attr("max"))
			if on(n.attr("hidden")) {
				s.columns = append(s.columns, columns)
			}
			if fill := at(m.fills, n.attr("style")); fill != "" {
				s.whole = append(s.whole, "column "+columns+"="+fill)
			}
		case "mergeCell":
			s.merged = append(s.merged, plainWords(n.attr("ref")))
		case "c":
			column++
			if c, r, err := excelize.CellNameToCoordinates(n.attr("r")); err == nil {
				column, row = c, r
			}
			fill := at(m.fills, n.attr("s"))
			if fill == "" || row < 1 {
				continue
			}
			if m.left--; m.left < 0 {
				s.cut = true
				continue
			}
			s.filled = append(s.filled, filledCell{row, column, fill})
		}
	}
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

// write writes the marks, below the cells.
func (s marks) write(b *strings.Builder) {
	list := func(title string, all []string, between string) {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
		if len(all) > 0 && b.Len() < tools.MaxDocument {
			fmt.Fprintf(b, "%s%s%s\n", title, between[len(between)-1:], strings.Join(all, between))
		}
	}
	list("merged cells:", s.merged, ", ")
	var rows []string
	for i := 0; i < len(s.rows); i++ {
		from := s.rows[i]
		for i+1 < len(s.rows) && s.rows[i+1] == s.rows[i]+1 {
			i++
		}
		rows = append(rows, stretch(strconv.Itoa(from), strconv.Itoa(s.rows[i])))
	}
	list("hidden rows:", rows, ", ")
	list("hidden columns:", s.columns, ", ")
	list("fills of whole rows and columns:", s.whole, ", ")
	list("fills, by row:", s.fillLines(), "\n")
	if s.cut {
		b.WriteString("(more cells are filled than are looked at)\n")
	}
	list("comments:", s.comments, "\n")
}

// fillLines describes the filled cells of each row: "A1:C1=#FF0000, D1=#00FF00".
func (s marks) fillLines() (lines []string) {
	var parts []string
	for i, from := 0, 0; i < len(s.filled); i++ {
		c, next := s.filled[i], filledCell{}
		if i+1 < len(s.filled) {
			next = s.filled[i+1]
		}
		if next == (filledCell{c.row, c.column + 1, c.color}) {
			continue
		}
		row := strconv.Itoa(c.row)
		parts = append(parts, stretch(columnName(s.filled[from].column-1)+row, columnName(c.column-1)+row)+"="+c.color)
		from = i + 1
		if next.row != c.row {
			lines, parts = append(lines, strings.Join(parts, ", ")), nil
		}
	}
	return lines
}
