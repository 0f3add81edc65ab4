package audit

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ownReader reads the open attempt of an own agent. Its turns overlap, its messages are its own, and no conversation
// follows from the events: what a message says is compared with what the journal shows that the agent was given.
type ownReader struct {
	turns   map[int]*turn
	tries   map[string]turn      // the tries of bodies of requests that failed, of which turn counts some
	last    []trajectory.Message // of the request before
	known   map[string]bool      // digests of messages and of texts that the journal gives: question, replies, results
	said    []byte               // what the replies say, each plain behind a line break
	lost    bool                 // a reply is not shown whole, or there is more than is kept
	index   *origin.Index        // of what the journal shows that the agent was given, but for what waits
	waiting []waitingText
	waits   int // bytes of them
	given   *inputs
	some    bool            // of what the agent was given the journal does not show all
	own     int64           // bytes of the request that the journal shows and nothing explains
	divided map[string]bool // digests of messages that were divided
	named   bool            // likewise the task's id
	other   bool            // likewise ids of other tasks
}

// waitingText is a text that the agent was given and that is not in the index: it is added once a text is divided, which most
// attempts do not need after their first request.
type waitingText struct {
	source origin.Source
	text   string
}

// Bounds of the texts that wait. More are added: which of them the index forgets depends on which are alike.
const (
	waitingBytes = 2 * origin.MaxShelf
	waitingTexts = 1 << 16
)

// gives takes a text that the agent was given after its first request.
func (m *ownReader) gives(source origin.Source, text string) {
	m.waiting, m.waits = append(m.waiting, waitingText{source, text}), m.waits+len(text)
	if m.waits > waitingBytes || len(m.waiting) == waitingTexts {
		m.add()
	}
}

// add adds the texts that wait to the index.
func (m *ownReader) add() {
	for _, w := range m.waiting {
		m.index.Add(w.source, w.text)
	}
	m.waiting, m.waits = nil, 0
}

// divide returns what of a text nothing explains that the agent was given.
func (m *ownReader) divide(text string) []string {
	m.add()
	_, rest := m.index.Divide(text)
	return rest
}

// mostSaid bounds what is kept of the replies of an open attempt, in bytes.
const mostSaid = 1 << 20

// newOwnReader begins with what an attempt begins with.
func newOwnReader(t *taskReader, begins trajectory.TaskStarted) *ownReader {
	m := &ownReader{turns: map[int]*turn{}, tries: map[string]turn{}, known: map[string]bool{}, divided: map[string]bool{}, index: origin.New(), some: len(begins.Workspace) > 0, given: newInputs(t.prober, t.gold, begins)}
	m.knows("user", t.question)
	m.index.Add(origin.Question, t.question)
	for _, definition := range t.plan.definitions {
		m.index.Add(origin.Definition, definition)
	}
	m.named = t.prober.Probe(t.question, "", nil).OwnUUID
	for _, f := range begins.Workspace {
		m.named = m.named || f.Probes == nil || f.Probes.OwnUUID
		m.other = m.other || f.Probes == nil || f.Probes.OtherUUIDs > 0
		if text, ok := t.bodies.text(f.SHA256); ok {
			m.index.Add(origin.Workspace, text)
		}
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
	m.known[p.OutputSHA256], m.some = true, true // what it thought is not in its message
	if body, ok := t.bodies.text(p.OutputSHA256); ok && !whole {
		whole = json.Unmarshal([]byte(body), &said) == nil
	}
	m.given.Had = m.given.Had || p.Reply != nil && holdsGold(p.Reply.Probes) // also in what its message does not have
	if !whole {
		m.given.add(p)
		m.given.Made = m.given.Made || p.Reply == nil || p.Reply.Probes == nil
		m.lost, m.named, m.other = true, true, true
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
	for _, text := range texts {
		m.gives(origin.Reply, text)
	}
	seen := m.given.show(t.prober, strings.Join(texts, "\n"))
	m.given.Made = m.given.Made || origin.Code(said.Content, t.plan.gate) || slices.ContainsFunc(said.ToolCalls, func(c trajectory.SentCall) bool { return !origin.Recorded(c.Name, t.plan.gate) })
	m.named, m.other = m.named || seen.OwnUUID, m.other || seen.OtherUUIDs > 0
}

// asks takes what the agent sends with a call or an exchange, as it is counted and as the journal shows it, and reports whether
// it holds the gold answer: what came of it may then be an echo.
func (m *ownReader) asks(t *taskReader, a *attemptEvidence, ev trajectory.Event, shown string) bool {
	if p, ok := ev.Payload.(trajectory.ToolExecuted); ok && p.Name == policy.SubmitAnswer { // which has its own checks
		return true
	}
	if plain, err := url.QueryUnescape(shown); err == nil {
		shown += "\n" + plain
	}
	own := t.prober.Probe(strings.Join(m.divide(shown), apart), "", nil)
	if counted := sends(ev.Payload); counted != nil {
		own = own.Merge(*counted)
	}
	b, keep := newBrought(ev.Seq, own, nil, *m.given)
	if keep {
		a.Brought = append(a.Brought, b)
	}
	return keep && own.GoldHits > 0
}

// result takes what a tool of the Gate gave.
func (m *ownReader) result(t *taskReader, c *callFact, h head, body string, shown int64, echo bool) {
	r := c.Result
	if h.whole() {
		m.knows("tool", h.text)
	}
	if !echo { // else the agent's own text may come back
		m.given.see(&r.Probes, h.whole())
		m.given.Made = m.given.Made || r.Unprobed
		if h.whole() {
			m.given.show(t.prober, h.text)
		}
	}
	m.some = m.some || !h.whole() || shown != h.bytes
	m.gives(origin.Result, t.most(h, body))
	m.named, m.other = m.named || r.Probes.OwnUUID || r.Unprobed, m.other || r.Probes.OtherUUIDs > 0 || r.Unprobed
}

// exchange takes a reply of the recorded network.
func (m *ownReader) exchange(t *taskReader, p trajectory.ExchangeCompleted) {
	m.given.add(p)
	if p.Probes != nil {
		m.named, m.other = m.named || p.Probes.OwnUUID, m.other || p.Probes.OtherUUIDs > 0
	}
	m.named, m.other = m.named || p.Unprobed > 0, m.other || p.Unprobed > 0
	h := newHead(p.Head, p.Bytes, p.SHA256, p.Redactions, trajectory.ExchangeHead)
	m.some = m.some || !h.whole()
	m.gives(origin.Exchange, t.most(h, p.BodySHA256))
}

// most returns the most that is at hand of a document.
func (t *taskReader) most(h head, bodySHA256 string) string {
	if text, ok := t.bodies.text(h.sha256); ok {
		return text
	}
	if text, ok := t.bodies.text(bodySHA256); ok {
		return text
	}
	return h.words()
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
	whole := t.head.whole()
	added, hidden, news := int64(0), false, 0
	m.own = 0
	var brought trajectory.Probes
	var passages []trajectory.Passage
	if isUnstated(p.Origins) {
		a.Unstated++
	}
	if o := p.Origins; o != nil {
		if passages = o.Passages; o.Probes != nil {
			brought = *o.Probes
		}
	}
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
			brought = brought.Merge(t.ownMessage(a, seq, listed.SHA256, line))
		}
	}
	m.last = p.Messages
	if o := p.Origins; o != nil && !m.some && m.own > o.Agent+byChance && a.Misstated == 0 {
		a.Misstated = seq
	}
	t.passages.add(t.Plan.TaskID, passages)
	if b, keep := newBrought(seq, brought, passages, *m.given); keep {
		a.Brought = append(a.Brought, b)
	}
	fits := p.Bytes <= trajectory.PromptHead && p.Redactions == 0 && !(t.plan.hashes && p.Head == "")
	a.Prompts = append(a.Prompts, promptFact{Seq: seq, Messages: len(p.Messages), Overlong: len(p.Head) > trajectory.PromptHead,
		Differs: added != p.Bytes || hidden || fits && !whole})
}

// apart stands between pieces that did not stand beside each other: a word, so that no probe takes them for one text.
const apart = "\n_\n"

// mostNamed bounds what of a message is looked through for names of the run's records, in bytes.
const mostNamed = trajectory.OddHead

// byChance is how many bytes of the agent's own a request may seem to have more than is recorded: texts are looked for by
// digests of a few bits.
const byChance = 256

// ownMessage probes a message that no event gives, without what events give of it.
func (t *taskReader) ownMessage(a *attemptEvidence, seq int64, sha256 string, line *shownLine) trajectory.Probes {
	m := t.mine
	texts := []string{line.text}
	if sent, ok := line.message(); ok {
		texts[0] = sent.Content
		for _, c := range sent.ToolCalls {
			texts = append(texts, c.Name+"\n"+c.Arguments)
		}
	}
	text := strings.Join(texts, apart)
	residue, names := t.prober.Probe(text, "", nil), namesRecords(t.plan.anything, text[:min(len(text), mostNamed)])
	early := len(a.Models) == 0 && len(a.Calls) == 0 // else it may tell of what the agent has done
	worth := residue.GoldHits > 0 || residue.OwnUUID || residue.UUIDGoldNear || residue.OwnIDStart || names ||
		residue.OtherUUIDs > 0 || max(residue.KeyedAnswers, residue.ListedAnswers) >= probe.ManyAnswers
	if worth || early || !m.some { // of other texts nothing is found, whatever part of them is the agent's
		var rest []string
		for _, text := range texts {
			rest = append(rest, m.divide(text)...)
		}
		for _, own := range rest {
			if !m.divided[sha256] {
				m.own += int64(len(own))
			}
		}
		m.divided[sha256] = true
		if text = strings.Join(rest, apart); worth {
			residue, names = t.prober.Probe(text, "", nil), names && namesRecords(t.plan.anything, text[:min(len(text), mostNamed)])
		}
	}
	o := oddMessage{Seq: seq, Source: plan.AgentSource, SHA256: sha256, Seen: !line.cut,
		Given: m.given.Had || m.given.Made, Had: m.given.Had, Residue: residue, Records: names}
	if m.named { // and AUD-1 looks at what gave it
		o.Residue.OwnUUID, o.Residue.UUIDGoldNear = false, false
	}
	recorded := o.Residue.OtherUUIDs > 0 && o.Residue.AnswerKeys > 0 && !m.other
	if early || recorded {
		t.odds.add(oddText{t.taskEvidence, a.Number, seq, sha256, text, recorded})
	}
	if r := o.Residue; r.OwnUUID || r.UUIDGoldNear || o.Records || r.KeyedAnswers >= probe.ManyAnswers {
		a.Odd = append(a.Odd, o)
	}
	return residue
}

// checkOwnPrompts looks at what an own agent sent that no event of its attempt gives; AUD-22 looks there for the gold
// answer alone.
func checkOwnPrompts(n *notes, t *taskEvidence, a *attemptEvidence) {
	for _, p := range a.Prompts {
		n.gapIf(p.Overlong, "a request has a longer head than there can be: only its beginning was looked at")
	}
	for _, o := range a.Odd {
		at := place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256, unasked: true}
		r := o.Residue
		n.findIf(r.UUIDGoldNear || r.KeyedAnswers >= probe.ManyAnswers && !o.Had, "prompt-residue", at, "besides the question, a message of the agent holds a task's id, or the keys of several, with an answer")
		n.findIf(r.OwnUUID && !r.UUIDGoldNear, "task-id-known", at, "a message of the agent holds the task's id, which nothing that the journal shows had given it")
		n.findIf(o.Records && !o.Given, "run-records-mentioned", at, "a message of the agent names the run's own records or verdicts", "messages about the task")
	}
}

// unseenPrompts says how much of an own agent's messages the journal does not show.
func unseenPrompts(e *evidence, n *notes) {
	var all, unseen int64
	e.each(func(_ *taskEvidence, a *attemptEvidence) { all, unseen = all+a.PromptBytes, unseen+a.UnseenBytes })
	n.findIf(unseen > 0, "prompt-unseen", place{given: true}, fmt.Sprintf("%d of %d bytes of the agent's messages are in messages of which the journal shows nothing or the beginning, and that are none of the question, a reply or a result", unseen, all))
}

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
