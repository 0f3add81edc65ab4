package stats

import (
	"math"
	"testing"
)

// TestRate compares the integers with the textbook formula in float64.
func TestRate(t *testing.T) {
	const z = 1.96
	for n := 1; n <= 200; n++ {
		for k := 0; k <= n; k++ {
			r := NewRate(k, n)
			p, m := float64(k)/float64(n), float64(n)
			center := (p + z*z/(2*m)) / (1 + z*z/m)
			half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
			for name, pair := range map[string][2]float64{
				"accuracy": {float64(r.AccuracyPPM), p}, "low": {float64(r.WilsonLowPPM), max(center-half, 0)}, "high": {float64(r.WilsonHighPPM), min(center+half, 1)},
			} {
				if math.Abs(pair[0]-pair[1]*1e6) > 0.501 { // half a step of rounding, and what float64 loses
					t.Errorf("%d of %d: %s is %.0f ppm, not %.3f", k, n, name, pair[0], pair[1]*1e6)
				}
			}
			if r.Correct != k || r.Planned != n || r.WilsonLowPPM > r.AccuracyPPM || r.AccuracyPPM > r.WilsonHighPPM {
				t.Errorf("%d of %d: %+v", k, n, r)
			}
			if k == 0 && r.WilsonLowPPM != 0 || k == n && r.WilsonHighPPM != million || k > 0 && r.WilsonLowPPM <= 0 || k < n && r.WilsonHighPPM >= million {
				t.Errorf("%d of %d: bounds %d and %d", k, n, r.WilsonLowPPM, r.WilsonHighPPM)
			}
		}
	}
	if got := NewRate(0, 0); got != (Rate{}) {
		t.Errorf("0 of 0: %+v", got)
	}
	for _, n := range []int{1 << 20, 1 << 30} {
		r := NewRate(n/2, n)
		if r.AccuracyPPM != million/2 || r.WilsonLowPPM+r.WilsonHighPPM != million {
			t.Errorf("%d of %d: %+v", n/2, n, r)
		}
	}
	// Newcombe, Statistics in Medicine 17 (1998), gives .0624 and .1605 for 15 of 148.
	if r := NewRate(15, 148); (r.WilsonLowPPM+50)/100 != 624 || (r.WilsonHighPPM+50)/100 != 1605 {
		t.Errorf("15 of 148: %+v", r)
	}
}
