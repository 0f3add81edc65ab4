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
	"fmt"
	"math"
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

func tooLarge() { failf("the result is too large (more than about 4,800 digits)") }

// Value returns the value of an expression and how it is written: in full where it
// is a finite decimal.
func Value(expression string) (value *big.Rat, text string, err error) {
	n, err := evaluate(expression)
	if err != nil {
		return nil, "", err
	}
	return n.Rat, n.String(), nil
}

// fault is an error of an expression. The functions below panic with one, and evaluate
// returns it.
type fault struct{ error }

func failf(format string, args ...any) { panic(fault{fmt.Errorf(format, args...)}) }

// number is a fraction; rounded means that it is near a value that no
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
	if n.IsInt() {
		return 0, true
	}
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
func checked(r *big.Rat, rounded bool) number {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		tooLarge()
	}
	return number{r, rounded}
}

// short returns the value of a whole number of few enough digits that sums and products of two are exact; false for another.
func (n number) short() (int64, bool) {
	if !n.IsInt() || !n.Num().IsInt64() {
		return 0, false
	}
	v := n.Num().Int64()
	return v, max(v, -v) < 1<<31 && v != math.MinInt64
}

// apply computes a binary operator. The remainder of a by b is a - b*floor(a/b).
func apply(operator byte, a, b number) number {
	r := new(big.Rat)
	if x, whole := a.short(); whole && strings.IndexByte("+-*", operator) >= 0 {
		if y, whole := b.short(); whole {
			switch operator {
			case '+':
				r.SetInt64(x + y)
			case '-':
				r.SetInt64(x - y)
			case '*':
				r.SetInt64(x * y)
			}
			return number{r, a.rounded || b.rounded}
		}
	}
	switch operator {
	case '+':
		r.Add(a.Rat, b.Rat)
	case '-':
		r.Sub(a.Rat, b.Rat)
	case '*':
		r.Mul(a.Rat, b.Rat)
	case '/', '%':
		if b.Sign() == 0 {
			failf("division by zero")
		}
		r.Quo(a.Rat, b.Rat)
	case '^':
		return power(a, b)
	}
	n := checked(r, a.rounded || b.rounded)
	if operator == '%' {
		return apply('-', a, apply('*', b, number{floor(n.Rat), n.rounded}))
	}
	return n
}

// power raises a to b: exactly for whole b, by a root for fractions.
func power(a, b number) number {
	if !b.Num().IsInt64() || b.rounded || !b.Denom().IsInt64() || b.Denom().Int64() > maxRoot {
		failf("the exponent must be a whole number or a fraction with a denominator up to %d", maxRoot)
	}
	p, q := b.Num().Int64(), b.Denom().Int64()
	unit := a.IsInt() && a.Num().IsInt64() && max(a.Num().Int64(), -a.Num().Int64()) == 1
	switch {
	case a.Sign() == 0 && p < 0:
		failf("division by zero")
	case p == 0 && (a.Sign() == 0 || unit && a.Sign() > 0):
		return number{big.NewRat(1, 1), a.rounded}
	case a.Sign() == 0, unit && a.Sign() > 0:
		return a
	}
	size := max(p, -p)
	if bits := int64(max(a.Num().BitLen(), a.Denom().BitLen()) - 1); size > maxBits || bits*size > maxBits {
		if !unit {
			tooLarge()
		}
		size %= 2 // a power of -1
	}
	e := big.NewInt(size)
	r := new(big.Rat).SetFrac(new(big.Int).Exp(a.Num(), e, nil), new(big.Int).Exp(a.Denom(), e, nil))
	if p < 0 {
		r.Inv(r)
	}
	n := checked(r, a.rounded)
	if q == 1 {
		return n
	}
	return root(n, q)
}

// root is the q-th root of a: exactly if numerator and denominator are perfect
// powers, else to rootDigits decimals beyond its size.
func root(a number, q int64) number {
	if a.Sign() < 0 {
		failf("the root of a negative number")
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
func roundTo(a number, decimals int64) number {
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
func evaluate(expression string) (n number, err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			n, err = number{}, f.error
		default:
			panic(f)
		}
	}()
	if len(expression) > maxExpression {
		failf("it is longer than %d bytes", maxExpression)
	}
	p := &parser{text: expression}
	n = p.nested(2, sumLevel)
	if p.peek() != 0 {
		p.unexpected()
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

var levelOf = map[byte]int{'+': sumLevel, '-': sumLevel, '*': productLevel, '/': productLevel, '%': productLevel, '^': powerLevel}

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

// need takes the sign c, which must be next.
func (p *parser) need(c byte) {
	if !p.accept(c) {
		p.unexpected()
	}
}

func (p *parser) unexpected() {
	if p.peek() == 0 {
		failf("it breaks off at the end")
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	at := utf8.RuneCountInString(p.text[:p.pos]) + 1
	if r == ',' {
		failf("unexpected %q at character %d: write numbers without thousands separators and with a decimal point", r, at)
	}
	failf("unexpected %q at character %d", r, at)
}

// nested parses what is so many steps deeper: two for parentheses, one for a
// sign or an exponent.
func (p *parser) nested(steps, level int) number {
	if p.depth += steps; p.depth > maxNesting {
		failf("it is nested more than %d deep", maxNesting)
	}
	defer func() { p.depth -= steps }()
	return p.binary(level)
}

// binary parses operands with operators of a level, or of tighter ones, between them.
func (p *parser) binary(level int) number {
	n := p.operand()
	for {
		operator := p.peek()
		of := levelOf[operator]
		if of < level {
			return n
		}
		p.take()
		if operator == '^' {
			n = apply(operator, n, p.nested(1, signedLevel))
		} else {
			n = apply(operator, n, p.binary(of+1))
		}
	}
}

func (p *parser) operand() (n number) {
	switch c := p.peek(); {
	case p.accept('-'):
		n = p.nested(1, signedLevel)
		n.Rat = new(big.Rat).Neg(n.Rat)
	case p.accept('+'):
		n = p.nested(1, signedLevel)
	case p.accept('('):
		n = p.nested(2, sumLevel)
		p.need(')')
	case c >= '0' && c <= '9' || c == '.':
		n = p.literal()
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		n = p.call()
	default:
		p.unexpected()
	}
	return n
}

var (
	numeral = regexp.MustCompile(`^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?`)
	name    = regexp.MustCompile(`^[A-Za-z0-9_]+`)
)

// literal reads digits with at most one point, and an exponent.
func (p *parser) literal() number {
	rest := p.text[p.pos:]
	if bare := len(rest) - len(strings.TrimLeft(rest, "0123456789")); bare == len(rest) || strings.IndexByte(".eE", rest[bare]) < 0 {
		if n, err := strconv.ParseInt(rest[:bare], 10, 64); err == nil { // as most are
			p.pos += bare
			return checked(new(big.Rat).SetInt64(n), false)
		}
	}
	m := numeral.FindStringSubmatch(p.text[p.pos:])
	if m == nil {
		p.unexpected()
	}
	if e, err := strconv.Atoi(m[1]); m[1] != "" && (err != nil || e > maxExponent) {
		tooLarge()
	}
	r, ok := new(big.Rat).SetString(m[0])
	if !ok { // an exponent below -1,000,000
		tooLarge()
	}
	p.pos += len(m[0])
	return checked(r, false)
}

// call reads a function and its arguments.
func (p *parser) call() number {
	written := name.FindString(p.text[p.pos:])
	p.pos += len(written)
	name := strings.ToLower(written)
	f, known := functions[name]
	if !known {
		failf("there is no %q: it knows sqrt, abs, round, floor, ceil, min, max, sum and mean", written)
	}
	if !p.accept('(') {
		failf("%s needs its arguments in parentheses", name)
	}
	args := []number{p.nested(2, sumLevel)}
	for p.accept(',') {
		args = append(args, p.nested(2, sumLevel))
	}
	p.need(')')
	if f.most > 0 && len(args) > f.most {
		failf("%s takes %d argument(s), not %d", name, f.most, len(args))
	}
	return f.apply(args)
}

// functions have at least one argument; most 0 means any number of them.
var functions = map[string]struct {
	most  int
	apply func([]number) number
}{
	"sqrt":  {1, func(a []number) number { return root(a[0], 2) }},
	"abs":   {1, func(a []number) number { return number{new(big.Rat).Abs(a[0].Rat), a[0].rounded} }},
	"floor": {1, func(a []number) number { return number{floor(a[0].Rat), a[0].rounded} }},
	"ceil": {1, func(a []number) number {
		up := floor(new(big.Rat).Neg(a[0].Rat))
		return number{up.Neg(up), a[0].rounded}
	}},
	"round": {2, func(a []number) number {
		if len(a) == 1 {
			return roundTo(a[0], 0)
		}
		if !a[1].IsInt() || !a[1].Num().IsInt64() || max(a[1].Num().Int64(), -a[1].Num().Int64()) > exactDigits {
			failf("round needs a whole number of decimals between -%d and %d", exactDigits, exactDigits)
		}
		return roundTo(a[0], a[1].Num().Int64())
	}},
	"min":  {0, func(a []number) number { return slices.MinFunc(a, compare) }},
	"max":  {0, func(a []number) number { return slices.MaxFunc(a, compare) }},
	"sum":  {0, total},
	"mean": {0, func(a []number) number { return apply('/', total(a), number{big.NewRat(int64(len(a)), 1), false}) }},
}

func compare(a, b number) int { return a.Cmp(b.Rat) }

func total(a []number) number {
	t := number{new(big.Rat), false}
	for _, n := range a {
		t = apply('+', t, n)
	}
	return t
}
