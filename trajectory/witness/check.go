package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
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
