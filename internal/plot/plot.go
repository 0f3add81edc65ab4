// Package plot draws what runs did as SVG, and gives the same numbers as a table.
//
// It is pure: the same input gives the same bytes. An SVG has no script, no link, no id and
// no style sheet. Its size is bounded (TestLargeInput), text in it is escaped, and no value
// is shown by colour alone: series differ in shape too. Each has a light background of
// class "bg", so that a saved file can be read by itself. A page restyles it by classes:
//
//	.s0 … .s5   series; shapes take currentColor, so a class sets color, and neither fill nor stroke
//	.axis       axes and their labels, likewise
//	.grid       lines behind the values, likewise
//	.ci         intervals, beside the class of their series
//	.bg         the background, which a page makes transparent by fill
package plot

import (
	"bytes"
	"encoding/csv"
	"html/template"
	"regexp"
)

// Plot is a picture with the table of what it shows.
type Plot struct {
	Name    string        // of its files: lower case and hyphens, such as "accuracy-by-level"
	Title   string        // what it shows, with units
	Note    string        // how to read it, or why there is no picture
	SVG     template.HTML // "" if there is nothing to draw
	Columns []string
	Rows    [][]string // as many cells as Columns
}

// CSV returns the table as CSV, with its columns in the first line. A cell that a
// spreadsheet would take for a formula begins with an apostrophe.
func (p Plot) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b) // a bytes.Buffer takes everything
	_ = w.Write(p.Columns)
	for _, row := range p.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell != "" && (cell[0] == '=' || cell[0] == '+' || cell[0] == '@' || cell[0] == '-' && !number.MatchString(cell)) {
				cell = "'" + cell
			}
			cells[i] = cell
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return b.Bytes()
}

// number matches a cell that is a decimal number.
var number = regexp.MustCompile(`^-?[0-9.]*[0-9][0-9.]*$`)
