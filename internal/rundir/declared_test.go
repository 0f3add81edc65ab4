package rundir

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
)

func TestMismatch(t *testing.T) {
	cases := []struct {
		name, split string
		levels      [3]int
		want        string
	}{
		{plan.GaiaName, "validation", [3]int{53, 86, 26}, ""},
		{plan.GaiaName, "test", [3]int{93, 159, 49}, ""},
		{"gaia-fixtures", "validation", [3]int{14, 17, 9}, ""},
		{"another/dataset", "validation", [3]int{1, 2, 3}, ""},
		{plan.GaiaName, "validation", [3]int{52, 86, 26}, "split validation has 164 tasks (52/86/26 by level), where GAIA has 165 (53/86/26)"},
		{plan.DirectoryName, "validation", [3]int{52, 87, 26}, "split validation has 165 tasks (52/87/26 by level), where GAIA has 165 (53/86/26)"},
		{plan.DirectoryName, "test", [3]int{53, 86, 26}, "split test has 165 tasks (53/86/26 by level), where GAIA has 301 (93/159/49)"},
	}
	for _, c := range cases {
		if got := (plan.Dataset{Name: c.name, Split: c.split, Levels: c.levels}).Mismatch(); got != c.want {
			t.Errorf("%s, %s %v: %q, want %q", c.name, c.split, c.levels, got, c.want)
		}
	}
}

// TestDatasetName: a name that can be mistaken for GAIA's is refused.
func TestDatasetName(t *testing.T) {
	for _, name := range []string{"", plan.GaiaName, plan.DirectoryName, "gaia-fixtures", "alice/my-gaia", "alice/GAIA", "Gaia-Benchmark/gaia", "invented"} {
		if err := plan.CheckDatasetName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"gaia-benchmark/GAΙA", "gaia-benchmark/GАIA", "gaia-benchmark/GAIA\u200b", "gaia\u00adbenchmark/GAIA", "gaia‐benchmark/GAIA", "ｇaia-benchmark/GAIA",
		"gaia-benchmark/GAIA ", "gaia-benchmark/GAlA", "gaia-benchmark/GA1A", "gala-benchmark/GAIA", "gaia-benchrnark/GAIA", "gaia-benchmark/GAIA\n", "gaia-benchmark/\x1bGAIA"} {
		m := planOf(t, "a", "b")
		m.Dataset.Name = name
		if _, err := plan.Decode(encodePlan(t, m)); err == nil || !strings.Contains(err.Error(), "manifest.json: the dataset name ") {
			t.Errorf("%q: %v", name, err)
		}
	}
	m := planOf(t, "a", "b")
	m.Dataset.Selection = "the hard ones"
	if _, err := plan.Decode(encodePlan(t, m)); err == nil || !strings.Contains(err.Error(), `selection "the hard ones" is not a label that this version knows`) {
		t.Errorf("%v", err)
	}
}
