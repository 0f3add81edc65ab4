package export

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

// conversation is what an attempt's model was told and replied: the messages of
// all requests, each once, in the order in which they came.
type conversation struct {
	prefix  string         // of the ids of messages
	texts   []string       // what messages say that are not the model's or a tool's
	pool    []*chatMessage // what model events refer to
	replies map[string]int // place in the pool of replies that no request held yet, by digest
	listed  []trajectory.Message
	request []int // places of the last request's messages
	reply   *chatMessage
	tools   map[string]string       // name of the tool, by call id
	results map[string]*chatMessage // of calls, by the digest of the message that showed them, or its source
}

func newConversation(prefix string, texts []string) *conversation {
	return &conversation{prefix: prefix, texts: texts, replies: map[string]int{}, tools: map[string]string{}, results: map[string]*chatMessage{}}
}

// add puts a message into the pool and returns its place.
func (c *conversation) add(m *chatMessage) int {
	m.ID = fmt.Sprintf("%s-m%d", c.prefix, len(c.pool))
	c.pool = append(c.pool, m)
	return len(c.pool) - 1
}

// compile takes a request. Its text has a line for each message that is new, or
// another than it was in its place, in their order.
func (c *conversation) compile(p trajectory.ContextCompiled, text string, whole bool) {
	lines := fresh(text, whole)
	request := make([]int, len(p.Messages))
	for i, listed := range p.Messages {
		if i < len(c.listed) && c.listed[i].SHA256 == listed.SHA256 {
			request[i] = c.request[i]
			continue
		}
		line, end := "", false
		if len(lines) > 0 {
			line, end, lines = lines[0], whole || len(lines) > 1, lines[1:]
		}
		if at, replied := c.replies[listed.SHA256]; replied {
			delete(c.replies, listed.SHA256)
			c.complete(c.pool[at], listed, line)
			request[i] = at
			continue
		}
		request[i] = c.add(c.made(listed, line, end, p.Redactions > 0))
	}
	c.listed, c.request, c.reply = p.Messages, request, nil
}

// made returns a listed message of which the line is the canonical form; end says
// whether all of that is there.
func (c *conversation) made(listed trajectory.Message, line string, end, redacted bool) *chatMessage {
	m := &chatMessage{Role: roleOf(listed.Role), Source: "input",
		Metadata: textOrigin{Bytes: listed.Bytes, Image: listed.Image.Path, Redacted: redacted && !exact(line, listed.SHA256),
			SHA256: listed.SHA256, Source: listed.Source}}
	sent, parsed := message(line)
	if parsed && sent.Role != listed.Role {
		sent, parsed = trajectory.SentMessage{}, false
	}
	m.Content, m.Metadata.Cut = shorten(sent.Content, maxText)
	m.Metadata.Cut = m.Metadata.Cut || !end || !parsed
	if listed.Role == "tool" {
		c.asResult(m, listed, sent.ToolCallID)
	} else if m.Metadata.Cut {
		c.asTold(m, listed)
	}
	return m
}

// asTold fills in a message that, by its digest, says what the harness is known to
// say: a template, or the question.
func (c *conversation) asTold(m *chatMessage, listed trajectory.Message) {
	picture := trajectory.SentImage{MediaType: listed.Image.MediaType, SHA256: listed.Image.SHA256}
	for _, text := range c.texts {
		said := trajectory.SentMessage{Content: text, Image: picture, Role: listed.Role}
		if len(text) <= maxText && exact(string(said.Canonical()), listed.SHA256) {
			m.Content, m.Metadata.Cut, m.Metadata.Redacted = text, false, false
			return
		}
	}
}

// asResult makes a message that of a tool's result. Where less of the message is
// recorded than of what the tool gave, it shows that.
func (c *conversation) asResult(m *chatMessage, listed trajectory.Message, callID string) {
	result := cmp.Or(c.results[listed.SHA256], c.results[listed.Source])
	if callID == "" {
		callID = strings.TrimPrefix(listed.Source, "tool:")
	}
	m.ToolCallID, m.Function, m.Source = callID, c.tools[callID], ""
	if result == nil {
		return
	}
	m.ToolCallID, m.Function, m.Error = result.ToolCallID, result.Function, result.Error
	if m.Metadata.Cut && len(result.Content) > len(m.Content) {
		m.Content, m.Metadata.Document, m.Metadata.Redacted = result.Content, result.Metadata.Document, result.Metadata.Redacted
	}
}

// complete fills in a reply of which the next request shows more than was recorded
// when it came.
func (c *conversation) complete(reply *chatMessage, listed trajectory.Message, line string) {
	if sent, whole := message(line); reply.Metadata.Cut && whole && exact(line, listed.SHA256) {
		reply.Content, reply.Metadata.Cut = shorten(sent.Content, maxText)
	}
}

// answered takes the model's reply: text is its canonical form, or the beginning
// of that.
func (c *conversation) answered(p trajectory.ModelCallCompleted, text string, whole bool) *chatMessage {
	sent, parsed := message(text)
	m := &chatMessage{Role: "assistant", Source: "generate", Model: p.ResponseModel,
		Metadata: textOrigin{Bytes: p.Bytes, Redacted: p.Redactions > 0, SHA256: p.OutputSHA256, Source: "model"}}
	m.Content, m.Metadata.Cut = shorten(sent.Content, maxText)
	m.Metadata.Cut = m.Metadata.Cut || !whole || !parsed
	c.replies[p.OutputSHA256] = c.add(m)
	c.reply = m
	return m
}

// refs returns the last request as ranges of places in the pool.
func (c *conversation) refs() [][2]int {
	refs := [][2]int{}
	for _, at := range c.request {
		if n := len(refs); n > 0 && refs[n-1][1] == at {
			refs[n-1][1]++
		} else {
			refs = append(refs, [2]int{at, at + 1})
		}
	}
	return refs
}

// messages returns the conversation as it stood at the end: the last request, the
// reply to it, and what its calls gave, which no request showed any more.
func (c *conversation) messages(rest []*chatMessage) []*chatMessage {
	all := []*chatMessage{}
	for _, at := range c.request {
		all = append(all, c.pool[at])
	}
	if c.reply == nil {
		return all
	}
	return append(append(all, c.reply), rest...)
}

// roleOf returns the role of a message as Inspect knows it.
func roleOf(role string) string {
	switch role {
	case "system", "assistant", "tool":
		return role
	case "developer":
		return "system"
	}
	return "user"
}
