package ledger

import "github.com/gaia-harness/gaia/trajectory"

// RunEvent is what the ledger keeps of one attempt: what it did to get where it
// got, taken from the verified journal. docs/ledger.md says how each member is
// measured.
type RunEvent struct {
	Attempt          int                `json:"attempt"`
	CostMicroUSD     *int64             `json:"cost_microusd"` // of its model calls and of models that its tools asked; null: a price is unknown
	Counted          bool               `json:"counted"`       // the task's result is this attempt's
	Denials          trajectory.Denials `json:"denials"`       // policy_violation events by class
	DiffSummary      DiffSummary        `json:"diff_summary"`
	DurationMs       int64              `json:"duration_ms"` // from its first event to its last
	FilesTouched     []string           `json:"files_touched"`
	GuidanceHash     string             `json:"guidance_hash"` // of the process that made it
	ID               string             `json:"id"`            // that of the journal's attempt_ended event
	Intent           string             `json:"intent"`        // the kind of task; see Intent
	Level            int                `json:"level"`
	ManifestSHA256   string             `json:"manifest_sha256"`
	Mode             string             `json:"mode"` // of the process that made it, as PolicyHash
	Model            string             `json:"model"`
	Outcome          string             `json:"outcome"`          // trajectory.Answered, NoAnswer or Errored
	OutcomeAccepted  *bool              `json:"outcome_accepted"` // its answer is correct by the official scorer; null: there is no gold answer, or the answer was not graded since another counts
	PersonRefusals   int                `json:"person_refusals"`  // calls that a person was asked about and refused
	PolicyHash       string             `json:"policy_hash"`
	Rehearsal        bool               `json:"rehearsal,omitzero"`
	RetrievedRuleIDs []string           `json:"retrieved_rule_ids"` // rules that held in it, by the run's constitution; none if the process had another; sorted, each once
	Retries          int                `json:"retries"`            // model calls that repeated another
	ReworkLines      int                `json:"rework_lines"`
	Rollbacks        int                `json:"rollbacks"` // that restored something
	RunID            string             `json:"run_id"`
	Schema           string             `json:"schema"`
	Session          string             `json:"session"`   // id of the run_started or run_resumed event of the process that made it
	SignedBy         string             `json:"signed_by"` // id of the key of the run's plan
	TaskID           string             `json:"task_id"`
	TestResults      TestCounts         `json:"test_results"`
	Timestamp        string             `json:"timestamp"` // when it ended; the time of its ID
	Tokens           int64              `json:"tokens"`    // read and written
	ToolCalls        int                `json:"tool_calls"`
	ToolsUsed        []string           `json:"tools_used"`         // that ran; sorted, each once
	TriggeredRuleIDs []string           `json:"triggered_rule_ids"` // rules that decisions about its calls named; sorted, each once
	Violations       []Violation        `json:"violations"`         // one for each rule of each policy_violation event, and one for each without rules
}

// DiffSummary counts what an attempt made of its workspace: lines of text, and
// files of any kind.
type DiffSummary struct {
	Files        int `json:"files"`
	LinesAdded   int `json:"lines_added"`
	LinesRemoved int `json:"lines_removed"`
}

// TestCounts count the checks of an answer: the official scorer, and the LLM
// judge where the plan has one. One that gave no verdict was skipped; the others
// ran.
type TestCounts struct {
	Failed  int `json:"failed"`
	Passed  int `json:"passed"`
	Ran     int `json:"ran"`
	Skipped int `json:"skipped"`
}

// Violation is a rule that a call broke, or its denial by deny list, mode or budget.
type Violation struct {
	AutoCorrected bool   `json:"auto_corrected"` // the call did not run, or the workspace was put back exactly as it was
	Class         string `json:"class"`          // as in the event
	Description   string `json:"description"`
	Location      string `json:"location"` // "turn 3, web_fetch, call c1"
	RuleID        string `json:"rule_id"`  // "": of a denial by deny list or mode
	Severity      string `json:"severity"` // by policy.Severity; of a denial by mode low
}
