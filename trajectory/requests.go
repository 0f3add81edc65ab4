package trajectory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// Requests writes and reads the requests of one attempt in the form that the journal has. A context_compiled lists only
// what follows the messages that the request before has, too, and its head leaves out each line that is recorded
// elsewhere: the text of a template that has no values, the question, a reply, what a tool's result or a refusal says.
// The recorder calls Abridge and the reader Rebuild; both call Add with the other events of the attempt, and Rebuild with
// each request that is recorded.
type Requests struct {
	Known  *KnownTexts // of the run; nil: none
	last   []Message   // of the request before
	since  map[string]recorded
	listed int // messages that requests do not have from the one before
	sent   SentMessage
	room   []byte
}

// Bounds of the messages of an own agent: of one request, and of those that all requests of an attempt list besides what
// they keep of the one before. A line of the journal has room for the first, and a reader holds the second in memory.
const (
	MostMessages = 20_000
	MostListed   = 200_000
)

// KnownTexts are texts that all attempts of a run share.
type KnownTexts struct {
	messages map[string]string // canonical forms, by digest
	hashes   bool
}

// NewKnownTexts returns what a plan gives: the texts of its templates, and whether it records digests alone, so that
// heads are empty.
func NewKnownTexts(templates []string, hashes bool) *KnownTexts {
	k := &KnownTexts{map[string]string{}, hashes}
	for _, text := range templates {
		if strings.Contains(text, "{{") { // what it says depends on values
			continue
		}
		for _, role := range []string{"system", "user"} {
			b := SentMessage{Content: strings.TrimSuffix(text, "\n"), Role: role}.Canonical()
			k.messages[canonical.Digest(b)] = string(b)
		}
	}
	return k
}

// recorded is what the events since the last request have of a message.
type recorded struct {
	text   string // its canonical form, or the beginning of that; of a result the content
	result bool   // a tool gave it
	callID string // of a result
	cut    bool   // the text is the beginning
}

// Add takes an event of the attempt that is no request.
func (r *Requests) Add(p Payload) {
	switch p := p.(type) {
	case TaskStarted:
		b := r.canonical(SentMessage{Content: p.Question, Role: "user"})
		r.saw(canonical.Digest(b), recorded{text: string(b)})
	case ModelCallCompleted:
		if p.Redactions == 0 && p.Head != "" {
			r.saw(p.OutputSHA256, recorded{text: p.Head, cut: int64(len(p.Head)) != p.Bytes})
		}
	case ToolExecuted:
		if p.Redactions == 0 && int64(len(p.Head)) == p.Bytes && p.Bytes == p.ShownBytes {
			r.saw(p.ShownSHA256, recorded{text: p.Head, result: true, callID: p.CallID})
		}
	case PolicyDecision:
		if p.Shown != "" {
			b := r.canonical(SentMessage{Content: p.Shown, Role: "tool", ToolCallID: p.CallID})
			r.saw(canonical.Digest(b), recorded{text: string(b)})
		}
	}
}

// canonical returns the canonical form of a message, which is valid until the next call.
func (r *Requests) canonical(m SentMessage) []byte {
	if cap(r.room) > ResultHead<<2 {
		r.room = nil
	}
	r.sent = m
	r.room = appendSent(r.room[:0], &r.sent)
	return r.room
}

func (r *Requests) saw(sha256 string, m recorded) {
	if r.since == nil {
		r.since = map[string]recorded{}
	}
	r.since[sha256] = m
}

// text returns the canonical form of a message, or the beginning of it, as the journal has it elsewhere.
func (r *Requests) text(m Message) (text string, cut, ok bool) {
	if r.Known != nil {
		if text, ok = r.Known.messages[m.SHA256]; ok {
			return text, false, true
		}
	}
	found, ok := r.since[m.SHA256]
	if found.result { // whose event has the digest of the message, and the text of the document
		b := r.canonical(SentMessage{Content: found.text, Role: "tool", ToolCallID: found.callID})
		if !canonical.HasDigest(b, m.SHA256) {
			delete(r.since, m.SHA256)
			return "", false, false
		}
		found = recorded{text: string(b)}
		r.since[m.SHA256] = found
	}
	return found.text, found.cut, ok
}

func (r *Requests) has(m Message) bool {
	_, _, ok := r.text(m)
	return ok
}

// cutLine parts a text after its first line break.
func cutLine(text string) (line, rest string) {
	end := strings.IndexByte(text, '\n') + 1
	if end == 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// Abridge returns a request in the form that the journal has.
func (r *Requests) Abridge(whole ContextCompiled) ContextCompiled {
	p := whole
	p.Kept = r.keeps(whole.Messages)
	p.Messages = whole.Messages[p.Kept:]
	if !r.abridges(p) {
		return p
	}
	var head strings.Builder
	rest := whole.Head
	for i, m := range p.Messages {
		if rest == "" {
			break
		}
		if !r.isNew(p.Kept+i, m) {
			continue
		}
		var line string
		if line, rest = cutLine(rest); !r.has(m) {
			head.WriteString(line)
		}
	}
	p.Head = head.String() + rest
	return p
}

// keeps returns how many messages at the beginning are those of the request before.
func (r *Requests) keeps(messages []Message) (n int) {
	for n < min(len(r.last), len(messages)) && r.last[n] == messages[n] {
		n++
	}
	return n
}

// abridges reports whether the head of a request leaves out what is recorded elsewhere. A line without its secrets is
// not what is recorded.
func (r *Requests) abridges(p ContextCompiled) bool {
	return p.Redactions == 0 && (r.Known == nil || !r.Known.hashes)
}

// isNew reports whether the request before had another message at a place, or none.
func (r *Requests) isNew(i int, m Message) bool { return i >= len(r.last) || r.last[i] != m }

// Rebuild returns the whole of a request: all its messages, none of which is Kept, and the first PromptHead bytes of
// those that are new. An error says why the list is not in the one form that it can have.
func (r *Requests) Rebuild(p ContextCompiled) (ContextCompiled, error) {
	switch {
	case p.Kept < 0 || p.Kept > len(r.last):
		return p, fmt.Errorf("keeps %d messages of a request that has %d", p.Kept, len(r.last))
	case p.Kept < len(r.last) && len(p.Messages) > 0 && p.Messages[0] == r.last[p.Kept]:
		return p, fmt.Errorf("lists message %d, which the request before has at its place", p.Kept)
	}
	whole := p
	if whole.Kept = 0; r.abridges(p) {
		whole.Head = r.head(p)
	}
	r.take(p)
	whole.Messages = slices.Clip(r.last)
	return whole, nil
}

// take goes on after a request that Abridge or Rebuild accepts. One that only adds messages shares the array of the one before:
// the lists of an attempt take memory for each message once.
func (r *Requests) take(p ContextCompiled) {
	if p.Kept < len(r.last) {
		r.last = slices.Clip(r.last[:p.Kept])
	}
	if r.last == nil {
		r.last = make([]Message, 0, 8) // as many as two turns with a tool have
	}
	r.last = append(r.last, p.Messages...)
	r.listed += len(p.Messages)
	if len(r.since) > mostCleared {
		r.since = nil
	}
	clear(r.since)
}

// mostCleared bounds the room that is cleared with each request: to clear a large one takes time, however little is in it.
const mostCleared = 64

// head returns what a request shows of the messages that are new. What is left of the lines that only it has comes last, so that
// nothing in it is overlooked.
func (r *Requests) head(p ContextCompiled) string {
	var room [PromptHead]byte
	head, rest := room[:0], p.Head
	for i, m := range p.Messages {
		if len(head) >= PromptHead {
			break
		}
		if !r.isNew(p.Kept+i, m) {
			continue
		}
		text, cut, ok := r.text(m)
		if !ok {
			var line string
			line, rest = cutLine(rest)
			head = append(head, line...)
			continue
		}
		part := CutUTF8(text, PromptHead-len(head))
		if head = append(head, part...); cut || len(part) < len(text) || len(head) == PromptHead {
			break
		}
		head = append(head, '\n')
	}
	return string(append(head, rest...))
}
