package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// endpoint is a model that answers with the next of its replies, over HTTP,
// and keeps what it was sent.
type endpoint struct {
	mu      sync.Mutex
	replies []string // choices[0].message
	bodies  [][]byte
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || len(e.replies) == 0 {
		http.Error(w, "no reply is left", http.StatusBadRequest)
		return
	}
	e.bodies = append(e.bodies, body)
	reply := e.replies[0]
	e.replies = e.replies[1:]
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"r%d","model":"m","choices":[{"index":0,"finish_reason":"stop","message":%s}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, len(e.bodies), reply)
}

// say and call are messages of a model.
func say(text string) string {
	b, _ := json.Marshal(map[string]any{"role": "assistant", "content": text})
	return string(b)
}

func call(id, name, args string) string {
	b, _ := json.Marshal(map[string]any{"role": "assistant", "content": "", "tool_calls": []any{
		map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": args}},
	}})
	return string(b)
}

// bench is one attempt with a real journal, Gate, workspace and client.
type bench struct {
	agent   agent.Agent
	session *tools.Session
	rec     *trajectory.Attempt
	model   *endpoint
	sink    *sink
	root    *os.Root // the workspace
}

// sink is a journal file that can be made to fail.
type sink struct {
	bytes.Buffer
	syncs int
	fail  error
	left  int // syncs until it fails; 0: never
}

func (s *sink) Sync() error {
	s.syncs++
	if s.fail == nil && s.left > 0 {
		if s.left--; s.left == 0 {
			s.fail = errors.New("disk full")
			return nil
		}
	}
	return s.fail
}

func newBench(t *testing.T, maxTurns int, replies ...string) *bench {
	t.Helper()
	b := &bench{model: &endpoint{replies: replies}, sink: &sink{}}
	server := httptest.NewServer(b.model)
	t.Cleanup(server.Close)
	client := llm.New(llm.Config{BaseURL: server.URL, MaxTries: 1, Now: time.Now})
	p, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		t.Fatal(err)
	}
	p.MaxToolCalls = 3
	gate, err := tools.NewGate(tools.GateConfig{Policy: p, Now: time.Now}, tools.NewCalculate(), tools.NewListFiles())
	if err != nil {
		t.Fatal(err)
	}
	log, err := trajectory.NewLog(b.sink, trajectory.End{Head: "start"}, trajectory.LogConfig{
		RunID: "run", Now: time.Now, Mono: func() time.Duration { return 0 }, Rand: rand.NewChaCha8([32]byte{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := tools.OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.Close() })
	b.root = workspace.Root()
	b.rec = &trajectory.Attempt{Log: log, TaskID: "task", Number: 1}
	b.session = gate.Open(b.rec, workspace, tools.Spent{}, nil)
	b.agent = agent.Agent{Model: client, Name: "m", MaxTurns: maxTurns, Tools: gate.Specs(), Now: time.Now}
	return b
}

func (b *bench) solve(t *testing.T) (agent.Answer, []trajectory.Event, error) {
	t.Helper()
	answer, err := b.agent.Solve(context.Background(), agent.Question{Text: "What is 6·7?"}, b.session, b.rec)
	if b.sink.fail == nil {
		if err := b.rec.Append(0, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer}); err != nil {
			t.Fatal(err)
		}
	}
	var events []trajectory.Event
	var requests trajectory.Requests
	_, _, readErr := trajectory.ReadJournal(bytes.NewReader(b.sink.Bytes()), "run", "start", func(e trajectory.Event, _ []byte) error {
		if p, ok := e.Payload.(trajectory.ContextCompiled); ok {
			whole, err := requests.Rebuild(p)
			if err != nil {
				return err
			}
			e.Payload = whole
		} else {
			requests.Add(e.Payload)
		}
		events = append(events, e)
		return nil
	})
	if readErr != nil {
		t.Fatal(readErr)
	}
	return answer, events, err
}

// TestStepsAreWhatWasSent: the messages that the journal lists are those that
// reached the endpoint, byte for byte.
func TestStepsAreWhatWasSent(t *testing.T) {
	b := newBench(t, 5, call("c1", "calculate", `{"expression":"6*7"}`), say("Hm."), say("FINAL ANSWER: 42"))
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "42" {
		t.Fatalf("answer %+v, error %v", answer, err)
	}
	var requests []trajectory.ContextCompiled
	for _, e := range events {
		if p, ok := e.Payload.(trajectory.ContextCompiled); ok {
			requests = append(requests, p)
		}
	}
	if len(requests) != 3 || len(b.model.bodies) != 3 {
		t.Fatalf("%d requests recorded, %d received, want 3", len(requests), len(b.model.bodies))
	}
	for i, r := range requests {
		sent := digests(t, b.model.bodies[i])
		if len(sent) != len(r.Messages) {
			t.Fatalf("request %d: %d messages recorded, %d received", i, len(r.Messages), len(sent))
		}
		for j, m := range r.Messages {
			if m.SHA256 != sent[j] {
				t.Errorf("request %d, message %d (%s): recorded %s, received %s", i, j, m.Source, m.SHA256, sent[j])
			}
		}
	}
	var sources []string
	for _, m := range requests[2].Messages {
		sources = append(sources, m.Source)
	}
	if got, want := strings.Join(sources, " "), "system.v2 question model tool:c1 model reminder.v1"; got != want {
		t.Errorf("sources are %q, want %q", got, want)
	}
}

// digests reads a request as docs/formats.md says messages are hashed, by
// other means than the agent does.
func digests(t *testing.T, body []byte) []string {
	t.Helper()
	var request struct {
		Messages []struct {
			Role       string  `json:"role"`
			Content    *string `json:"content"`
			ToolCallID string  `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range request.Messages {
		form := map[string]any{"role": m.Role, "content": ""}
		if m.Content != nil {
			form["content"] = *m.Content
		}
		if m.ToolCallID != "" {
			form["tool_call_id"] = m.ToolCallID
		}
		var calls []any
		for _, c := range m.ToolCalls {
			calls = append(calls, map[string]any{"id": c.ID, "name": c.Function.Name, "arguments": c.Function.Arguments})
		}
		if calls != nil {
			form["tool_calls"] = calls
		}
		b, err := json.Marshal(form)
		if err != nil {
			t.Fatal(err)
		}
		v := jsontext.Value(b)
		if err := v.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(v)
		out = append(out, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return out
}

func types(events []trajectory.Event) string {
	var names []string
	for _, e := range events {
		names = append(names, string(e.Payload.Type()))
	}
	return strings.Join(names, " ")
}

// TestOrder: what a turn records, in order, and how often it waits.
// TestLongCallIDs: a call under an id that is too long to record gets one that
// is not, and the endpoint is answered under it, too.
func TestLongCallIDs(t *testing.T) {
	long := strings.Repeat("x", 5000)
	b := newBench(t, 5, call(long, "calculate", `{"expression":"6*7"}`), say("FINAL ANSWER: 42"))
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "42" {
		t.Fatalf("%+v, %v", answer, err)
	}
	var id string
	for _, e := range events {
		switch p := e.Payload.(type) {
		case trajectory.ToolProposed:
			id = p.CallID
		case trajectory.ToolExecuted:
			if p.CallID != id {
				t.Errorf("proposed as %q, executed as %q", id, p.CallID)
			}
		case trajectory.ModelCallCompleted:
			if strings.Contains(p.Head, long[:300]) {
				t.Error("the reply is recorded under the long id")
			}
		}
	}
	if len(id) < 10 || len(id) > 64 || !strings.HasPrefix(id, "call_") {
		t.Errorf("the id is %q", id)
	}
	if last := b.model.bodies[len(b.model.bodies)-1]; strings.Contains(string(last), long) || !strings.Contains(string(last), id) {
		t.Errorf("the second request does not hold %q alone", id)
	}
}

func TestOrder(t *testing.T) {
	b := newBench(t, 5, call("c1", "calculate", `{"expression":"6*7"}`), say("FINAL ANSWER: 42"))
	_, events, err := b.solve(t)
	if err != nil {
		t.Fatal(err)
	}
	want := "turn_started context_compiled model_call_started model_call_completed tool_proposed policy_decision tool_executed turn_completed " +
		"turn_started context_compiled model_call_started model_call_completed turn_completed attempt_ended"
	if got := types(events); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
	if b.sink.syncs != 2+1+1 {
		t.Errorf("%d waits for the disk, want 2 for the turn with a tool, 1 for the other, 1 for the end", b.sink.syncs)
	}
}

// TestResultsAreDurableBeforeTheyAreShown: when a tool's result cannot be put on
// disk, the request that would show it is never sent.
func TestResultsAreDurableBeforeTheyAreShown(t *testing.T) {
	b := newBench(t, 5, call("c1", "calculate", `{"expression":"6*7"}`), say("FINAL ANSWER: 42"))
	b.agent.Model = lastSync{b.agent.Model, b.sink}
	answer, _, err := b.solve(t)
	if !errors.Is(err, trajectory.ErrNotRecorded) || answer.Found || len(b.model.bodies) != 1 {
		t.Errorf("%+v, %v after %d requests", answer, err, len(b.model.bodies))
	}
}

// lastSync is a model after whose first reply the disk takes what is decided,
// and nothing more.
type lastSync struct {
	agent.Model
	sink *sink
}

func (m lastSync) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	response, err := m.Model.Chat(ctx, r, o)
	m.sink.left = 1
	return response, err
}

func TestBudgets(t *testing.T) {
	loop := func(n int) (replies []string) {
		for i := range n {
			replies = append(replies, call(fmt.Sprint("c", i), "calculate", `{"expression":"1+1"}`))
		}
		return replies
	}
	t.Run("turns", func(t *testing.T) {
		b := newBench(t, 2, append(loop(1), say("I cannot tell."))...)
		answer, _, err := b.solve(t)
		if err != nil || answer.Found || !strings.HasPrefix(answer.Reason, "the turn budget is spent") {
			t.Errorf("answer %+v, error %v", answer, err)
		}
		if gjson.GetBytes(b.model.bodies[1], "tool_choice").Str != "none" || gjson.GetBytes(b.model.bodies[0], "tool_choice").Exists() {
			t.Error("tools can be called on the last turn, or on no turn")
		}
	})
	t.Run("tool calls", func(t *testing.T) {
		b := newBench(t, 20, append(loop(3), say("FINAL ANSWER: 2"))...)
		answer, _, err := b.solve(t)
		if err != nil || answer.Text != "2" {
			t.Errorf("answer %+v, error %v", answer, err)
		}
	})
	t.Run("a call on the last turn does not run", func(t *testing.T) {
		b := newBench(t, 1, loop(1)...)
		answer, events, err := b.solve(t)
		if err != nil || answer.Found || strings.Contains(types(events), "tool_proposed") {
			t.Errorf("answer %+v, error %v, events %s", answer, err, types(events))
		}
	})
	t.Run("too many calls at once", func(t *testing.T) {
		var calls [][2]string
		for range 128 + 1 {
			calls = append(calls, [2]string{"calculate", `{"expression":"1+1"}`})
		}
		b := newBench(t, 20, several(calls...))
		answer, events, err := b.solve(t)
		if err != nil || answer.Found || answer.Reason != "a reply asked for 129 tool calls at once" || strings.Contains(types(events), "tool_proposed") {
			t.Errorf("answer %+v, error %v", answer, err)
		}
	})
	t.Run("one reminder", func(t *testing.T) {
		b := newBench(t, 20, say("It is 42."), say("As I said."))
		answer, _, err := b.solve(t)
		if err != nil || answer.Found || answer.Reason != "no final answer after a reminder" {
			t.Errorf("answer %+v, error %v", answer, err)
		}
	})
}

// TestNotRecorded: when the journal fails, nothing leaves.
func TestNotRecorded(t *testing.T) {
	b := newBench(t, 5, say("FINAL ANSWER: 42"))
	b.sink.fail = errors.New("disk on fire")
	_, _, err := b.solve(t)
	if !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Errorf("error is %v", err)
	}
	if len(b.model.bodies) != 0 {
		t.Error("a request left though it was not recorded")
	}
}

// TestRepeatedIDs: calls of one reply have an id each, also where the model gives
// two the same, so that a decision and a result are of one of them.
func TestRepeatedIDs(t *testing.T) {
	b := newBench(t, 5,
		`{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"calculate","arguments":"{\"expression\":\"1+1\"}"}},`+
			`{"id":"c","type":"function","function":{"name":"list_files","arguments":"{}"}}]}`,
		`{"role":"assistant","content":"FINAL ANSWER: 2"}`)
	_, events, err := b.solve(t)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, e := range events {
		switch p := e.Payload.(type) {
		case trajectory.ToolProposed:
			ids[p.CallID] = p.Name
		case trajectory.ToolExecuted:
			if ids[p.CallID] != p.Name {
				t.Errorf("%s gave the result of %q", p.Name, p.CallID)
			}
		}
	}
	if len(ids) != 2 || ids["c"] != "calculate" {
		t.Errorf("ids %v", ids)
	}
}
