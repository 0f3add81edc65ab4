package rundir

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// RunStats is what is counted of one finished, verified run: what costs, trends and run events are taken from. It is a
// function of the run's files. Its JSON leaves the events out, which are rows of a Parquet file.
type RunStats struct {
	Completed       string       `json:"completed"` // trajectory.TimeFormat, as Started
	Dataset         plan.Dataset `json:"dataset"`
	Events          []RunEvent   `json:"-"`                     // by ID; in JSON they are kept apart
	GuidanceHash    string       `json:"guidance_hash"`         // of the plan
	JournalHead     string       `json:"journal_head,omitzero"` // as in the checkpoint
	ManifestSHA256  string       `json:"manifest_sha256"`
	Model           string       `json:"model"`
	PolicyHash      string       `json:"policy_hash"`
	RecordingFailed string       `json:"recording_failed,omitzero"` // why, where the run continued without evidence: its results are marked wherever they are shown
	Rehearsal       bool         `json:"rehearsal,omitzero"`
	Root            string       `json:"root,omitzero"` // likewise
	RunID           string       `json:"run_id"`
	Schema          string       `json:"schema"`
	SignedBy        string       `json:"signed_by"` // id of the key of the plan
	Started         string       `json:"started"`
	Tasks           []TaskStats  `json:"tasks"` // plan order
}

// Signed returns what the run's key has signed of it.
func (s RunStats) Signed() Signed {
	return Signed{Complete: true, Head: s.JournalHead, KeyID: s.SignedBy, ManifestSHA256: s.ManifestSHA256, Root: s.Root, RunID: s.RunID}
}

// TaskStats is what is counted of one planned task. Conduct, cost, tokens and retries are of all its attempts; latency
// is that of the attempt that counts.
type TaskStats struct {
	Conduct          trajectory.Conduct `json:"conduct"`
	CostMicroUSD     *int64             `json:"cost_microusd"`     // null: a price is unknown
	EvidenceComplete bool               `json:"evidence_complete"` // question, diff and verdict of the counted attempt are recorded
	LatencyMs        int64              `json:"latency_ms"`
	Level            int                `json:"level"`
	Outcome          string             `json:"outcome"` // as in TaskSealed
	Retries          int                `json:"retries"`
	TaskID           string             `json:"task_id"`
	Tokens           int64              `json:"tokens"` // read and written
}

const (
	StatsSchema    = "gaia.sheet/2"
	runEventSchema = "gaia.run_event/2"
)

// ReadStats verifies a run and returns its stats; summary is the name of the run's summary, SummaryFile if "". A run
// that is not finished has no stats: it is returned with Complete false. The journal is read once; beside the stats it
// holds what is of the tasks that are open.
func ReadStats(dir fs.FS, summary string) (RunStats, *Run, error) {
	r := &statsReader{open: map[string][]*noted{}, events: []RunEvent{}}
	run, err := Verify(dir, Options{Summary: summary,
		Event: func(e trajectory.Event) error { r.note(e); return nil },
		Sealed: func(f *Fold, t *Task) error {
			for i, n := range r.open[t.Plan.TaskID] {
				r.events = append(r.events, f.runEvent(t, t.Attempts[i], n))
			}
			delete(r.open, t.Plan.TaskID)
			return nil
		}})
	if err != nil || !run.Complete {
		return RunStats{}, run, err
	}
	rules, err := readRules(dir, run.Manifest)
	if err != nil {
		return RunStats{}, nil, err
	}
	m := run.Manifest
	s := RunStats{Completed: run.completed, RecordingFailed: run.Marked, Dataset: m.Dataset, Events: r.events,
		GuidanceHash: m.GuidanceHash, JournalHead: run.End.Head, Root: run.RootHash, ManifestSHA256: run.ManifestSHA256,
		Model: m.Model.Name, PolicyHash: m.PolicyHash, Rehearsal: m.Rehearsal, RunID: m.RunID, Schema: StatsSchema, SignedBy: run.Key.ID(),
		Started: run.Started, Tasks: make([]TaskStats, len(run.Tasks))}
	for i := range s.Events {
		s.Events[i].SignedBy, s.Events[i].RetrievedRuleIDs = s.SignedBy, []string{}
		if s.Events[i].GuidanceHash == m.GuidanceHash {
			s.Events[i].RetrievedRuleIDs = rules
		}
	}
	slices.SortFunc(s.Events, func(a, b RunEvent) int { return cmp.Compare(a.ID, b.ID) })
	for i, t := range run.Tasks {
		s.Tasks[i] = run.TaskStats(t)
	}
	return s, run, nil
}

// statsReader gathers the run events of a run from its journal.
type statsReader struct {
	process
	open   map[string][]*noted
	events []RunEvent
}

// process is one that wrote the journal, by its first event.
type process struct{ session, guidance, policy, mode string }

// noted is what a run event needs of an attempt beside what the Fold keeps of it.
type noted struct {
	process              // that made it
	id, timestamp string // of its end
	triggered     []string
	violations    []Violation
	broken        map[turnCall][]int  // places of the violations of calls
	names         map[turnCall]string // of tools
	refused       map[int]string      // turn → id of the call in it that was denied last; "" where its violation is recorded
}

// note takes an event that has found its place.
func (r *statsReader) note(e trajectory.Event) {
	switch p := e.Payload.(type) {
	case trajectory.RunStarted:
		r.process = process{e.ID, p.GuidanceHash, p.PolicyHash, p.PolicyMode}
		return
	case trajectory.RunResumed:
		r.process = process{e.ID, p.GuidanceHash, p.PolicyHash, p.PolicyMode}
		return
	case trajectory.TaskStarted:
		r.open[e.TaskID] = append(r.open[e.TaskID], &noted{process: r.process, triggered: []string{}, violations: []Violation{},
			broken: map[turnCall][]int{}, names: map[turnCall]string{}, refused: map[int]string{}})
		return
	}
	if e.Attempt == 0 {
		return
	}
	n := r.open[e.TaskID][e.Attempt-1]
	switch p := e.Payload.(type) {
	case trajectory.ToolProposed:
		n.names[turnCall{e.Turn, p.CallID}] = p.Name
	case trajectory.RequestRefused:
		n.trigger(p.RuleIDs)
	case trajectory.PolicyDecision:
		n.trigger(p.RuleIDs)
		delete(n.refused, e.Turn)
		if p.Decision == string(policy.Deny) {
			n.refused[e.Turn] = p.CallID
		}
	case trajectory.PolicyViolation: // of a call that was just denied, or of one that ran and was redirected
		call := turnCall{e.Turn, p.CallID}
		denied := n.refused[e.Turn] == p.CallID && p.CallID != ""
		delete(n.refused, e.Turn)
		rules := p.RuleIDs
		if len(rules) == 0 {
			rules = []string{""}
		}
		for _, id := range rules {
			severity := policy.Severity(id)
			if p.Class == string(policy.DeniedByMode) {
				severity = policy.SeverityLow
			}
			n.broken[call] = append(n.broken[call], len(n.violations))
			n.violations = append(n.violations, Violation{AutoCorrected: denied, Class: p.Class, Description: p.Description,
				Location: fmt.Sprintf("turn %d, %s, call %s", e.Turn, cmp.Or(n.names[call], "no tool"), p.CallID),
				RuleID:   id, Severity: severity})
		}
	case trajectory.Rollback:
		if p.Correct() { // then what the call broke in this turn is undone
			for _, i := range n.broken[turnCall{e.Turn, p.CallID}] {
				n.violations[i].AutoCorrected = true
			}
		}
	case trajectory.AttemptEnded:
		n.id, n.timestamp = strings.Clone(e.ID), strings.Clone(e.Timestamp) // without the texts of other events
		n.broken, n.names, n.refused = nil, nil, nil
	}
}

// trigger takes the rules that a decision names.
func (n *noted) trigger(rules []string) {
	for _, id := range rules {
		if at, there := slices.BinarySearch(n.triggered, id); !there {
			n.triggered = slices.Insert(n.triggered, at, id)
		}
	}
}

// runEvent is what the ledger keeps of an attempt at a sealed task, but for who signed it, and the rules that held.
func (f *Fold) runEvent(t *Task, a *Attempt, n *noted) RunEvent {
	e := RunEvent{Attempt: a.Number, CostMicroUSD: a.CostMicroUSD, Counted: a.Number == t.Sealed.Attempt, Denials: a.Conduct.Denials, DurationMs: a.LatencyMs(),
		FilesTouched: []string{}, GuidanceHash: n.guidance, ID: n.id, Intent: intent(t.Plan.FileName, a.ToolsUsed), Level: t.Plan.Level,
		ManifestSHA256: f.ManifestSHA256, Mode: n.mode, Model: f.Manifest.Model.Name, Outcome: a.Ended.Outcome,
		PolicyHash: n.policy, PersonRefusals: a.Conduct.PersonRefusals, Rehearsal: f.Manifest.Rehearsal, Retries: a.Retried, Rollbacks: a.Conduct.Rollbacks, RunID: f.Manifest.RunID,
		Schema: runEventSchema, Session: n.session, TaskID: t.Plan.TaskID, TestResults: f.tests(a), Timestamp: n.timestamp,
		Tokens: a.Tokens.In + a.Tokens.Out, ToolCalls: a.ToolCalls, ToolsUsed: a.ToolsUsed, TriggeredRuleIDs: n.triggered, Violations: n.violations}
	switch {
	case !f.Scored() || a.Answer != nil && a.Judgment == nil: // nothing says whether the answer is correct
	case a.Answer == nil:
		e.OutcomeAccepted = new(bool)
	default:
		e.OutcomeAccepted = &a.Judgment.Official
	}
	if w := a.Ended.Workspace; w != nil {
		e.FilesTouched, e.ReworkLines = list(w.Files), w.Reworked
		e.DiffSummary = DiffSummary{Files: len(w.Files), LinesAdded: w.Added, LinesRemoved: w.Removed}
	}
	return e
}

// tests counts the checks of an attempt's answer. The judge's check counts where the judge gave the verdict: it is not
// asked about an answer that the official scorer accepts, or about a blank one.
func (f *Fold) tests(a *Attempt) (c TestCounts) {
	check := func(ran, passed bool) {
		switch {
		case !ran:
			c.Skipped++
			return
		case passed:
			c.Passed++
		default:
			c.Failed++
		}
		c.Ran++
	}
	j := a.Judgment
	check(j != nil, j != nil && j.Official)
	if f.Manifest.Judge != nil {
		spoke := j != nil && j.Path == PathJudge && j.Judged != nil
		check(spoke, spoke && *j.Judged)
	}
	return c
}

// TaskStats returns what is counted of a sealed task.
func (f *Fold) TaskStats(t *Task) TaskStats {
	r := f.Result(t)
	s := TaskStats{CostMicroUSD: r.CostMicroUSD, LatencyMs: r.LatencyMs, Level: r.Level,
		Outcome: r.Outcome, TaskID: r.TaskID, Tokens: r.Tokens.In + r.Tokens.Out}
	for _, a := range t.Attempts {
		s.Retries += a.Retried
		s.Conduct.Sum(*a.Conduct, maxCounted)
	}
	if a := t.Counted(); a != nil && a.Judgment != nil { // what a witness bundle needs to be complete; the question is always there
		_, s.EvidenceComplete = a.Diff()
	}
	return s
}
