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
// is no text, or holds secrets, is shown in other words than its own.
func (h head) contradicts(truncated bool) bool {
	switch {
	case h.redactions > 0 || strings.Contains(h.text, "\ufffd"):
		return false
	case truncated: // heads are cut between characters, which have up to four bytes
		return h.bytes <= int64(h.limit) || len(h.text) <= h.limit-4 || h.overlong()
	}
	return int64(len(h.text)) != h.bytes || sign.Digest([]byte(h.text)) != h.sha256
}

// shows keeps the first event of an attempt whose head contradicts it. Where
// digests alone are recorded, there are no heads.
func (t *following) shows(a *AttemptEvidence, ev trajectory.Event) {
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
