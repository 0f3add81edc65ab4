package external

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// breaks makes the endpoint fail from the nth request on.
func breaks(from int) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, n int) {
		w.Header().Set("Content-Type", "application/json")
		if n >= from {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"overloaded"}}`)
			return
		}
		_, _ = io.WriteString(w, reply)
	}
}

// failing is a tool that the harness cannot run.
func failing() tools.Tool {
	return tools.Define(tools.Definition[noteArgs]{Name: "broken", Description: "Fails.",
		Run: func(context.Context, *tools.Env, noteArgs) (tools.Output, error) {
			return tools.Output{}, errors.New("the model of the tool is away")
		}})
}

// TestFaults: a failure of the endpoint or the harness is an error, if it was the last thing that happened and there is no
// answer. All else is the agent's.
func TestFaults(t *testing.T) {
	s := confined(t)
	const broken = `curl -sS -d '{"text":"x"}' $GAIA_TOOLS_URL/broken` + "\n"
	const works = `curl -sS -d '{"expression":"1"}' $GAIA_TOOLS_URL/calculate` + "\n"
	for _, c := range []struct {
		name, script string
		from         int // the first request that the endpoint fails
		want         string
		found        bool
	}{
		{"the endpoint fails", ask + "ask", 1, "overloaded", false},
		{"the endpoint fails at the end", ask + "ask; ask", 2, "overloaded", false},
		{"and there is an answer", ask + "ask; echo 1 >ANSWER", 1, "", true},
		{"the next request is refused", ask + "ask; ask model-b", 1, "overloaded", false},
		{"a tool fails", broken, 0, "the model of the tool is away", false},
		{"then another works", broken + works, 0, "", false},
		{"a tool fails and there is an answer", broken + "echo 1 >ANSWER", 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.script, nil, failing())
			if b.Sandbox = s; c.from > 0 {
				b.endpoint = breaks(c.from)
			}
			answer, err := b.solve()
			if answer.Found != c.found || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) || answer.End == nil {
				t.Errorf("%+v, %v", answer, err)
			}
			var model *llm.Error
			if c.from > 0 && err != nil && !errors.As(err, &model) {
				t.Errorf("%v is no failure of the endpoint", err)
			}
		})
	}
}

// TestNotRecorded: when the journal cannot be written, the agent is killed, and nothing of it counts.
func TestNotRecorded(t *testing.T) {
	s := confined(t)
	for name, script := range map[string]string{
		"model": ask + "echo 1 >ANSWER; while :; do ask; done",
		"tools": "echo 1 >ANSWER; while :; do curl -sS -d '{\"text\":\"x\"}' $GAIA_TOOLS_URL/note; done",
		"mcp":   "",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script, func(b *bench) {
				b.journal.failAt, b.Plan.TimeoutMs = 9, time.Hour.Milliseconds()
				if name == "mcp" {
					goAgent("mcp-forever")(b)
				}
			})
			b.Sandbox = s
			answer, err := b.solve()
			if !errors.Is(err, trajectory.ErrNotRecorded) || answer.Found {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
}

// TestInterrupted: an interruption ends the agent at once, and is an error.
func TestInterrupted(t *testing.T) {
	b := newBench(t, "trap '' TERM\necho 1 >ANSWER\n"+forever, nil)
	b.Sandbox = confined(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(b.Workspace, "ANSWER")); err == nil {
				cancel()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	answer, err := b.Solve(ctx, agent.Question{Text: question}, b.session, b.rec)
	if !errors.Is(err, context.Canceled) || answer.Found {
		t.Errorf("%+v, %v", answer, err)
	}
}

// TestCallsEnd: a tool call that is under way when the agent ends is cut off, and recorded before the answer is looked for.
func TestCallsEnd(t *testing.T) {
	slow := tools.Define(tools.Definition[noteArgs]{Name: "slow", Description: "Waits.",
		Run: func(ctx context.Context, _ *tools.Env, _ noteArgs) (tools.Output, error) {
			<-ctx.Done()
			return tools.Output{}, ctx.Err()
		}})
	b := newBench(t, `for i in 1 2 3; do curl -sS -d '{"text":"x"}' $GAIA_TOOLS_URL/slow & done; sleep 0.5; echo 1 >ANSWER`, nil, slow)
	b.Sandbox = confined(t)
	answer, err := b.solve()
	if err != nil || !answer.Found {
		t.Errorf("%+v, %v", answer, err)
	}
	if r := of[trajectory.ToolExecuted](b); len(r) != 3 || !r[0].IsError || !strings.Contains(r[0].Head, "cut off: the attempt is over") {
		t.Errorf("%+v", r)
	}
}

// TestUnconfined: without a sandbox, or with this machine's network, the agent reaches a loopback port, below a path that
// only it knows.
func TestUnconfined(t *testing.T) {
	const script = ask + submit + `ask; case $OPENAI_BASE_URL in http://127.0.0.1:*/?*/v1) ;; *) exit 1;; esac
		origin=$(echo $ANTHROPIC_BASE_URL | cut -d/ -f1-3); curl -sS -o /dev/null -w '%{http_code}' $origin/tools >code
		submit $(cat code)`
	for name, change := range map[string]func(*bench){
		"unconfined": func(b *bench) {},
		"network":    func(b *bench) { b.Sandbox, b.Plan.Network = confined(t), plan.NetworkHost },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script, change)
			answer, err := b.solve()
			if err != nil || answer.Text != "404" || answer.Rule != plan.RuleSubmitted || b.asked != 1 {
				t.Errorf("%+v, %v; %+v", answer, err, answer.End)
			}
		})
	}
}

// TestArguments: the arguments of all calls together have a bound, beyond which calls are refused and recorded as such.
func TestArguments(t *testing.T) {
	b := newBench(t, "", nil)
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	s, err := b.serve(ctx, fail, b.session, b.rec)
	must(t, err)
	defer s.close()
	for range maxArguments/maxToolRequest + 3 {
		r := httptest.NewRequest(http.MethodPost, "/tools/list_files", strings.NewReader(strings.Repeat(" ", maxToolRequest)))
		if !s.tools.serve(httptest.NewRecorder(), r, s.proxy) {
			t.Fatal("it is no tool")
		}
	}
	if r := of[trajectory.RequestRefused](b); len(r) != 3 || r[0].Code != "calls_spent" || b.rec.Refused() != 3 {
		t.Errorf("%+v", r)
	}
}

// TestSocket: the path of the socket has a bound, and nothing is left of its folder.
func TestSocket(t *testing.T) {
	b := newBench(t, "", nil)
	b.Sandbox, b.SocketDir = confined(t), filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	must(t, os.Mkdir(b.SocketDir, 0o700))
	if _, err := b.Solve(t.Context(), agent.Question{Text: question}, b.session, b.rec); err == nil || !strings.Contains(err.Error(), "longer than 107 bytes") {
		t.Errorf("error is %v", err)
	}
	if left, err := os.ReadDir(b.SocketDir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestTail: the end of what is written is kept, from the beginning of a line.
func TestTail(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"a", "b\n", "c"}, "ab\nc"},
		{[]string{"0123456789"}, "0123456789"},
		{[]string{"01234567\n", "9\n"}, "9\n"},
		{[]string{strings.Repeat("x", 100) + "\nend"}, "end"},
		{strings.Split(strings.Repeat("x", 100), ""), "xxxxxxxxxx"},
	} {
		w, n := &tail{keep: 10}, int64(0)
		for _, p := range c.parts {
			n += int64(len(p))
			if _, err := io.WriteString(w, p); err != nil {
				t.Fatal(err)
			}
		}
		if w.String() != c.want || w.written != n {
			t.Errorf("%q: %q of %d bytes, want %q of %d", c.parts, w.String(), w.written, c.want, n)
		}
	}
}

// FuzzTools: whatever an agent sends to the tools, the server goes on, and the journal can be written.
func FuzzTools(f *testing.F) {
	b := newBench(f, "", nil)
	ctx, fail := context.WithCancelCause(f.Context())
	s, err := b.serve(ctx, fail, b.session, b.rec)
	must(f, err)
	defer s.close()
	s.tools.most = 1 << 60
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculate","arguments":{"expression":"1+1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":[1]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}},{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt"}}}`, `{"expression":"\ud800"}`, "{\"expression\":\"\xff\"}", `{"a":{"b":[{}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`,
	} {
		for _, path := range []string{"/mcp", "/tools/calculate", "/tools/x%ff"} {
			f.Add(path, "POST", "2025-06-18", body)
			f.Add(path, "POST", "2026-07-28", body)
		}
	}
	f.Fuzz(func(t *testing.T, path, method, version, body string) {
		s.tools.mu.Lock()
		s.tools.bytes = 0
		s.tools.mu.Unlock()
		limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(limited, method, "http://agent/"+strings.TrimLeft(path, "/"), strings.NewReader(body))
		if err != nil || !strings.HasPrefix(r.URL.Path, "/mcp") && !strings.HasPrefix(r.URL.Path, "/tools/") {
			return
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"calculate"}}
		w := httptest.NewRecorder()
		if !s.tools.serve(w, r, s.proxy) {
			return
		}
		if limited.Err() != nil {
			t.Error("there is no answer")
		}
		if err := s.notRecorded(); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkAttempts measures what a running attempt takes of gaia's memory, after a model call and a tool call.
func BenchmarkAttempts(b *testing.B) {
	const attempts = 32
	s := confined(b)
	for b.Loop() {
		var all []*bench
		for range attempts {
			one := newBench(b, ask+"ask; curl -sS -d '{\"expression\":\"1\"}' $GAIA_TOOLS_URL/calculate; touch ready\n while [ ! -e go ]; do sleep 0.05; done; echo 1 >ANSWER", nil)
			one.Sandbox = s
			all = append(all, one)
		}
		before := memory()
		done := make(chan error, attempts)
		for _, one := range all {
			go func() {
				_, err := one.Solve(b.Context(), agent.Question{Text: question}, one.session, one.rec)
				done <- err
			}()
		}
		for _, one := range all {
			for {
				if _, err := os.Stat(filepath.Join(one.Workspace, "ready")); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		b.ReportMetric(float64(memory()-before)/attempts/1024, "KiB/attempt")
		for _, one := range all {
			must(b, os.WriteFile(filepath.Join(one.Workspace, "go"), nil, 0o600))
		}
		for range attempts {
			must(b, <-done)
		}
	}
}

// memory returns the bytes of live objects and stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
