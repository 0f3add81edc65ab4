package policy

// The severities of a broken rule, the gravest first.
const (
	SeverityCritical = "critical"
	SeverityHigh     = "high"
	SeverityMedium   = "medium"
	SeverityLow      = "low"
)

// Severity says how grave it is that a call broke a rule: critical where a score
// could be had that way, or keys; low where only a budget was spent. A rule that
// this version does not have is medium.
//
// It rates the attempt, whether or not the call ran, and is no part of the
// constitution: guidance_hash does not depend on it. The audit rates what came of it,
// and differs where that matters: to have asked a source of answers without getting
// one is HIGH there, as is reaching for keys; code that hooked itself into other
// programs is CRITICAL, as is a budget that was exceeded rather than kept.
func Severity(ruleID string) string {
	switch ruleID {
	case AnswerSources, GraderSurfaces, Secrets:
		return SeverityCritical
	case Commands, Packages:
		return SeverityHigh
	case Budget:
		return SeverityLow
	}
	return SeverityMedium
}
