package audit

// Check is one thing the audit looks for.
type Check struct {
	ID       string   // AUD-1
	Name     string   // answer-leakage
	Title    string   // what a pass says
	Why      string   // how a score is earned that way
	Severity Severity // of the gravest finding it can make
	Fix      string   // what to do about a finding
	Gate     bool     // a run is not submittable while it fails or could not see
	Run      func(*Evidence, *Notes)
}

// Checks returns all checks, in their order.
func Checks() []Check {
	return []Check{
		answerLeakage(),
		noWorkPass(),
		oracleLeakage(),
		graderIsolation(),
		normalizationCollision(),
		votingDisclosure(),
		splitIntegrity(),
		coverageDenominator(),
		trajectoryIntegrity(),
	}
}
