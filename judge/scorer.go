package judge

import (
	"math"
	"slices"
	"unicode/utf8"
)

// QuestionScorer gives the verdict of the GAIA leaderboard's question_scorer.
// A nil answer is Python's None, which the leaderboard reads as the text
// "None".
//
// The gold answer picks the rule. A gold that is a numeral is compared as a
// number, after "$", "%" and "," are taken out of the answer; an answer that
// is no numeral counts as infinite, so that anything at all agrees with a gold
// of "inf". A gold with a comma or semicolon is a list: equally many elements,
// each compared with its counterpart, as numbers where the gold's element is
// one and as text with punctuation where it is not. Any other gold is compared
// as text without white space, case and ASCII punctuation.
//
// Numerals, white space and case are Python's and not Go's, by the tables of
// one fixed version of Unicode: the same pair gets the same verdict from every
// build. Bytes that are not UTF-8, which a Python text cannot hold, equal only
// themselves.
func QuestionScorer(answer *string, gold string) bool {
	given := "None"
	if answer != nil {
		given = *answer
	}
	if want, ok := pyFloat(gold, false); ok {
		return amount(given) == want
	}
	if next, _ := element(gold); len(next) < len(gold) {
		return equallyMany(given, gold, func(given, want string) bool {
			if number, ok := pyFloat(want, false); ok {
				return amount(given) == number
			}
			return textsAgree(given, want, false)
		})
	}
	return textsAgree(given, gold, true)
}

// NonFinite reports whether QuestionScorer, for this gold, takes an answer or an
// element of it for infinite because a number is asked for and it is none.
// Credit for it is worth nothing: anything else would have been credited, too.
func NonFinite(answer, gold string) bool {
	if _, number := pyFloat(gold, false); number {
		return !numeral(answer)
	}
	found := false
	return equallyMany(answer, gold, func(given, want string) bool {
		_, number := pyFloat(want, false)
		found = found || number && !numeral(given)
		return true
	}) && found
}

// equallyMany shows the elements of two lists, each with its counterpart, until agree is false. It reports whether
// all of them agree and none is left over.
func equallyMany(given, gold string, agree func(given, want string) bool) bool {
	for {
		g, givenRest := element(given)
		w, goldRest := element(gold)
		givenEnds, goldEnds := len(g) == len(given), len(w) == len(gold)
		if !agree(g, w) || givenEnds != goldEnds {
			return false
		}
		if goldEnds {
			return true
		}
		given, gold = givenRest, goldRest
	}
}

func numeral(s string) bool {
	_, ok := pyFloat(s, true)
	return ok
}

// element cuts s at its first separator. Without one, first is all of s.
func element(s string) (first, rest string) {
	for i := range len(s) {
		if s[i] == ',' || s[i] == ';' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func amount(s string) float64 {
	if v, ok := pyFloat(s, true); ok {
		return v
	}
	return math.Inf(1)
}

func textsAgree(a, b string, dropPunct bool) bool {
	x := plainText{s: a, dropPunct: dropPunct}
	y := plainText{s: b, dropPunct: dropPunct}
	for {
		r := x.next()
		if r != y.next() {
			return false
		}
		if r == endOfText {
			return true
		}
	}
}

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
