package llm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// llamaCPP behaves as llama-cpp-python does: each message must have a content that is text.
func llamaCPP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		if m.Get("content").Type != gjson.String {
			answer(500, `{"error":{"message":"'content'","type":"KeyError","code":null}}`)(w, r)
			return
		}
	}
	good(w, r)
}

func TestContentOfCalls(t *testing.T) {
	e := serve(t, llamaCPP)
	_, err := client(t, e, nil).Chat(context.Background(), Request{Model: "m", Messages: []Message{
		{Role: "user", Content: "what is it?"},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "a", Content: "42"},
	}}, &journal{})
	if err != nil || e.requests() != 1 {
		t.Errorf("%d requests, error %v, body %s", e.requests(), err, e.bodies[0])
	}
}

func TestGatewayCost(t *testing.T) {
	known := func(n int64) *int64 { return &n }
	const ofBody = `"usage":{"cost":0.5,`
	for name, tc := range map[string]struct {
		headers []string
		usage   string // "" = without a cost
		prices  bool   // by which it cost 264
		want    *int64
	}{
		"decimal":            {[]string{"0.00325"}, "", true, known(3250)},
		"exponent":           {[]string{"3.45e-05"}, "", true, known(35)},
		"without prices":     {[]string{"0.00325"}, "", false, known(3250)},
		"usage.cost first":   {[]string{"0.00325"}, ofBody, true, known(500_000)},
		"bad usage.cost":     {[]string{"0.00325"}, `"usage":{"cost":-1,`, true, known(3250)},
		"none":               {nil, "", true, known(264)},
		"none, no prices":    {nil, "", false, nil},
		"negative":           {[]string{"-0.1"}, "", true, known(264)},
		"negative, unpriced": {[]string{"-0.1"}, "", false, nil},
		"NaN":                {[]string{"nan"}, "", false, nil},
		"infinite":           {[]string{"Infinity"}, "", false, nil},
		"overflow":           {[]string{"1e400"}, "", false, nil},
		"too much":           {[]string{"10001"}, "", false, nil},
		"text":               {[]string{"$0.1"}, "", false, nil},
		"JSON, no number":    {[]string{`{"usd":1}`}, "", false, nil},
		"Python's None":      {[]string{"None"}, "", false, nil},
		"empty":              {[]string{""}, "", false, nil},
		"two numbers":        {[]string{"0.1, 0.2"}, "", false, nil},
		"long":               {[]string{"0." + strings.Repeat("0", 1000) + "1"}, "", false, nil},
		"repeated":           {[]string{"0.1", "0.1"}, "", false, nil},
		"zero":               {[]string{"0.0"}, "", true, known(264)},
		"zero, unpriced":     {[]string{"0.0"}, "", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			body := goodBody
			if tc.usage != "" {
				body = strings.Replace(body, `"usage":{`, tc.usage, 1)
			}
			step := func(w http.ResponseWriter, r *http.Request) {
				for _, h := range tc.headers {
					w.Header().Add("x-litellm-response-cost", h)
				}
				answer(200, body)(w, r)
			}
			dir, e := t.TempDir(), serve(t, step)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			recorder, err := NewRecorder(dir, transport)
			if err != nil {
				t.Fatal(err)
			}
			var got [2]*int64 // live, and replayed from a cassette
			for i := range got {
				h := client(t, e, func(c *Config) {
					if tc.prices {
						c.Prices = testPrices(t)
					}
					if c.Transport = recorder; i == 1 {
						if c.Transport, err = NewPlayer(dir); err != nil {
							t.Fatal(err)
						}
					}
				})
				r, err := h.Chat(context.Background(), ask, &journal{})
				if err != nil {
					t.Fatal(err)
				}
				got[i] = r.CostMicroUSD
			}
			if e.requests() != 1 {
				t.Errorf("%d requests", e.requests())
			}
			if diff := cmp.Diff([2]*int64{tc.want, tc.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPathHint(t *testing.T) {
	for name, tc := range map[string]struct {
		base  string // after the address
		step  http.HandlerFunc
		hint  string // ADDR for the address
		stops bool
	}{
		"Ollama":          {"", answer(404, "404 page not found\n", "Content-Type", "text/plain"), "the base URL has no /v1, where most servers answer: try --base-url ADDR/v1", true},
		"slash":           {"/", answer(404, `{"detail":"Not Found"}`), "the base URL has no /v1, where most servers answer: try --base-url ADDR/v1", true},
		"below a path":    {"/llm", answer(404, `{"detail":"Not Found"}`), "the base URL has no /v1, where most servers answer: try --base-url ADDR/llm/v1", true},
		"llama.cpp":       {"/x", answer(404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`), "the base URL has no /v1, where most servers answer: try --base-url ADDR/x/v1", true},
		"LM Studio":       {"", answer(200, `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`), "the base URL has no /v1, where most servers answer: try --base-url ADDR/v1", true},
		"whole address":   {"/v1/chat/completions", answer(404, `{"detail":"Not Found"}`), "the base URL ends before /chat/completions: try --base-url ADDR/v1", true},
		"Azure":           {"/openai/deployments/blue", answer(404, `{"error":{"code":"404","message":"Resource not found"}}`), "this is the earlier interface of Azure, which needs a query: name the deployment by --model and try --base-url ADDR/openai/v1", true},
		"no deployment":   {"/openai/v1", answer(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`), "", true},
		"with a version":  {"/v1", answer(404, `{"detail":"Not Found"}`), "", true},
		"another version": {"/v1beta/openai", answer(404, `{"detail":"Not Found"}`), "", true},
		"model missing":   {"", answer(404, `{"error":{"message":"model \"x\" not found"}}`), "", true},
		"not a 404":       {"", answer(400, `{"error":{"message":"no"}}`), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, tc.step)
			_, err := client(t, e, func(c *Config) { c.BaseURL = strings.Replace(e.URL, "//", "//me:secret@", 1) + tc.base }).Chat(context.Background(), ask, &journal{})
			var got *Error
			if !errors.As(err, &got) || got.Hint != strings.Replace(tc.hint, "ADDR", e.URL, 1) || got.Stop != tc.stops || e.requests() != 1 {
				t.Errorf("%+v after %d requests", got, e.requests())
			}
		})
	}
}

func TestToolsRefused(t *testing.T) {
	for name, step := range map[string]http.HandlerFunc{
		"Ollama":     answer(400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}`),
		"vLLM":       answer(400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`),
		"OpenRouter": answer(404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`),
		"llama.cpp":  answer(500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, step)
			_, err := client(t, e, nil).Chat(context.Background(), ask, &journal{})
			var got *Error
			if !errors.As(err, &got) || got.Code != ToolsNotSupported || !got.Stop || got.Retryable || !strings.Contains(got.Hint, "--model") || e.requests() != 1 {
				t.Errorf("%+v after %d requests", got, e.requests())
			}
		})
	}
}

// TestUnreachableIsReported: once, with the address, and before the second try.
func TestUnreachableIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	e, j, limiter := serve(t, good), &journal{}, NewLimiter(LimiterConfig{})
	var reports []string
	limiter.OnUnreachable(func(err error) {
		if len(j.started) != 1 {
			t.Errorf("%d tries had begun", len(j.started))
		}
		reports = append(reports, err.Error())
	})
	h := client(t, e, func(c *Config) { c.BaseURL, c.Limiter = "http://"+address+"/v1", limiter })
	for range 2 {
		if _, err := h.Chat(context.Background(), ask, j); err == nil {
			t.Fatal("there is an answer")
		}
	}
	if len(reports) != 1 || !strings.Contains(reports[0], address) || !strings.Contains(reports[0], "connection refused") || !strings.Contains(reports[0], "--base-url") {
		t.Errorf("%q", reports)
	}
	var none *Limiter
	none.OnUnreachable(func(error) { t.Error("reported") })
}
