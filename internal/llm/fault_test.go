package llm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cut sends a part of an answer and drops the connection.
func cut(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = buffer.WriteString(part)
		_ = buffer.Flush()
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// switches answers with 101 and keeps the connection open until the client leaves.
func switches(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "other")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestFaults(t *testing.T) {
	const html = "<html><body>Bad Gateway</body></html>"
	long := strings.Repeat("a", 1<<20)
	for _, tc := range []struct {
		name    string
		step    http.HandlerFunc
		want    Error
		message string // the whole of it, or its beginning before "…"
	}{
		{"400", answer(400, `{"error":{"message":"bad thing","type":"invalid_request_error","param":"tools","code":null}}`),
			Error{Status: 400, Code: "invalid_request_error"}, "bad thing"},
		{"400 context length by code", answer(400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`),
			Error{Status: 400, Code: "context_length_exceeded"}, "too long"},
		{"400 context length by words", answer(400, `{"object":"error","message":"This model's maximum context length is 10 tokens","type":"BadRequestError","code":400}`),
			Error{Status: 400, Code: "context_length_exceeded"}, "This model's maximum context length is 10 tokens"},
		{"400 context length, another's words", answer(400, `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}]`),
			Error{Status: 400, Code: "context_length_exceeded"}, "The input token count (9) exceeds the maximum number of tokens allowed (8)."},
		{"500 context length", answer(500, `{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`),
			Error{Status: 500, Code: "context_length_exceeded"}, "the request exceeds the available context size"},
		{"400 no credit", answer(400, `{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`),
			Error{Status: 400, Code: "invalid_request_error", Stop: true}, "Your credit balance is too low"},
		{"401", answer(401, `{"error":{"message":"Incorrect API key provided: `+testKey+`.","code":"invalid_api_key"}}`),
			Error{Status: 401, Code: "invalid_api_key", Stop: true}, "Incorrect API key provided: [redacted]."},
		{"402", answer(402, `{"error":{"message":"insufficient credits","code":402}}`),
			Error{Status: 402, Code: "http_402", Stop: true}, "insufficient credits"},
		{"403", answer(403, `{"error":{"message":"country","code":"unsupported_country_region_territory"}}`),
			Error{Status: 403, Code: "unsupported_country_region_territory", Stop: true}, "country"},
		{"403 about one input", answer(403, `{"error":{"message":"flagged","code":403,"metadata":{"flagged_input":"x"}}}`),
			Error{Status: 403, Code: "http_403", Filtered: true}, "flagged"},
		{"404 model by code", answer(404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`),
			Error{Status: 404, Code: "model_not_found", Stop: true}, "The model does not exist"},
		{"404 model by words", answer(404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}}`),
			Error{Status: 404, Code: "model_not_found", Stop: true}, `model "x" not found, try pulling it first`},
		{"404 about one request", answer(404, `{"error":{"message":"No endpoints found that support image input","code":404}}`),
			Error{Status: 404, Code: "http_404"}, "No endpoints found that support image input"},
		{"404 other interface", answer(404, `{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","type":"invalid_request_error","param":"model","code":null}}`),
			Error{Status: 404, Code: "responses_api_required", Stop: true}, "the model needs the Responses API: ask it with --api responses; the endpoint says: This model is only supported in v1/responses and not in v1/chat/completions."},
		{"400 tools by the other interface", answer(400, `{"error":{"message":"Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`),
			Error{Status: 400, Code: "responses_api_required", Stop: true}, "the model needs the Responses API: ask it with --api responses; the endpoint says: Function tools with…"},
		{"404 not a chat model", answer(404, `{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?","type":"invalid_request_error","param":"model","code":null}}`),
			Error{Status: 404, Code: "not_a_chat_model", Stop: true}, "the model does not do chat completions: it may answer with --api responses; the endpoint says: This is not…"},
		{"404 no such interface", answer(404, `{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error","param":null,"code":null}}`),
			Error{Status: 404, Code: "invalid_request_error", Stop: true}, "Invalid URL (POST /v1/responses)"},
		{"404 router", answer(404, `{"detail":"Not Found"}`),
			Error{Status: 404, Code: "http_404", Stop: true}, "Not Found"},
		{"404 page", answer(404, "404 page not found\n", "Content-Type", "text/plain; charset=utf-8"),
			Error{Status: 404, Code: "http_404", Stop: true}, "Not Found, with a body of 19 bytes (text/plain): 404 page not found"},
		{"408", answer(408, ``), Error{Status: 408, Code: "http_408", Retryable: true}, "Request Timeout, with a body of 0 bytes (application/json)"},
		{"409", answer(409, `{"error":"busy"}`), Error{Status: 409, Code: "http_409", Retryable: true}, "busy"},
		{"413", answer(413, `{"message":"too big"}`), Error{Status: 413, Code: "http_413"}, "too big"},
		{"429", answer(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "X-Request-Id", "req-9"),
			Error{Status: 429, Code: "rate_limit_exceeded", Retryable: true, RequestID: "req-9"}, "slow down"},
		{"429 quota", answer(429, `{"error":{"message":"check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`, "Retry-After", "5"),
			Error{Status: 429, Code: "insufficient_quota", Stop: true}, "check your plan"},
		{"429 billing", answer(429, `{"error":{"message":"inactive","code":"billing_not_active"}}`),
			Error{Status: 429, Code: "billing_not_active", Stop: true}, "inactive"},
		{"500", answer(500, `{"error":{"message":"oops","type":"server_error","code":null}}`),
			Error{Status: 500, Code: "server_error", Retryable: true}, "oops"},
		{"502 html", answer(502, html, "Content-Type", "text/html"),
			Error{Status: 502, Code: "http_502", Retryable: true}, "Bad Gateway, with a body of 37 bytes (text/html)"},
		{"529", answer(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			Error{Status: 529, Code: "overloaded_error", Retryable: true}, "Overloaded"},
		{"503 endless error page", answer(503, long, "Content-Type", "text/html"),
			Error{Status: 503, Code: "http_503", Retryable: true}, "Service Unavailable, with a body of …"},
		{"long message", answer(400, `{"error":{"message":"`+strings.Repeat("é", 1000)+`"}}`),
			Error{Status: 400, Code: "http_400"}, strings.Repeat("é", 300) + "…"},
		{"control characters", answer(400, `{"error":{"message":"a\u001b[31m\nb"}}`), Error{Status: 400, Code: "http_400"}, "a [31m b"},

		{"200 with error number", answer(200, `{"error":{"code":429,"message":"upstream is busy"}}`),
			Error{Status: 429, Code: "http_429", Retryable: true}, "upstream is busy"},
		{"200 with error word", answer(200, `{"error":{"type":"invalid_request_error","message":"no"}}`),
			Error{Status: 400, Code: "invalid_request_error"}, "no"},
		{"200 with authentication error", answer(200, `{"error":{"type":"authentication_error","message":"no"}}`),
			Error{Status: 401, Code: "authentication_error", Stop: true}, "no"},
		{"200 with error text", answer(200, `{"error":"something broke"}`),
			Error{Status: 500, Code: "http_500", Retryable: true}, "something broke"},
		{"200 with error in the choice", answer(200, `{"id":"x","choices":[{"error":{"code":502,"message":"provider failed"},"message":{"content":"hal"}}]}`),
			Error{Status: 502, Code: "http_502", Retryable: true}, "provider failed"},
		{"200 with error in a list", answer(200, `[{"error":{"code":503,"message":"later","status":"UNAVAILABLE"}}]`),
			Error{Status: 503, Code: "UNAVAILABLE", Retryable: true}, "later"},
		{"200 html", answer(200, html, "Content-Type", "text/html; charset=utf-8"),
			Error{Status: 200, Code: "not_json"}, "the endpoint answers with text/html instead of JSON: is the base URL that of a chat completions interface?"},
		{"200 event stream", answer(200, "data: {}\n\n", "Content-Type", "text/event-stream"),
			Error{Status: 200, Code: "not_json"}, "the endpoint answers with text/event-stream instead of JSON…"},
		{"200 truncated", answer(200, goodBody[:100]),
			Error{Status: 200, Code: "truncated_json", Retryable: true}, "the answer ends in the middle, after 100 bytes"},
		{"200 truncated, wrong content type", answer(200, goodBody[:100], "Content-Type", "text/plain"),
			Error{Status: 200, Code: "truncated_json", Retryable: true}, "the answer ends in the middle, after 100 bytes"},
		{"200 empty", answer(200, ""), Error{Status: 200, Code: "truncated_json", Retryable: true}, "the answer ends in the middle, after 0 bytes"},
		{"200 garbage", answer(200, `{"choices":tru}`), Error{Status: 200, Code: "invalid_json", Retryable: true}, "the answer is not valid JSON"},
		{"200 two values", answer(200, goodBody+"{}"), Error{Status: 200, Code: "invalid_json", Retryable: true}, "the answer is not valid JSON"},
		{"200 nested without end", answer(200, strings.Repeat("[", 50_000)), Error{Status: 200, Code: "invalid_json", Retryable: true}, "the answer is not valid JSON"},
		{"200 not an object", answer(200, `42`), Error{Status: 200, Code: "invalid_response", Retryable: true}, "the answer is JSON, but not an object"},
		{"200 of another form", answer(200, `{"choices":"none"}`), Error{Status: 200, Code: "invalid_response", Retryable: true}, "the answer does not have the form of a …"},
		{"200 too large", answer(200, `{"x":"`+long+`"}`), Error{Status: 200, Code: "response_too_large"}, "the answer is larger than 65536 bytes"},
		{"cut before the answer", cut(""), Error{Code: "transport", Retryable: true}, "…"},
		{"cut within the answer", cut("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"choi"), Error{Code: "transport", Retryable: true}, "…"},
		{"cut within an error", cut("HTTP/1.1 400 Bad Request\r\nContent-Length: 500\r\n\r\n{\"err"), Error{Status: 400, Code: "http_400"}, "Bad Request, with a body of 5 bytes (no content type)"},
		{"101", switches, Error{Code: "transport", Retryable: true}, transport.ErrSwitched.Error()},
		{"not HTTP", cut("SSH-2.0-OpenSSH\r\n"), Error{Code: "transport", Retryable: true}, "…"},
	} {
		for _, api := range []string{APIChat, APIResponses} {
			t.Run(tc.name+" by "+api, func(t *testing.T) { faulty(t, api, tc.step, tc.want, tc.message) })
		}
	}
}

// faulty asks an endpoint that plays nothing but a fault.
func faulty(t *testing.T, api string, step http.HandlerFunc, want Error, message string) {
	e := serve(t, step)
	j := &journal{}
	h := client(t, e, func(c *Config) { c.API, c.MaxBody = api, 64<<10 })
	_, err := h.Chat(context.Background(), ask, j)
	var got *Error
	if !errors.As(err, &got) {
		t.Fatalf("error %v", err)
	}
	want.Message = message
	if begin, open := strings.CutSuffix(message, "…"); open && strings.HasPrefix(got.Message, begin) {
		want.Message = got.Message
	}
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(Error{})); diff != "" {
		t.Error(diff)
	}
	tries, waits := 1, []time.Duration(nil)
	if want.Retryable {
		tries, waits = 3, []time.Duration{500 * time.Millisecond, time.Second}
	}
	if e.requests() != tries || len(j.started) != tries || len(j.completed) != tries {
		t.Errorf("%d requests, %d started, %d completed", e.requests(), len(j.started), len(j.completed))
	}
	for _, c := range j.completed {
		if strings.HasSuffix(message, "…") {
			c.Err.Message = got.Message // ports differ
		}
		if diff := cmp.Diff(&want, c.Err, cmpopts.IgnoreUnexported(Error{})); diff != "" || c.Response != nil {
			t.Errorf("try %d: %s", c.Number, diff)
		}
	}
	if diff := cmp.Diff(waits, h.waits); diff != "" {
		t.Error(diff)
	}
}

// TestUselessAnswersAreCharged: what an answer is said to have cost counts, also if nothing can be
// made of the rest of it.
func TestUselessAnswersAreCharged(t *testing.T) {
	const usage = `,"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"input_tokens":100,"output_tokens":20}}`
	for _, tc := range []struct{ api, body, code string }{
		{APIChat, `{"choices":"none"` + usage, "invalid_response"},
		{APIChat, `{"choices":[]` + usage, "empty_completion"},
		{APIChat, `{"error":{"code":502,"message":"provider failed"}` + usage, "http_502"},
		{APIChat, `{"choices":[{"error":{"code":502,"message":"provider failed"}}]` + usage, "http_502"},
		{APIResponses, `{"status":"failed"` + usage, "invalid_response"},
		{APIResponses, `{"status":"completed"` + usage, "invalid_response"},
	} {
		t.Run(tc.code, func(t *testing.T) {
			h := client(t, serve(t, answer(200, tc.body)), func(c *Config) { c.API, c.MaxTries = tc.api, 1 })
			j := &journal{}
			_, err := h.Chat(context.Background(), ask, j)
			var failed *Error
			if !errors.As(err, &failed) || failed.Code != tc.code || len(j.completed) != 1 {
				t.Fatalf("%s: %v", tc.body, err)
			}
			if r := j.completed[0].Response; r == nil || r.Usage.In != 100 || r.Usage.Out != 20 || r.Message.Content != "" {
				t.Errorf("%s: %+v", tc.body, r)
			}
		})
	}
}

// TestAnswersOfManyValues: what would take a hundred times its bytes to hold is refused, once.
func TestAnswersOfManyValues(t *testing.T) {
	many := strings.Repeat("{},", maxValues/2) + "{}"
	for api, body := range map[string]string{
		APIChat:      `{"choices":[{"message":{"tool_calls":[` + many + `]}}]}`,
		APIResponses: `{"status":"completed","output":[` + many + `]}`,
	} {
		t.Run(api, func(t *testing.T) {
			e := serve(t, answer(200, body))
			h := client(t, e, func(c *Config) { c.API = api })
			_, err := h.Chat(context.Background(), ask, &journal{})
			var failed *Error
			if !errors.As(err, &failed) || failed.Code != "response_too_large" || failed.Retryable || e.requests() != 1 {
				t.Errorf("%v after %d requests", err, e.requests())
			}
		})
	}
}

func TestRecovers(t *testing.T) {
	e := serve(t, answer(429, `{"error":{"message":"slow down"}}`, "Retry-After", "2"), answer(502, "<html>", "Content-Type", "text/html"), good)
	h := client(t, e, nil)
	j := &journal{}
	got, err := h.Chat(context.Background(), ask, j)
	if err != nil || got.Message.Content != "forty-two" {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, j.started); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 500 * time.Millisecond}, h.waits); diff != "" {
		t.Error(diff)
	}
	if e.bodies[0] != e.bodies[2] {
		t.Error("the request changed between tries")
	}
}

func TestConnectionRefused(t *testing.T) {
	e := serve(t, good)
	h := client(t, e, func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http://", "http://user:"+testKey+"@", 1) })
	e.Close()
	_, err := h.Chat(context.Background(), ask, &journal{})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != "unreachable" || !failed.Retryable || failed.Status != 0 {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), "user") || strings.Contains(err.Error(), "/v1") {
		t.Errorf("the address is shown: %v", err)
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			e := serve(t, answer(status, "", "Location", other.URL+"/v1?echo="+testKey))
			_, err := client(t, e, nil).Chat(context.Background(), ask, &journal{})
			var failed *Error
			if !errors.As(err, &failed) || failed.Code != "redirect" || failed.Retryable || !failed.Stop || failed.Status != status {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(err.Error(), other.URL) || strings.Contains(err.Error(), testKey) {
				t.Errorf("error %v", err)
			}
		})
	}
	if elsewhere != 0 {
		t.Errorf("%d requests reached the other host", elsewhere)
	}
}

// The key is taken out of everything that is kept of a server's words, wherever it stands.
func TestKeyNeverShown(t *testing.T) {
	pad := strings.Repeat("x", maxMessage-10) // the key lies across the cut
	for name, step := range map[string]http.HandlerFunc{
		"message":       answer(401, `{"error":{"message":"key `+testKey+` and `+testKey+`","code":"`+testKey+`"}}`, "X-Request-Id", testKey),
		"escaped":       answer(401, `{"error":{"message":"\u0073`+testKey[1:]+`"}}`),
		"across a cut":  answer(401, `{"error":{"message":"`+pad+testKey+`"}}`),
		"plain text":    answer(500, pad+testKey, "Content-Type", "text/plain"),
		"error text":    answer(200, `{"error":"`+testKey+`"}`),
		"location":      answer(302, "", "Location", "http://127.0.0.1/"+testKey),
		"content type":  answer(200, "x", "Content-Type", "text/"+testKey),
		"decoder error": answer(200, `{"choices":[{"index":"`+testKey+`"}]}`),
		"finish reason": answer(200, `{"id":"`+testKey+`","model":"`+testKey+`","choices":[{"message":{},"finish_reason":"`+testKey+`"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			j := &journal{}
			_, err := client(t, serve(t, step), nil).Chat(context.Background(), ask, j)
			if err == nil {
				t.Fatal("no error")
			}
			for _, c := range j.completed {
				words := []string{err.Error(), c.Err.Error(), c.Err.Message, c.Err.Code, c.Err.RequestID}
				if r := c.Response; r != nil {
					words = append(words, r.RequestID, r.ResponseModel, r.FinishReason)
				}
				for _, s := range words {
					if strings.Contains(s, testKey[:8]) {
						t.Errorf("the key is shown: %s", s)
					}
				}
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for _, tc := range []struct {
		name  string
		begin string // sent before the server stalls
	}{
		{"no answer", ""},
		{"stalled body", `{"choices":[`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			e := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tc.begin != "" {
					_, _ = w.Write([]byte(tc.begin))
					_ = http.NewResponseController(w).Flush()
				}
				cancel()
				<-r.Context().Done()
			})
			j := &journal{}
			_, err := client(t, e, nil).Chat(ctx, ask, j)
			var failed *Error
			if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.Code != "cancelled" || failed.Retryable || failed.Stop {
				t.Errorf("error %v", err)
			}
			if e.requests() != 1 || len(j.completed) != 1 || j.completed[0].Err == nil || j.completed[0].Err.Code != "cancelled" {
				t.Errorf("%d requests, completed %+v", e.requests(), j.completed)
			}
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e, j := serve(t, good), &journal{}
		_, err := client(t, e, nil).Chat(ctx, ask, j)
		if !errors.Is(err, context.Canceled) || e.requests() != 0 || len(j.started) != 0 {
			t.Errorf("error %v after %d requests", err, e.requests())
		}
	})
	t.Run("real timer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		e := serve(t, answer(429, `{}`, "Retry-After", "3600"))
		j := &cancelling{cancel: cancel}
		_, err := client(t, e, func(c *Config) { c.Sleep = nil }).Chat(ctx, ask, j)
		if !errors.Is(err, context.Canceled) || e.requests() != 1 {
			t.Errorf("error %v after %d requests", err, e.requests())
		}
	})
}

// cancelling cancels once the first try is recorded, that is, at the latest while the client waits.
type cancelling struct {
	journal
	cancel func()
}

func (c *cancelling) TryCompleted(t Try) error {
	go c.cancel()
	return c.journal.TryCompleted(t)
}

func TestRequestTimeout(t *testing.T) {
	stall := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	h := client(t, serve(t, stall), func(c *Config) { c.Timeout = 20 * time.Millisecond; c.MaxTries = 2 })
	j := &journal{}
	_, err := h.Chat(context.Background(), ask, j)
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != "timeout" || !failed.Retryable || failed.Message != "the whole answer did not come in time" {
		t.Errorf("error %v", err)
	}
	if len(j.completed) != 2 {
		t.Errorf("%d tries", len(j.completed))
	}
}
