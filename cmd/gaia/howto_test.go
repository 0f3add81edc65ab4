package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/pages"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/tidwall/gjson"
)

// provider is how an endpoint of docs/howto-endpoints.md differs from the scripted model, as it documents itself.
type provider struct {
	key     bool                                // it refuses requests without a key
	name    string                              // of the model in replies; "" is the one that was asked for
	change  func(request, reply map[string]any) // the reply that is sent
	refuses func(body gjson.Result) string      // the body of an error with status 400; "" if the request is taken
}

var providers = map[string]provider{
	"http://localhost:8000/v1": {refuses: func(body gjson.Result) string { // vLLM
		if body.Get("max_tokens").Int() > 8192 {
			return `{"error":{"message":"'max_tokens' is too large","type":"BadRequestError","param":null,"code":400}}`
		}
		return ""
	}},
	"http://localhost:8080/v1": {refuses: func(body gjson.Result) string { // llama.cpp
		for _, m := range body.Get("messages").Array() {
			if m.Get("content").Type == gjson.Null {
				return `{"error":{"code":400,"message":"Missing 'content'","type":"invalid_request_error"}}`
			}
		}
		return ""
	}},
	"http://localhost:11434/v1": {}, // Ollama
	"http://localhost:4000/v1":  {key: true},
	"https://openrouter.ai/api/v1": {key: true, change: func(_, reply map[string]any) {
		reply["provider"] = "Anthropic"
		reply["usage"].(map[string]any)["cost"] = 0.25
	}},
	"https://NAME.openai.azure.com/openai/v1": {key: true, name: "gpt-4o-2024-11-20", change: func(_, reply map[string]any) {
		reply["prompt_filter_results"] = []any{map[string]any{"prompt_index": 0, "content_filter_results": map[string]any{}}}
	}},
	"https://api.anthropic.com/v1": {key: true, name: "claude-sonnet-4-5-20250929"},
	"https://generativelanguage.googleapis.com/v1beta/openai": {key: true, change: signCalls, refuses: func(body gjson.Result) string {
		for _, m := range body.Get("messages").Array() {
			for _, call := range m.Get("tool_calls").Array() {
				if call.Get("extra_content.google.thought_signature").Str != "c2lnbmVk" {
					return `[{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts.","status":"INVALID_ARGUMENT"}}]`
				}
			}
		}
		return ""
	}},
}

// signCalls adds Google's signature to the calls of a reply.
func signCalls(_, reply map[string]any) {
	message := reply["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	calls, _ := message["tool_calls"].([]any)
	for _, call := range calls {
		call.(map[string]any)["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": "c2lnbmVk"}}
	}
}

// serve answers as the provider at a base URL does, by the scripted model. It returns its own base URL.
func (p provider) serve(t *testing.T, base, model string) string {
	t.Helper()
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		refuse := func(status int, body string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
		body, err := io.ReadAll(r.Body)
		key, hasKey := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case err != nil:
			refuse(500, `{"error":{"message":"unread"}}`)
			return
		case r.URL.Path != at.Path+"/chat/completions" || r.URL.RawQuery != "":
			refuse(404, `{"error":{"code":"404","message":"Resource not found"}}`)
			return
		case p.key && (!hasKey || key != "the-key"):
			refuse(401, `{"error":{"code":"401","message":"Access denied"}}`)
			return
		}
		if p.refuses != nil {
			if wrong := p.refuses(gjson.ParseBytes(body)); wrong != "" {
				refuse(400, wrong)
				return
			}
		}
		var request, reply map[string]any
		err = json.Unmarshal(body, &request)
		asked := fmt.Sprint(request["model"])
		request["model"] = fixtures.Model
		sent, _ := json.Marshal(request)
		res, failed := http.Post(model+"/chat/completions", "application/json", bytes.NewReader(sent))
		if err != nil || failed != nil {
			refuse(502, `{"error":{"message":"no model"}}`)
			return
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&reply); err != nil || res.StatusCode != 200 {
			refuse(502, `{"error":{"message":"no reply"}}`)
			return
		}
		if reply["model"] = asked; p.name != "" {
			reply["model"] = p.name
		}
		if p.change != nil {
			p.change(request, reply)
		}
		_ = json.NewEncoder(w).Encode(reply)
	}))
	t.Cleanup(s.Close)
	return s.URL + at.Path
}

// TestEndpointsPage runs each doctor line of docs/howto-endpoints.md, first as it stands, without a request, and then
// against a server that behaves as the endpoint documents.
func TestEndpointsPage(t *testing.T) {
	model, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	page := pages.Read(t, root(t), "docs/howto-endpoints.md")
	p := newPatient(t)
	p.env["OPENAI_API_KEY"] = "the-key"
	t.Chdir(t.TempDir())
	if err := os.CopyFS("data", fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, b := range page.Blocks {
		if b.Info == "json" {
			if err := os.WriteFile("prices.json", []byte(b.Text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range page.Blocks {
		for _, words := range shellCommands(b.Text) {
			args, is := gaiaArgs(words)
			if !is || args[0] != "doctor" {
				continue
			}
			at := slices.Index(args, "--base-url") + 1
			if at == 0 {
				t.Fatalf("no base URL: %q", args)
			}
			base := args[at]
			t.Run(base, func(t *testing.T) {
				provider, known := providers[base]
				if tried[base] = true; !known {
					t.Fatal("this test has no such endpoint")
				}
				args := append(args[1:], "--dataset", "dir:data")
				for name, f := range p.findings(append(args, "--no-call")...) {
					if f.State == doctor.Failed {
						t.Errorf("%s: %s", name, f.Detail)
					}
				}
				args[at-1] = provider.serve(t, base, model.ModelURL)
				if f := p.findings(args...)["model"]; f.State != doctor.OK || !strings.Contains(f.Detail, "calls tools") {
					t.Errorf("model: %s: %s", f.State, f.Detail)
				}
			})
		}
	}
	if len(tried) != len(providers) {
		t.Errorf("tried only %v", tried)
	}
}

// TestMCPPageInterop installs the servers of docs/howto-mcp.md as the page says, with the folder GAIA_MCP as home, if they
// are not there yet. It starts them, and looks at what the page says of them.
func TestMCPPageInterop(t *testing.T) {
	home := os.Getenv("GAIA_MCP")
	if home == "" {
		t.Skip("SKIPPED: there is no folder for MCP servers: run make interop, or set GAIA_MCP")
	}
	if _, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: equip.OnPath("bwrap")}); err != nil {
		t.Skipf("SKIPPED: no server runs in the sandbox: %v", err)
	}
	page := pages.Read(t, root(t), "docs/howto-mcp.md")
	p := newProgram(t)
	p.env = append(p.env, "PATH="+os.Getenv("PATH"))
	for _, b := range page.Blocks {
		switch b.Info {
		case "sh needs-network":
			if _, err := os.Stat(filepath.Join(home, "mcp/notes/mill.txt")); err == nil {
				continue
			}
			install := exec.Command("sh", "-ec", b.Text)
			install.Env = append(os.Environ(), "HOME="+home)
			if out, err := install.CombinedOutput(); err != nil {
				t.Skipf("SKIPPED: the servers cannot be installed, so they are not started: %v\n%s", err, out)
			}
		case "yaml":
			if err := os.WriteFile(filepath.Join(p.dir, "gaia.yaml"), []byte(strings.ReplaceAll(b.Text, "/home/me", home)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := p.want(exit.OK, "doctor")
	for _, b := range page.Blocks {
		if b.Info == "text" && !strings.Contains(out, strings.TrimRight(b.Text, "\n")) {
			t.Errorf("doctor says:\n%s", out)
		}
	}
}
