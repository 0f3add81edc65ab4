package canonical

import (
	"bytes"
	"strconv"
)

// MaxInt bounds integers: 2⁵³, above which some JSON readers round.
const MaxInt = 1 << 53

// inspect looks through valid JSON once. It reports whether every number is an integer within ±2⁵³ in its shortest
// form, and whether the text is certainly canonical already, as what structs with sorted members encode to mostly is.
// When in doubt it says no: making it canonical costs time, not correctness.
func inspect(b []byte) (integers, canonical bool) {
	canonical = true
	var names [maxNested][]byte // of each open object, the last member; nil in an array
	depth := 0
	name := false // a string that begins here is a member's name
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '{', '[':
			if depth++; depth == maxNested {
				depth--
				canonical = false // and names are not compared from here on
			}
			names[depth], name = nil, c == '{'
			i++
		case '}', ']':
			depth = max(depth-1, 0)
			i++
		case ',':
			name = names[depth] != nil
			i++
		case ':', 't', 'r', 'u', 'e', 'f', 'a', 'l', 's', 'n':
			i++
		case '"':
			end, plain, exact := inspectString(b, i)
			canonical = canonical && exact
			if name {
				canonical = canonical && plain && bytes.Compare(names[depth], b[i:end]) < 0
				names[depth], name = b[i:end], false
			}
			i = end
		case ' ', '\t', '\n', '\r':
			canonical = false
			i++
		default:
			start := i
			for i++; i < len(b) && isNumberByte(b[i]); i++ {
			}
			n, err := strconv.ParseInt(string(b[start:i]), 10, 64)
			if err != nil || n > MaxInt || n < -MaxInt || c == '-' && n == 0 {
				return false, false
			}
		}
	}
	return true, canonical
}

// maxNested is how deep inspect follows the members of objects.
const maxNested = 16

// inspectString returns the end of the string that begins at start; whether it is ASCII without escapes, so that such
// strings sort by their bytes with their quotes; and whether its escapes are the ones that must be.
func inspectString(b []byte, start int) (end int, plain, exact bool) {
	plain, exact = true, true
	for i := start + 1; ; i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, plain, exact
		case c == '\\':
			plain = false
			i++
			switch b[i] {
			case '"', '\\', 'b', 'f', 'n', 'r', 't':
			case 'u':
				exact = exact && isNeededEscape(b[i+1:i+5])
			default: // an escaped slash
				exact = false
			}
		case c <= '!' || c >= 0x80: // space and '!' sort before the quote that ends a shorter name
			plain = false
		}
	}
}

// isNeededEscape reports whether four hexadecimal digits are of a character that has no other escape: below U+0020 and
// none of \b \t \n \f \r.
func isNeededEscape(digits []byte) bool {
	if digits[0] != '0' || digits[1] != '0' {
		return false
	}
	switch digits[2] {
	case '0':
		return digits[3] >= '0' && digits[3] <= '7' || digits[3] == 'b' || digits[3] == 'e' || digits[3] == 'f'
	case '1':
		return digits[3] >= '0' && digits[3] <= '9' || digits[3] >= 'a' && digits[3] <= 'f'
	}
	return false
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}
