package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
)

// dryPlan is what run --dry-run prints with --json: what would be planned, and
// what it is estimated to cost.
type dryPlan struct {
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

// dryRun plans a run as it would be planned, and prints that with an estimate.
func (a *app) dryRun(ctx context.Context, s *runSettings) error {
	a.tellNews(&s.taskFlags)
	w, err := a.configure(ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	m, err := run.Complete(s.plan, w.Env)
	if err == nil {
		err = run.Affords(m, w.Env)
	}
	if err != nil {
		return cmp.Or(notPlanned(err, m.Budgets.RunCostMicroUSD), err)
	}
	found, unread, err := budget.UsageUnder(s.runs, m)
	if err != nil {
		return fail(exitFailure, err, "choose another place with --out")
	}
	if unread > 0 {
		a.warn(counted(unread, "summary") + " under " + quoteArg(s.runs) + " cannot be read, and count for nothing")
	}
	p := dryPlan{Budgets: m.Budgets, Cassette: m.Cassette, Concurrency: s.concurrency, Dataset: m.Dataset, DryRun: true,
		Estimate: budget.NewEstimate(m, found, w.Prices), Evidence: m.Evidence, Model: m.Model, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode,
		PricesSHA256: m.PricesSHA256, Rehearsal: m.Rehearsal, Search: m.Search, SubmitIntent: m.SubmitIntent, Tasks: m.Tasks, Transcription: m.Transcription, Vision: m.Vision, Voting: m.Voting}
	if e := p.Estimate; e.CostMicroUSD != nil && e.RunBoundMicroUSD != nil && *e.CostMicroUSD > *e.RunBoundMicroUSD {
		a.warn("the estimate, " + dollars(e.CostMicroUSD) + ", is above --max-cost, " + dollars(e.RunBoundMicroUSD) + ": tasks may be left out, and count as wrong")
	}
	if m.Judge != nil {
		p.Judge = m.Judge.Model
	}
	for _, t := range m.Offered() {
		p.Tools = append(p.Tools, t.Name)
	}
	if d := m.Dataset.Mismatch(); d != "" {
		a.warn(d)
	}
	if s.like != nil {
		m.SigningKey, m.Judge = s.like.SigningKey, likeJudge(m.Judge, s.like.Judge) // neither key nor cache was looked for
		m.Tasks = likeAttachments(m.Tasks, s.like.Tasks)
		if err := a.compareWith(s.like, m); err != nil {
			return err
		}
	}
	if s.asJSON {
		return a.printJSON(p)
	}
	return a.printDryRun(m, p)
}

// likeJudge is a planned judge with the cache of another.
func likeJudge(now, old *plan.JudgePlan) *plan.JudgePlan {
	if now == nil || old == nil {
		return now
	}
	judge := *now
	judge.Cache = old.Cache
	return &judge
}

// likeAttachments returns the tasks now with the digests that an earlier plan has
// of their attachments, which a dry run does not read.
func likeAttachments(now, old []plan.PlannedTask) []plan.PlannedTask {
	digests := make(map[string]plan.PlannedTask, len(old))
	for _, t := range old {
		digests[t.TaskID] = t
	}
	now = slices.Clone(now)
	for i, t := range now {
		if old := digests[t.TaskID]; old.FileName == t.FileName {
			now[i].FileBytes, now[i].FileSHA256 = old.FileBytes, old.FileSHA256
		}
	}
	return now
}

func (a *app) printDryRun(m plan.Plan, p dryPlan) error {
	rows := [][2]string{{"dry run", "nothing was asked of a model, and nothing was made"}}
	if p.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
	}
	rows = append(rows, chosen(m)...)
	levels := [3]int{}
	for _, t := range p.Tasks {
		levels[t.Level-1]++
	}
	rows = append(rows, [2]string{"tasks", fmt.Sprintf("%d (%d/%d/%d by level), %s each", len(p.Tasks), levels[0], levels[1], levels[2], counted(p.Voting.Attempts, "attempt"))},
		[2]string{"model", modelRow(p.Model)})
	if p.Judge != "" {
		rows = append(rows, [2]string{"judge", p.Judge})
	}
	if p.Transcription != nil {
		rows = append(rows, [2]string{"transcription", p.Transcription.Model})
	}
	if p.Vision != nil {
		rows = append(rows, [2]string{"vision", p.Vision.Model})
	}
	if p.Search != nil {
		rows = append(rows, [2]string{"search", p.Search.Engine + " at " + p.Search.Origin})
	}
	rows = append(rows, [2]string{"tools", strings.Join(p.Tools, ", ")},
		[2]string{"policy", p.PolicyMode + " " + p.PolicyHash},
		[2]string{"budgets", budgetRow(p.Budgets)},
		[2]string{"concurrency", p.Concurrency},
		[2]string{"evidence", p.Evidence},
		[2]string{"submit", fmt.Sprintf("intended: %t", p.SubmitIntent)})
	if p.Cassette != "" {
		rows = append(rows, [2]string{"cassette", p.Cassette})
	}
	return a.printRows(append(rows, p.Estimate.Rows()...))
}

func modelRow(m plan.ModelPlan) string {
	parts := []string{m.Name + " at " + m.Origin}
	if len(m.ServedAs) > 0 {
		parts = append(parts, "served as "+strings.Join(m.ServedAs, " or "))
	}
	if m.API != "" {
		parts = append(parts, "by "+m.API)
	}
	if m.Images {
		parts = append(parts, "with pictures")
	}
	if m.NoTemperature {
		parts = append(parts, "without a temperature")
	}
	if m.MaxTokens > 0 {
		parts = append(parts, fmt.Sprintf("completions up to %d tokens", m.MaxTokens))
	}
	if m.ContextWindow > 0 {
		parts = append(parts, fmt.Sprintf("a window of %d tokens", m.ContextWindow))
	}
	return strings.Join(parts, ", ")
}

// budgetRow says what bounds an attempt, and what the run.
func budgetRow(b plan.Budgets) string {
	parts := []string{counted(b.Turns, "turn")}
	if b.ToolCalls > 0 {
		parts = append(parts, counted(b.ToolCalls, "tool call"))
	}
	if b.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", b.Tokens))
	}
	if b.WallMs > 0 {
		parts = append(parts, (time.Duration(b.WallMs) * time.Millisecond).String())
	}
	if b.CostMicroUSD > 0 {
		parts = append(parts, dollars(&b.CostMicroUSD))
	}
	line := strings.Join(parts, ", ") + " an attempt"
	if b.RunCostMicroUSD > 0 {
		line += "; " + dollars(&b.RunCostMicroUSD) + " the run"
	}
	return line
}
