// Package stats computes what runs are compared by, without floating point where a result is signed or has to be the
// same on every machine: the Wilson interval of a rate, the exact McNemar test, and the interval of the paired
// bootstrap over all resamples, which is a convolution and draws nothing (TestRate, TestPairedStatistics). Rates and
// probabilities are in parts per million, money is in micro-USD.
package stats

import (
	"math/big"
)

// Share returns of ÷ all, by one division of 32-bit floats; 0 where all is 0.
func Share(of, all int) float32 {
	if all == 0 {
		return 0
	}
	return float32(of) / float32(all)
}

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
	root := power(10, 12)
	// z²·n + 4k(n−k), over n, times 10⁴ = (z2·n + 4k(n−k)·s)
	under := new(big.Int).Add(mul(z2, n), mul(4*s, k, n-k))
	// √(under/(n·s)) · 10¹² = √(under·10²⁴/(n·s))
	under.Mul(under, power(10, 24)).Quo(under, mul(n, s))
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

// McNemar returns the p-value of the exact two-sided McNemar test, in parts per million, rounded half up. Of n tasks
// that only one of two runs solved, the run that solved fewer of them solved k:
//
//	p = min(1, 2·Σ C(n,i)/2ⁿ over i ≤ k)
//
// It is computed with integers. A p-value is never 0, but one below half a part per million is rounded to it. The test
// is McNemar's (Psychometrika 12, 1947), with the binomial distribution in the place of its approximation.
func McNemar(onlyA, onlyB int) int64 {
	n, k := int64(onlyA)+int64(onlyB), int64(min(onlyA, onlyB))
	term, sum := big.NewInt(1), big.NewInt(1)
	for i := range k {
		term.Mul(term, big.NewInt(n-i)).Quo(term, big.NewInt(i+1)) // C(n,i+1)
		sum.Add(sum, term)
	}
	return ppm(sum.Lsh(sum, 1), new(big.Int).Lsh(big.NewInt(1), uint(n)))
}

// Greater returns the p-value of the exact one-sided test that a share of right answers is greater than another one: right
// of n, and otherRight of others. It is Fisher's test: of all ways to choose n of the n+others answers, how many choose
// at least as many right ones. It is computed with integers, in parts per million, rounded up, so that a p-value below a
// bound is below it.
func Greater(right, n, otherRight, others int) int64 {
	choose := func(n, k int) *big.Int { return new(big.Int).Binomial(int64(n), int64(k)) } // 0 for more than there are
	all, good := n+others, right+otherRight
	sum := new(big.Int)
	for k := right; k <= min(n, good); k++ {
		sum.Add(sum, new(big.Int).Mul(choose(good, k), choose(all-good, n-k)))
	}
	return ppmUp(sum, choose(all, n))
}

// GreaterThanHalf is [Greater] against a share of one half, which nothing was counted for.
func GreaterThanHalf(right, n int) int64 {
	sum := new(big.Int)
	for k := right; k <= n; k++ {
		sum.Add(sum, new(big.Int).Binomial(int64(n), int64(k)))
	}
	return ppmUp(sum, new(big.Int).Lsh(big.NewInt(1), uint(n)))
}

// ppmUp returns a quotient in parts per million, rounded up.
func ppmUp(part, whole *big.Int) int64 {
	q, rest := new(big.Int).QuoRem(new(big.Int).Mul(part, big.NewInt(1_000_000)), whole, new(big.Int))
	return q.Int64() + int64(rest.Sign())
}

// tail is the part of all resamples, one in so many, that lies below a 95 % interval, and above it.
const tail = 40

// bootstrap returns the 95 % percentile interval of the paired bootstrap of a difference of solve rates, B's less A's,
// in parts per million: of n tasks, A alone solved onlyA and B alone onlyB. A resample draws n of the tasks with
// replacement; its difference is s/n, s the sum of n draws from −1 (only A), 0 and +1 (only B).
//
// Nothing is drawn. Of the nⁿ resamples, all equally likely, the number of those with each s is the coefficient of x^s
// in
//
//	(onlyA·x⁻¹ + same + onlyB·x)ⁿ
//
// and these are counted with integers, so every machine gets the same interval. Its low end is the least s that at
// least 2.5 % of the resamples do not exceed, its high end the greatest that at least 2.5 % reach: changing the runs
// for each other changes the signs and nothing else.
func bootstrap(onlyA, onlyB, n int) (lowPPM, highPPM int64) {
	if n == 0 {
		return 0, 0
	}
	low, high := lowTail(onlyA, onlyB, n), -lowTail(onlyB, onlyA, n)
	return signedPPM(low, n), signedPPM(high, n)
}

// lowTail returns the low end of the interval as a sum. With b tasks that count −1, c that count +1 and z = n−b−c, the
// polynomial (b + z·x + c·x²)ⁿ has the coefficients q of the sums −n, …, n. From P·Q' = n·P'·Q for Q = Pⁿ follows
//
//	b·(k+1)·q[k+1] = z·(n−k)·q[k] + c·(2n−k+1)·q[k−1]
//
// in which each division is exact. Where b is 0 no sum is negative and the polynomial is (z + c·x)ⁿ, to which the same
// applies.
func lowTail(b, c, n int) int {
	z, first := n-b-c, -n
	if b == 0 {
		b, z, c, first = z, c, 0, 0
	}
	if b == 0 { // each task counts +1
		return n
	}
	common := new(big.Int).GCD(nil, nil, big.NewInt(int64(b)), big.NewInt(int64(z)))
	common.GCD(nil, nil, common, big.NewInt(int64(c))) // a common factor multiplies all coefficients
	b, z, c = b/int(common.Int64()), z/int(common.Int64()), c/int(common.Int64())
	needed := power(b+z+c, n) // of the resamples, of which there are this many …
	q, before := power(b, n), new(big.Int)
	below, next, other := new(big.Int), new(big.Int), new(big.Int)
	for k := 0; ; k++ {
		below.Add(below, q)
		if other.Mul(below, big.NewInt(tail)).Cmp(needed) >= 0 { // … one in forty
			return first + k
		}
		next.Mul(q, mul(int64(z), int64(n-k)))
		next.Add(next, other.Mul(before, mul(int64(c), int64(2*n-k+1))))
		next.Quo(next, mul(int64(b), int64(k+1)))
		before, q, next = q, next, before
	}
}

func power(base, exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(int64(base)), big.NewInt(int64(exponent)), nil)
}

// signedPPM returns part/whole in parts per million, rounded half away from 0.
func signedPPM(part, whole int) int64 {
	if part < 0 {
		return -signedPPM(-part, whole)
	}
	return (2*int64(part)*million + int64(whole)) / (2 * int64(whole))
}
