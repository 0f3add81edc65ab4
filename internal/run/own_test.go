package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent/external"
	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// askingAgent is an agent that asks the model once, and prints what it says.
const askingAgent = `#!/usr/bin/env python3
import json, os, sys, urllib.request
body = json.dumps({"model": os.environ["GAIA_MODEL"], "messages": [{"role": "user", "content": sys.stdin.read()}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as reply:
    print(json.load(reply)["choices"][0]["message"]["content"])
`

// own is a run of generated tasks by an agent that is a script; the test is skipped where there is no sandbox.
func own(t *testing.T, tasks endpoint.Tasks, url, script string) setup {
	t.Helper()
	bwrap, _ := exec.LookPath("bwrap")
	sandbox, err := sandboxtools.New(t.Context(), sandboxtools.Config{Bwrap: bwrap})
	if err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("there is no python here: %v", err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "agent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := generated(t, tasks, url, nil)
	a := plan.DefaultAgent()
	a.Name, a.TimeoutMs = "mine", 60_000
	c.plan.Agent, c.plan.Budgets.Turns = &a, 0
	c.plan.SubmitIntent = script == askingAgent // an answer that no reply holds makes a run unfit
	shim, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	to := proxy.Upstream{BaseURL: url, Transport: llm.PlainTransport()}
	c.env.Own = &external.Agent{Sandbox: sandbox, Shim: shim, SocketDir: t.TempDir(), Grace: 100 * time.Millisecond,
		Proxy: proxy.Config{Upstreams: map[string]proxy.Upstream{llm.DialectChat: to}, Models: []string{endpoint.Model}, Calls: a.Calls, Prices: c.env.Prices, Now: time.Now}}
	c.env.Concurrency = 3
	c.read(t, folder)
	return c
}

// read reads the agent's folder into the plan.
func (c *setup) read(t *testing.T, folder string) {
	t.Helper()
	folders, files, err := agentdir.Read(t.Context(), folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := *c.plan.Agent
	a.Folders, a.FilesSHA256 = folders, canonical.Digest(files)
	c.plan.Agent, c.env.AgentFiles = &a, files
	c.env.Look = func(tasks []agentdir.Target) (*plan.AgentPlan, error) {
		return agentdir.Probe(t.Context(), a, files, tasks, io.Discard)
	}
}

func (c setup) begin(t *testing.T) *Run {
	t.Helper()
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// ends counts the attempts of a run, and by their outcomes how they ended.
func ends(found *rundir.Run) (outcomes map[string]int, attempts int) {
	outcomes = map[string]int{}
	for _, task := range found.Tasks {
		for _, a := range task.Attempts {
			outcomes[a.Ended.Outcome]++
			attempts++
		}
	}
	return outcomes, attempts
}

// TestOwnAgent: a run with an own agent is like one with the built-in agent: its answers count, its evidence verifies, and
// only what says nothing about the agent earns it another attempt.
func TestOwnAgent(t *testing.T) {
	t.Parallel()
	tasks := endpoint.Tasks{Count: 4, Turns: 1}
	for _, tt := range []struct {
		name, script string
		change       func(*setup)
		outcome      string
		reason       string // of one that gave no answer
	}{
		{name: "asks", script: askingAgent, outcome: trajectory.Answered},
		{name: "keeps bodies", script: askingAgent, change: func(c *setup) { c.plan.Evidence = plan.EvidenceBodies }, outcome: trajectory.Answered},
		{name: "has its own tools", script: askingAgent, change: func(c *setup) { c.plan.Agent.Tools = plan.AgentToolsNone }, outcome: trajectory.Answered},
		{name: "votes", script: askingAgent, change: func(c *setup) { c.plan.Voting.Attempts = 2 }, outcome: trajectory.Answered},
		{name: "writes a file", script: "#!/bin/sh\nprintf 42 > ANSWER\n", outcome: trajectory.Answered},
		{name: "crashes", script: "#!/bin/sh\necho no >&2\nexit 3\n", outcome: trajectory.NoAnswer, reason: "the agent gave no answer; it exited with code 3"},
		{name: "is no program", script: "#!/nowhere\n", outcome: trajectory.NoAnswer, reason: "its program could not be run"},
		{name: "does not end", script: "#!/bin/sh\nsleep 60\n", change: func(c *setup) { c.plan.Agent.TimeoutMs = 1000 }, outcome: trajectory.NoAnswer, reason: "the agent gave no answer; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := own(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, tt.script)
			if tt.change != nil {
				tt.change(&c)
			}
			r := c.begin(t)
			if err := r.Execute(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			found := verified(t, r.Dir)
			outcomes, attempts := ends(found)
			if want := tasks.Count * max(c.plan.Voting.Attempts, 1); outcomes[tt.outcome] != want || attempts != want {
				t.Errorf("%d attempts ended as %v, want %d as %s", attempts, outcomes, want, tt.outcome)
			}
			for _, task := range found.Tasks {
				a := task.Attempts[0]
				switch {
				case a.Ended.Agent == nil || !strings.Contains(a.Ended.Reason, tt.reason):
					t.Errorf("ended with %+v", a.Ended)
				case tt.outcome == trajectory.Answered && a.Answer.InReply != (tt.script == askingAgent):
					t.Errorf("in a reply: %t, of %q", a.Answer.InReply, a.Answer.Answer)
				case tt.outcome == trajectory.Answered && slices.Contains(a.Answer.SeenIn, "reply") != (tt.script == askingAgent):
					t.Errorf("%q was seen in %q", a.Answer.Answer, a.Answer.SeenIn)
				}
			}
			if in := found.Inputs; tt.script == askingAgent && (in.Unknown || in.PromptBytes == 0 || in.WitnessedBytes != in.PromptBytes) {
				t.Errorf("%+v", in)
			}
			if s := found.Summary(); tt.script == askingAgent && (s.Outcomes.Solved == 0 || s.Turns != attempts) {
				t.Errorf("%+v, %d turns", s.Outcomes, s.Turns)
			}
		})
	}
}

// TestOwnAgentFolder: the plan counts what the agent's folder holds of the tasks, and a resumed run keeps the counts. A look that
// is ended leaves no run.
func TestOwnAgentFolder(t *testing.T) {
	t.Parallel()
	tasks := endpoint.Tasks{Count: 4, Turns: 1}
	var script strings.Builder
	script.WriteString("#!/bin/sh\nexit 0\n")
	for n := range tasks.Count {
		script.WriteString("# question: " + tasks.Question(n) + "\n# answer: " + tasks.Gold(n) + "\n")
	}
	c := own(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, script.String())
	r := c.begin(t)
	found := r.State().Manifest.Agent.Probed
	if found == nil || found.Questions != tasks.Count || found.Answers != tasks.Count || found.Files != 1 || len(found.Found) != 1 {
		t.Fatalf("%+v", found)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(r.Dir, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff(found, again.State().Manifest.Agent.Probed); diff != "" {
		t.Error(diff)
	}

	out := t.TempDir()
	c.env.Look = func([]agentdir.Target) (*plan.AgentPlan, error) { return nil, context.Canceled }
	if _, err := Create(out, c.plan, c.env); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestOwnAgentAttachment: the agent sees the attachment under a name that does not tell the task.
func TestOwnAgentAttachment(t *testing.T) {
	t.Parallel()
	tasks := endpoint.Tasks{Count: 1, Turns: 1, Attached: endpoint.Picture}
	c := own(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, "#!/bin/sh\nls > ANSWER.new\nmv ANSWER.new ANSWER\n")
	r := c.begin(t)
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	shown := "attachment" + filepath.Ext(tasks.FileName(0))
	answer := verified(t, r.Dir).Tasks[0].Attempts[0].Answer
	if answer == nil || !slices.Equal(strings.Fields(answer.Answer), []string{"ANSWER.new", "QUESTION.md", shown}) {
		t.Errorf("the agent sees %+v", answer)
	}
}

// TestOwnAgentOutage: an endpoint that is away stops the run, which continues when it is back: with the same agent only.
func TestOwnAgentOutage(t *testing.T) {
	t.Parallel()
	tasks := endpoint.Tasks{Count: 5, Turns: 1}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.ServerError}, First: -1})
	c := own(t, tasks, server.URL, askingAgent)
	r := c.begin(t)
	err := r.Execute(t.Context(), nil)
	if stop := (*StopError)(nil); !errors.As(err, &stop) || !strings.Contains(stop.text, "could not reach the model") {
		t.Fatalf("the run ended with %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	server.Heal()

	other := filepath.Join(c.plan.Agent.Folders[0].Path, "other.py")
	if err := os.WriteFile(other, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := c
	changed.read(t, filepath.Dir(other))
	if _, err := Resume(r.Dir, changed.plan, changed.env); err == nil || !strings.HasSuffix(err.Error(), "differs; agent: other.py is new") {
		t.Errorf("continues with another agent: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(r.Dir, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s := verified(t, r.Dir).Summary(); s.Outcomes.Error != 0 || s.Outcomes.Solved+s.Outcomes.Failed != tasks.Count {
		t.Errorf("%+v", s.Outcomes)
	}
}

// TestOwnAgentMoney: no run costs more than it may, and what was not begun is left out.
func TestOwnAgentMoney(t *testing.T) {
	t.Parallel()
	tasks := endpoint.Tasks{Count: 12, Turns: 1}
	c := own(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, askingAgent)
	c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = 100, 9300
	c.env.Own.Proxy.MaxTokens = 100
	r := c.begin(t)
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s := verified(t, r.Dir).Summary()
	if s.Outcomes.Skipped == 0 || s.Outcomes.Solved == 0 || *s.Cost() > c.plan.Budgets.RunCostMicroUSD {
		t.Errorf("%+v, cost %d", s.Outcomes, *s.Cost())
	}
}

// TestOwnAgentStopped: a run of an own agent that is asked to stop, and one that is stopped at once, both continue to their end.
func TestOwnAgentStopped(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	tasks := endpoint.Tasks{Count: 6, Turns: 1}
	c := own(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, askingAgent)
	drain, begun := make(chan struct{}), 0
	c.env.Watch = func(e trajectory.Event) {
		if _, is := e.Payload.(trajectory.TaskStarted); is {
			if begun++; begun == 2 {
				close(drain)
			}
		}
	}
	r := c.begin(t)
	if err := r.Execute(t.Context(), drain); !errors.Is(err, ErrDrained) {
		t.Fatalf("asked to stop: %v", err)
	}
	r.Close()
	c.env.Watch = nil
	ctx, cancel := context.WithCancel(t.Context())
	again := c
	again.env.Watch = func(e trajectory.Event) {
		if _, is := e.Payload.(trajectory.TaskStarted); is {
			cancel()
		}
	}
	r, err := Resume(r.Dir, again.plan, again.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: %v", err)
	}
	r.Close()
	if r, err = Resume(r.Dir, c.plan, c.env); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s := verified(t, r.Dir).Summary(); s.Outcomes.Solved+s.Outcomes.Failed != tasks.Count || len(s.Interruptions) != 2 {
		t.Errorf("%+v, %d interruptions", s.Outcomes, len(s.Interruptions))
	}
}
