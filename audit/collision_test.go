package audit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judge"
)

// TestCollision: each pair is one that the official scorer holds equal, in both
// directions where it does.
func TestCollision(t *testing.T) {
	for rule, pairs := range map[string][][2]string{ // answer, gold
		numberDiffers: {
			{"150", "$1.50"}, {"1.50", "$150"}, {"34", "3/4"}, {"3.4 cups", "3/4 cups"}, {"12/2020", "1/2/2020"}, {"11/2/2020", "1/12/2020"}, {"2020-11-2", "2020-1-12"},
			{"15 km", "1.5 km"}, {"57", "5-7"}, {"3,14", "314"}, {"0,5", "5"}, {"1.234,56", "1.23456"}, {"11/2 cups", "1 1/2 cups"}, {"106 m", "10^6 m"}, {"3+4i", "34i"},
			{".5 km", "5 km"}, {"12.3", "1.2.3"}, {"10^{-3}", "10^3"}, {"10^{-3} m", "10-3 m"}, {"25.10 am", "2.510 am"}, {"9007199254740993", "9007199254740992"},
		},
		signDropped: {
			{"5 degrees", "-5 degrees"}, {"C", "C#"}, {"C++", "C"}, {"C+", "C++"}, {"A-", "A"}, {"A+", "A"}, {"O-", "O+"}, {"Na", "Na+"}, {"C#5", "C5"}, {"50", "50+"}, {"C# minor", "C minor"},
			{"at -5 degrees", "at 5 degrees"}, {"a+b", "ab"}, {"UTC -5", "UTC+5"}, {"(-5) degrees", "5 degrees"}, {"Rd+", "Rd"}, {"Zd5+", "Zd5"},
		},
		marksDropped: {
			{"a.b.c", "abc"}, {"km/h", "kmh"}, {"5551234", "555-1234"}, {"2020112 h", "2020-1-12 h"}, {"3-4", "3/4"}, {"10:30 h", "1030 h"}, {"a_b", "ab"}, {">5 km", "<5 km"}, {"salt + pepper", "salt pepper"}, {"salt+pepper", "salt pepper"}, {"5%0", "50"},
			{"1,2,3", "123"}, {"3 4 km", "34 km"}, {"1.2.3 x", "123 x"}, {"Apt#5", "Apt5"},
			{"Disney+", "Disney"}, {"notepad++", "notepad"}, {"(E)-2-butene", "E-2-butene"}, {"3:4", "3-4"}, {"ISBN 978-3-16-148410-1", "ISBN 9783161484101"}, {"6:30 km", "6.30 km"}, {"+44 20 x", "+4420 x"},
		},
		otherSpelling: {
			{"$1,234.50", "1234.5"}, {"sea gull", "seagull"}, {"Brellin.", "brellin"}, {"well-known", "well known"}, {"wellknown", "well-known"}, {"U.S.A.", "USA"}, {"3:30 p.m.", "3:30 pm"},
			{"1/2/2020", "1-2-2020"}, {"1.2.2020", "1/2/2020"}, {"20200112 h", "2020-01-12 h"}, {"1,234 km", "1234 km"}, {"1 234 km", "1234 km"}, {"1.234 km", "1234 km"}, {"12,34,567", "1234567"},
			{"1,2345,6789", "123456789"}, {"50%", "50"}, {"1e3", "1000"}, {"1_000", "1000"}, {"1,000", "1e3"}, {"May 5, 2020", "May 5 2020"}, {"St.John", "St. John"}, {"and/or", "and or"}, {"O'Neil", "ONeil"},
			{"(555) 123-4567", "555-123-4567"}, {"A-5", "A5"}, {"Apt #5", "Apt 5"}, {"+5 degrees", "5 degrees"}, {"US$5", "US5"}, {"**Brellin**", "Brellin"}, {"C#.", "C#"}, {"a+b", "a + b"}, {"co- operate", "cooperate"},
			{"17,", "17"}, {"5.", "5"}, {"0.30000000000000004441", "0.30000000000000004"}, {"J. R. Quill", "J.R. Quill"}, {"x; 2.0", "X, 2"}, {"A,b", "a, B"}, {"\u0130x", "i\u0307x"}, {"3 / 4", "3/4"},
			{"Rd5+", "Rd5"}, {"Qxf7#", "Qxf7+"}, {"exd5+!", "exd5"}, {"e8=Q+", "e8=Q"}, {"O-O-O+", "O-O-O"}, {"1. Rd5+ Kg7", "1. Rd5 Kg7"}, {"UTC-5", "UTC -5"}, {"UTC+5", "UTC +5"}, {"10^-3 m", "10^{-3} m"}, {"10^(-3)", "10^-3"},
			{"ISBN 978-3-16-148410-0", "ISBN 9783161484100"}, {"9783161484100", "978-3-16-148410-0"}, {"0-306-40615-2", "0306-406152"}, {"+44 20 7946 0000 x", "+442079460000 x"}, {"+44 20 7946 0000", "+44-20-7946-0000"}, {"6:30 am", "6.30 a.m."}, {"at 6.30 PM", "at 6:30 pm"},
		},
		"": {{"Brellin", "Brellin"}},
	} {
		for _, p := range pairs {
			if !judge.QuestionScorer(&p[0], p[1]) {
				t.Errorf("%q is not credited for %q", p[0], p[1])
			}
			if got := collision(p[0], p[1]); got != rule {
				t.Errorf("%q for %q: %q, want %q", p[0], p[1], got, rule)
			}
			if judge.QuestionScorer(&p[1], p[0]) && collision(p[1], p[0]) != rule {
				t.Errorf("%q for %q: %q, want %q", p[1], p[0], collision(p[1], p[0]), rule)
			}
		}
	}
}

// TestSameIsNoCollision: what a person reads as one answer, in families that can
// be made at random, is never told to be another number or sign.
func TestSameIsNoCollision(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 19))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	word := func() string {
		b := make([]byte, 2+r.IntN(6))
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	commas := func(n int, separator string) string {
		s := fmt.Sprint(n)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + separator + s[i:]
		}
		return s
	}
	credited := 0
	for range 4000 / long.Step(10) {
		n, cents, a, b := r.IntN(1e7), r.IntN(100), word(), word()
		day, month, year := 1+r.IntN(28), 1+r.IntN(12), 1000+r.IntN(1100)
		x, y, z := pick(".", "-", "/", " "), pick(".", "-", "/", " "), pick("", " ", "-", "'", " - ")
		date := func(s string) string { return fmt.Sprintf("%d%s%d%s%d", day, s, month, s, year) }
		unit := pick("", " km", " "+a, "%", " $")
		families := [][2]string{
			{pick("$", "", "US$") + commas(n, ",") + unit, fmt.Sprint(n) + unit},
			{commas(n, pick(" ", ",", ".", "'")) + " " + a, fmt.Sprint(n) + " " + a},
			{fmt.Sprintf("$%s.%02d", commas(n, ","), cents), fmt.Sprintf("%d.%02d", n, cents)},
			{fmt.Sprintf("%d.%02d %s", n, cents, a), fmt.Sprintf("%s.%02d %s.", commas(n, ","), cents, strings.ToUpper(a))},
			{date(x), date(y)},
			{fmt.Sprintf("%04d%02d%02d h", year, month, day), fmt.Sprintf("%04d-%02d-%02d h", year, month, day)},
			{a + z + b, pick(a+b, a+" "+b, strings.ToUpper(a)+"-"+b)},
			{pick("(", "\"", "**", "- ", "# ", "") + a + " " + b + pick(")", "\"", "**", ".", "!", " "), a + b},
			{a + " " + fmt.Sprint(n) + pick("", ".", " "), a + pick(" ", "", "-", " #", ": ") + fmt.Sprint(n)},
			{fmt.Sprintf("%d, %s;%s", n, a, b), fmt.Sprintf("%d,%s, %s", n, strings.ToUpper(a), b)},
		}
		for i, f := range families {
			if !judge.QuestionScorer(&f[0], f[1]) {
				continue
			}
			credited++
			if got := collision(f[0], f[1]); got == numberDiffers || got == signDropped {
				t.Fatalf("family %d: %q for %q: %s", i, f[0], f[1], got)
			}
		}
	}
	if credited < 20000/long.Step(10) {
		t.Errorf("only %d pairs are credited", credited)
	}
}

// FuzzCollision: of any two texts there is one rule, the same for the two in either
// order where the scorer compares both ways, and none for a text and itself.
func FuzzCollision(f *testing.F) {
	for _, s := range []string{"1.50", "$150", "3/4", "C#", "a,b;1", "\xff-", "1,2,3", "-5 x", ".5.", "\u0130"} {
		f.Add(s, "x "+s)
		f.Add(s, strings.ReplaceAll(s, ".", ""))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := collision(a, a); got != "" {
			t.Errorf("%q differs from itself: %s", a, got)
		}
		if got := collision(a, strings.ToUpper(a)+" "); judge.QuestionScorer(&a, strings.ToUpper(a)+" ") && (got == numberDiffers || got == signDropped) {
			t.Errorf("%q: case and a space are %s", a, got)
		}
		x, y := collision(a, b), collision(b, a)
		text := !numeric(a) && !numeric(b) && !strings.ContainsAny(a+b, between)
		if text && judge.QuestionScorer(&a, b) && x != y {
			t.Errorf("%q and %q: %s one way, %s the other", a, b, x, y)
		}
	})
}
