package probe

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// numeralRun returns the end of the digits, commas and points from i on, each comma and point between digits.
func numeralRun(b []byte, i int) int {
	for i < len(b) && (digitByte(b[i]) || (b[i] == ',' || b[i] == '.') && i+1 < len(b) && digitByte(b[i+1])) {
		i++
	}
	return i
}

// numerals calls visit with the value of each numeral that begins in the run at the word at start, as numeralValue
// gives it, and returns the run's end. It uses buf.
func (t probeText) numerals(start int, buf []byte, visit func(value []byte, place interval)) int {
	b := t.b
	end := numeralRun(b, start)
	from, negative := start, false
	if start > 0 && b[start-1] == '.' {
		switch {
		case !wordBefore(b, start-1):
			from--
		case digitByte(b[start-2]):
			return end
		}
	}
	if r, size := utf8.DecodeLastRune(b[:from]); r == '-' || r == '−' {
		negative = !wordBefore(b, from-size)
	}
	if _, glued := t.wordAt(end); glued {
		// The digits at the end belong to a word; those before a comma do not.
		last := bytes.LastIndexByte(b[start:end], ',')
		if last < 0 {
			return end
		}
		t.eachNumeral(interval{from, start + last}, negative, buf, visit)
		return end
	}
	t.eachNumeral(interval{from, end}, negative, buf, visit)
	return end
}

// eachNumeral takes a run as one numeral, or else each part between commas.
func (t probeText) eachNumeral(run interval, negative bool, buf []byte, visit func([]byte, interval)) {
	if value, ok := numeralValue(buf[:0], t.b[run.start:run.end], negative); ok {
		visit(value, run)
		return
	}
	for from := run.start; from < run.end; {
		to := from
		for to < run.end && t.b[to] != ',' {
			to++
		}
		if value, ok := numeralValue(buf[:0], t.b[from:to], negative); ok {
			visit(value, interval{from, to})
		}
		from, negative = to+1, false
	}
}

// numeralValue appends the value of a numeral without needless zeros, so that equal values are equal bytes; false
// if it is none.
//
// A numeral is ASCII digits, or one to three of them and groups of three behind commas, then perhaps a point and
// digits; or a point and digits. A hyphen or minus before it that follows no word is its sign. No word goes on
// right before or behind it, nor a point with a digit. Digits and commas that are no groups are several numerals.
// Currency and percent signs are no part of it: 1,234.50 and 1234.5 and $1,234.5 and 1234.5% have one value.
func numeralValue(out, s []byte, negative bool) ([]byte, bool) {
	whole, fraction, pointed := bytes.Cut(s, []byte("."))
	if pointed && (len(fraction) == 0 || !digits(fraction)) || !pointed && len(whole) == 0 {
		return nil, false
	}
	sign := len(out)
	if negative {
		out = append(out, '-')
	}
	begin := len(out)
	if i := bytes.IndexByte(whole, ','); i >= 0 && (i == 0 || i > 3) {
		return nil, false
	}
	for i, c := range whole {
		if c == ',' {
			if i+4 > len(whole) || !digits(whole[i+1:i+4]) || i+4 < len(whole) && whole[i+4] != ',' {
				return nil, false
			}
			continue
		}
		if !digitByte(c) {
			return nil, false
		}
		if c != '0' || len(out) > begin {
			out = append(out, c)
		}
	}
	fraction = bytes.TrimRight(fraction, "0")
	if len(out) == begin {
		if len(fraction) == 0 {
			out = out[:sign]
		}
		out = append(out, '0')
	}
	if len(fraction) > 0 {
		out = append(append(out, '.'), fraction...)
	}
	return out, true
}

// goldNumeral returns the value of a part of a gold that is a numeral, but for its sign, currency and percent signs
// and white space.
func goldNumeral(s []byte) ([]byte, bool) {
	negative := false
	outer := func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Sc, r) }
	s = bytes.TrimRightFunc(bytes.TrimLeftFunc(s, outer), func(r rune) bool { return outer(r) || r == '%' })
	for _, sign := range []string{"-", "−", "+"} {
		if rest, ok := bytes.CutPrefix(s, []byte(sign)); ok {
			s, negative = bytes.TrimLeftFunc(rest, outer), sign != "+"
			break
		}
	}
	return numeralValue(nil, s, negative)
}

func wordBefore(b []byte, offset int) bool {
	r, size := utf8.DecodeLastRune(b[:offset])
	return size > 0 && wordRune(r)
}

func digits(s []byte) bool {
	for _, c := range s {
		if !digitByte(c) {
			return false
		}
	}
	return true
}

func digitByte(c byte) bool { return '0' <= c && c <= '9' }
