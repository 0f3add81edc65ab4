package external

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goAgents are agents that the test binary is, in the sandbox.
var goAgents = map[string]func() error{"mcp": mcpAgent, "mcp-raw": rawAgent, "calls": callsAgent, "fetch": fetchAgent, "leave": leaveAgent, "early": earlyAgent, "mcp-forever": foreverAgent}

// mcpAgent calls tools over MCP, as the library's client does, and a model, all in parallel.
func mcpAgent() error {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Getenv("GAIA_MCP_URL")}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	if len(list.Tools) != 4 || list.Tools[1].Name != "calculate" || list.Tools[1].Description == "" {
		return fmt.Errorf("the tools are %+v", list.Tools)
	}
	call := func(name string, args any) (string, bool, error) {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return "", false, err
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError, nil
	}
	var all sync.WaitGroup
	errs := make(chan error, 24)
	for i := range 8 {
		all.Go(func() {
			want := fmt.Sprintf("%d + 1 = %d", i, i+1)
			if text, isError, err := call("calculate", map[string]any{"expression": fmt.Sprintf("%d + 1", i)}); err != nil || isError || text != want {
				errs <- fmt.Errorf("calculate: %q, %v, %v", text, isError, err)
			}
			if status, text, err := send("POST", os.Getenv("OPENAI_BASE_URL")+"/chat/completions", fmt.Sprintf(`{"model":"model-a","messages":[{"role":"user","content":"hello %d"}]}`, i)); err != nil || status != 200 {
				errs <- fmt.Errorf("the model: %d, %q, %v", status, text, err)
			}
			if text, isError, err := call("note", map[string]any{"text": fmt.Sprint(i)}); err != nil || isError {
				errs <- fmt.Errorf("note: %q, %v, %v", text, isError, err)
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return <-errs
	}
	if text, isError, err := call("nothing", nil); err != nil || !isError || !strings.Contains(text, `there is no tool "nothing"`) {
		return fmt.Errorf("an unknown tool: %q, %v, %v", text, isError, err)
	}
	notes, err := os.ReadFile("notes")
	if err != nil {
		return err
	}
	_, _, err = call("submit_answer", map[string]any{"answer": fmt.Sprint(bytes.Count(notes, []byte("\n")))})
	return err
}

// foreverAgent calls a tool over MCP until it is killed.
func foreverAgent() error {
	for {
		_, _, _ = send("POST", os.Getenv("GAIA_MCP_URL"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{"text":"x"}}}`,
			"Content-Type", "application/json", "Accept", "*/*")
	}
}

// send sends a request and returns the status and the body of the answer.
func send(method, url, body string, header ...string) (int, string, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), err
}

// rawAgent speaks MCP as other clients do: each protocol version, a stream that they ask for, a session that they end.
func rawAgent() error {
	url := os.Getenv("GAIA_MCP_URL")
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
		initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"other","version":"1"}}}`
		status, text, err := send("POST", url, initialize, header...)
		if err != nil || status != 200 || !strings.Contains(text, `"protocolVersion":"`+version+`"`) || !strings.Contains(text, `"tools":{`) {
			return fmt.Errorf("%s: initialize: %d %s %v", version, status, text, err)
		}
		if version != "2024-11-05" {
			header = append(header, "MCP-Protocol-Version", version)
		}
		if status, text, err = send("POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...); err != nil || status != 202 {
			return fmt.Errorf("%s: initialized: %d %s %v", version, status, text, err)
		}
		for _, method := range []string{"GET", "DELETE"} { // both mean that there is no such thing here
			if status, text, err = send(method, url, "", header...); err != nil || status != 405 {
				return fmt.Errorf("%s: %s: %d %s %v", version, method, status, text, err)
			}
		}
		for _, c := range []struct{ request, want string }{
			{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"name":"calculate"`},
			{`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `"result":{}`},
			{`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"calculate","arguments":{"expression":"6*7"},"_meta":{"progressToken":1}}}`, `6*7 = 42`},
			{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_files"}}`, `QUESTION.md`},
			{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"calculate","arguments":{"expression":1}}}`, `"isError":true`},
			{`{"jsonrpc":"2.0","id":6,"method":"tools/call"}`, `missing required "params"`},
			{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":null}`, `"error":`},
			{`{"jsonrpc":"2.0","id":8,"method":"resources/list"}`, `"jsonrpc":"2.0"`},
			{`{"jsonrpc":"2.0","id":9,"method":"prompts/list","params":{}}`, `"jsonrpc":"2.0"`},
			{`{"jsonrpc":"2.0","id":10,"method":"none"}`, `unsupported`},
		} {
			if status, text, err = send("POST", url, c.request, header...); err != nil || !strings.Contains(text, c.want) {
				return fmt.Errorf("%s: %s: %d %s %v", version, c.request, status, text, err)
			}
		}
		for _, body := range []string{``, `{`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`} {
			if status, text, err = send("POST", url, body, header...); err != nil || status >= 500 {
				return fmt.Errorf("%s: %q: %d %s %v", version, body, status, text, err)
			}
		}
	}
	// A client of a later version learns which there are, and falls back.
	newer := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`
	status, text, err := send("POST", url, newer, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
	if err != nil || !strings.Contains(text, `"2025-11-25"`) {
		return fmt.Errorf("a newer version: %d %s %v", status, text, err)
	}
	return os.WriteFile("ANSWER", []byte("spoken"), 0o600)
}

// callsAgent makes 10,000 tool calls.
func callsAgent() error {
	var all sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		all.Go(func() {
			for range 2500 {
				if _, _, err := send("POST", os.Getenv("GAIA_TOOLS_URL")+"/calculate", `{"expression":"1+1"}`); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return <-errs
	}
	return os.WriteFile("ANSWER", []byte("done"), 0o600)
}

// endless sends a stream that goes on when the socket of the attempt is closed.
func endless(b *bench) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		chunk := func(text, reason string) {
			fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"model-a-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", text, reason)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk("the answer", "null")
		for open := true; open; time.Sleep(10 * time.Millisecond) {
			sockets, _ := filepath.Glob(filepath.Join(b.SocketDir, "s*", "s"))
			open = len(sockets) > 0
		}
		for range 20 {
			chunk(" is", "null")
			time.Sleep(10 * time.Millisecond)
		}
		chunk(" 42", `"stop"`)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// leaveAgent begins to read a stream and ends.
func leaveAgent() error {
	a, err := http.Post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", "application/json",
		strings.NewReader(`{"model":"model-a","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return err
	}
	if _, err := a.Body.Read(make([]byte, 1)); err != nil {
		return err
	}
	return os.WriteFile("ANSWER", []byte("gone"), 0o600)
}
