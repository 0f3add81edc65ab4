package stats

import "testing"

// TestGreater holds the tests to values that were computed with scipy.stats.fisher_exact and binomtest, alternative
// "greater", and to those that can be counted.
func TestGreater(t *testing.T) {
	for _, tt := range []struct {
		right, n, otherRight, others int
		want                         int64
	}{
		{1, 1, 0, 1, 500_000},   // 1 of 2 choices
		{2, 2, 0, 2, 166_667},   // 1 of 6
		{0, 5, 3, 5, 1_000_000}, // whatever is chosen
		{0, 0, 0, 0, 1_000_000},
		{8, 8, 0, 8, 78}, // 1 of 12870
		{8, 8, 4, 8, 38_462},
		{8, 8, 2, 12, 358}, // 45 of 125970
	} {
		if got := Greater(tt.right, tt.n, tt.otherRight, tt.others); got != tt.want {
			t.Errorf("%d of %d against %d of %d: %d, want %d", tt.right, tt.n, tt.otherRight, tt.others, got, tt.want)
		}
	}
	for _, tt := range []struct {
		right, n int
		want     int64
	}{{8, 8, 3907}, {10, 10, 977}, {0, 4, 1_000_000}, {3, 4, 312_500}} {
		if got := GreaterThanHalf(tt.right, tt.n); got != tt.want {
			t.Errorf("%d of %d against half: %d, want %d", tt.right, tt.n, got, tt.want)
		}
	}
}
