package audit_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// unparted are the cases of which the two parts together are nothing that an honest
// run does not have, each with the reason.
func unparted() map[string]string {
	const (
		ofMany   = "two other tasks' answers are below the bound of three, and an answer apart from its key or label is a fact"
		ofID     = "the first digits of an id are digits as others are, and an answer that is not behind them is a fact"
		searched = "the query says the question, which the result may echo, and an answer apart from its label is a fact"
	)
	return map[string]string{
		"AUD-01/fires-many-by-question.txt":         ofMany,
		"AUD-01/fires-many-by-start-of-id.txt":      ofMany,
		"AUD-01/fires-many-labelled.txt":            ofMany,
		"AUD-01/fires-many-numbered.txt":            ofMany,
		"AUD-01/fires-searched-json.txt":            searched,
		"AUD-01/fires-searched-no-echo.txt":         searched,
		"AUD-01/fires-searched-snippet.txt":         searched,
		"AUD-01/fires-start-of-id-among-others.txt": ofID,
		"AUD-01/fires-start-of-id-groups.txt":       ofID,
		"AUD-01/fires-start-of-id.txt":              ofID,
	}
}

// TestLeakParted: a leak whose answer stands in another result than the task is
// not passed over: one of the parts alone, or both together, are found. Those of
// unparted are not, and no others.
func TestLeakParted(t *testing.T) {
	t.Parallel()
	tried, unparted := 0, unparted() // but for those that are parted as they are
	for name, text := range texts(t, "AUD-01/"+fires+"*.txt") {
		c := parsed(t, name, text)
		golds := slices.Collect(maps.Values(c.Gold()))
		parts := 0
		changed := sections(text).mapped(func(s section) []section {
			addresses, document := checkPartedLeak(s.body)
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
		got := check(t, hold(t, parsed(t, name, changed.String())).report, "AUD-1")
		found, reason := got.Status == audit.Fail || got.Status == audit.Review, unparted[name]
		delete(unparted, name)
		if found != (reason == "") {
			t.Errorf("%s in two parts: AUD-1 is %s: %s, though %q", name, got.Status, reasons(got), reason)
		}
	}
	for name := range unparted {
		t.Errorf("%s was not parted", name)
	}
	if tried < 6 {
		t.Errorf("only %d cases were parted", tried)
	}
}
