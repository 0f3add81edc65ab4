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

// graver returns of each probe the graver finding.
func graver(a, b trajectory.Probes) trajectory.Probes {
	return trajectory.Probes{
		AnswerKeys:       max(a.AnswerKeys, b.AnswerKeys),
		DenyClass:        max(a.DenyClass, b.DenyClass),
		GoldHits:         max(a.GoldHits, b.GoldHits),
		GoldLabelNear:    a.GoldLabelNear || b.GoldLabelNear,
		GoldNear:         a.GoldNear || b.GoldNear,
		InjectionMarkers: max(a.InjectionMarkers, b.InjectionMarkers),
		OtherUUIDs:       max(a.OtherUUIDs, b.OtherUUIDs),
		OwnUUID:          a.OwnUUID || b.OwnUUID,
		QCov:             max(a.QCov, b.QCov),
		QCovNoEcho:       max(a.QCovNoEcho, b.QCovNoEcho),
		SchemaKeys:       max(a.SchemaKeys, b.SchemaKeys),
		UUIDGoldNear:     a.UUIDGoldNear || b.UUIDGoldNear,
	}
}
