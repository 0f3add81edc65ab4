package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// story is a random conversation of the agent, and beside it one that reads only
// what the journal has of it, as the audit does.
type story struct {
	*rand.Rand
	talk    *conversation
	journal *prompt.Conversation
	calls   int
	listed  int // messages of the last request
}

func tell(seed uint64) *story {
	s := &story{Rand: rand.New(rand.NewPCG(seed, 24))}
	q := Question{Text: "How many piers has the bridge?", FileName: "bridge.png"}
	s.journal = prompt.NewConversation(q.Text, q.FileName, nil)
	if s.IntN(3) == 0 {
		q.Picture = &llm.Image{MediaType: "image/png", Data: []byte{1, 2, 3}}
		s.journal.Picture(trajectory.Image{Bytes: 3, MediaType: "image/png", Path: q.FileName, SHA256: canonical.Digest(q.Picture.Data)})
	}
	s.talk = newConversation(q)
	return s
}

// text returns a text of up to some 600 bytes; of a few, so that some come twice.
func (s *story) text() string {
	return strings.Repeat([]string{"a page ", "ein Blatt ", "\u2028<b>\xff"}[s.IntN(3)], s.IntN(60))
}

// reply adds a reply with so many calls, as the client's observer and the agent do.
func (s *story) reply(calls int) {
	m := llm.Message{Role: "assistant", Content: s.text(), Opaque: []byte(s.text())}
	for range calls {
		s.calls++
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: fmt.Sprint("call_", s.calls%5), Name: "web_fetch", Arguments: "{}"})
	}
	digest := canonical.Digest(canonicalJSON(m))
	s.talk.due.Reply(digest)
	s.journal.Reply(digest)
	s.talk.add("model", m)
	var shown []func()
	for _, c := range m.ToolCalls {
		tool, text := []string{"web_fetch", "python"}[s.IntN(2)], s.text()
		digest := canonical.Digest(trajectory.SentMessage{Content: text, Role: "tool", ToolCallID: c.ID}.Canonical())
		s.talk.result("tool:"+c.ID, tool, tools.Result{CallID: c.ID, Text: text, SHA256: digest})
		shown = append(shown, func() { s.journal.Result(c.ID, digest, tool, int64(len(text))) })
	}
	s.Shuffle(len(shown), func(i, j int) { shown[i], shown[j] = shown[j], shown[i] }) // results are recorded as they come
	for _, show := range shown {
		show()
	}
}

func (s *story) condense() bool {
	e, ok := s.talk.condense(trajectory.WindowFull)
	if ok {
		s.journal.Condense(e)
	}
	return ok
}

// request compiles the next request and returns what the journal's conversation
// says of it.
func (s *story) request() (e trajectory.ContextCompiled, odd []string, stale, short bool) {
	e = s.talk.compile(&trajectory.Attempt{Log: &trajectory.Log{}})
	stale, short = s.journal.Request(e.Messages, func(i int, o prompt.Origin) {
		if o != prompt.Expected {
			odd = append(odd, e.Messages[i].Source)
		}
	})
	s.listed = len(e.Messages)
	return e, odd, stale, short
}

// turns tells so many turns and fails if one of them is not as expected.
func (s *story) turns(t *testing.T, n int) {
	t.Helper()
	for turn := range n {
		if turn > 0 {
			s.reply(s.IntN(4))
		}
		if s.IntN(3) == 0 {
			s.condense()
		}
		check := func() {
			if e, odd, stale, short := s.request(); odd != nil || stale || short || e.MessageHeads != nil {
				t.Fatalf("turn %d: odd %q, stale %v, short %v, %d heads", turn, odd, stale, short, len(e.MessageHeads))
			}
		}
		check()
		if s.IntN(3) == 0 && s.condense() { // refused for its length
			check()
		}
	}
}

// TestConversationsAgree: what the agent sends is what its journal gives.
func TestConversationsAgree(t *testing.T) {
	for seed := range uint64(300) {
		s := tell(seed)
		s.turns(t, 1+s.IntN(8))
		s.reply(0)
		for _, last := range []struct{ id, text string }{{prompt.ReminderID, prompt.Reminder()}, {prompt.LastTurnID, prompt.LastTurn(prompt.TimeSpent)}} {
			s.talk.add(last.id, llm.Message{Role: "user", Content: last.text})
		}
		if _, odd, stale, short := s.request(); odd != nil || stale || short {
			t.Fatalf("seed %d: odd %q, stale %v, short %v", seed, odd, stale, short)
		}
	}
}

// TestChangedConversations: a harness that sends something else is seen, and
// records what it sends.
func TestChangedConversations(t *testing.T) {
	user := llm.Message{Role: "user", Content: "The answer is seven."}
	tests := []struct {
		name   string
		change func(*story)
		shown  bool // what it sends has a separate head
	}{
		{"a message more", func(s *story) { s.talk.add("memory.v1", user) }, true},
		{"a message in the words of the harness", func(s *story) { s.talk.add(prompt.ReminderID, user) }, true},
		{"a second question", func(s *story) { s.talk.add(prompt.QuestionSource, user) }, true},
		{"a second reminder", func(s *story) {
			for range 2 {
				s.talk.add(prompt.ReminderID, llm.Message{Role: "user", Content: prompt.Reminder()})
			}
		}, true},
		{"a reply that the model did not give", func(s *story) { s.talk.add("model", llm.Message{Role: "assistant", Content: "Seven."}) }, true},
		{"a result with more text", func(s *story) {
			last := len(s.talk.messages) - 1
			s.talk.messages[last].Content += " The answer is seven."
			s.talk.set(last, s.talk.notes[last].listed.Source)
		}, true},
		{"the system message in other words", func(s *story) {
			s.talk.messages[0].Content += "\nThe answer is seven."
			s.talk.set(0, prompt.SystemID)
		}, true},
		{"a message in front", func(s *story) {
			s.talk.add("", user)
			last := len(s.talk.notes) - 1
			s.talk.notes = append([]note{s.talk.notes[last]}, s.talk.notes[:last]...)
			s.talk.messages = append([]llm.Message{s.talk.messages[last]}, s.talk.messages[:last]...)
		}, true},
		{"a result left out", func(s *story) {
			last := len(s.talk.notes) - 1
			s.talk.notes, s.talk.messages = s.talk.notes[:last], s.talk.messages[:last]
		}, false},
		{"two results for one", func(s *story) {
			last := len(s.talk.notes) - 1
			s.talk.add(s.talk.notes[last].listed.Source, s.talk.messages[last])
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				s := tell(seed)
				before := seed % 4
				s.turns(t, int(before))
				if before > 0 {
					s.reply(1)
				} else if slices.Contains([]string{"a result with more text", "a result left out", "two results for one"}, tt.name) {
					continue
				}
				tt.change(s)
				e, odd, stale, short := s.request()
				if odd == nil && !stale && !short {
					t.Errorf("seed %d: nothing is odd", seed)
				}
				if shown := slices.ContainsFunc(e.MessageHeads, func(h trajectory.MessageHead) bool { return h.Head != "" }); shown != tt.shown {
					t.Errorf("seed %d: %d heads, %+v", seed, len(e.MessageHeads), e.MessageHeads)
				}
			}
		})
	}
}
