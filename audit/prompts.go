package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// prompt holds the messages of a request against what their sources give: the
// templates and the question by digest, the model's messages against its
// replies, a tool's against the calls of the attempt. A conversation only
// grows.
func (t *following) prompt(a *AttemptEvidence, seq int64, p trajectory.ContextCompiled) {
	a.Prompts = append(a.Prompts, PromptFact{Seq: seq, Messages: len(p.Messages)})
	for i, m := range p.Messages {
		if i < len(t.listed) && m == t.listed[i] {
			continue
		}
		if t.accounted(a, i, m) && i >= len(t.listed) {
			continue
		}
		o := t.odd(a, seq, m, p)
		o.Unknown = t.unknown[m.Source]
		a.Odd = append(a.Odd, o)
	}
	t.listed = p.Messages
}

// accounted reports whether a message is what its source gives, and stands
// where that source may.
func (t *following) accounted(a *AttemptEvidence, i int, m trajectory.Message) bool {
	switch {
	case (m.Source == prompt.SystemID) != (i == 0) || (m.Source == "question") != (i == 1):
		return false
	case m.Source == "model":
		return m.Role == "assistant" && t.outputs[m.SHA256]
	}
	if call, ok := strings.CutPrefix(m.Source, "tool:"); ok {
		return m.Role == "tool" && slices.ContainsFunc(a.Calls, func(c *CallFact) bool { return c.ID == call && m.SHA256 == c.shown() })
	}
	return slices.Contains(t.expected[m.Source], m.SHA256)
}

// shown returns the digest of the message that told the model what came of a
// call.
func (c *CallFact) shown() string {
	if c.Result != nil {
		return c.Result.Shown
	}
	return sign.Digest(trajectory.SentMessage{Content: c.Decision.Shown, Role: "tool", ToolCallID: c.ID}.Canonical())
}

// odd probes what an unaccounted message holds besides the question and the
// templates, if the head of the request shows it whole.
func (t *following) odd(a *AttemptEvidence, seq int64, m trajectory.Message, p trajectory.ContextCompiled) OddMessage {
	o := OddMessage{Seq: seq, Source: m.Source, SHA256: m.SHA256}
	for line := range strings.Lines(p.Head) {
		line, whole := strings.CutSuffix(line, "\n")
		if !whole || sign.Digest([]byte(line)) != m.SHA256 {
			continue
		}
		var sent trajectory.SentMessage
		if json.Unmarshal([]byte(line), &sent) != nil {
			continue
		}
		text := sent.Content
		for _, own := range []string{prompt.Question(a.Question, a.FileName), a.Question, prompt.System()} {
			text = strings.ReplaceAll(text, own, " ")
		}
		o.Seen, o.Residue = true, t.prober.Probe(text, "", nil)
	}
	return o
}
