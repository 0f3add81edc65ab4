// Package view writes results for people: tables, rows of names and values, and the forms of numbers, paths and times in
// them.
//
// Text from outside is escaped so that it cannot control a terminal or look like a line of this program (package visible;
// TestTable, TestRows). Money is given in micro-USD and rates in parts per million.
package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table without borders: a header, a line below it, and rows.
type Table struct {
	w       table.Writer
	columns []table.ColumnConfig
}

// NewTable returns a table with the given headers and no rows.
func NewTable(header ...any) *Table {
	t := &Table{w: table.NewWriter()}
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.w.SetStyle(style)
	t.w.AppendHeader(header)
	return t
}

// Wrap breaks the cells of a column, counted from 1, between words where they are
// longer than width.
func (t *Table) Wrap(column, width int) {
	t.columns = append(t.columns, table.ColumnConfig{Number: column, WidthMax: width, WidthMaxEnforcer: text.WrapSoft})
	t.w.SetColumnConfigs(t.columns)
}

// Row adds a row. Cells that are strings, or write themselves as strings, are
// escaped and put on one line.
func (t *Table) Row(cells ...any) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
		switch c.(type) {
		case int, int64: // aligned to the right
		default:
			row[i] = Line(fmt.Sprint(c))
		}
	}
	t.w.AppendRow(row)
}

// Separator adds a line between rows.
func (t *Table) Separator() { t.w.AppendSeparator() }

// String returns the table without a newline at its end.
func (t *Table) String() string { return visible.Text(t.w.Render()) }

// Result writes the result of a command: v as JSON, or the text for people.
func Result(w io.Writer, asJSON bool, v any, text string) error {
	if asJSON {
		return JSON(w, v)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Rows writes names and values in two columns, each pair on one line.
func Rows(w io.Writer, rows [][2]string) error {
	_, err := io.WriteString(w, RowsText(rows))
	return err
}

// RowsText returns names and values in two columns, each pair on one line.
func RowsText(rows [][2]string) string {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-*s  %s\n", width, r[0], Line(r[1]))
	}
	return b.String()
}

// List collects rows of names and values.
type List [][2]string

// Add adds a row.
func (l *List) Add(name, value string) { *l = append(*l, [2]string{name, value}) }

// Addf adds a row with a formatted value.
func (l *List) Addf(name, format string, args ...any) { l.Add(name, fmt.Sprintf(format, args...)) }

// AddNonEmpty adds a row unless its value is empty.
func (l *List) AddNonEmpty(name, value string) {
	if value != "" {
		l.Add(name, value)
	}
}

// JSON writes v as JSON on one line. Characters that could steer a terminal are
// written as escapes of JSON strings.
func JSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", visible.JSON(string(b)))
	return err
}

// Line returns s escaped and on one line.
func Line(s string) string { return strings.ReplaceAll(visible.Text(s), "\n", " ") }

// Indent returns s with four spaces before each line, so that none can look like a
// line of this program.
func Indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
}

// Quote quotes a path or argument for a shell if it needs that.
func Quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:@,="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// First returns the first lines, so many at most, and behind them how many more there are.
func First(most int, lines []string) []string {
	if more := len(lines) - most; more > 0 {
		return append(lines[:most:most], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Count returns a number and the thing counted, in the plural unless n is 1.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Percent returns parts per million as a percentage with one decimal.
func Percent(ppm int64) string {
	tenths := (ppm + 500) / 1000
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// Dollars returns micro-USD in dollars; nil is "unknown", never zero.
func Dollars(microUSD *int64) string {
	if microUSD == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%d.%06d", *microUSD/1e6, *microUSD%1e6)
}

// Bytes returns a number of bytes in the decimal unit that fits.
func Bytes(n int64) string {
	if n < 1000 {
		return Count(int(n), "byte")
	}
	size, unit := float64(n)/1000, 0
	for ; size >= 1000 && unit < 3; unit++ {
		size /= 1000
	}
	return fmt.Sprintf("%.1f %cB", size, "KMGT"[unit])
}

// Time returns a time as RFC 3339 in UTC, "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
