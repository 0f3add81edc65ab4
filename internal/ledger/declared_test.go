package ledger

import "testing"

func TestMismatch(t *testing.T) {
	cases := []struct {
		name, split string
		levels      [3]int
		want        string
	}{
		{gaiaName, "validation", [3]int{53, 86, 26}, ""},
		{gaiaName, "test", [3]int{93, 159, 49}, ""},
		{"gaia-fixtures", "validation", [3]int{14, 17, 9}, ""},
		{"another/dataset", "validation", [3]int{1, 2, 3}, ""},
		{gaiaName, "validation", [3]int{52, 86, 26}, "split validation has 164 tasks (52/86/26 by level), where GAIA has 165 (53/86/26)"},
		{directoryName, "validation", [3]int{52, 87, 26}, "split validation has 165 tasks (52/87/26 by level), where GAIA has 165 (53/86/26)"},
		{directoryName, "test", [3]int{53, 86, 26}, "split test has 165 tasks (53/86/26 by level), where GAIA has 301 (93/159/49)"},
	}
	for _, c := range cases {
		if got := (Dataset{Name: c.name, Split: c.split, Levels: c.levels}).Mismatch(); got != c.want {
			t.Errorf("%s, %s %v: %q, want %q", c.name, c.split, c.levels, got, c.want)
		}
	}
}
