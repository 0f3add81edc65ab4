package audit

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// hides reports whether a text is another one with secrets taken out: marks stand
// for anything. Without redactions they stand for themselves.
func hides(shown, text string, redactions int) bool {
	parts := []string{shown}
	if redactions > 0 {
		parts = strings.Split(shown, trajectory.Redacted)
	}
	if len(parts) == 1 {
		return shown == text
	}
	rest, begins := strings.CutPrefix(text, parts[0])
	rest, ends := strings.CutSuffix(rest, parts[len(parts)-1])
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return begins && ends
}

// agree reports whether two texts can be of the same one with secrets taken out.
// They are held against each other up to the first mark and after the last: what
// is a secret in one need not be told in the other.
func agree(a, b string) bool {
	if !strings.Contains(a+"\n"+b, trajectory.Redacted) {
		return a == b
	}
	beforeA, afterA := around(a)
	beforeB, afterB := around(b)
	return (strings.HasPrefix(beforeA, beforeB) || strings.HasPrefix(beforeB, beforeA)) &&
		(strings.HasSuffix(afterA, afterB) || strings.HasSuffix(afterB, afterA))
}

// around returns what stands before the first mark in a text, and after the last:
// all of one without marks.
func around(text string) (before, after string) {
	before, after, _ = strings.Cut(text, trajectory.Redacted)
	if before == text {
		return text, text
	}
	parts := strings.Split(after, trajectory.Redacted)
	return before, parts[len(parts)-1]
}

// gives reports whether a committed answer is the one of a reply. Of a reply that
// neither is whole nor would be but for its secrets nobody can say.
func (m *ModelFact) gives(a *trajectory.AnswerCommitted) bool {
	marked := strings.Contains(a.Answer+"\n"+a.ReasoningTrace, trajectory.Redacted)
	switch {
	case a.Redactions > 0 && !marked:
		return false
	case !m.Whole && !m.Marked:
		return true
	case !m.Answers || m.Answer.Rule != a.Rule:
		return false
	case m.Whole:
		return hides(a.Answer, m.Answer.Text, a.Redactions) && hides(a.ReasoningTrace, m.Answer.Reasoning, a.Redactions)
	}
	return agree(a.Answer, m.Answer.Text) && agree(a.ReasoningTrace, m.Answer.Reasoning)
}

// unmarked reports whether something was taken out of the answer that a reply is
// shown with, and nothing of the committed one.
func (m *ModelFact) unmarked(a *trajectory.AnswerCommitted) bool {
	return m.Marked && m.Answers && strings.Contains(m.Answer.Text, trajectory.Redacted) && !strings.Contains(a.Answer, trajectory.Redacted)
}

// asksFor reports whether a reply that is shown without its secrets can have
// asked for a call.
func asksFor(m trajectory.SentMessage, p trajectory.ToolProposed) bool {
	for _, c := range m.ToolCalls {
		if !agree(c.Name, p.Name) {
			continue
		}
		args, err := policy.Arguments([]byte(c.Arguments))
		if err != nil || p.Malformed != "" { // a mark can stand where JSON had something else
			return true
		}
		same := true
		for name, arg := range p.Args {
			if said, known := args[name]; known && len(arg) <= trajectory.ArgumentHead-4 {
				same = same && agree(arg, said)
			} else if !known {
				same = same && strings.Contains(name+c.Arguments, trajectory.Redacted)
			}
		}
		if same {
			return true
		}
	}
	return false
}

// quotes reports whether a proposal has the arguments that a reply shows whole.
func quotes(p trajectory.ToolProposed, text string) bool {
	args, err := policy.Arguments([]byte(text))
	if err != nil {
		return len(p.Args) == 0 && hides(p.Malformed, text, p.Redactions)
	}
	same := p.Malformed == "" && len(args) == len(p.Args)
	for name, arg := range p.Args {
		said, known := args[name]
		same = same && known && hides(arg, said, p.Redactions)
	}
	return same
}
