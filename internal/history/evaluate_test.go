package history_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// steady is an evaluator of one's own: an attempt repeats no call of the model.
type steady struct{}

func (steady) Name() string { return "steady" }

func (s steady) Evaluate(e rundir.RunEvent) history.Evaluation {
	return history.Evaluation{Details: fmt.Sprintf("%d calls repeated", e.Retries), Name: s.Name(), Pass: e.Retries == 0, Score: 1 / float32(1+e.Retries)}
}

// An evaluator of one's own stands beside those that there are.
func ExampleEvaluator() {
	event := rundir.RunEvent{Retries: 1, ReworkLines: 1, DiffSummary: rundir.DiffSummary{LinesAdded: 4},
		TestResults: rundir.TestCounts{Passed: 1, Ran: 1}, Denials: trajectory.Denials{Rule: 1}, Violations: []rundir.Violation{{Class: "rule", RuleID: "R004"}}}
	for _, by := range append(history.Evaluators(history.DefaultLimits()), steady{}) {
		e := by.Evaluate(event)
		fmt.Printf("%s: %t, %.2f: %s\n", e.Name, e.Pass, e.Score, e.Details)
	}
	// Output:
	// tests-pass: true, 1.00: 1 of 1 checks passed, 0 skipped
	// forbidden-command: false, 0.00: violations of R004: 1
	// forbidden-dependency: true, 1.00: violations of R005: 0
	// violation-rate: false, 0.50: violations: 1, at most 0
	// diff-quality: true, 0.75: 1 lines reworked of 4 added and removed, a ratio of 0.25, at most 0.3
	// steady: false, 0.50: 1 calls repeated
}

func TestEvaluators(t *testing.T) {
	broken := func(rules ...string) (v []rundir.Violation) {
		for _, id := range rules {
			v = append(v, rundir.Violation{RuleID: id})
		}
		return v
	}
	diff := func(reworked, added, removed int) rundir.RunEvent {
		return rundir.RunEvent{ReworkLines: reworked, DiffSummary: rundir.DiffSummary{LinesAdded: added, LinesRemoved: removed}}
	}
	checks := func(passed, failed, skipped int) rundir.RunEvent {
		return rundir.RunEvent{TestResults: rundir.TestCounts{Passed: passed, Failed: failed, Ran: passed + failed, Skipped: skipped}}
	}
	limits := history.Limits{Violations: 1, ReworkRatio: 0.3}
	for _, c := range []struct {
		by    int
		event rundir.RunEvent
		pass  bool
		score float32
	}{
		{0, checks(1, 0, 1), true, 1},
		{0, checks(2, 0, 0), true, 1},
		{0, checks(1, 1, 0), false, 0.5},
		{0, checks(0, 1, 0), false, 0},
		{0, checks(0, 0, 2), false, 0},
		{1, rundir.RunEvent{Violations: broken("R001", "R005")}, true, 1},
		{1, rundir.RunEvent{Violations: broken("R001", "R004")}, false, 0},
		{2, rundir.RunEvent{Violations: broken("R001", "R004")}, true, 1},
		{2, rundir.RunEvent{Violations: broken("R005")}, false, 0},
		{3, rundir.RunEvent{}, true, 1},
		{3, rundir.RunEvent{Violations: broken("R001"), Denials: trajectory.Denials{Rule: 1, Mode: 4, Budget: 4}}, true, 0.5},
		{3, rundir.RunEvent{Violations: broken("R001", "R001"), Denials: trajectory.Denials{DenyList: 1, Rule: 1}}, false, float32(1) / 3},
		{4, diff(0, 0, 0), true, 1},
		{4, diff(3, 10, 0), true, 1 - float32(3)/float32(10)},
		{4, diff(3, 4, 6), true, 1 - float32(3)/float32(10)},
		{4, diff(4, 5, 5), false, 1 - float32(4)/float32(10)},
		{4, diff(1, 0, 0), false, 0},
		{4, diff(90, 5, 5), false, 0},
	} {
		by := history.Evaluators(limits)[c.by]
		got := by.Evaluate(c.event)
		if got.Pass != c.pass || got.Score != c.score || got.Name != by.Name() || got.Details == "" {
			t.Errorf("%s of %+v: %+v", by.Name(), c.event, got)
		}
	}
	var names []string
	for _, by := range history.Evaluators(limits) {
		names = append(names, by.Name())
	}
	if !slices.Equal(names, []string{"tests-pass", "forbidden-command", "forbidden-dependency", "violation-rate", "diff-quality"}) {
		t.Errorf("the order is %q", names)
	}
}
