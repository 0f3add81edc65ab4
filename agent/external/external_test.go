package external

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestMain has the test binary serve as the shim, and as an agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == shim.Command {
		os.Exit(shim.Main(os.Args[2:], os.Environ()))
	}
	if len(os.Args) > 2 && os.Args[1] == "agent" {
		if err := goAgents[os.Args[2]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	testModel = "model-a"
	question  = "Which lamp is the highest?\nIn feet – and nothing else.\n"
)

var planDigest = canonical.Digest([]byte("a plan"))

// journal is a journal in memory, whose disk fails from the failAt-th sync on; 0: never.
type journal struct {
	mu     sync.Mutex
	lines  bytes.Buffer
	synced int
	failAt int
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(b)
}

func (j *journal) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.synced++; j.failAt > 0 && j.synced >= j.failAt {
		return errors.New("the disk is full")
	}
	return nil
}

// bench is an attempt of an agent: real processes, a real socket, and an endpoint that says what a test has it say.
type bench struct {
	testing.TB
	Agent
	journal  *journal
	rec      *trajectory.Attempt
	session  *tools.Session
	plan     plan.Plan
	asked    int
	endpoint func(w http.ResponseWriter, n int) // of the nth request; nil: it answers with "the answer is 42"
}

var onceSandbox = sync.OnceValues(func() (*sandbox.Sandbox, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("there is no bubblewrap on this machine")
	}
	return sandbox.New(context.Background(), sandbox.Config{Bwrap: bwrap})
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// confined returns the sandbox, or skips the test.
func confined(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	s, err := onceSandbox()
	if err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	return s
}

const reply = `{"id":"c1","object":"chat.completion","model":"model-a-1","choices":[{"index":0,"message":{"role":"assistant","content":"the answer is 42"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`

// newBench prepares an attempt of an agent that is a script.
func newBench(t testing.TB, script string, change func(*bench), more ...tools.Tool) *bench {
	t.Helper()
	b := &bench{TB: t, journal: &journal{}}
	var mu sync.Mutex
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		b.asked++
		n := b.asked
		mu.Unlock()
		if b.endpoint != nil {
			b.endpoint(w, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(upstream.Close)
	prices, err := llm.ParsePrices([]byte(`{"version":"1","note":"invented","models":{"model-a":{"input_microusd_per_mtok":1,"cached_input_microusd_per_mtok":1,"output_microusd_per_mtok":1}}}`))
	must(t, err)
	folder := t.TempDir()
	sockets, err := os.MkdirTemp("", "g") // a short path
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	must(t, os.WriteFile(filepath.Join(folder, "agent"), []byte("#!/bin/sh\n"+script), 0o755))
	executable, err := os.Executable()
	must(t, err)
	to := proxy.Upstream{BaseURL: upstream.URL + "/v1", APIKey: "sk-invented-0123456789abcdef", Transport: &http.Transport{}}
	b.Agent = Agent{Model: testModel, Origins: origin.New(), Shim: executable, Workspace: t.TempDir(), SocketDir: sockets, Now: time.Now, Grace: 300 * time.Millisecond,
		Plan: plan.AgentPlan{Calls: 2000, Command: []string{"agent"}, DiskBytes: 4 << 30, MemoryBytes: 1 << 30, Processes: 64, Network: plan.NetworkNone,
			Folders: []plan.AgentFolder{{Path: folder}, {Path: filepath.Dir(executable)}}, TimeoutMs: 60_000, Tools: plan.AgentToolsGate},
		Proxy: proxy.Config{Upstreams: map[string]proxy.Upstream{llm.DialectChat: to, llm.DialectResponses: to, llm.DialectMessages: to}, Models: []string{testModel},
			MaxTokens: 100, Calls: 2000, Prices: prices, Now: time.Now, Drain: 5 * time.Second},
		Money: budget.New(0, prices, testModel, 100)}
	rules := policy.Policy{Mode: policy.Autonomous, Allow: []string{policy.EveryTool}, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: policy.Unlimited}
	b.plan = plan.New()
	b.plan.RunID, b.plan.Agent = "01JZ0000000000000000000RVN", &b.Plan
	b.plan.Govern(rules)
	b.plan.Tasks = []plan.PlannedTask{{TaskID: "task", Level: 1}}
	if change != nil {
		change(b)
	}
	began := time.Now()
	log, err := trajectory.NewLog(b.journal, trajectory.End{Head: planDigest}, trajectory.LogConfig{RunID: b.plan.RunID, Now: time.Now,
		Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader})
	must(t, err)
	b.rec = &trajectory.Attempt{Log: log, TaskID: "task", Number: 1, Known: trajectory.NewKnownTexts(nil, false), Redact: trajectory.NewRedactor(nil, "sesame-word")}
	_, err = log.Enqueue(trajectory.Draft{Payload: trajectory.RunStarted{GuidanceHash: b.plan.GuidanceHash, Harness: b.plan.Harness, ManifestSHA256: planDigest,
		PolicyHash: b.plan.PolicyHash, PolicyMode: b.plan.PolicyMode}})
	must(t, err)
	_, err = b.rec.Enqueue(0, trajectory.TaskStarted{Question: question, Workspace: []trajectory.File{}})
	must(t, err)
	all := append([]tools.Tool{tools.NewListFiles(), tools.NewCalculate(), noteTool()}, more...)
	if b.Plan.Tools == plan.AgentToolsGate {
		all = append(all, SubmitAnswer())
	}
	gate, err := tools.NewGate(tools.GateConfig{Policy: rules, Prices: prices, Now: time.Now}, all...)
	must(t, err)
	workspace, err := tools.OpenWorkspace(b.Workspace)
	must(t, err)
	t.Cleanup(func() { workspace.Close() })
	b.session = gate.Open(b.rec, workspace, tools.Spent{}, nil)
	t.Cleanup(func() { b.session.Close() })
	return b
}

type noteArgs struct {
	Text string `json:"text"`
}

// noteTool appends a line to the file "notes" of the workspace.
func noteTool() tools.Tool {
	return tools.Define(tools.Definition[noteArgs]{Name: "note", Description: "Adds a line to notes.", Writes: true,
		Run: func(_ context.Context, env *tools.Env, a noteArgs) (tools.Output, error) {
			text, err := env.Root.ReadFile("notes")
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return tools.Failed("cannot read it"), nil
			}
			if err := env.Root.WriteFile("notes", append(text, a.Text+"\n"...), 0o644); err != nil {
				return tools.Failed("cannot write it"), nil
			}
			return tools.Output{Document: "noted", Shown: "noted"}, nil
		}})
}

// solve runs the agent. Unless it fails, the attempt is ended as the run ends one, and all of the journal must fold.
func (b *bench) solve() (agent.Answer, error) {
	b.Helper()
	answer, err := b.Solve(b.Context(), agent.Question{Text: question}, b.session, b.rec)
	if errors.Is(err, trajectory.ErrNotRecorded) {
		return answer, err
	}
	events := []trajectory.Payload{}
	ended := trajectory.AttemptEnded{Agent: answer.End, Outcome: trajectory.NoAnswer, Reason: answer.Reason}
	switch {
	case err != nil:
		ended.Outcome = trajectory.Errored
	case answer.Found:
		ended.Outcome = trajectory.Answered
		events = append(events, trajectory.AnswerCommitted{Answer: answer.Text, InReply: answer.InReply, Rule: answer.Rule})
	}
	must(b, b.rec.Append(0, append(events, ended)...))
	fold := rundir.NewFold(b.plan, planDigest, nil)
	if _, tail, err := trajectory.ReadJournal(strings.NewReader(b.journal.lines.String()), b.plan.RunID, planDigest, fold.Add); err != nil || tail != nil {
		b.Fatalf("the journal does not fold: %v, %v", tail, err)
	}
	return answer, err
}

// of returns the recorded payloads of one type.
func of[P trajectory.Payload](b *bench) (found []P) {
	b.Helper()
	_, _, err := trajectory.ReadJournal(strings.NewReader(b.journal.lines.String()), b.plan.RunID, planDigest, func(e trajectory.Event, _ []byte) error {
		if p, ok := e.Payload.(P); ok {
			found = append(found, p)
		}
		return nil
	})
	must(b, err)
	return found
}
