package llm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadAskedChat(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       Asked
	}{
		{"plain", `{"model":"m","messages":[{"role":"developer","content":"Answer shortly."},{"role":"user","content":"How many moons?"}],"temperature":0.5}`,
			Asked{Model: "m", Completions: 1, Messages: []Message{{Role: "system", Content: "Answer shortly."}, {Role: "user", Content: "How many moons?"}}}},
		{"calls and results", `{"model":"m","stream":true,"max_tokens":10,"max_completion_tokens":20,"n":2,"messages":[
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"c2","type":"custom","custom":{"name":"run","input":"ls"}}],"reasoning_details":[{"n":1}]},
			{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"seven","cache_control":{"type":"ephemeral"}}]},
			{"role":"tool","tool_call_id":"c2","content":""}],
			"tools":[{"type":"function","function":{"name":"count","parameters":{}}},{"type":"custom","custom":{"name":"run"}}]}`,
			Asked{Model: "m", Stream: true, MaxTokens: 20, Completions: 2, Offered: []string{"count", "run"},
				Tools: []byte(`[{"type":"function","function":{"name":"count","parameters":{}}},{"type":"custom","custom":{"name":"run"}}]`),
				Messages: []Message{
					{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Name: "count", Arguments: `{"a":1}`, Opaque: []byte(`{"extra_content":{"google":{"thought_signature":"s"}}}`)}, {ID: "c2", Name: "run", Arguments: "ls"}}, Opaque: []byte(`{"reasoning_details":[{"n":1}]}`)},
					{Role: "tool", ToolCallID: "c1", Content: "seven"}, {Role: "tool", ToolCallID: "c2"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadAsked(DialectChat, []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEditAskedChat(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		strip            bool
		edits            []string
	}{
		{"not streamed", `{"model":"m","messages":[]}`, `{"model":"m","messages":[]}`, false, nil},
		{"streamed", " {\"model\":\"m\",\"messages\":[],\"stream\": true \n}", " {\"model\":\"m\",\"messages\":[],\"stream\": true,\"stream_options\":{\"include_usage\":true} \n}", false, []string{EditUsage}},
		{"strip", `{"tools":[{"type":"web_search"}, {"type":"function","function":{"name":"a"}} ,{"type":"b"}],"model":"m","plugins":[1],"messages":[]}`,
			`{"tools":[ {"type":"function","function":{"name":"a"}}],"model":"m","messages":[]}`, true, []string{EditStrip}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := ReadAsked(DialectChat, []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			got, edits, err := EditAsked(DialectChat, []byte(tc.body), a, tc.strip)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.want, tc.edits}, []any{string(got), edits}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
