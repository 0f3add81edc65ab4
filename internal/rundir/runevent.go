package rundir

import (
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// RunEvent is what the ledger keeps of one attempt: what it did to get where it got, taken from the verified journal.
// docs/ledger.md says how each member is measured.
type RunEvent struct {
	Attempt          int                `json:"attempt" parquet:"attempt"`
	CostMicroUSD     *int64             `json:"cost_microusd" parquet:"cost_microusd,optional"` // of its model calls and of models that its tools asked; null: a price is unknown
	Counted          bool               `json:"counted" parquet:"counted"`                      // the task's result is this attempt's
	Denials          trajectory.Denials `json:"denials" parquet:"denials"`                      // policy_violation events by class
	DiffSummary      DiffSummary        `json:"diff_summary" parquet:"diff_summary"`
	DurationMs       int64              `json:"duration_ms" parquet:"duration_ms"` // from its first event to its last
	FilesTouched     []string           `json:"files_touched" parquet:"files_touched,list"`
	GuidanceHash     string             `json:"guidance_hash" parquet:"guidance_hash,dict"` // of the process that made it
	ID               string             `json:"id" parquet:"id,dict"`                       // that of the journal's attempt_ended event
	Intent           string             `json:"intent" parquet:"intent,dict"`               // the kind of task; see intent
	Level            int                `json:"level" parquet:"level"`
	ManifestSHA256   string             `json:"manifest_sha256" parquet:"manifest_sha256,dict"`
	Mode             string             `json:"mode" parquet:"mode,dict"` // of the process that made it, as PolicyHash
	Model            string             `json:"model" parquet:"model,dict"`
	Outcome          string             `json:"outcome" parquet:"outcome,dict"`                       // trajectory.Answered, NoAnswer or Errored
	OutcomeAccepted  *bool              `json:"outcome_accepted" parquet:"outcome_accepted,optional"` // its answer is correct by the official scorer; null: there is no gold answer, or the answer was not graded since another counts
	PersonRefusals   int                `json:"person_refusals" parquet:"person_refusals"`            // calls that a person was asked about and refused
	PolicyHash       string             `json:"policy_hash" parquet:"policy_hash,dict"`
	Rehearsal        bool               `json:"rehearsal,omitzero" parquet:"rehearsal"`
	RetrievedRuleIDs []string           `json:"retrieved_rule_ids" parquet:"retrieved_rule_ids,list"` // rules that held in it, by the run's constitution; none if the process had another; sorted, each once
	Retries          int                `json:"retries" parquet:"retries"`                            // model calls that repeated another
	ReworkLines      int                `json:"rework_lines" parquet:"rework_lines"`
	Rollbacks        int                `json:"rollbacks" parquet:"rollbacks"` // that restored something
	RunID            string             `json:"run_id" parquet:"run_id,dict"`
	Schema           string             `json:"schema" parquet:"schema,dict"`
	Session          string             `json:"session" parquet:"session,dict"`     // id of the run_started or run_resumed event of the process that made it
	SignedBy         string             `json:"signed_by" parquet:"signed_by,dict"` // id of the key of the run's plan
	TaskID           string             `json:"task_id" parquet:"task_id,dict"`
	TestResults      TestCounts         `json:"test_results" parquet:"test_results"`
	Timestamp        string             `json:"timestamp" parquet:"timestamp,dict"` // when it ended; the time of its ID
	Tokens           int64              `json:"tokens" parquet:"tokens"`            // read and written
	ToolCalls        int                `json:"tool_calls" parquet:"tool_calls"`
	ToolsUsed        []string           `json:"tools_used" parquet:"tools_used,list"`                 // that ran; sorted, each once
	TriggeredRuleIDs []string           `json:"triggered_rule_ids" parquet:"triggered_rule_ids,list"` // rules that decisions about its calls and exchanges named; sorted, each once
	Violations       []Violation        `json:"violations" parquet:"violations,list"`                 // one for each rule of each policy_violation event, and one for each without rules
}

// DiffSummary counts what an attempt made of its workspace: lines of text, and files of any kind.
type DiffSummary struct {
	Files        int `json:"files" parquet:"files"`
	LinesAdded   int `json:"lines_added" parquet:"lines_added"`
	LinesRemoved int `json:"lines_removed" parquet:"lines_removed"`
}

// TestCounts count the checks of an answer: the official scorer, and the LLM judge where the plan has one. One that
// gave no verdict was skipped; the others ran.
type TestCounts struct {
	Failed  int `json:"failed" parquet:"failed"`
	Passed  int `json:"passed" parquet:"passed"`
	Ran     int `json:"ran" parquet:"ran"`
	Skipped int `json:"skipped" parquet:"skipped"`
}

// Violation is a rule that a call broke, or its denial by deny list, mode or budget.
type Violation struct {
	AutoCorrected bool   `json:"auto_corrected" parquet:"auto_corrected"` // the call did not run, or the workspace was restored exactly
	Class         string `json:"class" parquet:"class,dict"`              // as in the event
	Description   string `json:"description" parquet:"description,dict"`
	Location      string `json:"location" parquet:"location,dict"` // "turn 3, web_fetch, call c1"
	RuleID        string `json:"rule_id" parquet:"rule_id,dict"`   // "": of a denial by deny list or mode
	Severity      string `json:"severity" parquet:"severity,dict"` // by policy.Severity; of a denial by mode low
}

// ReworkRatio is how many lines were changed again for each that was added or removed in the end, at most 1: also where
// nothing remains of what was changed again.
func (e RunEvent) ReworkRatio() float32 {
	changed := e.DiffSummary.LinesAdded + e.DiffSummary.LinesRemoved
	if e.ReworkLines >= changed {
		return stats.Share(min(e.ReworkLines, 1), 1)
	}
	return stats.Share(e.ReworkLines, changed)
}
