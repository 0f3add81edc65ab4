package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// unlisted is the source of a message that a request holds and does not list.
const unlisted = "unlisted"

// prompt compares the messages of a request with those that the events before it give. A conversation grows with
// every request, and what a request adds is the messages that it lists for the first time.
func (t *taskReader) prompt(a *attemptEvidence, seq int64, p trajectory.ContextCompiled) {
	t.turn.prompted, a.open().Asked = true, true
	t.turn.bytes = 0
	for _, m := range p.Messages {
		t.turn.bytes += m.Bytes
	}
	fact := promptFact{Seq: seq, Messages: len(p.Messages), Overlong: len(p.Head) > trajectory.PromptHead}
	if len(p.Messages) == 0 { // told says that nothing was recorded
		a.Prompts = append(a.Prompts, fact)
		t.unlisted = true
		return
	}
	text := p.Head[:min(len(p.Head), trajectory.PromptHead)]
	if body, ok := t.bodies.text(p.ContentSHA256); ok {
		text = body
	}
	lines, cut := shownMessages(text, p.MessageHeads)
	for _, m := range p.Messages {
		if line := lines[m.SHA256]; line != nil {
			line.listed = true
		}
	}
	file, there := a.attachment()
	if len(p.Messages) > 1 {
		// The question may carry a picture that was made from the attachment. Where it is not the attachment byte
		// for byte, the journal cannot show what of.
		image := p.Messages[1].Image
		if t.images && there && image.Path == file.Path && strings.HasPrefix(image.MediaType, "image/") &&
			(image.SHA256 != file.SHA256 || image.Bytes == file.Bytes) {
			t.talk.Picture(image)
		}
	}
	whole := head{p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead}.whole()
	added, hidden, news := int64(0), false, 0
	fact.Stale, fact.Short = t.talk.Request(p.Messages, func(i int, origin prompt.Origin) {
		m, due := p.Messages[i], origin == prompt.Expected
		line := lines[m.SHA256]
		if line == nil && news == cut.before {
			line = &cut.shownLine
		}
		added, news = added+m.Bytes+1, news+1
		hidden = hidden || whole && (line == nil || line.own)
		fact.Scaled = fact.Scaled || due && m.Image != trajectory.Image{} && m.Image.SHA256 != file.SHA256
		a.Pictured = a.Pictured || due && m.Image != trajectory.Image{}
		if origin != prompt.Odd && m.Source == prompt.LastTurnID {
			a.open().Last = true
		}
		// A picture that the list of messages does not have, or what only the model's own messages may hold unread:
		// in its text these members would stand with their quotes escaped.
		smuggled := line != nil && (m.Image == trajectory.Image{} && strings.Contains(line.text, `,"image":{`) ||
			m.Role != "assistant" && strings.Contains(line.text, `,"opaque_sha256":`))
		if !due || smuggled {
			odd := t.odd(a, seq, m.Source, m.SHA256, line)
			odd.Unknown = origin == prompt.Unknown
			a.Odd = append(a.Odd, odd)
		}
	})
	for _, sum := range slices.Sorted(maps.Keys(lines)) {
		if line := lines[sum]; !line.listed && p.Redactions == 0 {
			a.Odd = append(a.Odd, t.odd(a, seq, unlisted, sum, line))
		}
	}
	fits := p.Bytes <= trajectory.PromptHead && p.Redactions == 0 && !(t.plan.hashes && p.Head == "")
	fact.Differs = !t.unlisted && (added != p.Bytes || hidden || fits && !whole)
	a.Prompts = append(a.Prompts, fact)
}

// shownLine is what a request shows of a message.
type shownLine struct {
	text   string // its canonical form, or the beginning of that
	cut    bool   // it is the beginning
	own    bool   // it has a separate head
	listed bool   // as a message of the request
}

// cutLine is the last line of a request's head, which is not whole, and how many messages the head shows before it.
type cutLine struct {
	shownLine
	before int // -1: no line is cut
}

// shownMessages returns by digest what is shown of the messages of a request: the lines of its text, of which the
// last may be cut, and heads of their own.
func shownMessages(text string, heads []trajectory.MessageHead) (lines map[string]*shownLine, cut cutLine) {
	lines, cut = map[string]*shownLine{}, cutLine{before: -1}
	n := 0
	for line := range strings.Lines(text) {
		if line, whole := strings.CutSuffix(line, "\n"); whole {
			lines[canonical.Digest([]byte(line))] = &shownLine{text: line}
		} else {
			cut = cutLine{shownLine{text: line, cut: true}, n}
		}
		n++
	}
	for _, m := range heads[:min(len(heads), trajectory.MostMessageHeads)] {
		if h := headOfMessage(m); lines[m.SHA256] == nil {
			lines[m.SHA256] = &shownLine{text: h.words(), cut: !h.whole(), own: true}
		}
	}
	return lines, cut
}

func headOfMessage(m trajectory.MessageHead) head {
	return head{m.Head, m.Bytes, m.SHA256, m.Redactions, trajectory.OddHead}
}

// message returns the message that a line is the canonical form, or the beginning, of; false if it is neither.
func (l *shownLine) message() (m trajectory.SentMessage, ok bool) {
	if !l.cut {
		return m, json.Unmarshal([]byte(l.text), &m) == nil
	}
	for end := len(l.text); end >= max(0, len(l.text)-len(`\ud83d\ude0`)); end-- { // an escape may be cut
		if json.Unmarshal([]byte(l.text[:end]+`"}`), &m) == nil {
			return m, true
		}
	}
	return m, false
}

// odd probes what a message holds besides the question and the templates, as far as the request shows it.
func (t *taskReader) odd(a *attemptEvidence, seq int64, source, sha256 string, line *shownLine) oddMessage {
	o := oddMessage{Seq: seq, Source: source, SHA256: sha256}
	if line == nil {
		return o
	}
	text := line.text
	sent, ok := line.message()
	if ok {
		text = sent.Content
	}
	for _, own := range t.ownTexts {
		text = strings.ReplaceAll(text, own, " ")
	}
	for _, c := range sent.ToolCalls {
		text += "\n" + c.Name + "\n" + c.Arguments
	}
	o.Seen, o.Residue, o.Short = !line.cut, t.prober.Probe(text, "", nil), t.prober.HasShortGold(text)
	o.Records = namesRecords(t.plan.anything, text)
	t.odds.add(oddText{t.taskEvidence, a.Number, seq, sha256, text, o.Residue.OtherUUIDs > 0 && o.Residue.AnswerKeys > 0})
	return o
}

// oddTexts are the distinct texts of odd messages, kept for tasks that are told of later: a run that is as it
// should be has none.
type oddTexts struct {
	all    []oddText
	said   map[string]bool // texts that are kept
	bytes  int
	unread bool
}

// mostOddBytes is how much of them is kept.
const mostOddBytes = 1 << 20

func (o *oddTexts) add(t oddText) {
	switch {
	case o.said[t.Text]:
	case o.bytes+len(t.Text) > mostOddBytes:
		o.unread = true
	default:
		o.said[t.Text], o.bytes = true, o.bytes+len(t.Text)
		o.all = append(o.all, t)
	}
}

// namesRecords reports whether a text names what the policy calls the surfaces of a grader: the run's own records,
// its keys, verdicts of a judge.
func namesRecords(p policy.Policy, text string) bool {
	return slices.Contains(policy.Decide(p, policy.Call{Known: true, Texts: []string{text}}).RuleIDs, policy.GraderSurfaces)
}

// attachment returns the file that comes with the question, as the attempt began with it; false if there is none.
func (a *attemptEvidence) attachment() (trajectory.File, bool) {
	at := slices.IndexFunc(a.Workspace, func(f trajectory.File) bool { return f.Path == a.FileName })
	if at < 0 || a.FileName == "" {
		return trajectory.File{}, false
	}
	return a.Workspace[at], true
}
