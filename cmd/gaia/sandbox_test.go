package main

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/runflags"
)

// A run that was planned with python keeps it, and one that was planned without does not get it.
func TestPlannedPython(t *testing.T) {
	planned := func(m plan.Plan) *runflags.Settings {
		s := &runflags.Settings{Concurrency: runflags.AutoConcurrency, OnLost: runflags.GoOn}
		m.Rehearsal, m.Policy.Mode = true, policy.Autonomous
		if err := (&app{}).goOn(s, m); err != nil {
			t.Fatal(err)
		}
		return s
	}
	python := []plan.ToolPlan{{Name: "calculate"}, {Name: runflags.PythonName}}
	for want, m := range map[string]plan.Plan{runflags.PythonNo: {Tools: python[:1]}, runflags.PythonConfined: {Tools: python}} {
		if s := planned(m); s.Python != want {
			t.Errorf("%q instead of %q", s.Python, want)
		}
	}
	if s := planned(plan.Plan{Tools: python, Unconfined: []string{"mcp:x", runflags.PythonName}}); s.Python != runflags.PythonUnconfined {
		t.Errorf("unconfined: %q", s.Python)
	}
}
