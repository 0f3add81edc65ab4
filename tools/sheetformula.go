package tools

import (
	"math"
	"strconv"
	"strings"
)

// readFormulas adds the formulas to the rows.
func (w *workbook) readFormulas() {
	if props, err := w.file.GetWorkbookProps(); err == nil && props.Date1904 != nil {
		w.date04 = *props.Date1904
	}
	for i := range w.sheets {
		s := &w.sheets[i]
		for j := range s.rows {
			if s.note == "" {
				w.rowFormulas(*s, &s.rows[j])
			}
		}
	}
}

func (w *workbook) rowFormulas(s sheet, r *row) {
	for c := range r.shown {
		formula, err := w.file.GetCellFormula(s.name, cellName(r, c))
		if err != nil || formula == "" {
			continue
		}
		if r.formulas == nil {
			r.formulas = make([]string, len(r.shown))
		}
		r.formulas[c] = formula
	}
}

// calculate is the library's own result for a plain formula without a stored
// value. There is none for what overflows, nor for what is so near zero that a
// spreadsheet would take it for zero.
func (w *workbook) calculate(s *sheet, r *row, c int) (value string, ok bool) {
	if w.plain == nil {
		return "", false
	}
	is := w.plain.cell(s, r, c, 0)
	if is == unknownResult {
		return "", false
	}
	value, err := w.file.CalcCellValue(s.name, cellName(r, c))
	if err != nil {
		value = err.Error() // #DIV/0! and its kind are values
		return value, strings.HasPrefix(value, "#")
	}
	number, err := strconv.ParseFloat(value, 64)
	if is == numberResult && (strings.Contains(value, "INF") || strings.Contains(value, "NaN") || err == nil && number != 0 && math.Abs(number) < 1e-12) {
		return "", false
	}
	return cellBreaks.Replace(value), value != ""
}
