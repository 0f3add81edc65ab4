package judge

import "math"

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
