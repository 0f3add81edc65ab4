package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestPairedStatistics compares with values that Python computed: of fractions, and
// of the distribution by n convolutions of exact weights.
func TestPairedStatistics(t *testing.T) {
	for _, c := range []struct {
		onlyA, onlyB, n int
		p, low, high    int64
	}{
		{0, 0, 1, 1000000, 0, 0},
		{1, 0, 1, 1000000, -1000000, -1000000},
		{0, 1, 2, 1000000, 0, 1000000},
		{0, 0, 40, 1000000, 0, 0},
		{5, 1, 40, 218750, -225000, 0},
		{1, 5, 40, 218750, 0, 225000},
		{3, 3, 40, 1000000, -125000, 125000},
		{0, 4, 40, 125000, 25000, 200000},
		{40, 0, 40, 0, -1000000, -1000000},
		{20, 20, 40, 1000000, -300000, 300000},
		{12, 30, 165, 7916, 36364, 181818},
		{20, 35, 466, 58064, 2146, 64378},
		{0, 21, 466, 1, 27897, 64378},
		{100, 140, 466, 11664, 21459, 150215},
		{0, 24, 301, 0, 49834, 112957},
	} {
		if got := McNemar(c.onlyA, c.onlyB); got != c.p {
			t.Errorf("only A %d, only B %d: p is %d ppm, not %d", c.onlyA, c.onlyB, got, c.p)
		}
		if low, high := bootstrap(c.onlyA, c.onlyB, c.n); low != c.low || high != c.high {
			t.Errorf("only A %d, only B %d of %d: %d to %d ppm, not %d to %d", c.onlyA, c.onlyB, c.n, low, high, c.low, c.high)
		}
	}
	if low, high := bootstrap(0, 0, 0); low != 0 || high != 0 {
		t.Errorf("of nothing: %d to %d", low, high)
	}
}

// TestMcNemarTable compares with what tables of the sign test have.
func TestMcNemarTable(t *testing.T) {
	for _, c := range []struct {
		onlyA, onlyB int
		want         int64
	}{{0, 5, 62_500}, {0, 6, 31_250}, {1, 7, 70_313}, {2, 8, 109_375}, {7, 7, 1_000_000}, {3, 4, 1_000_000}, {0, 21, 1}, {0, 22, 0}} {
		if a, b := McNemar(c.onlyA, c.onlyB), McNemar(c.onlyB, c.onlyA); a != c.want || b != c.want {
			t.Errorf("%d and %d: %d and %d ppm, not %d", c.onlyA, c.onlyB, a, b, c.want)
		}
	}
}

// TestBootstrapOfAllResamples draws every resample there is.
func TestBootstrapOfAllResamples(t *testing.T) {
	const most = 6 // 6⁶ resamples
	for n := 1; n <= most; n++ {
		for onlyA := 0; onlyA <= n; onlyA++ {
			for onlyB := 0; onlyA+onlyB <= n; onlyB++ {
				sums := allSums(onlyA, onlyB, n)
				slices.Sort(sums)
				at := (len(sums)+tail-1)/tail - 1 // the first of which one in forty do not exceed it
				wantLow, wantHigh := signedPPM(sums[at], n), signedPPM(sums[len(sums)-1-at], n)
				if low, high := bootstrap(onlyA, onlyB, n); low != wantLow || high != wantHigh {
					t.Errorf("only A %d, only B %d of %d: %d to %d, not %d to %d", onlyA, onlyB, n, low, high, wantLow, wantHigh)
				}
			}
		}
	}
}

// allSums returns the sum of each of the nⁿ resamples.
func allSums(onlyA, onlyB, n int) []int {
	sums := []int{0}
	for range n {
		var longer []int
		for _, s := range sums {
			for task := range n {
				switch {
				case task < onlyA:
					longer = append(longer, s-1)
				case task < onlyA+onlyB:
					longer = append(longer, s+1)
				default:
					longer = append(longer, s)
				}
			}
		}
		sums = longer
	}
	return sums
}

// TestBootstrapAgainstResampling compares the interval with seeded draws: what lies
// beyond its ends must be 2.5 % of them but for their own error and for the weight
// of one sum.
func TestBootstrapAgainstResampling(t *testing.T) {
	const draws = 4000
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ onlyA, onlyB, n int }{{20, 35, 200}, {3, 3, 40}, {0, 30, 150}} {
		low, high := bootstrap(c.onlyA, c.onlyB, c.n)
		below, reached, above, exceeded := 0, 0, 0, 0
		for range draws {
			sum := 0
			for range c.n {
				switch task := random.IntN(c.n); {
				case task < c.onlyA:
					sum--
				case task < c.onlyA+c.onlyB:
					sum++
				}
			}
			is := signedPPM(sum, c.n)
			count := func(when bool, n *int) {
				if when {
					*n++
				}
			}
			count(is < low, &below)
			count(is <= low, &reached)
			count(is > high, &above)
			count(is >= high, &exceeded)
		}
		const wanted = draws / tail
		within := 4 * math.Sqrt(wanted)
		if float64(below) > wanted+within || float64(above) > wanted+within || float64(reached) < wanted-within || float64(exceeded) < wanted-within {
			t.Errorf("%+v: of %d draws %d lie below and %d up to %d, %d above and %d from %d", c, draws, below, reached, low, above, exceeded, high)
		}
	}
}

// TestBootstrapMirrored: which run is called A is chance.
func TestBootstrapMirrored(t *testing.T) {
	long.NotRaced(t)
	for n := range 30 {
		for onlyA := 0; onlyA <= n; onlyA++ {
			for onlyB := 0; onlyA+onlyB <= n; onlyB++ {
				low, high := bootstrap(onlyA, onlyB, n)
				mirroredLow, mirroredHigh := bootstrap(onlyB, onlyA, n)
				if low != -mirroredHigh || high != -mirroredLow || low > high {
					t.Fatalf("%d and %d of %d: %d to %d, mirrored %d to %d", onlyA, onlyB, n, low, high, mirroredLow, mirroredHigh)
				}
			}
		}
	}
}

func BenchmarkBootstrap(b *testing.B) {
	for _, c := range []struct {
		name            string
		onlyA, onlyB, n int
	}{{"gaia", 41, 67, 466}, {"10000", 811, 1203, 10_000}, {"one sided 10000", 0, 1203, 10_000}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				bootstrap(c.onlyA, c.onlyB, c.n)
			}
		})
	}
}

func BenchmarkMcNemar(b *testing.B) {
	for b.Loop() {
		McNemar(4000, 5000)
	}
}
