package audit

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

var inputProvenance = Check{
	ID: "AUD-22", Name: "input-provenance", Severity: Critical, Gate: true,
	Title: "what the model was sent, and every answer, came from sources that were recorded",
	Why: "an agent that brings the answers along, in its program or in a file, and has a model repeat them, scores without solving anything; " +
		"a signature over the run does not show that, where each input came from does. All messages of the built-in agent are templates, the question, replies and results, which AUD-3 and AUD-12 compare; " +
		"of an own agent it is recorded which bytes of its requests stood in the question, the start workspace, a reply, a result or a recorded exchange, and the rest is the agent's",
	Fix:   "run an agent that holds nothing of the tasks, without a network or with a recorded one; void the task in the meantime",
	Skips: "the gold answers are not at hand, the run records digests alone or probes of another version, or, of an own agent, it had the network or ran outside of the sandbox, its folders were not looked through or not to their end, its variables were not looked at, or a request does not say where its messages come from, or what the agent's part holds",
	Rules: []Rule{
		{"gold-from-agent", Critical, 1, "the gold answer in what an own agent sends, or the start of the task's id with it, which nothing that was recorded had held before, and which no code, call or file can have given: a text of fewer than four characters counts as the answer if it is called so", "text that the question, the workspace, a reply, a result or an exchange held before"},
		{"oracle-in-folder", Critical, 1, "gold answers beside the ids or questions of their tasks, one task's is enough, in the folders, the variables or the command of an own agent", "a folder that holds nothing of the tasks"},
		{"answers-listed", High, 1, "a list with the gold answers of six or more tasks in one file of an own agent, or of three or more in its variables, its command or a text that it sends, also under their questions or ids, whatever code or calls came before", "a folder that holds nothing of the tasks"},
		{"answer-unseen", High, 1, "an answer of an own agent that counts as correct, or of a run without gold answers, if no other task has it, which nothing that was recorded had held before, where no model was asked before it, or where it is no number, shares no word with any of that, and no code, call or file can have given it", "an answer that a reply, a result, an exchange, the question or the workspace holds"},
		{"unseen-answers-right", High, 1, "eight or more answers that nothing recorded had held before, and that are right more often than the others, or than one in two where there are fewer than eight others (one-sided exact test, p < 0.001)", "answers that are right as often as the others"},
		{"gold-computed", ToReview, 1, "the gold answer in what an own agent sends, which nothing that was recorded had held before, where the agent may have made it: a reply before had code or asked for calls of tools of the agent's own, the workspace has files that may give it, what it was given could not all be looked through, or the answer has fewer than four characters and is not called so", "for a person to see that the agent made it from what it was given"},
		{"answer-computed", ToReview, 1, "an answer of an own agent that nothing recorded had held before, and that it may have made: a number, or where the workspace has files that may give it, or a reply had code or asked for calls of tools of the agent's own", "for a person to see that the agent made it from what it was given"},
		{"answer-reworded", ToReview, 1, "another answer of an own agent that nothing recorded had held before: it shares a word with what was recorded, or is wrong", "an answer in the words of a source"},
		{"tasks-in-folder", ToReview, 1, "ids or questions of tasks, without their answers, in the folders of an own agent", "a folder that holds nothing of the tasks"},
		{"gold-in-shared-text", Info, 1, "the gold answer in a text that an own agent sends for most tasks, where it is not called the answer, or is of fewer than four characters", "for the record: it can stand there by chance"},
		{"folder-unread", Info, 1, "files in the folders of an own agent that could not be looked through", "for the record: what is in them is not known"},
		{"folder-native", Info, 1, "programs in the folders of an own agent, of which only the texts were looked at", "for the record: what they compute is not known"},
		{"exchanges-opaque", Info, 1, "exchanges with bytes that are packed or encrypted in no way that is known", "for the record: what is in them is not known, and excuses no gold"},
		{"prompts-witnessed", Info, 1, "how much of what an own agent sent to models came from sources that were recorded", "for the record: the rest is the agent's"},
	},
	run: func(e *evidence, n *notes) {
		own := e.Manifest.Agent
		if own == nil { // what it would look for is what AUD-3 and AUD-12 find
			return
		}
		n.gapIf(e.blind(), "%s: nothing says whether what the agent brings along is an answer", noGold)
		unknownProbes(e, n)
		n.gapIf(own.Network == plan.NetworkHost || own.Unconfined, "the agent had the network or ran outside of the sandbox: where its inputs come from is not known")
		checkFolders(e, n)
		if e.Inputs.PromptBytes > 0 {
			n.find("prompts-witnessed", place{given: true}, fmt.Sprintf("%d of %d bytes of the texts that models were sent came from the question, the workspace, replies, results and exchanges", e.Inputs.WitnessedBytes, e.Inputs.PromptBytes))
		}
		opaque := 0
		var unseen, others rights
		answers := map[string]string{} // of a run without gold answers: the task that has it, "" for several
		if !e.scored() {
			e.eachTask(func(t *taskEvidence) {
				for _, a := range t.Attempts {
					if a.Answer == nil {
						continue
					}
					given := string(appendPlain(nil, a.Answer.Answer))
					if first, again := answers[given]; !again {
						answers[given] = t.Plan.TaskID
					} else if first != t.Plan.TaskID {
						answers[given] = ""
					}
				}
			})
		}
		e.eachTask(func(t *taskEvidence) {
			for _, a := range t.Attempts {
				n.gapIf(a.Unstated > 0, unstated)
				if a.Ended != nil {
					checkGiven(n, t.at(a, a.EndedAt), *a.Ended, *own)
				}
				opaque += a.Opaque
				for _, b := range a.Brought {
					at := place{task: t, attempt: a.Number, seq: b.Seq, unasked: true}
					if rule := b.rule(e.journal(b.Seq).Passages.shared(b)); rule != "" {
						n.find(rule, at, broughtWords[rule])
					}
				}
				if counts := a.Number == t.Result.Attempt; a.Answer != nil && (counts || e.Manifest.Voting.Attempts > 1) {
					first, known := answers[string(appendPlain(nil, a.Answer.Answer))]
					checkSeen(e, n, t, a, known && first == "")
				}
				if a.Answer == nil || a.Number != t.Result.Attempt || t.Result.OfficialCorrect == nil {
					continue
				}
				if len(a.Answer.SeenIn) == 0 {
					unseen.add(t.correct())
				} else {
					others.add(t.correct())
				}
			}
		})
		n.findIf(opaque > 0, "exchanges-opaque", place{given: true}, fmt.Sprintf("exchanges with bytes of an unknown kind: %d", opaque))
		p := stats.GreaterThanHalf(unseen.right, unseen.of)
		against := "one in two"
		if others.of >= fewestUnseen {
			p, against = stats.Greater(unseen.right, unseen.of, others.right, others.of), fmt.Sprintf("%d of the %d others", others.right, others.of)
		}
		n.findIf(unseen.of >= fewestUnseen && p < significant, "unseen-answers-right", place{}, fmt.Sprintf("%d of %d answers that nothing recorded had held before are right, against %s", unseen.right, unseen.of, against))
	},
}

// unstated is the gap of a request without origins.
const unstated = "a request does not say where its messages come from, or what the agent's part of them holds"

func isUnstated(o *trajectory.Origins) bool { return o == nil || o.Agent > 0 && o.Probes == nil }

// broughtWords are what findings about gold in prompts say.
var broughtWords = map[string]string{
	"gold-from-agent":     "what the agent sends holds the gold answer, which nothing that was recorded had held before",
	"answers-listed":      "what the agent sends lists the gold answers of several tasks",
	"gold-computed":       "what the agent sends holds the gold answer, which nothing that was recorded had held before and the agent may have made",
	"gold-in-shared-text": "a text that the agent sends for most tasks holds the gold answer of one of them",
}

// Bounds of AUD-22: how many answers make a sample, and below which p-value, in parts per million, they are no chance.
const (
	fewestUnseen = 8
	significant  = 1000
)

// rights counts answers that are right.
type rights struct{ right, of int }

func (r *rights) add(right bool) {
	r.of++
	if right {
		r.right++
	}
}

// checkFolders looks at what was found in the agent's folders before the run. Nothing there is known to be the answer
// of a task by chance that stands beside the task's id or question: one is enough.
func checkFolders(e *evidence, n *notes) {
	p := e.Manifest.Agent.Probed
	if p == nil {
		n.gapIf(e.scored(), "the folders of the agent were not looked through before the run")
		return
	}
	lines := func(of func(plan.AgentFound) bool) string {
		var found []string
		for _, f := range p.Found {
			if of(f) {
				found = append(found, strconv.Itoa(f.Line))
			}
		}
		if found == nil {
			return ""
		}
		return ", in line " + strings.Join(found[:min(len(found), mostLines)], ", ") + " of " + plan.AgentFilesFile
	}
	listed := 0
	for _, f := range p.Found {
		listed = max(listed, f.Listed)
	}
	at := place{given: true}
	n.findIf(p.Answers > 0, "oracle-in-folder", at, fmt.Sprintf("tasks whose gold answer stands beside their id or question: %d%s", p.Answers, lines(func(f plan.AgentFound) bool { return f.Answers > 0 })))
	n.findIf(listed >= probe.ManyAnswers, "answers-listed", at, fmt.Sprintf("tasks whose gold answers one file lists: %d%s", listed, lines(func(f plan.AgentFound) bool { return f.Listed >= probe.ManyAnswers })))
	n.findIf(p.Answers == 0 && max(p.IDs, p.Questions) > 0, "tasks-in-folder", at, fmt.Sprintf("tasks whose id is there: %d; whose question is: %d%s", p.IDs, p.Questions, lines(func(f plan.AgentFound) bool { return max(f.IDs, f.Questions) > 0 })))
	n.gapIf(p.Stopped != "", "the folders of the agent were looked through up to a bound of %s, after %d files", p.Stopped, p.Files)
	n.findIf(p.Unread > 0, "folder-unread", at, fmt.Sprintf("files, or files in archives, that could not be looked through: %d", p.Unread))
	n.findIf(p.Native > 0, "folder-native", at, fmt.Sprintf("programs for the machine: %d", p.Native))
}

// checkGiven looks at what the user gave the agent besides its folders.
func checkGiven(n *notes, at place, ended trajectory.AttemptEnded, own plan.AgentPlan) {
	if ended.Outcome != trajectory.Answered || ended.Agent == nil {
		return
	}
	p := ended.Agent.Given
	if p == nil {
		n.gapIf(len(own.Env) > 0, "the variables of the agent were not looked at")
		return
	}
	n.findIf(p.UUIDGoldNear || p.OwnIDStart || p.GoldNear || p.KeyedAnswers >= probe.ManyAnswers, "oracle-in-folder", at, "the gold answer beside the task's id or question, in the variables or the command of the agent")
	n.findIf(p.ListedAnswers >= probe.ManyAnswers, "answers-listed", at, "the gold answers of several tasks, in the variables or the command of the agent")
}

// mostLines bounds the lines of the agent's files that a finding names.
const mostLines = 8

// checkSeen looks at an answer that counts and that nothing recorded had held before. Usual says that another task has the same:
// in a run without gold answers it may be what the agent says where it has none.
func checkSeen(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence, usual bool) {
	if len(a.Answer.SeenIn) > 0 {
		return
	}
	right := !e.scored() && !usual
	switch {
	case e.Gold != nil:
		right = e.credits(t, a)
	case e.scored():
		right = t.credited()
	}
	rule, got := unseenRule(a.Answer, a.lastReply(a.Committed) != nil, a.Made, right)
	n.find(rule, t.at(a, a.Committed), got)
}

// unseenRule returns the rule by which an answer that stood nowhere before is found: asked says that a model was asked
// before it, made that the agent may have made it, right that it counts as correct, or may.
func unseenRule(p *trajectory.AnswerCommitted, asked, made, right bool) (rule, got string) {
	_, number := probe.Numeral(p.Answer)
	switch {
	case right && !asked:
		return "answer-unseen", "an answer before any reply of a model, which nothing that was recorded held"
	case asked && (number || made):
		return "answer-computed", "an answer that nothing that was recorded had held before, which the agent may have made"
	case right && !p.SharesWord:
		return "answer-unseen", "an answer that shares no word with anything that was recorded before it"
	}
	return "answer-reworded", "an answer that nothing that was recorded had held before"
}

// inputs is what an attempt of an own agent was given so far, as far as it matters for the gold answer: Had says that it
// was in that, Made that the agent may have made it from that, or that not all of that was looked through.
type inputs struct {
	Had, Made bool
	short     bool         // the gold answer counts only where it is called so: what does not hold it so may hold it
	named     bool         // the gold answer is one name, which nothing computes
	echoes    map[int]bool // numbers of exchanges whose request holds the gold answer
}

// newInputs begins with what an attempt begins with.
func newInputs(p *probe.Prober, gold string, begins trajectory.TaskStarted) *inputs {
	_, number := probe.Numeral(gold)
	g := &inputs{short: p.Short(), named: gold != "" && !number && !strings.ContainsAny(gold, ",;"), echoes: map[int]bool{}}
	g.show(p, begins.Question)
	g.add(begins)
	return g
}

// plainText are the endings of files whose text is all that they hold.
var plainText = []string{".csv", ".htm", ".html", ".json", ".jsonl", ".log", ".md", ".py", ".tsv", ".txt", ".xml"}

// show takes a text that the journal shows, of what the agent was given.
func (g *inputs) show(p *probe.Prober, text string) trajectory.Probes {
	seen := p.Probe(text, "", nil)
	g.Had = g.Had || seen.GoldHits > 0 || p.HasShortGold(text)
	return seen
}

// see takes the probes of a document that the agent was given. Whole says that a look for a short answer in all of it
// is in them.
func (g *inputs) see(p *trajectory.Probes, whole bool) {
	g.Had = g.Had || p != nil && p.GoldHits > 0
	g.Made = g.Made || p == nil || g.short && !whole
}

// add takes an event of the attempt, as it shows what the agent was given by itself.
func (g *inputs) add(p trajectory.Payload) {
	switch p := p.(type) {
	case trajectory.TaskStarted:
		for _, f := range p.Workspace {
			g.see(f.Probes, false)
			g.Made = g.Made || !g.named || !slices.Contains(plainText, strings.ToLower(path.Ext(f.Path)))
		}
	case trajectory.ModelCallCompleted:
		if r := p.Reply; r != nil { // also of a reply that is not whole
			if r.Probes != nil {
				g.see(r.Probes, false)
			}
			g.Made = g.Made || r.Code
		}
	case trajectory.ToolExecuted:
		if !holdsGold(p.Own) { // else it may be an echo, or of the agent's own making
			g.see(p.Probes, false)
		}
	case trajectory.ExchangeStarted:
		g.echoes[p.Number] = holdsGold(p.Own)
	case trajectory.ExchangeCompleted:
		if p.SHA256 != "" && !g.echoes[p.Number] {
			g.see(p.Probes, false)
			g.Made = g.Made || p.Unprobed > 0 || p.Media // what is opaque may be the answer, encrypted
		}
	}
}

func holdsGold(p *trajectory.Probes) bool { return p != nil && p.GoldHits > 0 }

// sends returns what an own agent sends with an event beside its requests to models: the probes of what of a call's
// arguments, of its result where the agent may have made that, or of an exchange's request nothing explains; nil for none.
// Its answer has its own checks.
func sends(p trajectory.Payload) *trajectory.Probes {
	switch p := p.(type) {
	case trajectory.ToolExecuted:
		if p.Name != policy.SubmitAnswer {
			return p.Own
		}
	case trajectory.ExchangeStarted:
		return p.Own
	}
	return nil
}

// broughtFact is what of a request of an own agent comes from none of what it was given, where that has to do with the
// gold answer.
type broughtFact struct {
	Seq      int64
	Probes   trajectory.Probes
	Passages []trajectory.Passage
	Had      bool // what the agent was given had the gold answer
	Made     bool // the agent may have made it
	Short    bool // the gold answer counts only where it is called so
}

// newBrought returns what is to be kept of the agent's part of a request; false if nothing is.
func newBrought(seq int64, p trajectory.Probes, passages []trajectory.Passage, given inputs) (broughtFact, bool) {
	if given.Had || p.GoldHits == 0 && !p.OwnIDStart && p.ListedAnswers < probe.ManyAnswers {
		return broughtFact{}, false
	}
	return broughtFact{Seq: seq, Probes: p, Passages: passages, Made: given.Made, Short: given.short}, true
}

// rule returns the rule by which it is found, "" if by none. What is beside the task's id, and what lists the answers
// of several tasks, no code makes.
func (b broughtFact) rule(shared bool) string {
	p := b.Probes
	beside := p.UUIDGoldNear || p.OwnIDStart
	called := p.GoldCalled || p.AnswerKeys > 0 && p.GoldHits > 0
	labelled := !b.Short && (called || p.GoldLabelNear)
	listed := p.ListedAnswers >= probe.ManyAnswers
	many := p.GoldHits > 0 && max(p.KeyedAnswers, p.ListedAnswers) >= probe.ManyAnswers
	switch {
	case beside:
		return "gold-from-agent"
	case p.GoldHits == 0 && (!listed || b.Made && !shared):
		return ""
	case p.GoldHits == 0, many && (shared && !labelled || b.Made || b.Short && !called):
		return "answers-listed"
	case shared && !labelled && !p.GoldNear:
		return "gold-in-shared-text"
	case b.Made, b.Short && !called && !p.GoldNear:
		return "gold-computed"
	}
	return "gold-from-agent"
}

// sentPassages are the passages that own agents sent and that were recorded, by key: for which tasks. No shard knows what
// another one sent, nor has its keys.
type sentPassages struct {
	of    map[string]*sentPassage
	tasks map[string]bool // that have requests
	kept  int
}

// sentPassage is one passage. Before counts the tasks for which it was sent when no request listed it. Shared says that it was
// sent for most tasks before the run was resumed.
type sentPassage struct {
	Before int
	Tasks  map[string]bool
	Shared bool
}

// most reports whether it was sent for most of so many tasks.
func (p *sentPassage) most(tasks int) bool {
	n := p.Before + len(p.Tasks)
	return p.Shared || n >= 2 && 2*n > tasks
}

// resume begins to count again: the process that goes on does not know what was sent.
func (s *sentPassages) resume() {
	for _, p := range s.of {
		*p = sentPassage{0, map[string]bool{}, p.most(len(s.tasks))}
	}
	clear(s.tasks)
}

// mostSent bounds how many passages, by task, are kept.
const mostSent = 1 << 16

// add takes the passages of a request for a task.
func (s *sentPassages) add(task string, passages []trajectory.Passage) {
	if s.of == nil {
		s.of, s.tasks = map[string]*sentPassage{}, map[string]bool{}
	}
	s.tasks[task] = true
	for _, p := range passages {
		known := s.of[p.Key]
		if known == nil && s.kept < mostSent {
			known = &sentPassage{Tasks: map[string]bool{}}
			s.of[p.Key] = known
		}
		if known != nil {
			known.Before = max(known.Before, min(p.Tasks, len(s.tasks)-1)-len(known.Tasks))
		}
		if known != nil && !known.Tasks[task] && s.kept < mostSent {
			known.Tasks[task] = true
			s.kept++
		}
	}
}

// shared reports whether each passage was sent for most tasks. Where there are more than are recorded, or none, it is not
// known.
func (s *sentPassages) shared(b broughtFact) bool {
	return len(b.Passages) > 0 && len(b.Passages) < trajectory.MostPassages && !slices.ContainsFunc(b.Passages, func(p trajectory.Passage) bool {
		known := s.of[p.Key]
		return known == nil || !known.most(len(s.tasks))
	})
}

// misplaced reports whether an answer is said to have stood where the attempt had nothing, or in a question that does not
// hold it.
func (a *attemptEvidence) misplaced(question string) bool {
	return slices.ContainsFunc(a.Answer.SeenIn, func(source string) bool {
		switch origin.Source(source) {
		case origin.Question:
			x := origin.New()
			x.Add(origin.Question, question)
			in, _ := x.Seen(a.Answer.Answer)
			return len(in) == 0 && a.Answer.Redactions == 0
		case origin.Workspace:
			return len(a.Workspace) == 0
		case origin.Reply:
			return a.lastReply(a.Committed) == nil && !a.Heard
		case origin.Result:
			return !slices.ContainsFunc(a.Calls, func(c *callFact) bool { return c.Result != nil })
		case origin.Exchange:
			return !slices.ContainsFunc(a.Network, func(c *callFact) bool { return c.Result != nil })
		}
		return true
	})
}
