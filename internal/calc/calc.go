// Package calc computes arithmetic expressions in exact fractions: the tool calculate
// answers with it, and the audit repeats each recorded calculation with it.
//
// An expression has numerals, the operators + - * / % ^, parentheses and a few
// functions such as sqrt and round. Every expression ends at once: its length, its
// nesting and the size of its numbers are limited, and what is beyond a limit is an
// error. The same expression gives the same text on every machine; it reads no clock,
// no file and no network.
package calc

import (
	"errors"
	"fmt"
	"math/big"
)

// Limits of a calculation, so that any expression ends at once.
const (
	maxExpression = 4_000  // bytes
	maxNesting    = 200    // parentheses, signs and powers inside each other
	maxBits       = 16_000 // of a numerator or denominator: about 4,800 digits
	maxExponent   = 4_000  // of a literal such as 1e9
	maxRoot       = 64     // of a power such as 2^(1/12)
	rootDigits    = 60     // decimals carried for roots that are not exact
	shownDigits   = 20     // significant digits shown of what is not a finite decimal
	exactDigits   = 1_000  // decimals up to which a finite one is written out
)

var (
	errBigResult = errors.New("the result is too large (more than about 4,800 digits)")
	errDivide    = errors.New("division by zero")
)

// Value returns the value of an expression and how it is written: in full where it
// is a finite decimal.
func Value(expression string) (value *big.Rat, text string, err error) {
	n, err := evaluate(expression)
	if err != nil {
		return nil, "", err
	}
	return n.Rat, n.String(), nil
}

// number is a fraction; rounded says that it stands for a value that no
// fraction is equal to, such as the square root of 2.
type number struct {
	*big.Rat
	rounded bool
}

// String writes the number in full where it is a finite decimal, else to
// shownDigits significant digits, and says so.
func (n number) String() string {
	digits, finite := n.decimals()
	if finite && !n.rounded && digits <= exactDigits {
		return n.FloatString(digits)
	}
	// 256 bits are 77 digits: rounding twice does not show in the first 20.
	text := new(big.Float).SetPrec(256).SetRat(n.Rat).Text('g', shownDigits)
	switch {
	case finite && len(text) <= shownDigits && digits <= shownDigits:
		return text + " (from rounded values)"
	case !n.rounded && n.Num().BitLen() <= 64 && n.Denom().BitLen() <= 64:
		return fmt.Sprintf("%s (rounded to %d significant digits; exactly %s)", text, shownDigits, n.RatString())
	}
	return fmt.Sprintf("%s (rounded to %d significant digits)", text, shownDigits)
}

// decimals is how many decimals the number has, if it ends.
func (n number) decimals() (digits int, finite bool) {
	rest := new(big.Int).Set(n.Denom())
	twos := int(rest.TrailingZeroBits())
	rest.Rsh(rest, uint(twos))
	fives, five := 0, big.NewInt(5)
	for q, r := new(big.Int), new(big.Int); ; fives++ {
		if q.QuoRem(rest, five, r); r.Sign() != 0 {
			break
		}
		rest.Set(q)
	}
	return max(twos, fives), rest.IsInt64() && rest.Int64() == 1
}

// checked refuses numbers past the limit.
func checked(r *big.Rat, rounded bool) (number, error) {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return number{}, errBigResult
	}
	return number{r, rounded}, nil
}

func add(a, b number) (number, error) {
	return checked(new(big.Rat).Add(a.Rat, b.Rat), a.rounded || b.rounded)
}

func sub(a, b number) (number, error) {
	return checked(new(big.Rat).Sub(a.Rat, b.Rat), a.rounded || b.rounded)
}

func mul(a, b number) (number, error) {
	return checked(new(big.Rat).Mul(a.Rat, b.Rat), a.rounded || b.rounded)
}

func quo(a, b number) (number, error) {
	if b.Sign() == 0 {
		return number{}, errDivide
	}
	return checked(new(big.Rat).Quo(a.Rat, b.Rat), a.rounded || b.rounded)
}

// rem is a - b*floor(a/b).
func rem(a, b number) (number, error) {
	q, err := quo(a, b)
	if err != nil {
		return number{}, err
	}
	p, err := mul(b, number{new(big.Rat).SetInt(floor(q.Rat)), q.rounded})
	if err != nil {
		return number{}, err
	}
	return sub(a, p)
}

// power raises a to b: exactly for whole b, by a root for fractions.
func power(a, b number) (number, error) {
	if !b.Num().IsInt64() || b.rounded || !b.Denom().IsInt64() || b.Denom().Int64() > maxRoot {
		return number{}, fmt.Errorf("the exponent must be a whole number or a fraction with a denominator up to %d", maxRoot)
	}
	p, q := b.Num().Int64(), b.Denom().Int64()
	if a.Sign() == 0 && p < 0 {
		return number{}, errDivide
	}
	if a.Sign() == 0 || a.Num().IsInt64() && a.Num().Int64() == 1 && a.IsInt() { // 0 or 1, to any power
		if p == 0 {
			return number{big.NewRat(1, 1), a.rounded}, nil
		}
		return a, nil
	}
	size := max(p, -p)
	if bits := int64(max(a.Num().BitLen(), a.Denom().BitLen()) - 1); size > maxBits || bits*size > maxBits {
		if !(a.IsInt() && a.Num().IsInt64() && a.Num().Int64() == -1) {
			return number{}, errBigResult
		}
		size %= 2 // a power of -1
	}
	e := big.NewInt(size)
	r := new(big.Rat).SetFrac(new(big.Int).Exp(a.Num(), e, nil), new(big.Int).Exp(a.Denom(), e, nil))
	if p < 0 {
		r.Inv(r)
	}
	n, err := checked(r, a.rounded)
	if err != nil || q == 1 {
		return n, err
	}
	return root(n, q)
}

// root is the q-th root of a: exactly if numerator and denominator are perfect
// powers, else to rootDigits decimals beyond its size.
func root(a number, q int64) (number, error) {
	if a.Sign() < 0 {
		return number{}, errors.New("the root of a negative number")
	}
	num, exactNum := integerRoot(a.Num(), q)
	den, exactDen := integerRoot(a.Denom(), q)
	if exactNum && exactDen {
		return checked(new(big.Rat).SetFrac(num, den), a.rounded)
	}
	// A small number needs more decimals to show as many digits.
	digits := int64(rootDigits + max(0, a.Denom().BitLen()-a.Num().BitLen())/3/int(q))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil)
	scaled := new(big.Int).Mul(a.Num(), new(big.Int).Exp(scale, big.NewInt(q), nil))
	num, _ = integerRoot(scaled.Quo(scaled, a.Denom()), q)
	return checked(new(big.Rat).SetFrac(num, scale), true)
}

// integerRoot is the whole part of the q-th root of x ≥ 0, by Newton's method
// from above.
func integerRoot(x *big.Int, q int64) (r *big.Int, exact bool) {
	if x.Sign() == 0 || q == 1 {
		return new(big.Int).Set(x), true
	}
	bigQ, less := big.NewInt(q), big.NewInt(q-1)
	r = new(big.Int).Lsh(big.NewInt(1), uint(x.BitLen())/uint(q)+1)
	for {
		next := new(big.Int).Exp(r, less, nil)
		next.Quo(x, next)
		next.Add(next, new(big.Int).Mul(less, r)).Quo(next, bigQ)
		if next.Cmp(r) >= 0 {
			return r, new(big.Int).Exp(r, bigQ, nil).Cmp(x) == 0
		}
		r = next
	}
}

// floor is the largest whole number not above r.
func floor(r *big.Rat) *big.Int {
	return new(big.Int).Div(r.Num(), r.Denom()) // Div is Euclidean: floor for a positive divisor
}

// roundTo rounds to a number of decimals, halves away from zero.
func roundTo(a number, decimals int64) (number, error) {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(decimals, -decimals)), nil))
	if decimals < 0 {
		scale.Inv(scale)
	}
	x := new(big.Rat).Mul(new(big.Rat).Abs(a.Rat), scale)
	whole := new(big.Rat).SetInt(floor(x.Add(x, big.NewRat(1, 2))))
	if a.Sign() < 0 {
		whole.Neg(whole)
	}
	return checked(whole.Quo(whole, scale), a.rounded)
}
