package tools

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"
)

// Gate is the only way to call a tool. For every call it decides, records the
// decision durably, runs the tool, records the result, and only then hands it
// out. If anything before the run fails, the tool does not run. The result is
// durable with whatever is appended next: every request to a model is, so none
// shows a result that is not (TestResultsAreDurableBeforeTheyAreShown).
type Gate struct {
	GateConfig
	tools map[string]Tool
	order []Tool
}

// GateConfig is what a gate decides by.
type GateConfig struct {
	Policy   policy.Policy
	Approver Approver // nil: nobody can be asked, and what needs approval is denied
	Now      func() time.Time
}

// Approver is asked about calls that run only if somebody approves. It may be
// asked by several goroutines at once. An error means that the context ended.
type Approver interface {
	Approve(context.Context, Approval) (Answer, error)
}

// Approval is a call that needs approval: its arguments as the model gave them,
// but for secrets, and why it needs it.
type Approval struct{ TaskID, Tool, Args, Reason string }

// Answer is what an approver says; By is trajectory.ByPerson, Beforehand or
// ByNoTerminal.
type Answer struct {
	Approved bool
	By       string
}

// NewGate makes a gate in front of tools; two of the same name are refused.
func NewGate(c GateConfig, tools ...Tool) (*Gate, error) {
	g := &Gate{GateConfig: c, tools: make(map[string]Tool, len(tools)), order: tools}
	for _, t := range tools {
		name := t.Spec().Name
		if _, twice := g.tools[name]; twice {
			return nil, fmt.Errorf("two tools are called %q", name)
		}
		g.tools[name] = t
	}
	return g, nil
}

// Specs returns what the model is told of the tools, in a fixed order.
func (g *Gate) Specs() []Spec {
	specs := make([]Spec, len(g.order))
	for i, t := range g.order {
		specs[i] = t.Spec()
	}
	return specs
}

// Session is the gate as one attempt passes it: it knows the attempt's
// workspace and what the attempt has spent.
type Session struct {
	gate  *Gate
	rec   *trajectory.Attempt
	root  *os.Root // nil: there are no files
	probe Prober
	kept  Kept

	mu    sync.Mutex
	calls int
	cost  int64
}

// Spent is what earlier attempts have used of a task's budgets.
type Spent struct {
	Calls        int
	CostMicroUSD int64
}

// Prober looks for signs of a leak in what a call brought in: the whole
// document, the arguments as the model gave them, and the addresses reached.
// What it finds is recorded and shown to nobody. It may be asked by several
// goroutines at once.
type Prober interface {
	Probe(document, args string, urls []string) trajectory.Probes
}

// Open begins a session that records to rec. Tools see files under root only,
// none where it is nil.
// The budgets are the task's: what was spent before counts. Without a prober
// the evidence has no probes, which the audit will not pass over.
func (g *Gate) Open(rec *trajectory.Attempt, root *os.Root, before Spent, probe Prober) *Session {
	return &Session{gate: g, rec: rec, root: root, probe: probe, calls: before.Calls, cost: before.CostMicroUSD}
}

// Close ends what tools have kept between the calls of the attempt.
func (s *Session) Close() error { return s.kept.close() }

// Spend counts money, in micro-USD, against the task's budget.
func (s *Session) Spend(microUSD int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cost += microUSD
}

// Exhausted reports whether no further call would be allowed for want of
// budget.
func (s *Session) Exhausted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.Policy.Exhausted(s.calls, s.cost)
}

// Call is a tool call as the model asked for it; Args is the JSON text of the
// arguments, which may be broken.
type Call struct{ ID, Name, Args string }

// Result is what the model is shown for a call.
type Result struct{ CallID, Text string }

// pass is one call on its way through the gate.
type pass struct {
	call     Call
	id, name string // of the call, as they may be recorded
	tool     Tool   // nil if there is none of that name
	decision policy.Decision
	ran      bool   // to its end
	refusal  string // what the model is told; "" when the call may run
	output   Output
	latency  time.Duration
	probes   *trajectory.Probes
	refused  []policy.Decision // redirects that were not followed
}

// Run takes the calls of one turn through the gate, those that are allowed at
// the same time, and returns a result for each, in order. An error means that
// the machinery broke (the evidence could not be recorded, the context ended,
// a tool failed in a way that is not the model's to mend).
func (s *Session) Run(ctx context.Context, turn int, calls []Call) ([]Result, error) {
	passes := make([]*pass, len(calls))
	var before []trajectory.Payload
	for i, c := range calls {
		passes[i] = s.decide(c)
		before = append(before, s.decisionEvents(passes[i])...)
	}
	if err := s.rec.Append(turn, before...); err != nil {
		return nil, err
	}

	group, groupCtx := errgroup.WithContext(ctx)
	for _, p := range passes {
		if p.refusal == "" {
			group.Go(func() error { return s.execute(groupCtx, p) })
		}
	}
	broke := group.Wait()

	var after []trajectory.Payload
	results := make([]Result, len(passes))
	for i, p := range passes {
		results[i] = Result{p.call.ID, p.refusal}
		if p.refusal == "" && (p.ran || p.output.Model != nil) { // also beside one that broke: it may have cost something
			after = append(after, s.resultEvents(p)...)
			results[i].Text = p.output.Shown
		}
	}
	if _, err := s.rec.Enqueue(turn, after...); err != nil || broke != nil {
		return nil, errors.Join(broke, err)
	}
	return results, nil
}

// decide judges one call by the policy. Rules see the whole arguments.
func (s *Session) decide(c Call) *pass {
	p := &pass{call: c, id: s.rec.Redact.Label(c.ID), name: s.rec.Redact.Label(c.Name), tool: s.gate.tools[c.Name]}
	var touched Touches
	var argsErr error
	if p.tool != nil {
		touched, argsErr = p.tool.touches([]byte(c.Args))
	}
	s.mu.Lock()
	p.decision = policy.Decide(s.gate.Policy, policy.Call{
		Tool: c.Name, Known: p.tool != nil,
		URLs: touched.URLs, Paths: touched.Paths, Texts: append(touched.Texts, c.Args), Code: touched.Code,
		ToolCalls: s.calls, CostMicroUSD: s.cost,
	})
	s.calls++
	s.mu.Unlock()
	switch {
	case p.decision.Verdict != policy.Allow:
		p.refusal = "refused: " + p.decision.Reason
	case argsErr != nil:
		p.decision = policy.Decision{Verdict: policy.Deny, Reason: "the arguments do not fit the tool"}
		p.refusal = "error: " + argsErr.Error()
	}
	if p.tool == nil {
		p.refusal += "; the tools are " + s.gate.names()
	}
	return p
}

func (g *Gate) names() string {
	names := make([]string, len(g.order))
	for i, t := range g.order {
		names[i] = t.Spec().Name
	}
	return strings.Join(names, ", ")
}

func (s *Session) decisionEvents(p *pass) []trajectory.Payload {
	shown, _ := s.rec.Redact.Redact(p.refusal)
	p.refusal = shown
	p.decision.Reason, _ = s.rec.Redact.Redact(p.decision.Reason)
	events := []trajectory.Payload{s.proposal(p), trajectory.PolicyDecision{
		CallID: p.id, Decision: string(p.decision.Verdict), Mode: string(s.gate.Policy.Mode), PolicyHash: s.gate.Policy.Hash(),
		Reason: p.decision.Reason, RuleIDs: p.decision.RuleIDs, Shown: shown,
	}}
	if len(p.decision.RuleIDs) > 0 {
		events = append(events, violation(p.id, p.decision))
	}
	return events
}

func violation(callID string, d policy.Decision) trajectory.Payload {
	return trajectory.PolicyViolation{CallID: callID, Description: d.Reason, RuleIDs: d.RuleIDs}
}

// proposal records the arguments one by one, each cut by itself, so that a
// long one does not hide the others.
func (s *Session) proposal(p *pass) trajectory.ToolProposed {
	whole := s.rec.Excerpt(p.call.Args, trajectory.ArgumentHead)
	out := trajectory.ToolProposed{Args: map[string]string{}, ArgsSHA256: whole.SHA256, BodySHA256: whole.BodySHA256, CallID: p.id, Name: p.name}
	var args map[string]jsontext.Value
	if err := json.Unmarshal([]byte(p.call.Args), &args); err != nil {
		out.Malformed, out.Redactions = whole.Head, whole.Redactions
		if s.rec.Hashes {
			out.Malformed = "[not recorded]"
		}
		return out
	}
	for name, value := range args {
		text := string(value)
		if value.Kind() == '"' {
			if b, err := jsontext.AppendUnquote(nil, value); err == nil {
				text = string(b)
			}
		}
		x := s.rec.Part(text, trajectory.ArgumentHead)
		name = s.rec.Redact.Label(name)
		out.Args[name] = x.Head
		out.Redactions += x.Redactions
		if x.Truncated {
			out.ArgsTruncated = append(out.ArgsTruncated, name)
		}
	}
	slices.Sort(out.ArgsTruncated)
	return out
}

// execute runs a tool whose decision is on disk.
func (s *Session) execute(ctx context.Context, p *pass) error {
	env := &Env{Root: s.root, Kept: &s.kept, AllowURL: func(url string) error {
		d := policy.DecideURL(s.gate.Policy, url)
		if d.Verdict == policy.Allow {
			return nil
		}
		p.refused = append(p.refused, d)
		return errors.New("refused: " + d.Reason)
	}}
	began := s.gate.Now()
	output, err := p.tool.call(ctx, env, []byte(p.call.Args))
	p.latency = s.gate.Now().Sub(began)
	p.output = output
	if m := output.Model; m != nil && m.CostMicroUSD != nil {
		s.Spend(*m.CostMicroUSD)
	}
	if err != nil {
		p.output.IsError = true
		return fmt.Errorf("tool %s: %w", p.call.Name, err)
	}
	p.ran = true
	if s.probe != nil {
		probes := s.probe.Probe(output.Document, p.call.Args, reached(output.URLs))
		p.probes = &probes
	}
	return nil
}

// reached returns the addresses that gave an answer.
func reached(urls []trajectory.URL) []string {
	var out []string
	for _, u := range urls {
		if u.Status != 0 {
			out = append(out, u.URL)
		}
	}
	return out
}

// origin returns scheme and host of an address, "" if it has none.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (s *Session) resultEvents(p *pass) []trajectory.Payload {
	var events []trajectory.Payload
	for _, d := range p.refused {
		d.Reason, _ = s.rec.Redact.Redact(d.Reason)
		events = append(events, violation(p.id, d))
	}
	x := s.rec.Excerpt(p.output.Document, trajectory.ResultHead)
	message := trajectory.SentMessage{Content: p.output.Shown, Role: "tool", ToolCallID: p.call.ID}
	urls := make([]trajectory.URL, len(p.output.URLs))
	for i, u := range p.output.URLs {
		urls[i] = u
		urls[i].URL, _ = s.rec.Redact.Redact(u.URL)
		if s.rec.Hashes { // what follows is an argument, or came of one
			urls[i].URL = origin(u.URL)
		}
	}
	return append(events, trajectory.ToolExecuted{
		BodySHA256: x.BodySHA256, Bytes: x.Bytes, CallID: p.id, Head: x.Head, IsError: p.output.IsError, LatencyMs: p.latency.Milliseconds(),
		Model: s.modelUse(p.output.Model), Name: p.name, OutputSHA256: x.SHA256, Probes: p.probes, Redactions: x.Redactions, ShownBytes: int64(len(p.output.Shown)), ShownSHA256: sign.Digest(message.Canonical()),
		Truncated: x.Truncated, URLs: urls,
	})
}

// modelUse is m with the endpoint's words as they may be recorded.
func (s *Session) modelUse(m *trajectory.ModelUse) *trajectory.ModelUse {
	if m == nil {
		return nil
	}
	use := *m
	use.RequestID, use.ResponseModel = s.rec.Redact.Label(m.RequestID), s.rec.Redact.Label(m.ResponseModel)
	return &use
}
