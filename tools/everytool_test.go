package tools_test

import (
	"context"
	"errors"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/internal/tooltest"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"slices"
	"strings"
	"testing"
)

// everyTool is each tool once; nothing is asked of the network.
func everyTool() []tools.Tool {
	w := web.New(web.Config{})
	return []tools.Tool{document.NewReadFile(document.Reader{}), tools.NewListFiles(), tools.NewCalculate(), web.NewWebFetch(w), web.NewWebSearch(w, web.Engine{Name: web.SearXNG, URL: "http://search.example/search"}),
		media.NewTranscribe(nil, "m"), media.NewDescribeImage(nil, "m", document.Reader{}), sandbox.NewUnsafePython(sandbox.Interpreter{})}
}

func TestSpecs(t *testing.T) {
	want := map[string]struct{ all, required []string }{
		"read_file":  {[]string{"path", "inside", "page", "find"}, []string{"path"}},
		"list_files": {},
		"calculate":  {[]string{"expression"}, []string{"expression"}},
		"web_fetch":  {[]string{"url", "mode", "page", "find", "archived"}, []string{"url"}},
		"web_search": {[]string{"query"}, []string{"query"}},

		"transcribe_audio": {[]string{"path", "page", "find"}, []string{"path"}},
		"describe_image":   {[]string{"path", "inside", "question", "page"}, []string{"path", "question"}},
		"python":           {[]string{"code", "timeout_s"}, []string{"code"}},
	}
	for _, tool := range everyTool() {
		spec := tool.Spec()
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(spec.Parameters, &schema, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%s: %v in %s", spec.Name, err, spec.Parameters)
		}
		if schema.Type != "object" || schema.Properties == nil {
			t.Errorf("%s is not an object with properties: %s", spec.Name, spec.Parameters)
		}
		w, known := want[spec.Name]
		// The schema does not say that there are no other arguments, and none are admitted.
		args := tooltest.Object{}
		for _, name := range w.required {
			args[name] = "x"
		}
		for _, other := range []bool{false, true} {
			if other {
				args["other"] = "x"
			}
			text, err := json.Marshal(args)
			tooltest.Must(t, err)
			if _, err := tooltest.Admits(tool, text); (err != nil) != other {
				t.Errorf("%s with %s: %v", spec.Name, text, err)
			}
		}
		if !known || spec.Description == "" {
			t.Errorf("unexpected or undescribed tool %q", spec.Name)
		}
		if len(schema.Properties) != len(w.all) || strings.Join(schema.Required, " ") != strings.Join(w.required, " ") {
			t.Errorf("%s: parameters %s", spec.Name, spec.Parameters)
		}
		for _, name := range w.all {
			if schema.Properties[name].Type == "" {
				t.Errorf("%s.%s has no type", spec.Name, name)
			}
		}
	}
}

// TestAsked: what is decided on is what the arguments name, whatever the JSON
// they are written in, and what the tool makes of them. The names of arguments
// that the rules know are those of the tools.
func TestAsked(t *testing.T) {
	tests := []struct {
		tool tools.Tool
		args string
		want policy.Call
	}{
		{document.NewReadFile(document.Reader{}), `{"path":"a\u002fb.csv","find":"x"}`, policy.Call{Paths: []string{"a/b.csv"}, Texts: []string{"x", "a/b.csv"}}},
		{tools.NewListFiles(), ``, policy.Call{Paths: []string{"."}}},
		{tools.NewCalculate(), `{"expression":"1+1"}`, policy.Call{Texts: []string{"1+1"}}},
		{media.NewDescribeImage(nil, "m", document.Reader{}), `{"path":"a.png","question":"what?"}`, policy.Call{Paths: []string{"a.png"}, Texts: []string{"a.png", "what?"}}},
		{media.NewTranscribe(nil, "m"), `{"path":"a.wav"}`, policy.Call{Paths: []string{"a.wav"}, Texts: []string{"a.wav"}}},
		{sandbox.NewUnsafePython(sandbox.Interpreter{}), `{"code":"import os"}`, policy.Call{Code: []string{"import os"}, Texts: []string{"import os"}}},
		{web.NewWebFetch(web.New(web.Config{})), `{"url":"http://a.example/#x","archived":"2020"}`, policy.Call{
			URLs:  []string{"http://a.example/#x", "https://web.archive.org/web/2020/http://a.example/#x", "https://web.archive.org/web/20200701000000id_/http://a.example/"},
			Texts: []string{"2020", "http://a.example/#x"}}},
		{web.NewWebSearch(web.New(web.Config{}), web.Engine{Name: web.SearXNG, URL: "http://s.example/search?lang=en"}), `{"query":"sea gulls"}`,
			policy.Call{URLs: []string{"http://s.example/search?format=json&lang=en&q=sea+gulls"}, Texts: []string{"sea gulls"}}},
	}
	seen := []string{}
	for _, test := range tests {
		s := tools.NewSession(t, &tools.GateSink{}, nil, test.tool)
		test.want.Tool, test.want.Known, test.want.TaskID = test.tool.Spec().Name, true, "task"
		seen = append(seen, test.want.Tool)
		got := s.Asked(tools.Call{ID: "c", Name: test.want.Tool, Args: test.args})
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s %s: -want +got\n%s", test.want.Tool, test.args, diff)
		}
	}
	if slices.Sort(seen); !slices.Equal(seen, policy.BuiltinTools()) {
		t.Errorf("tested are %q, and the rules know %q", seen, policy.BuiltinTools())
	}
}

// Arguments that do not fit are refused with words that name the fault.
func TestArguments(t *testing.T) {
	tests := []struct{ args, want string }{
		{`{"path":"a"}`, ""},
		{` {"path":"a","page":2} `, ""},
		{``, `missing properties: ["path"]`},
		{`{}`, `its parameters are {"type":"object"`},
		{`{"path":null}`, `want "string"`},
		{`{"path":7}`, `/properties/path`},
		{`{"path":"a","page":"2"}`, `want "integer"`},
		{`{"path":"a","page":2.5}`, `want "integer"`},
		{`{"path":"a","page":99999999999999999999}`, `do not fit read_file`},
		{`{"path":"a","mode":"r"}`, `["mode"]`},
		{`{"Path":"a"}`, `["Path"]`},
		{`{"path":"a","path":"b"}`, `duplicate object member name`},
		{`["a"]`, `want "object"`},
		{`"a"`, `want "object"`},
		{`{"path":"a"} {}`, `not one JSON object`},
		{`{"path":"a"`, `not one JSON object`},
		{`{"path":"\ud800"}`, `not one JSON object`},
		{"{\"path\":\"\xff\"}", `not one JSON object`},
	}
	for _, test := range tests {
		_, err := admits(document.NewReadFile(document.Reader{}), []byte(test.args))
		switch {
		case err == nil && test.want != "":
			t.Errorf("%s: accepted", test.args)
		case err != nil && test.want == "":
			t.Errorf("%s: %v", test.args, err)
		case err != nil && !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %q does not say %q", test.args, err, test.want)
		}
	}
}

// A call that was admitted with bad arguments all the same is a result, and
// one that is cancelled is an error.
func TestCallEnds(t *testing.T) {
	env := workspace(t, map[string][]byte{"a.txt": []byte("a")})
	out, err := callTool(t.Context(), document.NewReadFile(document.Reader{}), env, []byte(`{"pth":"a.txt"}`))
	if err != nil || !out.IsError {
		t.Errorf("bad arguments: %+v, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tool := range everyTool() {
		args, waits := map[string]string{"read_file": `{"path":"a.txt"}`, "web_fetch": `{"url":"http://192.0.2.1/"}`, "web_search": `{"query":"a"}`, "list_files": ``}[tool.Spec().Name]
		if !waits { // or asks what this tool has not: a model, a program
			continue
		}
		if _, err := callTool(ctx, tool, env, []byte(args)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", tool.Spec().Name, err)
		}
	}
}
