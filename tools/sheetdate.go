package tools

import (
	"regexp"
	"strings"

	"github.com/xuri/excelize/v2"
)

// isDate reports whether the cell's number format shows a date or time.
func (w *workbook) isDate(s *sheet, r *row, c int) bool {
	if s.note != "" {
		return false
	}
	id, err := w.file.GetCellStyle(s.name, cellName(r, c))
	if err != nil {
		return false
	}
	is, known := w.dates[id]
	if !known {
		if style, err := w.file.GetStyle(id); err == nil {
			is = dateFormat(style)
		}
		w.dates[id] = is
	}
	return is
}

// dateFormat knows the built-in formats by number (ECMA-376, 18.8.30) and
// others by the letters left when literals and colours are taken out. A format
// of the time that has passed, such as [h]:mm, shows no point of time.
func dateFormat(style *excelize.Style) bool {
	if style.CustomNumFmt == nil {
		n := style.NumFmt
		return n >= 14 && n <= 22 || n >= 27 && n <= 36 || n == 45 || n == 47 || n >= 50 && n <= 58
	}
	format := strings.ToLower(*style.CustomNumFmt)
	if regexp.MustCompile(`\[(h+|m+|s+)\]`).MatchString(format) {
		return false
	}
	bracket, quote, escaped := false, false, false
	for _, r := range format {
		switch {
		case escaped:
			escaped = false
		case r == '\\' || r == '_' || r == '*':
			escaped = true
		case r == '"':
			quote = !quote
		case quote:
		case r == '[':
			bracket = true
		case r == ']':
			bracket = false
		case !bracket && strings.ContainsRune("ymdhs", r):
			return true
		}
	}
	return false
}

// isoDate writes a spreadsheet's day count as ISO 8601: a date, a time of day
// (counts below one day), or both. Days from 1900 count a 29 February that
// there was not: it has no date, and those before are a day later than counted back.
func (w *workbook) isoDate(days float64) string {
	if !w.date04 && days >= 1 && days < 61 {
		if days >= 60 {
			return ""
		}
		days++
	}
	t, err := excelize.ExcelDateToTime(days, w.date04)
	if err != nil {
		return ""
	}
	switch {
	case days < 1:
		return t.Format("15:04:05")
	case t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0:
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02T15:04:05")
}
