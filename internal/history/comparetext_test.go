package history

import "testing"

// TestDifferencesAsText: a difference has its sign, and a p-value is never 0.
func TestDifferencesAsText(t *testing.T) {
	micro := func(n int64) *int64 { return &n }
	for _, c := range []struct{ got, want string }{
		{signedPercent(-123_400), "-12.3 %"}, {signedPercent(0), "0.0 %"}, {signedPercent(25_000), "+2.5 %"},
		{signedDollars(nil), "unknown"}, {signedDollars(micro(0)), "$0.000000"}, {signedDollars(micro(-1_500_000)), "-$1.500000"}, {signedDollars(micro(7)), "+$0.000007"},
		{pValue(0), "< 0.000001"}, {pValue(1), "= 0.000001"}, {pValue(62_500), "= 0.062500"}, {pValue(1_000_000), "= 1.000000"},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
}
