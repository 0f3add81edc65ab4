package proxy

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
)

func TestHolds(t *testing.T) {
	p := &Proxy{}
	p.said.add(llm.Message{Content: "I think it is\nSão  Tomé, in 1,975."})
	p.said.add(llm.Message{ToolCalls: []llm.ToolCall{{Arguments: `{"answer":"caf\u00e9 \"noir\"","n":42}`}, {Arguments: `{"answer": broken`}}})
	for answer, want := range map[string]bool{"são tomé": true, "1975": true, "Café Noir": true, "42": true, "broken": true,
		"1975 café": false, "Lisbon": false, "": false, " ?! ": false} {
		if got := p.Holds(answer); got != want {
			t.Errorf("Holds(%q) = %t", answer, got)
		}
	}
}

// TestForgets: what is kept is bounded, and what is forgotten is not held any more.
func TestForgets(t *testing.T) {
	p := &Proxy{}
	p.said.add(llm.Message{Content: "first"})
	for range 5 {
		p.said.add(llm.Message{Content: strings.Repeat("word ", maxSaid/16) + "later"})
	}
	p.said.add(llm.Message{Content: strings.Repeat("x", 3*maxSaid) + "last"})
	if p.Holds("first") || p.Holds("later") || !p.Holds("last") || len(p.said.text) > maxSaid || cap(p.said.text) > 2*maxSaid {
		t.Errorf("%d bytes of %d are kept", len(p.said.text), cap(p.said.text))
	}
}
