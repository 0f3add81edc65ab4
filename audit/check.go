package audit

import (
	"slices"
	"strings"
)

// Check is one thing the audit looks for.
type Check struct {
	ID         string   // AUD-1
	Name       string   // answer-leakage
	Title      string   // what a pass says
	Why        string   // how a score is earned that way
	Severity   Severity // of the gravest finding it can make
	Fix        string   // what to do about a finding
	Skips      string   // when it could not see
	Absent     string   // when its subject does not exist; "" if it always does
	References []string // where the way of cheating is told of, or the rule comes from
	Gate       bool     // a run is not submittable while it could not see
	Rules      []Rule   // all that it can find, the gravest first
	Run        func(*Evidence, *Notes)
}

// Rule is one way in which a check finds something.
type Rule struct {
	ID       string // uuid-with-answer: a finding's rule_id without the check's id
	Severity Severity
	Version  int    // rises when it finds something else than before
	When     string // what it finds, in the words of "it finds …"
}

// rule returns a rule of the check; false if it has none of that id.
func (c Check) rule(id string) (Rule, bool) {
	at := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.ID == id })
	if at < 0 {
		return Rule{}, false
	}
	return c.Rules[at], true
}

// RuleOf returns the rule of the checks that a finding's rule_id names; false if
// there is none.
func RuleOf(checks []Check, id string) (Rule, bool) {
	check, rule, _ := strings.Cut(id, ".")
	at := slices.IndexFunc(checks, func(c Check) bool { return c.ID == check })
	if at < 0 {
		return Rule{}, false
	}
	return checks[at].rule(rule)
}

// Checks returns all checks, in their order. AUD-9 is left free; AUD-15 to AUD-17
// are reserved.
func Checks() []Check {
	return []Check{
		answerLeakage(),
		noWorkPass(),
		oracleLeakage(),
		graderIsolation(),
		normalizationCollision(),
		votingDisclosure(),
		splitIntegrity(),
		answerKeyReads(),
		judgeInjection(),
		coverageDenominator(),
		trajectoryIntegrity(),
		usageReconciliation(),
		modelIdentity(),
		benchmarkSeeking(),
		scorerParity(),
		judgeHealth(),
		attachmentDelivery(),
		contradictoryRecords(),
	}
}
