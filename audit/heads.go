package audit

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// A head is the beginning of a body. Whether it is all of it follows from the body's size and digest; the recorded
// word "truncated" proves nothing.
type head struct {
	text       string
	bytes      int64
	sha256     string
	redactions int
	limit      int  // what a head may have at most
	same       bool // it has the size and the digest of the body
}

func newHead(text string, bytes int64, sha256 string, redactions, limit int) head {
	var short [2 << 10]byte // on the stack
	body := short[:]
	if len(text) <= len(short) {
		body = body[:copy(body, text)]
	} else {
		body = []byte(text)
	}
	same := int64(len(text)) == bytes && canonical.HasDigest(body, sha256)
	return head{text, bytes, sha256, redactions, limit, same}
}

// whole reports whether the head is the body. Then nothing was taken out of it, whatever is said of that.
func (h head) whole() bool { return h.same && !h.overlong() }

func (h head) overlong() bool { return len(h.text) > h.limit }

// words returns what can be looked through of a head: all of a whole one, and otherwise as many bytes as heads
// have, up to the last white space, so that no word is taken for the one that it begins like.
func (h head) words() string {
	if h.whole() {
		return h.text
	}
	text := h.text[:min(len(h.text), h.limit)]
	return strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
}

// message returns the message of the model that a head is: one that is whole, or would be but for the secrets that
// were taken out of it.
func (h head) message() (trajectory.SentMessage, bool) {
	var m trajectory.SentMessage
	if !h.whole() && (h.redactions == 0 || h.overlong()) || canonical.Decode([]byte(h.text), &m) != nil || m.Role != "assistant" {
		return trajectory.SentMessage{}, false
	}
	return m, true
}

// headFact is a head that cannot be of what its size and digest are of. What it shows is then made up, and what it
// does not show cannot be told.
type badHead struct {
	Seq int64
	Of  trajectory.Type
}

// contradicts reports whether no body has this head, size and digest. A body that is no text, or holds secrets, is
// shown in other words than its own: where a secret stood in what is shown to its end, there is a mark.
func (h head) contradicts(truncated bool) bool {
	switch {
	case h.redactions > 0 && truncated:
		return !h.full()
	case h.redactions > 0:
		return h.overlong() || h.same || !strings.Contains(h.text, trajectory.Redacted)
	case strings.Contains(h.text, "\ufffd"):
		return false
	case truncated: // heads are cut between characters, which have up to four bytes
		return h.bytes <= int64(h.limit) || !h.full()
	}
	return !h.same
}

// full reports whether a head is as long as one that was cut is.
func (h head) full() bool { return len(h.text) > h.limit-4 && !h.overlong() }

// miscut reports whether a proposal's arguments cannot have been cut, or rid of secrets, as it says.
func miscut(p trajectory.ToolProposed) bool {
	marked, full := strings.Contains(p.Malformed, trajectory.Redacted), head{text: p.Malformed, limit: trajectory.ArgumentHead}.full()
	for _, arg := range p.Args {
		marked = marked || strings.Contains(arg, trajectory.Redacted)
	}
	for _, name := range p.ArgsTruncated {
		if full = (head{text: p.Args[name], limit: trajectory.ArgumentHead}).full(); !full {
			return true
		}
	}
	return p.Redactions > 0 && !marked && !full
}

// shows keeps the head of an event, and the first event of an attempt whose head contradicts it. Where digests alone
// are recorded, there are no heads.
func (t *taskReader) shows(a *attemptEvidence, ev trajectory.Event) {
	found := func(contradicts bool) {
		if contradicts && a.Contradicts == nil && !t.plan.hashes {
			a.Contradicts = &badHead{ev.Seq, ev.Payload.Type()}
		}
	}
	var body string
	truncated, h := false, &t.head
	switch p := ev.Payload.(type) {
	case trajectory.ContextCompiled:
		*h, truncated, body = newHead(p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead), p.Truncated, p.BodySHA256
		for _, m := range p.MessageHeads {
			found(headOfMessage(m).contradicts(m.Truncated))
		}
	case trajectory.ModelCallCompleted:
		if p.OutputSHA256 == "" { // a try has all of a reply or nothing: a failed try cannot hide one
			counted := p.Reply != nil && p.Error == nil // an own agent's, that counts tokens
			some := p.Bytes != 0 || p.Head != "" || p.BodySHA256 != "" || p.Truncated || p.Redactions != 0 || p.Tokens != trajectory.Tokens{}
			if (some || p.Error == nil && !counted) && a.Contradicts == nil {
				a.Contradicts = &badHead{ev.Seq, ev.Payload.Type()}
			}
			return
		}
		*h, truncated, body = newHead(p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.OutputHead), p.Truncated, p.BodySHA256
	case trajectory.ToolProposed:
		found(t.bodies.misquotes(p) || miscut(p))
		return
	case trajectory.ToolExecuted:
		*h, truncated, body = headOf(p), p.Truncated, p.BodySHA256
	case trajectory.ExchangeCompleted: // whose head is of what was decoded
		found(t.bodies.contradicts(head{text: p.Head}, p.BodySHA256))
		return
	default:
		return
	}
	found(t.bodies.contradicts(*h, body) || h.contradicts(truncated))
}

// bodies are whole documents from outside of the run, by digest; nil for one that a report names and that is not at
// hand. Of those that the run has the digest of, named says which, and used which were at hand.
type bodies struct {
	all         map[string][]byte
	named, used map[string]bool
}

// text returns the document of a digest, if it is at hand and the digest is its own.
func (b bodies) text(sha256 string) (string, bool) {
	body, ok := b.all[sha256]
	if !ok {
		return "", false
	}
	b.named[sha256] = true
	if body == nil || canonical.Digest(body) != sha256 {
		return "", false
	}
	b.used[sha256] = true
	return string(body), true
}

// contradicts reports whether a body that is at hand is not what the event shows the beginning of. What was taken
// out of it can only be compared with a body that it was taken out of, too.
func (b bodies) contradicts(h head, bodySHA256 string) bool {
	if text, ok := b.text(h.sha256); ok && h.redactions == 0 && utf8.ValidString(text) {
		return !strings.HasPrefix(text, h.text)
	}
	text, ok := b.text(bodySHA256)
	return ok && !strings.HasPrefix(text, h.text)
}

// misquotes is contradicts for the arguments of a call. Those with secrets are taken as they are.
func (b bodies) misquotes(p trajectory.ToolProposed) bool {
	text, ok := b.text(p.ArgsSHA256)
	if other, known := b.text(p.BodySHA256); !ok {
		text, ok = other, known
	}
	if !ok || p.Redactions > 0 || !utf8.ValidString(text) {
		return false
	}
	args, err := policy.Arguments([]byte(text))
	if err != nil {
		return len(p.Args) > 0 || !strings.HasPrefix(text, p.Malformed)
	}
	for name, value := range args {
		if shown, known := p.Args[name]; !known || !strings.HasPrefix(value, shown) {
			return true
		}
	}
	return len(args) != len(p.Args)
}

// files returns a start workspace with what the bodies at hand say of its files. A file that is no text has another
// text for its reader than its bytes are.
func (t *taskReader) files(workspace []trajectory.File) []trajectory.File {
	workspace = slices.Clone(workspace)
	for i, f := range workspace {
		text, ok := t.bodies.text(f.SHA256)
		if !ok || !utf8.ValidString(text) {
			continue
		}
		probes := t.prober.Probe(text, "", nil)
		if f.Probes != nil {
			probes = probes.Merge(*f.Probes)
		}
		workspace[i].Probes = &probes
	}
	return workspace
}

// hides reports whether a text is another one with secrets taken out: marks stand for anything. Without redactions
// they stand for themselves.
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

// agree reports whether two texts can be of the same one with secrets taken out. They are compared up to the first
// mark and after the last: what is a secret in one need not be one in the other.
func agree(a, b string) bool {
	if !strings.Contains(a+"\n"+b, trajectory.Redacted) {
		return a == b
	}
	beforeA, afterA := around(a)
	beforeB, afterB := around(b)
	return (strings.HasPrefix(beforeA, beforeB) || strings.HasPrefix(beforeB, beforeA)) &&
		(strings.HasSuffix(afterA, afterB) || strings.HasSuffix(afterB, afterA))
}

// around returns what stands before the first mark in a text, and after the last: all of one without marks.
func around(text string) (before, after string) {
	before, after, _ = strings.Cut(text, trajectory.Redacted)
	if before == text {
		return text, text
	}
	parts := strings.Split(after, trajectory.Redacted)
	return before, parts[len(parts)-1]
}

// gives reports whether a committed answer is the one of a reply. Of a reply that neither is whole nor would be but
// for its secrets this is not known.
func (m *modelFact) gives(a *trajectory.AnswerCommitted) bool {
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

// asksFor reports whether a reply that is shown without its secrets can have asked for a call.
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

// unlisted is the source of a message that a request holds and does not list.
const unlisted = "unlisted"

// prompt compares the messages of a request with those that the events before it give. A conversation grows with
// every request, and what a request adds is the messages that it lists for the first time.
func (t *taskReader) prompt(a *attemptEvidence, seq int64, p trajectory.ContextCompiled) {
	t.turn.prompted, t.turn.of(a).Asked = true, true
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
	whole := t.head.whole()
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
			t.turn.of(a).Last = true
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
	maps.DeleteFunc(lines, func(_ string, line *shownLine) bool { return line.listed || p.Redactions != 0 })
	if len(lines) > 0 {
		for _, sum := range slices.Sorted(maps.Keys(lines)) {
			a.Odd = append(a.Odd, t.odd(a, seq, unlisted, sum, lines[sum]))
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
	return newHead(m.Head, m.Bytes, m.SHA256, m.Redactions, trajectory.OddHead)
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
	for _, own := range t.ownTexts() {
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
