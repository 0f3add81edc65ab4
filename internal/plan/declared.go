package plan

import (
	"fmt"
	"strings"
)

// What a plan calls a dataset that is, or may be, GAIA: its name on the hub, and a directory of the user's.
const (
	GaiaName      = "gaia-benchmark/GAIA"
	DirectoryName = "directory"
)

// declaredLevels says how many tasks of level 1, 2 and 3 a split of GAIA has, by the dataset's own card.
func declaredLevels(split string) [3]int {
	if split == "test" {
		return [3]int{93, 159, 49}
	}
	return [3]int{53, 86, 26}
}

// ClaimsGAIA reports whether the dataset is GAIA by its name, or a copy of what only the user knows.
func (d Dataset) ClaimsGAIA() bool {
	return strings.EqualFold(d.Name, GaiaName) || d.Name == DirectoryName
}

// CheckDatasetName refuses a name that can be mistaken for GAIA's: one with characters
// other than printable ASCII, or with space at an end, and one whose owner or last part
// only looks like GAIA's, such as "GAlA" with a small L.
func CheckDatasetName(name string) error {
	if name != strings.TrimSpace(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("the dataset name %+q has characters that can be invisible or look like others", name)
	}
	alike := strings.NewReplacer("l", "i", "1", "i", "|", "i", "!", "i", "rn", "m")
	for _, part := range strings.Split(name, "/") {
		for _, genuine := range strings.Split(GaiaName, "/") {
			if !strings.EqualFold(part, genuine) && alike.Replace(strings.ToLower(part)) == strings.ToLower(genuine) {
				return fmt.Errorf("the dataset name %q looks like %q and is not", name, GaiaName)
			}
		}
	}
	return nil
}

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
