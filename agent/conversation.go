package agent

import (
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// conversation is the list of messages to send, each with where it came from.
type conversation struct {
	messages []llm.Message
	notes    []note               // one a message
	bytes    int                  // of all canonical forms
	reported int64                // tokens that the last request had, by its usage
	measured int                  // bytes that it had
	tooLong  int                  // bytes of the shortest one that was refused for its length; 0: none was
	due      *prompt.Conversation // what the events give
}

// note is what is kept of a message besides.
type note struct {
	listed trajectory.Message // as the journal lists it
	tool   string             // whose whole result it is; "" for others
	fresh  []byte             // its canonical form, until a request has held it
}

func newConversation(q Question) *conversation {
	c := conversation{due: prompt.NewConversation(q.Text, q.FileName, nil)}
	system := systemNote()
	c.messages, c.notes, c.bytes = []llm.Message{{Role: "system", Content: prompt.System()}}, []note{system}, len(system.fresh)
	c.add(prompt.QuestionSource, llm.Message{Role: "user", Content: prompt.Question(q.Text, q.FileName)})
	if q.Picture != nil {
		last, media, sent := len(c.messages)-1, q.Picture.MediaType, q.Picture.Data
		c.messages[last].Image = &llm.Image{MediaType: media, Data: sent}
		c.set(last, prompt.QuestionSource)
		image := trajectory.Image{Bytes: int64(len(sent)), MediaType: media, Path: q.FileName, SHA256: canonical.Digest(sent)}
		c.notes[last].listed.Image = image
		c.due.Picture(image)
	}
	return &c
}

// systemNote is the note of the system message, which is the same in every conversation.
var systemNote = sync.OnceValue(func() note {
	return noteOf(llm.Message{Role: "system", Content: prompt.System()}, prompt.SystemID)
})

func noteOf(m llm.Message, source string) note {
	listed, b := Listed(m, source)
	return note{fresh: b, listed: listed}
}

// Listed returns a message as the journal lists it, but for its image, and its canonical form.
func Listed(m llm.Message, source string) (trajectory.Message, []byte) {
	b := canonicalJSON(m)
	return trajectory.Message{Bytes: int64(len(b)), Role: m.Role, SHA256: canonical.Digest(b), Source: source}, b
}

func (c *conversation) add(source string, m llm.Message) {
	c.messages, c.notes = append(c.messages, m), append(c.notes, note{})
	c.set(len(c.messages)-1, source)
}

// set notes what a message is now.
func (c *conversation) set(i int, source string) {
	c.bytes -= int(c.notes[i].listed.Bytes)
	c.notes[i] = noteOf(c.messages[i], source)
	c.bytes += int(c.notes[i].listed.Bytes)
}

// result adds what a tool gave. The message should be the one that the tool's
// result was recorded with.
func (c *conversation) result(source, tool string, r tools.Result) {
	c.due.Result(strings.TrimPrefix(source, "tool:"), r.SHA256, tool, int64(len(r.Text)))
	c.add(source, llm.Message{Role: "tool", Content: r.Text, ToolCallID: r.CallID})
	c.notes[len(c.notes)-1].tool = tool
}

// compile gives the record of the next request and begins a new one. Messages
// that do not follow from the recorded events get separate heads.
func (c *conversation) compile(rec *trajectory.Attempt) trajectory.ContextCompiled {
	listed, size := make([]trajectory.Message, len(c.notes)), 0
	for i := range c.notes {
		listed[i] = c.notes[i].listed
		size += len(c.notes[i].fresh) + 1
	}
	var heads []trajectory.MessageHead
	c.due.Request(listed, func(i int, origin prompt.Origin) {
		if origin != prompt.Expected && len(heads) < trajectory.MostMessageHeads {
			heads = append(heads, trajectory.NewMessageHead(rec.Part(string(canonicalJSON(c.messages[i])), trajectory.OddHead)))
		}
	})
	var fresh strings.Builder
	fresh.Grow(size)
	for i := range c.notes {
		if n := &c.notes[i]; n.fresh != nil {
			fresh.Write(n.fresh)
			fresh.WriteByte('\n')
			n.fresh = nil
		}
	}
	x := rec.Excerpt(fresh.String(), trajectory.PromptHead)
	return trajectory.ContextCompiled{
		BodySHA256: x.BodySHA256, Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, MessageHeads: heads, Messages: listed,
		Redactions: x.Redactions, Truncated: x.Truncated,
	}
}

// condense puts condensed.v1 in the place of the older half of the results that
// are still whole; false if there is none that would become shorter.
func (c *conversation) condense(reason string) (trajectory.ContextCondensed, bool) {
	var whole []int
	for i, n := range c.notes {
		if n.tool != "" && len(prompt.Condensed(n.tool, int64(len(c.messages[i].Content)))) < len(c.messages[i].Content) {
			whole = append(whole, i)
		}
	}
	done := trajectory.ContextCondensed{Reason: reason}
	for _, i := range whole[:(len(whole)+1)/2] {
		before := c.notes[i]
		c.messages[i].Content = prompt.Condensed(before.tool, int64(len(c.messages[i].Content)))
		c.set(i, before.listed.Source)
		after := c.notes[i].listed
		done.Messages = append(done.Messages, trajectory.Condensed{FromBytes: before.listed.Bytes, FromSHA256: before.listed.SHA256,
			Source: after.Source, ToBytes: after.Bytes, ToSHA256: after.SHA256})
	}
	c.due.Condense(done)
	return done, len(whole) > 0
}

// tokens estimates what the next request will count, from what the last one did
// and bytesPerToken for what is new. specBytes is what the tools' descriptions
// take.
func (c *conversation) tokens(specBytes, bytesPerToken int) int64 {
	switch grown := c.bytes - c.measured; {
	case c.reported > 0 && grown >= 0:
		return c.reported + int64(grown/bytesPerToken)
	case c.reported > 0:
		return c.reported * int64(c.bytes) / int64(c.measured)
	}
	n := int64((c.bytes + specBytes) / bytesPerToken)
	if c.messages[1].Image != nil {
		n += tools.PictureTokens
	}
	return n
}

// canonicalJSON returns the form of a message that is hashed.
func canonicalJSON(m llm.Message) []byte {
	out := trajectory.SentMessage{Content: m.Content, OpaqueSHA256: opaque(m.Opaque), Role: m.Role, ToolCallID: m.ToolCallID}
	if m.Image != nil {
		out.Image = trajectory.SentImage{MediaType: m.Image.MediaType, SHA256: canonical.Digest(m.Image.Data)}
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, trajectory.SentCall{Arguments: c.Arguments, ID: c.ID, Name: c.Name, OpaqueSHA256: opaque(c.Opaque)})
	}
	return out.Canonical()
}

func opaque(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return canonical.Digest(b)
}
