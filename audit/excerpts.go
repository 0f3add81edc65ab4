package audit

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

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
	if a.Contradicts != nil || t.plan.hashes {
		return
	}
	var h head
	truncated := false
	switch p := ev.Payload.(type) {
	case trajectory.ContextCompiled:
		h, truncated = head{p.Head, p.Bytes, p.ContentSHA256, p.Redactions, trajectory.PromptHead}, p.Truncated
	case trajectory.ModelCallCompleted:
		if p.OutputSHA256 == "" {
			return
		}
		h, truncated = head{p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.OutputHead}, p.Truncated
	case trajectory.ToolProposed:
		if miscut(p) {
			a.Contradicts = &HeadFact{ev.Seq, ev.Payload.Type()}
		}
		return
	case trajectory.ToolExecuted:
		h, truncated = headOf(p), p.Truncated
	default:
		return
	}
	if h.contradicts(truncated) {
		a.Contradicts = &HeadFact{ev.Seq, ev.Payload.Type()}
	}
}

// heads looks for what is shown of a body and cannot be of it.
func heads(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if h := a.Contradicts; h != nil {
		n.find("head-differs", place{task: t, attempt: a.Number, seq: h.Seq}, "the head of a "+string(h.Of)+" is not that of a body of its size and digest", "the beginning of the body")
	}
}
