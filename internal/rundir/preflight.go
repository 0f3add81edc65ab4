package rundir

import (
	"slices"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// PreflightSummary adds up the preflight requests to the models of the plan, in all processes of the run.
type PreflightSummary struct {
	CostMicroUSD *int64   `json:"cost_microusd"`        // null: a price is unknown
	Kinds        []string `json:"kinds"`                // trajectory.PreflightModel and so on; in order, each once
	Requests     int      `json:"requests"`             // that were sent, retries included
	TokensIn     int64    `json:"tokens_in"`            //
	TokensOut    int64    `json:"tokens_out"`           //
	Tool         string   `json:"tool,omitzero"`        // what the model did that was asked to call a tool; left out: it was not, or gave no reply
	Unanswered   []string `json:"unanswered,omitempty"` // kinds of which no request, or not all, were answered the last time
}

// preflight takes what came of asking a model of the plan before any task began.
func (f *Fold) preflight(p trajectory.Preflight) (reason string) {
	model, planned := f.Manifest.PreflightModel(p.Kind)
	resumed := f.part.resumed
	failed := p.Error != nil
	switch {
	case f.Manifest.NoPreflight || f.Manifest.Cassette == plan.CassetteReplay:
		return "asks a model before the tasks, which the plan leaves out"
	case !planned || p.Model != model:
		return "asks a model before the tasks that the plan does not have"
	case f.part.begun:
		return "asks a model before the tasks, of which one has begun"
	case slices.Contains(f.part.asked, p.Kind), resumed && p.Kind != trajectory.PreflightModel,
		p.Kind != trajectory.PreflightModel && !slices.Contains(f.part.asked, trajectory.PreflightModel):
		return "asks a model before the tasks out of order"
	case p.Requests < 0 || p.Requests > maxRequests || p.LatencyMs < 0 || len(p.RequestIDs) > p.Requests || p.Requests == 0 && !failed:
		return "miscounts the requests before the tasks"
	case !slices.Contains(toolUses(p.Kind, failed), p.Tool):
		return "names a use of a tool that its kind cannot have"
	case failed && (p.Error.Code == "" || p.Error.Status < 0):
		return "has an error without a code"
	case !f.count(p):
		return "its tokens or costs cannot be added up"
	}
	f.part.asked = append(f.part.asked, p.Kind)
	s := f.preflights
	if s == nil {
		s = &PreflightSummary{CostMicroUSD: new(int64)}
		f.preflights = s
	}
	if !slices.Contains(s.Kinds, p.Kind) {
		s.Kinds = append(s.Kinds, p.Kind)
	}
	s.CostMicroUSD = stats.AddCost(s.CostMicroUSD, p.CostMicroUSD)
	s.Requests += p.Requests
	s.TokensIn += p.Tokens.In
	s.TokensOut += p.Tokens.Out
	if p.Kind == trajectory.PreflightTools {
		s.Tool = p.Tool
	}
	s.Unanswered = slices.DeleteFunc(s.Unanswered, func(kind string) bool { return kind == p.Kind })
	if failed {
		s.Unanswered = append(s.Unanswered, p.Kind)
	}
	return ""
}

// toolUses lists what a preflight of a kind may say of a tool.
func toolUses(kind string, failed bool) []string {
	switch {
	case kind != trajectory.PreflightTools:
		return []string{""}
	case failed: // after the call, or before it
		return []string{"", trajectory.ToolCalled}
	}
	return []string{trajectory.ToolCalled, trajectory.ToolOther, trajectory.ToolNone}
}

// Preflight returns what was asked before tasks began, nil if nothing was.
func (f *Fold) Preflight() *PreflightSummary { return f.preflights }

// Contradicts reports whether a run of the plan cannot have the summary of what was asked before its tasks. One that it
// can have holds no free text.
func (s PreflightSummary) Contradicts(m plan.Plan) bool {
	counts := []int64{int64(s.Requests), s.TokensIn, s.TokensOut}
	if s.CostMicroUSD != nil {
		counts = append(counts, *s.CostMicroUSD)
	}
	kinds := []string{trajectory.PreflightModel, trajectory.PreflightTools, trajectory.PreflightJudge, trajectory.PreflightVision, trajectory.PreflightTranscription}
	next := 0
	for _, kind := range s.Kinds {
		_, planned := m.PreflightModel(kind)
		at := slices.Index(kinds[next:], kind)
		if !planned || at < 0 {
			return true
		}
		next += at + 1
	}
	unknown := func(kind string) bool { return !slices.Contains(s.Kinds, kind) }
	unanswered := slices.Clone(s.Unanswered)
	slices.Sort(unanswered)
	asked := slices.Contains(s.Kinds, trajectory.PreflightTools)
	return m.NoPreflight || m.Cassette == plan.CassetteReplay || slices.Min(counts) < 0 || unknown(trajectory.PreflightModel) ||
		slices.ContainsFunc(s.Unanswered, unknown) || len(slices.Compact(unanswered)) != len(s.Unanswered) ||
		s.Tool != "" && (!asked || !slices.Contains(toolUses(trajectory.PreflightTools, false), s.Tool))
}
