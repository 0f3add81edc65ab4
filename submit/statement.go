package submit

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// What kind of statement the attestation holds.
const (
	PayloadType   = "application/vnd.in-toto+json"
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/gaia-harness/gaia/submission/v1"
	schema        = "gaia.submission/1"
)

// Statement is the attestation's payload: an in-toto v1 statement.
type Statement struct {
	Type          string    `json:"_type"`
	Predicate     Predicate `json:"predicate"`
	PredicateType string    `json:"predicateType"`
	Subject       []Subject `json:"subject"` // every file but attestation.*, by name
}

// Subject is a file of the package.
type Subject struct {
	Digest struct {
		SHA256 string `json:"sha256"` // 64 hexadecimal digits
	} `json:"digest"`
	Name string `json:"name"`
}

// Predicate is what the package says of itself. All of it follows from the
// package's files, except Date, GoldAtHand, Harness, RecordingFailed and Submitter;
// in a public one, except Audit, Dismissals, Prompts, VoidTasks, Withheld and the members
// of AnsweredBy and Exceptions that implausibleVerdict takes from it, too.
type Predicate struct {
	AnsweredBy                plan.AnsweredBy    `json:"answered_by"`
	Audit                     AuditResult        `json:"audit"`
	Claims                    []Claim            `json:"claims"`
	Date                      string             `json:"date"` // self-declared
	Dirty                     bool               `json:"dirty"`
	DirtyReasons              []string           `json:"dirty_reasons"` // why it would have been refused
	Dismissals                []Dismissal        `json:"dismissals,omitempty"`
	Dismissed                 int                `json:"dismissed,omitzero"` // how many Dismissals
	Exceptions                rundir.Exceptions  `json:"exceptions"`
	GaiaSplit                 string             `json:"gaia_split"`
	GoldAtHand                bool               `json:"gold_at_hand"` // self-declared: the audit had the gold answers
	Harness                   trajectory.Harness `json:"harness"`      // self-declared: the program that packaged
	Journal                   Journal            `json:"journal"`
	JudgeCacheIntegrityEvents int                `json:"judge_cache_integrity_events"`
	Judgments                 int                `json:"judgments"` // the run's own, if it has a judge, and those of other judges later
	ManifestSHA256            string             `json:"manifest_sha256"`
	Name                      string             `json:"name"`                      // of the package's folder
	NotForLeaderboard         bool               `json:"not_for_leaderboard"`       // dirty, or a rehearsal
	RecordingFailed           string             `json:"recording_failed,omitzero"` // self-declared: the run's marker
	Prompts                   *rundir.Share      `json:"prompts,omitzero"`          // left out: where the inputs of models come from is not known, or an earlier version made the package
	Public                    bool               `json:"public,omitzero"`           // no text of the run but its plan is in it
	Rehearsal                 bool               `json:"rehearsal,omitzero"`
	Root                      string             `json:"root"` // of the tree in checkpoint, base64
	RunID                     string             `json:"run_id"`
	Schema                    string             `json:"schema"`
	Scores                    *Scores            `json:"scores"` // null: unscored; void tasks count wrong
	Selection                 string             `json:"selection"`
	Submitter                 *Submitter         `json:"submitter,omitzero"` // self-declared
	TasksPlanned              int                `json:"tasks_planned"`
	VoidTasks                 []string           `json:"void_tasks,omitempty"` // by adjudications, in plan order
	VotingAttempts            int                `json:"voting_attempts"`
	VotingRule                string             `json:"voting_rule"`
	Withheld                  []WithheldFile     `json:"withheld,omitempty"` // files of the full package that the public one does not have, by name
}

// Submitter is who submits, as they name themselves: one line each, "" if it is
// not said.
type Submitter struct {
	Contact      string `json:"contact"`
	Organisation string `json:"organisation"`
}

// maxNamed bounds the name of an organisation or a contact, in bytes.
const maxNamed = 200

// Check refuses names that are not one line of text, or say nothing.
func (s Submitter) Check() error {
	if s == (Submitter{}) {
		return errors.New("neither an organisation nor a contact is named")
	}
	for _, of := range [][2]string{{"organisation", s.Organisation}, {"contact", s.Contact}} {
		if len(of[1]) > maxNamed || strings.TrimSpace(of[1]) != of[1] || !utf8.ValidString(of[1]) || strings.ContainsFunc(of[1], visible.Hidden) {
			return fmt.Errorf("the %s %q is not one line of at most %d bytes that can be printed", of[0], of[1], maxNamed)
		}
	}
	return nil
}

// The forms of what a program calls itself, in which no text has room.
const (
	aCommit  = `^([0-9a-f]{1,64})?$`
	aVersion = `^(devel|v?[0-9]{1,4}(\.[0-9]{1,4}){2}([-+][0-9A-Za-z.+-]{1,64})?)$`
)

// checkHarness refuses a program that calls itself as none does.
func checkHarness(h trajectory.Harness) error {
	if !canonical.IsDigest(h.ExecutableSHA256) || !regexp.MustCompile(aCommit).MatchString(h.Commit) || !regexp.MustCompile(aVersion).MatchString(h.Version) {
		return errors.New("its harness is not named by version, commit and digest")
	}
	return nil
}

// AuditResult is the result of the audit.
type AuditResult struct {
	Checks             []CheckResult `json:"checks,omitempty"` // of a public package, whose report is withheld
	Clean              bool          `json:"clean"`
	CountersignedClean bool          `json:"countersigned_clean,omitzero"` // of a full package: not clean, but clean for a reader who trusts the keys that countersigned dismissals
	CriticalFailures   []string      `json:"critical_failures"`            // ids of checks
	HarnessGaps        int           `json:"harness_gaps"`
	ReportSHA256       string        `json:"report_sha256,omitzero"` // of a full package
	StrictClean        bool          `json:"strict_clean"`
	WarnFailures       []string      `json:"warn_failures"` // ids of checks
}

// Dismissal is a finding that a signed decision dismissed. It has no digest and no text of
// the finding, so a public package can list it.
type Dismissal struct {
	Check           string         `json:"check"`
	CountersignedBy string         `json:"countersigned_by,omitzero"` // key id; the dismissal of a CRITICAL finding counts only for readers who trust this key
	KeyID           string         `json:"key_id"`                    // signed the decision
	Severity        audit.Severity `json:"severity"`
	TaskID          string         `json:"task_id,omitzero"` // left out: the whole run
}

// Journal is where events.jsonl ends.
type Journal struct {
	Events int64  `json:"events"`
	Head   string `json:"head"` // digest of the last line
}

// Scores are the two verdicts over all planned tasks.
type Scores struct {
	Judged   *Score `json:"judged,omitzero"` // left out: the plan has no LLM judge
	Official Score  `json:"official"`
}

// Score is a proportion, in parts per million too.
type Score struct {
	Correct int   `json:"correct"`
	Planned int   `json:"planned"`
	PPM     int64 `json:"ppm"`
}

// evidence is all that a statement is made of: what the package's files say, and
// what only whoever packages can.
type evidence struct {
	Predicate // of it, what does not follow from the rest
	plan      plan.Plan
	summary   rundir.Summary
	results   iter.Seq[rundir.Result] // in plan order
	reasons   []string                // against the run
	void      map[string]bool         // tasks, by adjudications
	later     int                     // judgments of other judges after the run
	digests   map[string]string       // of the subjects, "sha256:…"
}

// says returns the members of a predicate that follow from nothing else: the signer's word.
func (p Predicate) says() Predicate {
	return Predicate{Date: p.Date, GoldAtHand: p.GoldAtHand, Harness: p.Harness, RecordingFailed: p.RecordingFailed, Submitter: p.Submitter}
}

// newEvidence gathers what a statement is made of but for the files' digests. Of said only the signer's word counts.
func newEvidence(run *rundir.Run, report audit.Report, later int, said Predicate) (evidence, error) {
	encoded, err := report.Encode()
	if err != nil {
		return evidence{}, err
	}
	e := evidence{Predicate: said.says(), plan: run.Manifest, summary: run.Summary(), later: later,
		reasons: reasons(run, report.Trusting(audit.TrustAll), said.RecordingFailed), void: audit.Voided(report.Checks)}
	for _, d := range report.Dismissals() {
		one := Dismissal{Check: d.Of.Check, KeyID: run.Key.ID(), Severity: d.Of.Severity, TaskID: d.Of.TaskID}
		if d.Pending == audit.PendingTrust {
			one.CountersignedBy = d.Countersigned.KeyID
		}
		e.Dismissals = append(e.Dismissals, one)
	}
	a := report.Attestation
	e.Audit = AuditResult{Clean: a.Clean, CountersignedClean: a.CountersignedClean, CriticalFailures: a.CriticalFailures,
		HarnessGaps: len(a.HarnessGaps), ReportSHA256: canonical.Digest(encoded), StrictClean: a.StrictClean, WarnFailures: a.WarnFailures}
	e.ManifestSHA256, e.Journal, e.Root = run.ManifestSHA256, Journal{run.End.Events, run.End.Head}, run.RootHash
	e.AnsweredBy, e.Exceptions = run.AnsweredBy(), run.Exceptions()
	e.Exceptions.Dismissals, e.Exceptions.VoidTasks = len(e.Dismissals), len(voidTasks(e.plan, e.void))
	e.Prompts, e.results = run.Inputs.Share(), run.Rows()
	return e, nil
}

// statement returns the one statement that evidence gives.
func (e evidence) statement() Statement {
	m, p, dirty := e.plan, e.Predicate, len(e.reasons) > 0
	p.Dirty, p.DirtyReasons, p.Dismissed = dirty, e.reasons, len(p.Dismissals)
	p.GaiaSplit, p.Selection = m.Dataset.Split, m.Dataset.Selection
	p.JudgeCacheIntegrityEvents, p.Judgments = e.summary.JudgeCacheIntegrityEvents, audit.Judgments(m, e.later)
	p.Public, p.NotForLeaderboard, p.Rehearsal = len(p.Withheld) > 0, dirty || m.Rehearsal, m.Rehearsal
	p.Name, p.RunID, p.Schema = name(p.Date, m.RunID, dirty, p.Public), m.RunID, schema
	p.Scores, p.TasksPlanned, p.VoidTasks = e.scores(), len(m.Tasks), voidTasks(m, e.void)
	p.VotingAttempts, p.VotingRule = m.Voting.Attempts, m.Voting.Rule
	p.Claims = p.claims(m, e.summary.Judge, checked{})
	return Statement{Type: StatementType, PredicateType: PredicateType, Subject: newSubjects(e.digests), Predicate: p}
}

// Encode returns the statement's bytes.
func (s Statement) Encode() ([]byte, error) { return canonical.Encode(s) }

func newSubjects(digests map[string]string) []Subject {
	var list []Subject
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		s := Subject{Name: name}
		s.Digest.SHA256 = strings.TrimPrefix(digests[name], "sha256:")
		list = append(list, s)
	}
	return list
}

// digests returns the subjects' digests by name.
func (s Statement) digests() map[string]string {
	digests := make(map[string]string, len(s.Subject))
	for _, subject := range s.Subject {
		digests[subject.Name] = "sha256:" + subject.Digest.SHA256
	}
	return digests
}

// scores returns the scores with void tasks counted wrong; nil if the run is
// unscored.
func (e evidence) scores() *Scores {
	recorded := e.summary.Scores
	if recorded == nil {
		return nil
	}
	official, judged := recorded.Official.Correct, 0
	if recorded.Judged != nil {
		judged = recorded.Judged.Correct
	}
	for r := range e.results {
		if !e.void[r.TaskID] {
			continue
		}
		if r.OfficialCorrect != nil && *r.OfficialCorrect {
			official--
		}
		if r.JudgedCorrect != nil && *r.JudgedCorrect {
			judged--
		}
	}
	of := func(correct int) Score {
		r := stats.NewRate(correct, recorded.Official.Planned)
		return Score{Correct: r.Correct, Planned: r.Planned, PPM: r.AccuracyPPM}
	}
	s := &Scores{Official: of(official)}
	if recorded.Judged != nil {
		s.Judged = new(of(judged))
	}
	return s
}

// voidTasks returns the void ones of the planned tasks, in plan order.
func voidTasks(m plan.Plan, void map[string]bool) []string {
	var ids []string
	for _, t := range m.Tasks {
		if void[t.TaskID] {
			ids = append(ids, t.TaskID)
		}
	}
	return ids
}
