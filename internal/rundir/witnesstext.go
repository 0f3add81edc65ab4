package rundir

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json/jsontext"
)

// statedPlan returns the text of a message by the head of its canonical form, as
// far as it is there: a head that was cut ends in the text, and never in the midst
// of an escape or a character.
func statedPlan(head string) string {
	rest, ok := strings.CutPrefix(head, `{"content":"`) // its first member
	if !ok {
		return ""
	}
	end := 0
	for end < len(rest) && rest[end] != '"' {
		n := 1
		if rest[end] == '\\' {
			n = escapeLen(rest[end:])
		} else if _, n = utf8.DecodeRuneInString(rest[end:]); n == 0 || !utf8.FullRuneInString(rest[end:]) {
			break
		}
		if n == 0 {
			break
		}
		end += n
	}
	text, err := jsontext.AppendUnquote(nil, `"`+rest[:end]+`"`)
	if err != nil {
		return ""
	}
	return string(text)
}

// escapeLen returns the length of the escape that s begins with, of both where two
// make a character; 0 if it is cut.
func escapeLen(s string) int {
	n := 2
	if len(s) > 1 && s[1] == 'u' {
		n = 6
		if len(s) >= 6 && strings.ContainsRune("dD", rune(s[2])) && strings.ContainsRune("89abAB", rune(s[3])) {
			n = 12
		}
	}
	if n > len(s) {
		return 0
	}
	return n
}

// The lines of a test log, which readers look for.
const (
	exactMatchLine = "exact-match: "
	judgeLine      = "judge: "
	pathLine       = "scoring path: "
)

// testLog says what the checks of an answer said, without gold and answer.
func testLog(j trajectory.Judgment, hasJudge bool) string {
	log := fmt.Sprintf("%s%t\n", exactMatchLine, j.Official)
	if hasJudge {
		asked := j.Cached || j.Tries > 0 || j.Path == PathError
		said := "none (not asked)"
		switch {
		case j.Judged == nil:
			said = "none (" + onOneLine(j.Path) + ")"
		case asked:
			said = fmt.Sprint(*j.Judged)
		}
		log += judgeLine + said + "\n"
	}
	return log + pathLine + onOneLine(j.Path) + "\n"
}

// witnessVerdict returns what a bundle's test log says of the official scorer's
// verdict: passed, or not, or neither; both where it says both. A log is garbled that
// has anything else that could be read as such a line.
func witnessVerdict(log []byte) (passed, not, garbled bool) {
	letters := func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case line == exactMatchLine+"true":
			passed = true
		case line == exactMatchLine+"false":
			not = true
		case strings.Contains(strings.Map(letters, line), "exactmatch"):
			garbled = true
		}
	}
	return passed, not, garbled
}

// WitnessMatch is what comes of holding a bundle's outcome against its test log.
type WitnessMatch int

const (
	WitnessAgrees      WitnessMatch = iota // or is of a task without a verdict, and the log has none
	WitnessContradicts                     // it, or the log itself
	WitnessUnchecked                       // the log does not tell
)

// MatchWitness holds the outcome of a bundle against the verdict in its test log, which
// is that of a solved task where the answer matches, and of a failed one or an error
// where it does not; said is what to tell of it.
func MatchWitness(w witness.Bundle) (m WitnessMatch, said string) {
	log, logged := w.Section(witness.TestLog)
	passed, not, garbled := witnessVerdict(log)
	solved, skipped := w.Outcome == witness.Solved, w.Outcome == witness.Skipped
	switch {
	case garbled:
		return WitnessUnchecked, "the test log has a line that is almost a verdict of the official scorer"
	case passed && not:
		return WitnessContradicts, "the test log says both that the answer matches and that it does not"
	case passed && !solved, not && (solved || skipped):
		return WitnessContradicts, "the test log says otherwise"
	case passed || not:
		return WitnessAgrees, "the test log says so, too"
	case skipped:
		return WitnessAgrees, "so there is no verdict to hold it against"
	case !logged:
		return WitnessUnchecked, "there is no test log"
	}
	return WitnessUnchecked, "the test log has no verdict of the official scorer"
}

// postmortem says by the journal alone why a task was not solved.
func postmortem(t *Task, a *Attempt, rules []string) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "outcome: %s\nattempt: %d of %d, %s", t.Sealed.Outcome, a.Number, len(t.Attempts), a.Ended.Outcome)
	if a.Ended.Reason != "" {
		fmt.Fprintf(w, " (%s)", onOneLine(a.Ended.Reason))
	}
	w.WriteString("\n")
	if e := a.Error; e != nil {
		fmt.Fprintf(w, "failed: %s: %s", onOneLine(e.Stage), onOneLine(e.Message))
		if e.Code != "" {
			fmt.Fprintf(w, " (%s)", onOneLine(e.Code))
		}
		w.WriteString("\n")
	}
	answer := "none"
	if a.Answer != nil {
		answer = "given"
	}
	fmt.Fprintf(w, "answer: %s\n%s%d", answer, violationsLine, a.Conduct.Denials.Violations())
	if len(rules) > 0 {
		fmt.Fprintf(w, " (%s)", onOneLine(strings.Join(rules, ", ")))
	}
	fmt.Fprintf(w, "\n%s%d\nretries: %d\n", rollbacksLine, a.Conduct.Rollbacks, a.Retried)
	return w.String()
}

// The lines of a postmortem that count what the governance section counts too.
const (
	violationsLine = "rules broken: "
	rollbacksLine  = "rollbacks: "
)

// CheckWitness compares a bundle's governance section with its postmortem. The error is
// a contradiction between them.
func CheckWitness(w witness.Bundle) error {
	c, says := w.Conduct()
	text, _ := w.Section(witness.Postmortem)
	if !says {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		for start, want := range map[string]int{violationsLine: c.Denials.Violations(), rollbacksLine: c.Rollbacks} {
			rest, counts := strings.CutPrefix(line, start)
			if number, _, _ := strings.Cut(strings.TrimSpace(rest), " "); counts && number != strconv.Itoa(want) {
				return fmt.Errorf("its governance section counts %d where its postmortem has %q", want, onOneLine(line))
			}
		}
	}
	return nil
}

// onOneLine keeps text from outside on its line, so that it cannot pass for another.
func onOneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
