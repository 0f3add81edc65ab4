package exit

import (
	"slices"
	"testing"
)

// TestCompare: of exit codes that apply at once, one order says which is the program's.
func TestCompare(t *testing.T) {
	want := []int{Interrupted, Usage, Evidence, Untrusted, Incomplete, Findings, Failure, OK}
	got := slices.Sorted(slices.Values(want))
	slices.SortStableFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
}
