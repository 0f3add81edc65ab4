package main

import (
	"encoding/json"
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
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
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
	t.Parallel()
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
	source, err := os.ReadFile("../../tools/mcp/testdata/mcpserver.py")
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
	write("network.yaml", settings+"  network: host\n")
	write("npx.yaml", "mcp:\n- name: plain\n  command: [npx, -y, plain]\n  start_timeout: 2s\n")

	out := p.want(exit.Incomplete, "run", "--submit-intent", "--settings", "mcp.yaml", "--dataset", "dir:data", "--base-url", front.URL+"/v1", "--model", "m",
		"--max-task-cost", "off", "--task", "fab1e001-0000-4000-8000-000000000001")
	if strings.Contains(out, "there is no sandbox") {
		t.Skipf("this machine has no sandbox: %s", out)
	}
	if !strings.Contains(out, " --settings mcp.yaml ") {
		t.Errorf("run says:\n%s", out)
	}
	again := []string{"resume", p.runDir(), "--dataset", "dir:data", "--base-url", front.URL + "/v1"}
	if out := p.want(exit.Usage, again...); !strings.Contains(out, "planned with MCP servers") || !strings.Contains(out, "hint: give the file that the run was started with as --settings") {
		t.Errorf("resume says:\n%s", out)
	}
	if out := p.want(exit.Failure, append(again, "--settings", "less.yaml")...); !strings.Contains(out, "cannot go on with another plan: tools differ: plain__") {
		t.Errorf("resume says:\n%s", out)
	}
	if out := p.want(exit.Usage, append(again, "--settings", "network.yaml")...); !strings.Contains(out, `the MCP server "plain" would have the network`) {
		t.Errorf("resume says:\n%s", out)
	}
	networked := []string{"run", "--settings", "network.yaml", "--limit", "1", "--out", "others"}
	if out := p.want(exit.Usage, append(networked, "--submit-intent")...); !strings.Contains(out, `the MCP server "plain" would have the network, and nothing records what it reaches, so such a run cannot be submitted`) ||
		!strings.Contains(out, "gaia: hint: leave out --submit-intent, or 'network: host'") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, networked...); !strings.Contains(out, `gaia: warning: the MCP server "plain" has the network: nothing records what it reaches, and the run will not be submittable`) {
		t.Errorf("run says:\n%s", out)
	}
	runs, err := filepath.Glob(filepath.Join(p.dir, "others", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%q, %v", runs, err)
	}
	if out := p.want(exit.Findings, "audit", runs[0]); !strings.Contains(out, "an unrecorded channel: the server mcp:plain had the network, and what it reached is not in the journal") {
		t.Errorf("audit says:\n%s", out)
	}
	if out := p.want(exit.OK, "run", "--like", runs[0], "--settings", "mcp.yaml", "--out", "again"); !strings.Contains(out, `plain__echo of mcp:plain has the network "none" instead of "host"`) {
		t.Errorf("run says:\n%s", out)
	}
	if _, err := exec.LookPath("npx"); err == nil {
		if out := p.want(exit.Usage, "run", "--settings", "npx.yaml", "--out", "none"); !strings.Contains(out, "gaia: hint: npx fetches programs, and the sandbox has no network: ") {
			t.Errorf("run says:\n%s", out)
		}
	}
	refuse.Store(false)
	p.want(exit.OK, append(again, "--settings", "mcp.yaml")...)
	journal, err := os.ReadFile(filepath.Join(p.runDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tool_executed"`, `"head":"said by the server"`, `"name":"plain__echo"`} {
		if !strings.Contains(string(journal), want) {
			t.Errorf("the journal does not hold %s", want)
		}
	}
	p.want(exit.OK, "verify", p.runDir())
}

// TestPlanHoldsNoSecret: a plan is refused that would tell a secret, by what a server
// calls its tools or says of them or by a policy, and nothing of the run is made.
func TestPlanHoldsNoSecret(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("there is no /usr/bin/python3 on this machine to run a server with")
	}
	source, err := os.ReadFile("../../tools/mcp/testdata/mcpserver.py")
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
			args := []string{"run", "--dataset", "dir:data", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--max-task-cost", "off"}
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
				out := p.want(exit.Usage, append(append(args, tt.flags...), dry...)...)
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
