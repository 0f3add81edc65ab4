package prompt

import (
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// QuestionSource is the source of the message that holds the question.
const QuestionSource = "question"

// Conversation computes which messages the next request of an attempt lists, from the events of the attempt. It reads
// digests and sizes and no texts: the agent records its requests with it, and the audit checks them with it.
type Conversation struct {
	unknown  map[string]bool // sources whose template has another text than here
	question trajectory.SentMessage
	image    trajectory.Image // in the question
	asked    message
	last     []trajectory.Message       // of the request before
	due      map[message]int            // replies and results since then, with their number
	unsure   map[message]bool           // may replace one of them
	replaced map[int]trajectory.Message // the short forms of those of the request before that were condensed
	places   map[message][]int          // of the results among those that were not; nil: not computed
	given    []given                    // results that are not among these: few conversations are ever condensed
	results  map[message]*toolResults   // that can be condensed
	once     map[string]bool            // templates that were used and can be used once
}

// Origin is what a Conversation knows about a message that a request adds.
type Origin int

const (
	Expected Origin = iota // it follows from the events
	Odd                    // it does not
	Unknown                // its template has another text than in this version
)

// message identifies what a message says and who says it.
type message struct{ role, sha256, source string }

// toolResults are the results that a message can be of: calls can share an id, and what they gave.
type toolResults struct {
	unread []toolResult    // whose short forms are not computed
	forms  map[string]bool // digests of the messages that can replace them
}

// given is a result that was given as a message.
type given struct {
	as message
	toolResult
}

type toolResult struct {
	tool  string
	bytes int64
}

// NewConversation begins the conversation about a question. The templates of the sources in unknown, a set, have
// another text than in this version.
func NewConversation(question, fileName string, unknown map[string]bool) *Conversation {
	c := &Conversation{unknown: unknown, question: trajectory.SentMessage{Content: Question(question, fileName), Role: "user"}, due: map[message]int{}}
	c.asked = sourced(c.question, QuestionSource)
	return c
}

// Picture adds a picture to the question.
func (c *Conversation) Picture(image trajectory.Image) {
	c.image, c.question.Image = image, trajectory.SentImage{MediaType: image.MediaType, SHA256: image.SHA256}
	c.asked = sourced(c.question, QuestionSource)
}

// Reply adds a reply of the model.
func (c *Conversation) Reply(sha256 string) { c.due[message{"assistant", sha256, "model"}]++ }

// Result adds what the model is shown for a call: the digest of that message, and the bytes of its text.
func (c *Conversation) Result(callID, sha256, tool string, bytes int64) {
	m := message{"tool", sha256, "tool:" + callID}
	c.due[m]++
	c.given = append(c.given, given{m, toolResult{tool, bytes}})
}

// Condense replaces results by their short forms. What is no result, or would become another text than the template
// gives, stays.
func (c *Conversation) Condense(e trajectory.ContextCondensed) {
	if c.results == nil {
		c.results, c.unsure, c.replaced = map[message]*toolResults{}, map[message]bool{}, map[int]trajectory.Message{}
	}
	for _, g := range c.given {
		if c.results[g.as] == nil {
			c.results[g.as] = &toolResults{}
		}
		c.results[g.as].unread = append(c.results[g.as].unread, g.toolResult)
	}
	c.given = nil
	if c.places == nil {
		c.places = map[message][]int{}
		for i, m := range c.last {
			if k := messageOf(m); c.results[k] != nil {
				c.places[k] = append(c.places[k], i)
			}
		}
	}
	for _, m := range e.Messages {
		from, to := message{"tool", m.FromSHA256, m.Source}, message{"tool", m.ToSHA256, m.Source}
		results := c.results[from]
		if results == nil || !c.unknown[CondensedID] && !results.become(strings.TrimPrefix(m.Source, "tool:"), m.ToSHA256) {
			continue
		}
		if at := c.places[from]; len(at) > 0 && c.last[at[0]].Bytes == m.FromBytes {
			c.places[from] = at[1:]
			c.replaced[at[0]] = trajectory.Message{Bytes: m.ToBytes, Role: "tool", SHA256: m.ToSHA256, Source: m.Source}
		} else if c.due[from] > 0 {
			c.due[from]--
			if c.unsure[to] = c.unknown[CondensedID]; !c.unsure[to] {
				c.due[to]++
			}
		}
	}
}

// become reports whether a digest is that of the short form of one of the results.
func (r *toolResults) become(callID, sha256 string) bool {
	for _, u := range r.unread {
		if r.forms == nil {
			r.forms = map[string]bool{}
		}
		m := trajectory.SentMessage{Content: Condensed(u.tool, u.bytes), Role: "tool", ToolCallID: callID}
		r.forms[canonical.Digest(m.Canonical())] = true
	}
	r.unread = nil
	return r.forms[sha256]
}

// Request takes the messages that a request lists, and calls visit with the index and origin of each that the request
// before did not list at its place. A request is stale if it lists no more than the one before, which may only be
// repeated after it was condensed; it is short if it leaves out a reply or a result. The next request is compared with
// this one, whatever it lists. It keeps listed.
func (c *Conversation) Request(listed []trajectory.Message, visit func(int, Origin)) (stale, short bool) {
	stale = len(listed) < len(c.last) || len(listed) == len(c.last) && (len(c.due) > 0 || len(c.replaced) == 0)
	for i, m := range listed {
		origin := Odd
		if short, condensed := c.replaced[i]; condensed && m == short {
			if origin = Expected; c.unknown[CondensedID] {
				origin = Unknown
			}
		} else if i < len(c.last) && m == c.last[i] && !condensed {
			continue
		} else if i >= len(c.last) && c.expects(i, m) {
			origin = Expected
		} else if c.unknown[m.Source] || c.unsure[messageOf(m)] {
			origin = Unknown
		}
		visit(i, origin)
	}
	for _, n := range c.due {
		short = short || n > 0
	}
	c.last, c.places = listed, nil
	clear(c.due)
	clear(c.replaced)
	return stale, short
}

// expects reports whether a message that is new at its place follows from the events. Results can have any order.
func (c *Conversation) expects(i int, m trajectory.Message) bool {
	k := messageOf(m)
	switch {
	case i == 0:
		return k == fixed().system && m.Image == trajectory.Image{}
	case i == 1:
		return k == c.asked && m.Image == c.image
	case m.Image != trajectory.Image{}:
		return false
	case fixed().once[k] && !c.once[m.Source]:
		if c.once == nil {
			c.once = map[string]bool{}
		}
		c.once[m.Source] = true
		return true
	}
	c.due[k]--
	return c.due[k] >= 0
}

// fixed are the messages that are the same in all conversations: the first one, and those of which each source can have
// one.
var fixed = sync.OnceValue(func() (f struct {
	system message
	once   map[message]bool
}) {
	f.system = sourced(trajectory.SentMessage{Content: System(), Role: "system"}, SystemID)
	f.once = map[message]bool{sourced(trajectory.SentMessage{Content: Reminder(), Role: "user"}, ReminderID): true}
	for _, reason := range LastTurnReasons() {
		f.once[sourced(trajectory.SentMessage{Content: LastTurn(reason), Role: "user"}, LastTurnID)] = true
	}
	return f
})

func sourced(m trajectory.SentMessage, source string) message {
	return message{m.Role, canonical.Digest(m.Canonical()), source}
}

func messageOf(m trajectory.Message) message { return message{m.Role, m.SHA256, m.Source} }
