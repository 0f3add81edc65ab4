package stats

import "math/big"

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
