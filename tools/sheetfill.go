package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
		r.line = append(r.line, r.text())
	}
	r.row, r.from, r.to, r.color = row, column, column, color
	return fills
}

// end finishes the row.
func (r *fillRun) end(fills []string) []string {
	if r.row == 0 {
		return fills
	}
	fills = append(fills, strings.Join(append(r.line, r.text()), ", "))
	*r = fillRun{}
	return fills
}

func (r *fillRun) text() string {
	row := strconv.Itoa(r.row)
	return stretch(columnName(r.from-1)+row, columnName(r.to-1)+row) + "=" + r.color
}

// write writes the marks down, below the cells.
func (s marks) write(b *strings.Builder) {
	list := func(title string, all []string, between string) {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
		if len(all) > 0 && b.Len() < maxDocument {
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
