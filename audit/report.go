package audit

import (
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"slices"
)

// Schema names the form of a report.
const Schema = "gaia.audit/1"

// ThreatModel says, in every report, what the audit is for.
const ThreatModel = "a score that was earned without solving the tasks: answers reached by the agent, graders touched, runs chosen after their outcome. " +
	"It does not show that the whole journal was not made up, nor what a model saw in training"

// Report is audit-report.json: canonical JSON, the same bytes for the same
// evidence.
type Report struct {
	Adjudications []Adjudicated `json:"adjudications,omitempty"` // in the order of their findings' ids
	Attestation   Attestation   `json:"attestation"`
	AuditedAt     string        `json:"audited_at"` // when the run was completed, unless told otherwise
	Checks        []CheckReport `json:"checks"`     // in the order of Checks
	Inputs        Inputs        `json:"inputs"`
	Only          []string      `json:"only,omitempty"` // ids of the checks that were asked, in the order of Checks; left out: all
	Rehearsal     bool          `json:"rehearsal,omitzero"`
	RunID         string        `json:"run_id"`
	Schema        string        `json:"schema"`
	ThreatModel   string        `json:"threat_model"`
	Totals        Totals        `json:"totals"`
}

// Attestation is what a report comes to.
type Attestation struct {
	Clean              bool     `json:"clean"`                        // no open CRITICAL or HIGH, and no gap in the gate; no countersigned dismissal counts
	CountersignedClean bool     `json:"countersigned_clean,omitzero"` // not clean, but clean for a reader who trusts every key that countersigned a dismissal
	CriticalFailures   []string `json:"critical_failures"`            // ids of checks
	HarnessGaps        []Gap    `json:"harness_gaps"`
	Skipped            []string `json:"skipped"`       // ids of checks
	StrictClean        bool     `json:"strict_clean"`  // clean, and nothing to review
	WarnFailures       []string `json:"warn_failures"` // ids of checks that fail with HIGH
}

// Gap says what a check could not see.
type Gap struct {
	Check string `json:"check"`
	Gap   string `json:"gap"`
}

// Status is what a check came to.
type Status string

// The statuses. A skip could not see, and is never a pass.
const (
	Pass          Status = "pass"
	Fail          Status = "fail"
	Review        Status = "review"
	Skip          Status = "skip"
	NotApplicable Status = "n/a" // the run does not have what the check is about
)

// Severity is how grave a finding is.
type Severity string

// The severities. CRITICAL and HIGH keep a run from being submitted while they
// are open; a REVIEW is for a person to look at; INFO is noted.
const (
	Critical Severity = "CRITICAL"
	High     Severity = "HIGH"
	ToReview Severity = "REVIEW"
	Info     Severity = "INFO"
)

// Rank is 0 for the gravest severity, and more for a lighter one; -1 for none.
func (s Severity) Rank() int { return slices.Index([]Severity{Critical, High, ToReview, Info}, s) }

// Outcome says what came of what a finding found.
type Outcome string

// The outcomes. Of what was so before the run, and of a note, there is none.
const (
	Exploited Outcome = "exploited" // CRITICAL or HIGH, used, and the answer counts as correct; about the whole run: one of them does
	Attempted Outcome = "attempt"   // tried without benefit, or not known to have any: voids nothing
	Exposure  Outcome = "exposure"  // reached the agent without its asking, whatever came of it
)

// CheckReport is one check's part of a report.
type CheckReport struct {
	Absent   string    `json:"absent,omitzero"` // what the check is about and the run does not have
	Findings []Finding `json:"findings"`
	Gaps     []string  `json:"gaps"`
	Gate     bool      `json:"gate"` // a skip of it keeps a run from being submitted
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Severity Severity  `json:"severity,omitzero"` // of the gravest open finding
	Status   Status    `json:"status"`
	Title    string    `json:"title"`
}

// Finding proves itself: it names the line of the journal it is about and what
// stood there in place of what should have. Got and Want never hold gold, nor
// a digest of it.
type Finding struct {
	Attempt        int      `json:"attempt,omitzero"`
	Check          string   `json:"check"`
	Closed         Decision `json:"closed,omitzero"`          // by an adjudication; left out: open
	EvidenceSHA256 string   `json:"evidence_sha256,omitzero"` // of the document, message or answer it is about
	Got            string   `json:"got"`
	ID             string   `json:"id"`               // digest of the rest but Closed
	Outcome        Outcome  `json:"outcome,omitzero"` // none where nothing was gained or tried
	RuleID         string   `json:"rule_id"`          // AUD-1.uuid-with-answer
	RuleVersion    int      `json:"rule_version"`
	Seq            int64    `json:"seq"` // line of the journal, from 0
	Severity       Severity `json:"severity"`
	TaskID         string   `json:"task_id,omitzero"` // "" is about the whole run
	Want           string   `json:"want"`
}

// Inputs are the digests of the files the audit looked at.
type Inputs struct {
	Adjudications      []string `json:"adjudications,omitempty"`     // of their envelopes, in the order of their findings' ids
	Bodies             []string `json:"bodies,omitempty"`            // that came from outside of the run and that an event has the digest of, sorted
	Countersignatures  []string `json:"countersignatures,omitempty"` // of the envelopes, in the order of their decisions
	EventsSHA256       string   `json:"events_sha256"`
	MetadataSHA256     string   `json:"metadata_sha256"`       // of summary.json, which a package calls metadata.json
	Rejudgments        []string `json:"rejudgments,omitempty"` // of their envelopes, in the order of their files' names
	ResultsSHA256      string   `json:"results_sha256"`
	TrajectoriesSHA256 string   `json:"trajectories_sha256"`
	UsageExportSHA256  string   `json:"usage_export_sha256,omitzero"`
}

// Totals counts over the planned tasks.
type Totals struct {
	Attempts      int          `json:"attempts"`
	Clean         *ledger.Rate `json:"clean"`           // Raw with void tasks counted wrong; null: unscored
	Closed        int          `json:"closed,omitzero"` // findings that are, by adjudications; the counts by severity are of open ones
	Critical      int          `json:"critical"`
	Events        int64        `json:"events"`
	High          int          `json:"high"`
	Info          int          `json:"info"`
	Interruptions int          `json:"interruptions"`
	Judge         *JudgeTotals `json:"judge"` // null: no judge
	Planned       int          `json:"planned"`
	Raw           *ledger.Rate `json:"raw"` // official, as recorded but for tasks that an adjudication made void
	Review        int          `json:"review"`
	Worst         *ledger.Rate `json:"worst"` // Clean with the tasks of HIGH and REVIEW counted wrong
}

// JudgeTotals says aloud how many answers the LLM judge could judge.
type JudgeTotals struct {
	Asked      int `json:"asked"`
	Cached     int `json:"cached"` // of those judged, verdicts from the signed cache
	Errors     int `json:"errors"`
	Judged     int `json:"judged"`
	Unreadable int `json:"unreadable"`
	TooLong    int `json:"too_long,omitzero"` // for a judge
	Withheld   int `json:"withheld,omitzero"` // from a judge that did not withstand the null battery
}

// Encode returns audit-report.json.
func (r Report) Encode() ([]byte, error) { return sign.Canonical(r) }
