package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/semaphore"
)

// TestRefusals: what is not passed on is recorded and answered in the form of the dialect, and nothing is sent.
func TestRefusals(t *testing.T) {
	messages := func(more string) string {
		return `{"model":"model-a","max_tokens":5,"messages":[{"role":"user","content":"q"}]` + more + `}`
	}
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
		unread                   bool // the body
	}{
		{"another route", "POST", "/v1/embeddings", "{}", nil, 404, "unknown_route", true},
		{"another method", "GET", "/v1/chat/completions", "", nil, 404, "unknown_route", true},
		{"a path within", "POST", "/v1/chat/completions/1", "{}", nil, 404, "unknown_route", true},
		{"an upgrade", "GET", "/v1/responses", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426, "upgrade_refused", true},
		{"a compressed body", "POST", "/v1/chat/completions", chat("q"), []string{"Content-Encoding", "zstd"}, 415, "body_compressed", true},
		{"too large", "POST", "/v1/chat/completions", strings.Repeat(" ", 70_000), nil, 413, "request_too_large", true},
		{"no JSON", "POST", "/v1/chat/completions", "{", nil, 400, "request_unreadable", false},
		{"another model", "POST", "/v1/chat/completions", `{"model":"model-c","messages":[{"role":"user","content":"q"}]}`, nil, 400, "model_not_planned", false},
		{"another model in messages", "POST", "/v1/messages", strings.Replace(messages(""), "model-a", "model-c", 1), nil, 400, "model_not_planned", false},
		{"state", "POST", "/v1/responses", `{"model":"model-a","input":"q","previous_response_id":"resp_1"}`, nil, 400, "state_not_recorded", false},
		{"in the background", "POST", "/v1/responses", `{"model":"model-a","input":"q","background":true}`, nil, 400, "state_not_recorded", false},
		{"a tool of the provider", "POST", "/v1/responses", `{"model":"model-a","input":"q","tools":[{"type":"web_search"}]}`, nil, 400, "capability_withheld", false},
		{"a server of tools", "POST", "/v1/messages", messages(`,"mcp_servers":[{"type":"url","url":"https://tools.example/","name":"x"}]`), nil, 400, "capability_withheld", false},
		{"a picture by its address", "POST", "/v1/chat/completions", `{"model":"model-a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://pictures.example/1.png"}}]}]}`, nil, 400, "capability_withheld", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, replies(chatReply), nil)
			r.proxy.maxRequest = 64 << 10
			req := r.request(tt.path, tt.body, tt.header...)
			req.Method = tt.method
			res, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.status || !strings.Contains(string(got), tt.code) && !strings.Contains(tt.path, "messages") {
				t.Errorf("status %d, %s, %v", res.StatusCode, got, err)
			}
			if anthropic := strings.HasPrefix(string(got), `{"error":{"message":"`+tt.code+`: `); anthropic != strings.Contains(tt.path, "messages") {
				t.Errorf("it is not in the form of the dialect: %s", got)
			}
			p := of[trajectory.RequestRefused](r)[0]
			if p.Code != tt.code || p.Status != tt.status || p.Path != tt.method+" "+tt.path || p.Bytes != int64(len(tt.body)) || (p.SHA256 == "") != tt.unread || !tt.unread && p.SHA256 != canonical.Digest([]byte(tt.body)) {
				t.Errorf("recorded %+v", p)
			}
			if n := r.finish().Turns; n != 0 || len(r.sent) > 0 {
				t.Errorf("it is %d calls, and %d requests were sent", n, len(r.sent))
			}
		})
	}
}

// TestEndlessBody: a body without a length is read up to the bound, and no further.
func TestEndlessBody(t *testing.T) {
	r := newRig(t, replies(chatReply), nil)
	r.proxy.maxRequest = 64 << 10
	req := r.request("/v1/chat/completions", "")
	req.Body, req.ContentLength = io.NopCloser(io.LimitReader(endless{}, 1<<30)), -1
	if res, err := r.client.Do(req); err == nil { // or the connection is cut while it is being sent
		if res.Body.Close(); res.StatusCode != 413 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	r.finish()
	if p := of[trajectory.RequestRefused](r)[0]; p.Code != "request_too_large" || p.Bytes > r.proxy.maxRequest+1 {
		t.Errorf("recorded %+v", p)
	}
}

// TestImpossibleLength: no length that an agent states makes the journal fail.
func TestImpossibleLength(t *testing.T) {
	r := newRig(t, replies(chatReply), nil)
	for _, path := range []string{"/v1/chat/completions", "/v1/" + strings.Repeat("%00%ff", 1000)} {
		req := r.request(path, "")
		req.Body, req.ContentLength = io.NopCloser(endless{}), math.MaxInt64
		if res, err := r.client.Do(req); err == nil {
			res.Body.Close()
		}
	}
	r.finish()
	if found := of[trajectory.RequestRefused](r); len(found) != 2 || found[0].Bytes < 1<<50 || r.proxy.Err() != nil {
		t.Errorf("recorded %+v, %v", found, r.proxy.Err())
	}
}

// TestRoom: a request waits where others hold the memory for bodies, until theirs have left.
func TestRoom(t *testing.T) {
	r := newRig(t, replies(chatReply), func(s *settings) { s.Bodies = semaphore.NewWeighted(64 << 10) })
	r.proxy.maxRequest = 64 << 10
	in, out := io.Pipe()
	first := r.request("/v1/chat/completions", "")
	first.Body, first.ContentLength = in, -1
	got := make(chan int, 2)
	go func() {
		res, err := r.client.Do(first)
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		res.Body.Close()
		got <- res.StatusCode
	}()
	if _, err := io.WriteString(out, chat("first")[:20]); err != nil {
		t.Fatal(err)
	}
	for r.proxy.Bodies.TryAcquire(1) { // until the proxy reads it
		r.proxy.Bodies.Release(1)
		runtime.Gosched()
	}
	go func() {
		status, _ := r.post("/v1/chat/completions", chat("second"))
		got <- status
	}()
	if _, err := io.WriteString(out, chat("first")[20:]); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if a, b := <-got, <-got; a != 200 || b != 200 {
		t.Errorf("status %d and %d", a, b)
	}
	if !strings.Contains((<-r.sent).body, "first") {
		t.Error("the second did not wait")
	}
	r.finish()
	if !r.proxy.Bodies.TryAcquire(64 << 10) {
		t.Error("memory is held after the requests")
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte{' '}, len(b))), nil }

// TestStrip: what the provider would do is taken out, where the plan says so.
func TestStrip(t *testing.T) {
	r := newRig(t, replies(responseBody), func(s *settings) { s.Strip = true })
	if status, got := r.post("/v1/responses", `{"model":"model-a","input":"q","store":false,"tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{}}]}`); status != 200 {
		t.Fatalf("status %d, %s", status, got)
	}
	if sent := <-r.sent; strings.Contains(sent.body, "web_search") || !strings.Contains(sent.body, `"name":"f"`) {
		t.Errorf("sent %s", sent.body)
	}
	p := of[trajectory.ModelCallStarted](r)[0].Request
	if fmt.Sprint(p.Edits) != "[strip]" || p.ToolsSHA256 == "" {
		t.Errorf("recorded %+v", p)
	}
	if status, _ := r.post("/v1/responses", `{"model":"model-a","store":false,"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://pictures.example/1.png"}]}]}`); status != 400 || len(r.sent) > 0 {
		t.Errorf("a picture by its address got status %d", status)
	}
	r.finish()
}

// TestManyRefusals: an agent that asks on and on is refused as often, and its journal stays short.
func TestManyRefusals(t *testing.T) {
	const requests, workers = 10_000, 16
	r := newRig(t, replies(chatReply), func(s *settings) { s.Calls = 3 })
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range requests / workers {
				if status, _ := r.post("/v1/messages", `{"model":"other","max_tokens":1,"messages":[]}`); status != 400 {
					t.Errorf("status %d", status)
					return
				}
			}
		})
	}
	all.Wait()
	for i := range 5 {
		if status, got := r.post("/v1/chat/completions", chat("q")); status != 200 && i < 3 || i >= 3 && (status != 400 || !strings.Contains(got, "calls_spent")) {
			t.Errorf("call %d got status %d, %s", i, status, got)
		}
	}
	if n := len(of[trajectory.RequestRefused](r)); n != trajectory.MostRequestsRefused || r.rec.Refused() != requests+2 {
		t.Errorf("%d refusals are recorded of %d", n, r.rec.Refused())
	}
	if a := r.finish(); a.Refused != requests+2 || a.Turns != 3 {
		t.Errorf("the attempt counts %d refusals and %d turns", a.Refused, a.Turns)
	}
}

// underWay is an endpoint that first waits for some requests at once, and notes how many it ever has.
type underWay struct {
	first chan struct{} // closed when those are there

	mu        sync.Mutex
	now, most int
	await     int
}

func (u *underWay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.count(1)
	<-u.first
	u.count(-1)
	replies(chatReply)(w, r)
}

func (u *underWay) count(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now += n; u.now == u.await && u.most < u.await {
		close(u.first)
	}
	u.most = max(u.most, u.now)
}

// TestMoney: calls at once never have more under way than the money is enough for; one waits while others are under way,
// and is refused when too little is left and nothing is.
func TestMoney(t *testing.T) {
	const cost = 12 // of a call
	request := chat("q", `,"max_tokens":40`)
	bound := int64(len(request)/2) + 40
	limit := 2*bound + bound/2
	unlimited := chat("q") // reserves the plan's limit
	most := int64(len(unlimited)/2) + 100
	for _, tt := range []struct {
		name     string
		request  string
		change   func(*settings)
		atOnce   int
		answered int64
		refused  string
	}{
		{"of the run", request, func(s *settings) { s.money = limit }, 2, (limit-bound)/cost + 1, "the run has too little money left"},
		{"of the run, without a limit of the request", unlimited, func(s *settings) { s.money = most + bound }, 1, bound/cost + 1, "the run has too little money left"},
		{"of the task", request, func(s *settings) { s.policy.MaxCostMicroUSD = limit }, 2, (limit + cost - 1) / cost, "the money of this task is spent"},
		{"tokens of the task", request, func(s *settings) { s.limits = tools.Limits{Tokens: limit} }, 2, (limit + cost - 1) / cost, "the tokens of this task are spent"},
		{"a price that is not known", request, func(s *settings) {
			s.Prices, s.policy.MaxCostMicroUSD = llm.Prices{}, 100
		}, 1, 40, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &underWay{first: make(chan struct{}), await: tt.atOnce}
			r := newRig(t, u.ServeHTTP, tt.change)
			var all sync.WaitGroup
			var answered atomic.Int64
			for range 40 {
				all.Go(func() {
					switch status, answer := r.post("/v1/chat/completions", tt.request); {
					case status == 200:
						answered.Add(1)
					case status != 400 || !strings.Contains(answer, tt.refused) || !strings.Contains(answer, "budget_spent") || tt.refused == "":
						t.Errorf("status %d, %s", status, answer)
					}
				})
			}
			all.Wait()
			if a := r.finish(); u.most != tt.atOnce || answered.Load() != tt.answered || int64(a.Turns) != tt.answered {
				t.Errorf("%d of %d were answered, %d at once; the attempt has %d turns", answered.Load(), tt.answered, u.most, a.Turns)
			}
			for _, p := range of[trajectory.RequestRefused](r) {
				if p.Code != "budget_spent" || p.Status != 400 {
					t.Errorf("recorded %+v", p)
				}
			}
		})
	}
}

// TestOverspent: a call that costs more than what the task has left is paid, recorded as a violation, and the last.
func TestOverspent(t *testing.T) {
	r := newRig(t, replies(chatReply), func(s *settings) {
		s.policy = policy.Policy{Mode: policy.Autonomous, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: 5}
	})
	first, _ := r.post("/v1/chat/completions", chat("q"))
	second, _ := r.post("/v1/chat/completions", chat("q"))
	if first != 200 || second != 400 {
		t.Errorf("status %d, then %d", first, second)
	}
	r.finish()
	if over := of[trajectory.PolicyViolation](r); len(over) != 1 || over[0].Class != string(policy.DeniedByBudget) {
		t.Errorf("violations %+v", over)
	}
}
