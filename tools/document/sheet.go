package document

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/xuri/excelize/v2"
)

// Limits of a workbook. Formulas and dates are looked up in sheets that are laid
// out in memory, which takes long for large ones; past the limit their values
// are shown alone.
const (
	maxWorkbook = 64 << 20 // bytes, unpacked; both limits of the library are set to it, so that nothing is unpacked to disk
	maxCells    = 500_000  // in sheets that are laid out
)

const sheetLegend = "Cells are separated by tabs. [=…] is a cell's formula, \"not cached\" where the file holds no value of it; {…} is the stored value where the cell shows it formatted.\n"

// workbook is a workbook on its way to text: first the values of all sheets,
// read as a stream; then formulas and dates, which need the sheets in memory.
type workbook struct {
	file   *excelize.File
	sheets []sheet
	dates  map[int]bool // style id → shows a date
	date04 bool         // days are counted from 1904
}

type sheet struct {
	name    string
	visible bool
	rows    []row
	columns int
	cells   int // of the rows up to their last columns
	filled  int // cells with a value
	marks   marks
	note    string // why not everything is shown; formulas and dates are looked up where it is empty
}

type row struct {
	number     int
	shown, raw []string // by column; raw is the stored value
	formulas   []string // by column, nil where the row has none
}

// readSheets turns every sheet of a workbook, hidden ones too, into lines of
// cells with row numbers and column letters. No formula is calculated.
func readSheets(ctx context.Context, data []byte) (doc tools.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = tools.Document{}, tools.Unreadablef("it is an xlsx file that is damaged: %v", p)
		}
	}()
	f, err := excelize.OpenReader(bytes.NewReader(data), excelize.Options{UnzipSizeLimit: maxWorkbook, UnzipXMLSizeLimit: maxWorkbook})
	if err != nil {
		return tools.Document{}, tools.Unreadablef("it is an xlsx file that cannot be opened: %v", err)
	}
	defer f.Close() // nothing is on disk: see maxWorkbook
	w := &workbook{file: f, dates: map[int]bool{}}
	if err := w.readValues(ctx); err != nil {
		return tools.Document{}, err
	}
	w.readFormulas()
	hidden := 0
	marking, unmarked := newMarking(data, f)
	for i := range w.sheets {
		s := &w.sheets[i]
		if !s.visible {
			hidden++
		}
		if marking != nil {
			var problem error
			s.marks, problem = marking.of(s.name)
			unmarked = cmp.Or(problem, unmarked)
		}
	}
	notes := []string{countShown(len(w.sheets), "sheet", hidden)}
	if unmarked != nil { // a workbook can do without
		notes = append(notes, "fills, comments and what is hidden are not all shown: "+tools.Plain(unmarked))
	}
	return tools.Document{Kind: "xlsx", Notes: notes, Text: w.text()}, nil
}

// readValues reads the cells of all sheets, up to the limit of a document.
func (w *workbook) readValues(ctx context.Context) error {
	names := w.file.GetSheetList()
	if len(names) == 0 {
		return tools.Unreadablef("it is an xlsx file without a sheet, so it is probably damaged")
	}
	budget, cells := tools.MaxDocument, maxCells
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		visible, err := w.file.GetSheetVisible(name)
		s := sheet{name: name, visible: visible || err != nil}
		if err := s.read(w.file, &budget); err != nil {
			s.note = "not readable: " + err.Error()
		}
		if s.note == "" {
			if s.cells > cells {
				s.note = "too large to show formulas"
			} else {
				cells -= s.cells
			}
		}
		w.sheets = append(w.sheets, s)
	}
	return nil
}

func (s *sheet) read(f *excelize.File, budget *int) error {
	shown, err := f.Rows(s.name)
	if err != nil {
		return err
	}
	defer shown.Close()
	stored, err := f.Rows(s.name)
	if err != nil {
		return err
	}
	defer stored.Close()
	for number := 1; shown.Next() && stored.Next(); number++ {
		cells, err := shown.Columns()
		if err != nil {
			return err
		}
		raw, err := stored.Columns(excelize.Options{RawCellValue: true})
		if err != nil {
			return err
		}
		// A format can hide a value, also in the last cells of a row.
		cells = append(cells, make([]string, max(0, len(raw)-len(cells)))...)
		raw = append(raw, make([]string, max(0, len(cells)-len(raw)))...)
		if len(cells) == 0 {
			continue
		}
		for i, c := range cells {
			*budget -= len(c) + len(raw[i]) + 1
			if c != "" || raw[i] != "" {
				s.filled++
			}
		}
		if *budget < 0 {
			s.note = fmt.Sprintf("cut after row %d: too long; formulas are not shown", number-1)
			return nil
		}
		s.rows = append(s.rows, row{number: number, shown: cells, raw: raw})
		s.columns = max(s.columns, len(cells))
		s.cells += len(cells)
	}
	return shown.Error()
}

// text returns the rows of all sheets under the letters of their columns. A wide sheet
// that is mostly empty has its cells named instead: a row of a thousand tabs is of no
// use.
func (w *workbook) text() string {
	var b strings.Builder
	b.WriteString(sheetLegend)
	for i := range w.sheets {
		s := &w.sheets[i]
		fmt.Fprintf(&b, "\nsheet %d of %d: %q", i+1, len(w.sheets), s.name)
		if !s.visible {
			b.WriteString(" (hidden)")
		}
		if s.note != "" {
			fmt.Fprintf(&b, " (%s)", s.note)
		}
		sparse := s.columns > 30 && s.filled < s.columns*len(s.rows)/8
		switch {
		case len(s.rows) == 0:
			b.WriteString(": no cells with a value")
		case !sparse:
			b.WriteString("\nrow")
			for c := range s.columns {
				b.WriteString("\t" + columnName(c))
			}
		}
		b.WriteByte('\n')
		for j := range s.rows {
			r := &s.rows[j]
			b.WriteString(strconv.Itoa(r.number))
			for c := range r.shown {
				switch text := w.cell(s, r, c); {
				case !sparse:
					b.WriteString("\t" + text)
				case text != "":
					fmt.Fprintf(&b, "\t%s%d: %s", columnName(c), r.number, text)
				}
			}
			b.WriteByte('\n')
		}
		s.marks.write(&b)
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// columnName is the letters of a column counted from 0.
func columnName(c int) string {
	name, _ := excelize.ColumnNumberToName(c + 1) // the reader has no column past the last
	return name
}

var cellBreaks = strings.NewReplacer("\t", " ", "\r\n", `\n`, "\n", `\n`, "\r", `\n`)

// cell is one cell as it is written: what the spreadsheet shows, then the
// stored value or the formula where they say more.
func (w *workbook) cell(s *sheet, r *row, c int) string {
	text := cellBreaks.Replace(r.shown[c])
	if exact := w.exact(s, r, c); exact != "" {
		text = strings.TrimLeft(text+" {"+exact+"}", " ")
	}
	switch {
	case r.formulas == nil || r.formulas[c] == "":
		return text
	case r.raw[c] == "":
		return "[=" + cellBreaks.Replace(r.formulas[c]) + ", not cached]"
	}
	return text + " [=" + cellBreaks.Replace(r.formulas[c]) + "]"
}

// exact is the stored value of a cell that shows another: dates as ISO 8601,
// numbers in full. It is empty where the two say the same.
func (w *workbook) exact(s *sheet, r *row, c int) string {
	shown, raw := r.shown[c], r.raw[c]
	if shown == raw || raw == "" {
		return ""
	}
	value, err := strconv.ParseFloat(raw, 64)
	if err != nil || shown == "TRUE" || shown == "FALSE" {
		return ""
	}
	if w.isDate(s, r, c) {
		return w.isoDate(value)
	}
	if as, err := strconv.ParseFloat(shown, 64); err == nil && math.Abs(as-value) <= 1e-12*math.Abs(value) {
		return ""
	}
	return raw
}

// readFormulas adds the formulas to the rows of the sheets that are not too large.
func (w *workbook) readFormulas() {
	if props, err := w.file.GetWorkbookProps(); err == nil && props.Date1904 != nil {
		w.date04 = *props.Date1904
	}
	for _, s := range w.sheets {
		for i := 0; i < len(s.rows) && s.note == ""; i++ {
			r := &s.rows[i]
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
	}
}

func cellName(r *row, c int) string { return columnName(c) + strconv.Itoa(r.number) }

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
	if known {
		return is
	}
	style, err := w.file.GetStyle(id)
	switch {
	case err != nil:
	case style.CustomNumFmt == nil: // ECMA-376, 18.8.30
		n := style.NumFmt
		is = n >= 14 && n <= 22 || n >= 27 && n <= 36 || n == 45 || n == 47 || n >= 50 && n <= 58
	default: // the letters left when literals and colours are taken out; a format of elapsed time shows no point of time
		format := strings.ToLower(*style.CustomNumFmt)
		is = !elapsed.MatchString(format) && strings.ContainsAny(formatWords.ReplaceAllString(format, ""), "ymdhs")
	}
	w.dates[id] = is
	return is
}

var (
	elapsed     = regexp.MustCompile(`\[(h+|m+|s+)\]`)                         // such as [h]:mm
	formatWords = regexp.MustCompile(`(?s)[\\_*].|"[^"]*("|$)|\[[^\]]*(\]|$)`) // literals and colours
)

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
