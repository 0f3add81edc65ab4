package witness

import (
	"fmt"
	"math"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// Governance is the tag of the section that gaia adds to each bundle: how the calls of the attempt were governed, as
// canonical JSON of a [Conduct].
const Governance uint16 = 0x4148

// Conduct is what a bundle's attempt did against its governance (all zero: nothing) and whether its run was recorded
// throughout.
type Conduct struct {
	trajectory.Conduct
	Recorded bool `json:"recorded"`
}

// Encode returns the value of the section.
func (c Conduct) Encode() ([]byte, error) { return canonical.Encode(c) }

// Conduct returns what a bundle's own section says; false where there is none, as in bundles of other writers.
func (w Bundle) Conduct() (Conduct, bool) {
	value, there := w.Section(Governance)
	if !there {
		return Conduct{}, false
	}
	c, err := parseConduct(value)
	return c, err == nil
}

// maxConduct bounds the section, in bytes: it has room for seven numbers.
const maxConduct = 512

// parseConduct reads the section, which must be as Encode writes it.
func parseConduct(value []byte) (c Conduct, err error) {
	if len(value) > maxConduct {
		return c, fmt.Errorf("it has %d bytes, more than %d", len(value), maxConduct)
	}
	err = canonical.Decode(value, &c)
	return c, err
}

// conducted checks a bundle's own section, if it has one, against the trace. A denial by deny list or mode, and a
// person's refusal, each deny a call of the trace. So does a broken rule, or else it refused a redirect of a call that
// ran. A violation of a budget may be of a reply of the model that cost more than was left.
func (w Bundle) conducted() error {
	value, there := w.Section(Governance)
	if !there {
		return nil
	}
	c, err := parseConduct(value)
	if err != nil {
		return fmt.Errorf("the governance section of a witness bundle: %w", err)
	}
	if !new(trajectory.Conduct).Sum(c.Conduct, math.MaxUint32) {
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
