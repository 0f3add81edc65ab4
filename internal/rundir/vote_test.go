package rundir

import (
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/google/go-cmp/cmp"
)

func TestVote(t *testing.T) {
	tests := []struct {
		name    string
		answers []string
		winner  int
		votes   []int
	}{
		{"no answers", nil, -1, []int{}},
		{"one", []string{""}, 0, []int{1}},
		{"a majority", []string{"4", "5", "5"}, 1, []int{1, 2, 2}},
		{"a majority that is not the most", []string{"4", "5", "5", "6", "7"}, 1, []int{1, 2, 2, 1, 1}},
		{"all alone", []string{"x", "y", "z"}, 0, []int{1, 1, 1}},
		{"a tie", []string{"x", "y", "z", "z", "y"}, 1, []int{1, 2, 2, 2, 2}},
		{"a tie from the start", []string{"y", "z", "z", "y"}, 0, []int{2, 2, 2, 2}},
		{"ways to write a number", []string{"1,000", "1000", " $1000.00 ", "1e3", "1.0E+03", "+01000.", "100000e-2", "1000%", "999"}, 0, []int{8, 8, 8, 8, 8, 8, 8, 8, 1}},
		{"ways to write nothing", []string{"0", "-0", ".0", "0.", "0e5", "$0.00", ""}, 0, []int{6, 6, 6, 6, 6, 6, 1}},
		{"the sign of a number", []string{"-5", "5", "-$5", "$-5"}, 0, []int{3, 1, 3, 3}},
		{"numbers that floats confuse", []string{"0.1", "0.10000000000000000001", "9007199254740993", "9007199254740992"}, 0, []int{1, 1, 1, 1}},
		{"numbers and texts that look like them", []string{"1e400", "1e0400", "inf", "0x10", "nan", "1 000", "1_000", "٣", "16", "1000"}, 5, []int{1, 1, 1, 1, 1, 2, 2, 1, 1, 1}},
		{"groups of three", []string{"1,234,567", "1234567", "1,23,456", "123456", "1,2345", "1234,567", ",123", "123"}, 0, []int{2, 2, 1, 1, 1, 1, 1, 1}},
		{"no digit", []string{".", "-", "e5", "$", "%"}, 0, []int{1, 1, 1, 1, 1}},
		{"lists", []string{"a, b; 10", "A,B,10.0", "a;b;$10", "b, a, 10", "a, b", "a, b, 10,", "ab10"}, 0, []int{3, 3, 3, 1, 1, 1, 1}},
		{"a list of numbers is no number", []string{"12, 3", "1, 23", "123"}, 0, []int{1, 1, 1}},
		{"a list of nothing", []string{",", ";", ",,", " , "}, 0, []int{3, 3, 1, 3}},
		{"texts", []string{"North Marrow", "north\u00a0marrow.", "\"North-Marrow\"", "Northmarrow!", "South Marrow"}, 0, []int{4, 4, 4, 4, 1}},
		{"letters of all kinds", []string{"ÉLAN", "élan", "elan", "STRASSE", "straße"}, 0, []int{2, 2, 1, 1, 1}},
		{"punctuation alone", []string{"+", " + ", "-", "`", ""}, 0, []int{2, 2, 1, 1, 1}},
		{"what is empty", []string{"", " ", "\t\n", "x"}, 0, []int{3, 3, 3, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			winner, votes := Vote(tt.answers)
			if winner != tt.winner {
				t.Errorf("answer %d wins, not %d", winner, tt.winner)
			}
			if diff := cmp.Diff(tt.votes, votes); diff != "" {
				t.Errorf("votes (-want +got):\n%s", diff)
			}
		})
	}
	if unicode.Version != "15.0.0" {
		t.Errorf("the rule is by Unicode 15.0, and this is %s: a vote must not change with the compiler", unicode.Version)
	}
}

// TestVoteOfHostileAnswers: what is long is counted like what is short.
func TestVoteOfHostileAnswers(t *testing.T) {
	long.NotRaced(t)
	long := []string{strings.Repeat("9", 1<<16), strings.Repeat("0", 1<<16) + "1", "1" + strings.Repeat("0", 1<<16) + "e308", strings.Repeat(",", 1<<16),
		strings.Repeat("1,", 1<<15), strings.Repeat("$%", 1<<15), strings.Repeat("\xff", 1<<16), strings.Repeat("1,000", 1<<14)}
	winner, votes := Vote(append(long, long[1:]...))
	if winner != 1 || votes[0] != 1 || slices.Max(votes) != 2 {
		t.Errorf("answer %d wins by %v", winner, votes)
	}
}

func FuzzVote(f *testing.F) {
	f.Add("4", "5", "5.0", byte(0))
	f.Add("1,000", "$1e3", "a, b; 10", byte(1))
	f.Add("North Marrow", "north-marrow", "-", byte(2))
	f.Add("1e-308", ".", "0.", byte(3))
	f.Fuzz(func(t *testing.T, a, b, c string, turn byte) {
		answers := []string{a, b, c, b, a}
		winner, votes := Vote(answers)
		most := slices.Max(votes)
		if winner != slices.Index(votes, most) || most < 2 || votes[0] != votes[4] || votes[1] != votes[3] {
			t.Fatalf("answer %d wins by %v", winner, votes)
		}
		// Another vote for the winner keeps it.
		if again, _ := Vote(append(slices.Clone(answers), answers[winner])); again != winner {
			t.Fatalf("with one more vote answer %d wins, not %d", again, winner)
		}
		// The order of those who lose does not matter, where no one draws with the winner.
		won := func(i int) bool { return value(answers[i]) == value(answers[winner]) }
		var first, last []string
		for i := range answers {
			if j := (i + int(turn)) % len(answers); won(j) {
				first = append(first, answers[j])
			} else {
				last = append(last, answers[j])
			}
		}
		clear := !slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return !won(i) && votes[i] == most })
		for _, turned := range [][]string{append(slices.Clone(first), last...), append(slices.Clone(last), first...)} {
			if again, _ := Vote(turned); clear && value(turned[again]) != value(answers[winner]) {
				t.Fatalf("in the order %q the answer %q wins, not %q", turned, turned[again], answers[winner])
			}
		}
		if _, votes := Vote([]string{a, "\t" + a + " \n"}); votes[0] != 2 {
			t.Fatalf("%q does not say the same with white space around it", a)
		}
	})
}

// FuzzNumber: two numbers say the same if and only if they are the same
// fraction.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1,000", "1000.000", "1e3", "1e-3", "0.001", "+5.", ".5e1", "12e308", "1e309", "-00012,345.6700e-10"} {
		f.Add(s, "1000")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		va, oka := number(a)
		vb, okb := number(b)
		if !oka || !okb {
			return
		}
		if (va == vb) != (fraction(t, a).Cmp(fraction(t, b)) == 0) {
			t.Fatalf("%q has the value %s, %q has %s", a, va, b, vb)
		}
	})
}

func fraction(t *testing.T, s string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(strings.TrimSpace(strings.NewReplacer("$", "", "%", "", ",", "").Replace(s)))
	if !ok {
		t.Fatalf("%q is no fraction", s)
	}
	return r
}
