package llm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tidwall/gjson"
)

var update = flag.Bool("update", false, "write what is asked and read into the dialects")

// TestDialects has a conversation with each kind of endpoint: a question, the calls it asks for and
// their results, an answer, and one request more that fails. Each file of testdata/dialects holds the
// endpoint's answers as they stand on the wire (N.answer.http), what must be sent for them
// (N.request.json), and what must be read out of them (N.response.json, N.error.json).
func TestDialects(t *testing.T) {
	paths, err := filepath.Glob("testdata/dialects/*.txtar")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d dialects: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runDialect(t, path) })
	}
}

func runDialect(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range archive.Files {
		files[f.Name] = f.Data
	}
	var config struct {
		API       string `json:"api"`
		Base      string `json:"base"`
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
	}
	if err := json.Unmarshal(files["config.json"], &config, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	want := config.Base + "/chat/completions"
	if config.API == APIResponses {
		want = config.Base + "/responses"
	}
	var steps []http.HandlerFunc
	for turn := 1; turn <= 3; turn++ {
		steps = append(steps, onWire(t, files[fmt.Sprintf("%d.answer.http", turn)], want))
	}
	e := serve(t, steps...)
	c := client(t, e, func(c *Config) { c.BaseURL, c.API, c.MaxTries = e.URL+config.Base, config.API, 1 })
	r := Request{Model: config.Model, MaxTokens: config.MaxTokens, Messages: []Message{
		{Role: "system", Content: "Answer shortly."}, {Role: "user", Content: "How many moons has Varnholm?"},
	}, Tools: []ToolSpec{
		{Name: "count_moons", Description: "counts the moons of a planet", Parameters: []byte(`{"type":"object","properties":{"planet":{"type":"string"}}}`)},
		{Name: "list_planets", Parameters: []byte(`{"type":"object","properties":{}}`)},
	}}
	got := map[string][]byte{}
	for turn := 1; turn <= 3; turn++ {
		response, err := c.Chat(context.Background(), r, &journal{})
		if e.requests() != turn {
			t.Fatalf("turn %d: %d requests, error %v", turn, e.requests(), err)
		}
		got[fmt.Sprintf("%d.request.json", turn)] = lines(e.bodies[turn-1])
		if err != nil {
			got[fmt.Sprintf("%d.error.json", turn)] = readableError(t, err)
			break
		}
		got[fmt.Sprintf("%d.response.json", turn)] = readable(t, response)
		r.Messages = append(r.Messages, response.Message)
		for i, call := range response.Message.ToolCalls {
			r.Messages = append(r.Messages, Message{Role: "tool", ToolCallID: call.ID, Content: []string{"seven", ""}[i]})
		}
		if len(response.Message.ToolCalls) == 0 {
			r.Messages = append(r.Messages, Message{Role: "user", Content: "Are you sure?"})
		}
	}
	if *update {
		rewrite(t, path, archive, got)
	}
	if len(got) != 6 {
		t.Errorf("%d requests and results", len(got))
	}
	for name, data := range got {
		if diff := cmp.Diff(string(files[name]), string(data)); diff != "" && !*update {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// onWire plays an answer as it stands, to a request for the right path.
func onWire(t *testing.T, answer []byte, path string) http.HandlerFunc {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != path || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "not what this endpoint serves", http.StatusNotFound)
			return
		}
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(body)
	}
}

// lines shows a body as it was sent, but for line breaks between its members and their elements.
func lines(body string) []byte {
	out := []byte("{\n")
	gjson.Parse(body).ForEach(func(name, value gjson.Result) bool {
		if !value.IsArray() {
			out = fmt.Appendf(out, "%s:%s,\n", name.Raw, value.Raw)
			return true
		}
		out = fmt.Appendf(out, "%s:[\n", name.Raw)
		for _, element := range value.Array() {
			out = fmt.Appendf(out, "  %s,\n", element.Raw)
		}
		out = append(bytes.TrimSuffix(out, []byte(",\n")), "],\n"...)
		return true
	})
	return append(bytes.TrimSuffix(out, []byte(",\n")), "}\n"...)
}

// readable shows a response, what is opaque of it as JSON.
func readable(t *testing.T, r Response) []byte {
	t.Helper()
	type call struct {
		ID, Name, Arguments string
		Opaque              jsontext.Value
	}
	var calls []call
	for _, c := range r.Message.ToolCalls {
		calls = append(calls, call{c.ID, c.Name, c.Arguments, c.Opaque})
	}
	return indented(t, struct {
		Role, Content                                       string
		Opaque                                              jsontext.Value
		ToolCalls                                           []call
		FinishReason, RequestID, ResponseModel, Fingerprint string
		Channels                                            []string
		Usage                                               Usage
		CostMicroUSD                                        *int64
	}{
		r.Message.Role, r.Message.Content, r.Message.Opaque, calls, r.FinishReason, r.RequestID, r.ResponseModel, r.Fingerprint,
		r.Channels, r.Usage, r.CostMicroUSD,
	})
}

func readableError(t *testing.T, err error) []byte {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	return indented(t, struct {
		Status          int
		Code, Message   string
		Retryable, Stop bool
		RetryAfter      string
		RequestID       string
	}{e.Status, e.Code, e.Message, e.Retryable, e.Stop, e.RetryAfter.String(), e.RequestID})
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v, json.OmitZeroStructFields(true), jsontext.PreserveRawStrings(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// rewrite puts what was asked and read beside the answers.
func rewrite(t *testing.T, path string, archive *txtar.Archive, got map[string][]byte) {
	t.Helper()
	files := archive.Files[:1:1]
	for turn := 1; turn <= 3; turn++ {
		for _, part := range []string{"request.json", "answer.http", "response.json", "error.json"} {
			name := fmt.Sprintf("%d.%s", turn, part)
			data := got[name]
			for _, f := range archive.Files {
				if part == "answer.http" && f.Name == name {
					data = f.Data
				}
			}
			if data != nil {
				files = append(files, txtar.File{Name: name, Data: data})
			}
		}
	}
	archive.Files = files
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
