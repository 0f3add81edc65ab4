package agent

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// conversation is the list of messages to send, each with where it came from.
type conversation struct {
	messages []llm.Message
	listed   []trajectory.Message // what the journal says of each
	fresh    strings.Builder      // canonical forms no request has held yet
}

func newConversation(q Question) *conversation {
	var c conversation
	c.add("system.v1", llm.Message{Role: "system", Content: prompt.System()})
	c.add("question", llm.Message{Role: "user", Content: prompt.Question(q.Text, q.FileName)})
	return &c
}

func (c *conversation) add(source string, m llm.Message) {
	b := canonical(m)
	c.messages = append(c.messages, m)
	c.listed = append(c.listed, trajectory.Message{Bytes: int64(len(b)), Role: m.Role, SHA256: sign.Digest(b), Source: source})
	c.fresh.Write(b)
	c.fresh.WriteByte('\n')
}

// compile gives the record of the next request and begins a new one.
func (c *conversation) compile(rec *trajectory.Attempt) trajectory.ContextCompiled {
	x := rec.Excerpt(c.fresh.String(), trajectory.PromptHead)
	c.fresh.Reset()
	return trajectory.ContextCompiled{
		BodySHA256: x.BodySHA256, Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, Messages: append([]trajectory.Message(nil), c.listed...),
		Redactions: x.Redactions, Truncated: x.Truncated,
	}
}

// canonical returns the form of a message that is hashed.
func canonical(m llm.Message) []byte {
	out := trajectory.SentMessage{Content: m.Content, Role: m.Role, ToolCallID: m.ToolCallID}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, trajectory.SentCall{Arguments: c.Arguments, ID: c.ID, Name: c.Name})
	}
	return out.Canonical()
}
