package history_test

import (
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// attemptOf is an attempt at a task of a run that broke rules.
func attemptOf(run, task, id string, rework int, accepted *bool, rules ...string) rundir.RunEvent {
	e := rundir.RunEvent{ID: id, RunID: run, TaskID: task, ReworkLines: rework, OutcomeAccepted: accepted, GuidanceHash: "g1", Timestamp: "t" + id}
	for _, rule := range rules {
		e.Violations = append(e.Violations, rundir.Violation{Class: "rule", RuleID: rule, Severity: "s" + rule})
		e.Denials.Rule++
	}
	return e
}

func TestRanking(t *testing.T) {
	events := []rundir.RunEvent{
		attemptOf("r", "1", "1", 10, nil, "A", "A", "B"),
		attemptOf("r", "2", "2", 5, nil, "A"),
		attemptOf("r", "3", "3", 100, nil),
		attemptOf("r", "4", "4", 20, nil, "C", "D"),
		attemptOf("r", "5", "5", 0, nil, "E", "E", "E"),
		attemptOf("r", "6", "6", 5, nil, "F", "F"),
		attemptOf("r", "7", "7", 0, nil, "G", "G", "G"),
	}
	want := []history.RankedRule{ // A: 3 × 15 ÷ 2
		{Attempts: 2, Frequency: 3, MeanRework: 7.5, RuleID: "A", Score: 22.5},
		{Attempts: 1, Frequency: 1, MeanRework: 20, RuleID: "C", Score: 20},
		{Attempts: 1, Frequency: 1, MeanRework: 20, RuleID: "D", Score: 20},
		{Attempts: 1, Frequency: 2, MeanRework: 5, RuleID: "F", Score: 10},
		{Attempts: 1, Frequency: 1, MeanRework: 10, RuleID: "B", Score: 10},
		{Attempts: 1, Frequency: 3, MeanRework: 0, RuleID: "E", Score: 0},
		{Attempts: 1, Frequency: 3, MeanRework: 0, RuleID: "G", Score: 0},
	}
	for i := range want {
		want[i].Severity = "s" + want[i].RuleID
	}
	for range 2 {
		var r history.Ranking
		for _, e := range events {
			r.Add(e)
		}
		if diff := cmp.Diff(want, r.Rules(), cmpopts.IgnoreUnexported(history.RankedRule{})); diff != "" {
			t.Error(diff)
		}
		slices.Reverse(events)
	}
	if got := new(history.Ranking).Rules(); got == nil || len(got) > 0 {
		t.Errorf("nothing ranks as %v", got)
	}
}

// TestRankingExact: scores are told apart that no float can.
func TestRankingExact(t *testing.T) {
	const big = 1<<53 - 1
	var r history.Ranking
	r.Add(attemptOf("r", "1", "1", big, nil, "B")) // 2⁵³−1, to a float what 2⁵³−2 is
	r.Add(attemptOf("r", "2", "2", big-1, nil, "A"))
	got := r.Rules()
	if got[0].RuleID != "B" || got[0].Score != got[1].Score {
		t.Errorf("%+v", got)
	}
}
