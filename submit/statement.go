package submit

import (
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
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
// package's files, except Date, GoldAtHand, Harness and RecordingFailed.
type Predicate struct {
	Audit                     AuditResult        `json:"audit"`
	Claims                    []Claim            `json:"claims"`
	Date                      string             `json:"date"` // self-declared
	Dirty                     bool               `json:"dirty"`
	DirtyReasons              []string           `json:"dirty_reasons"` // why it would have been refused
	GaiaSplit                 string             `json:"gaia_split"`
	GoldAtHand                bool               `json:"gold_at_hand"` // self-declared: the audit had the gold answers
	Harness                   trajectory.Harness `json:"harness"`      // self-declared: the program that packaged
	Journal                   Journal            `json:"journal"`
	JudgeCacheIntegrityEvents int                `json:"judge_cache_integrity_events"`
	ManifestSHA256            string             `json:"manifest_sha256"`
	Name                      string             `json:"name"`                      // of the package's folder
	NotForLeaderboard         bool               `json:"not_for_leaderboard"`       // dirty, or a rehearsal
	RecordingFailed           string             `json:"recording_failed,omitzero"` // self-declared: the run's marker
	Rehearsal                 bool               `json:"rehearsal,omitzero"`
	Root                      string             `json:"root"` // of the tree in checkpoint, base64
	RunID                     string             `json:"run_id"`
	Schema                    string             `json:"schema"`
	Scores                    *Scores            `json:"scores"` // null: unscored; void tasks count wrong
	Selection                 string             `json:"selection"`
	TasksPlanned              int                `json:"tasks_planned"`
	VoidTasks                 []string           `json:"void_tasks,omitempty"` // by adjudications, in plan order
	VotingAttempts            int                `json:"voting_attempts"`
	VotingRule                string             `json:"voting_rule"`
}

// AuditResult is what the audit came to.
type AuditResult struct {
	Clean            bool     `json:"clean"`
	CriticalFailures []string `json:"critical_failures"` // ids of checks
	HarnessGaps      int      `json:"harness_gaps"`
	ReportSHA256     string   `json:"report_sha256"`
	StrictClean      bool     `json:"strict_clean"`
	WarnFailures     []string `json:"warn_failures"` // ids of checks
}

// Journal is where events.jsonl ends.
type Journal struct {
	Events int64  `json:"events"`
	Head   string `json:"head"` // digest of the last line
}

// Scores are the two verdicts over all planned tasks.
type Scores struct {
	Judged   Score `json:"judged"`
	Official Score `json:"official"`
}

// Score is a proportion, in parts per million too.
type Score struct {
	Correct int   `json:"correct"`
	Planned int   `json:"planned"`
	PPM     int64 `json:"ppm"`
}

// Claim says how far something that a reader may assume is shown.
type Claim struct {
	Claim  string `json:"claim"`
	Means  string `json:"means"`
	Status Status `json:"status"`
}

// Status is how far a claim is shown.
type Status string

// The statuses. What is verified was checked when the package was made.
const (
	ByCheck  Status = "verified"
	BySigner Status = "self_reported"
	Inferred Status = "inferred"
	Absent   Status = "absent"
)

// evidence is all that a statement is made of: the package's files, and what
// only whoever packages can say.
type evidence struct {
	run     *ledger.Run
	report  audit.Report
	digests map[string]string // of the subjects, "sha256:…"

	date            string
	goldAtHand      bool
	harness         trajectory.Harness
	recordingFailed string
}

// statement returns the one statement that evidence gives.
func (e evidence) statement() Statement {
	m := e.run.Manifest
	reasons := reasons(e.run, e.report, e.recordingFailed)
	dirty := len(reasons) > 0
	void := audit.Voided(e.report.Checks)
	a := e.report.Attestation
	return Statement{Type: StatementType, PredicateType: PredicateType, Subject: newSubjects(e.digests), Predicate: Predicate{
		Audit: AuditResult{Clean: a.Clean, CriticalFailures: a.CriticalFailures, HarnessGaps: len(a.HarnessGaps),
			ReportSHA256: e.digests[audit.ReportFile], StrictClean: a.StrictClean, WarnFailures: a.WarnFailures},
		Claims:                    e.claims(),
		Date:                      e.date,
		Dirty:                     dirty,
		DirtyReasons:              reasons,
		GaiaSplit:                 m.Dataset.Split,
		GoldAtHand:                e.goldAtHand,
		Harness:                   e.harness,
		Journal:                   Journal{e.run.End.Events, e.run.End.Head},
		JudgeCacheIntegrityEvents: e.run.Summary().JudgeCacheIntegrityEvents,
		ManifestSHA256:            e.run.ManifestSHA256,
		Name:                      name(e.date, m.RunID, dirty),
		NotForLeaderboard:         dirty || m.Rehearsal,
		RecordingFailed:           e.recordingFailed,
		Rehearsal:                 m.Rehearsal,
		Root:                      e.run.RootHash,
		RunID:                     m.RunID,
		Schema:                    schema,
		Scores:                    newScores(e.run, void),
		Selection:                 m.Dataset.Selection,
		TasksPlanned:              len(m.Tasks),
		VoidTasks:                 voidTasks(m, void),
		VotingAttempts:            m.Voting.Attempts,
		VotingRule:                m.Voting.Rule,
	}}
}

// Encode returns the statement's bytes.
func (s Statement) Encode() ([]byte, error) { return sign.Canonical(s) }

func newSubjects(digests map[string]string) []Subject {
	var list []Subject
	_, adjudicated := digests[audit.AdjudicationsFile]
	for _, name := range subjects(adjudicated) {
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

// newScores returns the scores of a run with void tasks counted wrong; nil if it
// is unscored.
func newScores(run *ledger.Run, void map[string]bool) *Scores {
	recorded := run.Summary().Scores
	if recorded == nil {
		return nil
	}
	official, judged := recorded.Official.Correct, recorded.Judged.Correct
	for _, t := range run.Tasks {
		if !void[t.Plan.TaskID] {
			continue
		}
		r := run.Result(t)
		if r.OfficialCorrect != nil && *r.OfficialCorrect {
			official--
		}
		if r.JudgedCorrect != nil && *r.JudgedCorrect {
			judged--
		}
	}
	of := func(correct int) Score {
		r := ledger.NewRate(correct, recorded.Official.Planned)
		return Score{Correct: r.Correct, Planned: r.Planned, PPM: r.AccuracyPPM}
	}
	return &Scores{Judged: of(judged), Official: of(official)}
}

// voidTasks returns the void ones of the planned tasks, in plan order.
func voidTasks(m ledger.Manifest, void map[string]bool) []string {
	var ids []string
	for _, t := range m.Tasks {
		if void[t.TaskID] {
			ids = append(ids, t.TaskID)
		}
	}
	return ids
}

// claims says what a package shows and what it does not.
func (e evidence) claims() []Claim {
	shownIf := func(yes bool, s Status) Status {
		if yes {
			return s
		}
		return Absent
	}
	scored, judged := e.run.Scored(), e.run.Summary().Judge
	return []Claim{
		{"evidence-chain", "nothing in the plan, the journal and what derives from them was edited, cut, reordered or dropped since it was signed", ByCheck},
		{"scores", "the scores follow from the recorded verdicts, over every planned task", shownIf(scored, ByCheck)},
		{"official-verdicts", "the audit recomputed the official verdicts from the gold answers that the plan commits to", shownIf(scored && e.goldAtHand, ByCheck)},
		{"judge-verdicts", "the LLM judge was asked once about each answer that it judged, and verdicts from the cache are the first that it gave", shownIf(judged != nil && judged.Judged > 0, BySigner)},
		{"judge-battery", "the LLM judge called every answer incorrect that says nothing and that its endpoint let through, before a verdict of it counted", shownIf(judged != nil && judged.Battery != nil && judged.Battery.Withstood, BySigner)},
		{"audit-conclusion", "the audit report is about these files, and its conclusion follows from its findings", ByCheck},
		{"audit-findings", "the findings are all that the checks found", BySigner},
		{"answers-first", "all answers were committed before the first verdict", shownIf(e.run.Manifest.SubmitIntent, Inferred)},
		{"questions", "the questions are those of the dataset that is named", BySigner},
		{"model-identity", "the model that answered is the one that is named", BySigner},
		{"clocks", "the recorded times are right", BySigner},
		{"no-other-channel", "the agent reached nothing but what the journal shows", BySigner},
		{"plan-published-first", "the plan was published before the outcome was known", Absent},
		{"no-discarded-run", "no other run of the same plan was thrown away", Absent},
		{"not-fabricated", "the journal was not made up as a whole by whoever signed it", Absent},
		{"not-trained-on", "the model has not seen the answers in training", Absent},
	}
}
