package judge

import (
	"slices"
	"unicode/utf8"
)

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
// not UTF-8 comes as a separate value, beyond all code points.
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
		i, found := slices.BinarySearchFunc(lowerRuns[:], r, func(run lowerRun, r rune) int { return compareRange(run.first, run.last, r) })
		if found && (r-lowerRuns[i].first)%lowerRuns[i].step == 0 {
			r += lowerRuns[i].delta
		}
		return r
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

// within reports whether one of the spans, which ascend, holds r.
func within(spans []span, r rune) bool {
	_, found := slices.BinarySearchFunc(spans, r, func(s span, r rune) int { return compareRange(s.first, s.last, r) })
	return found
}

// compareRange compares the range from first to last with r; 0 = it holds r.
func compareRange(first, last, r rune) int {
	switch {
	case r < first:
		return 1
	case r > last:
		return -1
	}
	return 0
}
