package judge

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pyFloat reads s as Python's float() does and reports whether float() would
// take it. With asAmount the characters "$", "%" and "," are passed over first.
//
// Python takes decimal digits of every script, white space around (of ASCII
// only tab to carriage return and space, though its \s knows four more),
// underscores between digits, and "inf", "infinity" and "nan" with any case
// and sign. It takes no hexadecimal numerals, and reads what is too large as
// infinite.
func pyFloat(s string, asAmount bool) (float64, bool) {
	var space [64]byte
	b, ok := asciiNumeral(space[:0], s, asAmount)
	if !ok {
		return 0, false
	}
	b = bytes.Trim(b, " \t\n\v\f\r")
	if bytes.IndexByte(b, '_') >= 0 {
		if b, ok = joinDigitGroups(b); !ok {
			return 0, false
		}
	}
	return parseNumeral(b)
}

// asciiNumeral appends s to b with digits and white space made ASCII. It gives
// up at the first character that is in no numeral: most texts end here.
func asciiNumeral(b []byte, s string, asAmount bool) ([]byte, bool) {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case asAmount && (c == '$' || c == '%' || c == ','):
			case isDigit(c), strings.IndexByte("\t\n\v\f\r +-._aefintyAEFINTY", c) >= 0:
				b = append(b, c)
			default:
				return nil, false
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if isSpace(r) {
			b = append(b, ' ')
			continue
		}
		zero, found := slices.BinarySearchFunc(digitZeros[:], r, func(zero, r rune) int { return compareRange(zero, zero+9, r) })
		if !found {
			return nil, false
		}
		b = append(b, '0'+byte(r-digitZeros[zero]))
	}
	return b, true
}

// joinDigitGroups takes out underscores, each of which must stand between two
// digits.
func joinDigitGroups(b []byte) ([]byte, bool) {
	joined := make([]byte, 0, len(b))
	for i, c := range b {
		if c != '_' {
			joined = append(joined, c)
			continue
		}
		if i == 0 || i == len(b)-1 || !isDigit(b[i-1]) || !isDigit(b[i+1]) {
			return nil, false
		}
	}
	return joined, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func digitsOf(b []byte) int {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

func trimSign(b []byte) (rest []byte, negative bool) {
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		return b[1:], b[0] == '-'
	}
	return b, false
}

// parseNumeral reads [sign](digits[.[digits]]|.digits)[e[sign]digits] or a word
// for infinity or not-a-number, and nothing else.
func parseNumeral(b []byte) (float64, bool) {
	rest, negative := trimSign(b)
	switch {
	case bytes.EqualFold(rest, []byte("inf")), bytes.EqualFold(rest, []byte("infinity")):
		if negative {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case bytes.EqualFold(rest, []byte("nan")):
		return math.NaN(), true
	}
	whole := rest[:digitsOf(rest)]
	rest = rest[len(whole):]
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		fraction = rest[1:][:digitsOf(rest[1:])]
		rest = rest[1+len(fraction):]
	}
	if len(whole)+len(fraction) == 0 {
		return 0, false
	}
	var exponent []byte
	down := false
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		rest, down = trimSign(rest[1:])
		exponent = rest[:digitsOf(rest)]
		if len(exponent) == 0 {
			return 0, false
		}
		rest = rest[len(exponent):]
	}
	if len(rest) > 0 {
		return 0, false
	}
	if exponent = bytes.TrimLeft(exponent, "0"); len(exponent) > maxExponentDigits {
		b = shiftPoint(negative, whole, fraction, exponent, down)
	}
	v, _ := strconv.ParseFloat(string(b), 64) // its only error left is range, with the right value
	return v, true
}

// maxExponentDigits is how long an exponent may be before shiftPoint is needed:
// ParseFloat stops counting at five digits, which is wrong for numerals of as
// many places ("0.", 200,000 zeros, "1e200001" is one).
const maxExponentDigits = 4

// shiftPoint rewrites a numeral as 0.digits with the exponent that leaves, held
// within what ParseFloat counts: beyond, the value is infinite or zero anyway.
func shiftPoint(negative bool, whole, fraction, exponent []byte, down bool) []byte {
	const most = 1 << 40
	e := 0
	for _, c := range exponent {
		if e = e*10 + int(c-'0'); e > most {
			e = most
			break
		}
	}
	if down {
		e = -e
	}
	digits := append(append([]byte(nil), whole...), fraction...)
	significant := bytes.TrimLeft(digits, "0")
	e += len(whole) - (len(digits) - len(significant))
	e = max(-9999, min(e, 9999))

	out := make([]byte, 0, len(significant)+16)
	if negative {
		out = append(out, '-')
	}
	out = append(out, "0."...)
	out = append(out, significant...)
	if len(significant) == 0 {
		return out[:len(out)-1]
	}
	out = append(out, 'e')
	return strconv.AppendInt(out, int64(e), 10)
}
