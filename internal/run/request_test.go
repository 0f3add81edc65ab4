package run

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/tidwall/gjson"
)

// mostPrefix bounds the bytes of a request with all tools, without the question.
const mostPrefix = 3500

// bodies keeps the requests that it passes on.
type bodies struct {
	mu  sync.Mutex
	all [][]byte
}

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.all = append(b.all, body)
	b.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

// TestRequestPrefix: what a request has before the question is short, and the same bytes in every turn of
// every task, the last turn's included, so that an endpoint can cache it.
func TestRequestPrefix(t *testing.T) {
	tasks, sent := endpoint.Tasks{Count: 3, Turns: 5}, &bodies{}
	server := serve(t, endpoint.Config{Tasks: tasks})
	c := generated(t, tasks, server.URL, func(c *llm.Config) { c.Transport = sent })
	fetcher := web.New(web.Config{})
	c.plan.Budgets.Turns = 3
	c.env.Tools = []tools.Tool{tools.NewCalculate(), media.NewDescribeImage(nil, "m", document.Reader{}), tools.NewListFiles(),
		sandbox.NewPython(nil, sandbox.Interpreter{Version: "3.13.5"}), document.NewReadFile(document.Reader{}), media.NewTranscribe(nil, "m"),
		web.NewWebFetch(fetcher), web.NewWebSearch(fetcher, web.Engine{Name: web.SearXNG, URL: "http://s.example/search"})}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	prefix, last := "", 0
	for _, body := range sent.all {
		question := gjson.GetBytes(body, "messages.1")
		if gjson.GetBytes(body, "messages.0.role").Str != "system" || gjson.GetBytes(body, "tools.#").Int() != int64(len(c.env.Tools)) {
			continue // of the preflight
		}
		if before := string(body[:question.Index]); prefix == "" {
			prefix = before
			if n := len(body) - len(question.Raw); n > mostPrefix {
				t.Errorf("a request has %d bytes beside the question, and should have at most %d", n, mostPrefix)
			}
			t.Logf("%d bytes beside the question: %s", len(body)-len(question.Raw), body)
		} else if before != prefix {
			t.Errorf("a request begins\n%s\nand an earlier one\n%s", before, prefix)
		}
		if bytes.Contains(body, []byte(prompt.LastTurn(prompt.TurnsSpent)[:30])) {
			last++
			if gjson.GetBytes(body, "tool_choice").Str != "none" {
				t.Errorf("the last turn allows calls: %s", body)
			}
		} else if gjson.GetBytes(body, "tool_choice").Exists() {
			t.Errorf("a turn that is not the last chooses tools: %s", body)
		}
	}
	if last != tasks.Count {
		t.Errorf("%d last turns of %d tasks", last, tasks.Count)
	}
}
