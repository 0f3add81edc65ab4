package board

import (
	"cmp"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/submit"
)

// Schema is that of data.json.
const Schema = "gaia.board/1"

// SelfAttested is what is proven of each package for now: its bytes are what the holder of a key signed.
const SelfAttested = "self-attested"

// Data is data.json, and what the pages show.
type Data struct {
	Date        string     `json:"date"` // of the newest package that counts; "" for none
	Description string     `json:"description"`
	Excluded    []Excluded `json:"excluded"`  // packages that do not count, by the names of their files
	LevelPPM    int64      `json:"level_ppm"` // bound, in parts per million, on the chance that luck alone separates any pair
	Packages    []Row      `json:"packages"`  // that count, the best first
	Pairs       int        `json:"pairs"`     // that were compared
	Paired      int        `json:"paired"`    // of them, by the tasks that only one solved
	Rules       Rules      `json:"rules"`
	Schema      string     `json:"schema"`
	Title       string     `json:"title"`
	Unmatched   []string   `json:"unmatched,omitempty"` // exclusions that match no package
}

// Excluded is a package that does not count.
type Excluded struct {
	File    string   `json:"file"`
	Reasons []string `json:"reasons"`
	Row     *Row     `json:"package,omitzero"` // left out: it does not verify
}

// Rank is the range of ranks that a package can have. It is 0 to 0 of one that does not count.
type Rank struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Level is the score of a level.
type Level struct {
	Level int        `json:"level"`
	Score stats.Rate `json:"score"`
}

// Check is a check of the audit.
type Check struct {
	ID       string `json:"id"`
	Findings int    `json:"findings"`
	Gaps     int    `json:"gaps"`
	Status   string `json:"status"`
}

// Finding is a finding of the audit, without what was found, which can be text of a task.
type Finding struct {
	Closed   string `json:"closed,omitzero"` // the decision; left out: open
	Line     int64  `json:"line"`            // of the journal, from 1
	Reason   string `json:"reason,omitzero"` // of the decision
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	TaskID   string `json:"task_id,omitzero"` // left out: the whole run
}

// maxFindings bounds the findings of a package that are listed.
const maxFindings = 200

// Signer is who signed a package.
type Signer struct {
	KeyID     string `json:"key_id"`
	Name      string `json:"name,omitzero"` // by which the board's trusted keys call it
	PublicKey string `json:"public_key"`    // OpenSSH line
	Trusted   bool   `json:"trusted"`
}

// Row is a package that verifies.
type Row struct {
	Agent             string            `json:"agent"`
	AttestationSHA256 string            `json:"attestation_sha256"` // the digest of the package
	Checks            []Check           `json:"checks"`
	Claims            []submit.Claim    `json:"claims"`
	CostMicroUSD      *int64            `json:"cost_microusd"` // null: a price is unknown
	Dataset           string            `json:"dataset"`
	Date              string            `json:"date"`
	Dismissed         int               `json:"dismissed"` // findings, by signed decisions
	DurationMs        int64             `json:"duration_ms"`
	Exceptions        rundir.Exceptions `json:"exceptions"`
	File              string            `json:"file"`               // its name in the folder of packages
	Findings          []Finding         `json:"findings,omitempty"` // of a full package, at most maxFindings
	Judged            *stats.Rate       `json:"judged,omitzero"`    // left out: the run has no LLM judge
	Levels            []Level           `json:"levels"`             // ascending
	ManifestSHA256    string            `json:"manifest_sha256"`
	Model             string            `json:"model"`
	NotRebuilt        string            `json:"not_rebuilt,omitzero"` // why README.md was not made again
	NotRerun          string            `json:"not_rerun,omitzero"`   // why the audit was not run again; of a full package
	Origin            string            `json:"origin"`               // of the model's endpoint
	OwnAgent          *plan.OwnAgent    `json:"own_agent,omitzero"`   // left out: the built-in agent
	Package           string            `json:"package"`              // its name
	Planned           int               `json:"planned"`              // tasks
	Prompts           *rundir.Share     `json:"prompts,omitzero"`     // of an own agent: bytes that models were sent, and those of them that are witnessed
	Proven            string            `json:"proven"`
	Public            bool              `json:"public,omitzero"`
	Rank              Rank              `json:"rank"`
	Rehearsal         bool              `json:"rehearsal,omitzero"`
	Reviews           []string          `json:"reviews"` // checks with findings that a person must review
	Revision          string            `json:"revision"`
	RunID             string            `json:"run_id"`
	Score             *stats.Rate       `json:"score"` // official, void tasks counted wrong; null: unscored
	Selection         string            `json:"selection"`
	Signer            Signer            `json:"signer"`
	Split             string            `json:"split"`
	Submitter         *submit.Submitter `json:"submitter,omitzero"`
	Tokens            int64             `json:"tokens"`
	Void              int               `json:"void"` // tasks, by signed decisions
	VotingAttempts    int               `json:"voting_attempts"`
}

// newData returns what the site shows. It ranks the packages that count.
func newData(texts settingsOf, rules Rules, all []*entry, unmatched []string) Data {
	d := Data{Description: texts.Description, Excluded: []Excluded{}, LevelPPM: levelPPM, Packages: []Row{}, Rules: rules, Schema: Schema,
		Title: cmp.Or(texts.Title, "Leaderboard"), Unmatched: unmatched}
	var counted []*entry
	for _, e := range all {
		if len(e.reasons) == 0 {
			counted = append(counted, e)
			continue
		}
		x := Excluded{File: e.file, Row: e.row}
		for _, r := range e.reasons {
			x.Reasons = append(x.Reasons, r.text)
		}
		d.Excluded = append(d.Excluded, x)
	}
	for _, p := range rank(counted) {
		d.Pairs++
		if p.test == testPaired {
			d.Paired++
		}
	}
	for _, e := range counted {
		d.Packages, d.Date = append(d.Packages, *e.row), max(d.Date, e.row.Date)
	}
	return d
}
