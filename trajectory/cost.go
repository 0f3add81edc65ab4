package trajectory

// Cost returns what the requests to a model cost that an event tells of, in
// micro-USD, nil where that is not known; asked is false where it tells of none
// that was answered.
func Cost(p Payload) (microUSD *int64, asked bool) {
	switch p := p.(type) {
	case ModelCallCompleted:
		return p.CostMicroUSD, p.OutputSHA256 != ""
	case ToolExecuted:
		if p.Model != nil {
			return p.Model.CostMicroUSD, true
		}
	case Judgment:
		return p.CostMicroUSD, true
	case SecurityEvent:
		if p.Battery != nil && !p.Battery.Remembered {
			return p.Battery.CostMicroUSD, true
		}
	}
	return nil, false
}
