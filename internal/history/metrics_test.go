package history_test

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

func TestMeter(t *testing.T) {
	yes, no := true, false
	under := func(hash string, e rundir.RunEvent) rundir.RunEvent {
		e.GuidanceHash, e.PolicyHash, e.Mode = hash, "p2", "approved"
		return e
	}
	policy := func(hash string, e rundir.RunEvent) rundir.RunEvent {
		e.PolicyHash = hash
		return e
	}
	var meter history.Meter
	for _, e := range []rundir.RunEvent{
		under("g2", attemptOf("run2", "a", "5", 7, &yes, "A", "B")),
		under("g2", attemptOf("run2", "b", "6", 0, nil, "A")),
	} {
		meter.Add(e)
	}
	meter.EndRun()
	for _, e := range []rundir.RunEvent{
		attemptOf("run1", "a", "3", 1, &no, "A"),
		attemptOf("run1", "a", "1", 2, &yes, "A"),         // the second attempt, and first in time
		policy("p9", attemptOf("run1", "a", "9", 3, &no)), // under the guidance of the first
	} {
		meter.Add(e)
	}
	all, guidances := meter.Metrics()
	if diff := cmp.Diff(history.Metrics{Attempts: 5, ReworkLines: 13, SelfCorrected: 3, SelfCorrectionRate: new(float32(3) / 5), Tasks: 3, Violations: 5,
		ViolationsPer10Tasks: new(float32(50) / 3)}, all); diff != "" {
		t.Errorf("all: %s", diff)
	}
	want := []history.GuidanceMetrics{
		{First: "t1", GuidanceHash: "g1", Metrics: history.Metrics{Attempts: 2, ReworkLines: 3, SelfCorrected: 1, SelfCorrectionRate: new(float32(0.5)), Tasks: 1, Violations: 2, ViolationsPer10Tasks: new(float32(20))}},
		{First: "t5", GuidanceHash: "g2", Mode: "approved", PolicyHash: "p2", Metrics: history.Metrics{Attempts: 2, ReworkLines: 7, SelfCorrected: 2, SelfCorrectionRate: new(float32(2) / 3), Tasks: 2, Violations: 3, ViolationsPer10Tasks: new(float32(15))}},
		{First: "t9", GuidanceHash: "g1", PolicyHash: "p9", Metrics: history.Metrics{Attempts: 1, ReworkLines: 3, Tasks: 1, ViolationsPer10Tasks: new(float32(0))}},
	}
	if diff := cmp.Diff(want, guidances); diff != "" {
		t.Errorf("guidances: %s", diff)
	}
	all, guidances = new(history.Meter).Metrics()
	if diff := cmp.Diff(history.Metrics{}, all); diff != "" || guidances == nil || len(guidances) > 0 {
		t.Errorf("of nothing: %s, %v", diff, guidances)
	}
}

// TestDenialsCounted: evaluator and metrics count violations of rules and of the deny list, and sums of the largest counts
// do not overflow.
func TestDenialsCounted(t *testing.T) {
	accepted := true
	e := rundir.RunEvent{Denials: trajectory.Denials{Budget: 1, DenyList: 1, Mode: 2, Rule: 2}, OutcomeAccepted: &accepted, ReworkLines: 1 << 32}
	if rate := history.Evaluators(history.Limits{Violations: 3})[3].Evaluate(e); !rate.Pass || !strings.HasPrefix(rate.Details, "violations: 3,") {
		t.Errorf("%+v", rate)
	}
	var meter history.Meter
	for range 3000 {
		meter.Add(e)
	}
	if all, _ := meter.Metrics(); all.Violations != 9000 || all.SelfCorrected != 9000 || all.ReworkLines != 3000<<32 {
		t.Errorf("metrics %+v", all)
	}
}
