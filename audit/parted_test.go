package audit_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// TestLeakParted: a leak whose answer stands in another result than the task is
// not passed over: one of the parts alone, or both together, are found.
func TestLeakParted(t *testing.T) {
	t.Parallel()
	tried := 0 // but for those that are parted as they are
	for name, text := range texts(t, "AUD-01/"+fires+"*.txt") {
		c := parsed(t, name, text)
		golds := slices.Collect(maps.Values(c.Gold()))
		parts := 0
		changed := sections(text).mapped(func(s section) []section {
			addresses, document := parted(s.body)
			at := -1
			for _, gold := range golds {
				at = max(at, strings.LastIndex(document, gold))
			}
			if !strings.HasPrefix(s.header, "call web_") || at <= 0 {
				return []section{s}
			}
			parts++
			rest := section{s.header, addresses + document[at:]}
			s.body = addresses + document[:at]
			return []section{s, rest}
		})
		if parts == 0 || strings.Contains(name, "split") || strings.Contains(text, "-- patch tool_executed") {
			continue
		}
		tried++
		if got := check(t, hold(t, parsed(t, name, changed.String())).report, "AUD-1"); got.Status != audit.Fail && got.Status != audit.Review {
			t.Errorf("%s in two parts: AUD-1 is %s: %s", name, got.Status, reasons(got))
		}
	}
	if tried < 6 {
		t.Errorf("only %d cases were parted", tried)
	}
}
