package prompt

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFinalAnswer(t *testing.T) {
	for _, c := range []struct{ name, content, answer, rule string }{
		{"plain", "I counted them.\nFINAL ANSWER: 42", "42", ruleMarker},
		{"case and space", "final  answer :  Paris ", "Paris", ruleMarker},
		{"bold marker", "**FINAL ANSWER:** 3, 4", "3, 4", ruleMarker},
		{"bold line", "**FINAL ANSWER: 42**", "42", ruleMarker},
		{"bold answer", "FINAL ANSWER: **42**", "42", ruleMarker},
		{"code", "Final Answer: `x = 1`", "x = 1", ruleMarker},
		{"a star that is meant", "FINAL ANSWER: A*", "A*", ruleMarker},
		{"prose after", "FINAL ANSWER: 42\nI hope this helps.", "42", ruleMarker},
		{"the last one counts", "The format is FINAL ANSWER: [answer].\nFINAL ANSWER: 7", "7", ruleMarker},
		{"next line", "FINAL ANSWER:\n\n  left, right\nbye", "left, right", ruleNext},
		{"full-width colon", "Final answer：七", "七", ruleMarker},
		{"no marker", "The answer is 42", "", ""},
		{"marker and nothing", "FINAL ANSWER:\n \n", "", ""},
		{"empty", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := FinalAnswer(c.content)
			if ok != (c.answer != "") || got.Text != c.answer || got.Rule != c.rule {
				t.Errorf("FinalAnswer(%q) = %+v, %v; want %q by %q", c.content, got, ok, c.answer, c.rule)
			}
		})
	}
}

func TestFinalAnswerKeepsTheReasoning(t *testing.T) {
	got, _ := FinalAnswer("  Three and four.\nSo:\nFINAL ANSWER: 7")
	if want := "Three and four.\nSo:"; got.Reasoning != want {
		t.Errorf("reasoning is %q, want %q", got.Reasoning, want)
	}
}

func TestFinalAnswerCutsBetweenCharacters(t *testing.T) {
	long := strings.Repeat("ä", maxAnswer)
	got, ok := FinalAnswer(long + "\nFINAL ANSWER: x" + long)
	if !ok || len(got.Text) != maxAnswer-1 || !utf8.ValidString(got.Text) || len(got.Reasoning) > maxReasoning || !utf8.ValidString(got.Reasoning) {
		t.Errorf("answer of %d bytes, reasoning of %d, valid %v", len(got.Text), len(got.Reasoning), utf8.ValidString(got.Text))
	}
}

func FuzzFinalAnswer(f *testing.F) {
	f.Add("**FINAL ANSWER: 42**")
	f.Add("FINAL ANSWER:\n*")
	f.Fuzz(func(t *testing.T, content string) {
		got, ok := FinalAnswer(content)
		if ok != (got != Answer{}) || ok && (strings.TrimSpace(got.Text) == "" || len(got.Text) > maxAnswer || strings.Contains(got.Text, "\n")) {
			t.Errorf("FinalAnswer(%q) = %+v, %v", content, got, ok)
		}
	})
}
