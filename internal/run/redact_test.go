package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
)

// planted is an invented credential as it stands in text, and as it may stand in
// a URL, if it can be known there.
type planted struct{ name, text, secret, inURL string }

// credentials returns those that trajectory's own tests plant, one of every
// shape at least, and the value of a secret-named setting.
func credentials(t *testing.T) []planted {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "secret", "testdata", "credentials.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := []planted{{"value of a setting", "the key is " + settingValue + ".", settingValue, settingValue}}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // a comment
		}
		text := strings.NewReplacer("·", "", `\n`, "\n").Replace(fields[2])
		_, rest, _ := strings.Cut(text, "«")
		secret, _, _ := strings.Cut(rest, "»")
		p := planted{name: fields[0] + ", " + fields[1], text: strings.NewReplacer("«", "", "»", "").Replace(text), secret: secret}
		if p.text == secret && !strings.Contains(secret, "\n") { // others are known by what stands around them
			p.inURL = secret
		}
		all = append(all, p)
	}
	if len(all) < 30 {
		t.Fatalf("only %d credentials", len(all))
	}
	return all
}

// settingValue has no published shape; only its setting tells that it is secret.
const settingValue = "4711-lighthouse-keeper/0815=="

// leaky is an endpoint and a page that repeat a credential wherever they can.
type leaky struct {
	mu    sync.Mutex
	p     planted
	asked int
	fail  bool // refuse every request of the model
}

func (l *leaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/page?token="+url.QueryEscape(l.p.inURL))
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "The harbour board.\n%s\nThe tolls of 1904.\n", l.p.text)
		return
	}
	l.mu.Lock()
	l.asked++
	n := l.asked
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if l.fail || n == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		writeJSON(w, map[string]any{"error": map[string]any{"message": "no worker for " + l.p.text, "type": "overloaded", "code": "code " + l.p.text}})
		return
	}
	message := map[string]any{"role": "assistant", "content": "I have " + l.p.text + "\n\nFINAL ANSWER: " + l.p.text}
	if n == 2 {
		message = map[string]any{"role": "assistant", "content": "I try " + l.p.text, "tool_calls": l.calls()}
	}
	writeJSON(w, map[string]any{"id": "id " + l.p.text, "model": "model " + l.p.text,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}}})
}

// calls has the credential in arguments, in names of arguments, in arguments
// that are no JSON, in addresses, in the name of a file and of a tool, and in
// a call's id. The page has it in its text, and a redirect's target.
func (l *leaky) calls() []any {
	text := l.p.text
	query := "http://harbour.example/page?key=" + url.QueryEscape(l.p.inURL)
	var calls []any
	for i, c := range []struct {
		id, name string
		args     any
	}{
		{"page", "web_fetch", map[string]any{"url": "http://harbour.example/page"}},
		{"query", "web_fetch", map[string]any{"url": query}},
		{"moved", "web_fetch", map[string]any{"url": "http://harbour.example/moved"}},
		{"gone", "web_fetch", map[string]any{"url": "http://nowhere.example/key:" + url.PathEscape(l.p.inURL)}},
		{"no address", "web_fetch", map[string]any{"url": text}},
		{"no file", "read_file", map[string]any{"path": text + ".txt"}},
		{"unfit", "calculate", map[string]any{"expression": text}},
		{"unknown argument", "calculate", map[string]any{text: text}},
		{"not text", "calculate", map[string]any{"expression": []any{text}}},
		{"broken", "calculate", nil},
		{"unknown tool", "tool " + text, map[string]any{}},
		{"id " + text, "list_files", map[string]any{}},
	} {
		args, _ := json.Marshal(c.args)
		if c.args == nil {
			args = []byte(`{"expression": "` + text)
		}
		calls = append(calls, map[string]any{"index": i, "id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": string(args)}})
	}
	return calls
}

func writeJSON(w http.ResponseWriter, v any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // a test that misses an answer fails for it
}

// TestNoCredentialIsWritten plants a credential of every shape in everything
// that comes from outside, and looks for it in every file of the run.
func TestNoCredentialIsWritten(t *testing.T) {
	for _, p := range credentials(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, fail := range []bool{false, true} {
				c := config(t, goldenTask)
				l := &leaky{p: p, fail: fail}
				server := httptest.NewServer(l)
				defer server.Close()
				client := llm.New(llm.Config{BaseURL: server.URL, MaxTries: 2, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
				c.env.Model, c.plan.SubmitIntent = client, false // no one reports usage
				fetcher := web.New(web.Config{Offline: true, Exceptions: map[string]string{"harbour.example:80": server.Listener.Addr().String()}})
				c.env.Tools = []tools.Tool{document.NewReadFile(document.Reader{}), tools.NewListFiles(), tools.NewCalculate(), web.NewWebFetch(fetcher)}
				c.env.Redact = trajectory.NewRedactor([]string{settingValue})
				counted := map[trajectory.Type]int{}
				outcome := ""
				c.env.Watch = func(e trajectory.Event) {
					counted[e.Payload.Type()] += redactions(e.Payload)
					if ended, ok := e.Payload.(trajectory.AttemptEnded); ok {
						outcome = ended.Outcome
					}
				}
				r, err := Create(t.TempDir(), c.plan, c.env)
				if err != nil {
					t.Fatal(err)
				}
				err = r.Execute(context.Background(), nil)
				r.Close()
				if stop := (*StopError)(nil); errors.As(err, &stop) != fail || !fail && err != nil || fail && strings.Contains(err.Error(), p.secret) {
					t.Errorf("the run ended with %v", err)
				}
				absent(t, r.Dir, p.secret)
				if fail {
					if outcome != trajectory.Errored {
						t.Errorf("the attempt ended as %q", outcome)
					}
					continue
				}
				if outcome != trajectory.Answered {
					t.Errorf("the attempt ended as %q", outcome)
				}
				for _, kind := range []trajectory.Type{trajectory.TypeContextCompiled, trajectory.TypeModelCallCompleted, trajectory.TypeToolProposed, trajectory.TypeToolExecuted, trajectory.TypeAnswerCommitted} {
					if counted[kind] == 0 {
						t.Errorf("no redaction is counted in %s", kind)
					}
				}
				want := 2
				if strings.HasPrefix(p.text, "key\n") {
					want = 1 // an answer is one line
				}
				if n := counted[trajectory.TypeAnswerCommitted]; n != want {
					t.Errorf("%d redactions in the answer and its reasoning, want %d", n, want)
				}
			}
		})
	}
}

func redactions(p trajectory.Payload) int {
	switch p := p.(type) {
	case trajectory.ContextCompiled:
		return p.Redactions
	case trajectory.ModelCallCompleted:
		return p.Redactions
	case trajectory.ToolProposed:
		return p.Redactions
	case trajectory.ToolExecuted:
		return p.Redactions
	case trajectory.AnswerCommitted:
		return p.Redactions
	}
	return 0
}

// absent looks for a secret, as it is and as it stands in JSON and in a URL, in
// every file of a run directory but the workspaces, which are inputs.
func absent(t *testing.T, dir, secret string) {
	t.Helper()
	inJSON, _ := json.Marshal(secret)
	forms := []string{secret, string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(secret), url.PathEscape(secret)}
	if lines := strings.Split(secret, "\n"); len(lines) > 1 {
		forms = append(forms, lines[1]) // of a private key, the key
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == runfiles.WorkDir {
			return cmp.Or(err, fs.SkipDir)
		}
		if d.IsDir() {
			return nil
		}
		files++
		data, err := os.ReadFile(path)
		for _, form := range forms {
			if at := bytes.Index(data, []byte(form)); at >= 0 {
				t.Errorf("%s holds %q: …%s", d.Name(), form, data[max(0, at-200):min(len(data), at+len(form)+20)])
				return err
			}
		}
		return err
	})
	if err != nil || files < 7 {
		t.Errorf("%d files, %v", files, err)
	}
}
