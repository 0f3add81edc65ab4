package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// Gate is the only way to call a tool. For every call it decides, records the
// decision durably, runs the tool, records the result, and only then hands it
// out. If anything before the run fails, the tool does not run. The result is
// durable with whatever is appended next: every request to a model is, so none
// shows a result that is not (TestResultsAreDurableBeforeTheyAreShown).
type Gate struct {
	GateConfig
	tools      map[string]Tool
	order      []Tool
	policyHash string
}

// GateConfig is what a gate decides by.
type GateConfig struct {
	Policy    policy.Policy
	Approver  Approver   // nil: calls that need approval are denied
	Prices    llm.Prices // of the models that tools ask
	MaxTokens int        // of a completion that a tool asks for; 0: the plan has no limit
	Now       func() time.Time
}

// Approver is asked about calls that run only if someone approves. It may be
// asked by several goroutines at once. An error means that the context ended.
type Approver interface {
	Approve(context.Context, Approval) (Answer, error)
}

// Approval is a call that needs approval: its arguments as the model gave them,
// but for secrets, and why it needs it.
type Approval struct{ TaskID, Tool, Args, Reason string }

// Answer is what an approver says; By is trajectory.ByPerson, ByAlways,
// Beforehand or ByNoTerminal.
type Answer struct {
	Approved bool
	By       string
}

// NewGate makes a gate in front of tools; two of the same name are refused.
func NewGate(c GateConfig, tools ...Tool) (*Gate, error) {
	g := &Gate{GateConfig: c, tools: make(map[string]Tool, len(tools)), order: tools, policyHash: c.Policy.Hash()}
	for _, t := range tools {
		name := t.Spec().Name
		if _, twice := g.tools[name]; twice {
			return nil, fmt.Errorf("two tools are called %q", name)
		}
		g.tools[name] = t
	}
	return g, nil
}

// Specs returns the descriptions of the tools for the model, in a fixed order. Tools that the
// policy always denies are left out; a call of one is denied all the same.
func (g *Gate) Specs() []Spec {
	specs := []Spec{}
	for _, t := range g.order {
		if s := t.Spec(); g.Policy.Offers(s.Name) {
			specs = append(specs, s)
		}
	}
	return specs
}

// Writes reports whether a tool behind the gate can change a workspace.
func (g *Gate) Writes() bool { return slices.ContainsFunc(g.order, Tool.writes) }

// Session is the gate as one attempt passes it: it knows the attempt's
// workspace and what the attempt has spent. Several turns may be in Run at once.
type Session struct {
	gate      *Gate
	rec       *trajectory.Attempt
	workspace *Workspace // nil: there are no files
	probe     Prober
	kept      Kept
	shared    bool // an own agent writes to the workspace, too
	witness   Witness

	asking sync.Mutex   // held by a turn with calls that ask a model where a budget bounds them
	files  sync.RWMutex // held by a turn; one with calls that can change the workspace holds it alone

	limits Limits

	mu     sync.Mutex
	calls  int
	cost   int64
	tokens int64
	seen   map[string]seenUse // by model
}

// Spent is what earlier attempts have used of a task's budgets.
type Spent struct {
	Calls        int
	CostMicroUSD int64
}

// Prober looks for signs of a leak in what a call brought in: the whole
// document, the arguments as the model gave them, and the addresses reached.
// Its findings are recorded and never shown. It may be asked by several
// goroutines at once.
type Prober interface {
	Probe(document, args string, urls []string) trajectory.Probes
}

// Open begins a session that records to rec. Tools see the files of the workspace
// only, none where it is nil; the caller closes it after the session.
// The budgets are the task's: what was spent before counts. Without a prober
// the evidence has no probes, which the audit will not pass over.
func (g *Gate) Open(rec *trajectory.Attempt, workspace *Workspace, before Spent, probe Prober) *Session {
	return &Session{gate: g, rec: rec, workspace: workspace, probe: probe, calls: before.Calls, cost: before.CostMicroUSD, seen: map[string]seenUse{}}
}

// Witness is told what a call of an own agent gave: the call as the agent made it, what came of it, and whether that is of
// files which were not in the workspace at the start, which the agent may have written. It returns probes of what is the
// agent's, nil if nothing is. It may be asked by several goroutines at once.
type Witness func(call Call, out Output, foreign bool) *trajectory.Probes

// Share prepares the session for an own agent, whose processes write to the workspace, too, at any time. It keeps the
// workspace as it is, for [Workspace.Change]. From then on nothing in the workspace is restored, since that would
// undo what the agent itself has done: before a call that can change it, it is kept as it is then, and where it
// cannot be, the call is denied. A call that the end of the context cuts off has a result that says so. The witness may be
// nil.
func (s *Session) Share(w Witness) error {
	s.shared, s.witness = true, w
	if s.workspace == nil {
		return nil
	}
	s.workspace.shared = true
	_, err := s.workspace.keep()
	return err
}

// Kept returns what tools keep between the calls of the attempt.
func (s *Session) Kept() *Kept { return &s.kept }

// Specs returns the descriptions of the tools of the session's gate.
func (s *Session) Specs() []Spec { return s.gate.Specs() }

// Close ends what tools have kept between the calls of the attempt.
func (s *Session) Close() error { return s.kept.Close() }

// Exhausted reports whether no further call would be allowed for lack of
// budget.
func (s *Session) Exhausted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.Policy.Exhausted(s.calls, s.cost)
}

// Call is a tool call as the model asked for it; Args is the JSON text of the
// arguments, which may be broken.
type Call struct{ ID, Name, Args string }

// Result is what the model is shown for a call: the text, and the digest of the
// message that holds it. IsError says that the call was refused or failed.
type Result struct {
	CallID, Text, SHA256 string
	IsError              bool
}

// pass is one call on its way through the gate.
type pass struct {
	call     Call
	id, name string      // of the call, as they may be recorded
	tool     Tool        // nil if there is none of that name
	asked    policy.Call // what was decided on
	argsErr  error       // they do not fit the tool
	decision policy.Decision
	grant    *grant // what it may take; nil: it asks no model
	settled  bool   // what it took is counted, and its result recorded
	ran      bool   // to its end
	refusal  string // for the model; "" when the call may run
	output   Output
	shown    string // digest of the message with the output, once that is recorded
	latency  time.Duration
	probes   *trajectory.Probes
	own      *trajectory.Probes // of what is the agent's

	mu      sync.Mutex
	refused []policy.Decision // redirects that were not followed
}

// allowed reports whether the call may run, or has.
func (p *pass) allowed() bool { return p.decision.Verdict == policy.Allow }

// writes reports whether the call may change the workspace.
func (p *pass) writes() bool { return p.tool != nil && p.tool.writes() }

// Run takes the calls of one turn through the gate and returns a result for each,
// in order. Those that are allowed run at the same time, but for two kinds that run
// in order: those that can change the workspace, and, where a budget bounds them,
// those that ask a model, each of which is decided once what the one before took is
// known. Other turns wait where they hold calls of the same kind; one with calls that
// can change the workspace runs beside no other. An error means that the machinery broke
// (the evidence could not be recorded, the workspace neither kept nor put back, the
// context ended, a tool failed in a way that the model cannot act on).
func (s *Session) Run(ctx context.Context, turn int, calls []Call) ([]Result, error) {
	passes := make([]*pass, len(calls))
	var now, later []*pass
	asking, writing := false, false
	for i, c := range calls {
		p := s.read(c)
		passes[i] = p
		writing = writing || p.writes()
		paid := p.tool != nil && p.tool.asks() && s.bounded()
		if paid && asking {
			later = append(later, p)
			continue
		}
		asking = asking || paid
		now = append(now, p)
	}
	if asking {
		s.asking.Lock()
		defer s.asking.Unlock()
	}
	if writing {
		s.files.Lock()
		defer s.files.Unlock()
	} else {
		s.files.RLock()
		defer s.files.RUnlock()
	}
	for _, p := range now {
		s.decide(p)
	}
	if err := s.admit(ctx, turn, now); err != nil {
		return nil, err
	}
	broke := s.executeAll(ctx, turn, now, later)
	undone, err := s.leave(passes)
	broke = errors.Join(broke, err)

	var refused, executed []trajectory.Payload
	results := make([]Result, len(passes))
	for i, p := range passes {
		results[i] = Result{CallID: p.call.ID, Text: p.refusal, IsError: true}
		if p.allowed() && (p.ran || p.output.Model != nil) { // also beside one that broke: it may have cost something
			results[i].Text, results[i].IsError = p.output.Shown, p.output.IsError
			if !p.settled {
				refused = append(refused, s.refusedEvents(p)...)
				executed = append(executed, s.executedEvent(p))
			}
		}
		if results[i].SHA256 = p.shown; p.shown == "" {
			results[i].SHA256 = messageDigest(p.call.ID, p.refusal)
		}
	}
	if _, err := s.rec.Enqueue(turn, slices.Concat(refused, undone, executed)...); err != nil || broke != nil {
		return nil, errors.Join(broke, err)
	}
	return results, nil
}

// read takes in one call of a turn. Rules see the whole arguments; the calls of the
// reply count in its order.
func (s *Session) read(c Call) *pass {
	p := &pass{call: c, id: s.rec.Redact.Label(c.ID), name: s.rec.Redact.Label(c.Name), tool: s.gate.tools[c.Name]}
	args, err := policy.Arguments([]byte(c.Args))
	p.asked = policy.CallOf(c.Name, args)
	p.asked.TaskID = s.rec.TaskID
	if err != nil { // their meaning is not known
		p.asked.Texts = append(p.asked.Texts, c.Args)
	}
	if p.asked.Known = p.tool != nil; p.asked.Known {
		var made []string
		made, p.argsErr = p.tool.admits([]byte(c.Args))
		p.asked.URLs = append(p.asked.URLs, made...)
	}
	s.mu.Lock()
	p.asked.ToolCalls = s.calls
	s.calls++
	s.mu.Unlock()
	return p
}

// decide judges one call by the policy and by what is left of the budgets, of which
// it sets aside what the call may take.
func (s *Session) decide(p *pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.asked.CostMicroUSD, p.asked.Over = s.cost, s.over()
	p.decision = policy.Decide(s.gate.Policy, p.asked)
	if p.tool != nil && p.tool.asks() && p.decision.Verdict != policy.Deny && p.argsErr == nil {
		if p.grant, p.asked.Over = s.reserve(p.tool.needs(s.env(p), []byte(p.call.Args))); p.asked.Over != "" {
			p.decision = policy.Decide(s.gate.Policy, p.asked)
		}
	}
	switch {
	case p.decision.Verdict == policy.Deny:
		p.refusal = "refused: " + p.decision.Reason
	case p.argsErr != nil: // no approval is needed
		p.decision = policy.Decision{Verdict: policy.Deny, Reason: "the arguments do not fit the tool"}
		p.refusal = "error: " + p.argsErr.Error()
	}
	if p.tool == nil {
		var names []string
		for _, s := range s.gate.Specs() {
			names = append(names, s.Name)
		}
		p.refusal += "; the tools are " + strings.Join(names, ", ")
	}
}

// deny refuses a call, with a reason for the model.
func (p *pass) deny(d policy.Decision) {
	d.Verdict = policy.Deny
	p.decision, p.refusal = d, "refused: "+d.Reason
}

// executeAll runs the calls that are allowed of those decided, and, one after the
// other, those that are decided later.
func (s *Session) executeAll(ctx context.Context, turn int, decided, later []*pass) error {
	var runs []func(context.Context) error // at the same time
	inOrder := func(passes []*pass, run func(ctx context.Context, p *pass) error) {
		if len(passes) == 0 {
			return
		}
		runs = append(runs, func(ctx context.Context) error {
			for _, p := range passes {
				if err := run(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var writers, paid []*pass
	for _, p := range decided {
		switch {
		case !p.allowed():
		case p.writes():
			writers = append(writers, p)
		case p.grant != nil && s.bounded():
			paid = append(paid, p)
		default:
			inOrder([]*pass{p}, s.execute)
		}
	}
	inOrder(writers, s.execute)
	inOrder(append(paid, later...), func(ctx context.Context, p *pass) error {
		if slices.Contains(later, p) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.decide(p)
			if err := s.admit(ctx, turn, []*pass{p}); err != nil {
				return err
			}
		}
		if !p.allowed() {
			return nil
		}
		return errors.Join(s.execute(ctx, p), s.settle(turn, p))
	})
	group, groupCtx := errgroup.WithContext(ctx)
	for i, run := range runs {
		if i < len(runs)-1 {
			group.Go(func() error { return run(groupCtx) })
		} else if err := run(groupCtx); err != nil { // most turns have one call, which needs no other stack
			group.Go(func() error { return err })
		}
	}
	return group.Wait()
}

// env is what a call may use of the attempt.
func (s *Session) env(p *pass) *Env {
	env := &Env{Kept: &s.kept, grant: p.grant, AllowURL: func(url string) error {
		d := s.DecideURL(url)
		if d.Verdict == policy.Allow {
			return nil
		}
		p.mu.Lock()
		p.refused = append(p.refused, d)
		p.mu.Unlock()
		return errors.New("refused: " + d.Reason)
	}}
	if s.workspace != nil {
		env.Root = s.workspace.root
		if s.shared {
			env.start = s.workspace.start
		}
	}
	return env
}

// DecideURL judges one address by the rules: of a redirect, or of an own agent's request.
func (s *Session) DecideURL(url string) policy.Decision {
	return policy.DecideURL(s.gate.Policy, s.rec.TaskID, url)
}

// execute runs a tool whose decision is on disk.
func (s *Session) execute(ctx context.Context, p *pass) error {
	began := s.gate.Now()
	timed := ctx
	if p.grant != nil && s.limits.TimeLeft != nil { // a call that asks a model
		var cut context.CancelFunc
		timed, cut = context.WithTimeout(ctx, s.limits.TimeLeft())
		defer cut()
	}
	env := s.env(p)
	output, err := p.tool.call(timed, env, []byte(p.call.Args))
	p.latency = s.gate.Now().Sub(began)
	if err != nil && timed.Err() != nil && (ctx.Err() == nil || s.shared) {
		model, why := output.Model, "the time of the attempt is used up"
		if ctx.Err() != nil { // of an own agent, which may have ended before
			why = "the attempt is over"
		}
		output, err = Failed("%s was cut off: %s", p.call.Name, why), nil
		output.Model = model
	}
	p.output = output
	if m := output.Model; m != nil && p.grant == nil {
		s.Spend(p.id, m.CostMicroUSD, m.Tokens.In+m.Tokens.Out)
	}
	if err != nil {
		p.output.IsError = true
		return fmt.Errorf("tool %s: %w", p.call.Name, err)
	}
	p.ran = true
	if s.probe != nil {
		var reached []string // addresses that gave an answer
		for _, u := range output.URLs {
			if u.Status != 0 {
				reached = append(reached, u.URL)
			}
		}
		probes := s.probe.Probe(output.Document, p.call.Args, reached)
		p.probes = &probes
	}
	if s.witness != nil {
		foreign := env.foreign.Load()
		if p.writes() && s.workspace != nil { // nothing says what it has read
			now, _, err := s.workspace.now()
			foreign = err != nil || len(changed(s.workspace.start, s.workspace.kept))+len(changed(s.workspace.start, now)) > 0
		}
		p.own = s.witness(p.call, output, foreign)
	}
	return nil
}
