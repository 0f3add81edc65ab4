package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// gatherer follows a journal and keeps the facts that checks need: places,
// digests and counts, no heads.
type gatherer struct {
	e       *Evidence
	gold    map[string]string
	tasks   map[string]*following
	unknown map[string]bool
}

// following is a task whose lines are being read.
type following struct {
	*TaskEvidence
	prober   *Prober
	unknown  map[string]bool      // sources whose template the plan has in another form
	listed   []trajectory.Message // of the attempt's last request
	expected map[string][]string  // source → digests of the messages it may give
	outputs  map[string]bool      // digests of the model's replies
}

func newGatherer(m ledger.Manifest, gold map[string]string) *gatherer {
	g := &gatherer{e: &Evidence{Manifest: m, Gold: gold}, gold: gold, tasks: make(map[string]*following, len(m.Tasks)), unknown: unknownSources(m)}
	for _, p := range m.Tasks {
		t := &following{TaskEvidence: &TaskEvidence{Plan: p}}
		g.e.Tasks = append(g.e.Tasks, t.TaskEvidence)
		g.tasks[p.TaskID] = t
	}
	return g
}

// evidence completes what was gathered with what derives from it.
func (g *gatherer) evidence(run *ledger.Run) *Evidence {
	e := g.e
	e.Summary, e.Marked, e.Events = run.Summary(), run.Marked, run.End.Events
	for i, t := range run.Tasks {
		e.Results = append(e.Results, run.Result(t))
		e.Tasks[i].Result = e.Results[i]
	}
	return e
}

// add takes an event that the fold has accepted: its task is planned and its
// attempt has begun.
func (g *gatherer) add(ev trajectory.Event) error {
	switch p := ev.Payload.(type) {
	case trajectory.SecurityEvent:
		g.e.Cache = append(g.e.Cache, CacheFact{ev.Seq, p})
	case trajectory.RunResumed:
		g.e.Resumed = append(g.e.Resumed, ResumeFact{ev.Seq, p})
	case trajectory.TaskStarted:
		g.begin(g.tasks[ev.TaskID], ev, p)
	default:
		if ev.Attempt > 0 {
			t := g.tasks[ev.TaskID]
			t.addTo(t.Attempts[ev.Attempt-1], ev)
		}
	}
	return nil
}

func (g *gatherer) begin(t *following, ev trajectory.Event, p trajectory.TaskStarted) {
	if t.prober == nil { // the question is the same in every attempt: the plan fixes it
		t.prober = NewProber(Target{TaskID: t.Plan.TaskID, Question: p.Question, Gold: g.gold[t.Plan.TaskID], SplitIDs: g.e.Manifest.SplitIDs})
		t.expected, t.unknown = expectedMessages(p.Question, p.FileName), g.unknown
	}
	t.listed, t.outputs = nil, map[string]bool{}
	t.Attempts = append(t.Attempts, &AttemptEvidence{Number: ev.Attempt, Begun: ev.Seq, Committed: -1, Judged: -1,
		Question: p.Question, FileName: p.FileName, Workspace: p.Workspace})
}

// unknownSources returns the sources whose messages cannot be rendered: their
// template in the plan is not the one this version knows, and what a plan
// brings along is not executed.
func unknownSources(m ledger.Manifest) map[string]bool {
	out := map[string]bool{}
	for _, t := range prompt.Templates() {
		if !slices.ContainsFunc(m.Prompts, func(p ledger.Prompt) bool { return p.ID == t.ID && p.Text == t.Text }) {
			out[source(t.ID)] = true
		}
	}
	return out
}

// source returns what the messages of a template name as their source.
func source(template string) string {
	if template == prompt.QuestionID {
		return "question"
	}
	return template
}

// expectedMessages gives, for each source of a prompt's text, the digests of
// the messages it may give.
func expectedMessages(question, file string) map[string][]string {
	digest := func(role, content string) string {
		return sign.Digest(trajectory.SentMessage{Role: role, Content: content}.Canonical())
	}
	out := map[string][]string{
		prompt.SystemID:   {digest("system", prompt.System())},
		"question":        {digest("user", prompt.Question(question, file))},
		prompt.ReminderID: {digest("user", prompt.Reminder())},
	}
	for _, reason := range prompt.LastTurnReasons() {
		out[prompt.LastTurnID] = append(out[prompt.LastTurnID], digest("user", prompt.LastTurn(reason)))
	}
	return out
}

func (t *following) addTo(a *AttemptEvidence, ev trajectory.Event) {
	switch p := ev.Payload.(type) {
	case trajectory.ContextCompiled:
		t.prompt(a, ev.Seq, p)
	case trajectory.ModelCallCompleted:
		if p.OutputSHA256 != "" {
			t.outputs[p.OutputSHA256] = true
			a.Models = append(a.Models, ModelFact{Seq: ev.Seq, Requested: p.RequestedModel, Out: p.Tokens.Out, UsageReported: p.UsageReported})
		}
	case trajectory.ToolProposed:
		a.Calls = append(a.Calls, proposed(ev, p))
	case trajectory.PolicyDecision:
		c := a.waiting(ev.Turn, p.CallID, func(c *CallFact) bool { return c.Decided < 0 && c.Result == nil })
		c.Decided, c.Decision = ev.Seq, p
	case trajectory.ToolExecuted:
		allowed := func(c *CallFact) bool { return c.Result == nil && c.Decision.Decision == string(policy.Allow) }
		if !slices.ContainsFunc(a.Calls, func(c *CallFact) bool { return c.Turn == ev.Turn && c.ID == p.CallID && allowed(c) }) {
			allowed = func(c *CallFact) bool { return c.Result == nil } // it ran all the same
		}
		c := a.waiting(ev.Turn, p.CallID, allowed)
		c.Name, c.Result = p.Name, t.result(ev.Seq, p)
	case trajectory.AnswerCommitted:
		a.Committed, a.Answer = ev.Seq, &p
	case trajectory.Judgment:
		a.Judged, a.Judgment = ev.Seq, &p
	}
}

// waiting returns the call of a turn that an event is about, a new one if
// there is none: something then happened that nobody proposed or allowed.
func (a *AttemptEvidence) waiting(turn int, id string, fits func(*CallFact) bool) *CallFact {
	for _, c := range a.Calls {
		if c.Turn == turn && c.ID == id && fits(c) {
			return c
		}
	}
	c := &CallFact{ID: id, Turn: turn, Proposed: -1, Decided: -1}
	a.Calls = append(a.Calls, c)
	return c
}

// proposed looks at a call's arguments with the rules that the Gate has.
func proposed(ev trajectory.Event, p trajectory.ToolProposed) *CallFact {
	c := &CallFact{ID: p.CallID, Name: p.Name, Turn: ev.Turn, Proposed: ev.Seq, Decided: -1, Cut: len(p.ArgsTruncated) > 0}
	call := policy.Call{Tool: p.Name, Known: true, Texts: []string{p.Malformed}}
	for name, value := range p.Args {
		call.Texts = append(call.Texts, value)
		switch {
		case strings.Contains(name, "url") || strings.Contains(value, "://"):
			call.URLs = append(call.URLs, value)
		case strings.Contains(name, "path") || strings.Contains(name, "file"):
			call.Paths = append(call.Paths, value)
		}
	}
	slices.Sort(call.Texts) // the arguments come from a map
	slices.Sort(call.URLs)
	slices.Sort(call.Paths)
	anything := policy.Policy{Mode: policy.Autonomous, Allow: []string{policy.EveryTool}, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: policy.Unlimited}
	c.Hits = policy.Decide(anything, call).RuleIDs
	paths := policy.Decide(anything, policy.Call{Tool: p.Name, Known: true, Paths: call.Paths})
	c.Answers = slices.Contains(paths.RuleIDs, policy.AnswerSources)
	for name, text := range p.Args {
		if !isCode(p.Name, name) {
			continue
		}
		c.Loads = c.Loads || policy.Classify(text) == policy.ClassA || strings.Contains(strings.ToLower(text), "gaia-benchmark")
		c.Hooks = max(c.Hooks, hostHook(text))
	}
	return c
}

// isCode reports whether an argument is run: by a tool that is known to run
// what the model wrote, or by the argument's name. Only there can a text do what
// it says.
func isCode(tool, arg string) bool {
	return slices.Contains([]string{"python", "bash", "shell"}, strings.ToLower(tool)) ||
		slices.Contains([]string{"code", "command", "cmd", "script", "program", "source", "stdin"}, strings.ToLower(arg))
}

// hostHook returns the first way into another program that a text names: files
// that an interpreter loads by itself, variables that a loader heeds.
func hostHook(text string) string {
	for _, hook := range []string{"sitecustomize", "usercustomize", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP"} {
		if strings.Contains(text, hook) {
			return hook
		}
	}
	return ""
}

func (t *following) result(seq int64, p trajectory.ToolExecuted) *ResultFact {
	r := &ResultFact{Seq: seq, SHA256: p.OutputSHA256, Shown: p.ShownSHA256, IsError: p.IsError, Probes: p.Probes, URLs: len(p.URLs)}
	var reached []string
	for _, u := range p.URLs {
		if u.Status == 0 {
			continue
		}
		reached = append(reached, u.URL)
		if r.ClassA == "" && u.Status >= 200 && u.Status < 300 && policy.Classify(u.URL) == policy.ClassA {
			r.ClassA = u.URL
		}
	}
	if r.Probes == nil && !p.Truncated {
		probes := t.prober.Probe(p.Head, "", reached)
		r.Probes = &probes
	}
	return r
}
