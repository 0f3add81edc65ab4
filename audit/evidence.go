package audit

import (
	"iter"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// evidence is what the checks look at: facts gathered from a verified run.
type evidence struct {
	Manifest plan.Plan
	Results  iter.Seq[rundir.Result] // as results.jsonl has them
	Summary  rundir.Summary
	Marked   string // why recording failed; "" if it did not
	Events   int64

	Gold      map[string]string // nil: not at hand
	Tasks     []*taskEvidence   // plan order
	Cache     []fact[trajectory.SecurityEvent]
	Batteries []fact[trajectory.JudgeBattery] // in the order of the journal
	Preflight []fact[trajectory.Preflight]    // in the order of the journal
	Resumed   []fact[trajectory.RunResumed]   // in the order of the journal
	Odd       []oddText                       // each distinct text once
	Inputs    rundir.Inputs
	OddUnread bool         // there are more of them than are kept
	Usage     *UsageExport // nil: not at hand
	Unswept   bool         // an answer was graded without the judge cache having been checked since the process began

	FirstJudged int64 // the line of the first verdict on an answer; 0: there is none

	Journals   []*journalFact                  // in the order in which their lines are numbered
	Shards     *rundir.Shards                  // nil: it is no merged run, and has one journal
	Superseded []use                           // of attempts that do not count
	Place      func(seq int64) (string, int64) // the journal of a merged run that has a line, and the line in it

	packer *packer
	walk   func(visit func(*taskEvidence)) // instead of eachTask, of one of several checks; nil: there is one
}

// taskEvidence is what the journal says of one planned task. Attempts are those that have not ended, and the others
// while a check looks at the task.
type taskEvidence struct {
	Plan     *plan.PlannedTask
	Result   verdicts
	Attempts []*attemptEvidence

	packed string    // the attempts that have ended
	judged string    // each a judgedFact: their judgments
	ended  int       // how many these are
	failed *spending // what the last of them took, as they failed; nil: they did not
	told   *told     // nil: no attempt was begun
}

// verdicts are the members of a rundir.Result that checks need.
type verdicts struct {
	Attempt                        int
	OfficialCorrect, JudgedCorrect *bool
}

// told is what texts that all tasks share tell of a task.
type told struct {
	templates []int           // of the plan, that hold the task
	stated    probe.Statement // of its answer, by the question
}

// begun reports whether there was an attempt at the task.
func (t *taskEvidence) begun() bool { return t.ended+len(t.Attempts) > 0 }

// attemptEvidence is what the journal says of one attempt. Places are lines of the journal, from 0; -1 where there
// is none.
type attemptEvidence struct {
	Number       int
	Begun        int64
	Committed    int64
	Judged       int64
	EndedAt      int64
	Turns        []turnFact
	Question     string
	FileName     string // as the agent sees it
	Workspace    []trajectory.File
	Prompts      []promptFact
	Odd          []oddMessage
	Models       []modelFact
	Channels     []string   // what the endpoint did on its own, each once
	Pictured     bool       // the question came with the picture that is its attachment
	OtherModel   *modelFact // the first request to another model than the planned one; nil: there is none
	Unheard      int        // tries that an endpoint may have answered, and of which the journal has no reply
	Unpriced     bool       // the cost of a reply, or of what a tool asked a model, is not known
	Calls        []*callFact
	Network      []*callFact   // exchanges over the recorded network of an own agent, and those that were refused
	Refused      []refusedFact // of those
	SaidQuestion bool          // a call had most words of the question, or its arguments are not all recorded
	Rollbacks    []rollbackFact
	Denied       []denialFact // violations of all classes
	Broken       []brokenFact
	Answer       *trajectory.AnswerCommitted
	Ended        *trajectory.AttemptEnded
	Kept         *trajectory.CheckpointSaved // the first copy of the workspace; nil: none was made
	Judgment     *trajectory.Judgment

	Sent        int   // requests of an own agent to a model
	PromptBytes int64 // of the messages that an own agent's requests list for the first time
	UnseenBytes int64 // of those that the journal does not show, or only the beginning of
	Unheld      bool  // the answer is said to be in a reply, and all of them are shown and none holds it
	Misplaced   bool  // the answer is said to have stood where the attempt had nothing
	Misstated   int64 // the first request with more bytes of the agent's than are recorded; 0: none
	Opaque      int   // exchanges with bytes of an unknown kind
	Unstated    int   // requests that do not say where their messages come from
	Heard       bool  // a model said something, also in a reply that is not whole
	Made        bool  // when the answer was committed, it may have been made from what the agent was given
	Brought     []broughtFact

	Contradicts *badHead // the first head that cannot be of what its size and digest are of; nil: none
}

// turnFact is one turn.
type turnFact struct {
	Seq   int64
	Us    int64 // since the attempt began
	Asked bool  // a request of it, or a reply, is recorded
	Last  bool  // the model is told in it that this is its last
}

// promptFact is one request.
type promptFact struct {
	Seq      int64
	Messages int
	Stale    bool // it lists no more messages than the one before, nor is it the same after being condensed
	Short    bool // it leaves out what the model said or was shown since the one before
	Scaled   bool // the question comes with a picture that is not the attachment itself
	Differs  bool // what it adds is not the messages that it lists for the first time, by size, digest or head
	Overlong bool // its head is longer than heads are: only the beginning was looked at
}

// oddMessage is a message that is not what its source should have given. Residue is what it holds besides the
// task's own question and the templates; Seen is false where the journal does not show the message whole. Unknown
// is true where it is not known what its source should have given.
type oddMessage struct {
	Seq     int64
	Source  string
	SHA256  string
	Seen    bool
	Unknown bool
	Residue trajectory.Probes
	Given   bool // something that the journal shows may have given it to an own agent
	Had     bool // likewise, held the gold answer
	Short   bool // it holds a gold answer that is too short to be one of Residue's hits
	Records bool // it names the run's own records, its keys or a judge cache
}

// oddText is what a message says that is not what its source should have given, where it was seen first.
type oddText struct {
	Task     *taskEvidence
	Attempt  int
	Seq      int64
	SHA256   string // of the message
	Text     string
	Recorded bool // it holds the id of another task of the split, and fields for an answer
}

// judgedFact is the judgment of an attempt that has ended.
type judgedFact struct {
	Attempt  int
	Seq      int64
	Judgment *trajectory.Judgment
}

// modelFact is one try of a model call that gave a reply.
type modelFact struct {
	Seq           int64
	Requested     string
	Responded     string // the model that the reply names; "" for none
	RequestID     string // "" for none
	In, Out       int64  // tokens
	Cached        int64  // of In
	Asked, Bytes  int64  // bytes of the messages of its request, without pictures, and of the reply
	Failed        int    // tries of its call that failed before it, but for refusals by a rate limit, for length, and by refused connections
	TimedOut      int    // others that failed as slow as a time limit
	Called        bool   // a call of a tool was proposed after it
	Empty         bool   // it was found empty, and asked for again
	CostMicroUSD  *int64 // nil: not known
	UsageReported bool
	Prompted      bool // the request that it answers is recorded
	Whole         bool // the journal shows all of it
	Marked        bool // all but the secrets that were taken out of it
	Calls         int  // calls that it asks for, if it is whole
	Answers       bool // it holds an answer in the form asked for, if it is whole or marked
	Answer        prompt.Answer
}

// callFact is a tool call from its proposal to its result. Places are -1 where there is none.
type callFact struct {
	ID, Name string
	Turn     int
	Proposed int64
	Foreign  bool   // the turn has no reply, or a whole one that does not ask for this call; of an own agent: all replies before are whole, and none does
	Opens    string // the file that read_file was asked for
	Attached bool   // it asks for the attachment, or may
	Reach    policy.Reach
	Cut      bool     // an argument is not recorded whole
	Unread   bool     // the rest of an argument that is cut is shown nowhere
	Hits     []string // ids of the rules that the audit finds broken by the recorded arguments
	Answers  bool     // a path among them is of a file with the benchmark's answers
	Loads    bool     // what it runs or hands on leads to a source of answers
	Hooks    string   // a way into another program, in what it runs or hands on
	Keys     []string // files that it would open and that are named like a key of answers
	Seeks    bool     // it looks for the benchmark's answers
	AsksOwn  bool     // its query or address holds the task's id
	AsksIDs  int      // ids of other tasks of the split in them
	HoldsOwn bool     // any argument holds the task's id
	HoldsIDs int      // ids of other tasks of the split in the arguments
	TellsOwn bool     // what it hands on besides queries and addresses holds the task's id, and that is not the attachment's name
	TellsIDs int      // ids of other tasks of the split in that
	Verbatim int      // of the question, in thousandths, in a query
	Decided  int64
	Decision trajectory.PolicyDecision
	Class    policy.Denial // of its denial, by the plan's policy without its budgets; "" if that does not deny it
	Approved bool          // by a person or a flag, before it was decided
	Against  string        // why the plan's policy does not allow it, rules aside, though it was allowed; "" if it does
	Fetches  string        // the address that web_fetch was asked for, without its fragment; "" if it is not known, or a copy was asked for
	Told     bool          // what the model was told in place of a result holds its answer or fields for one
	Result   *resultFact   // nil: nothing ran

	GivesGold     bool    // a result by others has the gold answer, or is a short one with a short gold answer
	Verdict       verdict // that a result by others is
	Grades        bool    // the tool or an argument is named for an answer to be graded
	AsFile        bool    // a server's result has the task's id as the attachment's name alone
	Miscalculated bool    // a result of calculate is not the value of its expression
	AsksDigest    bool    // its query or address holds a digest of the question or of the task's id
	AsksModel     bool    // of the recorded network: its address is one at which models are asked
	FromNowhere   bool    // code ran in an empty workspace, and no call had said the question

	expression string // of calculate
	args, text string // its values, and all that it says: until there is a result
	echo       string // of args, what a result may echo
	argsSHA256 string
	asks       policy.ReadCall
	broken     policy.Broken
	told       bool   // the reply shows all of its arguments, though the call does not
	asked      bool   // an approval of just this call was asked for
	refusal    string // what the rules have to say of it
}

// broke reports whether a call breaks a rule, by the audit's own look at it or by the Gate's.
func (c *callFact) broke(rule string) bool {
	return slices.Contains(c.Hits, rule) || slices.Contains(c.Decision.RuleIDs, rule)
}

// resultFact is what a tool brought in. Probes are the graver ones of those that were recorded and those of what
// the head shows.
type resultFact struct {
	Seq      int64
	Name     string               // of the tool that ran
	Model    *trajectory.ModelUse // that was asked to make the result; nil: none was
	First    string               // address that was asked; "" for none
	SHA256   string
	IsError  bool
	Probes   trajectory.Probes
	Few      bool            // the question has so few runs that all of them can stand in a document by chance
	Quoted   probe.Quotation // of the question, where it goes on beyond what the call had said of it
	Unheard  bool            // the question and the gold are in it, and nothing shows whether the call had said the question
	Short    bool            // it is little more than an answer
	Unprobed bool            // the head does not show all, and no probes were recorded
	Overlong bool            // the head is longer than heads are: only the beginning was looked at
	URLs     int             // addresses recorded
	ClassA   string          // the host of an answer source that gave a page
	ReachedA string          // the same, whatever it gave
	Shares   []bool          // runs of the question that the head of third-party content shows without echo; nil: fewer than a tenth
}

// rollbackFact is a workspace that was put back. Correct means that it was left as it had been at the start of the
// turn.
type rollbackFact struct {
	Seq     int64
	Turn    int
	Correct bool
}

// brokenFact is a violation of rules other than that of budgets.
type brokenFact struct {
	Seq    int64
	Turn   int
	CallID string
}

// denialFact is a policy_violation of any class.
type denialFact struct {
	Turn   int
	CallID string
	Class  policy.Denial
}

// fact is an event of the run and its line.
type fact[T trajectory.Payload] struct {
	Seq   int64
	Event T
}

// correct reports whether the task counts as solved.
func (t *taskEvidence) correct() bool {
	return t.Result.OfficialCorrect != nil && *t.Result.OfficialCorrect
}

// credited reports whether either verdict says that the task is solved.
func (t *taskEvidence) credited() bool {
	return t.correct() || t.Result.JudgedCorrect != nil && *t.Result.JudgedCorrect
}

// lastReply returns the last reply of the model before a place, nil if there is none.
func (a *attemptEvidence) lastReply(before int64) *modelFact {
	for i := len(a.Models) - 1; i >= 0; i-- {
		if a.Models[i].Seq < before {
			return &a.Models[i]
		}
	}
	return nil
}

// credits reports whether the official scorer holds a committed answer equal to the gold one, which must be at hand.
func (e *evidence) credits(t *taskEvidence, a *attemptEvidence) bool {
	return judge.QuestionScorer(&a.Answer.Answer, e.Gold[t.Plan.TaskID])
}

// scored reports whether the run has gold answers at all.
func (e *evidence) scored() bool { return e.Manifest.GoldCommitment != "" }

// blind reports whether the run has gold answers that are not at hand.
func (e *evidence) blind() bool { return e.scored() && e.Gold == nil }

// hashesOnly is the gap of a check that reads what prompts, replies, arguments and results say.
func hashesOnly(e *evidence, n *notes) {
	n.gapIf(e.Manifest.Evidence == plan.EvidenceHashes, "the run records digests alone: no text of prompts, replies, arguments and results is there to look at")
}

// noGold is the gap of a check that needs the gold answers.
const noGold = "the gold answers are not at hand"

// each calls visit with every attempt, task by task.
func (e *evidence) each(visit func(*taskEvidence, *attemptEvidence)) {
	e.eachTask(func(t *taskEvidence) {
		for _, a := range t.Attempts {
			visit(t, a)
		}
	})
}

// eachTask calls visit with every task, in the order of the plan. Its attempts are there during the call.
func (e *evidence) eachTask(visit func(*taskEvidence)) {
	if e.walk != nil {
		e.walk(visit)
		return
	}
	e.visitTasks([]func(*taskEvidence){visit})
}

// visitTasks is eachTask for several.
func (e *evidence) visitTasks(visits []func(*taskEvidence)) {
	for _, t := range e.Tasks {
		open := t.Attempts
		t.Attempts = append(e.unpack(t), open...)
		for _, visit := range visits {
			visit(t)
		}
		t.Attempts = open
	}
}

// pack appends an attempt that has ended.
func (e *evidence) pack(t *taskEvidence, a *attemptEvidence) {
	t.packed, t.ended = t.packed+string(e.packer.pack(a)), t.ended+1
}

// unpack returns the attempts that have ended, which are good until the next call for a task with such attempts.
func (e *evidence) unpack(t *taskEvidence) []*attemptEvidence {
	if t.ended == 0 {
		return nil
	}
	e.packer.release()
	all := make([]*attemptEvidence, 0, t.ended+len(t.Attempts))
	for b := t.packed; len(all) < t.ended; {
		a := &attemptEvidence{}
		b = e.packer.unpack(b, a)
		all = append(all, a)
	}
	for b := t.judged; len(b) > 0; {
		var j judgedFact
		b = e.packer.unpack(b, &j)
		all[j.Attempt-1].Judged, all[j.Attempt-1].Judgment = j.Seq, j.Judgment
	}
	return all
}

// runAll runs checks, each with its notes. They wait for each other where they look at all tasks, so that each task is
// unpacked once for all of them.
func (e *evidence) runAll(checks []Check, noted []*notes) {
	var waiting []func() (func(*taskEvidence), bool)
	for i, c := range checks {
		next, stop := iter.Pull(func(yield func(func(*taskEvidence)) bool) {
			own := *e
			own.walk = func(visit func(*taskEvidence)) { yield(visit) }
			c.run(&own, noted[i])
		})
		defer stop()
		waiting = append(waiting, next)
	}
	for {
		var visits []func(*taskEvidence)
		waiting = slices.DeleteFunc(waiting, func(next func() (func(*taskEvidence), bool)) bool {
			visit, waits := next()
			if waits {
				visits = append(visits, visit)
			}
			return !waits
		})
		if len(waiting) == 0 {
			return
		}
		e.visitTasks(visits)
	}
}

// newTold looks for the task of a prober, whose question is this one, in the plan's templates that are not this
// program's, and for its answer in the question.
func newTold(m plan.Plan, p *probe.Prober, question string) told {
	t := told{stated: p.States(question, "")}
	for i, template := range m.Prompts {
		if builtinTemplates()[template.ID] != template.Text && p.Names(template.Text) {
			t.templates = append(t.templates, i)
		}
	}
	return t
}

// builtinTemplates are the texts of this program's templates, by id.
var builtinTemplates = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	for _, t := range prompt.Templates() {
		texts[t.ID] = t.Text
	}
	return texts
})

// tells returns what texts that all tasks share tell of a task.
func (e *evidence) tells(t *taskEvidence) told {
	if t.told != nil {
		return *t.told
	}
	question := ""
	if len(t.Attempts) > 0 {
		question = t.Attempts[0].Question
	}
	return newTold(e.Manifest, e.prober(t), question)
}

// prober looks for a task in what all tasks share.
func (e *evidence) prober(t *taskEvidence) *probe.Prober {
	target := probe.Target{TaskID: t.Plan.TaskID, Gold: e.Gold[t.Plan.TaskID]}
	if len(t.Attempts) > 0 {
		target.Question = t.Attempts[0].Question
	}
	return probe.New(target)
}
