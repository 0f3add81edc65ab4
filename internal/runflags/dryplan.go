package runflags

import (
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
)

// DryPlan is what run --dry-run prints with --json: what would be planned, and what it is estimated to cost.
type DryPlan struct {
	Agent         *plan.AgentPlan         `json:"agent,omitzero"`
	Budgets       plan.Budgets            `json:"budgets"`
	Cassette      string                  `json:"cassette,omitzero"`
	Concurrency   string                  `json:"concurrency"`
	Dataset       plan.Dataset            `json:"dataset"`
	DryRun        bool                    `json:"dry_run"` // always true
	Estimate      budget.Estimate         `json:"estimate"`
	Evidence      string                  `json:"evidence"`
	Judge         string                  `json:"judge,omitzero"`
	Model         plan.ModelPlan          `json:"model"`
	PolicyHash    string                  `json:"policy_hash"`
	PolicyMode    string                  `json:"policy_mode"`
	PricesSHA256  string                  `json:"prices_sha256"`
	Rehearsal     bool                    `json:"rehearsal,omitzero"`
	Search        *plan.SearchPlan        `json:"search,omitzero"`
	SubmitIntent  bool                    `json:"submit_intent"`
	Tasks         []plan.PlannedTask      `json:"tasks"`
	Tools         []string                `json:"tools"`
	Transcription *plan.TranscriptionPlan `json:"transcription,omitzero"`
	Vision        *plan.VisionPlan        `json:"vision,omitzero"`
	Voting        plan.VotingPlan         `json:"voting"`
}

// DryPlan describes the plan that these settings give.
func (s *Settings) DryPlan(m plan.Plan, e budget.Estimate) DryPlan {
	p := DryPlan{Agent: m.Agent, Budgets: m.Budgets, Cassette: m.Cassette, Concurrency: s.Concurrency, Dataset: m.Dataset, DryRun: true,
		Estimate: e, Evidence: m.Evidence, Model: m.Model, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode,
		PricesSHA256: m.PricesSHA256, Rehearsal: m.Rehearsal, Search: m.Search, SubmitIntent: m.SubmitIntent, Tasks: m.Tasks, Transcription: m.Transcription, Vision: m.Vision, Voting: m.Voting}
	if m.Judge != nil {
		p.Judge = m.Judge.Model
	}
	for _, t := range m.Offered() {
		p.Tools = append(p.Tools, t.Name)
	}
	return p
}

// Text is the plan m for a person.
func (p DryPlan) Text(m plan.Plan) string {
	rows := append([][2]string{{"dry run", "no model was asked, and nothing was written"}}, runview.Plan(m)...)
	rows = append(rows, [2]string{"concurrency", p.Concurrency})
	return view.RowsText(append(rows, p.Estimate.Rows()...))
}
