package audit

import (
	"fmt"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

const ownID = "fab1e001-7c1d-4e02-9b7a-0123456789ab"

var lighthouse = probe.Target{
	TaskID: ownID,
	Question: `In the keeper's log of the Skerry lighthouse for 1871, which "bird" is said to have broken the lamp's glass ` +
		`on the night after the supply ship failed to come? Give the name as the keeper wrote it.`,
	Gold: "Grey Heron",
}

// talk tells one attempt of one task to a gatherer.
type talk struct {
	g      *gatherer
	seq    int64
	turn   int
	listed []trajectory.Message
	fresh  strings.Builder
}

func newTalk() *talk {
	m := plan.New()
	m.Probes, m.NoPreflight = probe.Version, true
	m.Tasks = []plan.PlannedTask{{TaskID: ownID}}
	for _, p := range prompt.Templates() {
		m.Prompts = append(m.Prompts, plan.Prompt{ID: p.ID, Text: p.Text})
	}
	for _, name := range []string{"web_fetch", "web_search"} {
		m.Tools = append(m.Tools, own(name))
	}
	m.Policy = policy.Policy{Mode: policy.Autonomous, Allow: []string{policy.EveryTool}}
	m.ConstitutionSHA256 = canonical.Digest(policy.Constitution(m.Policy))
	t := &talk{g: newGatherer(m, map[string]string{ownID: lighthouse.Gold})}
	t.add(trajectory.TaskStarted{Question: lighthouse.Question})
	t.say(prompt.SystemID, trajectory.SentMessage{Role: "system", Content: prompt.System()})
	t.say("question", trajectory.SentMessage{Role: "user", Content: prompt.Question(lighthouse.Question, "")})
	return t
}

func (t *talk) add(p trajectory.Payload) {
	if err := t.g.add(trajectory.Event{Seq: t.seq, TaskID: ownID, Attempt: 1, Turn: t.turn, Payload: p}); err != nil {
		panic(err)
	}
	t.seq++
}

// say puts a message into the conversation and returns its digest.
func (t *talk) say(source string, m trajectory.SentMessage) string {
	b := m.Canonical()
	t.listed = append(t.listed, trajectory.Message{Bytes: int64(len(b)), Role: m.Role, SHA256: canonical.Digest(b), Source: source})
	t.fresh.Write(append(b, '\n'))
	return canonical.Digest(b)
}

// ask opens a turn with a request, of which change is the last word, and a reply.
func (t *talk) ask(reply trajectory.SentMessage, change func(*trajectory.ContextCompiled)) {
	t.turn++
	t.add(trajectory.TurnStarted{})
	x := trajectory.Redactor{}.Excerpt(t.fresh.String(), trajectory.PromptHead)
	t.fresh.Reset()
	request := trajectory.ContextCompiled{Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, Truncated: x.Truncated, Messages: append([]trajectory.Message(nil), t.listed...)}
	if change != nil {
		change(&request)
	}
	t.add(request)
	x = trajectory.Redactor{}.Excerpt(string(reply.Canonical()), trajectory.OutputHead)
	t.say("model", reply)
	t.add(trajectory.ModelCallCompleted{Bytes: x.Bytes, Head: x.Head, OutputSHA256: x.SHA256, Truncated: x.Truncated})
}

// call takes a call through the gate, with a result that change has the last
// word on.
func (t *talk) call(c trajectory.SentCall, document string, change func(*trajectory.ToolExecuted)) {
	args, err := policy.Arguments([]byte(c.Arguments))
	if err != nil {
		panic(err) // a case of this test
	}
	t.add(trajectory.ToolProposed{Args: args, ArgsSHA256: canonical.Digest([]byte(c.Arguments)), CallID: c.ID, Name: c.Name})
	t.add(trajectory.PolicyDecision{CallID: c.ID, Decision: "allow"})
	x := trajectory.Redactor{}.Excerpt(document, trajectory.ResultHead)
	shown := t.say("tool:"+c.ID, trajectory.SentMessage{Role: "tool", Content: document, ToolCallID: c.ID})
	result := trajectory.ToolExecuted{Bytes: x.Bytes, CallID: c.ID, Head: x.Head, Name: c.Name, OutputSHA256: x.SHA256, Probes: &trajectory.Probes{},
		ShownSHA256: shown, Truncated: x.Truncated, URLs: []trajectory.URL{{Status: 200, URL: "http://a.example/"}}}
	if change != nil {
		change(&result)
	}
	t.add(result)
}

// reports returns what the checks say of what has been told.
func (t *talk) reports() map[string]CheckReport {
	out := map[string]CheckReport{}
	for _, c := range runChecks(t.g.e, Options{}).Checks {
		out[c.ID] = c
	}
	return out
}

const askAgain = "no answer yet"

func says(c CheckReport, part string) bool {
	for _, f := range c.Findings {
		if strings.Contains(f.RuleID+": "+f.Got, part) {
			return true
		}
	}
	for _, gap := range c.Gaps {
		if strings.Contains(gap, part) {
			return true
		}
	}
	return false
}

// TestRequests: what is wrong with a request as a whole, and what is not.
func TestRequests(t *testing.T) {
	model := trajectory.SentMessage{Role: "assistant", Content: askAgain}
	odd := trajectory.SentMessage{Role: "user", Content: "It was the Grey Heron."}
	tests := []struct {
		name        string
		first, then func(*trajectory.ContextCompiled)
		told        string // of AUD-3
		differs     string // of AUD-12
	}{
		{"honest", nil, nil, "", ""},
		{"fewer messages than before", nil, func(p *trajectory.ContextCompiled) { p.Messages, p.Bytes, p.Head = p.Messages[:1], 0, "" },
			"no more messages than the one before", "no more messages than the one before"},
		{"the same request again", nil, func(p *trajectory.ContextCompiled) { p.Messages, p.Bytes, p.Head = p.Messages[:2], 0, "" },
			"no more messages than the one before", "no more messages than the one before"},
		{"a message replaced", nil, func(p *trajectory.ContextCompiled) { p.Messages[2].SHA256 = p.Messages[0].SHA256 }, "not shown whole", "a message of source model"},
		{"longer than its messages", func(p *trajectory.ContextCompiled) { p.Bytes++ }, nil, "", "not the messages that it lists"},
		{"shorter than its messages", func(p *trajectory.ContextCompiled) { p.Bytes-- }, nil, "", "not the messages that it lists"},
		{"a message of another size", func(p *trajectory.ContextCompiled) { p.Messages[1].Bytes += 7 }, nil, "not shown whole", "not the messages that it lists"},
		{"a line that is not listed", nil, func(p *trajectory.ContextCompiled) { p.Head = string(odd.Canonical()) + "\n" + p.Head }, "prompt-residue", "a message of source unlisted"},
		{"a line that is not listed and no message", nil, func(p *trajectory.ContextCompiled) { p.Head = "Grey Heron\n" + p.Head }, "prompt-residue", "a message of source unlisted"},
		{"a line that a secret was taken out of", nil, func(p *trajectory.ContextCompiled) { p.Head, p.Redactions = "[redacted]\n"+p.Head, 1 }, "", ""},
		{"a head that could be all and is not", nil, func(p *trajectory.ContextCompiled) { p.Head = p.Head[:len(p.Head)/2] }, "", "not the messages that it lists"},
		{"another digest", nil, func(p *trajectory.ContextCompiled) { p.ContentSHA256 = p.Messages[0].SHA256 }, "", "not the messages that it lists"},
		{"a message that is listed and not there", nil, func(p *trajectory.ContextCompiled) {
			p.Head = strings.Repeat(string(model.Canonical())+"\n", 2)
			p.Bytes, p.ContentSHA256, p.Messages[3].Bytes = int64(len(p.Head)), canonical.Digest([]byte(p.Head)), p.Messages[2].Bytes
		}, "", "not the messages that it lists"},
		{"a head longer than heads are", nil, func(p *trajectory.ContextCompiled) { p.Head += strings.Repeat("x", trajectory.PromptHead) }, "a longer head than there can be", "not the messages that it lists"},
		{"a reply left out", nil, func(p *trajectory.ContextCompiled) {
			p.Messages = append(p.Messages[:2], p.Messages[3])
			p.Head = p.Head[strings.Index(p.Head, "\n")+1:]
			p.Bytes, p.ContentSHA256 = int64(len(p.Head)), canonical.Digest([]byte(p.Head))
		}, "", "leaves out a reply or a result"},
		{"a second reminder", nil, func(p *trajectory.ContextCompiled) {
			p.Messages = append(p.Messages, p.Messages[3])
			p.Bytes += p.Messages[3].Bytes + 1
			p.Head += string(trajectory.SentMessage{Role: "user", Content: prompt.Reminder()}.Canonical()) + "\n"
			p.ContentSHA256 = canonical.Digest([]byte(p.Head))
		}, "", "a message of source reminder.v1"},
		{"no messages", func(p *trajectory.ContextCompiled) { p.Messages = nil }, nil, "no system message or no question", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newTalk()
			k.ask(model, tt.first)
			k.say(prompt.ReminderID, trajectory.SentMessage{Role: "user", Content: prompt.Reminder()})
			k.ask(model, tt.then)
			got := k.reports()
			for id, want := range map[string]string{"AUD-3": tt.told, "AUD-12": tt.differs} {
				r := got[id]
				if want == "" && len(r.Findings)+len(r.Gaps) > 0 || want != "" && !says(r, want) {
					t.Errorf("%s: %v %q, want %q", id, r.Findings, r.Gaps, want)
				}
			}
		})
	}
}

// TestReplyCalls: each call that a reply asks for can be proposed once.
func TestReplyCalls(t *testing.T) {
	one := trajectory.SentCall{Arguments: `{"url":"http://a.example/"}`, ID: "1", Name: "web_fetch"}
	two := trajectory.SentCall{Arguments: `{"url":"http://b.example/"}`, ID: "2", Name: "web_fetch"}
	changed := func(change func(*trajectory.SentCall)) trajectory.SentCall {
		c := one
		change(&c)
		return c
	}
	tests := []struct {
		name     string
		proposed []trajectory.SentCall
		want     bool
	}{
		{"as asked for", []trajectory.SentCall{one, two}, false},
		{"in another order", []trajectory.SentCall{two, one}, false},
		{"one left out", []trajectory.SentCall{two}, false},
		{"one twice", []trajectory.SentCall{one, two, one}, true},
		{"other arguments", []trajectory.SentCall{changed(func(c *trajectory.SentCall) { c.Arguments = two.Arguments })}, true},
		{"another tool", []trajectory.SentCall{changed(func(c *trajectory.SentCall) { c.Name = "read_file" })}, true},
		{"another id", []trajectory.SentCall{changed(func(c *trajectory.SentCall) { c.ID = "3" })}, true},
	}
	for _, tt := range tests {
		k := newTalk()
		k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{one, two}}, nil)
		for _, c := range tt.proposed {
			k.call(c, "nothing", nil)
		}
		if got := says(k.reports()["AUD-12"], "proposal-differs"); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	k := newTalk()
	k.turn++
	k.add(trajectory.TurnStarted{})
	k.call(one, "nothing", nil)
	if !says(k.reports()["AUD-12"], "proposal-differs") {
		t.Error("a call without a reply comes from nowhere")
	}
}

// TestOneIDTwice: calls of one id in one turn get their decisions and results in
// order.
func TestOneIDTwice(t *testing.T) {
	k := newTalk()
	c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch"}
	k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{c, c, c}}, nil)
	for range 3 {
		k.add(trajectory.ToolProposed{ArgsSHA256: canonical.Digest([]byte("{}")), CallID: "1", Name: "web_fetch"})
	}
	for _, d := range []string{"allow", "deny", "allow"} {
		k.add(trajectory.PolicyDecision{CallID: "1", Decision: d})
	}
	for range 2 {
		k.add(trajectory.ToolExecuted{CallID: "1", Name: "web_fetch"})
	}
	var got []bool
	for _, c := range k.g.e.Tasks[0].Attempts[0].Calls {
		got = append(got, c.Result != nil)
	}
	if fmt.Sprint(got) != "[true false true]" {
		t.Errorf("of the calls these ran: %v", got)
	}
	if says(k.reports()["AUD-12"], "ran-without-decision") {
		t.Error("a call that was allowed is said not to have been")
	}
}

// TestResultHeads: a head longer than heads are is looked at up to there.
func TestResultHeads(t *testing.T) {
	c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch"}
	leak := ownID + " Grey Heron "
	tests := []struct {
		name, document string
		change         func(*trajectory.ToolExecuted)
		found, gap     string
	}{
		{"honest", "a page", nil, "", ""},
		{"within", leak + strings.Repeat("x", trajectory.ResultHead), nil, "uuid-with-answer", ""},
		{"beyond", "a page", func(p *trajectory.ToolExecuted) { p.Head = strings.Repeat("x ", trajectory.ResultHead/2) + leak }, "", "a longer head than there can be"},
		{"within one that is too long", "a page", func(p *trajectory.ToolExecuted) { p.Head = leak + strings.Repeat("x ", trajectory.ResultHead) }, "uuid-with-answer", "a longer head than there can be"},
		{"beyond, in one that is all of it", strings.Repeat("x ", trajectory.ResultHead/2) + leak, func(p *trajectory.ToolExecuted) { p.Head += leak }, "", "a longer head than there can be"},
		{"a secret taken out", leak + "[redacted] ", func(p *trajectory.ToolExecuted) { p.Redactions = 1 }, "uuid-with-answer", ""},
		{"a secret said to be taken out and no probes", "a page", func(p *trajectory.ToolExecuted) { p.Redactions, p.Probes = 1, nil }, "", ""},
		{"a secret taken out and no probes", "a page", func(p *trajectory.ToolExecuted) { p.Head, p.Redactions, p.Probes = "a [redacted]", 1, nil }, "", "longer than its head has no probes"},
	}
	for _, tt := range tests {
		k := newTalk()
		k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{c}}, nil)
		k.call(c, tt.document, tt.change)
		r := k.reports()["AUD-1"]
		for want, there := range map[string]int{tt.found: len(r.Findings), tt.gap: len(r.Gaps)} {
			if want != "" && !says(r, want) || tt.found == "" && len(r.Findings) > 0 || tt.gap == "" && len(r.Gaps) > 0 {
				t.Errorf("%s: %v %q (%d), want %q", tt.name, r.Findings, r.Gaps, there, want)
			}
		}
	}
}

// TestDiscarded: an answer beside calls ends no attempt, so one that is lost or
// goes on after it has thrown nothing away.
func TestDiscarded(t *testing.T) {
	c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "web_fetch"}
	tests := []struct {
		name    string
		content string
		calls   []trajectory.SentCall
		want    bool
	}{
		{"an answer", "FINAL ANSWER: Tern", nil, true},
		{"an answer beside a call", "FINAL ANSWER: Tern", []trajectory.SentCall{c}, false},
		{"no answer", "Tern", nil, false},
		{"nothing", "", nil, false},
		{"an answer in a reply longer than its head", strings.Repeat("Hm. ", trajectory.OutputHead) + "FINAL ANSWER: Tern", nil, false},
	}
	for _, tt := range tests {
		first := trajectory.SentMessage{Role: "assistant", Content: tt.content, ToolCalls: tt.calls}
		then := trajectory.SentMessage{Role: "assistant", Content: "FINAL ANSWER: Grey Heron"}
		for name, end := range map[string]func(*talk){
			"lost": func(k *talk) {
				k.turn = 0
				k.add(trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: "infrastructure"})
			},
			"asked again": func(k *talk) { k.ask(then, nil) },
			"tried again": func(k *talk) {
				x := trajectory.Redactor{}.Excerpt(string(then.Canonical()), trajectory.OutputHead)
				k.add(trajectory.ModelCallCompleted{Bytes: x.Bytes, Head: x.Head, OutputSHA256: x.SHA256, Try: 2})
			},
		} {
			k := newTalk()
			k.ask(first, nil)
			end(k)
			if got := says(k.reports()["AUD-12"], "discarded-answer"); got != tt.want {
				t.Errorf("%s, %s: %v", tt.name, name, got)
			}
		}
	}
}

// BenchmarkLongAttempt audits attempts of one turn with n calls and a request
// that lists what came of them, and the same with messages that no call gave.
// The time of a call must not grow with their number.
func BenchmarkLongAttempt(b *testing.B) {
	for _, n := range []int{1_000, 20_000} {
		for _, odd := range []bool{false, true} {
			b.Run(fmt.Sprintf("calls=%d/odd=%v", n, odd), func(b *testing.B) {
				for b.Loop() {
					k := newTalk()
					k.ask(trajectory.SentMessage{Role: "assistant", Content: strings.Repeat("x", trajectory.OutputHead)}, nil)
					for i := range n {
						k.call(trajectory.SentCall{Arguments: "{}", ID: fmt.Sprint(i % (n / 2)), Name: "web_fetch"}, "a page", nil)
					}
					if odd {
						for i := range k.listed {
							k.listed[i].SHA256 = k.listed[0].SHA256
						}
					}
					k.ask(trajectory.SentMessage{Role: "assistant", Content: "FINAL ANSWER: Grey Heron"}, nil)
					if found := k.reports()["AUD-12"].Findings; (len(found) > 0) != odd {
						b.Fatal(len(found))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/call")
			})
		}
	}
}
