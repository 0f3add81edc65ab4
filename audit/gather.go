package audit

import (
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// gatherer follows a journal and keeps the facts that checks need: places,
// digests, counts and answers, no heads. It takes time linear in the journal.
type gatherer struct {
	e       *Evidence
	tasks   map[string]*following
	ids     *IDs // of the split
	answers *Answers
	swept   bool // the judge cache was checked since the process began
	odd     *oddTexts

	bodies   bodies
	approved *beforehand
}

// beforehand are the tools that the process under way approves without asking.
type beforehand struct{ tools []string }

// following is a task whose lines are being read.
type following struct {
	*TaskEvidence
	prober   *Prober
	question string
	plan     planned
	ownTexts []string             // what a message may hold besides an answer: the question and the templates
	talk     *prompt.Conversation // of the open attempt
	unlisted bool                 // a request of it does not list its messages
	turn     turn                 // the open one
	odds     *oddTexts            // of the run
	begunUs  int64                // when the open attempt began
	bodies   bodies
	images   bool     // the plan has the model see pictures
	spent    spending // of the open attempt and those that failed before it, as far as it is known
}

// planned is what the plan says of messages.
type planned struct {
	unknown    map[string]bool // sources whose template it has in another form
	schemas    map[string]bool // digests of the schemas that a refusal may quote
	refusals   map[string]bool // what is told when a budget is used up, which holds its number
	budgets    ledger.Budgets
	tools      map[string]bool // by name
	calculates bool            // calculate is this version's
	model      string          // that is asked
	words      string          // that any refusal may hold
	policy     policy.Policy   // without its budgets
	anything   policy.Policy   // which has its rules, and allows what they do not forbid
	hashes     bool            // it records no heads
	approved   *beforehand
}

// mayApprove reports whether an approval of a tool's call can be of whom it names.
func (p planned) mayApprove(by, tool string) bool {
	switch by {
	case trajectory.ByPerson, trajectory.ByAlways:
		return true
	case trajectory.Beforehand:
		return slices.Contains(p.approved.tools, tool) || slices.Contains(p.approved.tools, policy.EveryTool)
	}
	return false
}

// turn is what a turn has seen.
type turn struct {
	prompted bool
	replied  bool
	bytes    int64                   // of the messages of its last request, without pictures
	failed   int                     // tries since the last reply
	timedOut int                     // likewise, those as slow as a time limit
	asked    map[asked]int           // calls of a whole reply, how often each; nil: the reply is not whole
	texts    map[asked]string        // their arguments, as the reply has them
	marked   *trajectory.SentMessage // a reply of which only secrets are not shown; nil: it is not
	calls    map[string]*pending
}

func newTurn() turn { return turn{calls: map[string]*pending{}} }

// asked is a call as a reply of the model has it.
type asked struct{ id, name, argsSHA256 string }

// pending are the calls of one id that wait for a decision or a result: models
// use an id twice.
type pending struct{ undecided, allowed, refused []*CallFact }

func newGatherer(m ledger.Manifest, gold map[string]string) *gatherer {
	g := &gatherer{e: &Evidence{Manifest: m, Gold: gold}, tasks: make(map[string]*following, len(m.Tasks)), ids: NewIDs(m.SplitIDs), odd: &oddTexts{said: map[string]bool{}}, approved: &beforehand{m.Approved}}
	targets := make([]Target, len(m.Tasks))
	for i, t := range m.Tasks {
		targets[i] = Target{TaskID: t.TaskID, Gold: gold[t.TaskID]}
	}
	g.answers = NewAnswers(targets)
	plan := planned{unknown: unknownSources(m), schemas: map[string]bool{}, refusals: budgetRefusals(m.Budgets), budgets: m.Budgets, hashes: m.Evidence == ledger.EvidenceHashes,
		model: m.Model.Name, tools: map[string]bool{}, words: refusalWords, policy: m.Policy, approved: g.approved}
	plan.policy.MaxToolCalls, plan.policy.MaxCostMicroUSD = policy.Unlimited, policy.Unlimited
	plan.anything = plan.policy
	plan.anything.Mode, plan.anything.Allow, plan.anything.Deny, plan.anything.Confirm = policy.Autonomous, []string{policy.EveryTool}, nil, nil
	for _, t := range m.Tools {
		plan.schemas[t.SchemaSHA256], plan.tools[t.Name] = t.Server != "" || ours(t), true
		plan.words += t.Name + "\n"
		plan.calculates = plan.calculates || t.Name == "calculate" && ours(t)
	}
	for _, p := range m.Tasks {
		t := &following{TaskEvidence: &TaskEvidence{Plan: p}, plan: plan, odds: g.odd}
		g.e.Tasks = append(g.e.Tasks, t.TaskEvidence)
		g.tasks[p.TaskID] = t
	}
	return g
}

// evidence completes what was gathered with what derives from it.
func (g *gatherer) evidence(run *ledger.Run) *Evidence {
	e := g.e
	e.Odd, e.OddUnread = g.odd.all, g.odd.unread
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
	g.spend(ev)
	g.e.Clocks.see(ev)
	switch p := ev.Payload.(type) {
	case trajectory.JudgeBattery:
		g.e.Batteries = append(g.e.Batteries, BatteryFact{ev.Seq, p})
	case trajectory.Preflight:
		g.e.Preflight = append(g.e.Preflight, PreflightFact{ev.Seq, p})
	case trajectory.SecurityEvent:
		g.e.Cache = append(g.e.Cache, CacheFact{ev.Seq, p})
		g.swept = g.swept || p.Kind == trajectory.JudgeCacheSweep
	case trajectory.RunResumed:
		g.e.Resumed = append(g.e.Resumed, ResumeFact{ev.Seq, p})
		g.approved.tools = p.Approved
		g.swept = false
	case trajectory.TaskStarted:
		g.begin(g.tasks[ev.TaskID], ev, p)
	default:
		if _, graded := ev.Payload.(trajectory.Judgment); graded && !g.swept {
			g.e.Unswept = true
		}
		if ev.Attempt > 0 {
			t := g.tasks[ev.TaskID]
			t.addTo(t.Attempts[ev.Attempt-1], ev)
		}
	}
	return nil
}

func (g *gatherer) begin(t *following, ev trajectory.Event, p trajectory.TaskStarted) {
	if t.prober == nil {
		t.prober = NewProber(Target{TaskID: t.Plan.TaskID, Question: p.Question, Gold: g.e.Gold[t.Plan.TaskID], SplitIDs: g.ids, Answers: g.answers})
		t.bodies = g.bodies
		t.question = p.Question
		t.ownTexts = []string{prompt.Question(p.Question, p.FileName), prompt.System(), prompt.Reminder()}
		for _, reason := range prompt.LastTurnReasons() {
			t.ownTexts = append(t.ownTexts, prompt.LastTurn(reason))
		}
		if p.Question != "" {
			t.ownTexts = append(t.ownTexts, p.Question)
		}
	}
	t.images = g.e.Manifest.Model.Images
	t.talk, t.unlisted, t.turn, t.begunUs = prompt.NewConversation(p.Question, p.FileName, t.plan.unknown), false, newTurn(), ev.MonoUs
	t.Attempts = append(t.Attempts, &AttemptEvidence{Number: ev.Attempt, Begun: ev.Seq, Committed: -1, Judged: -1, EndedAt: -1,
		Question: p.Question, FileName: p.FileName, Workspace: t.files(p.Workspace)})
}

// unknownSources returns the sources whose messages cannot be rendered: their
// template in the plan is not the one this version knows, and what a plan
// brings along is not executed.
func unknownSources(m ledger.Manifest) map[string]bool {
	out := map[string]bool{}
	for _, t := range prompt.Templates() {
		if !slices.ContainsFunc(m.Prompts, func(p ledger.Prompt) bool { return p.ID == t.ID && p.Text == t.Text }) {
			out[t.ID] = true
			if t.ID == prompt.QuestionID {
				out[prompt.QuestionSource] = true
			}
		}
	}
	return out
}

// rest lets go of what is needed while an attempt is open: the next one makes it
// anew, and in a run of many tasks most have none.
func (t *following) rest() {
	t.prober, t.ownTexts = nil, nil
	t.talk, t.turn = nil, turn{}
}

func (t *following) addTo(a *AttemptEvidence, ev trajectory.Event) {
	t.shows(a, ev)
	switch p := ev.Payload.(type) {
	case trajectory.TurnStarted:
		a.Turns, t.turn = append(a.Turns, TurnFact{Seq: ev.Seq, Us: ev.MonoUs - t.begunUs}), newTurn()
	case trajectory.ModelCallStarted:
		t.astray(a, ev.Seq, p.RequestedModel)
		t.begunUs += min(max(p.WaitedMs, 0), (ev.MonoUs-t.begunUs)/1000) * 1000 // that is not the attempt's time
	case trajectory.ContextCondensed:
		t.talk.Condense(p)
	case trajectory.ContextCompiled:
		t.prompt(a, ev.Seq, p)
	case trajectory.ModelCallCompleted:
		t.astray(a, ev.Seq, p.RequestedModel)
		for _, channel := range p.UnrecordedChannels {
			if !slices.Contains(a.Channels, channel) {
				a.Channels = append(a.Channels, channel)
			}
		}
		if p.OutputSHA256 != "" {
			t.spent.use(p.Tokens, p.CostMicroUSD)
			a.Models = append(a.Models, t.reply(ev.Seq, p))
			a.Unpriced = a.Unpriced || p.CostMicroUSD == nil
			a.open().Asked = true
		} else if unheard(p.Error) {
			a.Unheard++
		}
		t.turn.tried(p)
	case trajectory.ToolProposed:
		t.propose(a, ev, p)
	case trajectory.ApprovalRequested:
		if waiting := t.turn.waiting(p.CallID).undecided; len(waiting) > 0 {
			waiting[0].asked = p.Name == waiting[0].Name && p.ArgsSHA256 == waiting[0].argsSHA256
		}
	case trajectory.ApprovalResolved:
		if waiting := t.turn.waiting(p.CallID).undecided; len(waiting) > 0 {
			waiting[0].Approved = p.Approved && waiting[0].asked && t.plan.mayApprove(p.By, waiting[0].Name)
		}
	case trajectory.CheckpointSaved:
		if a.Kept == nil {
			a.Kept = &p
		}
	case trajectory.PolicyDecision:
		t.decide(a, ev, p)
	case trajectory.ToolExecuted:
		t.execute(a, ev, p)
	case trajectory.PolicyViolation:
		a.Denied = append(a.Denied, DenialFact{ev.Turn, p.CallID, policy.Denial(p.Class)})
		if p.Class == string(policy.DeniedByRule) {
			a.Broken = append(a.Broken, BrokenFact{ev.Seq, ev.Turn, p.CallID})
		}
	case trajectory.Rollback:
		a.Rollbacks = append(a.Rollbacks, RollbackFact{ev.Seq, ev.Turn, p.TreeAfter == p.TreeBefore})
	case trajectory.AnswerCommitted:
		a.Committed, a.Answer = ev.Seq, &p
	case trajectory.AttemptEnded:
		a.EndedAt, a.Ended = ev.Seq, &p
		if p.Outcome != trajectory.Errored {
			t.spent = spending{}
		}
		t.rest()
	case trajectory.Judgment:
		a.Judged, a.Judgment = ev.Seq, &p
	}
}

// astray keeps an attempt's first request to another model than the planned one.
func (t *following) astray(a *AttemptEvidence, seq int64, model string) {
	if a.Astray == nil && model != t.plan.model {
		a.Astray = &ModelFact{Seq: seq, Requested: model}
	}
}

// reply takes in what the model said, from now on a part of the conversation.
func (t *following) reply(seq int64, p trajectory.ModelCallCompleted) ModelFact {
	if p.Error == nil { // one that was found empty is asked for again
		t.talk.Reply(p.OutputSHA256)
	}
	t.turn.replied, t.turn.asked, t.turn.marked = true, nil, nil
	f := ModelFact{Cached: p.Tokens.Cached, Asked: t.turn.bytes, Bytes: p.Bytes, Failed: t.turn.failed, TimedOut: t.turn.timedOut, Empty: p.Error != nil, Seq: seq, Requested: p.RequestedModel, Responded: p.ResponseModel, RequestID: p.RequestID, In: p.Tokens.In, Out: p.Tokens.Out, CostMicroUSD: p.CostMicroUSD, UsageReported: p.UsageReported, Prompted: t.turn.prompted}
	h := head{p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.OutputHead}
	m, shown := h.message()
	if !shown {
		return f
	}
	f.Answer, f.Answers = prompt.FinalAnswer(m.Content)
	if f.Whole, f.Marked = h.whole(), !h.whole(); f.Marked {
		t.turn.marked = &m
		return f
	}
	f.Calls = len(m.ToolCalls)
	t.turn.asked, t.turn.texts = map[asked]int{}, map[asked]string{}
	for _, c := range m.ToolCalls {
		key := asked{c.ID, c.Name, sign.Digest([]byte(c.Arguments))}
		t.turn.asked[key]++
		t.turn.texts[key] = c.Arguments
	}
	return f
}

// unheard reports whether an endpoint may have answered a try that failed.
func unheard(e *trajectory.CallError) bool {
	return e == nil || e.Unanswered() || e.Status >= 500
}
