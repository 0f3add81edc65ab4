package tools

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/xuri/efp"
	"github.com/xuri/excelize/v2"
)

// Limits of telling whether a formula is plain.
const (
	maxPlainDepth  = 500       // formulas that lean on each other
	maxPlainLooked = 1_000_000 // cells that formulas refer to, in a workbook
	maxPlainLength = 2_000     // bytes of a formula
)

// plainFunctions are those that the library computes as a spreadsheet does, of
// numbers and of ranges of them.
func plainFunction(name string) (ranges, known bool) {
	switch strings.ToUpper(name) {
	case "SUM", "AVERAGE", "MIN", "MAX", "MEDIAN", "PRODUCT", "COUNT", "COUNTA":
		return true, true
	case "ROUND", "ROUNDUP", "ROUNDDOWN", "ABS", "SQRT", "IF":
		return false, true
	}
	return false, false
}

// plainness is what the library makes of a formula. It stores no value that
// others read: whatever a formula refers to it computes anew.
type plainness int

const (
	unknownResult plainness = iota // may differ from what a spreadsheet shows
	textResult                     // may be text: shown, and not computed with
	numberResult
)

// plainBook tells which formulas of a workbook are plain: numbers, cells and a
// few functions of them. The library reckons others too, and some of them
// wrongly: operators over ranges, text that looks like a number, comparisons of
// what was computed.
type plainBook struct {
	file   *excelize.File
	sheets map[string]*sheet // by name in lower case
	known  map[string]plainness
	looked int
}

func newPlainBook(f *excelize.File, sheets []sheet) *plainBook {
	p := &plainBook{file: f, sheets: map[string]*sheet{}, known: map[string]plainness{}}
	for i := range sheets {
		p.sheets[strings.ToLower(sheets[i].name)] = &sheets[i]
	}
	return p
}

// cell is what the formula of a cell gives. One that leans on itself is not
// plain: it is unknown while it is being looked at.
func (p *plainBook) cell(s *sheet, r *row, c, depth int) plainness {
	name := s.name + "!" + cellName(r, c)
	if is, known := p.known[name]; known {
		return is
	}
	p.known[name] = unknownResult
	if depth > maxPlainDepth || len(r.formulas[c]) > maxPlainLength {
		return unknownResult
	}
	parser := efp.ExcelParser()
	tokens := slices.DeleteFunc(parser.Parse(strings.TrimPrefix(r.formulas[c], "=")), func(t efp.Token) bool { return t.TType == efp.TokenTypeWhitespace })
	f := &plainFormula{book: p, sheet: s, tokens: tokens, depth: depth}
	is := f.result()
	p.known[name] = is
	return is
}

// plainFormula is a formula that is looked at token by token.
type plainFormula struct {
	book   *plainBook
	sheet  *sheet
	tokens []efp.Token
	depth  int
	inside []string // functions around the token, "" for brackets
}

func (f *plainFormula) result() plainness {
	if len(f.tokens) == 0 {
		return unknownResult
	}
	is := numberResult
	for i, t := range f.tokens {
		switch t.TType {
		case efp.TokenTypeOperand:
			switch f.operand(i) {
			case unknownResult:
				return unknownResult
			case textResult:
				is = textResult
			}
		case efp.TokenTypeOperatorInfix:
			switch {
			case t.TSubType == efp.TokenSubTypeConcatenation:
				if !f.joins(i) {
					return unknownResult
				}
				is = textResult
			case t.TSubType == efp.TokenSubTypeMath && len(t.TValue) == 1 && strings.Contains("+-*/^", t.TValue):
			case t.TSubType == efp.TokenSubTypeLogical && f.compares(i):
			default:
				return unknownResult
			}
		case efp.TokenTypeFunction, efp.TokenTypeSubexpression:
			if !f.bracket(t) {
				return unknownResult
			}
		case efp.TokenTypeArgument, efp.TokenTypeOperatorPrefix, efp.TokenTypeOperatorPostfix:
		default:
			return unknownResult
		}
	}
	return is
}

func (f *plainFormula) bracket(t efp.Token) bool {
	if t.TSubType == efp.TokenSubTypeStop {
		if len(f.inside) > 0 {
			f.inside = f.inside[:len(f.inside)-1]
		}
		return true
	}
	name := ""
	if t.TType == efp.TokenTypeFunction {
		name = t.TValue
		if _, known := plainFunction(name); !known {
			return false
		}
	}
	f.inside = append(f.inside, name)
	return true
}

// borders reports whether nothing is computed with what stands next to i.
func (f *plainFormula) borders(i int) bool {
	if i < 0 || i >= len(f.tokens) {
		return true
	}
	switch t := f.tokens[i]; t.TType {
	case efp.TokenTypeArgument, efp.TokenTypeFunction, efp.TokenTypeSubexpression:
		return true
	}
	return false
}

func (f *plainFormula) operand(i int) plainness {
	t := f.tokens[i]
	switch t.TSubType {
	case efp.TokenSubTypeNumber:
		return numberResult
	case efp.TokenSubTypeText:
		return textResult
	case efp.TokenSubTypeRange:
	default:
		return unknownResult
	}
	a, known := f.area(t.TValue)
	if !known {
		return unknownResult
	}
	if a.from != a.to || a.first != a.last {
		if ranges, _ := plainFunction(f.innermost()); !ranges || !f.borders(i-1) || !f.borders(i+1) {
			return unknownResult
		}
	}
	return f.book.area(a, f.depth, f.innermost() == "" && len(f.tokens) == 1)
}

func (f *plainFormula) innermost() string {
	if len(f.inside) == 0 {
		return ""
	}
	return f.inside[len(f.inside)-1]
}

// compares reports whether an operator compares two numbers that are written
// down and not computed.
func (f *plainFormula) compares(i int) bool {
	return f.borders(i-2) && f.borders(i+2) && f.written(i-1, false) && f.written(i+1, false)
}

// joins reports whether an operator joins texts and whole numbers that are
// written down: others would have to be formatted.
func (f *plainFormula) joins(i int) bool {
	joined := func(i int) bool {
		return i < 0 || i >= len(f.tokens) || f.tokens[i].TSubType == efp.TokenSubTypeConcatenation
	}
	return joined(i-2) && joined(i+2) && f.written(i-1, true) && f.written(i+1, true)
}

// written reports whether a token is a number, or a cell that holds one; or,
// to be joined, a text or a whole number.
func (f *plainFormula) written(i int, joined bool) bool {
	if i < 0 || i >= len(f.tokens) || f.tokens[i].TType != efp.TokenTypeOperand {
		return false
	}
	value := f.tokens[i].TValue
	switch f.tokens[i].TSubType {
	case efp.TokenSubTypeText:
		return joined
	case efp.TokenSubTypeNumber:
	case efp.TokenSubTypeRange:
		a, known := f.area(value)
		if !known || a.from != a.to || a.first != a.last {
			return false
		}
		r := a.sheet.row(a.from)
		if r == nil || a.first > len(r.raw) || r.formula(a.first-1) != "" || r.raw[a.first-1] == "" {
			return false
		}
		value = r.raw[a.first-1]
		if f.book.isText(a.sheet, r, a.first-1) {
			return joined
		}
	default:
		return false
	}
	number, err := strconv.ParseFloat(value, 64)
	return err == nil && (!joined || number == math.Trunc(number) && math.Abs(number) < 1e10 && value == strconv.FormatFloat(number, 'f', -1, 64))
}

// area is a rectangle of cells, counted from 1.
type area struct {
	sheet                 *sheet
	from, to, first, last int // rows and columns
}

// area reads a reference to a cell or a range; names and whole columns are none.
func (f *plainFormula) area(text string) (a area, known bool) {
	a.sheet = f.sheet
	if i := strings.LastIndexByte(text, '!'); i >= 0 {
		name := text[:i]
		if len(name) > 1 && name[0] == '\'' && name[len(name)-1] == '\'' {
			name = strings.ReplaceAll(name[1:len(name)-1], "''", "'")
		}
		a.sheet, text = f.book.sheets[strings.ToLower(name)], text[i+1:]
	}
	from, to, two := strings.Cut(strings.ReplaceAll(text, "$", ""), ":")
	if !two {
		to = from
	}
	var err, errTo error
	a.first, a.from, err = excelize.CellNameToCoordinates(from)
	a.last, a.to, errTo = excelize.CellNameToCoordinates(to)
	return a, err == nil && errTo == nil && a.sheet != nil && a.sheet.note == "" && a.first <= a.last && a.from <= a.to
}

// area is what the cells of a rectangle are for a formula. Text alone (what a
// formula only repeats) may be any; text that reads as a number is a number for
// the library, and for a spreadsheet sometimes.
func (p *plainBook) area(a area, depth int, alone bool) plainness {
	rows := a.sheet.rows
	if p.looked += (a.to - a.from + 1) * (a.last - a.first + 1); p.looked > maxPlainLooked { // the library lays out the empty ones too
		return unknownResult
	}
	for i := sort.Search(len(rows), func(i int) bool { return rows[i].number >= a.from }); i < len(rows) && rows[i].number <= a.to; i++ {
		r := &rows[i]
		for c := a.first - 1; c < min(a.last, len(r.shown)); c++ {
			if r.formula(c) != "" {
				if p.cell(a.sheet, r, c, depth+1) != numberResult {
					return unknownResult
				}
				continue
			}
			if r.raw[c] == "" {
				continue
			}
			_, err := strconv.ParseFloat(strings.TrimSpace(r.raw[c]), 64)
			if text := p.isText(a.sheet, r, c); text && err == nil && !alone || !text && (err != nil || r.shown[c] == "TRUE" || r.shown[c] == "FALSE") {
				return unknownResult // a truth value or an error, where it is no text
			} else if text && alone {
				return textResult
			}
		}
	}
	return numberResult
}

func (p *plainBook) isText(s *sheet, r *row, c int) bool {
	kind, err := p.file.GetCellType(s.name, cellName(r, c))
	return err == nil && (kind == excelize.CellTypeInlineString || kind == excelize.CellTypeSharedString)
}

// row finds a row by its number, nil if it holds nothing.
func (s *sheet) row(number int) *row {
	i := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].number >= number })
	if i == len(s.rows) || s.rows[i].number != number {
		return nil
	}
	return &s.rows[i]
}

// formula is that of a column counted from 0, "" for none.
func (r *row) formula(c int) string {
	if c < 0 || c >= len(r.formulas) {
		return ""
	}
	return r.formulas[c]
}
