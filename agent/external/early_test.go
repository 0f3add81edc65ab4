package external

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// Events of streams in which a model asks for a call of calculate, up to what an agent may act on, and after it.
const (
	chatCall = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"calculate","arguments":"{\"expression\":"}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"22558+1\"}"}}]},"finish_reason":null}]}

`
	chatFinish = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

`
	chatEnd = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}

data: [DONE]

`
	responseItem = `{"type":"function_call","id":"f1","call_id":"t1","name":"calculate","arguments":"{\"expression\":\"22558+1\"}","status":"completed"}`
	responseCall = `event: response.created
data: {"type":"response.created","response":{"id":"r1","object":"response","status":"in_progress","model":"model-a-1","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f1","call_id":"t1","name":"calculate","arguments":"","status":"in_progress"}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"f1","delta":"{\"expression\":\"22558+1\"}"}

`
	responseItemDone = `event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":` + responseItem + `}

`
	responseEnd = `event: response.completed
data: {"type":"response.completed","response":{"id":"r1","object":"response","status":"completed","model":"model-a-1","output":[` + responseItem + `],"usage":{"input_tokens":10,"output_tokens":2,"total_tokens":12}}}

`
	messageOpen = `event: message_start
data: {"type":"message_start","message":{"id":"g1","type":"message","role":"assistant","model":"model-a-1","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"calculate","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"expression\":\"22558+1\"}"}}

`
	messageStop = `event: content_block_stop
data: {"type":"content_block_stop","index":0}

`
	messageDelta = `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}

`
	messageEnd = `event: message_stop
data: {"type":"message_stop"}

`
)

// ways are where an agent can send a request that streams.
var ways = map[string]struct{ variable, path, request string }{
	llm.DialectChat:      {"OPENAI_BASE_URL", "/chat/completions", `{"model":"model-a","stream":true,"messages":[{"role":"user","content":"What is it?"}]}`},
	llm.DialectResponses: {"OPENAI_BASE_URL", "/responses", `{"model":"model-a","stream":true,"store":false,"input":"What is it?"}`},
	llm.DialectMessages:  {"ANTHROPIC_BASE_URL", "/v1/messages", `{"model":"model-a","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"What is it?"}]}`},
}

// earlyAgent asks a model for a stream, and acts on it once it has read so many events: it calls the tool, and sends the result
// with the next request. Before, it hangs up if it is told to.
func earlyAgent() error {
	way, most, hangUp := ways[os.Args[3]], os.Args[4], os.Args[5] == "hang up"
	res, err := http.Post(os.Getenv(way.variable)+way.path, "application/json", strings.NewReader(way.request))
	if err != nil {
		return err
	}
	in := bufio.NewReader(res.Body)
	for n := 0; fmt.Sprint(n) != most; {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\n" {
			n++
		}
	}
	if hangUp {
		res.Body.Close()
		time.Sleep(100 * time.Millisecond) // the tool of an agent takes as long
	}
	_, result, err := send("POST", os.Getenv("GAIA_TOOLS_URL")+"/calculate", `{"expression":"22558+1"}`)
	if err != nil {
		return err
	}
	status, text, err := send("POST", os.Getenv("OPENAI_BASE_URL")+"/chat/completions", fmt.Sprintf(`{"model":"model-a","messages":[{"role":"tool","tool_call_id":"t1","content":%q}]}`, result))
	if err != nil || status != 200 {
		return fmt.Errorf("%d: %s: %v", status, text, err)
	}
	if !hangUp {
		if _, err := io.Copy(io.Discard, in); err != nil {
			return err
		}
	}
	return os.WriteFile("ANSWER", []byte("22559"), 0o600)
}

// TestEarly: an agent that acts on a stream before its end is recorded after the reply that it acts on, and nothing of what it
// does seems to be its own idea. Where the agent has hung up and the reply does not end in time, it does.
func TestEarly(t *testing.T) {
	const gold = "22559"
	for _, c := range []struct {
		name, dialect string
		first, rest   string // of the stream
		do            string
		never         bool // the stream does not end before the agent does
	}{
		{name: "a whole call", dialect: llm.DialectChat, first: chatCall, rest: chatFinish + chatEnd},
		{name: "the reason why it ends", dialect: llm.DialectChat, first: chatCall + chatFinish, rest: chatEnd},
		{name: "hangs up", dialect: llm.DialectChat, first: strings.Replace(chatCall, `\"22558+1\"}`, `\"22558+1\"`, 1), rest: chatFinish + chatEnd, do: "hang up"},
		{name: "the arguments of a call", dialect: llm.DialectResponses, first: responseCall + strings.ReplaceAll(responseItemDone, "output_item.done", "function_call_arguments.done"), rest: responseItemDone + responseEnd},
		{name: "a whole call", dialect: llm.DialectResponses, first: responseCall + responseItemDone, rest: responseEnd},
		{name: "hangs up", dialect: llm.DialectResponses, first: responseCall, rest: responseItemDone + responseEnd, do: "hang up"},
		{name: "a whole call", dialect: llm.DialectMessages, first: messageOpen + messageStop, rest: messageDelta + messageEnd},
		{name: "the reason why it ends", dialect: llm.DialectMessages, first: messageOpen + messageStop + messageDelta, rest: messageEnd},
		{name: "breaks", dialect: llm.DialectMessages, first: messageOpen, do: "hang up"},
		{name: "does not end", dialect: llm.DialectMessages, first: messageOpen, rest: messageStop + messageDelta + messageEnd, do: "hang up", never: true},
	} {
		t.Run(c.dialect+" "+c.name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			b := newBench(t, "", func(b *bench) {
				b.Plan.Command = []string{b.Shim, "agent", "early", c.dialect, fmt.Sprint(strings.Count(c.first, "\n\n")), cmp.Or(c.do, "stay")}
				b.Probe = probe.New(probe.Target{TaskID: "task", Question: question, Gold: gold})
				b.endpoint = func(w http.ResponseWriter, n int) {
					if n > 1 {
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, reply)
						if c.never {
							close(done)
						}
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, c.first)
					_ = http.NewResponseController(w).Flush()
					if c.never {
						<-done
					} else {
						time.Sleep(300 * time.Millisecond) // in which the agent acts
					}
					if c.rest == "" {
						panic(http.ErrAbortHandler)
					}
					_, _ = io.WriteString(w, c.rest)
				}
			})
			if answer, err := b.solve(); err != nil || answer.Text != gold {
				t.Fatalf("%+v, %v; %+v", answer, err, answer.End)
			}
			watch, warned := audit.NewWatch(b.plan, map[string]string{"task": gold}), ""
			var order []string
			_, _, err := trajectory.ReadJournal(bytes.NewReader(b.journal.lines.Bytes()), b.plan.RunID, planDigest, func(e trajectory.Event, _ []byte) error {
				switch p := e.Payload.(type) {
				case trajectory.ModelCallStarted, trajectory.ModelCallCompleted, trajectory.ToolProposed, trajectory.ToolExecuted:
					order = append(order, string(p.Type()))
				}
				if why := watch.Add(e); strings.Contains(why, "holds the gold answer") {
					warned = why
				}
				return nil
			})
			must(t, err)
			want := []string{"model_call_started", "model_call_completed", "tool_proposed", "tool_executed", "model_call_started", "model_call_completed"}
			if c.never {
				if want = slices.Concat(want[:1], want[2:5]); warned == "" {
					t.Error("a reply that is not recorded explains what the agent sends")
				}
				order = order[:len(want)]
			} else if warned != "" {
				t.Error(warned)
			}
			if !slices.Equal(order, want) {
				t.Errorf("recorded in the order %q", order)
			}
			if own := of[trajectory.ToolExecuted](b)[0].Own; own != nil && (own.GoldHits > 0) != c.never {
				t.Errorf("gold stands %d times in what is the agent's of the call", own.GoldHits)
			}
		})
	}
}
