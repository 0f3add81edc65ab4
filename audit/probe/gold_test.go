package probe

import (
	"slices"
	"strings"
	"testing"
)

func TestGoldHits(t *testing.T) {
	tests := []struct {
		gold, document string
		want           int
	}{
		{"1,234.50", "1234.5; $1,234.50, 1234.5%; 01234.500 and (1,234.5).", 5},
		{"1,234.50", "1234.51 11234.5 1,234.5.6 1234.5kg x1234.5 1234,5 -1234.5 12,34.5 1.234.5", 0},
		{"$1,234.5", "1234.5", 1},
		{"1234.5 %", "1234.5", 1},
		{"-4000", "-4000 −4000 (-4000)", 3},
		{"-4000", "4000 3-4000 a-4000", 0},
		{"4000", "3-4000, a 4000, 4,000", 3},
		{"4000", "40000 04000 4000.0 4000.01 4000th v4000", 2},
		{"0.125", ".125 0.125 (.125) 1.125 a.125", 3},
		{"1998", "1996,1997,1998", 1},
		{"1998", "1998,7kg", 1},
		{"1998", "1998-04-01, 1998.", 2},
		{"1998", "http://a.example/1998/x", 1},
		{"2,345", "1,2,345 12,345 2,345", 1},
		{"Grey Heron", "GREY HERON, grey-heron; Grey\u00a0Heron <i>Grey</i> <b>Heron</b> Grey. Heron", 5},
		{"Grey Heron", "grey herons, greyheron, grey old heron; Heron Grey", 0},
		{"naïve", "nai\u0308ve NAÏVE na&iuml;ve na\\u00efve", 4},
		{"a b a b", "a b a b a b", 2},
		{"ash, oak, elm", "elm and oak and ash", 1},
		{"ash, oak, elm", "elm and oak and ash; ash, elm, oak; ash", 2},
		{"ash, oak, elm", "elm and oak" + strings.Repeat(" and so on", 40) + " and ash", 0},
		{"ash; oak; 12", "12 ash, oak", 1},
		{"1,234; 17.5", "17.50 of 1234", 1},
		{"ash, , ash", "ash and ash", 2}, // a list of one
		{"heron,", "a heron", 1},
		{"4000", "v3.4000 3.4000", 0},
		{"elm", "an elm", 0},
		{"elms", "the elms", 1},
		{"7", "7", 0},
		{"7", "answer: 7", 1},
		{"7", "Answers: 7", 0},
		{"…", "… … answer: …", 0},
		{"word", strings.Repeat("word ", 5000), mostHits},
	}
	for _, tt := range tests {
		if got := New(withGold(tt.gold)).Probe(tt.document, "", nil).GoldHits; got != tt.want {
			t.Errorf("%q in %.60q: %d hits, want %d", tt.gold, tt.document, got, tt.want)
		}
	}
}

func TestGoldLabels(t *testing.T) {
	tests := []struct {
		gold, document string
		want           bool
	}{
		{"Grey Heron", "The answer is Grey Heron", true},
		{"Grey Heron", `"ground_truth": "Grey Heron"`, true},
		{"Grey Heron", "Ground truth - Grey Heron", true},
		{"Grey Heron", "Ground truth ---------- Grey Heron", true},
		{"Grey Heron", "Ground truth ----------- Grey Heron", false},
		{"Grey Heron", "ground-level truth: Grey Heron", false},
		{"Grey Heron", "Correct! Grey Heron", true},
		{"Grey Heron", "Incorrect! Grey Heron", false},
		{"Grey Heron", "unanswered: Grey Heron", false},
		{"Grey Heron", "answer " + strings.Repeat("-", 16) + " Grey Heron", true},
		{"Grey Heron", "answer " + strings.Repeat("-", 17) + " Grey Heron", false},
		{"Grey Heron", "answer " + strings.Repeat("→", 16) + " Grey Heron", true},
		{"Grey Heron", "Grey Heron is the answer", false},
		{"solution of salt", "a solution of salt", false},
		{"solution of salt", "expected: solution of salt", true},
		{"gold", "gold", false},
		{"gold", "gold: gold", true},
		{"ash, oak", "oak; answer: ash, oak", true},
		{"ash, oak", "answer: ash", false},
		{"12.5", "solution = 12.50", true},
		{"12.5", "12.5 solution", false},
	}
	for _, tt := range tests {
		if got := New(withGold(tt.gold)).Probe(tt.document, "", nil).GoldLabelNear; got != tt.want {
			t.Errorf("%q in %q: %v", tt.gold, tt.document, got)
		}
	}
}

func TestCanonicalText(t *testing.T) {
	long := "<a title=\"" + strings.Repeat("x", longestTag) + "\">"
	tests := []struct{ in, want string }{
		{"A < b and c > d", "a < b and c > d"},
		{"if a <b and c then d> e", "if a <b and c then d> e"},
		{"<p class='A B' id=x hidden>T</p>", "\nt\n"},
		{"x<br/>y<td>z", "x\ny\tz"},
		{"a<!-- B -->c", "a  b -->c"},
		{"<!DOCTYPE html PUBLIC \"-//W3C//DTD\" strict><![CDATA[X]]>", "  x]]>"},
		{"<b", "<b"},
		{"<Grey Heron> <answer>X</answer> <https://a.example/x> <a@b.example>", "<grey heron> <answer>x</answer> <https://a.example/x> <a@b.example>"},
		{"<H1>x</H1 ><h7>", "\nx\n<h7>"},
		{"<a href=x title='a > b'>y", " y"},
		{"<a say it twice>", "<a say it twice>"},
		{"<3 <a<b>", "<3 <a "},
		{long, strings.ToLower(long)},
		{"&amp;lt;b&amp;gt;X", " x"},
		{"&amp;amp;amp;amp;", "&amp;"},
		{"&#72;&#x49;&eacute;&nosuch;&amp", "hie&nosuch;&amp"},
		{`a\nb\tc\/d\"e\\f`, "a\nb\tc/d\"e "},
		{`task\_id \u0041\ud83d\ude00\ud83d \uzzzz \q`, "task_id a😀\ufffd \\uzzzz \\q"},
		{"ＡＢ① ﬁ\u00ad\u200bx", "ab1 fix"},
		{"É \ufdfa É\ufdfa", "e \ufdfa e\ufdfa"},
		{"Ångström Łódź Straße Ærø señor", "angstrom lodz strasse aero senor"},
		{"е\u0308ё й が 각 ά", "ee и が 각 a"},
		{"ОАВС Ηellο ＷＯＲＤ 𝐚 ᴀ", "oabc hello word a a"},
		{"re\u00ad\nst re\u00adst re\u2011st", "re-\nst rest re-st"},
		{"a<wbr>b a<b>b</b>c a<b> b</b> a</b><i>b", "ab a\x01b\x01c a  b  a\x01b"},
		{`\x41\xe9\x0a\xzz`, `a\xe9\x0a\xzz`},
		{"a\xffb", "a\ufffdb"},
		{"\\", "\\"},
	}
	for _, tt := range tests {
		if got := canonical(tt.in); got != tt.want {
			t.Errorf("%.60q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// What a search for many sequences at once finds is what one search each finds.
func TestAutomaton(t *testing.T) {
	sequences := [][]uint32{{1}, {1, 1}, {2, 1}, {1, 2, 1, 2}, {2}, {3, 1, 2}, {1, 2, 1}}
	a := newAutomaton(sequences)
	for text := range 1 << 14 { // seven words of 0 to 3
		words := make([]uint32, 7)
		for i := range words {
			words[i] = uint32(text >> (2 * i) & 3)
		}
		state := int32(0)
		for end := range words {
			state = a.step(state, words[end])
			found := map[int]bool{}
			for _, i := range a.found[state] {
				found[i] = true
			}
			for i, s := range sequences {
				stands := end+1 >= len(s) && slices.Equal(words[end+1-len(s):end+1], s)
				if stands != found[i] {
					t.Fatalf("%v at %d of %v: found %v", s, end, words, found[i])
				}
			}
		}
	}
}
