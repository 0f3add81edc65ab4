package probe

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	numberedLines = 3    // in a row make line numbers
	firstYear     = 1000 // numbers from here on can be a column of years
	columnLines   = 4    // in a row make columns
	columnGap     = 3    // spaces between columns; 2 where the column is known
	columnDepth   = 2    // times that columns are split in two
	columnLetters = 6    // of a line in a column, on average
	longestIndent = 12   // bytes before a line number
	longestBreak  = 64   // bytes of white space in a word that is broken
	longestWord   = 24   // letters of a word that is put together
	longestSpaced = 4096 // letters that are put together at once
)

// laidOut returns canonical text with its layout undone, or nil if nothing is to be undone: without line numbers,
// column after column, and with words put together that are broken at the ends of lines, by tags or, if spaced, by
// spaces between letters. Words are put together only if the result is one that is looked for.
func (p *Prober) laidOut(t probeText, spaced bool) []byte {
	out, changed := t.b, false
	apply := func(next []byte) {
		if next != nil {
			out, changed = next, true
		}
	}
	unnumbered := edit{b: t.b}
	for _, place := range t.numbered {
		unnumbered.replace(place)
	}
	apply(unnumbered.done())
	apply(oneColumn(out, columnDepth))
	apply(p.putTogether(out))
	if spaced {
		apply(p.closedUp(out))
	}
	if !changed {
		return nil
	}
	return out
}

// edit is a copy of b in which places, in their order, are replaced.
type edit struct {
	b, out []byte
	from   int        // b is copied up to here
	places []interval // of out, which replace those of b
}

func (e *edit) replace(place interval, with ...[]byte) {
	if e.out == nil {
		e.out = make([]byte, 0, len(e.b)+len(e.b)/8)
	}
	e.out = append(e.out, e.b[e.from:place.start]...)
	start := len(e.out)
	for _, b := range with {
		e.out = append(e.out, b...)
	}
	e.from, e.places = place.end, addInterval(e.places, interval{start, len(e.out)})
}

// done returns the copy, nil if nothing is replaced.
func (e *edit) done() []byte {
	if e.out == nil {
		return nil
	}
	return append(e.out, e.b[e.from:]...)
}

// skip returns where the bytes of a set end that begin at i.
func skip(b []byte, i int, set string) int {
	for i < len(b) && strings.IndexByte(set, b[i]) >= 0 {
		i++
	}
	return i
}

// lineEnd returns where the line ends that i is in.
func lineEnd(b []byte, i int) int {
	if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(b)
}

// lineNumbers returns the places of numbers at the starts of lines that count up by one, in at least three lines in
// a row but for blank ones and single lines between, and those among them that are no years or other facts: of a
// count that begins at 0 or 1, or below 1000. A number may stand in brackets or behind an L, and before white
// space, the end of the line, or one of : | . ) ] and an arrow. Its place goes up to the text of the line.
func lineNumbers(b []byte) (all, counted []interval) {
	first, last, n, between := 0, -2, 0, 0
	var run []interval
	finish := func() {
		if n >= numberedLines {
			if all = append(all, run...); first <= 1 || last < firstYear {
				counted = append(counted, run...)
			}
		}
		run, n = run[:0], 0
	}
	for start, end := 0, 0; start < len(b); start = end + 1 {
		end = lineEnd(b, start)
		number, size := lineNumber(b[start:end])
		switch {
		case size > 0 && number == last+1 && n > 0:
			run, n, last, between = append(run, interval{start, start + size}), n+1, number, 0
		case size > 0:
			finish()
			run, n, first, last, between = append(run, interval{start, start + size}), 1, number, number, 0
		case n > 0 && len(bytes.TrimSpace(b[start:end])) > 0:
			if between++; between > 1 {
				finish()
			}
		}
	}
	finish()
	return all, counted
}

// lineNumber returns the number at the start of a line and the length up to the text behind it, 0 if there is none.
func lineNumber(line []byte) (number, size int) {
	i := skip(line[:min(len(line), longestIndent)], 0, " \t")
	if i < len(line) && (line[i] == '[' || line[i] == '(' || line[i] == 'l') {
		i++
	}
	digit := i
	for i < len(line) && i-digit < 7 && digitByte(line[i]) {
		number = 10*number + int(line[i]-'0')
		i++
	}
	if i == digit || i-digit == 7 {
		return 0, 0
	}
	mark := i
	i = skip(line, i, " \t\r")
	rest, spaced := line[i:], i > mark
	switch r, width := utf8.DecodeRune(rest); {
	case len(rest) == 0:
		return number, i
	case r == '|' || r == '→' || r == '│' || r == '┃':
		i += width
	case r == ':' && !(len(rest) > 1 && digitByte(rest[1])):
		i += width
	case (r == ')' || r == ']' || r == '.') && (len(rest) == 1 || asciiSpace(rest[1])):
		i += width
	case !spaced:
		return 0, 0
	}
	return number, skip(line, i, " \t")
}

// columns are lines that may be set in two columns.
type columns struct {
	left, right []interval // of the text in each line
	gutter      int        // where the right column began in the last line with two parts
	two         int        // lines with two parts
	letters     [2]int     // of the two parts in these
}

// oneColumn returns text with its columns one after the other, or nil if it has none. Columns are at least four
// lines in a row with three spaces or more between two parts, each with six letters or more on average, and with
// lines between that have one part and do not reach over the gutter.
func oneColumn(b []byte, depth int) []byte {
	if depth == 0 || !bytes.Contains(b, []byte("   ")) {
		return nil
	}
	e := edit{b: b}
	var c columns
	block := 0 // where the lines of c begin
	flush := func(end int) {
		if c.two >= columnLines && c.letters[0] >= columnLetters*c.two && c.letters[1] >= columnLetters*c.two {
			e.replace(interval{block, end}, c.column(b, c.left, depth), c.column(b, c.right, depth))
		}
		c = columns{left: c.left[:0], right: c.right[:0]}
	}
	for start, end := 0, 0; start < len(b); start = end + 1 {
		end = lineEnd(b, start)
		if len(c.left) == 0 {
			block = start
		}
		if !c.add(b, start, end) {
			flush(start)
			block = start
			c.add(b, start, end)
		}
	}
	flush(len(b))
	return e.done()
}

// add takes a line in and reports whether it can be one of the columns.
func (c *columns) add(b []byte, start, end int) bool {
	line := bytes.TrimRight(b[start:end], " \t\r")
	indent := skip(line, 0, " ")
	if gapStart, gapEnd := c.gap(line, indent); gapEnd > 0 {
		c.left = append(c.left, interval{start, start + gapStart})
		c.right = append(c.right, interval{start + gapEnd, start + len(line)})
		c.gutter = gapEnd
		c.two++
		c.letters[0] += letters(line[:gapStart])
		c.letters[1] += letters(line[gapEnd:])
		return true
	}
	switch {
	case c.two == 0:
		return false
	case indent+2 >= c.gutter:
		c.left = append(c.left, interval{start, start})
		c.right = append(c.right, interval{start, start + len(line)})
	case len(line) <= c.gutter:
		c.left = append(c.left, interval{start, start + len(line)})
		c.right = append(c.right, interval{start, start})
	default:
		return false
	}
	return true
}

// gap returns the spaces of a line behind its indent that separate its columns: those that end at the gutter, or
// else the widest. Its end is 0 if there are none.
func (c *columns) gap(line []byte, indent int) (start, end int) {
	for i := indent; i < len(line); {
		next := bytes.Index(line[i:], []byte("  "))
		if next < 0 {
			break
		}
		i += next
		from := i
		i = skip(line, i, " ")
		if c.two > 0 && i >= c.gutter-1 && i <= c.gutter+1 {
			return from, i
		}
		if i-from >= columnGap && i-from > end-start {
			start, end = from, i
		}
	}
	return start, end
}

// column returns the lines of a column, themselves split.
func (c *columns) column(b []byte, lines []interval, depth int) []byte {
	var out []byte
	for _, line := range lines {
		out = append(append(out, b[line.start:line.end]...), '\n')
	}
	if deeper := oneColumn(out, depth-1); deeper != nil {
		return deeper
	}
	return out
}

// letters returns how many letters a text has; of others than ASCII, bytes.
func letters(b []byte) int {
	n := 0
	for _, c := range b {
		if 'a' <= c && c <= 'z' || c >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

// putTogether returns text with the words whole that hyphens at the ends of lines, or tags, break, or nil if there
// are none that are looked for.
func (p *Prober) putTogether(b []byte) []byte {
	e := edit{b: b}
	line, joint := 0, 0 // the next end of a line and joint
	for i := 0; ; {
		line, joint = nextByte(b, i, line, '\n'), nextByte(b, i, joint, tagJoint)
		if i = min(line, joint); i == len(b) {
			break
		}
		end := i // of the letters before the break
		if b[i] == '\n' {
			for end > e.from && i-end < longestBreak && asciiSpace(b[end-1]) {
				end--
			}
			if end == e.from || b[end-1] != '-' {
				i++
				continue
			}
			end--
		}
		start := end
		for start > e.from && end-start < longestWord && letterByte(b[start-1]) {
			start--
		}
		if start == end {
			i++
			continue
		}
		word, stop := wholeWord(b, start)
		s := wordScanner{b: word}
		if stop > i && s.next() && p.lexicon.find(&s) > 0 {
			e.replace(interval{start, stop}, word)
		}
		i = max(i+1, e.from)
	}
	return e.done()
}

// wholeWord returns the letters from an offset on over breaks, and where they end.
func wholeWord(b []byte, i int) (word []byte, end int) {
	var letters [longestWord]byte
	word = letters[:0]
	b = b[:min(len(b), i+4*longestBreak)]
	for end = i; i < len(b) && len(word) < longestWord; {
		switch c := b[i]; {
		case letterByte(c):
			word, i, end = append(word, c), i+1, i+1
		case c == tagJoint:
			i++
		case c == '-':
			next := skip(b[:min(len(b), i+longestBreak)], i+1, spaces)
			if bytes.IndexByte(b[i:next], '\n') < 0 {
				return word, end
			}
			i = next
		default:
			return word, end
		}
	}
	return word, end
}

// nextByte returns where the first c from i on is, or the end of b. Known is what it returned for a lower i.
func nextByte(b []byte, i, known int, c byte) int {
	if known > i || known == i && i < len(b) && b[i] == c || known == len(b) {
		return known
	}
	if next := bytes.IndexByte(b[i:], c); next >= 0 {
		return i + next
	}
	return len(b)
}

// letterByte reports whether a byte of canonical text belongs to a letter.
func letterByte(c byte) bool { return 'a' <= c && c <= 'z' || c >= utf8.RuneSelf }

// closedUp returns text with letters that stand alone, one space or mark apart, put together to words that are
// looked for; nil if there are none.
func (p *Prober) closedUp(b []byte) []byte {
	e := edit{b: b}
	var run []byte
	var places []int // of the letters in run, in b
	for i := 0; i+2 < len(b); {
		if !letterByte(b[i]) || i > 0 && wordByte(b[i-1]) || !apart(b, i) {
			i++
			continue
		}
		run, places = append(run[:0], b[i]), append(places[:0], i)
		for i += 2; len(run) < longestSpaced && i < len(b) && b[i] >= 'a' && b[i] <= 'z' && (i+1 == len(b) || !glueByte(b[i+1])); i += 2 {
			run, places = append(run, b[i]), append(places, i)
			if !apart(b, i) {
				break
			}
		}
		for at := 0; at < len(run); {
			n := p.longestKnown(run[at:])
			if n < 2 {
				at++
				continue
			}
			e.replace(interval{places[at], places[at+n-1] + 1}, run[at:at+n])
			at += n
		}
	}
	return e.done()
}

// apart reports whether a space or mark stands alone behind the letter at i.
func apart(b []byte, i int) bool {
	return i+2 < len(b) && b[i] >= 'a' && b[i] <= 'z' && b[i+1] < utf8.RuneSelf && b[i+1] > '\n' && !wordByte(b[i+1]) &&
		b[i+2] >= 'a' && b[i+2] <= 'z' && (i+3 == len(b) || !glueByte(b[i+3]))
}

// longestKnown returns the length of the longest word that is looked for and that letters begin with, 0 if there is
// none.
func (p *Prober) longestKnown(letters []byte) int {
	longest := 0
	s := wordScanner{b: letters, hash: hashSeed}
	for s.end < min(len(letters), longestWord) {
		s.hash = (s.hash ^ uint32(letters[s.end])) * hashPrime
		if s.end++; p.lexicon.find(&s) > 0 {
			longest = s.end
		}
	}
	return longest
}
