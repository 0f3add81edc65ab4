package audit_test

import (
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// TestNothingNoted: what is near to a mere note is not noted either, which the
// status of a check does not show.
func TestNothingNoted(t *testing.T) {
	for name, id := range map[string]string{
		"AUD-20/near-not-above.txt": "AUD-20", "AUD-20/near-colon-refused.txt": "AUD-20", "AUD-19/near-none.txt": "AUD-19", "AUD-19/near-not-available.txt": "AUD-19",
		"AUD-19/near-kind-judge.txt": "AUD-19", "AUD-05/near-other-number-counted-wrong.txt": "AUD-5", "AUD-05/near-judge-alone.txt": "AUD-5", "honest/sign.txt": "AUD-5",
	} {
		c, found := corpus(t)[name]
		if !found {
			t.Errorf("there is no case %s", name)
			continue
		}
		if got := check(t, audited(t, c, true), id); got.Status != audit.Pass || len(got.Findings) > 0 {
			t.Errorf("%s: %s is %s: %s", name, id, got.Status, reasons(got))
		}
	}
}
