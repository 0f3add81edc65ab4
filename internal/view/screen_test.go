package view

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// TestFit: tables fit a width, whole words are coloured, and other text stays as it is.
func TestFit(t *testing.T) {
	table := NewTable("task", "outcome", "answer", "calls")
	table.Row("fab1e005-0000-4000-8000-000000000005", "solved", "灯台 of the harbour, which the quay master keeps", 12)
	table.Row("fab1e006-0000-4000-8000-000000000006", "failed", "failed to answer", 3)
	table.Row("fab1e007\x1b[31m", "error", "x", 4)
	whole := "before\n\n" + table.String() + "\n\nHIGH AUD-1: found\n    HIGH AUD-2: of a page\ngaia: error: why\n"
	if got := fit(whole, 200, false); got != whole {
		t.Errorf("a wide screen without colours shows other text:\n%s\nfor\n%s", got, whole)
	}
	got := fit(whole, 60, false)
	for line := range strings.Lines(got) {
		if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	words := strings.Join(strings.Fields(got), " ")
	for _, want := range []string{"fab1e005-", "…", "灯台", "master", "keeps", "solved", " 12 ", `\u001b`} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("there are escapes without colours: %q", got)
	}
	got = fit(whole, 60, true)
	red, end := text.FgRed.EscapeSeq(), text.Reset.EscapeSeq()
	for want, times := range map[string]int{red + "failed" + end: 1, red + "error" + end: 1, "\n" + red + "HIGH" + end + " AUD-1": 1, "    HIGH AUD-2": 1,
		"gaia: " + red + "error:" + end + " why": 1, "\x1b": 10} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%q is there %d times, want %d:\n%q", want, n, times, got)
		}
	}
	for line := range strings.Lines(got) {
		if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns in colour: %q", n, line)
		}
	}
	for _, same := range []string{"", "\n", `{"a":"failed"}` + "\n", "    a table of a page\n    ─────────────────\n", strings.Repeat("x", 100) + "\nshort\n"} {
		if got := fit(same, 20, true); got != same {
			t.Errorf("%q is shown as %q", same, got)
		}
	}
}

// TestFitKeepsCells: accents and vowels take no column, and a long word below several ones, such as a path, is not cut.
func TestFitKeepsCells(t *testing.T) {
	table := NewTable("what", "found", "used for")
	table.Row("key", "the file that is named", "signs")
	table.Row("key", "/home/someone/.config/gaia/keys/signing", "signs the plan")
	table.Row("e\u0301e\u0301e\u0301e\u0301", "ที่นี่ ที่นี่", "x")
	got := fit(table.String(), 44, false)
	lines := strings.Split(got, "\n")
	for i, line := range lines {
		if n := text.StringWidthWithoutEscSequences(line); n != text.StringWidthWithoutEscSequences(lines[0]) || n > 44 {
			t.Errorf("line %d has %d columns:\n%s", i, n, got)
		}
	}
	for _, want := range []string{"e\u0301e\u0301e\u0301e\u0301 ", "ที่นี่ ที่นี่ ", " signs the plan"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "…") || !strings.Contains(got, "keys/signing") {
		t.Errorf("the path is cut:\n%s", got)
	}
}

// TestFitEastAsian: a rule is as wide as the table where the locale has wide characters.
func TestFitEastAsian(t *testing.T) {
	text.OverrideRuneWidthEastAsianWidth(true)
	defer text.OverrideRuneWidthEastAsianWidth(false)
	table := NewTable("task", "answer")
	table.Row("fab1e005-0000-4000-8000-000000000005", "灯台 of the harbour")
	got := fit(table.String(), 30, false)
	for i, line := range strings.Split(got, "\n") {
		if n := text.StringWidthWithoutEscSequences(line); n > 30 {
			t.Errorf("line %d has %d columns:\n%s", i, n, got)
		}
	}
}

// FuzzFit: nothing is lost of text without tables, and nothing panics.
func FuzzFit(f *testing.F) {
	f.Add(" a  b \n──────────\n c  d \n")
	f.Add(" 灯台 b     \n────────────\n c      d   \n x")
	f.Fuzz(func(t *testing.T, s string) {
		got := fit(s, 40, true)
		if !strings.Contains(s, ruled) && !coloured.MatchString(s) && !strings.Contains(s, "\n") && got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	})
}
