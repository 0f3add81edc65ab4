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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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

// apply computes a binary operator. The remainder of a by b is a - b*floor(a/b).
func apply(operator byte, a, b number) (number, error) {
	r := new(big.Rat)
	switch operator {
	case '+':
		r.Add(a.Rat, b.Rat)
	case '-':
		r.Sub(a.Rat, b.Rat)
	case '*':
		r.Mul(a.Rat, b.Rat)
	case '/', '%':
		if b.Sign() == 0 {
			return number{}, errDivide
		}
		r.Quo(a.Rat, b.Rat)
	case '^':
		return power(a, b)
	}
	n, err := checked(r, a.rounded || b.rounded)
	if err != nil || operator != '%' {
		return n, err
	}
	n, err = apply('*', b, number{floor(n.Rat), n.rounded})
	if err != nil {
		return number{}, err
	}
	return apply('-', a, n)
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
func floor(r *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom())) // Euclidean: floor for a positive divisor
}

// roundTo rounds to a number of decimals, halves away from zero.
func roundTo(a number, decimals int64) (number, error) {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(decimals, -decimals)), nil))
	if decimals < 0 {
		scale.Inv(scale)
	}
	x := new(big.Rat).Mul(new(big.Rat).Abs(a.Rat), scale)
	whole := floor(x.Add(x, big.NewRat(1, 2)))
	if a.Sign() < 0 {
		whole.Neg(whole)
	}
	return checked(whole.Quo(whole, scale), a.rounded)
}

// evaluate computes the value of an expression, by precedence climbing:
//
//	sum     = product {("+" | "-") product}
//	product = signed {("*" | "/" | "%") signed}
//	signed  = ("+" | "-") signed | power
//	power   = atom ["^" signed]                 so -2^2 is -4, and 2^3^2 is 2^9
//	atom    = number | "(" sum ")" | name "(" sum {"," sum} ")"
//
// "**" is read as "^", and ×, ·, ÷, − as the signs they mean.
func evaluate(expression string) (number, error) {
	if len(expression) > maxExpression {
		return number{}, fmt.Errorf("it is longer than %d bytes", maxExpression)
	}
	p := &parser{text: expression}
	n, err := p.nested(2, sumLevel)
	if err == nil && p.peek() != 0 {
		err = p.unexpected()
	}
	if err != nil {
		return number{}, err
	}
	return n, nil
}

// The levels of precedence, the loosest first.
const (
	sumLevel = iota + 1
	productLevel
	signedLevel
	powerLevel
)

// levelOf returns the level of a binary operator, 0 for any other byte.
func levelOf(operator byte) int {
	switch operator {
	case '+', '-':
		return sumLevel
	case '*', '/', '%':
		return productLevel
	case '^':
		return powerLevel
	}
	return 0
}

type parser struct {
	text  string
	pos   int
	depth int
}

// peek is the next sign as one of the bytes of the grammar; 0 at the end.
func (p *parser) peek() byte {
	p.pos += len(p.text[p.pos:]) - len(strings.TrimLeft(p.text[p.pos:], " \t\r\n"))
	if p.pos == len(p.text) {
		return 0
	}
	switch r, _ := utf8.DecodeRuneInString(p.text[p.pos:]); r {
	case '×', '·', '⋅':
		return '*'
	case '÷':
		return '/'
	case '−', '–':
		return '-'
	}
	if strings.HasPrefix(p.text[p.pos:], "**") {
		return '^'
	}
	return p.text[p.pos]
}

// take steps over the sign that peek saw.
func (p *parser) take() {
	if strings.HasPrefix(p.text[p.pos:], "**") {
		p.pos++
	}
	_, size := utf8.DecodeRuneInString(p.text[p.pos:])
	p.pos += size
}

func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.take()
	return true
}

func (p *parser) unexpected() error {
	if p.peek() == 0 {
		return errors.New("it breaks off at the end")
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	at := utf8.RuneCountInString(p.text[:p.pos]) + 1
	if r == ',' {
		return fmt.Errorf("unexpected %q at character %d: write numbers without thousands separators and with a decimal point", r, at)
	}
	return fmt.Errorf("unexpected %q at character %d", r, at)
}

// nested parses what stands so many steps deeper: two for parentheses, one for a
// sign or an exponent.
func (p *parser) nested(steps, level int) (number, error) {
	if p.depth += steps; p.depth > maxNesting {
		return number{}, fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	defer func() { p.depth -= steps }()
	return p.binary(level)
}

// binary parses operands with operators of a level, or of tighter ones, between them.
func (p *parser) binary(level int) (number, error) {
	n, err := p.operand()
	for err == nil {
		operator := p.peek()
		of := levelOf(operator)
		if of < level {
			return n, nil
		}
		p.take()
		var m number
		if operator == '^' {
			m, err = p.nested(1, signedLevel)
		} else {
			m, err = p.binary(of + 1)
		}
		if err == nil {
			n, err = apply(operator, n, m)
		}
	}
	return number{}, err
}

func (p *parser) operand() (number, error) {
	switch c := p.peek(); {
	case c == '-':
		p.take()
		n, err := p.nested(1, signedLevel)
		if err != nil {
			return number{}, err
		}
		return number{new(big.Rat).Neg(n.Rat), n.rounded}, nil
	case c == '+':
		p.take()
		return p.nested(1, signedLevel)
	case c == '(':
		p.take()
		n, err := p.nested(2, sumLevel)
		if err == nil && !p.accept(')') {
			err = p.unexpected()
		}
		return n, err
	case c >= '0' && c <= '9' || c == '.':
		return p.literal()
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		return p.call()
	}
	return number{}, p.unexpected()
}

var (
	numeral = regexp.MustCompile(`^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?`)
	name    = regexp.MustCompile(`^[A-Za-z0-9_]+`)
)

// literal reads digits with at most one point, and an exponent.
func (p *parser) literal() (number, error) {
	m := numeral.FindStringSubmatch(p.text[p.pos:])
	if m == nil {
		return number{}, p.unexpected()
	}
	if e, err := strconv.Atoi(m[1]); m[1] != "" && (err != nil || e > maxExponent) {
		return number{}, errBigResult
	}
	r, ok := new(big.Rat).SetString(m[0])
	if !ok { // an exponent below -1,000,000
		return number{}, errBigResult
	}
	p.pos += len(m[0])
	return checked(r, false)
}

// call reads a function and its arguments.
func (p *parser) call() (number, error) {
	written := name.FindString(p.text[p.pos:])
	p.pos += len(written)
	name := strings.ToLower(written)
	f, known := functions()[name]
	if !known {
		return number{}, fmt.Errorf("there is no %q: it knows sqrt, abs, round, floor, ceil, min, max, sum and mean", written)
	}
	if !p.accept('(') {
		return number{}, fmt.Errorf("%s needs its arguments in parentheses", name)
	}
	var args []number
	for more := true; more; more = p.accept(',') {
		n, err := p.nested(2, sumLevel)
		if err != nil {
			return number{}, err
		}
		args = append(args, n)
	}
	if !p.accept(')') {
		return number{}, p.unexpected()
	}
	if f.most > 0 && len(args) > f.most {
		return number{}, fmt.Errorf("%s takes %d argument(s), not %d", name, f.most, len(args))
	}
	return f.apply(args)
}

// function is a function of at least one argument; most 0 means any number of them.
type function struct {
	most  int
	apply func([]number) (number, error)
}

func functions() map[string]function {
	extreme := func(sign int) function {
		return function{0, func(a []number) (number, error) {
			return slices.MaxFunc(a, func(x, y number) int { return sign * x.Cmp(y.Rat) }), nil
		}}
	}
	return map[string]function{
		"sqrt":  {1, func(a []number) (number, error) { return root(a[0], 2) }},
		"abs":   {1, func(a []number) (number, error) { return number{new(big.Rat).Abs(a[0].Rat), a[0].rounded}, nil }},
		"floor": {1, func(a []number) (number, error) { return number{floor(a[0].Rat), a[0].rounded}, nil }},
		"ceil": {1, func(a []number) (number, error) {
			up := floor(new(big.Rat).Neg(a[0].Rat))
			return number{up.Neg(up), a[0].rounded}, nil
		}},
		"round": {2, round},
		"min":   extreme(-1),
		"max":   extreme(1),
		"sum":   {0, total},
		"mean": {0, func(a []number) (number, error) {
			t, err := total(a)
			if err != nil {
				return number{}, err
			}
			return apply('/', t, number{big.NewRat(int64(len(a)), 1), false})
		}},
	}
}

func round(a []number) (number, error) {
	if len(a) == 1 {
		return roundTo(a[0], 0)
	}
	if !a[1].IsInt() || !a[1].Num().IsInt64() || max(a[1].Num().Int64(), -a[1].Num().Int64()) > exactDigits {
		return number{}, fmt.Errorf("round needs a whole number of decimals between -%d and %d", exactDigits, exactDigits)
	}
	return roundTo(a[0], a[1].Num().Int64())
}

func total(a []number) (number, error) {
	t, err := number{new(big.Rat), false}, error(nil)
	for i := 0; i < len(a) && err == nil; i++ {
		t, err = apply('+', t, a[i])
	}
	return t, err
}
