package audit

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Schema names the form of a report.
const Schema = "gaia.audit/1"

// ThreatModel says, in every report, what the audit is for.
const ThreatModel = "a score that was earned without solving the tasks: answers reached by the agent, graders touched, runs chosen after their outcome. " +
	"It does not show that the whole journal was not made up, nor what a model saw in training"

// Report is audit-report.json: canonical JSON, the same bytes for the same evidence.
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

// Attestation is the conclusion of a report.
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

// Status is the outcome of a check.
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

// The severities. CRITICAL and HIGH keep a run from being submitted while they are open; a REVIEW is for a person
// to look at; INFO is noted.
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

// Finding proves itself: it names the line of the journal it is about and what stood there in place of what should
// have. Got and Want never hold gold, nor a digest of it.
type Finding struct {
	Attempt        int      `json:"attempt,omitzero"`
	Check          string   `json:"check"`
	Closed         Decision `json:"closed,omitzero"`          // by an adjudication; left out: open
	EvidenceSHA256 string   `json:"evidence_sha256,omitzero"` // of the document, message or answer it is about
	Got            string   `json:"got"`
	ID             string   `json:"id"`               // digest of the rest but Closed
	Journal        string   `json:"journal,omitzero"` // of a merged run: the journal that has the line
	Line           int64    `json:"line,omitzero"`    // of a merged run: the line in Journal, from 1
	Outcome        Outcome  `json:"outcome,omitzero"` // none where nothing was gained or tried
	RuleID         string   `json:"rule_id"`          // AUD-1.uuid-with-answer
	RuleVersion    int      `json:"rule_version"`
	Seq            int64    `json:"seq"` // line of the journal, from 0; of a merged run through all journals
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
	Attempts      int           `json:"attempts"`
	Clean         *stats.Rate   `json:"clean"`           // Raw with void tasks counted wrong; null: unscored
	Closed        int           `json:"closed,omitzero"` // findings that are, by adjudications; the counts by severity are of open ones
	Critical      int           `json:"critical"`
	Events        int64         `json:"events"`
	High          int           `json:"high"`
	Info          int           `json:"info"`
	Interruptions int           `json:"interruptions"`
	Judge         *JudgeTotals  `json:"judge"` // null: no judge
	Planned       int           `json:"planned"`
	Prompts       *rundir.Share `json:"prompts,omitzero"` // left out: where the inputs of models come from is not known
	Raw           *stats.Rate   `json:"raw"`              // official, as recorded but for tasks that an adjudication made void
	Review        int           `json:"review"`
	Worst         *stats.Rate   `json:"worst"` // Clean with the tasks of HIGH and REVIEW counted wrong
}

// JudgeTotals counts the answers that the LLM judge could and could not judge.
type JudgeTotals struct {
	Asked      int `json:"asked"`
	Cached     int `json:"cached"` // of those judged, verdicts from the signed cache
	Errors     int `json:"errors"`
	Judged     int `json:"judged"`
	Unreadable int `json:"unreadable"`
	TooLong    int `json:"too_long,omitzero"` // for a judge
	Withheld   int `json:"withheld,omitzero"` // from a judge that did not pass the null battery
}

// Encode returns audit-report.json.
func (r Report) Encode() ([]byte, error) { return canonical.Encode(r) }

// ReportFile is the name of a report in a package.
const ReportFile = "audit-report.json"

// anotherVersion ends the reason why a report is refused whose checks or rules are not those of this version.
const anotherVersion = ": it was changed, or is of another version of this program"

// DecodeReport reads a report, with a *trajectory.Fault if it is not what Encode writes, has not exactly the checks
// of [Checks] (those that it says were asked), in their order, has findings that no rule of theirs makes, or
// concludes what its findings do not give. So a report of a version with other checks or rules is refused.
func DecodeReport(data []byte) (Report, error) {
	refuse := func(format string, args ...any) (Report, error) {
		return Report{}, trajectory.Faultf(ReportFile, format, args...)
	}
	var r Report
	if err := canonical.Decode(data, &r); err != nil {
		return refuse("%v", err)
	}
	if r.Schema != Schema {
		return refuse("schema is %q, not %q", r.Schema, Schema)
	}
	if at, err := time.Parse(trajectory.TimeFormat, r.AuditedAt); err != nil || at.Format(trajectory.TimeFormat) != r.AuditedAt {
		return refuse("audited_at is %q, which is no time", r.AuditedAt)
	}
	asked := slices.DeleteFunc(Checks(), func(c Check) bool { return len(r.Only) > 0 && !slices.Contains(r.Only, c.ID) })
	if len(r.Only) > 0 && !slices.EqualFunc(r.Only, asked, func(id string, c Check) bool { return id == c.ID }) {
		return refuse("what it says was asked is no list of checks%s", anotherVersion)
	}
	for i, c := range asked {
		switch {
		case i >= len(r.Checks) || r.Checks[i].ID != c.ID:
			return refuse("check %s (%s) is missing, or not in its place%s", c.ID, c.Name, anotherVersion)
		case r.Checks[i].Name != c.Name || r.Checks[i].Gate != c.Gate:
			return refuse("check %s is not %s%s", c.ID, c.Name, anotherVersion)
		}
	}
	if more := r.Checks[len(asked):]; len(more) > 0 {
		return refuse("check %q is not one of those that were asked%s", more[0].ID, anotherVersion)
	}
	for i, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Check != c.ID || f.ID != f.digest() {
				return refuse("a finding of check %q is not the one its id is of", c.ID)
			}
			if why := f.invalid(asked[i]); why != "" {
				return refuse("a finding of check %q has %s", c.ID, why)
			}
		}
		if status, severity := c.conclude(); status != c.Status || severity != c.Severity {
			return refuse("check %q is %s, which does not follow from its findings", c.ID, c.Status)
		}
	}
	if why := r.undecided(); why != "" {
		return refuse("%s", why)
	}
	if t := r.Totals; t.count(r.Checks) != t {
		return refuse("the totals do not count the findings")
	}
	if !reflect.DeepEqual(r.attest(), r.Attestation) {
		return refuse("the attestation does not follow from the checks")
	}
	return r, nil
}

// undecided says what is closed without an adjudication, or decided and not closed; "" if nothing is.
func (r Report) undecided() string {
	decided, digests, countersigned := map[string]Decision{}, []string(nil), []string(nil)
	for _, a := range r.Adjudications {
		digests = append(digests, a.SHA256)
		if a.Countersigned != nil {
			countersigned = append(countersigned, a.Countersigned.SHA256)
		}
		f := r.finding(a.Finding)
		pending := ""
		if a.Unheard == "" && f != nil {
			pending = Adjudication{Ruling: Ruling{Decision: a.Decision}, Countersigned: a.Countersigned}.pending(*f)
		}
		if a.Pending != pending || !a.Countersigned.valid() {
			return fmt.Sprintf("the decision about finding %q does not wait for what it says", a.Finding)
		}
		if a.Unheard == "" && a.Pending == "" {
			decided[a.Finding] = a.Decision
		}
	}
	if !slices.Equal(digests, r.Inputs.Adjudications) || !slices.Equal(countersigned, r.Inputs.Countersignatures) {
		return "the adjudications are not those of its inputs"
	}
	for f := range findings(r.Checks) {
		if f.Closed != decided[f.ID] {
			return fmt.Sprintf("a finding of check %q is not closed as its adjudications say", f.Check)
		}
	}
	return ""
}

// invalid says what about a finding its check does not write down, "" if nothing.
func (f Finding) invalid(c Check) string {
	id, own := strings.CutPrefix(f.RuleID, c.ID+".")
	rule, known := c.rule(id)
	switch {
	case !slices.Contains([]Severity{Critical, High, ToReview, Info}, f.Severity):
		return fmt.Sprintf("the unknown severity %q", f.Severity)
	case !slices.Contains([]Decision{"", Void, Dismiss}, f.Closed) || f.Closed != "" && f.Closed.Refuses(f) != "":
		return fmt.Sprintf("the decision %q, which cannot close it", f.Closed)
	case !slices.Contains([]Outcome{"", Exploited, Attempted, Exposure}, f.Outcome):
		return fmt.Sprintf("the unknown outcome %q", f.Outcome)
	case !own:
		return fmt.Sprintf("the rule %q of another check", f.RuleID)
	case !known:
		return fmt.Sprintf("the rule %q, which there is not%s", f.RuleID, anotherVersion)
	case f.Severity != rule.Severity || f.RuleVersion != rule.Version:
		return fmt.Sprintf("the rule %q as %s of version %d, which is %s of version %d%s", f.RuleID, f.Severity, f.RuleVersion, rule.Severity, rule.Version, anotherVersion)
	case f.Seq < 0 || f.Attempt < 0 || f.Line < 0 || (f.Line == 0) != (f.Journal == "") || f.Journal != "" && !isJournal(f.Journal):
		return "a place that there is not"
	}
	return ""
}

// Rescore gives the official score of a run by its results: as recorded (raw), with void tasks counted wrong
// (clean), and with those counted wrong, too, that have an open HIGH or REVIEW finding (worst).
//
// Void is a task with a CRITICAL finding, and every task by one about the whole run, whatever its outcome but
// [Attempted]: what was without benefit earned no task its verdict. A CRITICAL finding that [Report.Trusting]
// closed makes nothing void. Where it is about one task, that task is not correct. A HIGH or REVIEW finding about
// the whole run names no task, and moves no score: that the run is not clean, or to be looked at, is what it says.
// A task that an adjudication made void counts wrong in all three. All are over as many tasks as there are results,
// and nil where these have no verdicts.
func Rescore(results iter.Seq[Result], checks []CheckReport) (raw, clean, worst *Rate) {
	decided, void, doubted := Voided(checks), map[string]bool{}, map[string]bool{}
	for f := range findings(checks) {
		void[f.TaskID] = void[f.TaskID] || f.Severity == Critical && f.Outcome != Attempted && f.Closed != Dismiss
		doubted[f.TaskID] = doubted[f.TaskID] || f.Closed == "" && (f.Severity == High || f.Severity == ToReview)
	}
	var counts [3]int // raw, clean, worst
	planned := 0
	for r := range results {
		planned++
		if r.OfficialCorrect == nil {
			return nil, nil, nil
		}
		if !*r.OfficialCorrect || decided[r.TaskID] {
			continue
		}
		counts[0]++
		if void[""] || void[r.TaskID] {
			continue
		}
		counts[1]++
		if !doubted[r.TaskID] {
			counts[2]++
		}
	}
	if planned == 0 {
		return nil, nil, nil
	}
	rate := func(n int) *stats.Rate { r := stats.NewRate(n, planned); return &r }
	return rate(counts[0]), rate(counts[1]), rate(counts[2])
}

// count returns t with the open findings counted by severity.
func (t Totals) count(checks []CheckReport) Totals {
	t.Closed, t.Critical, t.High, t.Review, t.Info = 0, 0, 0, 0, 0
	counts := map[Severity]*int{Critical: &t.Critical, High: &t.High, ToReview: &t.Review, Info: &t.Info}
	for f := range findings(checks) {
		if f.Closed != "" {
			t.Closed++
		} else if n := counts[f.Severity]; n != nil {
			*n++
		}
	}
	return t
}
