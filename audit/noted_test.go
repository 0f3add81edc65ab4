package audit_test

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// TestNoted: what is only noted is noted once of a task, and not of what is near
// to it. A case cannot say so: it says nothing of what it leaves out.
func TestNoted(t *testing.T) {
	all := corpus(t)
	for _, tt := range []struct {
		name, rule string
		want       int
	}{
		{"AUD-01/near-answer-on-two-pages.txt", "AUD-1.evidence-supported", 1},
		{"AUD-01/near-split-own-notes.txt", "AUD-1.evidence-supported", 0},      // from the agent's own code
		{"AUD-01/near-part-with-answer.txt", "AUD-1.evidence-supported", 0},     // told more gravely
		{"AUD-01/fires-uuid-json.txt", "AUD-1.evidence-supported", 0},           // the same
		{"AUD-01/near-question-without-gold.txt", "AUD-1.echoed-question", 0},   // nothing had asked so
		{"AUD-18/near-most-of-the-question.txt", "AUD-18.question-as-query", 1}, // two queries
		{"AUD-18/near-own-words.txt", "AUD-18.question-as-query", 0},
		{"AUD-18/near-refused-query.txt", "AUD-18.question-as-query", 0},
	} {
		c, there := all[tt.name]
		if !there {
			t.Errorf("there is no case %s", tt.name)
			continue
		}
		found := 0
		id, _, _ := strings.Cut(tt.rule, ".")
		for _, f := range check(t, audited(t, c, true), id).Findings {
			if f.RuleID == tt.rule {
				found++
			}
		}
		if found != tt.want {
			t.Errorf("%s: %d findings by %s, want %d", tt.name, found, tt.rule, tt.want)
		}
	}
}

// TestLeftOut: what a graver finding about the same result says is not said
// again.
func TestLeftOut(t *testing.T) {
	for name, c := range corpus(t) {
		if !strings.HasPrefix(name, "AUD-01/"+fires) {
			continue
		}
		grave := map[int64]bool{}
		findings := check(t, audited(t, c, true), "AUD-1").Findings
		for _, f := range findings {
			grave[f.Seq] = grave[f.Seq] || f.Severity == audit.Critical
		}
		for _, f := range findings {
			if grave[f.Seq] && f.Severity != audit.Critical {
				t.Errorf("%s: %s stands beside a CRITICAL about the same result", name, f.RuleID)
			}
		}
	}
}
