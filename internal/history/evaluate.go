package history

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"

	"github.com/gaia-harness/gaia/internal/policy"
)

// Evaluator judges a run event by one rule. [Evaluators] are those that gaia has;
// others need no more than these two methods.
type Evaluator interface {
	Name() string
	Evaluate(rundir.RunEvent) Evaluation
}

// Evaluation is what an evaluator says of a run event.
type Evaluation struct {
	Details string  `json:"details"` // what was counted
	Name    string  `json:"name"`    // the evaluator's
	Pass    bool    `json:"pass"`
	Score   float32 `json:"score"` // from 0 to 1, the best
}

// Limits are what the evaluators let pass.
type Limits struct {
	Violations  int     // of rules and of the deny list, an attempt
	ReworkRatio float32 // lines reworked ÷ lines added and removed
}

// DefaultLimits let no violation pass, and three lines reworked of ten.
func DefaultLimits() Limits { return Limits{ReworkRatio: 0.3} }

// Evaluators returns the five evaluators in their order:
//
//	tests-pass            a check of the answer ran, and none failed; the score is passed ÷ run
//	forbidden-command     no violation of R004; the score is 1 or 0
//	forbidden-dependency  no violation of R005; the score is 1 or 0
//	violation-rate        at most so many violations; the score is 1 ÷ (1 + violations)
//	diff-quality          a rework ratio of at most so much; the score is 1 − the ratio
func Evaluators(l Limits) []Evaluator {
	return []Evaluator{
		rule{"tests-pass", func(e rundir.RunEvent) (string, bool, float32) {
			c := e.TestResults
			return fmt.Sprintf("%d of %d checks passed, %d skipped", c.Passed, c.Ran, c.Skipped), c.Failed == 0 && c.Ran > 0, stats.Share(c.Passed, c.Passed+c.Failed)
		}},
		forbidden("forbidden-command", policy.Commands),
		forbidden("forbidden-dependency", policy.Packages),
		rule{"violation-rate", func(e rundir.RunEvent) (string, bool, float32) {
			n := e.Denials.Violations()
			return fmt.Sprintf("violations: %d, at most %d", n, l.Violations), n <= l.Violations, stats.Share(1, 1+n)
		}},
		rule{"diff-quality", func(e rundir.RunEvent) (string, bool, float32) {
			ratio := e.ReworkRatio()
			return fmt.Sprintf("%d lines reworked of %d added and removed, a ratio of %.3g, at most %.3g", e.ReworkLines,
				e.DiffSummary.LinesAdded+e.DiffSummary.LinesRemoved, ratio, l.ReworkRatio), ratio <= l.ReworkRatio, 1 - ratio
		}},
	}
}

// rule is an evaluator that is a function.
type rule struct {
	name  string
	judge func(rundir.RunEvent) (details string, pass bool, score float32)
}

func (r rule) Name() string { return r.name }

func (r rule) Evaluate(e rundir.RunEvent) Evaluation {
	details, pass, score := r.judge(e)
	return Evaluation{Details: details, Name: r.name, Pass: pass, Score: score}
}

// forbidden returns the evaluator that no violation of a rule passes.
func forbidden(name, id string) rule {
	return rule{name, func(e rundir.RunEvent) (string, bool, float32) {
		n := 0
		for _, v := range e.Violations {
			if v.RuleID == id {
				n++
			}
		}
		return fmt.Sprintf("violations of %s: %d", id, n), n == 0, max(0, 1-float32(n))
	}}
}
