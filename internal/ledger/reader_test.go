package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestUnrecorded: of many runs without evidence some are named, and the others counted.
func TestUnrecorded(t *testing.T) {
	named := strings.Repeat("x, ", maxNamed-1) + "x"
	for n, want := range map[int]string{
		0:            "",
		1:            "recording failed: 1 run went on without evidence: x\n",
		maxNamed:     fmt.Sprintf("recording failed: %d runs went on without evidence: %s\n", maxNamed, named),
		maxNamed + 2: fmt.Sprintf("recording failed: %d runs went on without evidence: %s and 2 more\n", maxNamed+2, named),
	} {
		if got := (Shortfall{RecordingFailed: slices.Repeat([]string{"x"}, n)}).Unrecorded(); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
}
