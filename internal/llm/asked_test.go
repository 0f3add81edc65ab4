package llm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// pixel is a picture as requests hold it.
const pixel = "data:image/png;base64,AAEC/w=="

func TestReadAsked(t *testing.T) {
	picture := &Image{MediaType: "image/png", Data: []byte{0, 1, 2, 255}}
	user := func(words string) Message { return Message{Role: "user", Content: words} }
	for _, tc := range []struct {
		name, dialect, body string
		want                Asked
	}{
		{"plain", DialectChat, `{"model":"m","messages":[{"role":"developer","content":"Answer shortly."},{"role":"user","content":"How many moons?"}],"temperature":0.5,"user":"u","stop":["x"]}`,
			Asked{Model: "m", Messages: []Message{{Role: "system", Content: "Answer shortly."}, user("How many moons?")}}},
		{"calls and results", DialectChat, `{"model":"m","stream":true,"max_tokens":10,"max_completion_tokens":20,"n":2,"messages":[
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"c2","type":"custom","custom":{"name":"run","input":"ls"}}],"reasoning_details":[{"n":1}]},
			{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"seven","cache_control":{"type":"ephemeral"}}]},
			{"role":"tool","tool_call_id":"c2","content":""}],
			"tools":[{"type":"function","function":{"name":"count","parameters":{}}},{"type":"custom","custom":{"name":"run"}}]}`,
			Asked{Model: "m", Stream: true, MaxTokens: 20, Completions: 2, Offered: []string{"count", "run"},
				Tools: []byte(`[{"type":"function","function":{"name":"count","parameters":{}}},{"type":"custom","custom":{"name":"run"}}]`),
				Messages: []Message{
					{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Name: "count", Arguments: `{"a":1}`, Opaque: []byte(`{"extra_content":{"google":{"thought_signature":"s"}}}`)}, {ID: "c2", Name: "run", Arguments: "ls"}}, Opaque: []byte(`{"reasoning_details":[{"n":1}]}`)},
					{Role: "tool", ToolCallID: "c1", Content: "seven"}, {Role: "tool", ToolCallID: "c2"}}}},
		{"parts", DialectChat, `{"model":"m","messages":[{"role":"user","name":"ann","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + pixel + `","detail":"low"}},
			{"type":"input_audio","input_audio":{"data":"AAEC","format":"wav"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]},
			{"role":"assistant","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}],"refusal":null},{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"c"}]},
			{"role":"assistant","refusal":"no"},{"role":"user","content":[]},{"role":"user"}]}`,
			Asked{Model: "m", Messages: []Message{user("see"), {Role: "user", Image: picture}, {Role: "user", Opaque: []byte(`{"type":"input_audio","input_audio":{"data":"AAEC","format":"wav"}}`)},
				{Role: "user", Opaque: []byte(`{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}`)}, {Role: "user", Opaque: []byte(`{"name":"ann"}`)},
				{Role: "assistant", Content: "a b"}, {Role: "assistant", Content: "c", Opaque: []byte(`{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"c"}]}`)},
				{Role: "assistant", Content: "no"}, user(""), user("")}}},
		{"functions, and roles that are not known", DialectChat, `{"model":"m","functions":[{"name":"f"}],"messages":[{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
			{"role":"function","name":"f","content":"1"},{"role":"critic","content":"bad"},{"content":{"a":1}}]}`,
			Asked{Model: "m", Tools: []byte(`[{"name":"f"}]`), Offered: []string{"f"}, Messages: []Message{{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: "{}"}}},
				{Role: "tool", ToolCallID: "f", Content: "1"}, {Role: RoleOther, Content: "bad"}, {Role: RoleOther, Opaque: []byte(`{"role":"critic"}`)}, {Role: RoleOther, Opaque: []byte(`{"a":1}`)}}}},
		{"settings that a model reads", DialectChat, `{"response_format":{"type": "json_schema"},"model":"m","seed":1,"chat_template":"{{x}}","logit_bias":{},"messages":[]}`,
			Asked{Model: "m", Messages: []Message{{Role: RoleOther, Content: `{"response_format":{"type": "json_schema"},"chat_template":"{{x}}","logit_bias":{}}`}}}},

		{"text", DialectResponses, `{"model":"m","instructions":"Be brief.","input":"How many?","store":true,"max_output_tokens":9,"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"]}`,
			Asked{Model: "m", MaxTokens: 9, Messages: []Message{{Role: "system", Content: "Be brief."}, user("How many?")}}},
		{"items", DialectResponses, `{"model":"m","text":{"verbosity":"low"},"input":[
			{"role":"developer","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"` + pixel + `","detail":"auto"},{"type":"input_file","filename":"f","file_data":"data:application/pdf;base64,AA=="}]},
			{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"},{"type":"message","role":"assistant","id":"m1","status":"completed","content":[{"type":"output_text","text":"plan","annotations":[{"type":"url_citation","url":"https://a.example"}]}]},
			{"type":"function_call","call_id":"c1","name":"f","namespace":"mcp__x","arguments":"{}","status":"completed"},{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** Begin"},
			{"type":"local_shell_call","call_id":"c3","action":{"type":"exec","command":["ls"]},"status":"completed"},
			{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},
			{"type":"computer_call_output","call_id":"c4","output":{"type":"computer_screenshot","image_url":"` + pixel + `"},"acknowledged_safety_checks":[{"id":"s"}]},
			{"type":"shell_call_output","call_id":"c5","output":[{"stdout":"x"}]},
			{"type":"compaction","encrypted_content":"y"},{"type":"news","data":1},{"role":"assistant","content":"done"}]}`,
			Asked{Model: "m", Messages: []Message{{Role: RoleOther, Content: `{"text":{"verbosity":"low"}}`}, {Role: "system", Content: "a"}, user("b"), {Role: "user", Image: picture},
				{Role: "user", Opaque: []byte(`{"type":"input_file","filename":"f","file_data":"data:application/pdf;base64,AA=="}`)},
				{Role: "assistant", Content: "plan", Opaque: []byte(`[{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"},{"type":"message","role":"assistant","id":"m1","status":"completed","content":[{"type":"output_text","text":"plan","annotations":[{"type":"url_citation","url":"https://a.example"}]}]}]`), ToolCalls: []ToolCall{{ID: "c1", Name: "mcp__x__f", Arguments: "{}"},
					{ID: "c2", Name: "apply_patch", Arguments: "*** Begin"}, {ID: "c3", Name: "local_shell", Arguments: `{"type":"exec","command":["ls"]}`}}},
				{Role: "tool", ToolCallID: "c1", Content: "1"}, {Role: "tool", ToolCallID: "c2", Content: "2"}, {Role: "tool", ToolCallID: "c4", Image: picture},
				{Role: "tool", ToolCallID: "c4", Opaque: []byte(`{"acknowledged_safety_checks":[{"id":"s"}]}`)},
				{Role: "tool", ToolCallID: "c5", Content: `[{"stdout":"x"}]`},
				{Role: "assistant", Opaque: []byte(`[{"type":"compaction","encrypted_content":"y"}]`)}, {Role: RoleOther, Opaque: []byte(`{"type":"news","data":1}`)}, {Role: "assistant", Content: "done"}}}},
		{"tools in an item", DialectResponses, `{"model":"m","tools":[],"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"mcp__x__","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]},{"role":"user","content":"a"}]}`,
			Asked{Model: "m", Tools: []byte(`[][{"type":"namespace","name":"mcp__x__","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]`), Offered: []string{"mcp__x__f", "mcp__x__g"},
				Messages: []Message{{Role: RoleOther, Opaque: []byte(`{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"mcp__x__","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]}`)}, user("a")}}},

		{"text", DialectMessages, `{"model":"m","max_tokens":9,"system":"Be brief.","messages":[{"role":"user","content":"How many?"},{"role":"assistant","content":"It is"}],"metadata":{"user_id":"u"},"thinking":{"type":"adaptive"}}`,
			Asked{Model: "m", MaxTokens: 9, Messages: []Message{{Role: "system", Content: "Be brief."}, user("How many?"), {Role: "assistant", Content: "It is"}}}},
		{"blocks", DialectMessages, `{"model":"m","max_tokens":9,"stream":true,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],"messages":[
			{"role":"user","content":[{"type":"text","text":"c"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAEC/w=="}},{"type":"document","title":"https://t.example","source":{"type":"text","media_type":"text/plain","data":"d"}},
				{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}},{"type":"search_result","source":"https://s.example","title":"t","content":[{"type":"text","text":"e"}]}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"f"},{"type":"text","text":"g"},{"type":"tool_use","id":"t1","name":"n","input":{"u": "https:\/\/x.example", "k": 1.0}},{"type":"text","text":"h"}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"i"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAEC/w=="}}],"is_error":true},{"type":"tool_result","tool_use_id":"t2"},{"type":"text","text":"j"}]}],
			"tools":[{"name":"n","input_schema":{}},{"type":"bash_20250124","name":"bash"},{"type":"custom","name":"o","input_schema":{}},{"type":"computer_toolset_20260801"}]}`,
			Asked{Model: "m", Stream: true, MaxTokens: 9, Offered: []string{"n", "bash", "o", "computer_toolset_20260801"},
				Tools: []byte(`[{"name":"n","input_schema":{}},{"type":"bash_20250124","name":"bash"},{"type":"custom","name":"o","input_schema":{}},{"type":"computer_toolset_20260801"}]`),
				Messages: []Message{{Role: "system", Content: "a"}, {Role: "system", Content: "b"}, user("c"), {Role: "user", Image: picture}, {Role: "user", Content: "d", Opaque: []byte(`{"title":"https://t.example"}`)},
					{Role: "user", Opaque: []byte(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}`)},
					user("e"), {Role: "user", Opaque: []byte(`{"source":"https://s.example","title":"t"}`)},
					{Role: "assistant", Content: "fg\nh", Opaque: []byte(`[{"type":"thinking","thinking":"hm","signature":"s"}]`), ToolCalls: []ToolCall{{ID: "t1", Name: "n", Arguments: `{"u":"https://x.example","k":1.0}`}}},
					{Role: "tool", ToolCallID: "t1", Content: "i"}, {Role: "tool", ToolCallID: "t1", Image: picture}, {Role: "tool", ToolCallID: "t1", Opaque: []byte(`{"is_error":true}`)}, {Role: "tool", ToolCallID: "t2"}, user("j")}}},
	} {
		t.Run(tc.dialect+" "+tc.name, func(t *testing.T) {
			got, err := ReadAsked(tc.dialect, []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Completions = max(tc.want.Completions, 1)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the provider would do on its own, and what refers to its state.
func TestWithheld(t *testing.T) {
	const message = `"messages":[{"role":"user","content":"x"}]`
	tools := func(list string) string { return message + `,"input":"x","tools":[` + list + `]` }
	part := func(part string) string { return `"messages":[{"role":"user","content":[` + part + `]}]` }
	input := func(items string) string { return `"input":[` + items + `]` }
	for _, tc := range []struct {
		dialect, rest string
		withheld      []string
		state         string
	}{
		{DialectChat, tools(`{"type":"function","function":{"name":"web_search"},"strict":true},{"type":"function","name":"g","parameters":{}},{"type":"custom","custom":{"name":"f"},"cache_control":{"type":"ephemeral"}}`), nil, ""},
		{DialectChat, tools(`{"type":"web_search"},{"type":"builtin_function","function":{"name":"$web_search"}},{"googleSearch":{}},{},"web_search",{"type":"function","function":{"name":"f"},"googleSearch":{}},{"type":"function","Type":"mcp"}`),
			[]string{"tool web_search", "tool builtin_function", "tool googleSearch", "tool of no type", "tool function"}, ""},
		{DialectChat, message + `,"web_search_options":{},"plugins":[{"id":"web"}],"search_parameters":{"mode":"auto"},"enable_search":false,"models":["a","b"],"mcp_servers":null`, []string{"plugins", "search_parameters", "models"}, ""},
		{DialectChat, message + `,"web_search_options":{"search_context_size":"low"},"enable_search":true,"fallbacks":"default"`, []string{"web_search_options", "enable_search", "fallbacks"}, ""},
		{DialectChat, part(`{"type":"image_url","image_url":{"url":"https://a.example/b.png"}},{"type":"video_url","video_url":{"url":"HTTP://a.example"}}`), []string{"media by URL"}, ""},
		{DialectChat, part(`{"type":"image_url","image_url":"gs://a/b"},{"type":"file","file":{"file_id":"f"}}`), []string{"media by URL", "file_id"}, ""},
		{DialectChat, part(`{"type":"image_url","image_url":{"url":"/etc/passwd"}}`), []string{"media by URL"}, ""},
		{DialectChat, part(`{"type":"video","video":["https://a.example/1.png"]}`), []string{"media by URL"}, ""},
		{DialectChat, part(`{"type":"text","text":"https://a.example"},{"type":"image_url","image_url":{"url":"` + pixel + `"}},{"type":"file","file":{"filename":"https://b.example","file_data":"data:text/plain;base64,AA=="}}`), nil, ""},
		{DialectChat, `"messages":[{"role":"assistant","content":"https://a.example"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"fetch","arguments":"{\"url\":\"https://a.example\"}"}}]}]`, nil, ""},

		{DialectResponses, tools(`{"type":"function","name":"f"},{"type":"custom","name":"g"},{"type":"local_shell"},{"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"},{"type":"computer"},{"type":"computer_use_preview"},{"type":"tool_search","execution":"client"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}`), nil, ""},
		{DialectResponses, tools(`{"type":"web_search"},{"type":"web_search_preview_2025_03_11"},{"type":"file_search"},{"type":"code_interpreter"},{"type":"mcp","server_url":"https://m.example"},{"type":"image_generation"},{"type":"shell"},{"type":"tool_search"},{"type":"programmatic_tool_calling"},{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}`),
			[]string{"tool web_search", "tool web_search_preview_2025_03_11", "tool file_search", "tool code_interpreter", "tool mcp", "tool image_generation", "tool shell", "tool tool_search", "tool programmatic_tool_calling", "tool namespace"}, ""},
		{DialectResponses, input(`{"type":"tool_search_output","call_id":"c","tools":[{"type":"mcp"}]}`), []string{"tool mcp"}, ""},
		{DialectResponses, input(`{"role":"user","content":[{"type":"input_image","image_url":"https://a.example"},{"type":"input_image","file_id":"f"},{"type":"input_file","file_url":"https://a.example"}]}`), []string{"media by URL", "file_id"}, ""},
		{DialectResponses, input(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"https://a.example"}]}`), []string{"media by URL"}, ""},
		{DialectResponses, `"previous_response_id":"r","input":[]`, nil, "previous_response_id"},
		{DialectResponses, `"previous_response_id":null,"background":false,"input":[]`, nil, ""},
		{DialectResponses, `"conversation":{"id":"c"},"input":[]`, nil, "conversation"},
		{DialectResponses, `"background":true,"input":"x"`, nil, "background"},
		{DialectResponses, `"prompt":{"id":"p"}`, nil, "prompt"},
		{DialectResponses, input(`{"type":"item_reference","id":"i"}`), nil, "item_reference"},
		{DialectResponses, input(`{"id":"i"}`), nil, "item_reference"},

		{DialectMessages, tools(`{"name":"web_search","input_schema":{}},{"type":"custom","name":"f"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},{"type":"computer_20251124","name":"computer"},{"type":"memory_20250818","name":"memory"},{"type":"browser_toolset_20260801"}`), nil, ""},
		{DialectMessages, tools(`{"type":"web_search_20250305","name":"web_search"},{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"code_execution_20250825","name":"code_execution"},{"type":"mcp_toolset","mcp_server_name":"s"},{"type":"advisor_20260301","name":"advisor"},{"type":"tool_search_tool_bm25_20251119","name":"t"},{"type":"bash_code_execution_20250825"},{}`),
			[]string{"tool web_search_20250305", "tool web_fetch_20250910", "tool code_execution_20250825", "tool mcp_toolset", "tool advisor_20260301", "tool tool_search_tool_bm25_20251119", "tool bash_code_execution_20250825", "tool of no type"}, ""},
		{DialectMessages, message + `,"mcp_servers":[{"url":"https://m.example"}]`, []string{"mcp_servers"}, ""},
		{DialectMessages, message + `,"container":"c"`, nil, "container"},
		{DialectMessages, part(`{"type":"image","source":{"type":"url","url":"https://a.example"}},{"type":"document","source":{"type":"file","file_id":"f"}},{"type":"container_upload","file_id":"g"}`), []string{"media by URL", "file_id"}, ""},
		{DialectMessages, part(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://a.example"}}]}`), []string{"media by URL"}, ""},
		{DialectMessages, part(`{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://a.example"}}]}}`), []string{"media by URL"}, ""},
		{DialectMessages, `"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"fetch","input":{"url":"https://a.example"}},{"type":"text","text":"x","citations":[{"url":"https://b.example"}]}]},{"role":"assistant","content":"https://c.example"}]`, nil, ""},
	} {
		got, err := ReadAsked(tc.dialect, []byte(`{"model":"m",`+tc.rest+`}`))
		if err != nil {
			t.Errorf("%s %s: %v", tc.dialect, tc.rest, err)
			continue
		}
		if diff := cmp.Diff([]any{tc.withheld, tc.state}, []any{got.Withheld, got.State}); diff != "" {
			t.Errorf("%s %s: %s", tc.dialect, tc.rest, diff)
		}
	}
}

func TestNotAsked(t *testing.T) {
	for _, tc := range []struct{ dialect, body, want string }{
		{DialectChat, ``, "the body is not a JSON object"},
		{DialectChat, `[]`, "the body is not a JSON object"},
		{DialectChat, `{"model":"m"`, "the body is not valid JSON"},
		{DialectChat, `{"model":"m","messages":[]} {}`, "the body is more than one JSON value"},
		{DialectChat, `{"model":"m","messages":[]}x`, "the body is not valid JSON"},
		{DialectChat, `{"model":"m","messages":[],"mod\u0065l":"n"}`, "the body has a member twice in one object"},
		{DialectChat, `{"model":"m","messages":[{"role":"user","role":"system"}]}`, "the body has a member twice in one object"},
		{DialectMessages, `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","Content":"a"}]}]}`, `a member differs from "content" in case only`},
		{DialectChat, `{"model":"m","messages":[],"Model":"n"}`, `member "Model" differs from a member of the interface in case only`},
		{DialectChat, `{"model":"m","messages":[],"ſtream":true}`, `member "ſtream" differs from a member of the interface in case only`},
		{DialectChat, `{"model":"m","messages":[],"MCP_Servers":[]}`, `member "MCP_Servers" differs from a member of the interface in case only`},
		{DialectChat, `{"model":"m","messages":[{"role":"user","content":"a","Content":"b"}]}`, `a member differs from "content" in case only`},
		{DialectMessages, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","TEXT":"b"}]}]}`, `a member differs from "text" in case only`},
		{DialectMessages, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","Text":"b"}]}]}`, `a member differs from "text" in case only`},
		{DialectResponses, `{"model":"m","input":[{"type":"function_call_output","call_id":"c","Output":"a"}]}`, `a member differs from "output" in case only`},
		{DialectResponses, `{"model":"m","input":[{"role":"assistant","content":[{"type":"output_text","Text":"a"}]}]}`, `a member differs from "text" in case only`},
		{DialectChat, `{"model":"m","messages":` + strings.Repeat("[", maxNested) + strings.Repeat("]", maxNested) + `}`, fmt.Sprintf("the body is nested more than %d deep", maxNested)},
		{DialectChat, `{"messages":[]}`, `the body has no "model"`},
		{DialectChat, `{"model":1,"messages":[]}`, `the body has no "model"`},
		{DialectChat, `{"model":"m"}`, `the body has no list "messages"`},
		{DialectChat, `{"model":"m","messages":["x"]}`, "a message is not an object"},
		{DialectChat, `{"model":"m","messages":[],"stream":1}`, `"stream" is neither true nor false`},
		{DialectChat, `{"model":"m","messages":[],"n":0}`, `"n" is not a number from 1 to 128`},
		{DialectChat, `{"model":"m","messages":[],"n":1.5}`, `"n" is not a number from 1 to 128`},
		{DialectChat, `{"model":"m","messages":[],"max_tokens":-2}`, `"max_tokens" is not a number of tokens`},
		{DialectChat, `{"model":"m","messages":[],"max_completion_tokens":1e30}`, `"max_completion_tokens" is not a number of tokens`},
		{DialectChat, `{"model":"m","messages":[],"tools":{}}`, `"tools" is not a list`},
		{DialectResponses, `{"model":"m"}`, `the body has no "input"`},
		{DialectResponses, `{"model":"m","input":[1]}`, "an item of the input is not an object"},
		{DialectMessages, `{"model":"m","messages":"x"}`, `the body has no list "messages"`},
		{DialectMessages, `{"model":"m","messages":[null]}`, "a message is not an object"},
		{DialectMessages, `{"model":"m","messages":[` + strings.Repeat(`[],`, maxAsked) + `0]}`, fmt.Sprintf("the body holds more than %d values", maxAsked)},
		{"else", `{"model":"m","messages":[]}`, `dialect "else" is not known`},
	} {
		a, err := ReadAsked(tc.dialect, []byte(tc.body))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s %.80s: %v, read %+v", tc.dialect, tc.body, err, a)
		}
	}
	if a, err := ReadAsked(DialectChat, []byte(`{"model":"m","messages":[{"role":"user","content":"\ud800 `+"\xff"+`"}],"max_tokens":-1}`)); err != nil || a.Messages[0].Content != "\uFFFD \uFFFD" || a.MaxTokens != 0 {
		t.Errorf("text that is no UTF-8: %+v, %v", a, err)
	}
}

func TestEditAsked(t *testing.T) {
	for _, tc := range []struct {
		name, dialect, body, want string
		edits                     []string
	}{
		{"not streamed", DialectChat, `{"model":"m","messages":[]}`, ``, nil},
		{"streamed", DialectChat, " {\"model\":\"m\",\"messages\":[],\"stream\": true \n}", " {\"model\":\"m\",\"messages\":[],\"stream\": true,\"stream_options\":{\"include_usage\":true} \n}", []string{EditUsage}},
		{"usage asked for", DialectChat, `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}`, ``, nil},
		{"usage declined", DialectChat, `{"model":"m","messages":[],"stream":true,"stream_options":{"a":1, "include_usage": false , "b":2}}`, `{"model":"m","messages":[],"stream":true,"stream_options":{"a":1, "include_usage": true , "b":2}}`, []string{EditUsage}},
		{"other options", DialectChat, `{"model":"m","messages":[],"stream":true,"stream_options":{ "a":1}}`, `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true, "a":1}}`, []string{EditUsage}},
		{"empty options", DialectChat, `{"stream_options":{},"model":"m","messages":[],"stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","messages":[],"stream":true}`, []string{EditUsage}},
		{"null options", DialectChat, `{"stream_options": null,"model":"m","messages":[],"stream":true}`, `{"stream_options": {"include_usage":true},"model":"m","messages":[],"stream":true}`, []string{EditUsage}},
		{"stored by default", DialectResponses, `{"model":"m","input":"x"}`, `{"model":"m","input":"x","store":false}`, []string{EditStore}},
		{"stored", DialectResponses, `{"store":true,"model":"m","input":"x","stream":true}`, `{"store":false,"model":"m","input":"x","stream":true}`, []string{EditStore}},
		{"not stored", DialectResponses, `{"store":false,"model":"m","input":"x"}`, ``, nil},
		{"nothing of messages", DialectMessages, `{"model":"m","messages":[],"stream":true,"tools":[{"name":"a"}]}`, ``, nil},
		{"strip the first and the last", DialectChat, `{"tools":[{"type":"web_search"}, {"type":"function","function":{"name":"a"}},{"type":"b"}],"model":"m","plugins":[1],"messages":[],"tool_choice":"auto"}`,
			`{"tools":[ {"type":"function","function":{"name":"a"}}],"model":"m","messages":[],"tool_choice":"auto"}`, []string{EditStrip}},
		{"strip between", DialectMessages, `{"model":"m","messages":[],"tools":[{"name":"a"},{"type":"web_search_20250305","name":"web_search"},{"type":"web_fetch_20250910","name":"w"} , {"name":"b"}],"tool_choice":{"type":"tool","name":"web_search"},"mcp_servers":[{}]}`,
			`{"model":"m","messages":[],"tools":[{"name":"a"} , {"name":"b"}]}`, []string{EditStrip}},
		{"strip all", DialectResponses, `{"tool_choice":"required","tools": [{"type":"web_search"}] ,"model":"m","parallel_tool_calls":true,"input":"x"}`, `{"model":"m","input":"x","store":false}`, []string{EditStore, EditStrip}},
		{"strip what is chosen", DialectResponses, `{"store":false,"model":"m","input":"x","tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"s"}],"tool_choice":{"type":"allowed_tools","tools":[{"type":"mcp","server_label":"s"}]}}`,
			`{"store":false,"model":"m","input":"x","tools":[{"type":"function","name":"f"}]}`, []string{EditStrip}},
		{"strip in items", DialectResponses, `{"model":"m","tools":[],"store":false,"input":[{"type":"additional_tools","tools":[{"type":"web_search"},{"type":"function","name":"f"}]},{"type":"additional_tools","tools":[{"type":"web_search"}]}]}`,
			`{"model":"m","tools":[],"store":false,"input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]},{"type":"additional_tools","tools":[]}]}`, []string{EditStrip}},
		{"all edits", DialectChat, `{"plugins":[1],"stream":true,"model":"m","messages":[]}`, `{"stream":true,"model":"m","messages":[],"stream_options":{"include_usage":true}}`, []string{EditUsage, EditStrip}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.want == "" {
				tc.want = tc.body
			}
			a, err := ReadAsked(tc.dialect, []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			got, edits, err := EditAsked(tc.dialect, []byte(tc.body), a, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.want, tc.edits}, []any{string(got), edits}); diff != "" {
				t.Error(diff)
			}
			if _, _, err := EditAsked(tc.dialect, []byte(tc.body), a, false); (err != nil) != (len(a.Withheld) > 0) {
				t.Errorf("without strip: %v", err)
			}
		})
	}
	body := []byte(`{"model":"m","plugins":[1],"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example"}}]}]}`)
	a, err := ReadAsked(DialectChat, body)
	if err != nil {
		t.Fatal(err)
	}
	if sent, _, err := EditAsked(DialectChat, body, a, true); err == nil || err.Error() != "the request has media by URL" {
		t.Errorf("media: %s, %v", sent, err)
	}
}

var askedSeeds = []string{
	`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":false},"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"web_search"}}`,
	`{"model":"m","input":[{"type":"additional_tools","tools":[{"type":"mcp"}]},{"type":"reasoning","encrypted_content":"x"},{"type":"function_call","call_id":"c","name":"f"},{"role":"user","content":[{"type":"input_image","image_url":"` + pixel + `"}]}]}`,
	`{ "model" : "m" , "messages" : [ {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]} ] , "mcp_servers" : [ 1 ] , "tools" : [ {"type":"web_search_20250305"} ] }`,
	`{"model":"m","messages":[],"input":"x","plugins":{"a":1},"enable_search":true}`,
}

// FuzzEditAsked reads and edits any body. What is edited is JSON, and but for the edits the same, byte for byte.
func FuzzEditAsked(f *testing.F) {
	for _, seed := range askedSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, dialect := range []string{DialectChat, DialectResponses, DialectMessages} {
			a, err := ReadAsked(dialect, body)
			if err != nil {
				continue
			}
			for _, m := range a.Messages {
				for _, c := range append(m.ToolCalls, ToolCall{Opaque: m.Opaque, Arguments: m.Content}) {
					if !utf8.ValidString(c.ID+c.Name+c.Arguments+m.ToolCallID+m.Role) || !utf8.Valid(c.Opaque) || m.Role == "" {
						t.Fatalf("%+v", m)
					}
				}
			}
			sent, edits, err := EditAsked(dialect, body, a, true)
			if err != nil {
				continue
			}
			if (len(edits) == 0) != bytes.Equal(sent, body) {
				t.Fatalf("%q: edits %q, sent %q", body, edits, sent)
			}
			again, err := ReadAsked(dialect, sent)
			if err != nil {
				t.Fatalf("%q: sent %q: %v", body, sent, err)
			}
			if _, more, err := EditAsked(dialect, sent, again, false); err != nil || len(more) > 0 {
				t.Fatalf("%q: sent %q: edited again %q, %v", body, sent, more, err)
			}
			before, after := gjson.ParseBytes(body), gjson.ParseBytes(sent)
			after.ForEach(func(name, value gjson.Result) bool {
				switch was := before.Get(gjson.Escape(name.Str)); name.Str {
				case "stream_options", "store", "tools", "input":
				default:
					if was.Raw != value.Raw {
						t.Fatalf("%q: sent %q", body, sent)
					}
				}
				return true
			})
			before.ForEach(func(name, value gjson.Result) bool {
				gone := !after.Get(gjson.Escape(name.Str)).Exists()
				if may := strings.Contains(strings.Join(withheldMembers, " ")+" tools tool_choice parallel_tool_calls", name.Str); gone && !may {
					t.Fatalf("%q: %q went: %q", body, name.Str, sent)
				}
				return true
			})
		}
	})
}

func BenchmarkReadAsked(b *testing.B) {
	for _, api := range []string{APIChat, APIResponses} {
		p, failed := New(Config{API: api}).compose(longTalk("gpt-4o"))
		if failed != nil {
			b.Fatal(failed)
		}
		b.Run(api, func(b *testing.B) {
			b.SetBytes(int64(len(p.body)))
			for b.Loop() {
				if _, err := ReadAsked(api, p.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
