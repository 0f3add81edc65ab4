package llm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func overResponses(c *Config) { c.API = APIResponses }

// What the two interfaces are sent for the same request, byte for byte.
func TestBothBodies(t *testing.T) {
	picture := &Image{MediaType: "image/png", Data: []byte{0, 1, 2, 255}}
	for _, tc := range []struct {
		name            string
		r               Request
		chat, responses string
	}{
		{"picture", Request{Model: "gpt-4o", Messages: []Message{{Role: "user", Content: "see", Image: picture}, {Role: "user", Image: picture}}},
			`{"model":"gpt-4o","stream":false,"temperature":0,"messages":[{"content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC/w=="}}],"role":"user"},` +
				`{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC/w=="}}],"role":"user"}]}`,
			`{"model":"gpt-4o","store":false,"stream":false,"temperature":0,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AAEC/w=="}]},` +
				`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAEC/w=="}]}]}`},
		{"settings of a plain model", Request{Model: "m", MaxTokens: 7, SchemaName: "s", Schema: []byte(`{"type": "object", "anyOf": [{}]}`), Messages: []Message{{Role: "user"}}},
			`{"model":"m","max_tokens":7,"stream":false,"temperature":0,"messages":[{"content":"","role":"user"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","anyOf":[{}]},"strict":true}}}`,
			`{"model":"m","max_output_tokens":7,"store":false,"stream":false,"temperature":0,"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object","anyOf":[{}]},"strict":true}},"input":[{"type":"message","role":"user","content":""}]}`},
		{"settings of a reasoning model", Request{Model: "o3", MaxTokens: 7, Messages: []Message{{Role: "user", Content: "<&> ü\u2028\xff"}}},
			`{"model":"o3","max_completion_tokens":7,"stream":false,"messages":[{"content":"<&> ü` + "\u2028" + `�","role":"user"}]}`,
			`{"model":"o3","include":["reasoning.encrypted_content"],"max_output_tokens":7,"store":false,"stream":false,"input":[{"type":"message","role":"user","content":"<&> ü` + "\u2028" + `�"}]}`},
		{"calls", Request{Model: "m", Messages: []Message{
			{Role: "assistant", Content: "plan", ToolCalls: []ToolCall{{ID: "c", Name: "a"}, {ID: "c", Name: "b", Arguments: `{"broken`}}},
			{Role: "tool", ToolCallID: "c"}, {Role: "assistant"}}},
			`{"model":"m","stream":false,"temperature":0,"messages":[{"content":"plan","role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":""}},{"id":"c","type":"function","function":{"name":"b","arguments":"{\"broken"}}]},` +
				`{"content":"","role":"tool","tool_call_id":"c"},{"content":"","role":"assistant"}]}`,
			`{"model":"m","store":false,"stream":false,"temperature":0,"input":[{"type":"message","role":"assistant","content":"plan"},{"type":"function_call","call_id":"c","name":"a","arguments":""},{"type":"function_call","call_id":"c","name":"b","arguments":"{\"broken"},` +
				`{"type":"function_call_output","call_id":"c","output":""},{"type":"message","role":"assistant","content":""}]}`},
		{"opaque of chat", Request{Model: "m", Messages: []Message{{Role: "assistant", Content: "x", Opaque: []byte(`{"reasoning_details": [{"n": 1.0}], "thinking_blocks":["\u00e9"]}`)}}},
			`{"model":"m","stream":false,"temperature":0,"messages":[{"content":"x","role":"assistant","reasoning_details":[{"n":1.0}],"thinking_blocks":["\u00e9"]}]}`,
			`{"model":"m","store":false,"stream":false,"temperature":0,"input":[{"type":"message","role":"assistant","content":"x"}]}`},
		{"opaque of responses, for other calls than there are", Request{Model: "m", Messages: []Message{{Role: "assistant", ToolCalls: []ToolCall{{ID: "c", Name: "a", Opaque: []byte(`[]`)}, {ID: "d", Name: "b"}},
			Opaque: []byte(`[{"type":"message","phase":"p"},{"type":"reasoning","id":"r"},{"type":"function_call"},{"type":"unknown"}]`)}}},
			`{"model":"m","stream":false,"temperature":0,"messages":[{"content":"","role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":""}},{"id":"d","type":"function","function":{"name":"b","arguments":""}}]}]}`,
			`{"model":"m","store":false,"stream":false,"temperature":0,"input":[{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"c","name":"a","arguments":""},{"type":"function_call","call_id":"d","name":"b","arguments":""}]}`},
	} {
		for api, want := range map[string]string{APIChat: tc.chat, APIResponses: tc.responses} {
			t.Run(tc.name+" by "+api, func(t *testing.T) {
				p, failed := New(Config{API: api}).compose(tc.r)
				if failed != nil {
					t.Fatal(failed)
				}
				if diff := cmp.Diff(want, string(p.body)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestResponsesAnswers(t *testing.T) {
	said := func(text string) string {
		return `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	for _, tc := range []struct {
		name, output, rest string
		want               Message
		finish             string
	}{
		{"two messages", said("plan") + `,` + said("done"), "", Message{Content: "plan\ndone"}, "stop"},
		{"refusal", `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`, "", Message{Content: "no"}, "stop"},
		{"content as text", `{"type":"message","content":"plain"}`, "", Message{Content: "plain"}, "stop"},
		{"calls without ids, with an object", `{"type":"function_call","name":"a","arguments":{"x":1}},{"type":"function_call","call_id":null,"name":"b","arguments":null}`, "",
			Message{ToolCalls: []ToolCall{{Name: "a", Arguments: `{"x":1}`}, {Name: "b"}}}, "tool_calls"},
		{"item ids are not call ids", `{"type":"function_call","id":"fc","call_id":"call","name":"a","arguments":"{"}`, "", Message{ToolCalls: []ToolCall{{ID: "call", Name: "a", Arguments: "{"}}}, "tool_calls"},
		{"filtered", said("half"), `,"status":"incomplete","incomplete_details":{"reason":"content_filter"}`, Message{Content: "half"}, "content_filter"},
		{"incomplete for no reason", said("half"), `,"status":"incomplete","incomplete_details":null`, Message{Content: "half"}, "incomplete"},
		{"reasoning in the open", `{"type":"reasoning","id":"r","content":[{"type":"reasoning_text","text":"hm"}]},` + said("x"), "",
			Message{Content: "x", Opaque: []byte(`[{"type":"reasoning","id":"r","content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message"}]`)}, "stop"},
		{"reasoning of the store", `{"type":"reasoning","id":"r","summary":[]},` + said("x"), "", Message{Content: "x"}, "stop"},
		{"too much reasoning", `{"type":"reasoning","encrypted_content":"` + strings.Repeat("A", maxOpaque) + `"},` + said("x"), "", Message{Content: "x"}, "stop"},
		{"bytes that are not UTF-8", `{"type":"reasoning","encrypted_content":"` + "\xff" + `"},` + said("a\xffb"), "",
			Message{Content: "a\uFFFDb", Opaque: []byte(`[{"type":"reasoning","encrypted_content":"` + "\uFFFD" + `"},{"type":"message"}]`)}, "stop"},
		{"odd items", `7,null,{},{"type":3},` + said("x"), `,"usage":[],"model":{},"incomplete_details":7,"error":null`, Message{Content: "x"}, "stop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Role = "assistant"
			e := serve(t, answer(200, `{"id":"resp_1","output":[`+tc.output+`]`+tc.rest+`}`))
			got, err := client(t, e, overResponses).Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Message); diff != "" || got.FinishReason != tc.finish || got.RequestID != "resp_1" || got.Usage.Reported {
				t.Errorf("%s %+v", diff, got)
			}
		})
	}
}

func TestResponsesFailures(t *testing.T) {
	for _, tc := range []struct {
		name, body, code, message string
		status                    int
	}{
		{"nothing said", `{"status":"completed","output":[{"type":"reasoning","encrypted_content":"x"}]}`, "empty_completion", `the completion has neither content nor tool calls (finish reason "stop")`, 200},
		{"cut off in thought", `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, "empty_completion", `the completion has neither content nor tool calls (finish reason "length")`, 200},
		{"still at work", `{"status":"in_progress","output":[]}`, "invalid_response", `the response is not there: its status is "in_progress"`, 200},
		{"failed without a word", `{"status":"failed","error":null,"output":[]}`, "invalid_response", `the response is not there: its status is "failed"`, 200},
		{"failed for load", `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[]}`, "rate_limit_exceeded", "slow down", 429},
		{"a chat completion", goodBody, "invalid_response", "the answer does not have the form of a response: it has no list of output items", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := client(t, serve(t, answer(200, tc.body)), overResponses).Chat(context.Background(), ask, &journal{})
			var got *Error
			if !errors.As(err, &got) || got.Code != tc.code || got.Message != tc.message || got.Status != tc.status || !got.Retryable || got.Stop {
				t.Errorf("%+v", err)
			}
		})
	}
}

// What was read of an answer by chat is dropped where it is too much, and kept where it is signed.
func TestChatOpaque(t *testing.T) {
	const call = `,"tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{}"}`
	long := strings.Repeat("x", maxOpaque)
	for _, tc := range []struct {
		name, message        string
		ofMessage, ofTheCall string
	}{
		{"plain reasoning beside a call", `"content":null,"reasoning_content":"hm"` + call + `}]`, `{"reasoning_content":"hm"}`, ""},
		{"plain reasoning beside an answer", `"content":"x","reasoning_content":"hm","reasoning":"hm"`, "", ""},
		{"signed reasoning beside an answer", `"content":"x","reasoning_details":[{"data":"s"}],"reasoning":"hm"`, `{"reasoning_details":[{"data":"s"}]}`, ""},
		{"empty reasoning", `"content":"x","reasoning_details":[],"thinking_blocks":null,"reasoning_content":""` + call + `}]`, "", ""},
		{"signed call", `"content":""` + call + `,"extra_content":{"google":{"thought_signature":"s"}},"provider_specific_fields":null}]`, "", `{"extra_content":{"google":{"thought_signature":"s"}}}`},
		{"too much", `"content":"x","reasoning_details":["` + long + `"]` + call + `,"extra_content":{"x":"` + long + `"}}]`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := serve(t, answer(200, `{"choices":[{"message":{`+tc.message+`}}]}`))
			got, err := client(t, e, nil).Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			var ofTheCall string
			if len(got.Message.ToolCalls) > 0 {
				ofTheCall = string(got.Message.ToolCalls[0].Opaque)
			}
			if string(got.Message.Opaque) != tc.ofMessage || ofTheCall != tc.ofTheCall {
				t.Errorf("kept %.200s and %.200s", got.Message.Opaque, ofTheCall)
			}
		})
	}
}

func TestChannels(t *testing.T) {
	chat := func(message, rest string) string {
		return `{"choices":[{"message":{"content":"x"` + message + `}}]` + rest + `}`
	}
	items := func(list string) string {
		return `{"output":[{"type":"message","content":[{"type":"output_text","text":"x","annotations":[]}]}` + list + `]}`
	}
	for _, tc := range []struct {
		name, api, body string
		want            []string
	}{
		{"nothing", APIChat, chat(`,"annotations":[],"executed_tools":[],"citations":null`, `,"citations":[],"usage":{"server_tool_use":{"web_search_requests":0},"num_search_queries":0}`), nil},
		{"annotations", APIChat, chat(`,"annotations":[{"type":"url_citation"}]`, ""), []string{"citations"}},
		{"citations and results beside the choices", APIChat, chat("", `,"citations":["https://almanac.example"],"search_results":[{"title":"t"}],"usage":{"num_search_queries":2}`), []string{"citations", "search_results"}},
		{"sources counted", APIChat, chat("", `,"usage":{"num_sources_used":3}`), []string{"search_results"}},
		{"executed tools", APIChat, chat(`,"executed_tools":[{"type":"search"}]`, ""), []string{"executed_tools"}},
		{"grounding", APIChat, chat("", `,"vertex_ai_grounding_metadata":[{"webSearchQueries":["q"]}]`), []string{"grounding"}},
		{"empty grounding", APIChat, chat("", `,"vertex_ai_grounding_metadata":[]`), nil},
		{"counted by the server", APIChat, chat("", `,"usage":{"server_tool_use":{"web_fetch_requests":0,"web_search_requests":1}}`), []string{"server_tool_use"}},
		{"calls that are ours", APIResponses, items(`,{"type":"reasoning"},{"type":"function_call"},{"type":"custom_tool_call"},{"type":"local_shell_call"},{"type":"shell_call","environment":{"type":"local"}},{"type":"apply_patch_call"},{"type":"computer_call"},{"type":"tool_search_call","execution":"client"}`), nil},
		{"calls that may be ours", APIResponses, items(`,{"type":"shell_call","environment":{"type":"container_reference"}},{"type":"tool_search_call"}`), []string{"shell_call", "tool_search_call"}},
		{"calls of the server", APIResponses, items(`,{"type":"web_search_call"},{"type":"mcp_call"},{"type":"web_search_call"},{"type":"code_interpreter_call"},{"type":"file_search_call"}`),
			[]string{"code_interpreter_call", "file_search_call", "mcp_call", "web_search_call"}},
		{"cited files", APIResponses, items(`,{"type":"message","content":[{"type":"output_text","text":"y","annotations":[{"type":"file_citation"}]}]}`), []string{"citations"}},
		{"hostile names", APIResponses, items(`,{"type":"` + testKey + `"},{"type":"\u0000"},{"type":"` + strings.Repeat("a", 300) + `"}`), []string{"[redacted]", strings.Repeat("a", 200) + "…"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client(t, serve(t, answer(200, tc.body)), func(c *Config) { c.API = tc.api }).Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Channels); diff != "" {
				t.Error(diff)
			}
		})
	}
}
