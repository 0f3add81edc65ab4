package audit

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ownReader reads the open attempt of an own agent. Its turns overlap, its messages are its own, and no conversation
// follows from the events: what a message says is compared with what the journal shows that the agent was given.
type ownReader struct {
	turns map[int]*turn
	tries map[string]turn      // the tries of bodies of requests that failed, of which turn counts some
	last  []trajectory.Message // of the request before
	known map[string]bool      // digests of messages and of texts that the journal gives: question, replies, results
	said  []byte               // what the replies say, each plain behind a line break
	lost  bool                 // a reply is not shown whole, or there is more than is kept
	given bool                 // the agent may have the gold answer from what the journal shows
	named bool                 // likewise the task's id
	other bool                 // likewise ids of other tasks
}

// mostSaid bounds what is kept of the replies of an open attempt, in bytes.
const mostSaid = 1 << 20

// newOwnReader begins with what an attempt begins with. Of a question with the gold answer in it, which agents put in
// other words, and of an attachment, in which they look themselves, the agent has the answer.
func newOwnReader(t *taskReader, workspace []trajectory.File) *ownReader {
	m := &ownReader{turns: map[int]*turn{}, tries: map[string]turn{}, known: map[string]bool{}}
	m.knows("user", t.question)
	asked := t.prober.Probe(t.question, "", nil)
	m.given, m.named = asked.GoldHits > 0 || len(workspace) > 0, asked.OwnUUID
	for _, f := range workspace {
		m.named = m.named || f.Probes == nil || f.Probes.OwnUUID
		m.other = m.other || f.Probes == nil || f.Probes.OtherUUIDs > 0
	}
	return m
}

// knows adds a text that the journal gives, by itself and as a message.
func (m *ownReader) knows(role, text string) {
	m.known[canonical.Digest([]byte(text))] = true
	m.known[canonical.Digest(trajectory.SentMessage{Content: text, Role: role}.Canonical())] = true
}

// turnOf lets the reader look at the turn of an event. One that is completed is forgotten.
func (m *ownReader) turnOf(t *taskReader, a *attemptEvidence, ev trajectory.Event) {
	if ev.Turn == 0 {
		return
	}
	if _, begins := ev.Payload.(trajectory.TurnStarted); begins {
		m.turns[ev.Turn] = newTurn(len(a.Turns))
	}
	if t.turn = m.turns[ev.Turn]; t.turn == nil {
		t.turn = newTurn(-1)
	}
	if _, ends := ev.Payload.(trajectory.TurnCompleted); ends {
		delete(m.turns, ev.Turn)
	}
}

// sends takes a request: one whose body was sent before, and failed, is another try.
func (m *ownReader) sends(t *turn, p trajectory.ModelCallStarted) {
	if p.Request == nil {
		return
	}
	t.request = p.Request.SHA256
	t.bytes = min(t.bytes, p.Request.Bytes)
	before := m.tries[t.request]
	t.failed, t.timedOut = before.failed, before.timedOut
}

// tried keeps the failed tries of a body, up to the one that succeeds.
func (m *ownReader) tried(t *turn) {
	if t.failed+t.timedOut == 0 {
		delete(m.tries, t.request)
		return
	}
	m.tries[t.request] = turn{failed: t.failed, timedOut: t.timedOut}
}

// reply takes what a model said; whole says that the head shows all of it.
func (m *ownReader) reply(t *taskReader, p trajectory.ModelCallCompleted, said trajectory.SentMessage, whole bool) {
	m.known[p.OutputSHA256] = true
	if body, ok := t.bodies.text(p.OutputSHA256); ok && !whole {
		whole = json.Unmarshal([]byte(body), &said) == nil
	}
	if !whole {
		m.lost, m.given, m.named, m.other = true, true, true, true
		return
	}
	m.knows("assistant", said.Content)
	texts := []string{said.Content}
	for _, c := range said.ToolCalls {
		texts = append(append(texts, c.Arguments), scalars(c.Arguments)...)
	}
	for _, text := range texts {
		m.said = appendPlain(append(m.said, '\n'), text)
	}
	if len(m.said) > mostSaid {
		m.said, m.lost = nil, true
	}
	seen := t.prober.Probe(strings.Join(texts, "\n"), "", nil)
	m.given = m.given || seen.GoldHits > 0 || t.prober.HasShortGold(said.Content) || len(said.ToolCalls) > 0 || mayRun(said.Content)
	m.named, m.other = m.named || seen.OwnUUID, m.other || seen.OtherUUIDs > 0
}

// mayRun reports whether a reply may hold code, whose results no reply and no call shows.
func mayRun(text string) bool {
	return slices.ContainsFunc([]string{"```", "<code", "import ", "print(", "def "}, func(mark string) bool { return strings.Contains(text, mark) })
}

// result takes what a tool of the Gate gave.
func (m *ownReader) result(c *callFact, h head) {
	if h.whole() {
		m.knows("tool", h.text)
	}
	r := c.Result
	m.given = m.given || r.Probes.GoldHits > 0 || r.Unprobed || r.Short
	m.named, m.other = m.named || r.Probes.OwnUUID || r.Unprobed, m.other || r.Probes.OtherUUIDs > 0 || r.Unprobed
}

// isFromNoReply reports whether the values of a call stand in none of the replies before it, all of which are shown.
func (m *ownReader) isFromNoReply(p trajectory.ToolProposed) bool {
	if m.lost || p.Redactions > 0 || len(p.ArgsTruncated) > 0 {
		return false
	}
	values := []string{p.Malformed}
	for _, value := range p.Args {
		if value = strings.TrimSpace(value); strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
			values = append(values, scalars(value)...)
		} else {
			values = append(values, value)
		}
	}
	return slices.ContainsFunc(values, func(value string) bool { return !m.holds(value) })
}

// holds reports whether a reply says a text, as the official scorer compares texts.
func (m *ownReader) holds(text string) bool {
	return bytes.Contains(m.said, appendPlain(nil, text))
}

// contradicts reports whether all replies are shown and none holds an answer.
func (m *ownReader) contradicts(p trajectory.AnswerCommitted) bool {
	return !m.lost && p.Redactions == 0 && !m.holds(p.Answer)
}

// appendPlain appends a text in lower case, without white space and ASCII punctuation.
func appendPlain(to []byte, text string) []byte {
	for _, r := range text {
		if !unicode.IsSpace(r) && (r >= unicode.MaxASCII || !unicode.IsPunct(r) && !unicode.IsSymbol(r)) {
			to = utf8.AppendRune(to, unicode.ToLower(r))
		}
	}
	return to
}

// scalars returns the texts and numbers of a JSON value, and all of what is no JSON.
func scalars(value string) (found []string) {
	d := jsontext.NewDecoder(strings.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return append(found, value[min(int(d.InputOffset()), len(value)):])
		}
		if kind := token.Kind(); kind == '"' || kind == '0' {
			found = append(found, token.String())
		}
	}
}

// ownPrompt looks at what a request of an own agent adds to the one before, and keeps what no event of the attempt gives
// and is worth to be told of.
func (t *taskReader) ownPrompt(a *attemptEvidence, seq int64, p trajectory.ContextCompiled) {
	m := t.mine
	t.turn.prompted, t.turn.of(a).Asked = true, true
	text := p.Head[:min(len(p.Head), trajectory.PromptHead)]
	if body, ok := t.bodies.text(p.ContentSHA256); ok {
		text = body
	}
	lines, cut := shownMessages(text, p.MessageHeads)
	whole := head{p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead}.whole()
	added, hidden, news := int64(0), false, 0
	for i, listed := range p.Messages {
		t.turn.bytes += listed.Bytes
		if i < len(m.last) && m.last[i] == listed {
			continue
		}
		line := lines[listed.SHA256]
		if line == nil && news == cut.before {
			line = &cut.shownLine
		}
		added, news = added+listed.Bytes+1, news+1
		hidden = hidden || whole && (line == nil || line.own)
		a.PromptBytes += listed.Bytes
		if m.known[listed.SHA256] {
			continue
		}
		if line == nil || line.cut {
			a.UnseenBytes += listed.Bytes
		}
		if line != nil {
			t.ownMessage(a, seq, listed.SHA256, line)
		}
	}
	m.last = p.Messages
	fits := p.Bytes <= trajectory.PromptHead && p.Redactions == 0 && !(t.plan.hashes && p.Head == "")
	a.Prompts = append(a.Prompts, promptFact{Seq: seq, Messages: len(p.Messages), Overlong: len(p.Head) > trajectory.PromptHead,
		Differs: added != p.Bytes || hidden || fits && !whole})
}

// ownMessage probes a message that no event gives, without what events give of it.
func (t *taskReader) ownMessage(a *attemptEvidence, seq int64, sha256 string, line *shownLine) {
	m := t.mine
	text := line.text
	sent, ok := line.message()
	if ok {
		text = sent.Content
	}
	if m.known[canonical.Digest([]byte(text))] {
		return
	}
	if t.question != "" {
		text = strings.ReplaceAll(text, t.question, " ")
	}
	for _, c := range sent.ToolCalls {
		text += "\n" + c.Name + "\n" + c.Arguments
	}
	o := oddMessage{Seq: seq, Source: plan.AgentSource, SHA256: sha256, Seen: !line.cut,
		Given: m.given, Residue: t.prober.Probe(text, "", nil), Records: namesRecords(t.plan.anything, text)}
	if m.named { // and AUD-1 looks at what gave it
		o.Residue.OwnUUID, o.Residue.UUIDGoldNear = false, false
	}
	recorded := o.Residue.OtherUUIDs > 0 && o.Residue.AnswerKeys > 0 && !m.other
	if len(a.Models) == 0 && len(a.Calls) == 0 || recorded { // else it may tell of what the agent has done
		t.odds.add(oddText{t.taskEvidence, a.Number, seq, sha256, text, recorded})
	}
	for passage := range passages(text) {
		key := t.sent.add(passage, t.Plan.TaskID)
		if o.Residue.GoldHits > 0 && t.prober.Probe(passage, "", nil).GoldHits > 0 {
			o.Texts = append(o.Texts, key)
		}
	}
	if r := o.Residue; r.GoldHits > 0 || r.OwnUUID || r.UUIDGoldNear || o.Records || r.KeyedAnswers >= probe.ManyAnswers {
		a.Odd = append(a.Odd, o)
	}
}

// passages yields the lines of a text, and of long ones the sentences, so that the same advice is the same also where it
// stands beside something else.
func passages(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			for line != "" {
				passage := line
				if end := strings.Index(line, ". "); end >= 0 {
					passage = line[:end+len(". ")]
				}
				line = line[len(passage):]
				if passage = strings.TrimSpace(passage); passage != "" && !yield(passage) {
					return
				}
			}
		}
	}
}

// sentTexts are the passages that an own agent sent, by the beginning of their digests: the task that each was sent for,
// "" where these are several.
type sentTexts map[string]string

// mostSent bounds how many there are.
const mostSent = 1 << 16

// add returns the key of a passage.
func (s sentTexts) add(passage, task string) string {
	key := canonical.Digest([]byte(passage))[:len("sha256:")+32]
	if first, known := s[key]; known && first != task {
		s[key] = ""
	} else if !known && len(s) < mostSent {
		s[key] = task
	}
	return key
}

// shared reports whether passages were sent for several tasks, each.
func (s sentTexts) shared(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool {
		first, known := s[key]
		return !known || first != ""
	})
}

// checkOwnPrompts looks at what an own agent sent that no event of its attempt gives. Gold that the agent cannot have
// from what the journal shows came with it; in a text that it sends for several tasks it can stand by chance.
func checkOwnPrompts(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence) {
	for _, p := range a.Prompts {
		n.gapIf(p.Overlong, "a request has a longer head than there can be: only its beginning was looked at")
	}
	for _, o := range a.Odd {
		at := place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256, unasked: true}
		shared := e.Sent.shared(o.Texts)
		labelled := o.Residue.GoldLabelNear || o.Residue.GoldCalled || o.Residue.AnswerKeys > 0
		switch r := o.Residue; {
		case r.UUIDGoldNear, r.KeyedAnswers >= probe.ManyAnswers && !o.Given:
			n.find("prompt-residue", at, "besides the question, a message of the agent holds a task's id, or the keys of several, with an answer")
		case r.GoldHits == 0 || o.Given:
		case labelled || !shared:
			n.find("prompt-residue", at, "besides the question, a message of the agent holds its answer, which nothing that the journal shows had given it")
		default:
			n.find("answer-in-shared-text", at, "a text that the agent sends for several tasks holds the answer of one of them")
		}
		n.findIf(o.Residue.OwnUUID && !o.Residue.UUIDGoldNear, "task-id-known", at, "a message of the agent holds the task's id, which nothing that the journal shows had given it")
		n.findIf(o.Records && !o.Given, "run-records-mentioned", at, "a message of the agent names the run's own records or verdicts", "messages about the task")
	}
}

// unseenPrompts says how much of an own agent's messages the journal does not show.
func unseenPrompts(e *evidence, n *notes) {
	var all, unseen int64
	e.each(func(_ *taskEvidence, a *attemptEvidence) { all, unseen = all+a.PromptBytes, unseen+a.UnseenBytes })
	n.findIf(unseen > 0, "prompt-unseen", place{given: true}, fmt.Sprintf("%d of %d bytes of the agent's messages are in messages of which the journal shows nothing or the beginning, and that are none of the question, a reply or a result", unseen, all))
}

// unwitnessed is the gap of a run whose answers can come from where no check of this version looks: until there are
// checks of what own agents bring along and of their confinement, only answers that a reply holds, of an agent without
// a network, are witnessed.
func unwitnessed(e *evidence, n *notes) {
	a := e.Manifest.Agent
	if a == nil {
		return
	}
	n.gapIf(a.Network != plan.NetworkNone || a.Unconfined, "the agent had the network or ran outside of the sandbox: where its answers come from is not known")
	missing := 0
	e.eachTask(func(t *taskEvidence) {
		for _, at := range t.Attempts {
			counts := at.Number == t.Result.Attempt || e.Manifest.Voting.Attempts > 1
			if counts && at.Answer != nil && !at.Answer.InReply {
				missing++
			}
		}
	})
	n.gapIf(missing > 0, "%s: %d", inNoReply, missing)
}

// inNoReply is the gap of answers that no reply holds.
const inNoReply = "answers that count and that no recorded reply of a model holds, of which this version cannot say where they come from"

// noCalls is why checks of calls have nothing to look at.
const noCalls = "an own agent brings its tools and has no network: none of its calls is recorded"

func withoutCalls(e *evidence, n *notes) {
	if a := e.Manifest.Agent; a != nil && a.Tools == plan.AgentToolsNone && a.Network == plan.NetworkNone && !a.Unconfined {
		n.absent(noCalls)
	}
}

// checkScaffold reports the calls of an attempt whose values no reply has.
func checkScaffold(n *notes, t *taskEvidence, a *attemptEvidence) {
	calls, first := 0, int64(0)
	for _, c := range a.Calls {
		if c.Proposed < 0 || !c.Foreign {
			continue
		}
		if calls++; calls == 1 {
			first = c.Proposed
		}
	}
	n.findIf(calls > 0, "scaffold-call", t.at(a, first), fmt.Sprintf("%d of %d calls have arguments that stand in no reply before them", calls, len(a.Calls)))
}

// answersAs returns the name that the plan has for the replies of a model that the agent asks.
func answersAs(m plan.Plan, asked string) string {
	if m.Agent == nil || !m.Asks(asked) {
		return m.Model.Name
	}
	return m.Agent.RepliesAs(asked)
}

// parallelCalls is how many exchanges of an attempt can have begun before a budget is known to be spent.
const parallelCalls = 64

// lateness is how long after its time an own agent's exchange may begin, in milliseconds: the agent is stopped, and then
// ended.
const lateness = 30_000
