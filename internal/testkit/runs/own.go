package runs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// ownFiles are the files of the agent of every plan with one.
func ownFiles() (folder plan.AgentFolder, list []byte) {
	files := []plan.AgentFile{{Bytes: 640, Executable: true, Path: "agent", SHA256: canonical.Digest([]byte("agent"))},
		{Bytes: 90, Path: "lib/words.py", SHA256: canonical.Digest([]byte("words"))}, {Path: "words.py", Link: "lib/words.py"}}
	folder = plan.AgentFolder{Files: len(files), Path: "/home/sample/agent"}
	for _, f := range files {
		line, err := canonical.Encode(f)
		if err != nil {
			panic("runs: " + err.Error()) // strings and numbers
		}
		list, folder.Bytes = append(append(list, line...), '\n'), folder.Bytes+f.Bytes
	}
	folder.SHA256 = canonical.Digest(list)
	return folder, list
}

// giveAgent puts an own agent into a plan, as it is if the plan says no more of it.
func giveAgent(m *plan.Plan) {
	folder, list := ownFiles()
	a := plan.DefaultAgent()
	a.Name, a.Folders, a.FilesSHA256 = "sample-agent", []plan.AgentFolder{folder}, canonical.Digest(list)
	a.Probed = &plan.AgentProbe{Bytes: folder.Bytes, Files: folder.Files}
	m.Agent, m.Budgets.Turns = &a, 0
}

// own reports whether the plan has an own agent.
func (w *writer) own() bool { return w.manifest.Agent != nil }

// sourceOf returns the source of a message.
func (w *writer) sourceOf(m sent) string {
	if w.own() {
		return plan.AgentSource
	}
	return m.source
}

// shownAs returns the name under which the agent sees the attachment.
func (w *writer) shownAs() string {
	if file := w.now().file; file != "" && w.own() {
		return plan.AgentAttachment(path.Ext(file))
	}
	return ""
}

// beginTurn begins the next turn.
func (w *writer) beginTurn() error {
	w.attempt.begun++
	w.attempt.turn = w.attempt.begun
	return w.record(trajectory.TurnStarted{})
}

// exchange writes a turn with a model call of an own agent: what has been said, and what came of it.
func (w *writer) exchange(done trajectory.ModelCallCompleted, reply trajectory.SentMessage) error {
	a := &w.attempt
	if err := w.beginTurn(); err != nil {
		return err
	}
	if err := w.compile(); err != nil {
		return err
	}
	body := canonical.Digest(fmt.Appendf(nil, "%s %d", w.now().id, len(a.talk)))
	request := &trajectory.AgentRequest{Bytes: a.bytes + 64, Dialect: "chat", Retry: a.sentBodies[body], SHA256: body}
	if a.sentBodies == nil {
		a.sentBodies = map[string]bool{}
	}
	a.sentBodies[body] = true
	done.RequestedModel, done.Try = w.manifest.Model.Name, 1
	done.Reply = &trajectory.AgentReply{Bytes: done.Bytes + 200, SHA256: canonical.Digest(fmt.Appendf(nil, "reply %s", done.OutputSHA256)), Status: 200}
	if said := textsOf(reply); len(said) > 0 {
		var names []string
		for _, t := range w.manifest.Tools {
			names = append(names, t.Name)
		}
		probes := a.prober.Probe(strings.Join(said, "\n"), "", nil)
		done.Reply.Probes, done.Reply.Code = &probes, origin.Code(reply.Content, names) || slices.ContainsFunc(reply.ToolCalls, func(c trajectory.SentCall) bool { return !origin.Recorded(c.Name, names) })
	}
	if done.Error != nil {
		done.Reply.Status = done.Error.Status
	}
	if err := w.record(trajectory.ModelCallStarted{Request: request, RequestedModel: w.manifest.Model.Name, Try: 1}); err != nil {
		return err
	}
	for _, said := range textsOf(reply) {
		a.origins.Add(origin.Reply, said)
	}
	return w.record(done, trajectory.TurnCompleted{LatencyMs: 950})
}

// textsOf returns what a model reads, or has written, of a message, as the proxy divides it.
func textsOf(m trajectory.SentMessage) (texts []string) {
	if m.Content != "" {
		texts = append(texts, m.Content)
	}
	for _, c := range m.ToolCalls {
		texts = append(texts, c.Name+"\n"+c.Arguments)
	}
	return texts
}

// apart is what stands between pieces that did not stand beside each other.
const apart = "\n_\n"

// originsOf says where the texts of messages come from that the attempt has not sent before; nil for the built-in agent.
func (w *writer) originsOf(fresh []trajectory.SentMessage) *trajectory.Origins {
	if !w.own() {
		return nil
	}
	o, rest := &trajectory.Origins{}, []string(nil)
	for _, m := range fresh {
		for _, text := range textsOf(m) {
			by, pieces := w.attempt.origins.Divide(text)
			o.Exchange, o.Question, o.Reply, o.Result, o.Workspace = o.Exchange+by[origin.Exchange], o.Question+by[origin.Question], o.Reply+by[origin.Reply], o.Result+by[origin.Result]+by[origin.Definition], o.Workspace+by[origin.Workspace]
			rest = append(rest, pieces...)
		}
	}
	if len(rest) == 0 {
		return o
	}
	probes := w.attempt.prober.Probe(strings.Join(rest, apart), "", nil)
	o.Probes = &probes
	for _, piece := range rest {
		o.Agent += int64(len(piece))
		for passage := range origin.Split(piece) {
			gold := probes.GoldHits > 0 && w.attempt.prober.Probe(passage, "", nil).GoldHits > 0
			key, tasks, report := w.passages.Sent(w.now().id, passage, gold)
			listed := slices.ContainsFunc(o.Passages, func(p trajectory.Passage) bool { return p.Key == key })
			if report && !listed && len(o.Passages) < trajectory.MostPassages {
				o.Passages = append(o.Passages, trajectory.Passage{Key: key, Tasks: tasks})
			}
		}
	}
	return o
}

// committed returns an answer as it is recorded: where it stood before.
func (w *writer) committed(p trajectory.AnswerCommitted) trajectory.AnswerCommitted {
	if w.own() {
		in, shares := w.attempt.origins.Seen(p.Answer)
		for _, source := range in {
			p.SeenIn = append(p.SeenIn, string(source))
		}
		p.SharesWord = shares
	}
	return p
}

// tries writes the calls that fail before the next one.
func (w *writer) tries() error {
	for _, f := range w.attempt.failing {
		status := 0
		if _, err := fmt.Sscan(f.args, &status); err != nil {
			return err
		}
		if err := w.exchange(trajectory.ModelCallCompleted{LatencyMs: 120, Error: &trajectory.CallError{Message: f.body, Retryable: true, Status: status}}, trajectory.SentMessage{}); err != nil {
			return err
		}
	}
	w.attempt.failing = nil
	return nil
}

// fetch writes an exchange over the recorded network: its method, its address and the reply to it.
func (w *writer) fetch(s step) error {
	method, address, ok := strings.Cut(s.args, " ")
	if !ok {
		return fmt.Errorf("%q is no method and address", s.args)
	}
	w.attempt.exchanges++
	x := trajectory.Redactor{}.Excerpt(s.body, trajectory.ExchangeHead)
	done := trajectory.ExchangeCompleted{Bytes: x.Bytes, ContentType: "text/html", Head: x.Head, LatencyMs: 40, Number: w.attempt.exchanges, Redactions: x.Redactions, Status: 200, Truncated: x.Truncated}
	if x.Bytes > 0 {
		done.SHA256 = x.SHA256
		w.attempt.origins.Add(origin.Exchange, s.body)
		if w.manifest.Probes != "" {
			probes := w.attempt.prober.Probe(s.body, address, []string{address})
			done.Probes = &probes
		}
	}
	return w.record(trajectory.ExchangeStarted{Method: method, Number: w.attempt.exchanges, URL: address}, done)
}

// agentEnd is how the process of an own agent ended: as it should.
func (w *writer) agentEnd() *trajectory.AgentEnd {
	if !w.own() {
		return nil
	}
	end := &trajectory.AgentEnd{Ended: trajectory.AgentExited, Refused: w.attempt.refused, StdoutBytes: 20}
	if a := w.manifest.Agent; !a.Unconfined {
		end.Confined = &trajectory.Confinement{Ended: true, Filtered: true, Isolated: a.Network != plan.NetworkHost, NoPrivileges: true, ReadOnly: true}
	}
	return end
}

// ofOwn tells a section that only attempts of an own agent have.
func (w *writer) ofOwn(s step) error {
	if !w.own() {
		return fmt.Errorf("section %q needs an own agent in the plan", s.verb)
	}
	switch s.verb {
	case "reply":
		return w.turnOf(s.body)
	case "scaffold":
		return w.calls(step{line: s.line, verb: s.verb, args: "1 " + s.args, body: s.body}, false)
	case "refused":
		w.attempt.refused++
		code, address, exchange := strings.Cut(s.args, " ")
		if exchange {
			var rules []string
			if code == "rule_refused" {
				rules = policy.DecideURL(w.manifest.Policy, w.now().id, address[strings.Index(address, " ")+1:]).RuleIDs
			}
			return w.record(trajectory.RequestRefused{Code: code, Path: address, RuleIDs: rules, Status: 403})
		}
		return w.record(trajectory.RequestRefused{Bytes: 300, Code: code, Path: "POST /v1/chat/completions", Status: 400})
	case "exchange":
		return w.fetch(s)
	}
	rule, answer, _ := strings.Cut(s.args, " ")
	held := false
	for _, said := range w.attempt.replies {
		held = held || strings.Contains(said, answer)
	}
	return w.record(w.committed(trajectory.AnswerCommitted{Answer: answer, InReply: held, Rule: rule}), trajectory.AttemptEnded{Agent: w.agentEnd(), Outcome: trajectory.Answered})
}
