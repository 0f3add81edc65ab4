package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// ExactMatchLine begins the line of a test log with the official scorer's verdict, "true" or "false".
const ExactMatchLine = "exact-match: "

// Match is what comes of holding a bundle's outcome against its test log.
type Match int

const (
	Agrees      Match = iota // or is of a task without a verdict, and the log has none
	Contradicts              // it, or the log itself
	Unchecked                // the log has no verdict
)

// MatchOutcome holds the outcome of a bundle against the verdict in its test log, which is that of a solved task where
// the answer matches, and of a failed one or an error where it does not; said describes it.
func MatchOutcome(w Bundle) (m Match, said string) {
	log, logged := w.Section(TestLog)
	var passed, not, garbled bool // a garbled log has another line that could be read as a verdict
	letters := func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case line == ExactMatchLine+"true":
			passed = true
		case line == ExactMatchLine+"false":
			not = true
		case strings.Contains(strings.Map(letters, line), "exactmatch"):
			garbled = true
		}
	}
	solved, skipped := w.Outcome == Solved, w.Outcome == Skipped
	switch {
	case garbled:
		return Unchecked, "the test log has a line that is almost a verdict of the official scorer"
	case passed && not:
		return Contradicts, "the test log says both that the answer matches and that it does not"
	case passed && !solved, not && (solved || skipped):
		return Contradicts, "the test log says otherwise"
	case passed || not:
		return Agrees, "the test log says so, too"
	case skipped:
		return Agrees, "so there is no verdict to compare it with"
	case !logged:
		return Unchecked, "there is no test log"
	}
	return Unchecked, "the test log has no verdict of the official scorer"
}

// The lines of a postmortem that count what the governance section counts too, each before its number.
const (
	ViolationsLine = "rules broken: "
	RollbacksLine  = "rollbacks: "
)

// Check compares a bundle's governance section with its postmortem. The error is a contradiction between them.
func Check(w Bundle) error {
	c, says := w.Conduct()
	text, _ := w.Section(Postmortem)
	if !says {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		for start, want := range map[string]int{ViolationsLine: c.Denials.Violations(), RollbacksLine: c.Rollbacks} {
			rest, counts := strings.CutPrefix(line, start)
			if number, _, _ := strings.Cut(strings.TrimSpace(rest), " "); counts && number != strconv.Itoa(want) {
				return fmt.Errorf("its governance section counts %d where its postmortem has %q", want, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// NewTaskID returns the id of a task in a witness bundle: the bytes of a UUID in lower case, or of another text the
// first 16 of its SHA-256.
func NewTaskID(id string) (out [16]byte) {
	digits := strings.ReplaceAll(id, "-", "")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(out) || id != UUID([16]byte(b)) {
		sum := sha256.Sum256([]byte(id))
		b = sum[:]
	}
	copy(out[:], b)
	return out
}

// UUID returns the id of a task in a witness bundle in the form of a UUID.
func UUID(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

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
