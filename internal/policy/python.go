package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// kind says what a lexeme is.
type kind byte

const (
	identifier kind = iota
	literal         // a string, its escapes undone; {} stands for what an f-string fills in
	numeral
	mark // one character of an operator, or a bracket
	end  // of a statement
)

// lexeme is a smallest part of Python code. Comments are none.
type lexeme struct {
	kind kind
	text string
}

// is reports whether the lexeme is this mark.
func (l lexeme) is(text string) bool { return l.kind == mark && l.text == text }

// maxNested is how deep brackets, and strings in f-strings, can lie in each other: the interpreter
// takes no code that goes deeper.
const maxNested = 200

// scanner cuts Python code into lexemes. It takes anything: what is no Python gives some lexemes.
type scanner struct {
	source string
	at     int
	out    []lexeme
	inner  []lexeme // of the expressions in f-strings
	depth  int      // of f-strings
	deep   bool     // deeper than maxNested
}

// run reads to the end, or to the brace that closes the expression of an f-string.
func (l *scanner) run(expression bool) {
	open := 0
	for l.at < len(l.source) {
		c := l.source[l.at]
		switch {
		case c == '#':
			l.skipLine()
		case c == '\\':
			l.at += 2
		case c == '\n' || c == ';':
			l.at++
			if open == 0 && !expression {
				l.emit(end, "")
			}
		case c <= ' ':
			l.at++
		case (c == '!' || c == '%') && !expression && (len(l.out) == 0 || l.out[len(l.out)-1].kind == end):
			// What a notebook gives to a shell is the call that it stands for: a line, or all the rest after %%bash.
			line := l.skipLine()
			if strings.HasPrefix(line, "%%") {
				line, l.at = l.source[l.at:], len(l.source)
			}
			l.out = append(l.out, lexeme{identifier, "system"}, lexeme{mark, "("}, lexeme{literal, strings.TrimLeft(line, "!%")},
				lexeme{mark, ")"}, lexeme{end, ""})
		case c == '\'' || c == '"':
			l.text("")
		case c >= '0' && c <= '9':
			from := l.at
			for l.at < len(l.source) {
				c := l.source[l.at]
				point := c == '.' && l.at+1 < len(l.source) && l.source[l.at+1] >= '0' && l.source[l.at+1] <= '9'
				if !point && c != '_' && (c >= 0x80 || !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c))) {
					break
				}
				l.at++
			}
			l.emit(numeral, l.source[from:l.at])
		case c == '_' || c >= 0x80 || unicode.IsLetter(rune(c)):
			l.word()
		case expression && open == 0 && c == '}':
			return
		default:
			l.at++
			l.emit(mark, string(c))
			switch c {
			case '(', '[', '{':
				open++
				l.deep = l.deep || open > maxNested
			case ')', ']', '}':
				open = max(open-1, 0)
			}
		}
	}
}

func (l *scanner) emit(k kind, text string) { l.out = append(l.out, lexeme{k, text}) }

func (l *scanner) skipLine() string {
	line, _, _ := strings.Cut(l.source[l.at:], "\n")
	l.at += len(line)
	return line
}

// word reads a name in the form in which the interpreter compares it, or a string with its prefix.
func (l *scanner) word() {
	from := l.at
	for l.at < len(l.source) {
		r, size := utf8.DecodeRuneInString(l.source[l.at:])
		if r != '_' && r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		l.at += size
	}
	word := l.source[from:l.at]
	if l.at < len(l.source) && (l.source[l.at] == '\'' || l.source[l.at] == '"') && len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbuft") == "" {
		l.text(strings.ToLower(word))
		return
	}
	l.emit(identifier, norm.NFKC.String(word))
}

// text reads a string whose quote is next.
func (l *scanner) text(prefix string) {
	quote := l.source[l.at : l.at+1]
	if strings.HasPrefix(l.source[l.at:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	l.at += len(quote)
	raw, filled := strings.Contains(prefix, "r"), strings.ContainsAny(prefix, "ft") && l.depth < maxNested
	var value []byte
	for l.at < len(l.source) {
		c := l.source[l.at]
		switch {
		case strings.HasPrefix(l.source[l.at:], quote):
			l.at += len(quote)
			l.emit(literal, string(value))
			return
		case c == '\n' && len(quote) == 1:
			l.emit(literal, string(value))
			return
		case c == '\\' && raw && l.at+1 < len(l.source):
			value = append(value, l.source[l.at:l.at+2]...)
			l.at += 2
		case c == '\\':
			value = l.escape(value)
		case filled && (c == '{' || c == '}') && strings.HasPrefix(l.source[l.at+1:], string(c)):
			value = append(value, c)
			l.at += 2
		case filled && c == '{':
			l.at++
			outer := l.out
			l.out = nil
			l.depth++
			l.run(true)
			l.depth--
			l.at = min(l.at+1, len(l.source))
			l.inner = append(append(l.inner, l.out...), lexeme{end, ""})
			l.out = outer
			value = append(value, "{}"...)
		default:
			value = append(value, c)
			l.at++
		}
	}
	l.emit(literal, string(value))
}

// escape undoes the escape that is next.
func (l *scanner) escape(value []byte) []byte {
	rest := l.source[l.at+1:]
	if rest == "" {
		l.at++
		return value
	}
	const plain, meant = "\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v"
	if i := strings.IndexByte(plain, rest[0]); i >= 0 {
		l.at += 2
		return append(value, meant[i])
	}
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[0]], 16
	from := 1
	if rest[0] >= '0' && rest[0] <= '7' {
		from, digits, base = 0, 1, 8
		for digits < min(3, len(rest)) && rest[digits] >= '0' && rest[digits] <= '7' {
			digits++
		}
	}
	switch {
	case rest[0] == '\n':
		l.at += 2
		return value
	case digits > 0 && from+digits <= len(rest):
		if n, err := strconv.ParseUint(rest[from:from+digits], base, 32); err == nil {
			l.at += 1 + from + digits
			return utf8.AppendRune(value, rune(min(n, unicode.MaxRune)))
		}
	case strings.HasPrefix(rest, "N{"):
		if i := strings.IndexByte(rest[:min(len(rest), 100)], '}'); i > 0 {
			l.at += 2 + i
			return append(value, "{}"...)
		}
	}
	l.at++
	return append(value, '\\')
}

// brackets returns for each lexeme that is a bracket the place of its partner, and for each lexeme the
// place of the bracket that it is directly in, -1 if none.
func brackets(all []lexeme) (partner, inside []int) {
	partner, inside = slices.Repeat([]int{-1}, len(all)), make([]int, len(all))
	open := []int{-1}
	for i, x := range all {
		if x.kind == end { // also of a statement that closes not all it opened
			open = open[:1]
		}
		if len(open) > 1 && (x.is(")") || x.is("]") || x.is("}")) {
			from := open[len(open)-1]
			partner[from], partner[i] = i, from
			open = open[:len(open)-1]
		}
		inside[i] = open[len(open)-1]
		if x.is("(") || x.is("[") || x.is("{") {
			open = append(open, i)
		}
	}
	return partner, inside
}
