package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/tools"
)

// asksServer is an endpoint whose model calls one tool, and answers with what
// the tool said. It refuses the key once if it is told to.
func asksServer(t *testing.T, tool, args string, refuse *atomic.Bool) *httptest.Server {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if refuse.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"the key is not valid","type":"invalid_request_error","code":"invalid_api_key"}}`)
			return
		}
		var asked struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		message := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
			map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": tool, "arguments": args}}}}
		finish := "tool_calls"
		if last := asked.Messages[len(asked.Messages)-1]; last.Role == "tool" {
			message, finish = map[string]any{"role": "assistant", "content": "FINAL ANSWER: " + last.Content}, "stop"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "x", "object": "chat.completion", "model": "m", "usage": map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}}})
	}))
	t.Cleanup(ts.Close)
	return ts
}

// TestMCPRun: the model calls the tool of a server in the sandbox through the
// Gate, and a run goes on only with the servers that it was planned with.
func TestMCPRun(t *testing.T) {
	for _, name := range []string{"bwrap", "/usr/bin/python3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s on this machine, so no server runs in the sandbox", name)
		}
	}
	var refuse atomic.Bool
	refuse.Store(true)
	front := asksServer(t, "plain__echo", `{"text":"said by the server"}`, &refuse)
	p := newProgram(t)
	p.env = append(p.env, "PATH="+os.Getenv("PATH"))
	source, err := os.ReadFile("../../tools/testdata/mcpserver.py")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "servers"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("servers/plain.py", string(source))
	settings := fmt.Sprintf("mcp:\n- name: plain\n  command: [/usr/bin/python3, %q]\n  folders: [servers]\n", filepath.Join(p.dir, "servers/plain.py"))
	write("mcp.yaml", settings)
	write("less.yaml", settings+"  tools: [echo]\n")

	out := p.want(exitIncomplete, "run", "--submit-intent", "--settings", "mcp.yaml", "--source", "dir:data", "--base-url", front.URL+"/v1", "--model", "m",
		"--max-task-cost", "off", "--task", "fab1e001-0000-4000-8000-000000000001")
	if strings.Contains(out, "there is no sandbox") {
		t.Skipf("this machine has no sandbox: %s", out)
	}
	if !strings.Contains(out, " --settings mcp.yaml ") {
		t.Errorf("run says:\n%s", out)
	}
	again := []string{"resume", p.runDir(), "--source", "dir:data", "--base-url", front.URL + "/v1"}
	if out := p.want(exitUsage, again...); !strings.Contains(out, "planned with MCP servers") || !strings.Contains(out, "hint: give the file that the run was started with as --settings") {
		t.Errorf("resume says:\n%s", out)
	}
	if out := p.want(exitFailure, append(again, "--settings", "less.yaml")...); !strings.Contains(out, "cannot go on with another plan: tools differ: plain__") {
		t.Errorf("resume says:\n%s", out)
	}
	refuse.Store(false)
	p.want(exitOK, append(again, "--settings", "mcp.yaml")...)
	journal, err := os.ReadFile(filepath.Join(p.runDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tool_executed"`, `"head":"said by the server"`, `"name":"plain__echo"`} {
		if !strings.Contains(string(journal), want) {
			t.Errorf("the journal does not hold %s", want)
		}
	}
	p.want(exitOK, "verify", p.runDir())
}

// TestPlanHoldsNoSecret: a plan is refused that would tell a secret, by what a server
// calls its tools or says of them or by a policy, and nothing of the run is made.
func TestPlanHoldsNoSecret(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("there is no /usr/bin/python3 on this machine to run a server with")
	}
	source, err := os.ReadFile("../../tools/testdata/mcpserver.py")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"OPENAI_API_KEY": "canary-model-4711", "HF_TOKEN": "canary-hub-token-4711", "TAVILY_API_KEY": "canary-search-4711"}
	for name, tt := range map[string]struct {
		old, new string // in the server
		policy   string
		flags    []string
		where    string
	}{
		"description":  {"Says a text again.", "Says canary-model-4711 again.", "", nil, `the description of the tool "plain__echo" of mcp:plain`},
		"name":         {`"echo"`, `"echo_canary-search-4711"`, "", nil, `the name of the tool "plain__echo_[redacted]" of mcp:plain`},
		"argument":     {`"properties": {"text"`, `"properties": {"canary-hub-token-4711": {"type": "string"}, "text"`, "", nil, `the arguments of the tool "plain__echo" of mcp:plain`},
		"a key":        {"Says a text again.", "Says sk-proj-4fK9sLq2Zx81BvTnYw37Rc again.", "", nil, `the description of the tool "plain__echo" of mcp:plain`},
		"policy":       {"", "", "mode: autonomous\nanswer_sources: [answers.example/canary-hub-token-4711]\n", nil, "policy.answer_sources[0]"},
		"approval":     {"", "", "", []string{"--approve", "plain__canary-search-4711"}, "approved[0]"},
		"another name": {"", "", "", []string{"--served-as", "canary-model-4711"}, "model.served_as[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			for variable, value := range secrets {
				p.env = append(p.env, variable+"="+value)
			}
			if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
				t.Fatal(err)
			}
			args := []string{"run", "--source", "dir:data", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--max-task-cost", "off"}
			for file, text := range map[string]string{"plain.py": strings.Replace(string(source), tt.old, tt.new, 1), "policy.yaml": tt.policy,
				"mcp.yaml": fmt.Sprintf("mcp:\n- name: plain\n  command: [%q, %q]\n  sandbox: false\n", python, filepath.Join(p.dir, "plain.py"))} {
				if err := os.WriteFile(filepath.Join(p.dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tt.old != "" {
				args = append(args, "--settings", "mcp.yaml")
			}
			if tt.policy != "" {
				args = append(args, "--policy", "policy.yaml")
			}
			for _, dry := range [][]string{nil, {"--dry-run"}} {
				out := p.want(exitUsage, append(append(args, tt.flags...), dry...)...)
				if !strings.Contains(out, "gaia: error: the plan would hold a secret in "+tt.where+"\n") || !strings.Contains(out, "gaia: hint: ") ||
					strings.Contains(out, "canary-") || strings.Contains(out, "4fK9") {
					t.Errorf("run says:\n%s", out)
				}
			}
			if _, err := os.Stat(filepath.Join(p.dir, "runs")); err == nil {
				t.Error("there is a directory for runs")
			}
		})
	}
}

// TestUnseen: the arguments of a server that name files are looked for where the
// sandbox shows them.
func TestUnseen(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("servers", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("servers/plain.py", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	whole, folder := filepath.Join(dir, "servers/plain.py"), filepath.Join(dir, "servers")
	for name, tt := range map[string]struct {
		sandbox *tools.Sandbox
		folders []string
		args    []string
		want    string
	}{
		"not given":   {&tools.Sandbox{}, nil, []string{whole}, "the sandbox does not show it " + quoteArg(whole) + ": put its folder into folders, and give " + quoteArg(whole)},
		"by a part":   {&tools.Sandbox{}, []string{folder}, []string{"servers/plain.py"}, "in the sandbox it is in another folder: give " + quoteArg(whole) + " in place of servers/plain.py"},
		"given":       {&tools.Sandbox{}, []string{folder}, []string{whole, "--words", "-"}, ""},
		"no file":     {&tools.Sandbox{}, nil, []string{"-m", "notes"}, ""},
		"no sandbox":  {nil, nil, []string{whole}, ""},
		"of a system": {&tools.Sandbox{}, nil, []string{"/usr/bin/env"}, ""},
	} {
		server := tools.MCPServer{Command: append([]string{"/usr/bin/python3"}, tt.args...), Folders: tt.folders, Sandbox: tt.sandbox}
		if got := unseen(server); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestMCPSettings: a mistake in the list of servers is pointed at, and no secret
// is shown.
func TestMCPSettings(t *testing.T) {
	const one = "mcp:\n- name: a\n  command: [x]\n"
	for file, want := range map[string]string{
		one:                                       "",
		"mcp: yes":                                "s.yaml:1:6: mcp is a list of servers",
		"mcp: []":                                 "s.yaml:1:6: mcp is a list of servers",
		"mcp: [x]":                                "s.yaml:1:7: this is no server",
		one + "mcp:\n- name: b\n":                 "s.yaml:4:1: mcp stands here again, after line 1",
		one + "- name: a\n  command: [y]\n":       `s.yaml:4:3: there is another server "a"`,
		"mcp:\n- command: [x]":                    "s.yaml:2:3: the server has no name",
		"mcp:\n- name: A b\n  command: [x]":       `s.yaml:2:3: "A b" is no name of a server`,
		"mcp:\n- name: a":                         `s.yaml:2:3: the server "a" has neither command nor url`,
		"mcp:\n- name: a\n  name: b":              "s.yaml:3:3: name stands here again, after line 2",
		"mcp:\n- name: a\n  command: x":           "s.yaml:3:12: command is no list of texts",
		"mcp:\n- name: a\n  command: [x, 5]":      "s.yaml:3:16: command is no text",
		one + "  sandbox: no":                     "s.yaml:4:12: sandbox is neither true nor false",
		one + "  url: https://a.example":          "s.yaml:4:3: a server with command has no url",
		one + "  headers:\n    A: B":              "s.yaml:4:3: a server with command has no headers",
		"mcp:\n- name: a\n  url: ftp://a.example": `s.yaml:3:3: the url of the server "a" cannot be asked`,
		"mcp:\n- name: a\n  url: https://me:hidden@a.example":                           `s.yaml:3:3: the url of the server "a" holds credentials, which would be recorded`,
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Host: X":            "s.yaml:5:5: the header Host is not for settings",
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Word: hush":         "s.yaml:5:11: the header Word is to have the name of a variable of the environment",
		"mcp:\n- name: a\n  url: https://a.example\n  headers:\n    Word: sk-abcdefgh1": "s.yaml:5:11: the header Word holds what looks like a key: secrets do not belong into the file",
	} {
		f, err := parseSettings("s.yaml", []byte(file))
		if err == nil {
			err = f.apply(runFlags(t), nothing)
		}
		if want == "" {
			if err != nil || len(f.servers) != 1 || f.servers[0].name != "a" {
				t.Errorf("%q: %v", file, err)
			}
			continue
		}
		var got *failure
		if !errors.As(err, &got) || got.code != exitUsage || got.Error() != want || len(got.shown) != 2 {
			t.Errorf("%q: %v", file, err)
			continue
		}
		for _, secret := range []string{"hidden", "hush", "abcdefgh1"} {
			if strings.Contains(strings.Join(got.shown, ""), secret) {
				t.Errorf("%q shows %q", file, got.shown)
			}
		}
	}
}
