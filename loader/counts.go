package loader

import "fmt"

// declaredLevels says how many tasks of level 1, 2 and 3 a split of GAIA has, by the dataset's own card.
func declaredLevels(split Split) [3]int {
	if split == Test {
		return [3]int{93, 159, 49}
	}
	return [3]int{53, 86, 26}
}

// Mismatch compares the split, whole as it was read, with what GAIA declares of it. It returns "" where they agree, and
// otherwise a sentence without its full stop. Whether the dataset claims to be GAIA is for the caller to know.
func (s Set) Mismatch() string {
	want := declaredLevels(s.Split)
	if s.Levels == want {
		return ""
	}
	sum := func(l [3]int) int { return l[0] + l[1] + l[2] }
	return fmt.Sprintf("split %s has %d tasks (%d/%d/%d by level), where GAIA has %d (%d/%d/%d)", s.Split,
		sum(s.Levels), s.Levels[0], s.Levels[1], s.Levels[2], sum(want), want[0], want[1], want[2])
}
