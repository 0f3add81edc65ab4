package history

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gaia-harness/gaia/internal/rundir"
)

// RankedRule says of a rule how often it was broken, and how much work was done again
// in the attempts that broke it.
type RankedRule struct {
	Attempts   int     `json:"attempts"`    // that broke it
	Frequency  int     `json:"frequency"`   // violations
	MeanRework float32 `json:"mean_rework"` // lines reworked, of those attempts
	RuleID     string  `json:"rule_id"`
	Score      float32 `json:"score"` // Frequency × MeanRework
	Severity   string  `json:"severity"`

	rework int64 // lines, of those attempts
}

// Ranking ranks rules by what breaking them cost. It holds no event: its size is
// that of the number of rules. The zero value is ready to use.
type Ranking struct{ rules map[string]*RankedRule }

// Add counts the violations of an attempt.
func (r *Ranking) Add(e rundir.RunEvent) {
	if r.rules == nil {
		r.rules = map[string]*RankedRule{}
	}
	for i, v := range e.Violations {
		if v.RuleID == "" {
			continue
		}
		rule := r.rules[v.RuleID]
		if rule == nil {
			rule = &RankedRule{RuleID: v.RuleID, Severity: v.Severity}
			r.rules[v.RuleID] = rule
		}
		rule.Frequency++
		if !slices.ContainsFunc(e.Violations[:i], func(before rundir.Violation) bool { return before.RuleID == v.RuleID }) {
			rule.Attempts++
			rule.rework += int64(e.ReworkLines)
		}
	}
}

// Rules returns the rules that were broken: those first whose score is higher, of
// equal ones those that were broken more often, of equal ones by id. Scores are
// compared as the fractions that they are.
func (r *Ranking) Rules() []RankedRule {
	ranked := []RankedRule{}
	for _, rule := range r.rules {
		rule := *rule
		rule.MeanRework = float32(rule.rework) / float32(rule.Attempts)
		rule.Score, _ = rule.score().Float32()
		ranked = append(ranked, rule)
	}
	slices.SortFunc(ranked, func(a, b RankedRule) int {
		return cmp.Or(b.score().Cmp(a.score()), cmp.Compare(b.Frequency, a.Frequency), cmp.Compare(a.RuleID, b.RuleID))
	})
	return ranked
}

// score is Frequency × rework ÷ Attempts.
func (r RankedRule) score() *big.Rat {
	sum := new(big.Int).Mul(big.NewInt(int64(r.Frequency)), big.NewInt(r.rework))
	return new(big.Rat).SetFrac(sum, big.NewInt(int64(r.Attempts)))
}
