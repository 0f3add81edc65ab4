package rundir

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// RunStats is what is counted of one finished, verified run: what costs, trends and run events are taken
// from. It is a function of the run's files. Its JSON leaves the events out, which are rows of a Parquet file.
type RunStats struct {
	Completed       string       `json:"completed"` // trajectory.TimeFormat, as Started
	Dataset         plan.Dataset `json:"dataset"`
	Events          []RunEvent   `json:"-"`                     // by ID; in JSON they are kept apart
	GuidanceHash    string       `json:"guidance_hash"`         // of the plan
	JournalHead     string       `json:"journal_head,omitzero"` // as in the checkpoint; not in rows of older programs
	ManifestSHA256  string       `json:"manifest_sha256"`
	Model           string       `json:"model"`
	PolicyHash      string       `json:"policy_hash"`
	RecordingFailed string       `json:"recording_failed,omitzero"` // why, where the run went on without evidence: its results are marked wherever they are shown
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

// TaskStats is what is counted of one planned task. Conduct, cost, tokens and retries are of all its
// attempts; latency is that of the attempt that counts.
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
