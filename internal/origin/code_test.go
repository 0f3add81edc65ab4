package origin

import (
	"slices"
	"strings"
	"testing"
)

// TestCode: calls count in all forms in which agents read them out of texts, but for those of tools whose results are recorded.
func TestCode(t *testing.T) {
	gate := []string{"web_search", "calculate"}
	for text, want := range codeTexts {
		if got := Code(text, gate); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if !Code("Action: web_search\nAction Input: x", nil) {
		t.Error("a call of a tool that nothing records")
	}
}

// codeTexts says which texts are code or call a tool that is not recorded.
var codeTexts = map[string]bool{
	"It is 42.":                          false,
	"```\nx = 1\n```":                    true,
	"I import goods.":                    true, // may be
	"Take action: it is late (or not).":  false,
	"Action: none needed. The input is.": false,
	"Thought: sums.\nAction: adder\nAction Input: 1000, 35":                        true,
	"**Action:** `adder`\n**Action Input:** {\"a\": 1000}":                         true,
	"Action 2: Search[tower clock]":                                                true,
	"Action: web_search\nAction Input: tower clock":                                false,
	"Action: web_search\nAction Input: clock\nAction: adder\nAction Input: 1, 2":   true,
	`<tool_call>{"name": "adder", "arguments": {"a": 1}}</tool_call>`:              true,
	`<tool_call>{"name": "calculate", "arguments": {"a": 1}}</tool_call>`:          false,
	"<tool_call>\nadder 1 2":                                                       true,
	"<function=adder>{\"a\": 1}</function>":                                        true,
	"<function=gaia_web_search>{}</function>":                                      false,
	"<function=mcp__gaia__web_search>{}</function>":                                false,
	`<function_calls><invoke name="adder"><parameter name="a">1</parameter>`:       true,
	`{"action": "adder", "action_input": "1, 2"}`:                                  true,
	`{"thought": "sums", "action": "adder", "action_input": "1, 2"}`:               true,
	`{"action_input": "1, 2", "action": "adder"}`:                                  true,
	`Let me see. {"name":"adder","arguments":{"a":1}}`:                             true,
	`{"arguments":{"a":1},"name":"adder"}`:                                         true,
	`{"name": "calculate", "arguments": {"expression": "1000+35"}}`:                false,
	`{"name": "Odile Varn", "town": "Brellin"}`:                                    false,
	`{"answer": "Brellin", "reason": "the museum has the papers of the workshop"}`: false,
}

// FuzzCallForms: what a form finds has one of its marks.
func FuzzCallForms(f *testing.F) {
	for text := range codeTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, form := range calls() {
			if found := strings.ToLower(form.find.FindString(text)); found != "" && !slices.ContainsFunc(form.marks, func(mark string) bool { return strings.Contains(found, mark) }) {
				t.Errorf("%q has none of %q", found, form.marks)
			}
		}
	})
}
