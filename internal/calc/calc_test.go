package calc

import (
	"math/big"
	"strings"
	"testing"
)

// Whatever is calculated ends at once, within the limits, and an exact result
// read back is the same number.
func FuzzCalculate(f *testing.F) {
	for _, seed := range []string{"1+2*3", "(1-2)/3%4", "2^0.5", "9^9^9", "sqrt(2)^(1/3)", "round(1.25,1)", "mean(1,2,3)", "1e-300*1e300", "((((1))))", "min(,)", "-−÷×", "1e4000^-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		n, err := evaluate(expression)
		if err != nil {
			if n.Rat != nil || err.Error() == "" {
				t.Errorf("%q: %v and %v", expression, n, err)
			}
			return
		}
		if n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits {
			t.Errorf("%q is past the limit", expression)
		}
		text := n.String()
		if strings.Contains(text, "(") {
			return
		}
		back, ok := new(big.Rat).SetString(text)
		if !ok || back.Cmp(n.Rat) != 0 {
			t.Errorf("%q gave %s", expression, text)
		}
	})
}
