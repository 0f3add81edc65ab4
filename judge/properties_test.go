package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

// The parts of which texts and numerals are made. There is no capital sigma
// among the letters: its lower case depends on what stands around it, for which
// there are pinned cases and the comparison with Python.
const (
	punctuation = "!\"#$%&'()*+-./:<=>?@[\\]^_`{|}~"
	separators  = ",;"
)

func letters() *rapid.Generator[string] {
	return rapid.SampledFrom(strings.Split("a B z Q lima PORT the 7 42 \u2019 \u00b7 \u00e9 \u00c9 \u0451 \u0414 \u03c9 \u0391 \u0130 \u0131 \u00df \u1e9e \u4e5d \u3002 \uff0c \U0001f600 \ufffd \u00b5 \u0301 \u200b \x00 \x7f", " "))
}

func oneOf(chars string) *rapid.Generator[string] {
	return rapid.SampledFrom(strings.Split(chars, ""))
}

// texts are texts that are no numeral, no list and not empty, with white space
// and punctuation.
func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		part := rapid.OneOf(letters(), letters(), oneOf(punctuation), rapid.SampledFrom(spaces))
		return "w" + strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), "")
	})
}

// insert puts what at a place between two characters of s.
func insert(t *rapid.T, s, what string) string {
	at := rapid.IntRange(0, len(s)).Draw(t, "at")
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[:at] + what + s[at:]
}

func turnCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '\u0430' <= r && r <= '\u044f', '\u03b1' <= r && r < '\u03c2':
			return r - 0x20
		case 'A' <= r && r <= 'Z', '\u0410' <= r && r <= '\u042f', '\u0391' <= r && r < '\u03a2':
			return r + 0x20
		case r == '\u1e9e':
			return '\u00df'
		}
		return r
	}, s)
}

func expect(t *rapid.T, want bool, answer, gold string) {
	t.Helper()
	if got := QuestionScorer(&answer, gold); got != want {
		t.Fatalf("%q for %q is %v, want %v", answer, gold, got, want)
	}
}

// For a text, white space, case and ASCII punctuation do not matter, and
// everything else does.
func TestPropertiesOfTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gold := texts().Draw(t, "gold")
		answer := gold
		noise := rapid.OneOf(oneOf(punctuation+separators), rapid.SampledFrom(spaces))
		for _, n := range rapid.SliceOfN(noise, 0, 4).Draw(t, "noise") {
			answer = insert(t, answer, n)
		}
		if rapid.Bool().Draw(t, "turned") {
			answer = turnCase(answer)
		}
		expect(t, true, answer, gold)
		seen := rapid.OneOf(letters(), rapid.SampledFrom(notSpaces)).Draw(t, "seen")
		expect(t, false, insert(t, answer, seen), gold)
		expect(t, false, answer, insert(t, gold, seen))
	})
}

// For a list, the number of elements decides first, then each element alone, by
// the same rule wherever it stands; which separator is used does not matter.
func TestPropertiesOfLists(t *testing.T) {
	elements := rapid.OneOf(texts(), numerals(), rapid.SampledFrom([]string{"", " ", "inf", "-Infinity", "nan"}))
	join := func(t *rapid.T, all []string) string {
		s := all[0]
		for _, e := range all[1:] {
			s += oneOf(separators).Draw(t, "separator") + e
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		gold := rapid.SliceOfN(elements, 2, 5).Draw(t, "gold")
		answer := make([]string, len(gold))
		want := true
		for i, g := range gold {
			a, agrees := g, !strings.EqualFold(g, "nan")
			_, number := pyFloat(g, false)
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				if number {
					a = "$ " + g + "%"
				} else {
					a = turnCase(insert(t, g, rapid.SampledFrom(spaces).Draw(t, "space")))
				}
			case 1:
				if !number { // punctuation is kept in an element
					a, agrees = insert(t, g, oneOf(punctuation).Draw(t, "mark")), false
				}
			case 2:
				if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
					a, agrees = g+"x", number && strings.TrimSpace(strings.ToLower(g)) == "inf"
				}
			}
			answer[i], want = a, want && agrees
			// Alone, beside a neighbour that agrees.
			expect(t, agrees, "n,"+a, "N;"+g)
			expect(t, agrees, a+";8.0", g+",8")
		}
		expect(t, want, join(t, answer), join(t, gold))
		expect(t, false, join(t, append(slices.Clone(answer), "")), join(t, gold))
		expect(t, false, join(t, answer[1:]), join(t, gold))
	})
}

// decimal is the number digits / 10^places.
type decimal struct {
	digits int64
	places int
}

// plain is the numeral of its digits and a point.
func (d decimal) plain() string {
	s, sign := strconv.FormatInt(max(d.digits, -d.digits), 10), ""
	if d.digits < 0 {
		sign = "-"
	}
	if d.places == 0 {
		return sign + s
	}
	s = strings.Repeat("0", max(0, d.places+1-len(s))) + s
	return sign + s[:len(s)-d.places] + "." + s[len(s)-d.places:]
}

// dressed is another numeral of the same value.
func (d decimal) dressed(t *rapid.T) string {
	s := d.plain()
	zeros := rapid.SampledFrom([]int{0, 1, 20, 400, 10050})
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		up := zeros.Draw(t, "up")
		s = fmt.Sprintf("%d%se-%d", d.digits, strings.Repeat("0", up), d.places+up)
	case 1:
		if d.digits >= 0 {
			down, digits := 9+zeros.Draw(t, "down"), strconv.FormatInt(d.digits, 10)
			s = fmt.Sprintf("+.%s%sE+%d", strings.Repeat("0", down), digits, down+len(digits)-d.places)
		}
	case 2:
		if d.places > 0 {
			s += "0_0"
		} else {
			s += rapid.SampledFrom([]string{".", ".0", "e0", "E-00", "e+0_0"}).Draw(t, "end")
		}
	}
	if rapid.Bool().Draw(t, "digits of other scripts") {
		zero := rapid.SampledFrom(digitZeros[:]).Draw(t, "zero")
		s = strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return r - '0' + zero
			}
			return r
		}, s)
	}
	around := rapid.SampledFrom([]string{"", " ", "\t\n", "\r\v\f", "\u00a0", "\u2003\u3000"})
	return around.Draw(t, "before") + s + around.Draw(t, "after")
}

func decimals() *rapid.Generator[decimal] {
	return rapid.Custom(func(t *rapid.T) decimal {
		most := rapid.SampledFrom([]int64{20, 5000, 1e15 - 1}).Draw(t, "most")
		return decimal{rapid.Int64Range(-most, most).Draw(t, "digits"), rapid.IntRange(0, 9).Draw(t, "places")}
	})
}

func numerals() *rapid.Generator[string] {
	return rapid.Map(decimals(), decimal.plain)
}

// For a number, the value of the answer decides, however it is written and
// wherever "$", "%" and "," stand in it; what is no numeral is not credited.
func TestPropertiesOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decimals().Draw(t, "number")
		gold, answer := d.dressed(t), d.dressed(t)
		for _, sign := range rapid.SliceOfN(oneOf("$%,"), 0, 4).Draw(t, "signs") {
			answer = insert(t, answer, sign)
		}
		expect(t, true, answer, gold)
		expect(t, d.digits == 0, decimal{-d.digits, d.places}.dressed(t), gold)
		other := decimal{d.digits + 1, d.places}
		expect(t, false, other.dressed(t), gold)
		expect(t, false, answer, other.dressed(t))
		expect(t, false, insert(t, answer, rapid.SampledFrom(strings.Split("x \u20ac USD ; \u200b \x00 \x1c / \u00bd", " ")).Draw(t, "no numeral")), gold)
	})
}

// What nothing else is decided by: no answer is the text None, and a number that
// is infinite is agreed with by all that is no number.
func TestPropertiesOfNothing(t *testing.T) {
	none := "None"
	rapid.Check(t, func(t *rapid.T) {
		gold := rapid.OneOf(texts(), numerals(), rapid.SampledFrom([]string{"", "none", " N.o.n.e ", "inf", "-inf", "nan", "None,", ";"})).Draw(t, "gold")
		if got, want := QuestionScorer(nil, gold), QuestionScorer(&none, gold); got != want {
			t.Fatalf("no answer for %q is %v, None is %v", gold, got, want)
		}
		expect(t, true, texts().Draw(t, "answer"), rapid.SampledFrom([]string{"inf", "+Infinity", "1e999"}).Draw(t, "infinite"))
		expect(t, strings.EqualFold(gold, "-inf"), gold, "-Infinity")
		expect(t, false, gold, "nan")
	})
}

// Any bytes get one verdict, whatever else is asked at the same time and in
// whatever order.
func TestPropertiesOfBytes(t *testing.T) {
	bytes := rapid.Map(rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.SliceOfN(rapid.SampledFrom([]byte("01eE.,;+-_ \r\x00infa$%\xce\xa3\xcc\x81\xff\xed\xa0\x80\xe2\x80\xa8'")), 0, 20),
	), func(b []byte) string { return string(b) })
	rapid.Check(t, func(t *rapid.T) {
		pairs := make([][2]string, 8)
		verdicts := make([]bool, len(pairs))
		for i := range pairs {
			pairs[i] = [2]string{bytes.Draw(t, "answer"), bytes.Draw(t, "gold")}
			if c := contradiction(pairs[i][0], pairs[i][1]); c != "" {
				t.Fatal(c)
			}
			verdicts[i] = QuestionScorer(&pairs[i][0], pairs[i][1])
		}
		var group errgroup.Group
		for i := range pairs {
			i = len(pairs) - 1 - i
			group.Go(func() error {
				if QuestionScorer(&pairs[i][0], pairs[i][1]) != verdicts[i] {
					return fmt.Errorf("%q for %q has two verdicts", pairs[i][0], pairs[i][1])
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}
