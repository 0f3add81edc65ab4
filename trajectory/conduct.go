package trajectory

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json"
)

// Denials counts policy_violation events by class.
type Denials struct {
	Budget   int `json:"budget" parquet:"budget"`
	DenyList int `json:"deny_list" parquet:"deny_list"`
	Mode     int `json:"mode" parquet:"mode"`
	Rule     int `json:"rule" parquet:"rule"`
}

// Violations returns how often a rule other than that of budgets, or the deny list, was
// violated. Denials by mode and by budget are counted by themselves.
func (d Denials) Violations() int { return d.DenyList + d.Rule }

// Conduct counts what was done about the calls of attempts beside running them.
// Everything that counts denials, refusals or rollbacks has its numbers from
// [Conduct.Add].
type Conduct struct {
	Denials          Denials `json:"denials"`
	PersonRefusals   int     `json:"person_refusals"` // a person was asked, and said no
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

// Sum adds the counts of another conduct. It returns false, and changes nothing, where
// a count is negative, a sum exceeds most, or more rollbacks are correct than there are.
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

// Restores reports whether a rollback changed the workspace: it lists what it restored,
// or the workspace could not be read and was replaced as a whole.
func (r Rollback) Restores() bool {
	return len(r.Restored) > 0 || r.TreeFound == "" && r.TreeBefore != ""
}

// Correct reports whether a rollback is recorded to have left the workspace as it was
// kept.
func (r Rollback) Correct() bool { return r.TreeAfter == r.TreeBefore && r.TreeBefore != "" }

// WitnessGovernance is the tag of a section of our own: what was done about the calls of
// the attempt, as canonical JSON of a [WitnessConduct]. Each bundle that gaia writes has it.
const WitnessGovernance uint16 = 0x4148

// WitnessConduct is the conduct of a bundle's attempt, all zero where there is none, and
// whether the recording of its run did not fail.
type WitnessConduct struct {
	Conduct
	Recorded bool `json:"recorded"`
}

// Encode returns the value of the section.
func (c WitnessConduct) Encode() ([]byte, error) { return canonical.Encode(c) }

// Conduct returns what a bundle's own section says; false where there is none, as in
// bundles of other writers.
func (w Witness) Conduct() (WitnessConduct, bool) {
	value, there := w.Section(WitnessGovernance)
	if !there {
		return WitnessConduct{}, false
	}
	c, err := parseConduct(value)
	return c, err == nil
}

// maxConduct bounds the section, in bytes: it has room for seven numbers.
const maxConduct = 512

// parseConduct reads the section, which must be as Encode writes it.
func parseConduct(value []byte) (c WitnessConduct, err error) {
	if len(value) > maxConduct {
		return c, fmt.Errorf("it has %d bytes, more than %d", len(value), maxConduct)
	}
	if err := json.Unmarshal(value, &c, json.RejectUnknownMembers(true)); err != nil {
		return c, err
	}
	again, err := c.Encode()
	if err == nil && !bytes.Equal(again, value) {
		err = fmt.Errorf("it is not canonical")
	}
	return c, err
}

// conducted checks a bundle's own section, if it has one, against the trace. A denial
// by deny list or mode, and a person's refusal, each deny a call of the trace. So does a
// broken rule, or else it refused a redirect of a call that ran. A violation of a budget
// may be of a reply of the model that cost more than was left.
func (w Witness) conducted() error {
	value, there := w.Section(WitnessGovernance)
	if !there {
		return nil
	}
	c, err := parseConduct(value)
	if err != nil {
		return fmt.Errorf("the governance section of a witness bundle: %w", err)
	}
	if !new(Conduct).Sum(c.Conduct, math.MaxUint32) {
		return fmt.Errorf("the governance section of a witness bundle counts what cannot be")
	}
	calls, denied := 0, w.Denied()
	for range w.entries {
		calls++
	}
	d := c.Denials
	of := d.DenyList + d.Mode + c.PersonRefusals
	if calls == denied {
		of += d.Rule
	}
	if of > denied || c.Rollbacks > 0 && calls == 0 {
		return fmt.Errorf("the governance section of a witness bundle contradicts its trace: %d of %d calls are denied", denied, calls)
	}
	return nil
}
