package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

func BenchmarkQuestionScorer(b *testing.B) {
	all := readVectors(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		v := &all[n%len(all)]
		n++
		QuestionScorer(v.Prediction, v.Gold)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pairs/s")
}

// What the scorer takes time for at each place of a text: the rate must not
// fall with the size.
func BenchmarkLongAnswers(b *testing.B) {
	for _, size := range []int{1 << 16, 1 << 20, 1 << 24} {
		for _, c := range longPairs(size) {
			b.Run(fmt.Sprintf("%s/%dKiB", c.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(c.answer) + len(c.gold)))
				for b.Loop() {
					QuestionScorer(&c.answer, c.gold)
				}
			})
		}
	}
}

// TestLongAnswers gives verdicts on texts of 2 MiB, each of one kind that could
// make a scorer look back or ahead from every place. One whose time grew with
// the square of the length would not come to an end here within the hour.
func TestLongAnswers(t *testing.T) {
	long.NotRaced(t)
	size := 1 << 18
	if long.Thorough() {
		size = 2 << 20
	}
	for _, c := range longPairs(size) {
		if got := QuestionScorer(&c.answer, c.gold); got != c.want {
			t.Errorf("%s is %v", c.name, got)
		}
		NonFinite(c.answer, c.gold)
	}
}

type longPair struct {
	name, answer, gold string
	want               bool
}

// longPairs returns pairs of about size bytes a side.
func longPairs(size int) []longPair {
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	half := func(unit string) string { return strings.Repeat(unit, size/len(unit)/2) }
	ones := fill("1")
	return []longPair{
		{"letters", fill("Ab "), fill("aB."), true},
		{"letters, the last one other", fill("Ab ") + "x", fill("aB.") + "y", false},
		{"sigmas", fill("Σ"), fill("σ"), false}, // the last one is final
		{"sigmas apart", "Α" + fill("Σ'") + "α", "α" + fill("σ'") + "Α", true},
		{"a sigma far from its letters", "Α" + half("\u0301") + "Σ" + half("'"), "α" + half("\u0301") + "ς", true},
		{"sigmas far from letters", half("'") + half("Σ\u0301"), half("'") + half("Σ\u0301"), true},
		{"sigmas among marks without a letter", fill("\u0301Σ\u00b7\u0301"), fill("\u0301Σ\u00b7\u0301"), true},
		{"marks", "e" + fill("\u0301"), "E" + fill("\u0301"), true},
		{"dotted I", fill("İ"), strings.Repeat("i\u0307", size/2), true},
		{"white space", fill("\u2003\r\x1f\n"), "", true},
		{"punctuation", fill("._"), "!", true},
		{"NUL", fill("\x00"), fill("\x00") + "\x00", false},
		{"not UTF-8", fill("\xff\xe2\x80"), fill("\xff\xe2\x80"), true},
		{"empty elements", fill(","), fill(";"), true},
		{"empty elements, one more", fill(",") + ",", fill(";"), false},
		{"elements", fill("1,b;"), fill("1,B;"), true},
		{"elements that are no numbers", half("x;"), strings.Repeat("inf;", size/4), true},
		{"an element that is long", ones + ";a", ones + "0,a", true}, // both are infinite
		{"digits", ones, ones + "1", true},
		{"digits, as text", ones + "x", ones + "x", true},
		{"digits of another script", "0." + fill("\u0661"), "0.1111111111111111111111", true},
		{"underscores", fill("0_") + "1", "1", true},
		{"underscores and an end", fill("1_"), "1", false},
		{"letters of numerals", fill("infae"), "5", false},
		{"signs of money", fill("$%,") + "7", "7", true},
		{"zeros and their exponent", "0." + fill("0") + fmt.Sprintf("1e%d", size+1), "1", true},
		{"zeros down", "1" + fill("0") + fmt.Sprintf("e-%d", size), "1", true},
		{"exponent", "1e" + ones, "inf", true},
		{"exponent down", "1e-" + ones, "0", true},
		{"zeros in the exponent", "1e" + fill("0") + "2", "100", true},
		{"white space around a number", half(" ") + "7" + half("\u3000"), "7", true},
	}
}

// An answer of usual length costs no memory.
func TestNoAllocation(t *testing.T) {
	for _, c := range []struct{ answer, gold string }{
		{"Port Lima", "port lima."}, {"Lima, 3", "lima; 3.0"}, {"100", "100"}, {"12345678", "1e3"}, {"$1,234.50", "1234.5"},
		{"no idea", "853"}, {"x, y", "inf, y"}, {"\u0391\u03a3 \u0130", "\u03b1\u03c2i\u0307"},
	} {
		if n := testing.AllocsPerRun(10, func() { QuestionScorer(&c.answer, c.gold) }); n != 0 {
			t.Errorf("%q for %q: %v allocations", c.answer, c.gold, n)
		}
	}
}
