package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/ledger"
)

// TestToolDifferences: of two lists of tools it is said which tools differ, how, and
// whose they are.
func TestToolDifferences(t *testing.T) {
	notes := ledger.ToolPlan{Name: "notes__find", Description: "Finds.", Server: "mcp:notes"}
	other := notes
	other.Description = "Finds more."
	none, host, given := notes, notes, notes
	none.Network, host.Network, given.Network, given.Env = "none", "host", "none", []string{"TOKEN"}
	var many []ledger.ToolPlan
	for i := range 10 {
		many = append(many, ledger.ToolPlan{Name: fmt.Sprintf("t%d", i)})
	}
	for name, tt := range map[string]struct {
		old, now []ledger.ToolPlan
		want     []string
	}{
		"same":      {[]ledger.ToolPlan{notes}, []ledger.ToolPlan{notes}, nil},
		"other":     {[]ledger.ToolPlan{notes}, []ledger.ToolPlan{other}, []string{"tools differ: notes__find of mcp:notes is described otherwise"}},
		"network":   {[]ledger.ToolPlan{none}, []ledger.ToolPlan{host}, []string{`tools differ: notes__find of mcp:notes has the network "host" instead of "none"`}},
		"variables": {[]ledger.ToolPlan{none}, []ledger.ToolPlan{given}, []string{`tools differ: notes__find of mcp:notes is given the variables ["TOKEN"] instead of []`}},
		"missing":   {[]ledger.ToolPlan{{Name: "python"}, notes}, many[:1], []string{"tools differ: notes__find of mcp:notes is missing, python is missing, t0 is new"}},
		"many":      {nil, many, []string{"tools differ: t0 is new, t1 is new, t2 is new, t3 is new, t4 is new, t5 is new, t6 is new, t7 is new, and 2 more"}},
		"twice":     {[]ledger.ToolPlan{notes, notes}, []ledger.ToolPlan{notes}, []string{"tools differ"}},
	} {
		old, now := ledger.NewManifest(), ledger.NewManifest()
		old.Tools, now.Tools = tt.old, tt.now
		got, err := Differences(old, now)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
