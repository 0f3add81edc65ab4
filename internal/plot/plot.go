// Package plot draws what runs did as SVG, and gives the same numbers as a table.
//
// It is pure: the same input gives the same bytes. An SVG has no script, no link and no
// style of its own beyond classes that the style sheet of internal/page gives colours;
// one that is saved contains the colours as attributes. Text in it is escaped.
package plot

import (
	"bytes"
	"encoding/csv"
	"html/template"
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

// CSV returns the table as CSV, with its columns in the first line.
func (p Plot) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(p.Columns)
	w.WriteAll(p.Rows)
	return b.Bytes()
}
