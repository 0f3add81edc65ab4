// Package external lets an agent of the user's own, in any language, solve tasks. It is the second implementation of
// agent.Solver; docs/agents.md is the contract with the agent.
//
// Solve serves the model and the tools on one Unix socket, and the recorded network on another where the plan has it, runs the
// agent in the sandbox until it ends or its time is over, closes the sockets, waits until everything that was asked there is
// recorded, and only then looks for the answer. It promises:
//
//   - What the agent does over the sockets is recorded before it has an effect. Where that fails, the agent is killed, and
//     the attempt ends with trajectory.ErrNotRecorded.
//   - Each model call and each tool call is a separate turn. Tools run behind the Gate, whether they are called over MCP
//     or plain HTTP.
//   - An agent that crashes, hangs, or gives no answer ends its attempt without one. Only a failure of the harness or of
//     the endpoint is an error, so that no agent buys itself another attempt (TestAgents).
//   - The sockets are the attempt's: no key or path can be confused with those of another one.
//   - The certificate authority of the recorded network is the attempt's, too. Its key is in no file and not in the sandbox.
//
// The package cannot reach gold answers, as agent cannot (TestBlindAgent).
package external

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/internal/intercept"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/unpack"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
)

// Agent makes one attempt with an own agent.
type Agent struct {
	Plan    plan.AgentPlan
	Model   string           // that the agent is told to ask
	Sandbox *sandbox.Sandbox // nil: the agent runs unconfined

	Shim      string   // path of the program that is gaia
	Workspace string   // folder of the attempt, in which the attachment is
	SocketDir string   // folder for the socket: a short path
	Env       []string // "NAME=value" of the planned variables that are set

	Proxy   proxy.Config
	Money   proxy.Money
	Network intercept.Config // of the recorded network; each attempt adds its authority, and a folder
	Bodies  bool             // keep those of requests and replies

	Origins  *origin.Index    // what the attempt was given: the caller adds the attachment; never nil
	Passages *origin.Passages // of the run
	Probe    tools.Prober     // looks at what is the agent's; nil: the audit will not pass over that

	Tokens int64 // that the task may use; 0: no limit
	Used   int64 // of them, by earlier attempts
	Grace  time.Duration
	Now    func() time.Time
}

const (
	questionFile = "QUESTION.md"
	maxSocket    = 107 // bytes of the path of a Unix socket

	defaultGrace = 10 * time.Second

	// What is kept of the end of the agent's output, in bytes.
	keptStdout = 128 << 10
	keptStderr = 8 << 10
	shownError = 2 << 10
)

// Solve implements agent.Solver.
func (a Agent) Solve(ctx context.Context, q agent.Question, session *tools.Session, rec *trajectory.Attempt) (agent.Answer, error) {
	if err := os.WriteFile(filepath.Join(a.Workspace, questionFile), []byte(q.Text), 0o644); err != nil {
		return agent.Answer{}, fmt.Errorf("writing the question for the agent: %w", err)
	}
	if err := session.Share(a.witness); err != nil {
		return agent.Answer{}, fmt.Errorf("keeping the workspace: %w", err)
	}
	a.Origins.Add(origin.Question, q.Text)
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s, err := a.serve(ctx, fail, session, rec)
	if err != nil {
		return agent.Answer{}, err
	}
	timeout := time.Duration(a.Plan.TimeoutMs) * time.Millisecond
	deadline := a.Now().Add(timeout)
	session.Limit(tools.Limits{Tokens: a.Tokens, TimeLeft: func() time.Duration { return deadline.Sub(a.Now()) }}, a.Used)
	timed, cancel := context.WithTimeout(running, timeout)
	defer cancel()
	stdout, stderr := &tail{keep: keptStdout}, &tail{keep: keptStderr}
	var folders []string
	for _, f := range a.Plan.Folders {
		folders = append(folders, f.Path)
	}
	command := slices.Clone(a.Plan.Command)
	if !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(folders[0], command[0])
	}
	result, failed := a.run(timed, sandbox.AgentCommand{
		Shim: a.Shim, Folders: folders, Workspace: a.Workspace, Socket: s.socket, ProxySocket: s.network.socket, Authority: s.network.authority,
		Command: command, Env: a.variables(s.url, deadline),
		Stdin: []byte(q.Text), Stdout: stdout, Stderr: stderr, Network: a.Plan.Network == plan.NetworkHost,
		Limits: sandbox.AgentLimits{Memory: a.Plan.MemoryBytes, Disk: a.Plan.DiskBytes, Processes: a.Plan.Processes},
		Grace:  cmp.Or(a.Grace, defaultGrace),
	})
	err = s.close()
	answer := agent.Answer{End: a.end(result, stdout, stderr, rec)}
	switch {
	case err != nil: // recording failed
		return answer, err
	case ctx.Err() != nil:
		return answer, ctx.Err()
	case failed != nil:
		return answer, failed
	}
	text, rule, why := a.answer(session, stdout.String())
	if rule == "" {
		if err := s.fault(); err != nil {
			return answer, err
		}
		answer.Reason, _ = rec.Redact.Redact(reason(why, result, answer.End.Refused))
		return answer, nil
	}
	answer.Found, answer.Text, answer.Rule, answer.InReply = true, text, rule, s.proxy.Holds(text)
	seen, sharesWord := a.Origins.Seen(text)
	for _, source := range seen {
		answer.SeenIn = append(answer.SeenIn, string(source))
	}
	answer.SharesWord = sharesWord
	return answer, nil
}

func (a Agent) run(ctx context.Context, c sandbox.AgentCommand) (sandbox.AgentResult, error) {
	if a.Sandbox == nil {
		return sandbox.RunAgentUnconfined(ctx, c)
	}
	return a.Sandbox.RunAgent(ctx, c)
}

// variables are those of the contract, and the planned ones.
func (a Agent) variables(url string, deadline time.Time) []string {
	const placeholder = "gaia" // the key is added outside
	env := append([]string{}, a.Env...)
	env = append(env,
		"OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY="+placeholder,
		"ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY="+placeholder,
		"GAIA_MODEL="+a.Model, "GAIA_DEADLINE="+deadline.UTC().Format(time.RFC3339))
	if a.Plan.Tools == plan.AgentToolsGate {
		env = append(env, "GAIA_MCP_URL="+url+mcpPath, "GAIA_TOOLS_URL="+url+toolsPath)
	}
	if a.Plan.Network == plan.NetworkRecord {
		env = append(env, networkVariables()...)
	}
	return env
}

// networkVariables lead clients to the proxy of the recorded network, but for what is asked of loopback addresses, and to the
// authority that they trust. There are clients that fail where NO_PROXY has an IPv6 address.
func networkVariables() (env []string) {
	const proxy = "http://" + sandbox.AgentProxyAddress
	for _, v := range [][2]string{{"HTTP_PROXY", proxy}, {"HTTPS_PROXY", proxy}, {"ALL_PROXY", proxy}, {"NO_PROXY", "127.0.0.1,localhost"}} {
		env = append(env, v[0]+"="+v[1], strings.ToLower(v[0])+"="+v[1])
	}
	for _, name := range plan.AgentTrustVariables() {
		env = append(env, name+"="+sandbox.AgentAuthority)
	}
	return append(env, "NODE_USE_ENV_PROXY=1")
}

// end is the record of how the agent's process ended. Of the text of standard error that is kept, the beginning may be
// half of a secret.
func (a Agent) end(r sandbox.AgentResult, stdout, stderr *tail, rec *trajectory.Attempt) *trajectory.AgentEnd {
	end := &trajectory.AgentEnd{Given: a.given(), Confined: r.Confined, Ended: cmp.Or(r.Ended, trajectory.AgentNotStarted), Exit: r.Exit, Refused: rec.Refused(), StderrBytes: stderr.written, StdoutBytes: stdout.written}
	if rec.Hashes {
		return end
	}
	text := stderr.String()
	end.Stderr, end.Redactions = rec.Redact.Redact(strings.ToValidUTF8(text, "\ufffd"))
	if over := len(end.Stderr) - shownError; over > 0 {
		end.Stderr = strings.ToValidUTF8(end.Stderr[over:], "")
	}
	return end
}

// given looks for signs of a leak in what the user gives the agent besides its folders, of which the plan has names alone.
func (a Agent) given() *trajectory.Probes {
	if a.Probe == nil {
		return nil
	}
	all := strings.Join(slices.Concat(a.Env, a.Plan.Command), "\n")
	found := a.Probe.Probe(all, "", nil)
	for _, value := range a.Env {
		_, value, _ = strings.Cut(value, "=")
		_, _ = unpack.Walk("", []byte(value), unpack.Default, func(_, text string) error { // it has no error but that of visit
			found = found.Merge(a.Probe.Probe(text, "", nil))
			return nil
		})
	}
	return &found
}

// reason says why there is no answer: why is what is wrong with the one that was given.
func reason(why string, r sandbox.AgentResult, refused int) string {
	words := []string{"the agent gave no answer"}
	if why != "" {
		words[0] = why
	}
	if r.Why != "" {
		words = append(words, r.Why)
	}
	if refused > 0 {
		words = append(words, tools.Count(refused, "request")+" refused")
	}
	return strings.Join(words, "; ")
}

// tail keeps the end of what is written to it.
type tail struct {
	keep    int
	text    []byte
	written int64
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.written += int64(n)
	p = p[max(0, n-t.keep):]
	if len(t.text)+len(p) > 2*t.keep {
		t.text = t.text[:copy(t.text, t.text[len(t.text)-t.keep:])]
	}
	t.text = append(t.text, p...)
	return n, nil
}

// String returns the end of what was written, without the rest of a line whose beginning is not kept.
func (t *tail) String() string {
	text := t.text[max(0, len(t.text)-t.keep):]
	if at := bytes.IndexByte(text, '\n'); int64(len(text)) < t.written && at >= 0 {
		text = text[at+1:]
	}
	return string(text)
}

// isNotRecorded reports whether an error means that the evidence could not be written.
func isNotRecorded(err error) bool { return errors.Is(err, trajectory.ErrNotRecorded) }
