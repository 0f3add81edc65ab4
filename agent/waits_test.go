package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// several is a message of a model with several calls.
func several(calls ...[2]string) string {
	var out []any
	for i, c := range calls {
		out = append(out, map[string]any{"id": fmt.Sprint("c", i), "type": "function", "function": map[string]any{"name": c[0], "arguments": c[1]}})
	}
	b, _ := json.Marshal(map[string]any{"role": "assistant", "content": "", "tool_calls": out})
	return string(b)
}

// flaky refuses the first requests with a status that may be tried again.
type flaky struct {
	refusals int
	then     http.Handler
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.refusals > 0 {
		f.refusals--
		http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
		return
	}
	f.then.ServeHTTP(w, r)
}

// TestWaitsOfATurn counts how often the first turn of an attempt waits for the
// disk: once before a request leaves and once before tools run, however many
// they are. What they gave is on disk with the next request, before it leaves.
// Each further try of a model call waits once more, since it is another request.
func TestWaitsOfATurn(t *testing.T) {
	const good, end = `{"expression":"6*7"}`, "FINAL ANSWER: 42"
	tests := []struct {
		name   string
		first  string // reply
		tries  int    // refused before it
		waits  int
		events string // that show what the turn was, in its record
	}{
		{"no tool", say(end), 0, 1, ""},
		{"no tool and no answer", say("Hm."), 0, 1, ""},
		{"one tool", several([2]string{"calculate", good}), 0, 2, "tool_executed"},
		{"three tools at once", several([2]string{"calculate", good}, [2]string{"list_files", `{}`}, [2]string{"calculate", `{"expression":"1+1"}`}), 0, 2, "tool_executed tool_executed tool_executed"},
		{"a refused call", several([2]string{"no_such_tool", `{}`}), 0, 2, "tool_proposed policy_decision"},
		{"a refused call among others", several([2]string{"no_such_tool", `{}`}, [2]string{"calculate", good}), 0, 2, "tool_executed"},
		{"arguments that do not fit", several([2]string{"calculate", `{"sum":1}`}), 0, 2, "tool_proposed policy_decision"},
		{"a failing tool", several([2]string{"calculate", `{"expression":"1/0"}`}), 0, 2, "tool_executed"},
		{"one retry, no tool", say(end), 1, 1 + 1, "model_call_started model_call_completed model_call_started model_call_completed"},
		{"two retries, one tool", several([2]string{"calculate", good}), 2, 2 + 2, "tool_executed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 5, tt.first, say(end), say(end))
			server := httptest.NewServer(&flaky{tt.tries, b.model})
			defer server.Close()
			client := llm.New(llm.Config{BaseURL: server.URL, MaxTries: 4, Now: time.Now, Sleep: func(context.Context, time.Duration) error { return nil }})
			counted := &firstTurn{Model: client, sink: b.sink}
			b.agent.Model = counted
			answer, events, err := b.solve(t)
			if err != nil || answer.Text != "42" {
				t.Fatalf("%+v, %v", answer, err)
			}
			if got := counted.waits; got != tt.waits {
				t.Errorf("the turn waited %d times, want %d", got, tt.waits)
			}
			if record := types(ofTurn(events, 1)); !strings.Contains(record, tt.events) && tt.events != "" {
				t.Errorf("the turn was %s, want %s in it", record, tt.events)
			}
		})
	}
}

// firstTurn notes how often the disk was waited for up to the second turn's
// request, or to the answer where there is no second turn.
type firstTurn struct {
	agent.Model
	sink  *sink
	asked int
	waits int
}

func (f *firstTurn) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	if f.asked++; f.asked == 2 {
		f.waits = f.sink.syncs
		return f.Model.Chat(ctx, r, o)
	}
	response, err := f.Model.Chat(ctx, r, o)
	if len(response.Message.ToolCalls) == 0 && f.asked == 1 {
		f.waits = f.sink.syncs
	}
	return response, err
}

func ofTurn(events []trajectory.Event, n int) (out []trajectory.Event) {
	for _, e := range events {
		if e.Turn == n {
			out = append(out, e)
		}
	}
	return out
}
