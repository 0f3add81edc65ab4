package long

import (
	"strconv"
	"testing"
)

// TestTurn: any n commits in a row take each case once, the thorough run alone takes all, and the quick run a part.
func TestTurn(t *testing.T) {
	t.Setenv(variable, "1")
	const cases, n, first = 20, 3, 1907
	for i := range cases {
		taken := 0
		for commit := first; commit < first+n; commit++ {
			t.Setenv(rotation, strconv.Itoa(commit))
			if Turn(i, n) {
				taken++
			}
			if Walk(i, 31) != Turn(i, 3) {
				t.Errorf("commit %d takes another part of a walk than its turn", commit)
			}
			if !Turn(i, 1) {
				t.Errorf("commit %d leaves out case %d of a walk that is not divided", commit, i)
			}
		}
		if taken != 1 {
			t.Errorf("%d commits take case %d %d times", n, i, taken)
		}
		for _, value := range []string{"", "-1", "HEAD"} {
			t.Setenv(rotation, value)
			if !Turn(i, n) {
				t.Errorf("with %s=%q case %d is left out", rotation, value, i)
			}
		}
	}
	t.Setenv(variable, "")
	t.Setenv(rotation, strconv.Itoa(first))
	for i := range cases {
		if Walk(i, 31) != (i%31 == 0) || Turn(i, n) != (i%n == 0) {
			t.Errorf("the quick run takes case %d: %t", i, Turn(i, n))
		}
	}
}
