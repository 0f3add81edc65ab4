package judge

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

type vector struct {
	Category   string  `json:"category,omitempty"`
	Prediction *string `json:"prediction"`
	Gold       string  `json:"gold"`
	Correct    bool    `json:"correct,omitzero"`
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/question_scorer.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []vector
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVectors(t *testing.T) {
	all := readVectors(t)
	if len(all) != 203 {
		t.Errorf("%d vectors, want 203", len(all))
	}
	for _, v := range all {
		if got := QuestionScorer(v.Prediction, v.Gold); got != v.Correct {
			t.Errorf("%s: %.80q for %.80q is %v, want %v", v.Category, *v.Prediction, v.Gold, got, v.Correct)
		}
	}
}

// Inputs on which Python and Go read text or numerals differently.
// TestInteropVerdicts puts the same pairs to Python.
func TestQuestionScorer(t *testing.T) {
	for _, v := range pinned() {
		if got := QuestionScorer(v.Prediction, v.Gold); got != v.Correct {
			t.Errorf("%s: %.80q for %.80q is %v, want %v", v.Category, show(v.Prediction), v.Gold, got, v.Correct)
		}
	}
}

func show(s *string) string {
	if s == nil {
		return "<None>"
	}
	return *s
}

func pinned() []vector {
	var all []vector
	add := func(category string, correct bool, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, vector{category, &pairs[i], pairs[i+1], correct})
		}
	}
	none := func(gold string, correct bool) {
		all = append(all, vector{"None", nil, gold, correct})
	}
	none("None", true)
	none("none.", true)
	none("", false)
	none("42", false)
	none("inf", true)
	none("None, a", false)
	none(",", false)

	zeros := strings.Repeat("0", 200000)
	add("exponents", true,
		"0."+zeros+"1e200001", "1",
		"1"+zeros+"e-200000", "1",
		"1e99999999999999999999", "inf",
		"-1e99999999999999999999", "-inf",
		"1e-99999999999999999999", "0",
		"0e99999999999999999999", "0",
		"-0e100000", "0",
		"1e000000000000000002", "100",
		"0.000012e100000", "Infinity",
		"1"+strings.Repeat("0", 308), "1e308",
		"2.4703282292062328e-324", "5e-324",
		"179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792", "inf",
	)
	add("exponents", false, "1e5e", "100000", "1e", "1", "1e+", "1", "e5", "100000", ".e1", "0", "1e1e1", "10")

	add("underscores", true, "1_0.0_1e0_1", "100.1", "0_0", "0", "\u0661_\u0662", "12")
	add("underscores", false, "_1", "1", "1_", "1", "1__0", "10", "1_.0", "1", "1._0", "1", "1e_1", "10", "1_e1", "10", "-_1", "-1", "in_f", "5")

	add("words", true, "-INFINITY", "-inf", "+Inf", "inf", "$i%n,f", "inf", "  x ", " +iNfInItY ")
	add("words", false, "nan", "nan", "-nan", "-NaN", "x", "nan", "infinit", "-inf", "inf", "-inf", "n\u0131f", "-inf", "\u017f", "-inf")

	add("spaces", true, "\u00a01\u3000", "1", "\x0b1\x0c", "1", "1,\u2003", "1", "1$ ", "1", "a\x1cb", "ab", "a\u0085b\u2028c", "abc", "a \u1680,b", "a,b")
	add("spaces", false, "1\x1c", "1", "\u00851 1", "11", "1\u200b", "1", "\ufeff1", "1", "1\x00", "1", "\x7f1", "1", "a\u180eb", "ab", "a\u200bb", "ab", "+ 1", "1", "-\u00a01", "-1")

	add("digits", true, "\u0661\u0662", "12", "\U0001d7ce\U0001d7ff", "9", "1\U00016ac9", "19", "\u0967.\u096b", "1.5", "1e\u0663", "1000", "42", "\uff14\u0662")
	add("digits", false, "\u00b2", "2", "\u2460", "1", "\u4e00", "1", "\u2167", "8", "\uff0d1", "-1", "\u0661\u066b\u0662", "1.2", "\U00011f50", "0")

	add("amounts", true, "1", "$1", "$$1%%", "1", "-$1", "-1", "$-1", "-1", "1e,3", "1000", "1,_,0", "10", ",1,", "1", "1%e3", "1000")
	add("amounts", false, "", "1", "$", "0", "-,", "0", "\u20ac1", "1", "USD 1", "1")

	add("lists", true, "a;b", "a,b", "$1;%2", "1,2", "A ,B", "a,b", "x,1", "inf,1", ";", ",", "a.b,c", "A.B;C", "1_0,\u0662", "10,2")
	add("lists", false, "a,b,", "a,b", "a", "a,", "ab,c", "a b.,c", "nan,a", "nan,a", "a\uff0cb", "a,b", "1.,a", "1x,a", "", ",", "b,a", "a,b", "a\u061bb", "a;b")

	add("sigma", true,
		"\u0391\u03a3", "\u03b1\u03c2",
		"\u0391\u03a3\u0391", "\u03b1\u03c3\u03b1",
		"\u0391 \u03a3", "\u03b1\u03c2",
		"\u0391.\u03a3!", "\u03b1\u03c2",
		"\u0391-\u03a3", "\u03b1\u03c3",
		"\u03a3", "\u03c3",
		"\u0391\u03a3'\u0391", "\u03b1\u03c3\u03b1",
		"\u0391\u03a3-\u0391", "\u03b1\u03c2\u03b1",
		"\u0391\u03a31", "\u03b1\u03c21",
		"\u03a3\u03a3", "\u03c3\u03c2",
		"\u0391"+strings.Repeat("\u0301", 99)+"\u03a3", "\u03b1"+strings.Repeat("\u0301", 99)+"\u03c2",
		"\u0391\u03a3"+strings.Repeat("'", 99)+"\u0391", "\u03b1\u03c3\u03b1",
		"\u0130\u03a3", "i\u0307\u03c2",
		"\u02b0\u03a3", "\u02b0\u03c3",
		"\u0391\u02b0\u03a3", "\u03b1\u02b0\u03c2",
	)
	add("lower case", true, "\u0130", "i\u0307", "\u1e9e", "\u00df", "\u212a", "k", "\u01c5", "\u01c6", "\U0001e900", "\U0001e922", "\u10a0", "\u2d00", "\u1c90", "\u10d0", "\U00010570", "\U00010597")
	add("lower case", false, "\u0130", "i", "ss", "\u00df", "\ufb01", "fi", "\u0131", "i", "\u03c2", "\u03c3", "\u00b5", "\u03bc", "\u1e9e", "ss")

	add("punctuation", true, "", "!", "!\"#$%&'()*+-./:<=>?@[\\]^_`{|}~", "", "a_b", "ab", "...", " ")
	add("punctuation", false, "\u00bfa", "a", "a\u2026", "a", "\u2014", "-")
	return all
}

// What Python cannot hold has no verdict to agree with; it must not meet
// anything but itself.
func TestBytesThatAreNotUTF8(t *testing.T) {
	for _, c := range []struct {
		answer, gold string
		want         bool
	}{
		{"a\xff", "A\xff", true}, {"a\xff", "a\ufffd", false}, {"a\xff", "a\xfe", false}, {"1\xff", "1", false},
		{"\xce", "\xce\xa3", false}, {"\u0391\xff\u03a3", "\u03b1\xff\u03c3", true},
		// halves of surrogate pairs, which are no UTF-8 either
		{"a\xed\xa0\x80", "A\xed\xa0\x80", true}, {"\xed\xa0\x80", "\xed\xa0\x81", false}, {"\xed\xa0\xbd\xed\xb8\x80", "\U0001f600", false},
	} {
		if got := QuestionScorer(&c.answer, c.gold); got != c.want {
			t.Errorf("%q for %q is %v, want %v", c.answer, c.gold, got, c.want)
		}
	}
}

func TestNonFinite(t *testing.T) {
	for _, tc := range []struct {
		answer, gold string
		want         bool
	}{
		{"no idea", "inf", true},
		{"", "inf", true},
		{"no idea", "3", true},
		{"1, no idea", "1, inf", true},
		{"no idea; 1", "inf; 1", true},
		{"inf", "Infinity", false},
		{"Infinity", "inf", false},
		{"1, Infinity", "1, inf", false},
		{"$3%", "3", false},
		{"3", "inf", false},
		{"no idea", "Brellin", false},
		{"no, idea", "Brellin, Tolm", false},
		{"no idea", "Brellin, inf", false}, // of other lengths: no element is compared with the number
		{"no idea", "inf, Brellin", false},
		{"no idea, Brellin, x", "inf, Brellin", false},
	} {
		if got := NonFinite(tc.answer, tc.gold); got != tc.want {
			t.Errorf("NonFinite(%q, %q) is %v", tc.answer, tc.gold, got)
		}
	}
}

func TestBlank(t *testing.T) {
	for answer, want := range map[string]bool{
		"": true, " \t\n": true, "\u200b": true, "\x00\u00ad": true, "\u0301": true, "\u3164\u115f\u1160\uffa0": true, "\u2800": true, "\u2801": false,
		"\U0001d159": true, "\u20dd": true, "\ufffc": true, "\ue000": true, "\xff": true, "\ufffd": true, "a\u20dd": false, "\U00013441\U00013442": true, "\uffff": true, "\U00013440": true, "\U00013443": false, "\U0001d158": false,
		"...": false, "?": false, "0": false, "\u200bx": false, "e\u0301": false,
	} {
		if got := Blank(answer); got != want {
			t.Errorf("Blank(%q) is %v", answer, got)
		}
	}
}
