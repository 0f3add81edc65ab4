package audit_test

import (
	"slices"
	"strings"
	"testing"
)

// TestUnheardEcho: where nothing shows what a call had said, a page with the
// question and the answer cannot be told from an echo, and the run is not clean.
// A page without the answer leaks nothing.
func TestUnheardEcho(t *testing.T) {
	const name = "AUD-01/near-question-of-a-redacted-address.txt"
	text := texts(t, name)[name]
	for story, want := range map[string]bool{
		text: true,
		strings.Replace(text, "Brellin it is, they say.", "No one knows.", 1): false,
	} {
		r := audited(t, parsed(t, name, story), true)
		got := slices.ContainsFunc(check(t, r, "AUD-1").Gaps, func(gap string) bool { return strings.Contains(gap, "the arguments that it may echo") })
		if got != want || got && r.Attestation.Clean {
			t.Errorf("a gap is %v, want %v; clean is %v", got, want, r.Attestation.Clean)
		}
	}
}
