package proxy

import (
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// Turns hands out the turn numbers of an attempt of an own agent, in which exchanges overlap: each model call and each
// tool call is a turn. Turns begin in the order of their numbers.
type Turns struct {
	rec *trajectory.Attempt

	mu   sync.Mutex
	last int
	sent []trajectory.Message // of the request before
}

// NewTurns returns the turns of an attempt, of which the first is 1.
func NewTurns(rec *trajectory.Attempt) *Turns { return &Turns{rec: rec} }

// Begin records turn_started and what follows it under the next number. They are durable with the next Append to the
// attempt.
func (t *Turns) Begin(payloads ...trajectory.Payload) (turn int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begin(payloads...)
}

// begin is Begin under the lock.
func (t *Turns) begin(payloads ...trajectory.Payload) (turn int, err error) {
	if _, err := t.rec.Enqueue(t.last+1, append([]trajectory.Payload{trajectory.TurnStarted{}}, payloads...)...); err != nil {
		return 0, err
	}
	t.last++
	return t.last, nil
}

// sentMessages are the messages of a request: as the journal lists them, and in canonical form.
type sentMessages struct {
	listed []trajectory.Message
	texts  [][]byte
}

func listMessages(messages []llm.Message, rec *trajectory.Attempt) sentMessages {
	s := sentMessages{make([]trajectory.Message, len(messages)), make([][]byte, len(messages))}
	for i, m := range messages {
		s.listed[i], s.texts[i] = agent.Listed(m, plan.AgentSource)
		s.listed[i].Role = rec.Redact.Label(m.Role)
		if m.Image != nil {
			s.listed[i].Image = trajectory.Image{Bytes: int64(len(m.Image.Data)), MediaType: rec.Redact.Label(m.Image.MediaType), SHA256: canonical.Digest(m.Image.Data)}
		}
	}
	return s
}

// compile returns the record of a request, whose excerpt is of the messages that the request before does not have at
// their places. The lock is held, until the record is enqueued.
func (t *Turns) compile(s sentMessages) trajectory.ContextCompiled {
	var fresh strings.Builder
	for i, text := range s.texts {
		if i >= len(t.sent) || t.sent[i] != s.listed[i] {
			fresh.Write(text)
			fresh.WriteByte('\n')
		}
	}
	x := t.rec.Excerpt(fresh.String(), trajectory.PromptHead)
	return trajectory.ContextCompiled{BodySHA256: x.BodySHA256, Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, Messages: s.listed,
		Redactions: x.Redactions, Truncated: x.Truncated}
}
