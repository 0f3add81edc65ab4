package stats

import "math/big"

const million = 1_000_000

// Rate is a proportion with its Wilson interval (z = 1.96), in parts per million.
type Rate struct {
	AccuracyPPM   int64 `json:"accuracy_ppm"`
	Correct       int   `json:"correct"`
	Planned       int   `json:"planned"`
	WilsonHighPPM int64 `json:"wilson_high_ppm"`
	WilsonLowPPM  int64 `json:"wilson_low_ppm"`
}

// NewRate computes a rate with integers alone, so that every machine gets the same one; results are rounded to the
// nearest part per million.
func NewRate(correct, planned int) Rate {
	r := Rate{Correct: correct, Planned: planned}
	if planned == 0 {
		return r
	}
	r.AccuracyPPM = (2*int64(correct)*million + int64(planned)) / (2 * int64(planned))
	r.WilsonLowPPM, r.WilsonHighPPM = wilson(int64(correct), int64(planned))
	return r
}

// wilson returns the Wilson score interval at z = 1.96:
//
//	(2k + z² ± z·√(z² + 4k(n−k)/n)) / (2(n + z²))
//
// With z = 196/100 both halves are multiplied by 10⁴·n to be whole; the root is taken of a number scaled by 10²⁴, so
// its error is far below one part per million.
func wilson(k, n int64) (low, high int64) {
	const z, z2, s = 196, 196 * 196, 10_000 // z·100, z²·10⁴
	root := scale(12)
	// z²·n + 4k(n−k), over n, times 10⁴ = (z2·n + 4k(n−k)·s)
	under := new(big.Int).Add(mul(z2, n), mul(4*s, k, n-k))
	// √(under/(n·s)) · 10¹² = √(under·10²⁴/(n·s))
	under.Mul(under, scale(24)).Quo(under, mul(n, s))
	spread := new(big.Int).Sqrt(under) // ·10¹²
	spread.Mul(spread, mul(z, s/100))  // z·s·√…, ·10¹²
	middle := new(big.Int).Add(mul(2*s, k), big.NewInt(z2))
	middle.Mul(middle, root)
	below := new(big.Int).Add(mul(s, n), big.NewInt(z2))
	below.Mul(below, big.NewInt(2)).Mul(below, root)
	low = ppm(new(big.Int).Sub(middle, spread), below)
	high = ppm(new(big.Int).Add(middle, spread), below)
	return low, high
}

// ppm returns a/b in parts per million, to the nearest, within 0 and 10⁶.
func ppm(a, b *big.Int) int64 {
	a.Mul(a, big.NewInt(2*million)).Add(a, b)
	q := a.Div(a, new(big.Int).Mul(b, big.NewInt(2))).Int64()
	return min(max(q, 0), million)
}

func mul(first int64, rest ...int64) *big.Int {
	p := big.NewInt(first)
	for _, f := range rest {
		p.Mul(p, big.NewInt(f))
	}
	return p
}

func scale(digits int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil) }
