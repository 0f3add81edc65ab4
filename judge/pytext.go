package judge

import "unicode/utf8"

type span struct{ first, last rune }

// lowerRun maps every step-th code point from first to last to itself + delta.
type lowerRun struct{ first, last, step, delta rune }

const (
	capitalSigma    = 'Σ'
	smallSigma      = 'σ'
	finalSigma      = 'ς'
	capitalDottedI  = 'İ'
	combiningDot    = '\u0307'
	endOfText       = rune(-1)
	firstStrayValue = utf8.MaxRune + 1
)

// plainText yields a text without white space, lower-cased as Python's
// str.lower does it, and where asked without ASCII punctuation. White space
// goes first and punctuation last: a sigma is final or not by the letters next
// to it without the spaces but with the punctuation.
type plainText struct {
	s         string
	at        int
	dropPunct bool
	dotOwed   bool // İ becomes two code points
}

// next returns the next code point, endOfText after the last. A byte that is
// not UTF-8 comes as a value of its own, beyond all code points.
func (p *plainText) next() rune {
	if p.dotOwed {
		p.dotOwed = false
		return combiningDot
	}
	for p.at < len(p.s) {
		c := p.s[p.at]
		if c < utf8.RuneSelf {
			p.at++
			switch {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
				return rune(c)
			case 'A' <= c && c <= 'Z':
				return rune(c) + 'a' - 'A'
			case isSpace(rune(c)), p.dropPunct && '!' <= c && c <= '~':
				continue
			}
			return rune(c)
		}
		start := p.at
		r, size := utf8.DecodeRuneInString(p.s[start:])
		p.at += size
		switch {
		case r == utf8.RuneError && size == 1:
			return firstStrayValue + rune(c)
		case isSpace(r):
			continue
		case r == capitalDottedI:
			p.dotOwed = true
			return 'i'
		case r == capitalSigma:
			if sigmaIsFinal(p.s[:start], p.s[p.at:]) {
				return finalSigma
			}
			return smallSigma
		}
		return lower(r)
	}
	return endOfText
}

// sigmaIsFinal reports whether a capital sigma between the two texts becomes the
// final form: the nearest thing before it is a letter with case and the nearest
// thing after it is not, both searched through whatever is ignorable, at any
// distance.
func sigmaIsFinal(before, after string) bool {
	for {
		r, size := utf8.DecodeLastRuneInString(before)
		if size == 0 {
			return false
		}
		before = before[:len(before)-size]
		if !isSpace(r) && !within(ignorableSpans[:], r) {
			if !within(casedSpans[:], r) {
				return false
			}
			break
		}
	}
	for _, r := range after {
		if !isSpace(r) && !within(ignorableSpans[:], r) {
			return !within(casedSpans[:], r)
		}
	}
	return true
}

// isSpace is Python's \s, which is also str.isspace.
func isSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || '\t' <= r && r <= '\r' || 0x1c <= r && r <= 0x1f
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	case 0x2000 <= r && r <= 0x200a:
		return true
	}
	switch r {
	case 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000:
		return true
	}
	return false
}

func within(spans []span, r rune) bool {
	lo, hi := 0, len(spans)
	for lo < hi {
		m := (lo + hi) / 2
		switch {
		case r < spans[m].first:
			hi = m
		case r > spans[m].last:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}

// lower is the simple lower case of a code point outside ASCII.
func lower(r rune) rune {
	lo, hi := 0, len(lowerRuns)
	for lo < hi {
		m := (lo + hi) / 2
		switch run := &lowerRuns[m]; {
		case r < run.first:
			hi = m
		case r > run.last:
			lo = m + 1
		case (r-run.first)%run.step != 0:
			return r
		default:
			return r + run.delta
		}
	}
	return r
}

// digit is the value of a decimal digit outside ASCII.
func digit(r rune) (byte, bool) {
	lo, hi := 0, len(digitZeros)
	for lo < hi {
		m := (lo + hi) / 2
		switch zero := digitZeros[m]; {
		case r < zero:
			hi = m
		case r > zero+9:
			lo = m + 1
		default:
			return byte(r - zero), true
		}
	}
	return 0, false
}
