package ledger

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/trajectory"
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

// WitnessVerdict returns what a bundle's test log says of the official scorer's
// verdict: passed, or not, or neither. It is false for both where the log says
// nothing of it, and true for both where it says both.
func WitnessVerdict(log []byte) (passed, not bool) {
	for line := range strings.Lines(string(log)) {
		switch strings.TrimRight(line, "\r\n") {
		case exactMatchLine + "true":
			passed = true
		case exactMatchLine + "false":
			not = true
		}
	}
	return passed, not
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
	fmt.Fprintf(w, "answer: %s\nrules broken: %d", answer, a.Violations)
	if len(rules) > 0 {
		fmt.Fprintf(w, " (%s)", onOneLine(strings.Join(rules, ", ")))
	}
	fmt.Fprintf(w, "\nrollbacks: %d\nretries: %d\n", a.Rollbacks, a.Retried)
	return w.String()
}

// onOneLine keeps text from outside on its line, so that it cannot pass for another.
func onOneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
