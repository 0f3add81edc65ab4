package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/tidwall/gjson"
)

// fill puts so many files into the workspace that a list of them is long.
func (b *bench) fill(t *testing.T) {
	t.Helper()
	for i := range 60 {
		if err := b.root.WriteFile(fmt.Sprintf("a file with quite a long name, number %02d.txt", i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func listing(id string) string { return call(id, "list_files", `{}`) }

// narrow refuses conversations of more than so many bytes, and notes how long
// they were.
type narrow struct {
	limit   int
	words   string // of the refusal
	then    *endpoint
	refused []int
}

func (n *narrow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	length := len(gjson.GetBytes(body, "messages").Raw)
	if length > n.limit {
		n.refused = append(n.refused, length)
		http.Error(w, n.words, http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	n.then.ServeHTTP(w, r)
}

// TestCondensing: a conversation that the model refuses for its length is
// condensed, oldest results first, and goes on; the journal says which messages
// stand for which.
func TestCondensing(t *testing.T) {
	b := newBench(t, 9, listing("c1"), listing("c2"), listing("c3"), say("FINAL ANSWER: 701"))
	b.fill(t)
	small := &narrow{limit: 7000, words: `{"error":{"code":"context_length_exceeded","message":"too long"}}`, then: b.model}
	server := httptest.NewServer(small)
	defer server.Close()
	b.agent.Model = llm.New(llm.Config{BaseURL: server.URL, MaxTries: 2})
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "701" {
		t.Fatalf("%+v, %v", answer, err)
	}
	var refusals, condensed int
	listed := map[string]bool{} // digests of the messages of the request before
	for _, e := range events {
		switch p := e.Payload.(type) {
		case trajectory.ModelCallCompleted:
			if p.Error != nil {
				refusals++
				if p.Error.Code != llm.ContextLengthExceeded || p.Error.Retryable {
					t.Errorf("%+v", p.Error)
				}
			}
			if p.RetryOf != "" {
				t.Error("a shorter request is no repetition")
			}
		case trajectory.ContextCondensed:
			for _, c := range p.Messages {
				condensed++
				if !listed[c.FromSHA256] {
					t.Errorf("%s stood in no request", c.Source)
				}
				if c.ToBytes >= c.FromBytes || p.Reason != trajectory.RefusedForLength {
					t.Errorf("%+v", p)
				}
				listed[c.ToSHA256] = true
			}
		case trajectory.ContextCompiled:
			clear(listed)
			for _, m := range p.Messages {
				listed[m.SHA256] = true
			}
		}
	}
	if refusals == 0 || condensed == 0 || refusals > condensed {
		t.Errorf("%d refusals, %d results condensed", refusals, condensed)
	}
	for i := range small.refused[1:] {
		if small.refused[i+1] >= small.refused[i] {
			t.Errorf("after one of %d bytes was refused one of %d was sent", small.refused[i], small.refused[i+1])
		}
	}
	want := prompt.Condensed("list_files", int64(len(toolText(b.model.bodies[1], 0))))
	if got := toolText(b.model.bodies[len(b.model.bodies)-1], 0); got != want {
		t.Errorf("the oldest result became %q, want %q", got, want)
	}
}

// toolText returns the content of the n-th tool message of a request.
func toolText(body []byte, n int) string {
	return gjson.GetBytes(body, `messages.#(role=="tool")#.content`).Array()[n].Str
}

// TestNoRoom: a question that does not fit the model, whatever is taken out, is
// a task without an answer, not a failure.
func TestNoRoom(t *testing.T) {
	b := newBench(t, 9)
	server := httptest.NewServer(&narrow{limit: 10, words: `{"error":{"message":"prompt is too long"}}`, then: b.model})
	defer server.Close()
	b.agent.Model = llm.New(llm.Config{BaseURL: server.URL, MaxTries: 2})
	answer, events, err := b.solve(t)
	if err != nil || answer.Found || !strings.Contains(answer.Reason, "no longer fits the model") {
		t.Fatalf("%+v, %v", answer, err)
	}
	if got := types(events); !strings.Contains(got, "model_call_completed turn_completed attempt_ended") {
		t.Error(got)
	}
}

// quiet answers with the next of its replies, without usage, and notes how long
// the conversations were.
type quiet struct {
	replies []string
	lengths []int
}

func (q *quiet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(q.replies) == 0 {
		http.Error(w, "no reply is left", http.StatusBadRequest)
		return
	}
	q.lengths = append(q.lengths, len(body))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"choices":[{"message":%s}]}`, q.replies[0])
	q.replies = q.replies[1:]
}

// TestWindow: a conversation is kept within the window that is known, so that
// the endpoint has nothing to refuse.
func TestWindow(t *testing.T) {
	for _, window := range []int{0, 2500} {
		model := &quiet{replies: []string{listing("c1"), listing("c2"), listing("c3"), say("FINAL ANSWER: 1")}}
		server := httptest.NewServer(model)
		defer server.Close()
		b := newBench(t, 9)
		b.fill(t)
		b.agent.Model, b.agent.Window = llm.New(llm.Config{BaseURL: server.URL, MaxTries: 1}), window
		answer, events, err := b.solve(t)
		if err != nil || answer.Text != "1" {
			t.Fatalf("%+v, %v", answer, err)
		}
		condensed := strings.Contains(types(events), "turn_started context_condensed context_compiled")
		if longest := slices.Max(model.lengths); condensed != (window > 0) || condensed != (longest < 3*2500) {
			t.Errorf("window %d: condensed %v, %d bytes at most", window, condensed, longest)
		}
		for _, e := range events {
			if p, ok := e.Payload.(trajectory.ContextCondensed); ok && p.Reason != trajectory.WindowFull {
				t.Errorf("condensed for %s", p.Reason)
			}
		}
	}
}

// TestTokenBudget: once the tokens are used up one turn is left, for the answer;
// an endpoint that tells no usage is no way around that.
func TestTokenBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit agent.Limits
		turns int
	}{
		{"two calls of 15", agent.Limits{Tokens: 25}, 3},
		{"some used before", agent.Limits{Tokens: 25, Used: 11}, 2},
		{"all used before", agent.Limits{Tokens: 25, Used: 25}, 1},
		{"none", agent.Limits{}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := call("c", "calculate", `{"expression":"1+1"}`)
			replies := []string{step, step, step}
			b := newBench(t, 9, append(replies[:tt.turns-1], say("FINAL ANSWER: 2"))...)
			b.agent.Limits = tt.limit
			answer, events, err := b.solve(t)
			if err != nil || answer.Text != "2" || len(b.model.bodies) != tt.turns {
				t.Fatalf("%+v, %v after %d requests", answer, err, len(b.model.bodies))
			}
			last := b.model.bodies[tt.turns-1]
			told := strings.Contains(string(last), prompt.LastTurn(prompt.TokensSpent)[:40])
			if barred := gjson.GetBytes(last, "tool_choice").Str == "none"; told != barred || told != (tt.limit.Tokens > 0) {
				t.Errorf("told %v, barred tools %v: %s", told, barred, types(events))
			}
		})
	}
}

// TestUnreportedTokens: tokens that an endpoint does not tell are guessed.
func TestUnreportedTokens(t *testing.T) {
	model := &quiet{replies: []string{call("c", "calculate", `{"expression":"1+1"}`), say("FINAL ANSWER: 2")}}
	server := httptest.NewServer(model)
	defer server.Close()
	b := newBench(t, 9)
	b.agent.Model, b.agent.Limits = llm.New(llm.Config{BaseURL: server.URL, MaxTries: 1}), agent.Limits{Tokens: 100}
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "2" || strings.Contains(types(events), "tool_executed") ||
		!strings.Contains(types(events), "model_call_completed policy_violation tool_proposed policy_decision policy_violation turn_completed") {
		t.Errorf("%+v, %v: %s", answer, err, types(events))
	}
	if !strings.Contains(heads(events), prompt.LastTurn(prompt.TokensSpent)[:40]) {
		t.Error("the second turn was not the last one")
	}
}

// heads returns what requests showed that was new.
func heads(events []trajectory.Event) (out string) {
	for _, e := range events {
		if p, ok := e.Payload.(trajectory.ContextCompiled); ok {
			out += p.Head
		}
	}
	return out
}

// TestTimeBudget: a request that outlasts the time budget is cut, and one turn
// is left for the answer, without calls.
func TestTimeBudget(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Add(1)
		if !gjson.GetBytes(body, "tool_choice").Exists() { // not the last turn
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":%s}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, say("FINAL ANSWER: 9"))
	}))
	defer server.Close()
	defer close(release)
	b := newBench(t, 9)
	b.agent.Model, b.agent.Limits = llm.New(llm.Config{BaseURL: server.URL, MaxTries: 3}), agent.Limits{Wall: 50 * time.Millisecond}
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "9" {
		t.Fatalf("%+v, %v after %d requests", answer, err, asked.Load())
	}
	want := "turn_started context_compiled model_call_started model_call_completed turn_completed " +
		"turn_started context_compiled model_call_started model_call_completed turn_completed attempt_ended"
	if got := types(events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// patient is a model whose requests wait an hour for their turn, by a separate
// clock.
type patient struct {
	agent.Model
	now *time.Time
}

func (p patient) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	*p.now = p.now.Add(time.Hour)
	return p.Model.Chat(ctx, r, o)
}

// TestWaitingIsNotTheTasksTime: how long requests wait for their turn is
// recorded, and does not count against the time budget.
func TestWaitingIsNotTheTasksTime(t *testing.T) {
	step := call("c", "calculate", `{"expression":"1+1"}`)
	b := newBench(t, 9, step, step, say("FINAL ANSWER: 2"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.agent.Now = func() time.Time { return now }
	b.agent.Model, b.agent.Limits = patient{b.agent.Model, &now}, agent.Limits{Wall: 30 * time.Minute}
	answer, events, err := b.solve(t)
	if err != nil || answer.Text != "2" || strings.Contains(heads(events), prompt.TimeSpent) {
		t.Fatalf("%+v, %v: %s", answer, err, types(events))
	}
	for _, e := range events {
		if p, ok := e.Payload.(trajectory.ModelCallStarted); ok && p.WaitedMs != time.Hour.Milliseconds() {
			t.Errorf("a request waited %d ms by the journal", p.WaitedMs)
		}
	}
}

// money is a budget of so many requests.
type money struct {
	requests int
	asked    []int64
	charged  int64
}

func (m *money) Reserve(tokens int64, last bool) bool {
	need := 2
	if last {
		need = 1
	}
	m.asked = append(m.asked, tokens)
	return m.requests >= need
}

func (m *money) Charge(cost *int64) {
	m.requests--
	if cost == nil {
		m.charged--
	}
}

// TestRunBudget: while there is money for a request and the answer after it the
// attempt goes on; then it answers; and where there is none for that it ends.
func TestRunBudget(t *testing.T) {
	step := call("c", "calculate", `{"expression":"1+1"}`)
	for _, tt := range []struct {
		requests, made int
		answer         bool
	}{{0, 0, false}, {1, 1, true}, {2, 2, true}, {3, 3, true}} {
		var replies []string
		for range tt.made - 1 {
			replies = append(replies, step)
		}
		b := newBench(t, 9, append(replies, say("FINAL ANSWER: 2"))...)
		budget := &money{requests: tt.requests}
		b.agent.Limits.Budget = budget
		answer, _, err := b.solve(t)
		if err != nil || answer.Found != tt.answer || len(b.model.bodies) != tt.made {
			t.Errorf("money for %d: %+v, %v after %d requests", tt.requests, answer, err, len(b.model.bodies))
		}
		if !tt.answer && !strings.Contains(answer.Reason, prompt.RunMoneySpent) {
			t.Errorf("reason %q", answer.Reason)
		}
		if budget.charged != -int64(tt.made) || slices.Contains(budget.asked, 0) {
			t.Errorf("charged %d, asked %v", budget.charged, budget.asked)
		}
	}
}
