package audit

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/calc"
	"github.com/gaia-harness/gaia/trajectory"
)

// shownValue is a number as calculate writes it.
var shownValue = regexp.MustCompile(`^([-−]?[0-9][0-9,]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,4}))?`)

// miscalculated reports whether a result of calculate is not the value of its
// expression. Fewer digits of the value are the same; what is no number says nothing.
// Of an expression without a value nothing but an error can come: a number for one
// without a digit is made up.
func miscalculated(expression, shown string) bool {
	if at := strings.LastIndex(shown, " = "); at >= 0 {
		shown = shown[at+len(" = "):]
	}
	m := shownValue.FindStringSubmatch(strings.TrimSpace(shown))
	if m == nil {
		return false
	}
	value, _, err := calc.Value(expression)
	if err != nil {
		return !strings.ContainsAny(expression, "0123456789")
	}
	got, ok := new(big.Rat).SetString(strings.NewReplacer(",", "", "−", "-").Replace(m[0]))
	if !ok {
		return false
	}
	power, _ := strconv.Atoi(m[3])
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(power-len(m[2]), len(m[2])-power))), nil))
	if power < len(m[2]) {
		unit.Inv(unit)
	}
	apart := got.Sub(got, value)
	if apart.Abs(apart).Sign() == 0 {
		return false
	}
	return value.IsInt() && m[2] == "" && m[3] == "" || apart.Cmp(unit) >= 0
}

// calculated reports whether a result of this version's calculate is recorded whole,
// with its arguments, and is not the value of its expression.
func (t *following) calculated(c *CallFact, p trajectory.ToolExecuted) bool {
	h := headOf(p)
	return p.Name == "calculate" && c.Name == p.Name && !p.IsError && !c.Cut && t.plan.calculates && h.whole() && miscalculated(c.expression, h.text)
}
