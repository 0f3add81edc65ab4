package ledger

import "fmt"

// What a plan calls a dataset that is, or may be, GAIA: its name on the hub, and a directory of the user's.
const (
	gaiaName      = "gaia-benchmark/GAIA"
	directoryName = "directory"
)

// declaredLevels says how many tasks of level 1, 2 and 3 a split of GAIA has, by the dataset's own card.
func declaredLevels(split string) [3]int {
	if split == "test" {
		return [3]int{93, 159, 49}
	}
	return [3]int{53, 86, 26}
}

// ClaimsGAIA reports whether the dataset is GAIA by its name, or a copy of what only the user knows.
func (d Dataset) ClaimsGAIA() bool { return d.Name == gaiaName || d.Name == directoryName }

// Mismatch compares the split, whole as it was read, with what GAIA declares of it. It returns "" where they agree or
// the dataset does not claim to be GAIA, and otherwise a sentence without its full stop.
func (d Dataset) Mismatch() string {
	want := declaredLevels(d.Split)
	if d.Levels == want || !d.ClaimsGAIA() {
		return ""
	}
	sum := func(l [3]int) int { return l[0] + l[1] + l[2] }
	return fmt.Sprintf("split %s has %d tasks (%d/%d/%d by level), where GAIA has %d (%d/%d/%d)", d.Split,
		sum(d.Levels), d.Levels[0], d.Levels[1], d.Levels[2], sum(want), want[0], want[1], want[2])
}
