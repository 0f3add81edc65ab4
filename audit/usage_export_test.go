package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// TestParseUsageExport: the forms of an export, and what is read of them.
func TestParseUsageExport(t *testing.T) {
	one := []ExportedRequest{{IDs: []string{"gen-1"}, Model: "sample-model", In: 500, Out: 60}}
	two := append(slices.Clone(one), ExportedRequest{IDs: []string{"gen-2"}, Model: "sample-model", In: 7, Out: 0})
	tests := []struct {
		name, text string
		want       []ExportedRequest
	}{
		{"CSV", "id,model,prompt_tokens,completion_tokens\ngen-1,sample-model,500,60\ngen-2,sample-model,7,0\n", two},
		{"CSV with a mark, capitals, spaces, quotes and more columns", "\ufeffGeneration ID,\"Note, if any\",Model Name,Input Tokens,output-tokens\r\ngen-1,\"a, b\",sample-model, 500 ,60\r\n", one},
		{"JSON list", `[{"id":"gen-1","model":"sample-model","input_tokens":500,"output_tokens":60}]`, one},
		{"object with a list", `{"object":"list","data":[{"response_id":"gen-1","model":"sample-model","tokens_prompt":500,"tokens_completion":60}],"has_more":false}`, one},
		{"lists in a list", `{"data":[{"start":1,"results":[]},{"start":2,"results":[{"id":"gen-1","model":"sample-model","input_tokens":500,"output_tokens":60}]}]}`, one},
		{"JSON lines", `{"id":"gen-1","model":"sample-model","input_tokens":500,"output_tokens":60}` + "\n\n" + `{"id":"gen-2","model":"sample-model","input_tokens":7,"output_tokens":0}`, two},
		{"replies as they came", `{"id":"gen-1","choices":[{"index":0}],"model":"sample-model","usage":{"prompt_tokens":500,"completion_tokens":60,"details":{"cached":1}}}`, one},
		{"tokens as text", `[{"id":"gen-1","model":"sample-model","input_tokens":"500","output_tokens":"60"}]`, one},
		{"the model's own tokens", "id,model,tokens_prompt,tokens_completion,native_tokens_prompt,native_tokens_completion\ngen-1,sample-model,480,50,500,60\n", one},
		{"the same twice", "id,model,input_tokens,output_tokens\ngen-1,sample-model,500,60\ngen-1,sample-model,500,60\n", one},
		{"without ids the same is not one", "input_tokens,output_tokens\n5,6\n5,6\n", []ExportedRequest{{In: 5, Out: 6}, {In: 5, Out: 6}}},
		{"several ids", `[{"request_id":"req-1","id":"gen-1","input_tokens":5,"output_tokens":6}]`, []ExportedRequest{{IDs: []string{"req-1", "gen-1"}, In: 5, Out: 6}}},
		{"an id that is a number, and none", `[{"id":17,"input_tokens":5,"output_tokens":6},{"id":null,"input_tokens":5,"output_tokens":6}]`, []ExportedRequest{{IDs: []string{"17"}, In: 5, Out: 6}, {In: 5, Out: 6}}},
	}
	for _, tt := range tests {
		got, err := ParseUsageExport([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if fmt.Sprint(got.Requests) != fmt.Sprint(tt.want) || got.SHA256 != canonical.Digest([]byte(tt.text)) {
			t.Errorf("%s: %v, want %v", tt.name, got.Requests, tt.want)
		}
	}
}

// TestParseUsageExportRefuses: an error names the line, and in a JSON list the entry.
func TestParseUsageExportRefuses(t *testing.T) {
	const header = "id,input_tokens,output_tokens\n"
	tests := []struct{ name, text, want string }{
		{"nothing", "", "reading the usage export: it is empty"},
		{"a header alone", header, "the usage export has no entry"},
		{"an empty list", `{"data":[]}`, "the usage export has no entry"},
		{"no tokens", "id,cost\ngen-1,5\n", "reading the usage export: line 2: there are no input tokens, such as prompt_tokens"},
		{"no output tokens", "id,input_tokens\ngen-1,5\n", "reading the usage export: line 2: there are no output tokens, such as completion_tokens"},
		{"tokens left out", header + "gen-1,5,6\ngen-2,,6\n", `reading the usage export: line 3: input_tokens is "", which is no number of tokens`},
		{"part of a token", header + "gen-1,5.5,6\n", `reading the usage export: line 2: input_tokens is "5.5", which is no number of tokens`},
		{"below none", header + "gen-1,5,-6\n", `reading the usage export: line 2: output_tokens is "-6", which is no number of tokens`},
		{"too many", header + "gen-1,100000000001,6\n", `reading the usage export: line 2: input_tokens is "100000000001", which is no number of tokens`},
		{"a short row", header + "gen-1,5\n", "reading the usage export: record on line 2: wrong number of fields"},
		{"a column twice", "id,Input tokens,input_tokens,output_tokens\n", `reading the usage export: line 1: there are two columns "input_tokens"`},
		{"an id with something else", header + "gen-1,5,6\ngen-1,5,7\n", `reading the usage export: line 3: the id "gen-1" stands there before, with something else`},
		{"broken JSON", "[\n{\"input_tokens\":5,]", "reading the usage export: line 2: it is not JSON"},
		{"more behind the list", `[{"input_tokens":5,"output_tokens":6}]]`, "reading the usage export: line 1: it is not JSON"},
		{"a member twice", `{"id":"a","id":"b","input_tokens":5,"output_tokens":6}`, "reading the usage export: line 1: it is not JSON"},
		{"a member in two spellings", `{"Input tokens":5,"input_tokens":6,"output_tokens":6}`, `reading the usage export: line 1: "input_tokens" stands there twice, with something else`},
		{"two lists", "{\"data\":[],\n\"errors\":[]}", "reading the usage export: line 1: there are no input tokens, such as prompt_tokens"},
		{"an entry without tokens", "{\"data\":[\n{\"input_tokens\":5,\"output_tokens\":6},\n{\"id\":\"gen-2\"}]}", "reading the usage export: line 1: entry 2: there are no input tokens, such as prompt_tokens"},
		{"a list of texts", "[\n\"gen-1\"]", "reading the usage export: line 1: entry 1: there is neither an object nor a list"},
		{"too deep", `{"a":[[[[[{"input_tokens":5,"output_tokens":6}]]]]]}`, "reading the usage export: line 1: lists stand too deep inside of others"},
		{"not UTF-8", header + "gen-\xff,5,6\n", "the usage export is not UTF-8 text"},
	}
	for _, tt := range tests {
		got, err := ParseUsageExport([]byte(tt.text))
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := ParseUsageExport(make([]byte, MaxUsageExport+1)); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("too large: %v", err)
	}
}

// FuzzParseUsageExport: whatever is accepted has entries that can be, and reads
// the same when it is written as CSV.
func FuzzParseUsageExport(f *testing.F) {
	for _, text := range []string{
		"id,model,prompt_tokens,completion_tokens\ngen-1,m,500,60\n",
		`{"data":[{"results":[{"id":"gen-1","usage":{"input_tokens":5,"output_tokens":6}}]}]}`,
		"{\"id\":\"a\",\"input_tokens\":5,\"output_tokens\":6}\n{\"id\":\"b\",\"input_tokens\":\"5\",\"output_tokens\":6}\n",
		`[[{"tokens_in":1,"tokens_out":2}]]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseUsageExport(data)
		if err != nil {
			if got != nil || strings.ContainsAny(err.Error(), "\x00\x1b") {
				t.Fatalf("%v beside %q", got, err)
			}
			return
		}
		var again strings.Builder
		again.WriteString("request_id,id,tokens_in,tokens_out,model\n")
		for _, r := range got.Requests {
			if r.In < 0 || r.In > maxExported || r.Out < 0 || r.Out > maxExported || slices.Contains(r.IDs, "") {
				t.Fatalf("accepted %q with %v", data, r)
			}
			if len(r.IDs) > 2 {
				return
			}
			ids := append(slices.Clone(r.IDs), "", "")
			if strings.ContainsFunc(ids[0]+ids[1]+r.Model, func(c rune) bool { return c <= ' ' || c == '"' || c == ',' || c > '~' }) {
				return // CSV has them in quotes, and without the spaces around them
			}
			fmt.Fprintf(&again, "%s,%s,%d,%d,%s\n", ids[0], ids[1], r.In, r.Out, r.Model)
		}
		second, err := ParseUsageExport([]byte(again.String()))
		if err != nil || fmt.Sprint(second.Requests) != fmt.Sprint(got.Requests) {
			t.Fatalf("%q reads as %v, and that as %v, %v", data, got.Requests, second, err)
		}
	})
}
