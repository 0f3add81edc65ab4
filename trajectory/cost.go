package trajectory

// Cost returns what the requests to a model cost that an event tells of, in micro-USD, nil where that is not known, and
// how many there were at least; 0 where it tells of none that was answered.
func Cost(p Payload) (microUSD *int64, requests int) {
	switch p := p.(type) {
	case ModelCallCompleted:
		if p.OutputSHA256 != "" {
			return p.CostMicroUSD, 1
		}
	case ToolExecuted:
		if p.Model != nil {
			return p.Model.CostMicroUSD, 1
		}
	case Judgment:
		return p.CostMicroUSD, max(p.Tries, 1)
	case JudgeBattery:
		return p.CostMicroUSD, p.Tries
	case Preflight:
		return p.CostMicroUSD, p.Requests
	}
	return nil, 0
}
