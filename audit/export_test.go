package audit

// What tests of the package from outside use of its inside.
type (
	Evidence        = evidence
	TaskEvidence    = taskEvidence
	AttemptEvidence = attemptEvidence
)

var Judge = runChecks

// Without returns options with a rule, such as AUD-1.loader-output, that finds
// nothing.
func (o Options) Without(rule string) Options {
	o.off = rule
	return o
}
