package audit

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// gatherer follows a journal and keeps the facts that checks need: places, digests, counts and answers, no heads.
// It takes time linear in the journal.
type gatherer struct {
	e       *evidence
	of      map[string]*taskEvidence
	tasks   map[string]*taskReader // that have an open attempt
	spare   []*probe.Prober        // of attempts that have ended
	facts   spareFacts
	plan    planned
	untold  told       // of most tasks
	ids     *probe.IDs // of the split
	answers *probe.Answers
	swept   bool // the judge cache was checked since the process began
	odd     *oddTexts

	bodies   bodies
	approved *preapproved
}

// preapproved are the tools that the process under way approves without asking.
type preapproved struct{ tools []string }

// spareFacts are facts of attempts that have ended and are packed, whose memory others get: the first ones, since some attempts
// have very many.
type spareFacts struct {
	calls    []*callFact
	results  []*resultFact
	attempts []*attemptEvidence
}

const mostSpare = 1 << 10

// add takes the facts of an attempt that nothing looks at any more.
func (s *spareFacts) add(a *attemptEvidence) {
	for _, c := range a.Calls {
		if r := c.Result; r != nil && len(s.results) < mostSpare {
			s.results = append(s.results, r)
		}
		if len(s.calls) < mostSpare {
			s.calls = append(s.calls, c)
		}
	}
	if len(s.attempts) < mostSpare && max(len(a.Turns), len(a.Prompts), len(a.Models), len(a.Calls)) < mostSpare {
		s.attempts = append(s.attempts, a)
	}
}

// attempt returns an attempt to begin.
func (s *spareFacts) attempt() *attemptEvidence {
	a := reuse(&s.attempts)
	*a = attemptEvidence{Committed: -1, Judged: -1, EndedAt: -1, Turns: a.Turns[:0], Prompts: a.Prompts[:0], Models: a.Models[:0], Calls: a.Calls[:0]}
	return a
}

// reuse returns a fact to be overwritten, which may be a spare one.
func reuse[T any](spare *[]*T) *T {
	last := len(*spare) - 1
	if last < 0 {
		return new(T)
	}
	f := (*spare)[last]
	*spare = (*spare)[:last]
	return f
}

// taskReader is a task while an attempt at it is open.
type taskReader struct {
	*taskEvidence
	prober   *probe.Prober
	question string
	gold     string
	head     head // of the event, if it has one; see shows
	fileName string
	plan     *planned
	own      []string             // see ownTexts
	talk     *prompt.Conversation // of the open attempt
	unlisted bool                 // a request of it does not list its messages
	turn     *turn                // the one that the event is of
	mine     *ownReader           // of an own agent; nil: the plan has the built-in one
	odds     *oddTexts            // of the run
	facts    *spareFacts          // likewise
	passages *sentPassages        // of the journal
	begunUs  int64                // when the open attempt began
	bodies   bodies
	images   bool     // the plan has the model see pictures
	spent    spending // of the open attempt and those that failed before it, as far as it is known

	exchanges map[int]exchange // over the recorded network that are open, by number
	digests   *taskDigests     // nil: not made yet
}

// planned is what the plan says of messages.
type planned struct {
	unknown     map[string]bool // sources whose template it has in another form
	definitions []string        // of the tools that an own agent may call
	gate        []string        // names of those, whose results are recorded
	schemas     map[string]bool // digests of the schemas that a refusal may quote
	refusals    map[string]bool // what is told when a budget is used up, which holds its number
	budgets     plan.Budgets
	tools       map[string]bool         // by name
	calculates  bool                    // calculate is this version's
	asks        func(model string) bool // whether the agent may ask it
	words       string                  // that any refusal may hold
	policy      policy.Policy           // without its budgets
	anything    policy.Policy           // which has its rules, and allows what they do not forbid
	hashes      bool                    // it records no heads
	approved    *preapproved
}

// turn is what a turn has seen.
type turn struct {
	prompted bool
	replied  bool
	bytes    int64                   // of the messages of its last request, without pictures
	failed   int                     // tries since the last reply
	timedOut int                     // likewise, those as slow as a time limit
	whole    bool                    // the reply is
	asked    []askedCall             // its calls, if it is whole
	marked   *trajectory.SentMessage // a reply of which only secrets are not shown; nil: it is not
	calls    map[string]*pending     // nil for none
	spare    []*pending              // empty ones
	request  string                  // digest of the body of an own agent's request
	fact     int                     // its place in attemptEvidence.Turns
}

func newTurn(fact int) *turn { return &turn{fact: fact} }

// next is newTurn in the memory of a turn that is over.
func (t *turn) next(fact int) {
	if len(t.calls) > mostSpare { // to clear it takes as long as it is large
		t.calls = nil
	}
	for _, p := range t.calls {
		*p = pending{p.undecided[:0], p.allowed[:0], p.refused[:0]}
		t.spare = append(t.spare, p)
	}
	clear(t.calls)
	*t = turn{fact: fact, calls: t.calls, asked: t.asked[:0], spare: t.spare}
}

// askedCall is a call as a reply of the model has it, and whether it was proposed.
type askedCall struct {
	id, name, argsSHA256 string
	text                 string // its arguments
	proposed             bool
}

// is reports whether a proposal is of the call.
func (c *askedCall) is(p trajectory.ToolProposed) bool {
	return c.id == p.CallID && c.name == p.Name && c.argsSHA256 == p.ArgsSHA256
}

// pending are the calls of one id that wait for a decision or a result: models use an id twice.
type pending struct{ undecided, allowed, refused []*callFact }

func newGatherer(m plan.Plan, gold map[string]string) *gatherer {
	g := &gatherer{e: &evidence{Manifest: m, Gold: gold, packer: newPacker()}, of: make(map[string]*taskEvidence, len(m.Tasks)), tasks: map[string]*taskReader{},
		ids: probe.NewIDs(m.SplitIDs), odd: &oddTexts{said: map[string]bool{}}, approved: &preapproved{m.Approved}}
	targets := make([]probe.Target, len(m.Tasks))
	for i, t := range m.Tasks {
		targets[i] = probe.Target{TaskID: t.TaskID, Gold: gold[t.TaskID]}
	}
	g.answers = probe.NewAnswers(targets)
	unknown := map[string]bool{} // what a plan brings along is not executed
	for _, t := range prompt.Templates() {
		if !slices.ContainsFunc(m.Prompts, func(p plan.Prompt) bool { return p.ID == t.ID && p.Text == t.Text }) {
			unknown[t.ID] = true
			unknown[prompt.QuestionSource] = unknown[prompt.QuestionSource] || t.ID == prompt.QuestionID
		}
	}
	offered := m.Offered()
	if m.Agent == nil || m.Agent.Tools != plan.AgentToolsGate {
		offered = nil
	}
	plan := planned{unknown: unknown, schemas: map[string]bool{}, refusals: budgetRefusals(m.Budgets), budgets: m.Budgets, hashes: m.Evidence == plan.EvidenceHashes,
		asks: m.Asks, tools: map[string]bool{}, words: refusalWords, policy: m.Policy, approved: g.approved}
	plan.policy.MaxToolCalls, plan.policy.MaxCostMicroUSD = policy.Unlimited, policy.Unlimited
	plan.anything = plan.policy
	plan.anything.Mode, plan.anything.Allow, plan.anything.Deny, plan.anything.Confirm = policy.Autonomous, []string{policy.EveryTool}, nil, nil
	for _, t := range m.Tools {
		plan.schemas[t.SchemaSHA256], plan.tools[t.Name] = t.Server != "" || isBuiltinVersion(t), true
		plan.words += t.Name + "\n"
		plan.calculates = plan.calculates || t.Name == "calculate" && isBuiltinVersion(t)
	}
	for _, t := range offered {
		plan.gate, plan.definitions = append(plan.gate, t.Name), append(plan.definitions, t.Description, cmp.Or(t.Schema, builtinSchema(t.SchemaSHA256)))
	}
	g.plan = plan
	all := make([]taskEvidence, len(m.Tasks))
	for i := range m.Tasks {
		all[i].Plan = &m.Tasks[i]
		g.e.Tasks = append(g.e.Tasks, &all[i])
		g.of[m.Tasks[i].TaskID] = &all[i]
	}
	return g
}

// add takes an event that the fold has accepted: its task is planned and its attempt has begun.
func (g *gatherer) add(ev trajectory.Event) error {
	if p, opens := ev.Payload.(trajectory.RunStarted); opens {
		g.begin(ev, p)
	}
	g.spend(ev)
	journal := g.e.journal(ev.Seq)
	journal.Clocks.see(ev)
	switch p := ev.Payload.(type) {
	case trajectory.JudgeBattery:
		g.e.Batteries = append(g.e.Batteries, fact[trajectory.JudgeBattery]{ev.Seq, p})
	case trajectory.Preflight:
		g.e.Preflight = append(g.e.Preflight, fact[trajectory.Preflight]{ev.Seq, p})
		journal.Asked = true
	case trajectory.SecurityEvent:
		g.e.Cache = append(g.e.Cache, fact[trajectory.SecurityEvent]{ev.Seq, p})
		g.swept = g.swept || p.Kind == trajectory.JudgeCacheSweep
	case trajectory.RunResumed:
		g.e.Resumed = append(g.e.Resumed, fact[trajectory.RunResumed]{ev.Seq, p})
		g.approved.tools = p.Approved
		g.swept = false
		journal.Passages.resume()
	case trajectory.TaskStarted:
		journal.Tasks = true
		t := &taskReader{taskEvidence: g.of[ev.TaskID], plan: &g.plan, odds: g.odd, facts: &g.facts, passages: &journal.Passages, bodies: g.bodies, question: p.Question, gold: g.e.Gold[ev.TaskID], fileName: p.FileName,
			images: g.e.Manifest.Model.Images, turn: newTurn(-1), begunUs: ev.MonoUs}
		g.tasks[ev.TaskID] = t
		if n := len(g.spare); n > 0 {
			t.prober, g.spare = g.spare[n-1], g.spare[:n-1]
		}
		t.prober = probe.Renew(t.prober, probe.Target{TaskID: t.Plan.TaskID, Question: p.Question, Gold: g.e.Gold[t.Plan.TaskID], SplitIDs: g.ids, Answers: g.answers})
		if g.e.Manifest.Agent != nil {
			t.mine = newOwnReader(t, p)
		}
		t.talk = prompt.NewConversation(p.Question, p.FileName, t.plan.unknown)
		if t.failed != nil {
			t.spent = *t.failed
		}
		if t.told == nil {
			if all := newTold(g.e.Manifest, t.prober, p.Question); all.templates == nil && all.stated == (probe.Statement{}) {
				t.told = &g.untold
			} else {
				t.told = &all
			}
		}
		a := g.facts.attempt()
		a.Number, a.Begun, a.Question, a.FileName, a.Workspace = ev.Attempt, ev.Seq, p.Question, cmp.Or(p.ShownAs, p.FileName), t.files(p.Workspace)
		t.Attempts = append(t.Attempts, a)
	default:
		_, graded := ev.Payload.(trajectory.Judgment)
		g.e.Unswept = g.e.Unswept || graded && !g.swept
		if ev.Attempt == 0 {
			break
		}
		if graded && (g.e.FirstJudged == 0 || ev.Seq < g.e.FirstJudged) {
			g.e.FirstJudged = ev.Seq
		}
		if t := g.of[ev.TaskID]; ev.Attempt <= t.ended {
			g.judge(t, ev)
			break
		}
		t := g.tasks[ev.TaskID]
		a := t.Attempts[ev.Attempt-t.ended-1]
		t.addTo(a, ev)
		if a.Ended != nil && ev.Attempt == t.ended+1 {
			g.e.pack(t.taskEvidence, a)
			t.Attempts = slices.Delete(t.Attempts, 0, 1)
			delete(g.tasks, ev.TaskID)
			g.spare = append(g.spare, t.prober)
			g.facts.add(a)
		}
	}
	return nil
}

// judge takes an event of an attempt that has ended, which is its judgment.
func (g *gatherer) judge(t *taskEvidence, ev trajectory.Event) {
	if p, graded := ev.Payload.(trajectory.Judgment); graded {
		t.judged += string(g.e.packer.pack(&judgedFact{ev.Attempt, ev.Seq, &p}))
	}
}

// ownTexts returns what a message may hold besides an answer: the question and the templates.
func (t *taskReader) ownTexts() []string {
	if t.own == nil {
		t.own = []string{prompt.Question(t.question, t.fileName), prompt.System(), prompt.Reminder()}
		for _, reason := range prompt.LastTurnReasons() {
			t.own = append(t.own, prompt.LastTurn(reason))
		}
		if t.question != "" {
			t.own = append(t.own, t.question)
		}
	}
	return t.own
}

func (t *taskReader) addTo(a *attemptEvidence, ev trajectory.Event) {
	if t.mine != nil {
		t.mine.turnOf(t, a, ev)
	}
	t.shows(a, ev)
	t.network(a, ev)
	switch p := ev.Payload.(type) {
	case trajectory.TurnStarted:
		a.Turns = append(a.Turns, turnFact{Seq: ev.Seq, Us: ev.MonoUs - t.begunUs})
		if t.mine == nil {
			t.turn.next(len(a.Turns) - 1)
		}
	case trajectory.ModelCallStarted:
		t.otherModel(a, ev.Seq, p.RequestedModel)
		if t.mine != nil {
			a.Sent++
			t.mine.sends(t.turn, p)
			break
		}
		t.begunUs += min(max(p.WaitedMs, 0), (ev.MonoUs-t.begunUs)/1000) * 1000 // that is not the attempt's time
	case trajectory.ContextCondensed:
		t.talk.Condense(p)
	case trajectory.ContextCompiled:
		if t.mine != nil {
			t.ownPrompt(a, ev.Seq, p)
			break
		}
		t.prompt(a, ev.Seq, p)
	case trajectory.ModelCallCompleted:
		t.otherModel(a, ev.Seq, p.RequestedModel)
		for _, channel := range p.UnrecordedChannels {
			if !slices.Contains(a.Channels, channel) {
				a.Channels = append(a.Channels, channel)
			}
		}
		if p.OutputSHA256 != "" {
			t.spent.use(p.Tokens, p.CostMicroUSD)
			a.Models = append(a.Models, t.reply(ev.Seq, p))
			a.Unpriced = a.Unpriced || p.CostMicroUSD == nil
			t.turn.of(a).Asked = true
		} else if (p.Reply == nil || p.Error != nil) && unheard(p.Error) { // an own agent can ask for counts, whose replies are no messages
			a.Unheard++
		}
		if r := p.Reply; r != nil && r.Probes != nil && t.mine != nil {
			if a.Heard = true; p.OutputSHA256 == "" { // it broke
				t.mine.given.add(p)
			}
		}
		t.turn.tried(p)
		if t.mine != nil {
			t.mine.tried(t.turn)
		}
	case trajectory.ToolProposed:
		t.propose(a, ev, p)
	case trajectory.ApprovalRequested:
		if waiting := t.turn.waiting(p.CallID).undecided; len(waiting) > 0 {
			waiting[0].asked = p.Name == waiting[0].Name && p.ArgsSHA256 == waiting[0].argsSHA256
		}
	case trajectory.ApprovalResolved:
		if waiting := t.turn.waiting(p.CallID).undecided; len(waiting) > 0 {
			beforehand := t.plan.approved.tools
			may := p.By == trajectory.ByPerson || p.By == trajectory.ByAlways ||
				p.By == trajectory.Beforehand && (slices.Contains(beforehand, waiting[0].Name) || slices.Contains(beforehand, policy.EveryTool))
			waiting[0].Approved = p.Approved && waiting[0].asked && may
		}
	case trajectory.CheckpointSaved:
		if a.Kept == nil {
			a.Kept = &p
		}
	case trajectory.PolicyDecision:
		t.decide(a, ev, p)
	case trajectory.ToolExecuted:
		waiting := t.turn.waiting(p.CallID)
		c := a.take(ev, p.CallID, p.Name, &waiting.allowed, &waiting.refused, &waiting.undecided)
		h := t.head
		c.Result = t.result(ev.Seq, p, h, c)
		t.oracle(a, c, p, h)
		echo := t.mine != nil && t.mine.asks(t, a, ev, c.args)
		c.Miscalculated = p.Name == "calculate" && c.Name == p.Name && !p.IsError && !c.Cut && t.plan.calculates && h.whole() && miscalculated(c.expression, h.text)
		c.args, c.text, c.echo, c.expression = "", "", "", ""
		t.talk.Result(p.CallID, p.ShownSHA256, p.Name, p.ShownBytes)
		if t.mine != nil {
			t.mine.result(t, c, h, p.BodySHA256, p.ShownBytes, echo)
		}
		if p.Model != nil {
			a.Unpriced = a.Unpriced || p.Model.CostMicroUSD == nil
			t.spent.use(p.Model.Tokens, p.Model.CostMicroUSD)
		}
	case trajectory.ExchangeStarted:
		if t.mine != nil {
			echo := t.mine.asks(t, a, ev, p.URL)
			t.mine.given.add(p)
			t.mine.given.echoes[p.Number] = echo
		}
	case trajectory.ExchangeCompleted:
		if t.mine != nil {
			t.mine.exchange(t, p)
		}
	case trajectory.PolicyViolation:
		a.Denied = append(a.Denied, denialFact{ev.Turn, p.CallID, policy.Denial(p.Class)})
		if p.Class == string(policy.DeniedByRule) {
			a.Broken = append(a.Broken, brokenFact{ev.Seq, ev.Turn, p.CallID})
		}
	case trajectory.Rollback:
		a.Rollbacks = append(a.Rollbacks, rollbackFact{ev.Seq, ev.Turn, p.TreeAfter == p.TreeBefore})
	case trajectory.AnswerCommitted:
		a.Committed, a.Answer = ev.Seq, &p
		if m := t.mine; m != nil {
			a.Unheld, a.Made = p.InReply && m.contradicts(p), m.given.Made
			a.Misplaced = a.misplaced(t.question)
		}
	case trajectory.AttemptEnded:
		if p.Workspace != nil {
			changed := *p.Workspace
			changed.Diff = "" // which no check reads
			p.Workspace = &changed
		}
		a.EndedAt, a.Ended = ev.Seq, &p
		t.failed = nil
		if p.Outcome == trajectory.Errored {
			spent := t.spent // alone: the rest of the reader is not kept
			t.failed = &spent
		}
	case trajectory.Judgment:
		a.Judged, a.Judgment = ev.Seq, &p
	}
}

// otherModel keeps an attempt's first request to another model than the planned one.
func (t *taskReader) otherModel(a *attemptEvidence, seq int64, model string) {
	if a.OtherModel == nil && !t.plan.asks(model) {
		a.OtherModel = &modelFact{Seq: seq, Requested: model}
	}
}

// reply takes in what the model said, from now on a part of the conversation.
func (t *taskReader) reply(seq int64, p trajectory.ModelCallCompleted) modelFact {
	if p.Error == nil { // one that was found empty is asked for again
		t.talk.Reply(p.OutputSHA256)
	}
	t.turn.replied, t.turn.whole, t.turn.asked, t.turn.marked = true, false, t.turn.asked[:0], nil
	f := modelFact{Cached: p.Tokens.Cached, Asked: t.turn.bytes, Bytes: p.Bytes, Failed: t.turn.failed, TimedOut: t.turn.timedOut, Empty: p.Error != nil, Seq: seq, Requested: p.RequestedModel, Responded: p.ResponseModel, RequestID: p.RequestID, In: p.Tokens.In, Out: p.Tokens.Out, CostMicroUSD: p.CostMicroUSD, UsageReported: p.UsageReported, Prompted: t.turn.prompted}
	h := t.head
	m, shown := h.message()
	if t.mine != nil {
		t.mine.reply(t, p, m, shown && h.whole())
	}
	if !shown {
		return f
	}
	f.Answer, f.Answers = prompt.FinalAnswer(m.Content)
	if f.Whole, f.Marked = h.whole(), !h.whole(); f.Marked {
		t.turn.marked = &m
		return f
	}
	f.Calls, t.turn.whole = len(m.ToolCalls), true
	for _, c := range m.ToolCalls {
		t.turn.asked = append(t.turn.asked, askedCall{id: c.ID, name: c.Name, argsSHA256: canonical.Digest([]byte(c.Arguments)), text: c.Arguments})
	}
	return f
}

// builtin reports whether a tool is one of this program's own, whose arguments it knows the meaning of. Of any
// other tool every argument may be run, opened or fetched.
func builtin(tool string) bool { return policy.Own(tool) || tool == theNetwork }

// runs reports whether what a tool is given may be run, and may make files.
func runs(tool string) bool { return tool == "python" || !builtin(tool) }

// reads reports whether a tool gives what is in one file of the workspace.
func reads(tool string) bool {
	return tool == "read_file" || tool == "transcribe_audio" || tool == "describe_image"
}

// thirdParty reports whether a tool brings in what others have written: not the attachment, nor what the agent's
// own code makes.
func thirdParty(tool string) bool {
	return tool == "web_fetch" || tool == "web_search" || tool == theNetwork || !builtin(tool)
}

// propose looks at a call's arguments with the rules that the Gate has, and compares it with the reply that it
// should come from.
func (t *taskReader) propose(a *attemptEvidence, ev trajectory.Event, p trajectory.ToolProposed) {
	values, text := make([]string, 1, 1+len(p.Args)), p.Name+"\n"+p.Malformed+"\n"
	values[0] = p.Malformed
	for _, name := range policy.Names(p.Args) {
		values = append(values, p.Args[name])
		text += strconv.Quote(name) + ": " + p.Args[name] + "\n"
	}
	c := reuse(&t.facts.calls)
	*c = callFact{ID: p.CallID, Name: p.Name, Turn: ev.Turn, Proposed: ev.Seq, Decided: -1,
		Cut: len(p.ArgsTruncated) > 0 || p.Redactions > 0, args: strings.Join(values, "\n"), text: text}
	replied := t.turn.replied
	if t.mine == nil {
		c.Foreign = !t.turn.isFromReply(p)
	} else {
		c.Foreign, replied = t.mine.isFromNoReply(p), true
	}
	if replied && len(a.Models) > 0 {
		a.Models[len(a.Models)-1].Called = true
	}
	shown := p.Args // the most that the journal shows
	c.echo = c.args
	if c.Cut {
		if at := slices.IndexFunc(t.turn.asked, func(of askedCall) bool { return of.is(p) }); at >= 0 {
			c.told = true
			text := t.turn.asked[at].text
			if args, err := policy.Arguments([]byte(text)); err == nil {
				c.echo, shown = text, args
			}
		}
	}
	if p.Name == "web_fetch" { // a page is asked for by its address alone, and that without its fragment
		c.echo, _, _ = strings.Cut(shown["url"], "#")
	}
	if reads(p.Name) {
		c.Opens = p.Args["path"]
	}
	// Code puts names of files together as it likes, and what a server's tool reads is not known.
	c.Attached = a.FileName != "" && (runs(c.Name) || strings.HasSuffix("/"+opened(c.Opens), "/"+opened(a.FileName)))
	if p.Name == "web_fetch" && !c.Cut && p.Args["archived"] == "" {
		if u, err := url.Parse(strings.TrimSpace(p.Args["url"])); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			u.Fragment, u.RawFragment = "", "" // as it is recorded when it is reached
			c.Fetches = u.String()
		}
	}
	c.Unread = len(p.ArgsTruncated) > 0 && !c.told
	c.argsSHA256, c.asks = p.ArgsSHA256, policy.Read(policy.CallOf(p.Name, shown))
	c.asks.Texts = append(c.asks.Texts, p.Malformed)
	t.looksFor(c)
	c.asks.Known = t.plan.tools[p.Name]
	if c.Name == "web_search" {
		c.Verbatim = t.prober.Probe(strings.Join(c.asks.Texts, "\n"), "", nil).QCov
	}
	if runs(p.Name) {
		ran := c.asks
		ran.Strings = append(slices.Clone(ran.Strings), p.Malformed) // which no tool should have got
		c.Loads = policy.Source(t.plan.anything, ran) != ""
		c.Hooks = policy.Hook(ran)
	}
	c.Grades = grades(p)
	if p.Name == "calculate" {
		c.expression = p.Args["expression"]
	}
	a.SaidQuestion = a.SaidQuestion || c.Cut || t.prober.Mostly(c.text)
	a.Calls = append(a.Calls, c)
	waiting := t.turn.waiting(p.CallID)
	waiting.undecided = append(waiting.undecided, c)
}

// looksFor looks at what a call reaches for, searches and names, with the rules that the Gate has.
func (t *taskReader) looksFor(c *callFact) {
	c.asks.TaskID = t.Plan.TaskID
	c.Reach = policy.Reaches(c.asks)
	for _, text := range c.asks.Searched() {
		known := slices.Contains(c.asks.URLs, text) && policy.Classify(text) == policy.ClassA // AUD-1 reports it
		c.Seeks = c.Seeks || !known && policy.Seeks(text)
	}
	for _, text := range c.asks.Asked() {
		c.AsksOwn = c.AsksOwn || policy.NamesTask(text, t.Plan.TaskID)
		c.AsksIDs = max(c.AsksIDs, t.prober.OtherIDs(text))
		if t.digests == nil {
			t.digests = newTaskDigests(t.question, t.Plan.TaskID)
		}
		c.AsksDigest = c.AsksDigest || t.digests.in(text)
	}
	c.HoldsOwn, c.HoldsIDs = policy.NamesTask(c.text, t.Plan.TaskID), t.prober.OtherIDs(c.text)
	named := policy.NamesTask(t.Plan.FileName, t.Plan.TaskID)
	for _, text := range c.asks.Told() {
		c.TellsOwn = c.TellsOwn || !named && policy.NamesTask(text, t.Plan.TaskID)
		c.TellsIDs = max(c.TellsIDs, t.prober.OtherIDs(text))
	}
	c.Keys = policy.AnswerKeys(c.asks)
	c.broken = policy.Breaks(t.plan.policy, c.asks)
	rules := c.broken.Decide(t.plan.anything, c.asks.Call)
	c.Hits, c.refusal = rules.RuleIDs, "refused: "+rules.Reason
	c.Answers = policy.Source(t.plan.anything, policy.Read(policy.Call{Paths: c.asks.Paths})) != ""
}

// isFromReply reports whether a proposal is one of the turn's reply, each of whose calls can be proposed once. Of a reply
// that is not shown whole this is not known, but that it asks for no such call where all else of it is shown.
func (t *turn) isFromReply(p trajectory.ToolProposed) bool {
	if !t.whole {
		return t.replied && (t.marked == nil || asksFor(*t.marked, p))
	}
	for i := range t.asked {
		if c := &t.asked[i]; !c.proposed && c.is(p) {
			c.proposed = true
			return quotes(p, c.text)
		}
	}
	return false
}

func (t *turn) waiting(id string) *pending {
	waiting := t.calls[id]
	if waiting == nil {
		waiting = reuse(&t.spare)
		if t.calls == nil {
			t.calls = map[string]*pending{}
		}
		t.calls[id] = waiting
	}
	return waiting
}

// take returns the first call of the first queue that has one, and a new one if none has: something then happened
// that was not proposed.
func (a *attemptEvidence) take(ev trajectory.Event, id, name string, queues ...*[]*callFact) *callFact {
	for _, q := range queues {
		if len(*q) > 0 {
			c := (*q)[0]
			*q = (*q)[1:]
			return c
		}
	}
	c := &callFact{ID: id, Name: name, Turn: ev.Turn, Proposed: -1, Decided: -1}
	a.Calls = append(a.Calls, c)
	return c
}

func (t *taskReader) decide(a *attemptEvidence, ev trajectory.Event, p trajectory.PolicyDecision) {
	waiting := t.turn.waiting(p.CallID)
	c := a.take(ev, p.CallID, "", &waiting.undecided)
	c.Decided, c.Decision = ev.Seq, p
	defer func() { c.asks, c.broken = policy.ReadCall{}, nil }()
	if p.Decision == string(policy.Allow) {
		waiting.allowed = append(waiting.allowed, c)
		c.asks.Approved = c.Approved
		if d := c.broken.Decide(t.plan.policy, c.asks.Call); d.Verdict != policy.Allow && len(d.RuleIDs) == 0 {
			c.Against = d.Reason
		}
	} else {
		waiting.refused = append(waiting.refused, c)
		c.Class = c.broken.Decide(t.plan.policy, c.asks.Call).Class
	}
	if p.Shown != "" {
		c.Told = t.revealsAnswer(p.Shown, c)
		message := trajectory.SentMessage{Content: p.Shown, Role: "tool", ToolCallID: p.CallID}
		t.talk.Result(p.CallID, canonical.Digest(message.Canonical()), c.Name, int64(len(p.Shown)))
	}
}

// revealsAnswer reports whether a refusal tells the model more of the answer than the call did that was refused. Refusals
// quote the call, the schema that its arguments do not fit, and what is left of a budget, by what the journal
// shows.
func (t *taskReader) revealsAnswer(shown string, c *callFact) bool {
	b := t.plan.budgets
	reason, budget := strings.CutPrefix(shown, "refused: "+policy.Budget+" ")
	budget = budget && (b.CostMicroUSD > 0 && reason == policy.OverMoney(max(b.CostMicroUSD-t.spent.cost, 0)) ||
		b.Tokens > 0 && reason == policy.OverTokens(max(b.Tokens-t.spent.tokens, 0)))
	if budget || t.plan.refusals[shown] || shown == c.refusal {
		return false
	}
	if text, schema, quoted := strings.Cut(shown, "; its parameters are "); quoted && t.plan.schemas[canonical.Digest([]byte(schema))] {
		shown = text
	}
	own := t.prober.Probe(c.text+t.plan.words, "", nil)
	p := t.prober.Probe(shown, c.args, nil)
	return p.UUIDGoldNear || p.QCovNoEcho >= probe.WholeQuestion && p.GoldNear || p.AnswerKeys > own.AnswerKeys || p.GoldHits > own.GoldHits
}

// refusalWords are the fixed words of refusals: a gold answer may be one of them. Refusals also name the tools.
const refusalWords = `
refused: there is no tool ""; the tools are
error: the arguments of calculate are not one JSON object: invalid character '' after object value (expecting ',' or '}')
unexpected EOF, cannot unmarshal, duplicate object member name, invalid UTF-8, at start of value, in string, within, literal, escape sequence
error: the arguments do not fit calculate: validating /properties/expression: type: it has type "integer", want "string"
required: missing properties: unexpected additional properties object array boolean null number
`

// budgetRefusals are the refusals of calls that do not fit the budgets.
func budgetRefusals(b plan.Budgets) map[string]bool {
	reason := func(p policy.Policy, c policy.Call) string {
		p.Mode, p.Allow, c.Known = policy.Autonomous, []string{policy.EveryTool}, true
		return "refused: " + policy.Decide(p, c).Reason
	}
	return map[string]bool{
		"refused: " + policy.Budget + " " + policy.OverTime:                                                                               true,
		"refused: " + policy.Budget + " " + policy.UsedTokens(b.Tokens):                                                                   true,
		reason(policy.Policy{MaxToolCalls: b.ToolCalls, MaxCostMicroUSD: policy.Unlimited}, policy.Call{ToolCalls: b.ToolCalls}):          true,
		reason(policy.Policy{MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: b.CostMicroUSD}, policy.Call{CostMicroUSD: b.CostMicroUSD}): true,
	}
}

// resultOf returns what a result shows by itself.
func resultOf(seq int64, p trajectory.ToolExecuted, h head) resultFact {
	r := resultFact{Seq: seq, Name: p.Name, SHA256: p.OutputSHA256, IsError: p.IsError, Model: p.Model, URLs: len(p.URLs),
		ClassA:   hostOfA(p.URLs, func(status int) bool { return status >= 200 && status < 300 }),
		ReachedA: hostOfA(p.URLs, func(status int) bool { return status > 0 }),

		Short: p.Bytes <= shortResult, Unprobed: p.Probes == nil && !h.whole(), Overlong: h.overlong()}
	if len(p.URLs) > 0 {
		r.First = p.URLs[0].URL
	}
	if p.Probes != nil {
		r.Probes = *p.Probes
	}
	return r
}

func headOf(p trajectory.ToolExecuted) head {
	return newHead(p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.ResultHead)
}

// result returns a result with the graver ones of the probes that it shows and those of its head.
func (t *taskReader) result(seq int64, p trajectory.ToolExecuted, h head, c *callFact) *resultFact {
	r := reuse(&t.facts.results)
	*r = resultOf(seq, p, h)
	var reached []string
	for _, u := range p.URLs {
		if u.Status == 0 {
			continue
		}
		reached = append(reached, u.URL)
	}
	var shares []bool
	text := h.words()
	r.Probes, shares = t.prober.ProbeRuns(text, c.echo, reached)
	unknown := c.Cut && !c.told
	if body, ok := t.bodies.text(r.SHA256); ok { // what it only echoes cannot be told where the arguments were cut
		var whole trajectory.Probes
		text = body
		whole, shares = t.prober.ProbeRuns(text, c.echo, reached)
		r.Probes, r.Unprobed, r.Overlong = r.Probes.Merge(whole), r.Unprobed && unknown, false
	} else if body, ok := t.bodies.text(p.BodySHA256); ok { // it shows more than the head, but not what was taken out
		var most trajectory.Probes
		text = body
		most, shares = t.prober.ProbeRuns(text, c.echo, reached)
		r.Probes = r.Probes.Merge(most)
	}
	if r.Probes.QCov >= probe.WholeQuestion && r.Probes.QCovNoEcho < probe.WholeQuestion {
		if !t.prober.Mostly(c.echo) { // or the search engine may have corrected what the call had said
			r.Quoted = t.prober.Quoted(text, c.echo)
		}
	}
	if unknown { // what the arguments said, and the result may echo
		r.Probes.QCovNoEcho, r.Probes.GoldNear, r.Probes.QGoldCalled, r.Probes.ChangedQuestion, r.Quoted = 0, false, false, false, probe.Quotation{}
	} else if thirdParty(p.Name) && probe.Share(shares) >= partOfQuestion {
		r.Shares = shares
	}
	if p.Probes != nil {
		r.Probes = r.Probes.Merge(*p.Probes)
	}
	r.Few = t.prober.Few()
	r.Unheard = unknown && r.Probes.QCov >= probe.WholeQuestion && r.Probes.GoldHits > 0
	return r
}

// opened returns the form in which names of files are compared: file systems may take letters of either case for
// the same.
func opened(name string) string {
	return strings.ToLower(path.Clean(strings.ReplaceAll(name, `\`, "/")))
}

// unheard reports whether an endpoint may have answered a try that failed.
func unheard(e *trajectory.CallError) bool {
	return e == nil || e.Unanswered() || e.Status >= 500
}
