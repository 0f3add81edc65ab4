package stats

import "math/big"

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
