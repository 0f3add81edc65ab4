package rundir_test

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
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
	var meter rundir.Meter
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
	if diff := cmp.Diff(rundir.Metrics{Attempts: 5, ReworkLines: 13, SelfCorrected: 3, SelfCorrectionRate: new(float32(3) / 5), Tasks: 3, Violations: 5,
		ViolationsPer10Tasks: new(float32(50) / 3)}, all); diff != "" {
		t.Errorf("all: %s", diff)
	}
	want := []rundir.GuidanceMetrics{
		{First: "t1", GuidanceHash: "g1", Metrics: rundir.Metrics{Attempts: 2, ReworkLines: 3, SelfCorrected: 1, SelfCorrectionRate: new(float32(0.5)), Tasks: 1, Violations: 2, ViolationsPer10Tasks: new(float32(20))}},
		{First: "t5", GuidanceHash: "g2", Mode: "approved", PolicyHash: "p2", Metrics: rundir.Metrics{Attempts: 2, ReworkLines: 7, SelfCorrected: 2, SelfCorrectionRate: new(float32(2) / 3), Tasks: 2, Violations: 3, ViolationsPer10Tasks: new(float32(15))}},
		{First: "t9", GuidanceHash: "g1", PolicyHash: "p9", Metrics: rundir.Metrics{Attempts: 1, ReworkLines: 3, Tasks: 1, ViolationsPer10Tasks: new(float32(0))}},
	}
	if diff := cmp.Diff(want, guidances); diff != "" {
		t.Errorf("guidances: %s", diff)
	}
	all, guidances = new(rundir.Meter).Metrics()
	if diff := cmp.Diff(rundir.Metrics{}, all); diff != "" || guidances == nil || len(guidances) > 0 {
		t.Errorf("of nothing: %s, %v", diff, guidances)
	}
}
