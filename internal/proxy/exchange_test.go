package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestExchange: what the agent sends reaches the endpoint byte for byte, the reply comes back so, and the journal has
// both, whole and streamed, in each dialect.
func TestExchange(t *testing.T) {
	for _, d := range dialects {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%t", d.name, stream), func(t *testing.T) {
				request, want, endpoint := d.request, d.reply, replies(d.reply)
				if stream {
					request, want, endpoint = streamed(d.request), d.begin+d.end, streams(d.begin, d.end)
				}
				if d.name == llm.DialectChat && stream {
					request = strings.TrimSuffix(request, "}") + `,"stream_options":{"include_usage":true}}`
				}
				r := newRig(t, endpoint, func(s *settings) { s.attempt.Full = true })
				status, got := r.post(d.path, request, "X-Api-Key", "placeholder", "Authorization", "Bearer placeholder", "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "b", "Cookie", "c=1")
				if status != 200 || got != want {
					t.Fatalf("status %d, answer %q", status, got)
				}
				sent := <-r.sent
				if sent.body != request || sent.path != d.path || sent.header.Get("Anthropic-Beta") != "b" || sent.header.Get("Cookie") != "" || sent.header.Get("Authorization") != "Bearer "+testKey || strings.Contains(fmt.Sprint(sent.header), "placeholder") {
					t.Errorf("the endpoint received %+v", sent)
				}
				a := r.finish()
				if a.Turns != 1 || a.Tokens != (trajectory.Tokens{In: 10, Out: 2}) || a.CostMicroUSD == nil || *a.CostMicroUSD != 12 {
					t.Errorf("the attempt has %d turns, %+v and cost %v", a.Turns, a.Tokens, a.CostMicroUSD)
				}
				started, done := of[trajectory.ModelCallStarted](r)[0], of[trajectory.ModelCallCompleted](r)[0]
				if q := started.Request; q.Dialect != d.name || q.SHA256 != canonical.Digest([]byte(request)) || q.Bytes != int64(len(request)) || q.Stream != stream || len(q.Edits) > 0 || q.SentSHA256 != "" {
					t.Errorf("request %+v", q)
				}
				if p := done.Reply; p.SHA256 != canonical.Digest([]byte(want)) || p.Bytes != int64(len(want)) || p.Status != 200 || p.Aborted {
					t.Errorf("reply %+v", p)
				}
				if done.Error != nil || !strings.Contains(done.Head, `"content":"Paris"`) || done.ResponseModel != "model-a-1" {
					t.Errorf("completed %+v", done)
				}
				if r.journal.bodies[started.Request.BodySHA256] != request || r.journal.bodies[done.Reply.BodySHA256] != want {
					t.Error("the bodies that are kept are not the exact ones")
				}
				compiled := of[trajectory.ContextCompiled](r)[0]
				if last := compiled.Messages[len(compiled.Messages)-1]; last.Source != "agent" || last.Role != "user" || !strings.Contains(compiled.Head, "Which one is it?") {
					t.Errorf("compiled %+v", compiled)
				}
				if !r.proxy.Holds("paris.") || r.proxy.Holds("Rome") || r.proxy.Failed() != nil {
					t.Error("what the reply said is not what is kept of it")
				}
			})
		}
	}
}

// TestEdits: a stream of a chat completion reports its usage, also where the agent did not ask for it, and the agent
// does not see the difference; a response is not kept at the provider.
func TestEdits(t *testing.T) {
	r := newRig(t, streams(chatBegin, chatMiddle, chatUsage, chatEnd), nil)
	if _, got := r.post("/v1/chat/completions", streamed(chat("q"))); got != chatBegin+chatMiddle+chatEnd {
		t.Errorf("the agent got %q", got)
	}
	sent := <-r.sent
	q := of[trajectory.ModelCallStarted](r)[0].Request
	if !strings.Contains(sent.body, `"include_usage":true`) || !slices.Equal(q.Edits, []string{llm.EditUsage}) || q.SentSHA256 != canonical.Digest([]byte(sent.body)) {
		t.Errorf("sent %s, recorded %+v", sent.body, q)
	}
	if reply := of[trajectory.ModelCallCompleted](r)[0].Reply; reply.SHA256 != canonical.Digest([]byte(chatBegin+chatMiddle+chatUsage+chatEnd)) {
		t.Error("the reply is not recorded as it came")
	}
	r = newRig(t, replies(responseBody), nil)
	r.post("/v1/responses", `{"model":"model-a","input":"q"}`)
	if sent := <-r.sent; !strings.Contains(sent.body, `"store":false`) {
		t.Errorf("sent %s", sent.body)
	}
	if q := of[trajectory.ModelCallStarted](r)[0].Request; !slices.Equal(q.Edits, []string{llm.EditStore}) {
		t.Errorf("recorded %+v", q)
	}
}

// TestHeaders: of a reply's header the agent gets what is about the reply.
func TestHeaders(t *testing.T) {
	r := newRig(t, status(200, chatReply, "Connection", "x-hop", "X-Hop", "1", "Set-Cookie", "c=1", "Openai-Organization", "org", "X-Echo", testKey,
		"X-Ratelimit-Remaining-Tokens", "9", "X-Request-Id", "req-1"), nil)
	res, err := r.client.Do(r.request("/v1/chat/completions", chat("q")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	h := res.Header
	for _, name := range []string{"Connection", "X-Hop", "Set-Cookie", "Openai-Organization", "X-Echo"} {
		if h.Get(name) != "" {
			t.Errorf("the agent got %s: %s", name, h.Get(name))
		}
	}
	if h.Get("X-Ratelimit-Remaining-Tokens") != "9" || h.Get("X-Request-Id") != "req-1" || h.Get("Content-Type") != "application/json" || res.ContentLength != int64(len(chatReply)) {
		t.Errorf("the agent got %v and a length of %d", h, res.ContentLength)
	}
}

// TestConversation: a request that continues the one before lists what is new, and the same body again is a retry.
func TestConversation(t *testing.T) {
	r := newRig(t, replies(chatReply), nil)
	first := chat("q")
	second := `{"model":"model-a","messages":[{"role":"system","content":"Answer."},{"role":"user","content":"q"},{"role":"assistant","content":"Paris"},{"role":"user","content":"Really?"}]}`
	for _, body := range []string{first, second, second} {
		if status, _ := r.post("/v1/chat/completions", body); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	r.finish()
	compiled := of[trajectory.ContextCompiled](r)
	if compiled[1].Kept != 2 || len(compiled[1].Messages) != 2 || strings.Contains(compiled[1].Head, "Paris") || !strings.Contains(compiled[1].Head, "Really?") || compiled[2].Kept != 4 || compiled[2].Bytes != 0 {
		t.Errorf("compiled %+v", compiled)
	}
	for i, p := range of[trajectory.ModelCallStarted](r) {
		if p.Request.Retry != (i == 2) || p.Try != 1 {
			t.Errorf("call %d: %+v", i, p)
		}
	}
	for i, p := range of[trajectory.ModelCallCompleted](r) {
		if p.RetryOf != "" {
			t.Errorf("call %d repeats another", i)
		}
	}
}

// TestHeldEvent: the agent has a stream as it comes, but not before the reply is durable what it may act on.
func TestHeldEvent(t *testing.T) {
	next := make(chan string)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for part := range next {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	}, nil)
	var res *http.Response
	got := make(chan error)
	go func() {
		var err error
		res, err = r.client.Do(r.request("/v1/chat/completions", streamed(chat("q"))))
		got <- err
	}()
	next <- chatBegin
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body := bufio.NewReader(res.Body)
	expect := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(body, b); err != nil || string(b) != want {
			t.Fatalf("got %q, %v", b, err)
		}
	}
	expect(chatBegin)
	if len(of[trajectory.ModelCallStarted](r)) != 1 || len(of[trajectory.ModelCallCompleted](r)) != 0 {
		t.Error("the request is not durable, or its end is before it came")
	}
	text, finish, _ := strings.Cut(chatMiddle, "\n\n")
	next <- chatMiddle
	expect(text + "\n\n")
	next <- chatEnd
	expect(finish[:1])
	if len(of[trajectory.ModelCallCompleted](r)) != 1 {
		t.Error("why the reply ends came before the reply was durable")
	}
	expect(finish[1:] + chatEnd)
	close(next)
}

// TestCountTokens: it is passed on and recorded as a call that has no message, takes no tokens and costs nothing.
func TestCountTokens(t *testing.T) {
	r := newRig(t, replies(`{"input_tokens":14}`), func(s *settings) { s.money = 1 })
	request := `{"model":"model-a","messages":[{"role":"user","content":"q"}]}`
	if status, got := r.post("/v1/messages/count_tokens?beta=true&other=1", request); status != 200 || got != `{"input_tokens":14}` {
		t.Fatalf("status %d, %s", status, got)
	}
	if sent := <-r.sent; sent.path != "/v1/messages/count_tokens?beta=true" || sent.header.Get("X-Api-Key") != testKey {
		t.Errorf("sent to %s with %v", sent.path, sent.header)
	}
	done := of[trajectory.ModelCallCompleted](r)[0]
	if done.Error != nil || done.OutputSHA256 != "" || done.UsageReported || done.CostMicroUSD != nil || done.Reply.Bytes != 19 {
		t.Errorf("%+v", done)
	}
	if a := r.finish(); a.CostMicroUSD == nil || *a.CostMicroUSD != 0 || a.Tokens != (trajectory.Tokens{}) {
		t.Errorf("it cost %v and took %+v", a.CostMicroUSD, a.Tokens)
	}
	if _, _, requests := trajectory.Usage(done); requests != 0 {
		t.Error("it counts as an answered request")
	}
}

// TestModels: the planned models in the form of each dialect.
func TestModels(t *testing.T) {
	r := newRig(t, replies("{}"), func(s *settings) { s.Models = []string{testModel, "model-b"} })
	for header, want := range map[string]string{
		"X-Other":           `{"data":[{"created":0,"id":"model-a","object":"model","owned_by":"gaia"},{"created":0,"id":"model-b","object":"model","owned_by":"gaia"}],"object":"list"}`,
		"Anthropic-Version": `{"data":[{"created_at":"1970-01-01T00:00:00Z","display_name":"model-a","id":"model-a","type":"model"},{"created_at":"1970-01-01T00:00:00Z","display_name":"model-b","id":"model-b","type":"model"}],"first_id":"model-a","has_more":false,"last_id":"model-b"}`,
	} {
		req := r.request("/v1/models", "", header, "2023-06-01")
		req.Method = http.MethodGet
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != want {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if n := r.finish().Turns; n != 0 || len(r.sent) > 0 {
		t.Errorf("it is %d calls, and %d requests were sent", n, len(r.sent))
	}
}

// TestParallel: calls at once have turns that overlap, and the journal folds.
func TestParallel(t *testing.T) {
	const calls, atOnce = 48, 16
	u := &underWay{first: make(chan struct{}), await: atOnce}
	r := newRig(t, u.ServeHTTP, func(s *settings) { s.Parallel = atOnce })
	done := make(chan int, calls)
	for i := range calls {
		go func() {
			status, _ := r.post("/v1/chat/completions", chat(fmt.Sprint("question ", i%40)))
			done <- status
		}()
	}
	for range calls {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	a := r.finish()
	retries := 0
	for _, p := range of[trajectory.ModelCallStarted](r) {
		if p.Request.Retry {
			retries++
		}
	}
	if a.Turns != calls || a.Tokens.In != 10*calls || retries != calls-40 || u.most != atOnce {
		t.Errorf("%d turns, %+v, %d retries, %d at once", a.Turns, a.Tokens, retries, u.most)
	}
}
