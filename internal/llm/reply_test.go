package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name, usage string
		want        Usage
	}{
		{"whole", `{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":3}}`,
			Usage{Reported: true, In: 10, Out: 4, Cached: 6, Reasoning: 3}},
		{"no details", `{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":null}`, Usage{Reported: true, In: 10, Out: 4}},
		{"zero is a report", `{"prompt_tokens":0,"completion_tokens":0}`, Usage{Reported: true}},
		{"reasoning only in the total", `{"prompt_tokens":10,"completion_tokens":4,"total_tokens":114,"completion_tokens_details":{"reasoning_tokens":100}}`,
			Usage{Reported: true, In: 10, Out: 104, Reasoning: 100}},
		{"total left at zero", `{"prompt_tokens":10,"completion_tokens":4,"total_tokens":0}`, Usage{Reported: true, In: 10, Out: 4}},
		{"absurd total", `{"prompt_tokens":10,"completion_tokens":4,"total_tokens":1e30}`, Usage{Reported: true, In: 10, Out: 4}},
		{"none", `null`, Usage{}},
		{"not an object", `"many"`, Usage{}},
		{"half", `{"prompt_tokens":10}`, Usage{}},
		{"negative", `{"prompt_tokens":-10,"completion_tokens":4}`, Usage{}},
		{"fraction", `{"prompt_tokens":1.5,"completion_tokens":4}`, Usage{}},
		{"text", `{"prompt_tokens":"10","completion_tokens":4}`, Usage{}},
		{"absurd", `{"prompt_tokens":100000001,"completion_tokens":4}`, Usage{}},
		{"beyond integers", `{"prompt_tokens":99999999999999999999,"completion_tokens":4}`, Usage{}},
		{"negative detail", `{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":-1}}`, Usage{}},
		{"more cached than read", `{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":11}}`, Usage{}},
		{"more reasoning than written", `{"prompt_tokens":10,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":5}}`, Usage{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := `{"choices":[{"message":{"content":"x"}}],"usage":` + tc.usage + `}`
			got, err := client(t, serve(t, answer(200, body)), nil).Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Usage); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReportedCost(t *testing.T) {
	known := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		cost string
		want *int64 // micro-USD; the table would say 264
	}{
		{`0.00014`, known(140)},
		{`1.4e-4`, known(140)},
		{`0.0000001`, known(1)},
		{`0.1234567`, known(123457)},
		{`3e-06`, known(3)},
		{`1e-320`, known(1)},
		{`0`, known(0)},
		{`12`, known(12_000_000)},
		{`10000`, known(10_000_000_000)},
		{`10001`, known(264)},
		{`-0.1`, known(264)},
		{`1e400`, known(264)},
		{`"0.1"`, known(264)},
		{`null`, known(264)},
	} {
		t.Run(tc.cost, func(t *testing.T) {
			body := strings.Replace(goodBody, `"usage":{`, `"usage":{"cost":`+tc.cost+`,`, 1)
			h := client(t, serve(t, answer(200, body)), func(c *Config) { c.Prices = testPrices(t) })
			got, err := h.Chat(context.Background(), ask, &journal{})
			if err != nil {
				t.Fatal(err)
			}
			if show(got.CostMicroUSD) != show(tc.want) {
				t.Errorf("cost %s, want %s", show(got.CostMicroUSD), show(tc.want))
			}
		})
	}
	if got := microUSD(gjson.Result{}); got != nil {
		t.Errorf("no cost: %d", *got)
	}
}

func TestRequestIDs(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers []string
		want    string
	}{
		{"x-request-id", []string{"X-Request-Id", "a", "Request-Id", "b"}, "a"},
		{"request-id", []string{"Request-Id", "b"}, "b"},
		{"of the body", nil, "chatcmpl-1"},
		{"long", []string{"X-Request-Id", strings.Repeat("a", 300)}, strings.Repeat("a", 200) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client(t, serve(t, answer(200, goodBody, tc.headers...)), nil).Chat(context.Background(), ask, &journal{})
			if err != nil || got.RequestID != tc.want {
				t.Errorf("request id %q, error %v", got.RequestID, err)
			}
		})
	}
}

// canned is a transport that answers without a network.
type canned struct {
	status int
	header http.Header
	body   []byte
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: c.header, Body: io.NopCloser(bytes.NewReader(c.body)), Request: r}, nil
}

// Whatever a server answers, a call ends in a usable response or in an *Error fit to be shown.
func FuzzReply(f *testing.F) {
	f.Add(200, "application/json", "1", false, []byte(goodBody))
	f.Add(200, "application/json", "", false, []byte(goodBody[:90]))
	f.Add(200, "text/html", "", false, []byte("<html>"))
	f.Add(200, "application/json", "", false, []byte(`{"error":{"code":429,"message":"`+testKey+`"}}`))
	f.Add(200, "application/json", "", false, []byte(`{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}],"usage":{"prompt_tokens":1,"completion_tokens":-1,"cost":1e-9}}`))
	f.Add(200, "", "", false, []byte(`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{"}}]}}]}`))
	f.Add(429, "application/json", "Sun, 01 Nov 2026 12:00:30 GMT", false, []byte(`[{"error":{"message":["a"],"code":"x"}}]`))
	f.Add(500, "text/plain", "0.5", false, []byte(testKey))
	f.Add(404, ";", "-1", false, []byte(`{"detail":[{"msg":"model not found"}]}`))
	f.Add(200, "application/json", "", true, []byte(`{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","encrypted_content":"e"},`+
		`{"type":"message","phase":"p","content":[{"type":"output_text","text":"a","annotations":[{}]}]},{"type":"function_call","call_id":"c","name":"n","arguments":"{"}],"usage":{"input_tokens":1,"output_tokens":2}}`))
	f.Add(200, "application/json", "", true, []byte(`{"status":"failed","error":{"code":"server_error"},"output":[]}`))
	f.Add(200, "application/json", "", false, []byte(`{"choices":[{"message":{"reasoning_details":[{"a":1,"a":"\ud800"}],"tool_calls":[{"function":{"name":"x"},"extra_content":{"g":"\u00e9"}}]}}]}`))
	f.Add(429, "application/json", "", true, []byte(`[{"error":{"details":[{"retryDelay":"3s"}]}}]`))
	f.Fuzz(func(t *testing.T, status int, contentType, wait string, responses bool, body []byte) {
		if status < 200 || status > 599 {
			t.Skip("not a final status")
		}
		header := http.Header{"Content-Type": {contentType}, "Retry-After": {wait}, "X-Request-Id": {wait}, "Location": {wait}}
		api := APIChat
		if responses {
			api = APIResponses
		}
		var waited []time.Duration
		c := New(Config{
			BaseURL: "http://127.0.0.1/v1", API: api, APIKey: testKey, Transport: canned{status, header, body}, MaxTries: 2, MaxBody: 1 << 16, Prices: testPrices(t),
			Sleep: func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil },
		})
		j := &journal{}
		got, err := c.Chat(context.Background(), ask, j)
		if err == nil {
			if strings.TrimSpace(got.Message.Content) == "" && len(got.Message.ToolCalls) == 0 {
				t.Errorf("an empty completion: %+v", got)
			}
			if !got.Usage.plausible() || got.CostMicroUSD != nil && *got.CostMicroUSD < 0 {
				t.Errorf("usage %+v, cost %s", got.Usage, show(got.CostMicroUSD))
			}
			if p, failed := c.compose(Request{Messages: []Message{got.Message}}); failed != nil || !utf8.Valid(p.body) || checkJSON(p.body) != nil {
				t.Errorf("cannot be sent back: %v in %q", failed, p.body)
			}
			for _, s := range append(got.Channels, got.RequestID, got.ResponseModel, got.FinishReason, got.Fingerprint) {
				if !utf8.ValidString(s) || len(s) > maxName+len("…") {
					t.Errorf("not tidied: %q", s)
				}
			}
		} else {
			var failed *Error
			if !errors.As(err, &failed) {
				t.Fatalf("error %v", err)
			}
			for _, s := range []string{failed.Code, failed.Message, failed.RequestID, failed.Error()} {
				if strings.Contains(s, testKey) || !utf8.ValidString(s) || len(s) > 1000 {
					t.Errorf("not tidied: %q", s)
				}
			}
			if failed.Code == "" || failed.Retryable && failed.Stop || failed.Retryable != (len(j.started) == 2) {
				t.Errorf("%+v after %d tries", failed, len(j.started))
			}
		}
		for _, d := range waited {
			if d <= 0 || d > longestTold {
				t.Errorf("waited %v", d)
			}
		}
		if len(j.started) != len(j.completed) {
			t.Errorf("%d started, %d completed", len(j.started), len(j.completed))
		}
	})
}
