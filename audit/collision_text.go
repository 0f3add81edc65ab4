package audit

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// asciiMarks are the punctuation that the official scorer drops.
const asciiMarks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// stripped is a text in the form that the official scorer compares, but for case,
// and what it drops: gaps[i] stands before kept[i], the last one behind all.
type stripped struct {
	kept []rune
	gaps []string
}

func strip(s string) stripped {
	var t stripped
	from := 0
	for i, r := range s {
		if space(r) || strings.ContainsRune(asciiMarks, r) {
			continue
		}
		t.kept, t.gaps = append(t.kept, r), append(t.gaps, s[from:i])
		_, size := utf8.DecodeRuneInString(s[i:])
		from = i + size
	}
	t.gaps = append(t.gaps, s[from:])
	return t
}

func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func (t stripped) digit(i int) bool {
	return i >= 0 && i < len(t.kept) && t.kept[i] < utf8.RuneSelf && digitByte(byte(t.kept[i]))
}

// marks are those of a gap.
func (t stripped) marks(i int) string { return strings.Join(strings.FieldsFunc(t.gaps[i], space), "") }

// digitsFrom returns the digits from i on, up to the first other character, with
// the marks between them, and a point that belongs to them.
func (t stripped) digitsFrom(i int) (text string, end int) {
	var b strings.Builder
	if head, pointed := strings.CutSuffix(t.gaps[i], "."); pointed && (head == "" && i == 0 || strings.TrimRightFunc(head, space) != head) {
		b.WriteByte('.')
	}
	for end = i; t.digit(end); end++ {
		if end > i && t.gaps[end] != "" {
			mark := t.marks(end)
			if mark == "" {
				mark = " "
			}
			b.WriteString(mark)
		}
		b.WriteRune(t.kept[end])
	}
	return b.String(), end
}

// negative reports whether the digits at i have a minus sign: a hyphen right
// before them that stands behind no word, nor one in brackets, and is no dash.
func (t stripped) negative(i int) bool {
	head, ok := strings.CutSuffix(strings.TrimRight(t.gaps[i], "$"), "-")
	return ok && !strings.HasSuffix(head, "-") && (i == 0 || head != "" && !strings.ContainsAny(head[len(head)-1:], ")]}"))
}

// ends returns the signs that belong to what stands before a gap, as in C++, F# or
// a grade of A-.
func (t stripped) ends(i int) string {
	if i == 0 {
		return ""
	}
	gap := t.gaps[i]
	if strings.HasPrefix(gap, "-") && i == len(t.kept) {
		word := t.wordBefore(i)
		if len(word) <= 2 && strings.IndexFunc(string(word), unicode.IsUpper) >= 0 {
			return "-"
		}
	}
	signs := gap[:len(gap)-len(strings.TrimLeft(gap, "+#"))]
	if strings.Contains(signs, "#") && len(t.wordBefore(i)) > 1 {
		return "" // the sign of a number or a tag
	}
	return signs
}

// chessMove is a move as chess players write it, without what they say of it.
var chessMove = regexp.MustCompile(`^(?:[KQRBN][a-h]?[1-8]?x?[a-h][1-8]|(?:[a-h]x)?[a-h][1-8](?:=?[QRBN])?|O-O(?:-O)?)$`)

// checks reports whether nothing but what is said of a chess move stands in a gap:
// that it gives check or mate, and how good it is.
func (t stripped) checks(i int) bool {
	from := i - 1
	for from > 0 && (t.gaps[from] == "" || t.gaps[from] == "=" || t.gaps[from] == "-") {
		from--
	}
	var move strings.Builder
	for at := max(from, 0); at < i; at++ {
		if at > from {
			move.WriteString(t.gaps[at])
		}
		move.WriteRune(t.kept[at])
	}
	return chessMove.MatchString(move.String()) && only(t.marks(i), "+#!?") == t.marks(i)
}

// named reports whether a word of three letters or more stands before a gap, as in
// the names of things that end in a plus.
func (t stripped) named(i int) bool {
	word := t.wordBefore(i)
	return len(word) > 2 && !slices.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
}

// wordBefore returns what is kept up to i without a gap.
func (t stripped) wordBefore(i int) []rune {
	from := i - 1
	for from > 0 && t.gaps[from] == "" {
		from--
	}
	return t.kept[max(from, 0):i]
}

// textCollision compares where the scorer compares texts. Both sides then are the
// same characters, and differ in case and in what stands between them.
func textCollision(given, gold string) string {
	a, b := strip(given), strip(gold)
	if len(a.kept) != len(b.kept) {
		return otherSpelling // lower case made two of one
	}
	worst := otherSpelling
	for i := 0; i < len(a.gaps); i++ {
		if a.digit(i) && b.digit(i) {
			if a.negative(i) != b.negative(i) && a.marks(i) != b.marks(i) && !a.digit(i-1) {
				worst = graverRule(worst, signDropped)
			}
			if !a.digit(i - 1) {
				x, end := a.digitsFrom(i)
				y, _ := b.digitsFrom(i)
				plus := i == 0 && (strings.HasSuffix(a.gaps[i], "+") || strings.HasSuffix(b.gaps[i], "+"))
				if !sameTime(x, y, a.kept[end:]) && !(plus && sameDialled(x, y)) {
					worst = graverRule(worst, digitsCollision(x, y))
				}
			} else {
				continue // the digits before have seen it
			}
		}
		worst = graverRule(worst, gapCollision(a, b, i))
	}
	return worst
}

// gapCollision compares what the scorer drops at one place.
func gapCollision(a, b stripped, i int) string {
	x, y := a.marks(i), b.marks(i)
	inside := i > 0 && i < len(a.kept)
	apart := strings.ContainsFunc(a.gaps[i]+b.gaps[i], space)
	switch {
	case x == y, a.checks(i) && b.checks(i):
		return otherSpelling
	case a.ends(i) != b.ends(i) && !(inside && apart && (a.joins(i) || b.joins(i))):
		if a.named(i) || b.named(i) {
			return marksDropped
		}
		return signDropped
	case only(x, "<=>") != only(y, "<=>"), inside && only(x, "+") != only(y, "+"):
		return marksDropped
	case inside && !apart && a.interleaved(i) != b.interleaved(i):
		return marksDropped
	}
	return otherSpelling
}

// joins reports whether a gap is signs alone that stand between two words.
func (t stripped) joins(i int) bool { return t.ends(i) != "" && t.ends(i) == t.gaps[i] }

func only(s, set string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(set, r) {
			return r
		}
		return -1
	}, s)
}

// interleaved returns the marks between two characters that are more than
// spelling: not those of compounds, quotations, currencies and abbreviations.
func (t stripped) interleaved(i int) string {
	marks := only(t.gaps[i], "!#%&()*+,./:;<=>?@[\\]^_{|}~")
	if marks == "." && strings.HasPrefix(t.gaps[i+1], ".") {
		return ""
	}
	return marks
}
