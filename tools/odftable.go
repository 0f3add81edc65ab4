package tools

import (
	"fmt"
	"strings"
)

// maxCopies bounds how often a repeated cell is written: a few bytes can claim
// millions. Rows are written once.
const maxCopies = 256

// table writes the rows of a table; those of a sheet with their numbers, and
// with the formulas and exact values of their cells.
func (d *odf) table(b *strings.Builder, n *node, sheet bool) {
	number := 1
	for _, row := range n.all("table-row") {
		if b.Len() > maxDocument {
			return
		}
		var cells []string
		left := maxDocument // bytes of this row
		for _, c := range row.kids {
			if c.name != "table-cell" && c.name != "covered-table-cell" {
				continue
			}
			text, times := d.cell(c, sheet), repeated(c, "number-columns-repeated", 1<<20)
			if text != "" && (times > maxCopies || len(text)*times > left) {
				text += fmt.Sprintf(" (in this and the next %d columns)", times-1)
				times = 1
			}
			left -= len(text) * times
			if len(cells)+times <= maxCells>>4 && left > 0 {
				cells = append(cells, make([]string, times)...)
				for i := range times {
					cells[len(cells)-1-i] = text
				}
			}
		}
		for len(cells) > 0 && cells[len(cells)-1] == "" && sheet {
			cells = cells[:len(cells)-1]
		}
		times := repeated(row, "number-rows-repeated", 1<<30)
		if len(cells) > 0 {
			before := ""
			if sheet {
				before = fmt.Sprint(number)
				if times > 1 {
					before += fmt.Sprintf(" to %d, all alike", number+times-1)
				}
				if v := row.attr("visibility"); v == "collapse" || v == "filter" {
					before += " (hidden)"
				}
				before += "\t"
			}
			b.WriteString(before)
			tableRow(b, cells)
			if !sheet && times > 1 {
				fmt.Fprintf(b, "(and %d more rows alike)\n", times-1)
			}
		}
		number = min(number+times, 1<<30)
	}
}

func (d *odf) cell(n *node, sheet bool) string {
	var b strings.Builder
	d.blocks(&b, n)
	text := strings.TrimSpace(b.String())
	if !sheet {
		return text
	}
	exact := ""
	for _, name := range []string{"value", "date-value", "time-value"} {
		if v := n.attr(name); v != "" && v != text {
			exact = v
		}
	}
	if exact != "" {
		text = strings.TrimLeft(text+" {"+exact+"}", " ")
	}
	if formula := n.attr("formula"); formula != "" {
		_, formula, _ = strings.Cut(formula, "=") // the name of its grammar stands before it
		text = strings.TrimLeft(text+" [="+formula+"]", " ")
	}
	return text
}

func (d *odf) sheets(b *strings.Builder, tables []*node) {
	hidden := 0
	b.WriteString("Cells are separated by |. [=…] is a cell's formula; {…} is the stored value where the cell shows it formatted.\n")
	for i, t := range tables {
		fmt.Fprintf(b, "\nsheet %d of %d: %q", i+1, len(tables), t.attr("name"))
		if d.masked[t.attr("style-name")] {
			b.WriteString(" (hidden)")
			hidden++
		}
		b.WriteString("\n")
		d.table(b, t, true)
	}
	section(b, "comments", d.aside.String())
	d.notes = append([]string{count(len(tables), "sheet")}, d.notes...)
	if hidden > 0 {
		d.notes[0] += fmt.Sprintf(" (%d of them hidden)", hidden)
	}
}
