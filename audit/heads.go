package audit

import (
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// A head is the beginning of a body. Whether it is all of it follows from the
// body's size and digest; the recorded word "truncated" proves nothing.
type head struct {
	text       string
	bytes      int64
	sha256     string
	redactions int
	limit      int // what a head may have at most
}

// whole reports whether the head is the body. Then nothing was taken out of it,
// whatever is said of that.
func (h head) whole() bool {
	return !h.overlong() && int64(len(h.text)) == h.bytes && sign.Digest([]byte(h.text)) == h.sha256
}

func (h head) overlong() bool { return len(h.text) > h.limit }

// words returns what can be looked through of a head: all of a whole one, and
// otherwise as many bytes as heads have, up to the last white space, so that no
// word is taken for the one that it begins like.
func (h head) words() string {
	if h.whole() {
		return h.text
	}
	text := h.text[:min(len(h.text), h.limit)]
	return strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
}

// message returns the message of the model that a head is: one that is whole, or
// would be but for the secrets that were taken out of it.
func (h head) message() (trajectory.SentMessage, bool) {
	var m trajectory.SentMessage
	if !h.whole() && (h.redactions == 0 || h.overlong()) || json.Unmarshal([]byte(h.text), &m) != nil || m.Role != "assistant" || string(m.Canonical()) != h.text {
		return trajectory.SentMessage{}, false
	}
	return m, true
}

// HeadFact is a head that cannot be of what its size and digest are of. What it
// shows is then made up, and what it does not show cannot be told.
type HeadFact struct {
	Seq int64
	Of  trajectory.Type
}

// contradicts reports whether no body has this head, size and digest. A body that
// is no text, or holds secrets, is shown in other words than its own: where a
// secret stood in what is shown to its end, there is a mark.
func (h head) contradicts(truncated bool) bool {
	same := int64(len(h.text)) == h.bytes && sign.Digest([]byte(h.text)) == h.sha256
	switch {
	case h.redactions > 0 && truncated:
		return !h.full()
	case h.redactions > 0:
		return h.overlong() || same || !strings.Contains(h.text, trajectory.Redacted)
	case strings.Contains(h.text, "\ufffd"):
		return false
	case truncated: // heads are cut between characters, which have up to four bytes
		return h.bytes <= int64(h.limit) || !h.full()
	}
	return !same
}

// halved reports whether a try has some of a reply and not all of it: whoever
// leaves out the digest of a reply passes it off as a try that failed.
func halved(p trajectory.ModelCallCompleted) bool {
	some := p.Bytes != 0 || p.Head != "" || p.BodySHA256 != "" || p.Truncated || p.Redactions != 0 || p.Tokens != trajectory.Tokens{}
	return p.OutputSHA256 == "" && (some || p.Error == nil)
}

// full reports whether a head is as long as one that was cut is.
func (h head) full() bool { return len(h.text) > h.limit-4 && !h.overlong() }

// miscut reports whether a proposal's arguments cannot have been cut, or rid of
// secrets, as it says.
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

// shows keeps the first event of an attempt whose head contradicts it. Where
// digests alone are recorded, there are no heads.
func (t *following) shows(a *AttemptEvidence, ev trajectory.Event) {
	if p, ok := ev.Payload.(trajectory.ModelCallCompleted); ok && a.Contradicts == nil && halved(p) {
		a.Contradicts = &HeadFact{ev.Seq, ev.Payload.Type()}
	}
	found := func(contradicts bool) {
		if contradicts && a.Contradicts == nil && !t.plan.hashes {
			a.Contradicts = &HeadFact{ev.Seq, ev.Payload.Type()}
		}
	}
	var h head
	var body string
	truncated := false
	switch p := ev.Payload.(type) {
	case trajectory.ContextCompiled:
		h, truncated, body = head{p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead}, p.Truncated, p.BodySHA256
		for _, m := range p.MessageHeads {
			found(headOfMessage(m).contradicts(m.Truncated))
		}
	case trajectory.ModelCallCompleted:
		if p.OutputSHA256 == "" {
			return
		}
		h, truncated, body = head{p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.OutputHead}, p.Truncated, p.BodySHA256
	case trajectory.ToolProposed:
		found(t.bodies.misquotes(p) || miscut(p))
		return
	case trajectory.ToolExecuted:
		h, truncated, body = headOf(p), p.Truncated, p.BodySHA256
	default:
		return
	}
	found(t.bodies.contradicts(h, body) || h.contradicts(truncated))
}

// heads looks for what is shown of a body and cannot be of it.
func heads(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if h := a.Contradicts; h != nil {
		n.find("head-differs", place{task: t, attempt: a.Number, seq: h.Seq}, "the head of a "+string(h.Of)+" is not that of a body of its size and digest", "the beginning of the body")
	}
}

// graver returns of each probe the graver finding.
func graver(a, b trajectory.Probes) trajectory.Probes {
	return trajectory.Probes{
		AnswerColumn:     a.AnswerColumn || b.AnswerColumn,
		AnswerKeys:       max(a.AnswerKeys, b.AnswerKeys),
		ChangedQuestion:  a.ChangedQuestion || b.ChangedQuestion,
		DenyClass:        max(a.DenyClass, b.DenyClass),
		GoldCalled:       a.GoldCalled || b.GoldCalled,
		GoldHits:         max(a.GoldHits, b.GoldHits),
		GoldLabelNear:    a.GoldLabelNear || b.GoldLabelNear,
		GoldNear:         a.GoldNear || b.GoldNear,
		InjectionMarkers: max(a.InjectionMarkers, b.InjectionMarkers),
		KeyedAnswers:     max(a.KeyedAnswers, b.KeyedAnswers),
		ListedAnswers:    max(a.ListedAnswers, b.ListedAnswers),
		OtherIDStarts:    max(a.OtherIDStarts, b.OtherIDStarts),
		OtherUUIDs:       max(a.OtherUUIDs, b.OtherUUIDs),
		OwnIDStart:       a.OwnIDStart || b.OwnIDStart,
		OwnUUID:          a.OwnUUID || b.OwnUUID,
		QCov:             max(a.QCov, b.QCov),
		QCovNoEcho:       max(a.QCovNoEcho, b.QCovNoEcho),
		QEdge:            a.QEdge || b.QEdge,
		QGoldCalled:      a.QGoldCalled || b.QGoldCalled,
		SchemaKeys:       max(a.SchemaKeys, b.SchemaKeys),
		UUIDGoldNear:     a.UUIDGoldNear || b.UUIDGoldNear,
	}
}
