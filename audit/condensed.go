package audit

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// shown is what a message of a tool came of. Calls may share an id, and what the
// model was shown for them.
type shown struct {
	as    []shownAs       // those that forms has not yet
	forms map[string]bool // digests of what may stand in its place
}

// shownAs is a tool's result, or a refusal, as far as the template that replaces
// it tells of it.
type shownAs struct {
	tool  string
	bytes int64
}

// shows takes in what a call comes to: from now on a part of the conversation.
func (c *conversation) shows(callID, sha256 string, as shownAs) {
	l := listed{"tool", sha256, "tool:" + callID}
	if c.said[l] == nil {
		c.said[l] = &shown{}
	}
	c.said[l].as = append(c.said[l].as, as)
}

// condensed reports whether a digest is that of the template, filled in for what
// the message of a call came of.
func (s *shown) condensed(callID, sha256 string) bool {
	for _, as := range s.as {
		m := trajectory.SentMessage{Content: prompt.Condensed(as.tool, as.bytes), Role: "tool", ToolCallID: callID}
		if s.forms == nil {
			s.forms = map[string]bool{}
		}
		s.forms[sign.Digest(m.Canonical())] = true
	}
	s.as = nil
	return s.forms[sha256]
}

// exchange is a message that another one stands for, as requests list it. What
// it stands for is "" where no request had listed that yet.
type exchange struct {
	source    string
	to, from  string
	toBytes   int64
	fromBytes int64
}

// unsent is an exchange whose message may not have been sent yet.
func (x exchange) unsent() exchange { return exchange{source: x.source, to: x.to, toBytes: x.toBytes} }

// condense takes in which messages are announced to be replaced. Only results of
// tools can be, by the template that the plan has. Of one that this version does
// not know nobody can say what it gives: the messages are then found unknown.
func (t *following) condense(p trajectory.ContextCondensed) {
	for _, m := range p.Messages {
		s := t.talk.said[listed{"tool", m.FromSHA256, m.Source}]
		if s != nil && (t.plan.unknown[prompt.CondensedID] || s.condensed(strings.TrimPrefix(m.Source, "tool:"), m.ToSHA256)) {
			x := exchange{m.Source, m.ToSHA256, m.FromSHA256, m.ToBytes, m.FromBytes}
			t.talk.exchanges[x]++
			t.talk.exchanges[x.unsent()]++
		}
	}
}

// exchanged reports whether a message at a place of a request was announced to
// stand for the one that stood there before, or for one that was not sent yet.
// Each announcement holds once.
func (c *conversation) exchanged(i int, to trajectory.Message) bool {
	x := exchange{source: to.Source, to: to.SHA256, toBytes: to.Bytes}
	if c.exchanges[x] == 0 || to.Role != "tool" || to.Image != (trajectory.Image{}) {
		return false
	}
	if i < len(c.last) {
		from := c.last[i]
		x.from, x.fromBytes = from.SHA256, from.Bytes
		if c.exchanges[x] == 0 || from.Source != to.Source || from.Role != to.Role {
			return false
		}
	}
	c.exchanges[x.unsent()]--
	return true
}

// again reports whether a request of n messages may be the one before in fewer
// words: no reply has come to that, and messages have been condensed since.
func (c *conversation) again(n int) bool {
	return n == len(c.last) && !c.answered && len(c.exchanges) > 0
}
