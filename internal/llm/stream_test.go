package llm

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// read passes a reply through a Stream and returns what was passed on, whether the last event came, and what was read.
func (s *Stream) read(t *testing.T, events string) (passed string, last bool, r *Response, e *Error) {
	t.Helper()
	for _, event := range anEvent.FindAllString(events, -1) {
		pass, end := s.Next([]byte(event))
		passed += string(pass)
		last = last || end
	}
	r, e = ReadAnswer(s.dialect, 200, http.Header{"Request-Id": {"req"}}, s.Body(), "m", testPrices(t))
	return passed, last, r, e
}

// anEvent matches an event with its blank line, or what comes after the last blank line.
var anEvent = regexp.MustCompile(`(?s).*?(?:\r?\n){2}|.+$`)

// sse returns events with the data, named where the dialect names them.
func sse(dialect string, data ...string) string {
	var b strings.Builder
	for _, d := range data {
		if kind := gjson.Get(d, "type").Str; dialect != DialectChat && kind != "" {
			b.WriteString("event: " + kind + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// What is read of a reply is the same whether it came whole or as a stream.
func TestStream(t *testing.T) {
	chunk := func(delta, rest string) string {
		return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]` + rest + `}`
	}
	finish := func(reason string) string {
		return `{"id":"x","model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
	}
	completion := func(message, finish, rest string) string {
		return `{"id":"x","object":"chat.completion","created":1,"model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}]` + rest + `}`
	}
	const chatUsage = `"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6}}`
	const response = `{"id":"resp_1","object":"response","status":"completed","model":"m-1","output":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"},{"type":"web_search_call","id":"ws","status":"completed"},` +
		`{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"seven","annotations":[]}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"custom_tool_call","call_id":"c2","name":"g","input":"x y"}],` +
		`"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":6},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":14},"error":null,"incomplete_details":null}`
	items := gjson.Get(response, "output").Array()
	start := func(usage string) string {
		return `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":` + usage + `}}`
	}
	for _, tc := range []struct {
		name, dialect, whole string
		events               []string
	}{
		{"text", DialectChat, completion(`{"role":"assistant","content":"half a 😀 face"}`, "stop", `,`+chatUsage), []string{
			chunk(`{"role":"assistant","content":"","refusal":null}`, `,"usage":null`), chunk(`{"content":"half a \ud83d"}`, ""), `{"id":"","model":"","choices":[],"prompt_filter_results":[]}`, chunk(`{"content":"\ude00 face"},"logprobs":{"content":[{"token":"a"}]}`, ""),
			finish("stop"), `{"id":"x","choices":[],` + chatUsage + `}`, "[DONE]"}},
		{"calls", DialectChat, completion(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"list","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}],"reasoning_content":"let me see"}`, "tool_calls", `,`+chatUsage), []string{
			chunk(`{"role":"assistant","content":null,"reasoning_content":"let "}`, ""), chunk(`{"reasoning_content":"me see"}`, ""),
			chunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"count","arguments":""}}]}`, ""), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`, ""),
			chunk(`{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":":1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"list","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]}`, ""),
			finish("tool_calls"), `{"choices":[],` + chatUsage + `}`, "[DONE]"}},
		{"calls without numbers, or all of one", DialectChat, completion(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{1}"}},{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":"d","function":{"name":"f","arguments":"[]"}}]}`, "stop", ""), []string{
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"f","arguments":"{"}}]}`, ""), chunk(`{"tool_calls":[{"index":0,"id":"changes","function":{"arguments":"1}"}}]}`, ""),
			chunk(`{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]}`, ""), chunk(`{"tool_calls":[{"function":{"arguments":"}"}}]}`, ""), chunk(`{"tool_calls":[{"id":"d","function":{"name":"f","arguments":"[]"}}]}`, ""), finish("stop")}},
		{"several completions", DialectChat, `{"id":"x","model":"m-1","choices":[{"index":0,"message":{"content":"one"},"finish_reason":"stop"},{"index":1,"message":{"content":"two"},"finish_reason":"stop"}]}`, []string{
			`{"id":"x","model":"m-1","choices":[{"index":1,"delta":{"content":"two"},"finish_reason":null}]}`, `{"id":"x","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}]}`,
			`{"id":"x","choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"}},
		{"reasoning in details, and what the endpoint read", DialectChat, completion(`{"content":"a","reasoning_details":[{"type":"reasoning.text","text":"hm so","index":0,"format":"f","signature":"s"}]}`, "stop", `,"citations":["https://a.example"]`), []string{
			chunk(`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0,"format":"f"}]}`, `,"citations":["https://a.example"]`), chunk(`{"reasoning_details":[{"type":"reasoning.text","text":" so","index":0,"format":"f"}]}`, ""),
			chunk(`{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}`, ""), chunk(`{"content":"a"}`, ""), finish("stop"), "[DONE]"}},
		{"thoughts in parts", DialectChat, completion(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "length", ""), []string{
			chunk(`{"content":""}`, ""), chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, ""), chunk(`{"content":"a"}`, ""), chunk(`{"content":"b"}`, ""), finish("length")}},
		{"no reason why it ends", DialectChat, completion(`{"content":"a"}`, "", ""), []string{chunk(`{"content":"a"}`, ""), "[DONE]"}},
		{"refusal, without a last event", DialectChat, completion(`{"content":null,"refusal":"no way"}`, "stop", ""), []string{chunk(`{"refusal":"no"}`, ""), chunk(`{"refusal":" way"}`, ""), finish("stop")}},

		{"whole in the last event", DialectResponses, response, []string{`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`, `{"type":"response.output_item.done","output_index":0,"item":` + items[0].Raw + `}`,
			`{"type":"response.output_text.delta","output_index":1,"delta":"sev"}`, `{"type":"response.completed","response":` + response + `}`}},
		{"whole in the items", DialectResponses, response, []string{
			`{"type":"response.output_item.done","output_index":4,"item":` + items[4].Raw + `}`, `{"type":"response.output_item.done","output_index":0,"item":` + items[0].Raw + `}`, `{"type":"response.output_item.done","output_index":1,"item":` + items[1].Raw + `}`,
			`{"type":"response.output_item.done","output_index":2,"item":` + items[2].Raw + `}`, `{"type":"response.output_item.done","output_index":3,"item":` + items[3].Raw + `}`,
			`{"type":"response.completed","response":` + strings.Replace(response, gjson.Get(response, "output").Raw, "[]", 1) + `}`}},
		{"incomplete", DialectResponses, `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"ha"}]}]}`,
			[]string{`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"ha"}]}]}}`}},
		{"failed", DialectResponses, `{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[],"usage":{"input_tokens":3,"output_tokens":1}}`,
			[]string{`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[],"usage":{"input_tokens":3,"output_tokens":1}}}`}},
		{"error", DialectResponses, `{"error":{"code":"server_error","message":"broken"}}`, []string{`{"type":"response.created","response":{}}`, `{"type":"error","code":"server_error","message":"broken","param":null}`}},

		{"text and a call", DialectMessages, `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"hm so","signature":"sig"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"I \"count\""},{"type":"tool_use","id":"t1","name":"n","input":{"a": [1, 2.50],"é":"ü"}},{"type":"tool_use","id":"t2","name":"o","input":{}}],` +
			`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":42,"output_tokens_details":{"thinking_tokens":9}}}`, []string{
			start(`{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":1}`), `{"type":"ping"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" so"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"d"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I "}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"\"count\""}}`, `{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"n","input":{}}}`, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\": [1, 2"}}`, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":".50],\"\\u00e9\":\"ü\"}"}}`, `{"type":"content_block_stop","index":3}`,
			`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"o","input":{}}}`, `{"type":"content_block_stop","index":4}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42,"output_tokens_details":{"thinking_tokens":9}}}`, `{"type":"message_stop"}`}},
		{"what the endpoint did", DialectMessages, `{"id":"msg_1","model":"m-1","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"a","citations":[{"type":"web_search_result_location","url":"https://a.example"},{"type":"char_location"}]},{"type":"text","text":"b","citations":null}],` +
			`"stop_reason":"end_turn","container":{"id":"c"},"usage":{"input_tokens":1,"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}`, []string{
			start(`{"input_tokens":1,"output_tokens":1}`), `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}`, `{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a.example"}}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"b"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","container":{"id":"c"}},"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}`, `{"type":"message_stop"}`}},
		{"broken input", DialectMessages, `{"id":"msg_1","model":"m-1","content":[{"type":"tool_use","id":"t","name":"n","input":"{\"a\": "}],"stop_reason":"max_tokens","usage":{"input_tokens":1,"output_tokens":2}}`, []string{
			start(`{"input_tokens":1,"output_tokens":1}`), `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\": "}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`}},
		{"error", DialectMessages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"usage":{"input_tokens":5,"output_tokens":1}}`, []string{
			start(`{"input_tokens":5,"output_tokens":1}`), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}},
	} {
		t.Run(tc.dialect+" "+tc.name, func(t *testing.T) {
			want, wantErr := ReadAnswer(tc.dialect, 200, http.Header{"Request-Id": {"req"}}, []byte(tc.whole), "m", testPrices(t))
			events := sse(tc.dialect, tc.events...)
			passed, last, got, gotErr := NewStream(tc.dialect, false).read(t, events)
			if passed != events || last != (tc.dialect != DialectChat || strings.Contains(events, "[DONE]")) {
				t.Errorf("last %v, passed %s", last, passed)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(wantErr, gotErr, cmp.AllowUnexported(Error{})); diff != "" {
				t.Error(diff)
			}
			if passed, _, _, _ := NewStream(tc.dialect, false).read(t, strings.ReplaceAll(events, "\n", "\r\n")+": more\n\n"); strings.ReplaceAll(passed, "\r\n", "\n") != events && last {
				t.Errorf("with other ends of lines, and more than all: passed %s", passed)
			}
		})
	}
}

// Exactly the chunk is dropped that has a usage which was not asked for.
func TestStreamDropsUsage(t *testing.T) {
	const text = `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	events := sse(DialectChat, `{"choices":[],"prompt_filter_results":[]}`, text) + ": wait\n\n"
	done := "data: [DONE]\n\n"
	for _, usage := range []string{`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `{"usage":{"prompt_tokens":7,"completion_tokens":2}}`} {
		passed, _, r, failed := NewStream(DialectChat, true).read(t, events+sse(DialectChat, usage)+done)
		if passed != events+done || failed != nil || r.Usage.In != 7 {
			t.Errorf("passed %s, read %+v, %v", passed, r, failed)
		}
		if passed, _, _, _ := NewStream(DialectChat, false).read(t, events+sse(DialectChat, usage)+done); passed != events+sse(DialectChat, usage)+done {
			t.Errorf("passed %s", passed)
		}
	}
}

// The Messages API has errors in a form of another name.
func TestMessagesErrors(t *testing.T) {
	for _, tc := range []struct {
		status      int
		kind, said  string
		retry, stop bool
		code        string
	}{
		{401, "authentication_error", "invalid x-api-key", false, true, "authentication_error"},
		{404, "not_found_error", "model: claude-of-tomorrow", false, true, "model_not_found"},
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", false, false, ContextLengthExceeded},
		{429, "rate_limit_error", "This request would exceed the rate limit", true, false, "rate_limit_error"},
		{529, "overloaded_error", "Overloaded", true, false, "overloaded_error"},
	} {
		body := `{"type":"error","error":{"type":"` + tc.kind + `","message":"` + tc.said + `"},"request_id":"req_b"}`
		r, e := ReadAnswer(DialectMessages, tc.status, http.Header{"Request-Id": {"req_h"}, "Retry-After": {"3"}}, []byte(body), "m", Prices{})
		if r != nil || e == nil || e.Status != tc.status || e.Code != tc.code || e.Message != tc.said || e.Retryable != tc.retry || e.Stop != tc.stop || e.RequestID != "req_h" || (e.RetryAfter == 3*time.Second) != tc.retry {
			t.Errorf("%s: %+v, %+v", body, r, e)
		}
	}
}

// A whole reply may have the probabilities of its tokens.
func TestManyValues(t *testing.T) {
	body := `{"choices":[{"message":{"content":"a"},"logprobs":{"content":[` + strings.Repeat(`{"logprob":-1},`, maxValues) + `0]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	if r, failed := ReadAnswer(DialectChat, 200, nil, []byte(body), "m", Prices{}); failed != nil || r.Message.Content != "a" || !r.Usage.Reported {
		t.Errorf("%+v, %v", r, failed)
	}
}

func TestStreamFaults(t *testing.T) {
	const chunk = `{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"aaaaaaaaaa"},"finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`
	const start = `{"type":"message_start","message":{"content":[],"usage":{"input_tokens":7,"output_tokens":2}}}`
	const delta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}`
	for _, tc := range []struct {
		name, dialect, events string
		limit                 int
		code                  string
		status                int
		in                    int64
	}{
		{"cut", DialectChat, sse("", chunk), 0, "truncated_stream", 502, 7},
		{"one of two completions cut", DialectChat, sse("", chunk, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"},"finish_reason":null}]}`), 0, "truncated_stream", 502, 7},
		{"cut inside of an event", DialectChat, sse("", chunk) + `data: {"choices":`, 0, "invalid_stream", 502, 7},
		{"an event that is not JSON", DialectChat, sse("", chunk, `{"choices":[{]}`, chunk, "[DONE]"), 0, "invalid_stream", 502, 7},
		{"an event that is no object", DialectMessages, sse("", start, `[]`, `{"type":"message_stop"}`), 0, "invalid_stream", 502, 7},
		{"too large", DialectChat, sse("", chunk, chunk, chunk, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "[DONE]"), 200, "response_too_large", 502, 9},
		{"too large", DialectMessages, sse("", start, delta, delta, delta, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":8,"output_tokens":3}}`, `{"type":"message_stop"}`), 200, "response_too_large", 502, 8},
		{"too large", DialectResponses, sse("", `{"type":"response.output_item.done","item":{"type":"message"}}`, `{"type":"response.completed","response":{"output":[],"usage":{"input_tokens":8,"output_tokens":3}}}`), 10, "response_too_large", 502, 8},
		{"error among chunks", DialectChat, sse("", chunk, `{"error":{"code":429,"message":"slow down"},"choices":[]}`, "[DONE]"), 0, "http_429", 429, 7},
		{"nothing", DialectResponses, "", 0, "truncated_stream", 502, 0},
		{"a last event without a response", DialectResponses, sse("", `{"type":"response.completed"}`), 0, "truncated_stream", 502, 0},
	} {
		t.Run(tc.dialect+" "+tc.name, func(t *testing.T) {
			s := NewStream(tc.dialect, false)
			s.limit = max(tc.limit, 1<<20*(1-min(tc.limit, 1)))
			passed, _, r, failed := s.read(t, tc.events)
			if passed != tc.events {
				t.Errorf("passed %s", passed)
			}
			if failed == nil || failed.Code != tc.code || failed.Status != tc.status || !failed.Retryable {
				t.Errorf("error %+v", failed)
			}
			if (r != nil) != (tc.in > 0) || r != nil && r.Usage.In != tc.in {
				t.Errorf("read %+v", r)
			}
		})
	}
}

// TestUsable: a client may act on the end of a call, and on why a reply ends, but not on text and thoughts.
func TestUsable(t *testing.T) {
	for dialect, events := range map[string][]struct {
		data   string
		usable bool
	}{
		DialectChat: {
			{`{"choices":[{"index":0,"delta":{"role":"assistant","content":"{}"},"finish_reason":null}]}`, false},
			{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}]},"finish_reason":null}]}`, false},
			{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1} "}}]},"finish_reason":null}]}`, true},
			{`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":null}]}`, true},
			{`{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":""},{"index":1,"delta":{},"finish_reason":"stop"}]}`, true},
			{`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}`, true},
			{`{"choices":[],"usage":{}}`, false},
			{`{"choices":`, true},
		},
		DialectResponses: {
			{`{"type":"response.created","response":{"output":[]}}`, false},
			{`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning"}}`, false},
			{`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call"}}`, false},
			{`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}`, false},
			{`{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{}"}`, true},
			{`{"type":"response.output_item.done","output_index":1,"item":{"type":"custom_tool_call"}}`, true},
			{`{"type":"response.output_text.done","output_index":2,"text":"a"}`, false},
		},
		DialectMessages: {
			{`{"type":"message_start","message":{"content":[]}}`, false},
			{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, false},
			{`{"type":"content_block_stop","index":0}`, false},
			{`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}`, false},
			{`{"type":"content_block_stop","index":1}`, true},
			{`{"type":"content_block_stop","index":2}`, false},
			{`{"type":"message_delta","delta":{"stop_reason":null}}`, false},
			{`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, true},
		},
	} {
		s := NewStream(dialect, false)
		for _, e := range events {
			if s.Next([]byte(sse(dialect, e.data))); s.Usable() != e.usable {
				t.Errorf("%s: after %s: %t", dialect, e.data, s.Usable())
			}
		}
		if s.Next([]byte(": waiting\n\n")); s.Usable() {
			t.Errorf("%s: a comment is usable", dialect)
		}
	}
}

// TestPartial: all that came of a response stands in what is partial, once, whichever events came of it.
func TestPartial(t *testing.T) {
	s := NewStream(DialectResponses, false)
	for _, data := range []string{`{"type":"response.created","response":{"id":"r","output":[]}}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"one "}`, `{"type":"response.output_text.delta","output_index":0,"delta":"two"}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f"}}`, `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"three"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":"one two"}}`, `{"type":"response.output_item.added","output_index":2}`} {
		s.Next([]byte(sse(DialectResponses, data)))
	}
	want := "{}\n" + `{"type":"message","content":"one two"}` + "\n" + `{"item":{"type":"function_call","name":"f"},"delta":"{\"three"}`
	if got := string(s.Partial()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.Next([]byte(sse(DialectResponses, `{"type":"response.failed","response":{"id":"r","output":[],"instructions":"echo","metadata":{"a":"echo"},"error":{"code":"x","message":"no echo"}}}`)))
	if got := string(s.Partial()); !strings.Contains(got, "one two") || !strings.Contains(got, "three") || strings.Contains(got, "echo") {
		t.Errorf("after a failure: %s", got)
	}
	for dialect, want := range map[string]string{DialectChat: `{"choices":[{"delta":{"content":"one"}}]}`, DialectMessages: `{"content":[{"type":"text","text":"one"}]}`} {
		s := NewStream(dialect, false)
		for _, data := range map[string][]string{
			DialectChat: {`{"id":"echo","choices":[{"delta":{"content":"one"}}],"metadata":"echo"}`, `{"error":{"message":"no echo"}}`},
			DialectMessages: {`{"type":"message_start","message":{"id":"echo","content":[]}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"one"}}`,
				`{"type":"error","error":{"message":"no echo"}}`},
		}[dialect] {
			s.Next([]byte(sse(dialect, data)))
		}
		if got := string(s.Partial()); got != want {
			t.Errorf("%s: %s, want %s", dialect, got, want)
		}
	}
}

// FuzzStream passes any bytes through. They come out as they went in, up to the last event, and what was gathered is JSON.
func FuzzStream(f *testing.F) {
	f.Add([]byte(sse("", `{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":["b"],"tool_calls":[{"id":"a","function":{"arguments":"}"}},1]},"finish_reason":"stop"}],"usage":{}}`, `{"choices":[]}`, `[DONE]`)))
	f.Add([]byte(sse(DialectMessages, `{"type":"message_start","message":{"content":[1]}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}`, `{"type":"message_delta","delta":{"stop_reason":"x"}}`, `{"type":"message_stop"}`)))
	f.Add([]byte(sse(DialectResponses, `{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":"x"}}`, `{"type":"response.completed","response":{"output":[]}}`)))
	f.Fuzz(func(t *testing.T, events []byte) {
		for _, dialect := range []string{DialectChat, DialectResponses, DialectMessages} {
			s := NewStream(dialect, false)
			var passed []byte
			ended := false
			for _, event := range anEvent.FindAll(events, -1) {
				pass, last := s.Next(event)
				if ended && (last || pass != nil) {
					t.Fatalf("%q: passed %q after the last event", events, pass)
				}
				ended = ended || last
				passed = append(passed, pass...)
			}
			if !bytes.HasPrefix(events, passed) || !ended && len(passed) != len(events) {
				t.Fatalf("%q: passed %q", events, passed)
			}
			for d := jsontext.NewDecoder(bytes.NewReader(s.Partial()), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); ; {
				if _, err := d.ReadValue(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%q: %q: %v", events, s.Partial(), err)
				}
			}
			body := s.Body()
			if err := checkJSON(body); err != nil {
				t.Fatalf("%q: %q: %v", events, body, err)
			}
			if r, e := ReadAnswer(dialect, 200, nil, body, "m", Prices{}); r == nil && e == nil {
				t.Fatalf("%q: nothing was read of %q", events, body)
			}
		}
	})
}

// A chunk of a streamed reply, and the whole of one of 1,000 chunks.
func BenchmarkStream(b *testing.B) {
	chunk := []byte(sse(DialectChat, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`))
	b.Run("chunk", func(b *testing.B) {
		s := NewStream(DialectChat, true)
		for b.Loop() {
			s.Next(chunk)
		}
	})
	b.Run("reply", func(b *testing.B) {
		for b.Loop() {
			s := NewStream(DialectChat, true)
			for range 1000 {
				s.Next(chunk)
			}
			s.Next([]byte("data: [DONE]\n\n"))
			if _, failed := ReadAnswer(DialectChat, 200, nil, s.Body(), "m", Prices{}); failed != nil {
				b.Fatal(failed)
			}
		}
	})
}
