package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// dies sends a part of a reply and cuts the connection.
func dies(head, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, head+part)
		c.Close()
	}
}

// status answers with a status, a header and a body.
func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// TestFaultyUpstream: what the endpoint does wrong is recorded as it was, the agent sees it, and the key is in none of it.
func TestFaultyUpstream(t *testing.T) {
	const wholeHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	echo := `{"error":{"message":"Incorrect API key provided: ` + strings.ReplaceAll(testKey, "/", `\/`) + ` or ` + testKey + `","code":"invalid_api_key"}}`
	tests := []struct {
		name     string
		stream   bool
		endpoint http.HandlerFunc
		status   int    // that the agent sees
		answer   string // a part of what it is answered with
		code     string // that is recorded; "" for none
		failed   bool   // it says nothing about the task
		charged  int64  // of 1000 micro-USD
	}{
		{"dies before the header", false, dies("", ""), 502, "transport", "transport", true, -1},
		{"dies in a whole reply", false, dies(wholeHead, chatReply[:40]), 502, "transport", "transport", true, -1},
		{"dies in a stream", true, dies(streamHead, chunk(chatBegin)), 0, chatBegin, "transport", true, -1},
		{"dies in an event", true, dies(streamHead, chunk(chatBegin+chatMiddle[:30])), 0, chatBegin, "transport", true, -1},
		{"a stream that only ends", true, streams(chatBegin), 0, chatBegin, "truncated_stream", true, -1},
		{"a stream without its last event", true, streams(chatBegin, chatMiddle, chatUsage), 200, chatMiddle, "", false, 12},
		{"no stream, though asked for", true, replies(chatReply), 200, chatReply, "", false, 12},
		{"too many requests", false, status(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "Retry-After", "7", "X-Ratelimit-Remaining-Requests", "0"), 429, "slow down", "rate_limit_exceeded", true, 0},
		{"broken", true, status(500, `{"error":{"message":"oops"}}`), 500, "oops", "http_500", true, 0},
		{"echoes the key", false, status(401, echo, "Www-Authenticate", testKey), 401, "[redacted]", "invalid_api_key", true, 0},
		{"refuses this request", false, status(400, `{"error":{"message":"no such parameter"}}`), 400, "no such parameter", "http_400", false, 0},
		{"echoes the key in a reply", false, replies(strings.Replace(chatReply, "Paris", testKey, 1)), 200, "[redacted]", "", false, 12},
		{"is a page", false, status(200, "<html>", "Content-Type", "text/html"), 200, "<html>", "not_json", false, -1},
		{"is compressed", false, status(200, chatReply, "Content-Encoding", "gzip"), 502, "invalid_response", "invalid_response", false, -1},
		{"redirects", false, status(307, "", "Location", "http://elsewhere.example/"), 307, "", "redirect", false, 0},
		{"is too large", false, replies(strings.Repeat("x", 5000)), 502, "larger than 4096 bytes", "response_too_large", false, -1},
		{"streams too much", true, streams(chatBegin, "data: "+strings.Repeat("x", 5000)), 0, chatBegin, "response_too_large", false, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.endpoint, func(s *settings) { s.money = 1000 })
			r.proxy.maxReply = 4096
			request := chat("q", `,"max_tokens":50`)
			if tt.stream {
				request = streamed(request)
			}
			res, err := r.client.Do(r.request("/v1/chat/completions", request))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			code := res.StatusCode
			if err != nil {
				code = 0
			}
			if code != tt.status || !strings.Contains(string(got), tt.answer) {
				t.Errorf("the agent got status %d, %q, %v", code, got, err)
			}
			if tt.status == 429 && (res.Header.Get("Retry-After") != "7" || res.Header.Get("X-Ratelimit-Remaining-Requests") != "0") {
				t.Errorf("the agent got the header %v", res.Header)
			}
			if res.Header.Get("Location") != "" {
				t.Error("the agent is sent elsewhere")
			}
			failed := r.proxy.Failed()
			r.finish()
			done := of[trajectory.ModelCallCompleted](r)[0]
			if (done.Error == nil) != (tt.code == "") || done.Error != nil && done.Error.Code != tt.code {
				t.Errorf("recorded %+v", done.Error)
			}
			if (failed != nil) != tt.failed {
				t.Errorf("the failure is %v", failed)
			}
			if tt.charged < 0 { // what the request may have cost at most
				tt.charged = int64(len(request)/2) + 50
			}
			if settle, enough := r.proxy.attempt.Money.Call(t.Context(), testModel, 1000-tt.charged, 1); enough {
				t.Errorf("less than %d is charged", tt.charged)
				settle(nil)
			}
			if _, enough := r.proxy.attempt.Money.Call(t.Context(), testModel, 1000-tt.charged-1, 1); !enough {
				t.Errorf("more than %d is charged", tt.charged)
			}
			if all := r.journal.text() + string(got) + fmt.Sprint(res.Header, failed); strings.Contains(all, testKey) || strings.Contains(all, "0123456789abcdef") {
				t.Error("the key is in the journal, or the agent has it")
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	r := newRig(t, replies(chatReply), func(s *settings) {
		to := s.Upstreams[llm.DialectChat]
		to.BaseURL = "http://127.0.0.1:1/v1"
		s.Upstreams[llm.DialectChat] = to
		s.money = 1000
	})
	if status, got := r.post("/v1/chat/completions", chat("q")); status != 502 || !strings.Contains(got, "unreachable") || strings.Contains(got, "127.0.0.1") {
		t.Errorf("status %d, %s", status, got)
	}
	if f := r.proxy.Failed(); f == nil || f.Code != trajectory.Unreachable {
		t.Errorf("failed %v", f)
	}
	if r.finish(); of[trajectory.ModelCallCompleted](r)[0].Reply.Status != 0 {
		t.Error("a status is recorded, and none came")
	}
	if _, enough := r.proxy.attempt.Money.Call(t.Context(), testModel, 999, 1); !enough {
		t.Error("a request that never left is charged")
	}
}

// TestRecordingFails: wherever the disk fails, nothing was sent and nothing answered that is not durable, the
// connections are cut, and everything after is refused.
func TestRecordingFails(t *testing.T) {
	for failAt := 1; failAt <= 8; failAt++ {
		t.Run(fmt.Sprint(failAt), func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
				if q.Header.Get("Accept") == "text/event-stream" {
					streams(chatBegin, chatMiddle, chatUsage, chatEnd)(w, q)
				} else {
					replies(chatReply)(w, q)
				}
			}, func(s *settings) { s.journal.failAt = failAt })
			answered, refused := 0, 0
			for i := range 3 {
				if status, _ := r.post("/v1/chat/completions", chat(fmt.Sprint(i))); status == 200 {
					answered++
				}
				if status, got := r.post("/v1/chat/completions", streamed(chat(fmt.Sprint(i))), "Accept", "text/event-stream"); status == 200 || strings.Contains(got, chatEnd) {
					answered++
				}
				if status, _ := r.post("/v1/other", "{}"); status == 404 {
					refused++
				}
			}
			if err := r.proxy.Err(); !errors.Is(err, trajectory.ErrNotRecorded) {
				t.Fatalf("recording failed, and the proxy says %v", err)
			}
			if n := len(of[trajectory.ModelCallCompleted](r)); answered != n {
				t.Errorf("%d replies were passed on, %d are durable", answered, n)
			}
			if n := len(of[trajectory.RequestRefused](r)); refused != n {
				t.Errorf("%d refusals were answered, %d are durable", refused, n)
			}
			if n := len(of[trajectory.ModelCallStarted](r)); len(r.sent) > n {
				t.Errorf("%d requests left, %d are durable", len(r.sent), n)
			}
			if status, _ := r.post("/v1/chat/completions", chat("q")); status != 0 {
				t.Errorf("after that a request got status %d", status)
			}
			r.proxy.Close()
		})
	}
}

// TestHangUp: when the agent is gone the rest of the reply is read for its usage, as long as a drain may last.
func TestHangUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stream bool
		drain  time.Duration
		code   string
		cost   int64
	}{
		{"whole", false, time.Minute, "", 12},
		{"stream", true, time.Minute, "", 12},
		{"whole that does not end", false, time.Millisecond, "cancelled", -1},
		{"stream that does not end", true, time.Millisecond, "cancelled", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun, gone := make(chan struct{}), make(chan struct{})
			r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
				if tt.stream {
					streams(chatBegin)(w, q)
				}
				close(begun)
				<-gone
				if tt.code != "" {
					<-q.Context().Done()
					return
				}
				if tt.stream {
					streams(chatMiddle, chatUsage, chatEnd)(w, q)
				} else {
					replies(chatReply)(w, q)
				}
			}, func(s *settings) { s.Drain = tt.drain })
			ctx, hangUp := context.WithCancel(t.Context())
			request := chat("q")
			if tt.stream {
				request = streamed(request)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				res, err := r.client.Do(r.request("/v1/chat/completions", request).WithContext(ctx))
				if err == nil {
					_, _ = io.ReadAll(res.Body)
					res.Body.Close()
				}
			}()
			<-begun
			hangUp()
			<-done
			<-r.gone // the proxy knows
			close(gone)
			a := r.finish()
			p := of[trajectory.ModelCallCompleted](r)[0]
			if !p.Reply.Aborted || (p.Error == nil) != (tt.code == "") || p.Error != nil && p.Error.Code != tt.code {
				t.Errorf("recorded %+v of %+v", p.Error, p.Reply)
			}
			if tt.cost >= 0 && *a.CostMicroUSD != tt.cost {
				t.Errorf("it cost %d", *a.CostMicroUSD)
			}
			if r.proxy.Failed() != nil {
				t.Error("the endpoint is held to be at fault")
			}
		})
	}
}

// TestStuckAgent: an agent that takes nothing of a stream has hung up after the time of a drain, and blocks nothing.
func TestStuckAgent(t *testing.T) {
	passed := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		streams(chatBegin)(w, q)
		for range 400 {
			streams(": "+strings.Repeat("x", 10_000)+"\n\n")(w, q)
		}
		streams(chatMiddle, chatUsage, chatEnd)(w, q)
		close(passed)
	}, func(s *settings) { s.Drain = 50 * time.Millisecond })
	res, err := r.client.Do(r.request("/v1/chat/completions", streamed(chat("q"))))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	select {
	case <-passed:
	case <-time.After(time.Minute):
		t.Fatal("the endpoint waits for the agent")
	}
	r.finish()
	if p := of[trajectory.ModelCallCompleted](r)[0]; !p.Reply.Aborted {
		t.Errorf("recorded %+v", p.Reply)
	}
}

// TestSilence: an agent that waits for a stream is sent comments, also while the request waits for its place, and what
// fails after that is an event.
func TestSilence(t *testing.T) {
	limiter := llm.NewLimiter(llm.LimiterConfig{Fixed: 1})
	leave, err := limiter.Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.Header.Get("Accept"), "fail") {
			status(503, "{\"error\":\n{\"message\":\"overloaded\"}}")(w, q)
			return
		}
		streams(chatBegin)(w, q)
		<-goOn
		streams(chatMiddle, chatUsage, chatEnd)(w, q)
	}, func(s *settings) {
		to := s.Upstreams[llm.DialectChat]
		to.Limiter = limiter
		s.Upstreams[llm.DialectChat] = to
		s.Silence, s.Heartbeat = 10*time.Millisecond, time.Millisecond
	})
	for _, accept := range []string{"ok", "fail"} {
		res, err := r.client.Do(r.request("/v1/chat/completions", streamed(chat("q")), "Accept", accept))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body := bufio.NewReader(res.Body)
		comments := func() {
			t.Helper()
			for range 3 {
				if line, err := body.ReadString('\n'); err != nil || line != ": waiting\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				if line, err := body.ReadString('\n'); err != nil || line != "\n" {
					t.Fatalf("got %q, %v", line, err)
				}
			}
		}
		comments()
		leave(nil, nil)
		rest := ""
		if accept == "ok" {
			for !strings.HasPrefix(rest, "data:") {
				if rest, err = body.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if _, err = body.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			comments()
			close(goOn)
		}
		all, err := io.ReadAll(body)
		text := strings.ReplaceAll(string(all), ": waiting\n\n", "")
		want := chatMiddle + chatEnd
		if accept == "fail" {
			want = `data: {"error": {"message":"overloaded"}}` + "\n\n"
		}
		if err != nil || text != want || res.StatusCode != 200 {
			t.Errorf("%s: status %d, %q, %v", accept, res.StatusCode, text, err)
		}
		if leave, err = limiter.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	leave(nil, nil)
	r.finish()
	if p := of[trajectory.ModelCallCompleted](r)[1]; p.Reply.Status != 503 || p.Error.Code != "http_503" {
		t.Errorf("recorded %+v of %+v", p.Error, p.Reply)
	}
}

// TestContextEnds: when the run is stopped, what is under way is cut at once and Close does not wait for it.
func TestContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		close(begun)
		<-q.Context().Done()
	}, func(s *settings) { s.ctx = ctx })
	answered := make(chan int)
	go func() {
		status, _ := r.post("/v1/chat/completions", chat("q"))
		answered <- status
	}()
	<-begun
	stop()
	<-answered
	r.proxy.Close()
	if len(of[trajectory.ModelCallCompleted](r)) != 1 || r.proxy.Err() != nil {
		t.Errorf("the call is not recorded: %v", r.proxy.Err())
	}
	if status, _ := r.post("/v1/chat/completions", chat("q")); status != 0 {
		t.Errorf("after Close a request got status %d", status)
	}
}
