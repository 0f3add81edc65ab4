package stats

import "math/big"

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
