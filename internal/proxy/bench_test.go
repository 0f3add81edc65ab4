package proxy

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// benchAttempts serves the proxies of attempts that share an endpoint and a journal on disk, and returns a client of the
// endpoint and one of each attempt.
func benchAttempts(b *testing.B, attempts int, endpoint http.HandlerFunc) (bare string, proxies []*Proxy, clients []*http.Client) {
	b.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	upstream := httptest.NewServer(endpoint)
	b.Cleanup(upstream.Close)
	file, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	began := time.Now()
	log, err := trajectory.NewLog(file, trajectory.End{Head: headOfPlan}, trajectory.LogConfig{RunID: "01JZ0000000000000000000RVN", Now: time.Now,
		Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader})
	if err != nil {
		b.Fatal(err)
	}
	prices, err := llm.ParsePrices([]byte(priceTable))
	if err != nil {
		b.Fatal(err)
	}
	gate, err := tools.NewGate(tools.GateConfig{Policy: policy.Policy{Mode: policy.Autonomous, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: policy.Unlimited}, Prices: prices, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	b.Cleanup(transport.CloseIdleConnections)
	to := Upstream{BaseURL: upstream.URL + "/v1", APIKey: testKey, Transport: transport}
	config := Config{Upstreams: map[string]Upstream{llm.DialectChat: to}, Models: []string{testModel}, MaxTokens: 100, Calls: 1 << 40, Prices: prices, Now: time.Now}
	for i := range attempts {
		rec := &trajectory.Attempt{Log: log, TaskID: fmt.Sprint("task ", i), Number: 1, Known: trajectory.NewKnownTexts(nil, false)}
		p := New(context.Background(), config, Attempt{Rec: rec, Turns: NewTurns(rec), Session: gate.Open(rec, nil, tools.Spent{}, nil), Money: (*budget.Budget)(nil),
			Probe: probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: "What is the capital?", Gold: "Paris"})})
		socket := filepath.Join(dir, fmt.Sprint(i))
		listener, err := net.Listen("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{Handler: p}
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(func() { server.Close() })
		dial := &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
		b.Cleanup(dial.CloseIdleConnections)
		proxies, clients = append(proxies, p), append(clients, &http.Client{Transport: dial})
	}
	return upstream.URL, proxies, clients
}

// ask sends one request and reads the whole answer; first is when its first line came.
func ask(b *testing.B, c *http.Client, base, body string) (first time.Time) {
	res, err := c.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return first
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	_, _ = in.ReadSlice('\n')
	first = time.Now()
	if _, err := io.Copy(io.Discard, in); err != nil || res.StatusCode != 200 {
		b.Errorf("status %d, %v", res.StatusCode, err)
	}
	return first
}

// conversation is a request with some 20 kB of earlier messages.
func conversation(n int) string {
	var s strings.Builder
	for i := range 20 {
		fmt.Fprintf(&s, `{"role":%q,"content":"%s"},`, []string{"user", "assistant"}[i%2], strings.Repeat("word ", 200))
	}
	return fmt.Sprintf(`{"model":%q,"stream":%%t,"messages":[{"role":"system","content":"Answer."},%s{"role":"user","content":"question %d"}]}`, testModel, s.String(), n)
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}

// BenchmarkAdded reports what the proxy adds to a call at the median: in all, and to the first event of a stream after
// the endpoint has sent it.
func BenchmarkAdded(b *testing.B) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	for _, stream := range []bool{false, true} {
		b.Run(fmt.Sprintf("stream=%t", stream), func(b *testing.B) {
			var left atomic.Int64 // when the first event left
			bare, _, clients := benchAttempts(b, 1, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if !stream {
					replies(chatReply)(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				left.Store(time.Now().UnixNano())
				for _, part := range []string{chatBegin, chatMiddle, chatUsage, chatEnd} {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
				}
			})
			var took, first [2][]time.Duration
			n := 0
			for b.Loop() {
				n++
				body := fmt.Sprintf(conversation(n), stream)
				for i, c := range []*http.Client{client, clients[0]} {
					began := time.Now()
					at := ask(b, c, []string{bare, "http://agent"}[i], body)
					took[i], first[i] = append(took[i], time.Since(began)), append(first[i], at.Sub(time.Unix(0, left.Load())))
				}
			}
			b.ReportMetric(median(took[1])-median(took[0]), "added-ms")
			if stream {
				b.ReportMetric(median(first[1])-median(first[0]), "first-event-ms")
			}
		})
	}
}

// BenchmarkCalls reports the calls per second of 64 attempts at once, and what each takes of memory, journal included.
func BenchmarkCalls(b *testing.B) {
	const attempts = 64
	_, proxies, clients := benchAttempts(b, attempts, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		replies(chatReply)(w, r)
	})
	bodies := make([]string, 16)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(conversation(i), false)
	}
	before := heap()
	var next, done atomic.Int64
	for b.Loop() {
		var all sync.WaitGroup
		for i, c := range clients {
			all.Go(func() {
				ask(b, c, "http://agent", bodies[(int(next.Add(1))+i)%len(bodies)])
				done.Add(1)
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(done.Load())/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(heap()-before)/attempts/1e6, "MB/attempt")
	runtime.KeepAlive(proxies)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
