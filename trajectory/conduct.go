package trajectory

// Denials counts policy_violation events by class.
type Denials struct {
	Budget   int `json:"budget" parquet:"budget"`
	DenyList int `json:"deny_list" parquet:"deny_list"`
	Mode     int `json:"mode" parquet:"mode"`
	Rule     int `json:"rule" parquet:"rule"`
}

// Violations returns how often a rule other than that of budgets, or the deny list, was violated. Denials by mode and
// by budget are counted by themselves.
func (d Denials) Violations() int { return d.DenyList + d.Rule }

// Conduct counts what was done about the calls of attempts beside running them. Everything that counts denials,
// refusals or rollbacks has its numbers from [Conduct.Add].
type Conduct struct {
	Denials          Denials `json:"denials"`
	PersonRefusals   int     `json:"person_refusals"` // a person was asked and refused
	Rollbacks        int     `json:"rollbacks"`       // that restored something
	RollbacksCorrect int     `json:"rollbacks_correct"`
}

// Add counts an event of an attempt.
func (c *Conduct) Add(p Payload) {
	switch p := p.(type) {
	case PolicyViolation:
		if n := c.Denials.of(p.Class); n != nil {
			*n++
		}
	case ApprovalResolved:
		if !p.Approved && p.By == ByPerson {
			c.PersonRefusals++
		}
	case Rollback:
		if !p.Restores() {
			return
		}
		c.Rollbacks++
		if p.Correct() {
			c.RollbacksCorrect++
		}
	}
}

// of returns the count of a class, nil for a class that does not exist.
func (d *Denials) of(class string) *int {
	switch class {
	case "budget":
		return &d.Budget
	case "deny_list":
		return &d.DenyList
	case "mode":
		return &d.Mode
	case "rule":
		return &d.Rule
	}
	return nil
}

// numbers are the addresses of all counts.
func (c *Conduct) numbers() []*int {
	d := &c.Denials
	return []*int{&d.Budget, &d.DenyList, &d.Mode, &d.Rule, &c.PersonRefusals, &c.Rollbacks, &c.RollbacksCorrect}
}

// Sum adds the counts of another conduct. It returns false, and changes nothing, where a count is negative, a sum
// exceeds most, or more rollbacks are correct than there are.
func (c *Conduct) Sum(other Conduct, most int64) bool {
	sum := *c
	to := sum.numbers()
	for i, n := range other.numbers() {
		if *n < 0 || int64(*to[i]) > most-int64(*n) {
			return false
		}
		*to[i] += *n
	}
	if other.RollbacksCorrect > other.Rollbacks {
		return false
	}
	*c = sum
	return true
}

// Restores reports whether a rollback changed the workspace: it lists what it restored, or the workspace could not be
// read and was replaced as a whole.
func (r Rollback) Restores() bool {
	return len(r.Restored) > 0 || r.TreeFound == "" && r.TreeBefore != ""
}

// Correct reports whether a rollback is recorded to have left the workspace as it was kept.
func (r Rollback) Correct() bool { return r.TreeAfter == r.TreeBefore && r.TreeBefore != "" }

// Usage returns what an event counts of requests to a model: tokens, the cost in micro-USD (nil if unknown), and the
// least number of requests that were answered, 0 if none is known to be.
func Usage(p Payload) (tokens Tokens, microUSD *int64, requests int) {
	switch p := p.(type) {
	case ModelCallCompleted:
		if p.OutputSHA256 != "" {
			requests = 1
		}
		return p.Tokens, p.CostMicroUSD, requests
	case ToolExecuted:
		if p.Model != nil {
			return p.Model.Tokens, p.Model.CostMicroUSD, 1
		}
	case Judgment:
		return Tokens{In: p.TokensIn, Out: p.TokensOut}, p.CostMicroUSD, max(p.Tries, 1)
	case JudgeBattery:
		return Tokens{In: p.TokensIn, Out: p.TokensOut}, p.CostMicroUSD, p.Tries
	case Preflight:
		return p.Tokens, p.CostMicroUSD, p.Requests
	}
	return Tokens{}, nil, 0
}
