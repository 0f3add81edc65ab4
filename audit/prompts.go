package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// unlisted is the source of a message that a request holds and does not list.
const unlisted = "unlisted"

// prompt holds the messages of a request against what their sources give: the
// templates and the question by digest, the model's messages against its
// replies, a tool's against the calls of the attempt. A conversation grows with
// every request, and what a request adds is the messages that it lists for the
// first time.
func (t *following) prompt(a *AttemptEvidence, seq int64, p trajectory.ContextCompiled) {
	t.turn.prompted, a.open().Asked = true, true
	fact := PromptFact{Seq: seq, Messages: len(p.Messages), Overlong: len(p.Head) > trajectory.PromptHead}
	if len(p.Messages) == 0 { // told says that nothing was recorded
		a.Prompts = append(a.Prompts, fact)
		t.talk.missing = true
		return
	}
	fact.Stale = len(p.Messages) <= len(t.talk.last) && !t.talk.again(len(p.Messages))
	lines := wholeLines(p.Head)
	whole := head{p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead}.whole()
	added, hidden := int64(0), false
	for i, m := range p.Messages {
		line := lines[m.SHA256]
		if line != nil {
			line.listed = true
		}
		if i < len(t.talk.last) && m == t.talk.last[i] {
			continue
		}
		added += m.Bytes + 1
		hidden = hidden || whole && line == nil
		due, unknown := i >= len(t.talk.last) && t.accounted(a, i, m), t.plan.unknown[m.Source]
		if !due && t.talk.exchanged(i, m) {
			unknown = t.plan.unknown[prompt.CondensedID]
			due = !unknown
		}
		fact.Scaled = fact.Scaled || due && a.scaled(m)
		a.Pictured = a.Pictured || due && m.Image != trajectory.Image{}
		if (due || unknown) && m.Source == prompt.LastTurnID {
			a.open().Last = true
		}
		if !due || smuggles(m, line) {
			odd := t.odd(a, seq, m.Source, m.SHA256, line)
			odd.Unknown = unknown
			a.Odd = append(a.Odd, odd)
		}
	}
	for _, sum := range slices.Sorted(maps.Keys(lines)) {
		if line := lines[sum]; !line.listed && p.Redactions == 0 {
			a.Odd = append(a.Odd, t.odd(a, seq, unlisted, sum, line))
		}
	}
	fits := p.Bytes <= trajectory.PromptHead && p.Redactions == 0 && !(t.plan.hashes && p.Head == "")
	fact.Differs = !t.talk.missing && (added != p.Bytes || hidden || fits && !whole)
	a.Prompts = append(a.Prompts, fact)
	t.talk.last, t.talk.answered = p.Messages, false
	clear(t.talk.exchanges)
}

// shownLine is a line of a request's head.
type shownLine struct {
	text   string
	listed bool // as a message of the request
}

// wholeLines returns the lines of a request's head, by digest.
func wholeLines(text string) map[string]*shownLine {
	lines := map[string]*shownLine{}
	for line := range strings.Lines(text[:min(len(text), trajectory.PromptHead)]) {
		if line, whole := strings.CutSuffix(line, "\n"); whole {
			lines[sign.Digest([]byte(line))] = &shownLine{text: line}
		}
	}
	return lines
}

// odd probes what a message holds besides the question and the templates, if a
// line of the head shows it.
func (t *following) odd(a *AttemptEvidence, seq int64, source, sha256 string, line *shownLine) OddMessage {
	o := OddMessage{Seq: seq, Source: source, SHA256: sha256}
	if line == nil {
		return o
	}
	text := line.text
	var sent trajectory.SentMessage
	if json.Unmarshal([]byte(line.text), &sent) == nil {
		text = sent.Content
	}
	for _, own := range t.ownTexts {
		text = strings.ReplaceAll(text, own, " ")
	}
	for _, c := range sent.ToolCalls {
		text += "\n" + c.Name + "\n" + c.Arguments
	}
	o.Seen, o.Residue, o.Short = true, t.prober.Probe(text, "", nil), t.prober.shortStands(text)
	o.Records = namesRecords(t.plan.anything, text)
	t.odds.add(OddText{t.TaskEvidence, a.Number, seq, sha256, text, o.Residue.OtherUUIDs > 0 && o.Residue.AnswerKeys > 0})
	return o
}

// accounted reports whether a message is what its source gives, and stands
// where that source may.
func (t *following) accounted(a *AttemptEvidence, i int, m trajectory.Message) bool {
	if (m.Source == prompt.SystemID) != (i == 0) || (m.Source == "question") != (i == 1) {
		return false
	}
	if m.Image != (trajectory.Image{}) {
		return t.pictured(a, m)
	}
	l := listed{m.Role, m.SHA256, m.Source}
	_, said := t.talk.said[l]
	return said || t.expected[l]
}

// oddTexts are the distinct texts of odd messages, kept for tasks that are told
// of later: a run that is as it should be has none.
type oddTexts struct {
	all    []OddText
	said   map[string]bool // texts that are kept
	bytes  int
	unread bool
}

// mostOddBytes is how much of them is kept.
const mostOddBytes = 1 << 20

func (o *oddTexts) add(t OddText) {
	switch {
	case o.said[t.Text]:
	case o.bytes+len(t.Text) > mostOddBytes:
		o.unread = true
	default:
		o.said[t.Text], o.bytes = true, o.bytes+len(t.Text)
		o.all = append(o.all, t)
	}
}

// namesRecords reports whether a text names what the policy calls the surfaces of
// a grader: the run's own records, its keys, verdicts of a judge.
func namesRecords(p policy.Policy, text string) bool {
	return slices.Contains(policy.Decide(p, policy.Call{Known: true, Texts: []string{text}}).RuleIDs, policy.GraderSurfaces)
}
