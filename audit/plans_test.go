package audit

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestVotingDeclared: which plans say how answers are gathered and one of them
// is chosen.
func TestVotingDeclared(t *testing.T) {
	tests := []struct {
		plan plan.VotingPlan
		gap  string
	}{
		{plan.VotingPlan{Attempts: 1, Rule: plan.VoteFirst}, ""},
		{plan.VotingPlan{Attempts: 2, Rule: plan.VoteMajority}, ""},
		{plan.VotingPlan{Attempts: 5, Rule: plan.VoteMajority}, ""},
		{plan.VotingPlan{}, "does not declare"},
		{plan.VotingPlan{Attempts: 3}, "does not declare"},
		{plan.VotingPlan{Rule: plan.VoteFirst}, "does not declare"},
		{plan.VotingPlan{Attempts: 2, Rule: plan.VoteFirst}, `by the rule "first", which this version does not know`},
		{plan.VotingPlan{Attempts: 1, Rule: plan.VoteMajority}, `by the rule "majority.v1", which`},
		{plan.VotingPlan{Attempts: 3, Rule: "majority"}, `by the rule "majority", which`},
	}
	for _, tt := range tests {
		k := newTalk()
		k.g.e.Manifest.Voting, k.g.e.Manifest.Retry.FreeReattempts = tt.plan, plan.FreeReattempts
		got := k.reports()["AUD-6"]
		if tt.gap == "" && got.Status != Pass || tt.gap != "" && (got.Status != Skip || !says(got, tt.gap)) {
			t.Errorf("%v: %s %q, want %q", tt.plan, got.Status, got.Gaps, tt.gap)
		}
	}
}

// TestFewerAnswers: it is said where a vote has fewer answers than declared, and
// where there is none nothing is missing.
func TestFewerAnswers(t *testing.T) {
	answered := &trajectory.AttemptEnded{Outcome: trajectory.Answered}
	lost := &trajectory.AttemptEnded{Outcome: trajectory.Errored}
	tests := []struct {
		plan  int
		ended []*trajectory.AttemptEnded
		want  bool
	}{
		{1, []*trajectory.AttemptEnded{lost, lost}, false},
		{1, []*trajectory.AttemptEnded{answered}, false},
		{3, nil, false},
		{3, []*trajectory.AttemptEnded{answered, lost, answered, answered}, false},
		{3, []*trajectory.AttemptEnded{answered, {Outcome: trajectory.NoAnswer}, answered}, false},
		{3, []*trajectory.AttemptEnded{answered, lost, answered}, true},
	}
	for _, tt := range tests {
		task := &taskEvidence{Plan: &plan.PlannedTask{}}
		for i, ended := range tt.ended {
			task.Attempts = append(task.Attempts, &attemptEvidence{Number: i + 1, Committed: -1, Judged: -1, Ended: ended})
		}
		e := &evidence{Tasks: []*taskEvidence{task}}
		e.Manifest.Voting = plan.VotingPlan{Attempts: tt.plan, Rule: plan.VoteMajority}
		for _, c := range runChecks(e, Options{}).Checks {
			if c.ID == "AUD-6" && says(c, "fewer-answers-than-declared") != tt.want {
				t.Errorf("%d of %d: %v", len(tt.ended), tt.plan, c.Findings)
			}
		}
	}
}

// TestModelOfTool: a tool asks the model that the plan has for it.
func TestModelOfTool(t *testing.T) {
	hearing := &plan.TranscriptionPlan{Model: "sample-hearing"}
	tests := []struct {
		name string
		plan *plan.TranscriptionPlan
		used *trajectory.ModelUse
		want bool
	}{
		{"as planned", hearing, &trajectory.ModelUse{RequestedModel: "sample-hearing"}, false},
		{"none", hearing, nil, false},
		{"another one", hearing, &trajectory.ModelUse{RequestedModel: "sample-model"}, true},
		{"none planned", nil, &trajectory.ModelUse{RequestedModel: "sample-hearing"}, true},
	}
	for _, tt := range tests {
		k := newTalk()
		k.g.e.Manifest.Transcription, k.g.e.Manifest.Tools = tt.plan, []plan.ToolPlan{{Name: "transcribe_audio"}}
		c := trajectory.SentCall{Arguments: "{}", ID: "1", Name: "transcribe_audio"}
		k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{c}}, nil)
		k.call(c, "words", func(p *trajectory.ToolExecuted) { p.Model = tt.used })
		if got := says(k.reports()["AUD-12"], "transcribe_audio asked the model"); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestBeyond: the turns that may follow when a budget is spent.
func TestBeyond(t *testing.T) {
	spent, last, silent := turnFact{Us: 1, Asked: true}, turnFact{Us: 1, Asked: true, Last: true}, turnFact{Us: 1}
	early := turnFact{Asked: true}
	tests := []struct {
		name    string
		unaware int
		turns   []turnFact
		want    int // the turn that is found; -1 for none
	}{
		{"none", 0, nil, -1},
		{"before", 0, []turnFact{early, early}, -1},
		{"the last one", 0, []turnFact{early, last}, -1},
		{"the last one alone", 0, []turnFact{last}, -1},
		{"another one", 0, []turnFact{early, spent}, 1},
		{"another one after the last", 0, []turnFact{last, spent}, 1},
		{"two last ones", 0, []turnFact{last, last}, 1},
		{"one without a request", 0, []turnFact{silent}, -1},
		{"one without a request, and the last", 0, []turnFact{silent, last}, -1},
		{"unaware", 1, []turnFact{early, spent}, -1},
		{"unaware and the last", 1, []turnFact{spent, last}, -1},
		{"unaware twice", 1, []turnFact{early, spent, spent}, 2},
		{"unaware, the last, and another one", 1, []turnFact{spent, last, spent}, 2},
		{"unaware, and two last ones", 1, []turnFact{spent, last, last}, 2},
	}
	for _, tt := range tests {
		a := &attemptEvidence{Turns: tt.turns}
		got := a.beyond(tt.unaware, func(turn turnFact) bool { return turn.Us > 0 })
		if tt.want < 0 && got != nil || tt.want >= 0 && got != &a.Turns[tt.want] {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestRunSpent: what counts as money of the run, and where it is spent.
func TestRunSpent(t *testing.T) {
	c := func(n int64) *int64 { return &n }
	reply := func(cost *int64) trajectory.Payload {
		return trajectory.ModelCallCompleted{CostMicroUSD: cost, OutputSHA256: "sha256:"}
	}
	tests := []struct {
		name   string
		events []trajectory.Payload
		want   int64 // from 1; 0 for nowhere
	}{
		{"to the last", []trajectory.Payload{reply(c(60)), reply(c(40))}, 0},
		{"by a reply", []trajectory.Payload{reply(c(60)), reply(c(41)), reply(c(1))}, 2},
		{"by a judgment", []trajectory.Payload{reply(c(60)), trajectory.Judgment{CostMicroUSD: c(41)}}, 2},
		{"by what a tool asked", []trajectory.Payload{reply(c(60)), trajectory.ToolExecuted{Model: &trajectory.ModelUse{CostMicroUSD: c(41)}}}, 2},
		{"by a try without a reply", []trajectory.Payload{reply(c(60)), trajectory.ModelCallCompleted{CostMicroUSD: c(41)}}, 0},
		{"by what has no known price", []trajectory.Payload{reply(nil), trajectory.Judgment{}, trajectory.ToolExecuted{Model: &trajectory.ModelUse{}}}, 0},
	}
	for _, tt := range tests {
		g := newGatherer(plan.Plan{Budgets: plan.Budgets{RunCostMicroUSD: 100}}, nil)
		g.begin(trajectory.Event{}, trajectory.RunStarted{})
		for i, p := range tt.events {
			g.spend(trajectory.Event{Seq: int64(i + 1), Payload: p})
		}
		if g.e.Journals[0].Spent != tt.want {
			t.Errorf("%s: in line %d, want %d", tt.name, g.e.Journals[0].Spent, tt.want)
		}
	}
}
