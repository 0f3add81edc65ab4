package calc

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// evaluate works an expression out:
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
	n, err := p.sum()
	if err != nil {
		return number{}, err
	}
	if p.peek() != 0 {
		return number{}, p.unexpected()
	}
	return n, nil
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

func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	return nil
}

func (p *parser) sum() (number, error) {
	if err := p.enter(); err != nil {
		return number{}, err
	}
	defer func() { p.depth-- }()
	n, err := p.product()
	for err == nil {
		var m number
		switch c := p.peek(); c {
		case '+', '-':
			p.take()
			if m, err = p.product(); err == nil && c == '+' {
				n, err = add(n, m)
			} else if err == nil {
				n, err = sub(n, m)
			}
		default:
			return n, nil
		}
	}
	return number{}, err
}

func (p *parser) product() (number, error) {
	n, err := p.signed()
	for err == nil {
		var m number
		c := p.peek()
		if c != '*' && c != '/' && c != '%' {
			return n, nil
		}
		p.take()
		if m, err = p.signed(); err != nil {
			break
		}
		switch c {
		case '*':
			n, err = mul(n, m)
		case '/':
			n, err = quo(n, m)
		case '%':
			n, err = rem(n, m)
		}
	}
	return number{}, err
}

func (p *parser) signed() (number, error) {
	if err := p.enter(); err != nil {
		return number{}, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.accept('-'):
		n, err := p.signed()
		if err != nil {
			return number{}, err
		}
		return number{new(big.Rat).Neg(n.Rat), n.rounded}, nil
	case p.accept('+'):
		return p.signed()
	}
	n, err := p.atom()
	if err != nil || !p.accept('^') {
		return n, err
	}
	e, err := p.signed()
	if err != nil {
		return number{}, err
	}
	return power(n, e)
}

func (p *parser) atom() (number, error) {
	c := p.peek()
	switch {
	case c == '(':
		p.take()
		n, err := p.sum()
		if err == nil && !p.accept(')') {
			err = p.unexpected()
		}
		return n, err
	case c >= '0' && c <= '9' || c == '.':
		return p.literal()
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return p.call()
	}
	return number{}, p.unexpected()
}

// literal reads digits with at most one point, and an exponent.
func (p *parser) literal() (number, error) {
	start := p.pos
	digits := func() int {
		from := p.pos
		for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
			p.pos++
		}
		return p.pos - from
	}
	n := digits()
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		p.pos++
		n += digits()
	}
	if n == 0 {
		p.pos = start
		return number{}, p.unexpected()
	}
	if p.pos < len(p.text) && (p.text[p.pos] == 'e' || p.text[p.pos] == 'E') {
		mark := p.pos
		p.pos++
		if p.pos < len(p.text) && (p.text[p.pos] == '+' || p.text[p.pos] == '-') {
			p.pos++
		}
		from := p.pos
		digits()
		if e, err := strconv.Atoi(p.text[from:p.pos]); err != nil || e > maxExponent {
			if p.pos == from {
				p.pos = mark
				return number{}, p.unexpected()
			}
			return number{}, errBigResult
		}
	}
	r, ok := new(big.Rat).SetString(p.text[start:p.pos])
	if !ok {
		p.pos = start
		return number{}, p.unexpected()
	}
	return checked(r, false)
}

// call reads a function and its arguments.
func (p *parser) call() (number, error) {
	start := p.pos
	for p.pos < len(p.text) && (p.text[p.pos]|0x20 >= 'a' && p.text[p.pos]|0x20 <= 'z' || p.text[p.pos] >= '0' && p.text[p.pos] <= '9' || p.text[p.pos] == '_') {
		p.pos++
	}
	name := strings.ToLower(p.text[start:p.pos])
	f, known := function(name)
	if !known {
		return number{}, fmt.Errorf("there is no %q: it knows sqrt, abs, round, floor, ceil, min, max, sum and mean", p.text[start:p.pos])
	}
	if !p.accept('(') {
		return number{}, fmt.Errorf("%s needs its arguments in parentheses", name)
	}
	var args []number
	for {
		n, err := p.sum()
		if err != nil {
			return number{}, err
		}
		args = append(args, n)
		if p.accept(',') {
			continue
		}
		if !p.accept(')') {
			return number{}, p.unexpected()
		}
		break
	}
	if f.most > 0 && len(args) > f.most {
		return number{}, fmt.Errorf("%s takes %d argument(s), not %d", name, f.most, len(args))
	}
	return f.apply(args)
}

// fn is a function of at least one argument; most 0 means any number of them.
type fn struct {
	most  int
	apply func([]number) (number, error)
}

func function(name string) (f fn, known bool) {
	one := func(apply func(number) (number, error)) (fn, bool) {
		return fn{1, func(a []number) (number, error) { return apply(a[0]) }}, true
	}
	switch name {
	case "sqrt":
		return one(func(a number) (number, error) { return root(a, 2) })
	case "abs":
		return one(func(a number) (number, error) { return number{new(big.Rat).Abs(a.Rat), a.rounded}, nil })
	case "floor":
		return one(func(a number) (number, error) { return number{new(big.Rat).SetInt(floor(a.Rat)), a.rounded}, nil })
	case "ceil":
		return one(func(a number) (number, error) {
			up := floor(new(big.Rat).Neg(a.Rat))
			return number{new(big.Rat).SetInt(up.Neg(up)), a.rounded}, nil
		})
	case "round":
		return fn{2, round}, true
	case "min":
		return fn{0, func(a []number) (number, error) { return extreme(a, -1), nil }}, true
	case "max":
		return fn{0, func(a []number) (number, error) { return extreme(a, 1), nil }}, true
	case "sum":
		return fn{0, total}, true
	case "mean":
		return fn{0, func(a []number) (number, error) {
			t, err := total(a)
			if err != nil {
				return number{}, err
			}
			return quo(t, number{big.NewRat(int64(len(a)), 1), false})
		}}, true
	}
	return fn{}, false
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

func extreme(a []number, sign int) number {
	best := a[0]
	for _, n := range a[1:] {
		if n.Cmp(best.Rat) == sign {
			best = n
		}
	}
	return best
}

func total(a []number) (number, error) {
	t, err := number{new(big.Rat), false}, error(nil)
	for _, n := range a {
		if t, err = add(t, n); err != nil {
			return number{}, err
		}
	}
	return t, nil
}
