package mcp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpListing is a list of one tool, with a schema.
func mcpListing(name, description, schema string) string {
	b, _ := json.Marshal(object{"name": name, "description": description})
	return `{"tools":[` + strings.TrimSuffix(string(b), "}") + `,"inputSchema":` + schema + `}]}`
}

// doubling is a schema of few bytes that takes 2^n steps to validate with.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s"d%d":{"type":"string"}}}`, b.String(), n)
}

// TestMCPLists: what a server may not say of its tools is an error for the user.
func TestMCPLists(t *testing.T) {
	t.Parallel()
	const fine = `{"type":"object"}`
	typed := func(more string) string { return mcpListing("t", "", `{"type":"object",`+more+`}`) }
	many := `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"t%d","inputSchema":`+fine+`},`, 65), ",") + `]}`
	for i := range 65 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for name, tt := range map[string]struct {
		list, want string
		only       []string
	}{
		"no tools":         {`{"tools":[]}`, `the MCP server "srv" has no tools`, nil},
		"no list":          {`{"tools":7}`, `the MCP server "srv" cannot be used: `, nil},
		"too many":         {many, `has more than 64 tools; name those that are wanted`, nil},
		"not there":        {oneTool, `has no tool "other"`, []string{"do", "other"}},
		"twice":            {`{"tools":[{"name":"a b","inputSchema":` + fine + `},{"name":"a.b","inputSchema":` + fine + `}]}`, `has two tools that would be called "srv__a_b"`, nil},
		"long alike":       {`{"tools":[{"name":"` + strings.Repeat("a", 70) + `","inputSchema":` + fine + `},{"name":"` + strings.Repeat("a", 71) + `","inputSchema":` + fine + `}]}`, `has two tools that would be called`, nil},
		"no name":          {mcpListing("", "", fine), `has a tool whose name has 0 bytes`, nil},
		"long name":        {mcpListing(strings.Repeat("n", 300), "", fine), `has a tool whose name has 300 bytes`, nil},
		"long description": {mcpListing("t", strings.Repeat("d", 5000), fine), `describes its tool "t" in 5000 bytes; 4096 are the limit`, nil},
		"turned letters":   {mcpListing("t", "good \u202e live", fine), `describes its tool "t" with a character that is not seen, U+202E`, nil},
		"escape":           {mcpListing("t", "\x1b[2J", fine), `not seen, U+001B`, nil},
		"tags":             {mcpListing("t", "x\U000e0041", fine), `not seen, U+E0041`, nil},
		"zero width":       {mcpListing("t", "x\u200bx", fine), `not seen, U+200B`, nil},
		"hidden in schema": {typed(`"properties":{"a":{"description":"\u202e"}}`), `has a tool "t" whose schema has a character that is not seen, U+202E`, nil},
		"no object":        {mcpListing("t", "", `{"type":"string"}`), `whose schema is not of type object`, nil},
		"no schema":        {mcpListing("t", "", `true`), `whose schema is no JSON object`, nil},
		"large schema":     {typed(`"description":"` + strings.Repeat("x", 70000) + `"`), `65536 are the limit`, nil},
		"wrong pattern":    {typed(`"properties":{"a":{"pattern":"(?=x)"}}`), `whose schema cannot be resolved: `, nil},
		"far away":         {typed(`"properties":{"a":{"$ref":"http://schemas.example/a"}}`), `refers to "http://schemas.example/a"; only #/$defs/… is supported`, nil},
		"other case":       {typed(`"properties":{"a":{"$REF":"http://schemas.example/a"}}`), `refers to "http://schemas.example/a"`, nil},
		"itself":           {typed(`"$ref":"#"`), `refers to "#"; only`, nil},
		"round":            {typed(`"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"items":{"$ref":"#/$defs/a"}}}`), `refers to itself by "#/$defs/`, nil},
		"missing":          {typed(`"$ref":"#/$defs/a"`), `refers to "#/$defs/a", which is not there`, nil},
		"dynamic":          {typed(`"$dynamicRef":"#/$defs/a"`), `uses $dynamicRef, which is not supported`, nil},
		"another base":     {typed(`"properties":{"a":{"$id":"http://schemas.example/a"}}`), `uses $id, which is not supported`, nil},
		"doubling":         {mcpListing("t", "", doubling(40)), `is larger than 4096 parts, with what it refers to`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcpBinary(t, "mcp-raw", "lists", tt.list)
			s.Only = tt.only
			if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := mcpBinary(t, "mcp-raw", "endless").Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "lists its tools on more than 64 pages") {
		t.Errorf("%v", err)
	}
	mute := mcpBinary(t, "mcp-raw", "mute")
	mute.StartTimeout = 500_000_000
	if _, err := mute.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "did not list its tools within 500ms") {
		t.Errorf("%v", err)
	}
	if _, err := (Server{Name: "srv", Command: []string{"/bin/sh", "-c", "echo no such module >&2; exit 1"}}).Tools(t.Context()); err == nil ||
		!strings.HasSuffix(err.Error(), `; it wrote to standard error: "no such module"`) {
		t.Errorf("%v", err)
	}
	// What is left out need not be fit.
	s := mcpBinary(t, "mcp-raw", "lists", `{"tools":[{"name":"bad","inputSchema":{"type":"array"}},{"name":"good","inputSchema":`+doubling(5)+`}]}`)
	s.Only = []string{"good"}
	tool := mcpNamed(t, s)["srv__good"]
	for args, fits := range map[string]bool{`{"a":"text"}`: true, `{"a":5}`: false} {
		if _, err := admits(tool, []byte(args)); (err == nil) != fits {
			t.Errorf("%s: %v", args, err)
		}
	}
	if want := "The tool \"good\" of the server \"srv\"."; tool.Spec().Description != want {
		t.Errorf("%q", tool.Spec().Description)
	}
}

// FuzzMCPName: whatever a server calls its tool, endpoints take the name.
func FuzzMCPName(f *testing.F) {
	for _, seed := range []string{"", "add", "a b", "ä\x00\xff", strings.Repeat("x", 100), "../../etc"} {
		f.Add(seed)
	}
	fit := regexp.MustCompile(`^s__[a-zA-Z0-9_-]{0,61}$`)
	f.Fuzz(func(t *testing.T, remote string) {
		if name := toolName("s", remote); !fit.MatchString(name) {
			t.Errorf("%q", name)
		}
	})
}

// FuzzMCPResult: whatever a server answers becomes text that can be recorded.
func FuzzMCPResult(f *testing.F) {
	for _, seed := range []string{`{}`, `{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"image","data":"AAAA","mimeType":"\u0000"}],"isError":true}`,
		`{"content":[{"type":"resource_link","uri":"https://a.example/\u202e","name":"n"}]}`, `{"content":[{"type":"resource","resource":{"uri":"x","text":"\ud800"}}]}`,
		`{"structuredContent":{"a":[1e999,null]},"content":[]}`, `{"content":[null]}`, `{"inputRequests":{"a":{}}}`, `{"content":[{"type":"tool_result","content":[]}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r mcp.CallToolResult
		if r.UnmarshalJSON(data) != nil {
			return
		}
		out := outputOf(&r)
		if !utf8.ValidString(out.Document) || !utf8.ValidString(out.Shown) || len(out.Document) > tools.MaxDocument || utf8.RuneCountInString(out.Shown) > tools.PageRunes+200 || out.Shown == "" {
			t.Errorf("%q", out.Shown)
		}
		for _, u := range out.URLs {
			if _, err := web.ParseURL(u.URL); err != nil || u.Status != 0 {
				t.Errorf("%+v: %v", u, err)
			}
		}
	})
}

// FuzzMCPSchema: a schema that is taken is done with soon, whatever it says.
func FuzzMCPSchema(f *testing.F) {
	for _, seed := range []string{`{"type":"object"}`, doubling(3), `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`, `{"type":"object","properties":{"$ref":{"type":"string"}}}`,
		`{"type":"object","definitions":{"a":{}},"allOf":[{"$ref":"#/definitions/a"}]}`, `{"type":"object","$anchor":"x","$ref":"#x"}`, `{"type":"object","$recursiveRef":"#"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var schema any
		if json.Unmarshal(data, &schema) != nil {
			return
		}
		b, err := parameters(schema)
		if err != nil {
			return
		}
		resolved, err := resolveSchema(b)
		if err != nil {
			t.Fatalf("what was taken cannot be resolved: %v", err)
		}
		_ = resolved.Validate(map[string]any{"a": map[string]any{"a": []any{"x", 1.5, nil}}, "b": "text"})
	})
}

// TestMCPComparisons: arguments that would be held against a schema for long are
// refused before that.
func TestMCPComparisons(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"x":{"type":"array","items":{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 1300) + `{}]}}}}`,
		`{"type":"object","properties":{"x":{"type":"array","items":{"enum":[` + strings.Repeat(`"a",`, 3900) + `"b"]}}}}`,
	} {
		resolved, err := resolveSchema([]byte(schema))
		must(t, err)
		tool := (&planned{}).tool(listedTool{name: "srv__do", schema: schema}, resolved)
		if _, err := admits(tool, []byte(`{"x":[`+strings.Repeat("0,", 120_000)+`0]}`)); err == nil || !strings.Contains(err.Error(), "too many values") {
			t.Errorf("%v", err)
		}
		if _, err := admits(tool, []byte(`{"x":["a"]}`)); err != nil {
			t.Errorf("one value: %v", err)
		}
	}
}
