package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const testKey = "sk-test-0123456789abcdef"

// endpoint is a loopback server that plays one step per request; the last step repeats.
type endpoint struct {
	*httptest.Server
	mu      sync.Mutex
	steps   []http.HandlerFunc
	bodies  []string
	headers []http.Header
}

func serve(t *testing.T, steps ...http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{steps: steps}
	e.Server = httptest.NewServer(e)
	t.Cleanup(func() { e.Close(); noGoroutineLeft(t) })
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.bodies = append(e.bodies, string(body))
	e.headers = append(e.headers, r.Header)
	step := e.steps[min(len(e.bodies), len(e.steps))-1]
	e.mu.Unlock()
	step(w, r)
}

// requests returns how many requests arrived.
func (e *endpoint) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.bodies)
}

// noGoroutineLeft waits until no goroutine of a client connection is left.
func noGoroutineLeft(t *testing.T) {
	t.Helper()
	var stacks string
	for range 500 {
		buffer := make([]byte, 1<<20)
		stacks = string(buffer[:runtime.Stack(buffer, true)])
		if !strings.Contains(stacks, "persistConn") && !strings.Contains(stacks, "go-openai") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

// answer replies with a status, a body and headers given in pairs. The content type is JSON unless
// one is given.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const goodBody = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"test-model-v1",
 "choices":[{"index":0,"message":{"role":"assistant","content":"forty-two"},"finish_reason":"stop"}],
 "usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
  "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":5}}}`

var good = answer(200, goodBody)

// journal is an Observer that keeps what it is told, and fails where a test says so.
type journal struct {
	started   []int
	completed []Try
	failStart int // the try whose start cannot be recorded
	failEnd   int
}

var errDiskFull = errors.New("disk full")

func (j *journal) TryStarted(n int) error {
	if n == j.failStart {
		return errDiskFull
	}
	j.started = append(j.started, n)
	return nil
}

func (j *journal) TryCompleted(t Try) error {
	if t.Number == j.failEnd {
		return errDiskFull
	}
	j.completed = append(j.completed, t)
	return nil
}

// harness is a client with a stepped clock and recorded waits.
type harness struct {
	*Client
	waits []time.Duration
}

// client returns a client for the endpoint whose waits take no time and have no jitter (factor 0).
func client(t *testing.T, e *endpoint, change func(*Config)) *harness {
	t.Helper()
	h := &harness{}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	clock := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c := Config{
		BaseURL: e.URL + "/v1", APIKey: testKey, Transport: transport, MaxTries: 3,
		Now: func() time.Time { clock = clock.Add(7 * time.Millisecond); return clock },
		Sleep: func(ctx context.Context, d time.Duration) error {
			h.waits = append(h.waits, d)
			return ctx.Err()
		},
		Jitter: func() float64 { return 0 },
	}
	if change != nil {
		change(&c)
	}
	h.Client = New(c)
	return h
}

var ask = Request{Model: "test-model", Messages: []Message{{Role: "user", Content: "what is it?"}}}
