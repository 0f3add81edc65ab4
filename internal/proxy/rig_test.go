package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	testModel = "model-a"
	testKey   = "sk-invented/0123456789abcdef+key"
)

var headOfPlan = canonical.Digest([]byte("a plan"))

// journal is a journal in memory, whose disk fails from the failAt-th sync on; 0: never.
type journal struct {
	mu     sync.Mutex
	lines  bytes.Buffer
	synced int
	failAt int
	bodies map[string]string
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failAt > 0 && j.synced+1 >= j.failAt {
		return 0, errors.New("the disk is full")
	}
	return j.lines.Write(b)
}

func (j *journal) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.synced++
	if j.failAt > 0 && j.synced >= j.failAt {
		return errors.New("the disk is full")
	}
	return nil
}

// text returns what is durable.
func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// rig is a proxy between a client on a Unix socket and a scripted endpoint.
type rig struct {
	t       testing.TB
	journal *journal
	rec     *trajectory.Attempt
	proxy   *Proxy
	client  *http.Client
	session *tools.Session
	plan    plan.Plan
	sent    chan sentRequest
	gone    chan struct{} // an agent that waits has hung up
}

// sentRequest is what the endpoint received.
type sentRequest struct {
	path   string
	header http.Header
	body   string
}

type settings struct {
	Config
	attempt Attempt
	journal *journal
	policy  policy.Policy
	limits  tools.Limits
	money   int64
	ctx     context.Context
}

const priceTable = `{"version":"1","note":"invented","models":{"model-a":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":1000000,"output_microusd_per_mtok":1000000}}}`

// newRig serves a proxy of an attempt whose endpoint is a handler.
func newRig(t testing.TB, endpoint http.HandlerFunc, change func(*settings)) *rig {
	t.Helper()
	sent := make(chan sentRequest, 16<<10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- sentRequest{r.URL.RequestURI(), r.Header, string(body)}
		endpoint(w, r)
	}))
	t.Cleanup(upstream.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	prices, err := llm.ParsePrices([]byte(priceTable))
	if err != nil {
		t.Fatal(err)
	}
	to := Upstream{BaseURL: upstream.URL + "/v1", APIKey: testKey, Transport: transport}
	s := settings{journal: &journal{}, policy: policy.Policy{Mode: policy.Autonomous, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: policy.Unlimited}, ctx: context.Background(),
		Config: Config{Upstreams: map[string]Upstream{llm.DialectChat: to, llm.DialectResponses: to, llm.DialectMessages: to}, Models: []string{testModel},
			MaxTokens: 100, Calls: 2000, Prices: prices, Now: time.Now}}
	if change != nil {
		change(&s)
	}
	r := &rig{t: t, journal: s.journal, sent: sent, gone: make(chan struct{}, 1024)}
	r.plan = plan.New()
	r.plan.RunID, r.plan.Agent = "01JZ0000000000000000000RVN", &plan.AgentPlan{}
	r.plan.Govern(s.policy)
	r.plan.Tasks = []plan.PlannedTask{{TaskID: "task", Level: 1}}
	began := time.Now()
	config := trajectory.LogConfig{RunID: r.plan.RunID, Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader}
	if s.attempt.Full {
		s.journal.bodies = map[string]string{}
		config.Bodies = func(bodies []trajectory.Body) error {
			for _, b := range bodies {
				s.journal.bodies[b.SHA256] = b.Text
			}
			return nil
		}
	}
	log, err := trajectory.NewLog(s.journal, trajectory.End{Head: headOfPlan}, config)
	if err != nil {
		t.Fatal(err)
	}
	r.rec = &trajectory.Attempt{Log: log, TaskID: "task", Number: 1, Known: trajectory.NewKnownTexts(nil, false), Redact: trajectory.NewRedactor(nil)}
	m := r.plan
	if _, err := log.Enqueue(trajectory.Draft{Payload: trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: headOfPlan,
		PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.rec.Enqueue(0, trajectory.TaskStarted{Question: "What is the capital?", Workspace: []trajectory.File{}}); err != nil {
		t.Fatal(err)
	}
	gate, err := tools.NewGate(tools.GateConfig{Policy: s.policy, Prices: prices, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r.session = gate.Open(r.rec, nil, tools.Spent{}, nil)
	r.session.Limit(s.limits, 0)
	s.attempt.Rec, s.attempt.Turns, s.attempt.Session = r.rec, NewTurns(r.rec), r.session
	s.attempt.Money = budget.New(s.money, prices, testModel, 100)
	r.proxy = New(s.ctx, s.Config, s.attempt)

	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer context.AfterFunc(q.Context(), func() { r.gone <- struct{}{} })()
		r.proxy.ServeHTTP(w, q)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	dial := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}, MaxIdleConnsPerHost: 128}
	t.Cleanup(dial.CloseIdleConnections)
	r.client = &http.Client{Transport: dial}
	return r
}

// post sends a body as the agent would, and returns the status and the whole answer; 0 is a connection that was cut
// before its end.
func (r *rig) post(path, body string, header ...string) (status int, answer string) {
	r.t.Helper()
	res, err := r.client.Do(r.request(path, body, header...))
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, string(b)
	}
	return res.StatusCode, string(b)
}

func (r *rig) request(path, body string, header ...string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// events returns what is durable, after a check of its chain.
func (r *rig) events() []trajectory.Event {
	r.t.Helper()
	var events []trajectory.Event
	_, tail, err := trajectory.ReadJournal(strings.NewReader(r.journal.text()), r.plan.RunID, headOfPlan, func(e trajectory.Event, _ []byte) error {
		events = append(events, e)
		return nil
	})
	if err != nil || tail != nil {
		r.t.Errorf("reading the journal: %v, %v", tail, err)
	}
	return events
}

// of returns the payloads of one type that are durable.
func of[P trajectory.Payload](r *rig) (found []P) {
	r.t.Helper()
	for _, e := range r.events() {
		if p, ok := e.Payload.(P); ok {
			found = append(found, p)
		}
	}
	return found
}

// finish closes the proxy and ends the attempt, and checks that the journal folds.
func (r *rig) finish() *rundir.Attempt {
	r.t.Helper()
	r.proxy.Close()
	if err := r.rec.Append(0, trajectory.AttemptEnded{Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited, Refused: r.rec.Refused()}, Outcome: trajectory.NoAnswer, Reason: "it gave none"}); err != nil {
		r.t.Fatal(err)
	}
	fold := rundir.NewFold(r.plan, headOfPlan, nil)
	if _, _, err := trajectory.ReadJournal(strings.NewReader(r.journal.text()), r.plan.RunID, headOfPlan, fold.Add); err != nil {
		r.t.Fatalf("the journal does not fold: %v", err)
	}
	return fold.Task("task").Attempts[0]
}

// chat is a request for a chat completion.
func chat(content string, more ...string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"Answer."},{"role":"user","content":%q}]%s}`, testModel, content, strings.Join(more, ""))
}

// Replies of each dialect with the answer Paris, whole and as a stream. Each reads 10 tokens and writes 2.
const (
	chatReply = `{"id":"c1","object":"chat.completion","model":"model-a-1","choices":[{"index":0,"message":{"role":"assistant","content":"Paris"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`

	chatBegin  = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Par"},"finish_reason":null}]}` + "\n\n"
	chatMiddle = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{"content":"is"},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	chatUsage = `data: {"id":"c1","object":"chat.completion.chunk","model":"model-a-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}` + "\n\n"
	chatEnd   = "data: [DONE]\n\n"

	responseBody  = `{"id":"r1","object":"response","status":"completed","model":"model-a-1","output":[{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Paris","annotations":[]}]}],"usage":{"input_tokens":10,"output_tokens":2,"total_tokens":12}}`
	responseBegin = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"model-a-1\",\"output\":[]}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"Paris\"}\n\n"
	responseEnd = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + responseBody + "}\n\n"

	messageReply = `{"id":"g1","type":"message","role":"assistant","model":"model-a-1","content":[{"type":"text","text":"Paris"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":2}}`
	messageBegin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"g1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"model-a-1\",\"content\":[],\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Paris\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n"
	messageEnd = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// dialects are a request and a reply of each, whole and as a stream: what the stream begins with, and the event that
// ends it.
var dialects = []struct {
	name, path, request, reply, begin, end string
}{
	{llm.DialectChat, "/v1/chat/completions", chat("Which one is it?"), chatReply, chatBegin + chatMiddle + chatUsage, chatEnd},
	{llm.DialectResponses, "/v1/responses", `{"model":"model-a","input":"Which one is it?","store":false}`, responseBody, responseBegin, responseEnd},
	{llm.DialectMessages, "/v1/messages", `{"model":"model-a","max_tokens":50,"messages":[{"role":"user","content":"Which one is it?"}]}`, messageReply, messageBegin, messageEnd},
}

// streamed is a request with "stream": true.
func streamed(request string) string { return strings.TrimSuffix(request, "}") + `,"stream":true}` }

// replies answers with a body of JSON.
func replies(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// streams answers with the parts of a stream, and flushes each.
func streams(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	}
}
