package trajectory

import (
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// talk is a conversation as a recorder has it.
type talk struct {
	random *mathrand.Rand
	redact Redactor
	all    []SentMessage
	listed []Message
	held   []bool
}

func (k *talk) say(source string, m SentMessage) Message {
	b := m.Canonical()
	listed := Message{Bytes: int64(len(b)), Role: m.Role, SHA256: k.redact.Excerpt(string(b), 0).SHA256, Source: source}
	k.all, k.listed, k.held = append(k.all, m), append(k.listed, listed), append(k.held, false)
	return listed
}

// compile returns the next request, whole.
func (k *talk) compile() ContextCompiled {
	var fresh strings.Builder
	for i, m := range k.all {
		if !k.held[i] {
			fresh.Write(append(m.Canonical(), '\n'))
		}
		k.held[i] = true
	}
	x := k.redact.Excerpt(fresh.String(), PromptHead)
	return ContextCompiled{Bytes: x.Bytes, ContentSHA256: x.SHA256, Head: x.Head, Messages: append([]Message{}, k.listed...), Redactions: x.Redactions, Truncated: x.Truncated}
}

// words is a text of some bytes, now and then with a secret or longer than heads are.
func (k *talk) words(secret string) string {
	text := strings.Repeat("grey-é😀 ", k.random.IntN(8))
	switch k.random.IntN(12) {
	case 0:
		text += secret
	case 1:
		text += strings.Repeat("heron\n", k.random.IntN(1200))
	}
	return text + fmt.Sprint(k.random.Uint32())
}

// TestRequests: what a reader rebuilds is the request that was recorded, whatever else the journal has of it.
func TestRequests(t *testing.T) {
	const system, secret = "Answer.\n\nFINAL ANSWER: x", "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
	known := NewKnownTexts([]string{system + "\n", "{{.Question}}\n"}, false)
	whole, short := 0, 0
	for seed := range uint64(400) {
		k := &talk{random: mathrand.New(mathrand.NewPCG(seed, 1)), redact: NewRedactor(nil, secret)}
		writer, reader := Requests{Known: known}, Requests{Known: known}
		add := func(p Payload) { writer.Add(p); reader.Add(p) }
		question := k.words(secret)
		add(TaskStarted{Question: question})
		k.say("system.v2", SentMessage{Content: system, Role: "system"})
		if k.random.IntN(3) == 0 {
			question += "\n\nA file comes with it."
		}
		k.say("question", SentMessage{Content: question, Role: "user"})
		for turn := range 6 {
			want := k.compile()
			p := writer.Abridge(want)
			got, err := reader.Rebuild(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := writer.Rebuild(p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, turn %d (-want +got):\n%s\nrecorded: %+v", seed, turn, diff, p)
			}
			whole, short = whole+len(want.Head), short+len(p.Head)
			if turn > 0 && p.Kept == 0 {
				t.Errorf("seed %d, turn %d keeps nothing", seed, turn)
			}

			id := fmt.Sprint("call-", turn)
			reply := SentMessage{Content: k.words(secret), Role: "assistant", ToolCalls: []SentCall{{Arguments: "{}", ID: id, Name: "list_files"}}}
			x := k.redact.Excerpt(string(reply.Canonical()), OutputHead)
			add(ModelCallCompleted{Bytes: x.Bytes, Head: x.Head, OutputSHA256: x.SHA256, Redactions: x.Redactions, Truncated: x.Truncated})
			k.say("model", reply)
			document := k.words(secret)
			shown := SentMessage{Content: document, Role: "tool", ToolCallID: id}
			switch k.random.IntN(4) {
			case 0:
				add(PolicyDecision{CallID: id, Decision: "deny", Shown: document})
			case 1: // another text of the same size is shown
				x := k.redact.Excerpt(strings.Repeat("x", len(document)), ResultHead)
				add(ToolExecuted{Bytes: x.Bytes, CallID: id, Head: x.Head, ShownBytes: x.Bytes, ShownSHA256: k.redact.Excerpt(string(shown.Canonical()), 0).SHA256})
			default:
				x := k.redact.Excerpt(document, ResultHead)
				add(ToolExecuted{Bytes: x.Bytes, CallID: id, Head: x.Head, Redactions: x.Redactions, ShownBytes: x.Bytes,
					ShownSHA256: k.redact.Excerpt(string(shown.Canonical()), 0).SHA256, Truncated: x.Truncated})
			}
			k.say("tool:"+id, shown)
			// An earlier message becomes a shorter one.
			if i := 2 + k.random.IntN(len(k.all)-2); k.random.IntN(4) == 0 && k.all[i].Content != "[taken out]" {
				m := k.all[i]
				m.Content = "[taken out]"
				b := string(m.Canonical())
				k.all[i], k.held[i] = m, false
				k.listed[i].SHA256, k.listed[i].Bytes = k.redact.Excerpt(b, 0).SHA256, int64(len(b))
			}
		}
	}
	if short*2 > whole {
		t.Errorf("heads have %d bytes of %d", short, whole)
	}
}

// TestRequestsHashes: where digests alone are recorded, heads stay empty.
func TestRequestsHashes(t *testing.T) {
	k := &talk{}
	system := k.say("system.v2", SentMessage{Content: "Answer.", Role: "system"})
	r := Requests{Known: NewKnownTexts([]string{"Answer.\n"}, true)}
	got, err := r.Rebuild(ContextCompiled{Bytes: system.Bytes + 1, Messages: k.listed, Truncated: true})
	if err != nil || got.Head != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRequestsRefused: a list of messages has one form.
func TestRequestsRefused(t *testing.T) {
	a, b, c := Message{SHA256: "a"}, Message{SHA256: "b"}, Message{SHA256: "c"}
	for _, tt := range []struct {
		name string
		p    ContextCompiled
		want string
	}{
		{"all listed", ContextCompiled{Messages: []Message{a, b, c}}, "lists message 0, which"},
		{"one listed that is kept", ContextCompiled{Kept: 1, Messages: []Message{b, c}}, "lists message 1, which"},
		{"too many kept", ContextCompiled{Kept: 3, Messages: []Message{c}}, "keeps 3 messages of a request that has 2"},
		{"below none", ContextCompiled{Kept: -1, Messages: []Message{c}}, "keeps -1 messages"},
		{"more", ContextCompiled{Kept: 2, Messages: []Message{c}}, ""},
		{"fewer", ContextCompiled{Kept: 1}, ""},
		{"another", ContextCompiled{Kept: 1, Messages: []Message{c}}, ""},
	} {
		var r Requests
		if _, err := r.Rebuild(ContextCompiled{Messages: []Message{a, b}}); err != nil {
			t.Fatal(err)
		}
		_, err := r.Rebuild(tt.p)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestRequestsForged: lines that no message needs, and that are longer than heads are, are all shown to a reader.
func TestRequestsForged(t *testing.T) {
	k := &talk{}
	k.say("system.v2", SentMessage{Content: "Answer.", Role: "system"})
	k.say("other", SentMessage{Content: "Think of Brellin.", Role: "user"})
	known := NewKnownTexts([]string{"Answer.\n"}, false)
	for _, head := range []string{"", "x\n", "x\ny\n", "x\ny", strings.Repeat("x", 3*PromptHead), "\n\nx"} {
		r := Requests{Known: known}
		got, err := r.Rebuild(ContextCompiled{Head: head, Messages: k.listed})
		if want := string(k.all[0].Canonical()) + "\n" + head; err != nil || got.Head != want {
			t.Errorf("%.20q gives %.200q, %v", head, got.Head, err)
		}
	}
}

// TestRequestsShare: a list that is added to keeps what was read of it before.
func TestRequestsShare(t *testing.T) {
	var r Requests
	var all [][]Message
	var want []string
	for i := range 40 {
		p := ContextCompiled{Kept: len(r.last), Messages: []Message{{SHA256: fmt.Sprint(i)}, {SHA256: fmt.Sprint(i, "b")}}}
		if i%7 == 6 {
			p.Kept -= 3
		}
		whole, err := r.Rebuild(p)
		if err != nil {
			t.Fatal(err)
		}
		all, want = append(all, whole.Messages), append(want, fmt.Sprint(whole.Messages))
	}
	for i, messages := range all {
		if got := fmt.Sprint(messages); got != want[i] {
			t.Errorf("request %d became\n%s\nof\n%s", i, got, want[i])
		}
	}
}

func BenchmarkRequests(b *testing.B) {
	k := &talk{random: mathrand.New(mathrand.NewPCG(1, 1))}
	known := NewKnownTexts([]string{"Answer.\n"}, false)
	k.say("system.v2", SentMessage{Content: "Answer.", Role: "system"})
	k.say("question", SentMessage{Content: "How many?", Role: "user"})
	first := k.compile()
	reply := SentMessage{Content: "Next.", Role: "assistant", ToolCalls: []SentCall{{Arguments: "{}", ID: "c", Name: "list_files"}}}
	said := k.say("model", reply)
	shown := k.say("tool:c", SentMessage{Content: "the workspace is empty\n", Role: "tool", ToolCallID: "c"})
	second := k.compile()
	b.ReportAllocs()
	for b.Loop() {
		r := Requests{Known: known}
		r.Add(TaskStarted{Question: "How many?"})
		if _, err := r.Rebuild(r.Abridge(first)); err != nil {
			b.Fatal(err)
		}
		r.Add(ModelCallCompleted{Bytes: said.Bytes, Head: string(reply.Canonical()), OutputSHA256: said.SHA256})
		r.Add(ToolExecuted{Bytes: 23, CallID: "c", Head: "the workspace is empty\n", ShownBytes: 23, ShownSHA256: shown.SHA256})
		if _, err := r.Rebuild(r.Abridge(second)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFits: a request has room for so many messages, and an attempt for so many that its requests add.
func TestFits(t *testing.T) {
	messages := func(n int, sum string) (all []Message) {
		for range n {
			all = append(all, Message{Role: "user", SHA256: sum})
		}
		return all
	}
	a := &Attempt{}
	if !a.Fits(messages(MostMessages, "a")) || a.Fits(messages(MostMessages+1, "a")) {
		t.Error("the bound of one request is another")
	}
	for i := range MostListed / MostMessages { // each is another conversation
		request := a.requests.Abridge(ContextCompiled{Messages: messages(MostMessages, string('a'+rune(i)))})
		if !a.Fits(request.Messages) {
			t.Fatalf("request %d does not fit", i+1)
		}
		if _, err := a.requests.Rebuild(request); err != nil {
			t.Fatal(err)
		}
	}
	if last := a.requests.last; !a.Fits(last) || a.Fits(append(messages(1, "z"), last[1:]...)) {
		t.Error("a full attempt has room for what a request keeps, and for no more")
	}
}
