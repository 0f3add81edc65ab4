package llm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// prices of the test model: 1, 0.1 and 10 micro-USD a token.
func testPrices(t *testing.T) Prices {
	t.Helper()
	p, err := ParsePrices([]byte(`{"version":"t","note":"","models":{"test-model":{"input_microusd_per_mtok":1000000,` +
		`"cached_input_microusd_per_mtok":100000,"output_microusd_per_mtok":10000000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestChat(t *testing.T) {
	e := serve(t, answer(200, goodBody, "X-Request-Id", "req-7"))
	h := client(t, e, func(c *Config) { c.Prices = testPrices(t) })
	j := &journal{}
	got, err := h.Chat(context.Background(), ask, j)
	if err != nil {
		t.Fatal(err)
	}
	cost := int64(60 + 4 + 200)
	want := Response{
		Message:      Message{Role: "assistant", Content: "forty-two"},
		FinishReason: "stop", RequestID: "req-7", ResponseModel: "test-model-v1",
		Usage: Usage{Reported: true, In: 100, Out: 20, Cached: 40, Reasoning: 5}, CostMicroUSD: &cost,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1}, j.started); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Try{{Number: 1, Response: &want, LatencyMs: 7}}, j.completed); diff != "" {
		t.Error(diff)
	}
	if got := e.headers[0].Get("Authorization"); got != "Bearer "+testKey {
		t.Errorf("Authorization: %q", got)
	}
}

// Without a clock, a transport, prices and a key it still works; latency and cost are not known then.
func TestZeroConfig(t *testing.T) {
	e, j := serve(t, good), &journal{}
	got, err := New(Config{BaseURL: e.URL}).Chat(context.Background(), ask, j)
	if err != nil || got.CostMicroUSD != nil || j.completed[0].LatencyMs != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, has := e.headers[0]["Authorization"]; has {
		t.Error("credentials were sent")
	}
}

func TestRequestBody(t *testing.T) {
	e := serve(t, good)
	_, err := client(t, e, nil).Chat(context.Background(), Request{
		Model: "test-model",
		Messages: []Message{
			{Role: "system", Content: "be brief"},
			{Role: "user"},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Name: "list_files"}, {ID: "c1", Name: "calculate", Arguments: `{"broken`}}},
			{Role: "tool", ToolCallID: "c1"},
			{Role: "tool", ToolCallID: "c1", Content: "<&> ünï"},
		},
		Tools:      []ToolSpec{{Name: "list_files", Description: "names the files", Parameters: []byte(`{"type":"object"}`)}},
		MaxTokens:  77,
		Extra:      map[string]any{"stop": []string{"END"}},
		SchemaName: "verdict", Schema: []byte(`{"type":"object","anyOf":[{}]}`),
	}, &journal{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
	 "model": "test-model", "temperature": 0, "max_tokens": 77, "stop": ["END"], "stream": false,
	 "messages": [
	  {"role": "system", "content": "be brief"},
	  {"role": "user", "content": ""},
	  {"role": "assistant", "content": "", "tool_calls": [
	   {"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": ""}},
	   {"id": "c1", "type": "function", "function": {"name": "calculate", "arguments": "{\"broken"}}]},
	  {"role": "tool", "tool_call_id": "c1", "content": ""},
	  {"role": "tool", "tool_call_id": "c1", "content": "<&> ünï"}],
	 "tools": [{"type": "function", "function": {"name": "list_files", "description": "names the files", "parameters": {"type": "object"}}}],
	 "response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "strict": true, "schema": {"type": "object", "anyOf": [{}]}}}}`
	if diff := cmp.Diff(canonicalJSON(t, want), canonicalJSON(t, e.bodies[0])); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(e.bodies[0], `"temperature":0`) {
		t.Errorf("temperature is not 0 in %s", e.bodies[0])
	}
}

func canonicalJSON(t *testing.T, s string) string {
	t.Helper()
	v := jsontext.Value(s)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	if err := v.Indent(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func TestAnswers(t *testing.T) {
	reply := func(message, rest string) string {
		return `{"id":"x","model":"m","choices":[{"message":` + message + `,"finish_reason":"stop"}]` + rest + `}`
	}
	call := func(id, args string) string {
		quoted, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return `{"id":"` + id + `","type":"function","function":{"name":"calculate","arguments":` + string(quoted) + `}}`
	}
	for _, tc := range []struct {
		name, body string
		want       Message
	}{
		{"tool calls", reply(`{"role":"assistant","content":null,"tool_calls":[`+call("a", `{"x":1}`)+`]}`, ""),
			Message{Role: "assistant", ToolCalls: []ToolCall{{ID: "a", Name: "calculate", Arguments: `{"x":1}`}}}},
		{"duplicate call ids are kept", reply(`{"tool_calls":[`+call("a", `{}`)+`,`+call("a", `{`)+`]}`, ""),
			Message{Role: "assistant", ToolCalls: []ToolCall{{ID: "a", Name: "calculate", Arguments: `{}`}, {ID: "a", Name: "calculate", Arguments: `{`}}}},
		{"content and calls", reply(`{"content":"plan","tool_calls":[`+call("", ``)+`]}`, ""),
			Message{Role: "assistant", Content: "plan", ToolCalls: []ToolCall{{ID: "", Name: "calculate", Arguments: ""}}}},
		{"content in parts", reply(`{"content":[{"type":"text","text":"for"},{"type":"text","text":"ty"}]}`, ""), Message{Role: "assistant", Content: "forty"}},
		{"a refusal is content", reply(`{"content":null,"refusal":"no"}`, ""), Message{Role: "assistant", Content: "no"}},
		{"null error", reply(`{"content":"yes"}`, `,"error":null`), Message{Role: "assistant", Content: "yes"}},
		{"odd values elsewhere", reply(`{"content":"yes"}`, `,"created":1.5,"usage":"none","system_fingerprint":7`), Message{Role: "assistant", Content: "yes"}},
		{"bytes that are not UTF-8", reply("{\"content\":\"a\xffb\"}", ""), Message{Role: "assistant", Content: "a\uFFFDb"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client(t, serve(t, answer(200, tc.body)), nil).Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Message); diff != "" {
				t.Error(diff)
			}
			if got.RequestID != "x" || got.Usage.Reported || got.CostMicroUSD != nil {
				t.Errorf("request id %q, usage %+v, cost %v", got.RequestID, got.Usage, got.CostMicroUSD)
			}
		})
	}
}

func TestEmptyCompletion(t *testing.T) {
	empty := answer(200, `{"id":"e","model":"m","choices":[{"message":{"content":" \n"},"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`)
	h := client(t, serve(t, empty, answer(200, `{"choices":[]}`), good), func(c *Config) { c.Prices = testPrices(t) })
	j := &journal{}
	got, err := h.Chat(context.Background(), ask, j)
	if err != nil || got.Message.Content != "forty-two" {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(j.completed) != 3 {
		t.Fatalf("%d tries", len(j.completed))
	}
	first := j.completed[0]
	if first.Err == nil || first.Err.Code != "empty_completion" || !first.Err.Retryable {
		t.Errorf("error %+v", first.Err)
	}
	if first.Response == nil || first.Response.CostMicroUSD == nil || *first.Response.CostMicroUSD != 40 {
		t.Errorf("the tokens of an empty completion are not counted: %+v", first.Response)
	}
	if j.completed[1].Err == nil || j.completed[1].Err.Code != "empty_completion" {
		t.Errorf("no choices: %+v", j.completed[1].Err)
	}
}

func TestObserverFailure(t *testing.T) {
	flaky := answer(500, `{"error":{"message":"oops"}}`)
	for _, tc := range []struct {
		name             string
		j                journal
		requests         int
		started, settled []int
	}{
		{"start of the first try", journal{failStart: 1}, 0, nil, nil},
		{"end of the first try", journal{failEnd: 1}, 1, []int{1}, nil},
		{"start of the second try", journal{failStart: 2}, 1, []int{1}, []int{1}},
		{"end of the good try", journal{failEnd: 2}, 2, []int{1, 2}, []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := serve(t, flaky, good)
			got, err := client(t, e, nil).Chat(context.Background(), ask, &tc.j)
			if !errors.Is(err, errDiskFull) || got.Message.Content != "" {
				t.Errorf("got %+v, %v", got, err)
			}
			var settled []int
			for _, c := range tc.j.completed {
				settled = append(settled, c.Number)
			}
			if e.requests() != tc.requests || !cmp.Equal(tc.started, tc.j.started) || !cmp.Equal(tc.settled, settled) {
				t.Errorf("%d requests, started %v, completed %v", e.requests(), tc.j.started, settled)
			}
		})
	}
}

// The client library would refuse these by their names. Here they are asked, in the words that they
// understand, and the server has its say.
func TestReasoningModelsOverChat(t *testing.T) {
	for _, model := range []string{"o3", "o1-mini", "o4-mini", "gpt-5", "gpt-6-sol", "text-davinci-003"} {
		t.Run(model, func(t *testing.T) {
			e := serve(t, good)
			r := ask
			r.Model, r.MaxTokens, r.Tools = model, 77, []ToolSpec{{Name: "t", Parameters: []byte(`{}`)}}
			if _, err := client(t, e, nil).Chat(context.Background(), r, &journal{}); err != nil {
				t.Fatal(err)
			}
			got := gjson.Parse(e.bodies[0])
			limit, other := "max_completion_tokens", "max_tokens"
			if TakesTemperature(model) {
				limit, other = other, limit
			}
			if got.Get("model").Str != model || got.Get("temperature").Exists() != TakesTemperature(model) || got.Get(limit).Int() != 77 || got.Get(other).Exists() {
				t.Errorf("sent %s", e.bodies[0])
			}
		})
	}
}

// addressed is a transport that keeps where requests went.
type addressed struct{ urls []string }

func (a *addressed) RoundTrip(r *http.Request) (*http.Response, error) {
	a.urls = append(a.urls, r.URL.String())
	return canned{http.StatusBadRequest, http.Header{}, nil}.RoundTrip(r)
}

// Where no one says by which interface to ask, the model and the host do.
func TestChosenInterface(t *testing.T) {
	for _, tc := range []struct{ api, baseURL, model, want string }{
		{"", "", "gpt-5", "https://api.openai.com/v1/responses"},
		{"", "", "gpt-4o", "https://api.openai.com/v1/chat/completions"},
		{"", "https://router.example/api/v1/", "openai/gpt-5", "https://router.example/api/v1/chat/completions"},
		{APIChat, "", "gpt-5", "https://api.openai.com/v1/chat/completions"},
		{APIResponses, "https://router.example/api/v1", "m", "https://router.example/api/v1/responses"},
	} {
		a := &addressed{}
		r := ask
		r.Model = tc.model
		if _, err := New(Config{API: tc.api, BaseURL: tc.baseURL, Transport: a}).Chat(context.Background(), r, &journal{}); err == nil || len(a.urls) != 1 || a.urls[0] != tc.want {
			t.Errorf("%+v: asked at %q, error %v", tc, a.urls, err)
		}
	}
}

func TestUnusableConfigAndRequests(t *testing.T) {
	const secret = "hunter2-hunter2"
	schemaRequest, toolRequest := ask, ask
	schemaRequest.SchemaName, schemaRequest.Schema = "s", []byte("{")
	toolRequest.Tools = []ToolSpec{{Name: "t"}}
	for _, tc := range []struct {
		name    string
		c       Config
		r       Request
		message string
	}{
		{"no scheme", Config{BaseURL: "localhost:1/v1"}, ask, "the base URL is not an http or https address"},
		{"not a URL", Config{BaseURL: "http://user:" + secret + "@\x7f"}, ask, "the base URL is not an http or https address"},
		{"query", Config{BaseURL: "http://127.0.0.1:1/?key=" + secret}, ask, "the base URL has a query or a fragment"},
		{"key", Config{BaseURL: "http://127.0.0.1:1", APIKey: secret + "\nX: y"}, ask, "the API key holds a control character"},
		{"interface", Config{BaseURL: "http://127.0.0.1:1", API: "realtime"}, ask, `the interface is neither "chat" nor "responses"`},
		{"schema", Config{BaseURL: "http://127.0.0.1:1"}, schemaRequest, `schema "s" is not JSON`},
		{"parameters", Config{BaseURL: "http://127.0.0.1:1"}, toolRequest, `the parameters of tool "t" are not JSON`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := &journal{}
			_, err := New(tc.c).Chat(context.Background(), tc.r, j)
			var failed *Error
			if !errors.As(err, &failed) || failed.Message != tc.message || failed.Retryable || !failed.Stop {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), secret) || len(j.started) != 0 {
				t.Errorf("%v after %d tries", err, len(j.started))
			}
		})
	}
}

// The client keeps nothing of one call for the next: many goroutines may use it.
func TestConcurrentCalls(t *testing.T) {
	e := serve(t, answer(503, ``), good)
	c := New(Config{BaseURL: e.URL, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
	errs := make(chan error)
	for range 16 {
		go func() {
			_, err := c.Chat(context.Background(), ask, &journal{})
			errs <- err
		}()
	}
	for range 16 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if e.requests() != 17 {
		t.Errorf("%d requests", e.requests())
	}
}
