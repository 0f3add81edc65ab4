package audit

import (
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// Evidence is what the checks look at: facts gathered from a verified run.
type Evidence struct {
	Manifest ledger.Manifest
	Results  []ledger.Result // as results.jsonl has them
	Summary  ledger.Summary
	Marked   string // why recording failed; "" if it did not
	Events   int64

	Gold    map[string]string // nil: not at hand
	Tasks   []*TaskEvidence   // plan order
	Cache   []CacheFact
	Resumed []ResumeFact
}

// TaskEvidence is what the journal says of one planned task.
type TaskEvidence struct {
	Plan     ledger.PlannedTask
	Result   ledger.Result
	Attempts []*AttemptEvidence
}

// AttemptEvidence is what the journal says of one attempt. Places are lines of
// the journal, from 0; -1 where there is none.
type AttemptEvidence struct {
	Number    int
	Begun     int64
	Committed int64
	Judged    int64
	Question  string
	FileName  string
	Workspace []trajectory.File
	Prompts   []PromptFact
	Odd       []OddMessage
	Models    []ModelFact
	Calls     []*CallFact
	Answer    *trajectory.AnswerCommitted
	Judgment  *trajectory.Judgment
}

// PromptFact is one request.
type PromptFact struct {
	Seq      int64
	Messages int
}

// OddMessage is a message that is not what its source should have given.
// Residue is what it holds besides the task's own question and the templates;
// Seen is false where the journal does not show the message whole. Unknown is
// true where nobody can say what its source should have given.
type OddMessage struct {
	Seq     int64
	Source  string
	SHA256  string
	Seen    bool
	Unknown bool
	Residue trajectory.Probes
}

// ModelFact is one try of a model call that gave a reply.
type ModelFact struct {
	Seq           int64
	Requested     string
	Out           int64
	UsageReported bool
}

// CallFact is a tool call from its proposal to its result. Places are -1 where
// there is none.
type CallFact struct {
	ID, Name string
	Turn     int
	Proposed int64
	Cut      bool     // an argument is not recorded whole
	Hits     []string // ids of the rules that the audit finds broken by the recorded arguments
	Answers  bool     // a path among them is of a file with the benchmark's answers
	Loads    bool     // an argument names the benchmark's dataset
	Hooks    string   // a way to get into another program that an argument names
	Decided  int64
	Decision trajectory.PolicyDecision
	Result   *ResultFact // nil: nothing ran
}

// ResultFact is what a tool brought in.
type ResultFact struct {
	Seq     int64
	SHA256  string
	Shown   string // digest of the message that carried it to the model
	IsError bool
	Probes  *trajectory.Probes // nil: none were recorded and the head does not show all
	URLs    int                // addresses recorded
	ClassA  string             // an address of an answer source that gave a page
}

// CacheFact is a check of the judge cache.
type CacheFact struct {
	Seq   int64
	Event trajectory.SecurityEvent
}

// ResumeFact is a resumption.
type ResumeFact struct {
	Seq   int64
	Event trajectory.RunResumed
}

// correct reports whether the task counts as solved.
func (t *TaskEvidence) correct() bool {
	return t.Result.OfficialCorrect != nil && *t.Result.OfficialCorrect
}

// credited reports whether either verdict says that the task is solved.
func (t *TaskEvidence) credited() bool {
	return t.correct() || t.Result.JudgedCorrect != nil && *t.Result.JudgedCorrect
}

// counted returns the attempt that counts, nil if there is none.
func (t *TaskEvidence) counted() *AttemptEvidence {
	if n := t.Result.Attempt; n > 0 && n <= len(t.Attempts) {
		return t.Attempts[n-1]
	}
	return nil
}

// scored reports whether the run has gold answers at all.
func (e *Evidence) scored() bool { return e.Manifest.GoldCommitment != "" }

// blind reports whether the run has gold answers that are not at hand.
func (e *Evidence) blind() bool { return e.scored() && e.Gold == nil }

// noGold is the gap of a check that needs the gold answers.
const noGold = "the gold answers are not at hand"

// totals counts findings and gives the scores without what the audit found
// void.
func (e *Evidence) totals(checks []CheckReport) Totals {
	t := Totals{Events: e.Events, Interruptions: len(e.Resumed), Planned: len(e.Manifest.Tasks)}
	void, review := map[string]bool{}, map[string]bool{}
	for _, task := range e.Tasks {
		t.Attempts += len(task.Attempts)
	}
	t = t.count(checks)
	for _, c := range checks {
		for _, f := range c.Findings {
			void[f.TaskID] = void[f.TaskID] || f.Severity == Critical
			review[f.TaskID] = review[f.TaskID] || f.Severity == ToReview
		}
	}
	if j := e.Summary.Judge; j != nil {
		t.Judge = &JudgeTotals{Asked: j.Asked, Cached: j.Cached, Errors: j.Errors, Judged: j.Judged, Unreadable: j.Unreadable}
	}
	if !e.scored() {
		return t
	}
	raw, clean, worst := 0, 0, 0
	for _, task := range e.Tasks {
		if !task.correct() {
			continue
		}
		raw++
		if id := task.Plan.TaskID; !void[id] {
			clean++
			if !review[id] {
				worst++
			}
		}
	}
	rate := func(n int) *ledger.Rate { r := ledger.NewRate(n, t.Planned); return &r }
	t.Raw, t.Clean, t.Worst = rate(raw), rate(clean), rate(worst)
	return t
}

// count returns t with the findings counted by severity.
func (t Totals) count(checks []CheckReport) Totals {
	t.Critical, t.High, t.Review, t.Info = 0, 0, 0, 0
	for _, c := range checks {
		for _, f := range c.Findings {
			switch f.Severity {
			case Critical:
				t.Critical++
			case High:
				t.High++
			case ToReview:
				t.Review++
			case Info:
				t.Info++
			}
		}
	}
	return t
}

// each calls visit with every attempt, task by task.
func (e *Evidence) each(visit func(*TaskEvidence, *AttemptEvidence)) {
	for _, t := range e.Tasks {
		for _, a := range t.Attempts {
			visit(t, a)
		}
	}
}

// prober looks for a task in what all tasks share.
func (e *Evidence) prober(t *TaskEvidence) *Prober {
	target := Target{TaskID: t.Plan.TaskID, Gold: e.Gold[t.Plan.TaskID]}
	if len(t.Attempts) > 0 {
		target.Question = t.Attempts[0].Question
	}
	return NewProber(target)
}

// eachResult calls visit with every call that ran.
func (e *Evidence) eachResult(visit func(*TaskEvidence, *AttemptEvidence, *CallFact)) {
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		for _, c := range a.Calls {
			if c.Result != nil {
				visit(t, a, c)
			}
		}
	})
}

// local tools show the agent its own workspace or its own sums: what they bring
// in comes from nobody else.
func local(tool string) bool {
	return slices.Contains([]string{"calculate", "list_files", "read_file"}, tool)
}
