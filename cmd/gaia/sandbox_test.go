package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/tools/sandbox"
)

// A run that was planned with python does not go on without it, and one that was
// planned without does not get it.
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
	for name, tt := range map[string]struct {
		plan          plan.Plan
		want          string
		fails, stderr string
	}{
		"without":    {plan.Plan{Tools: python[:1]}, runflags.PythonNo, "", ""},
		"in sandbox": {plan.Plan{Tools: python}, runflags.PythonConfined, "the run was planned with python in the sandbox, which does not work here: bubblewrap is not installed", ""},
	} {
		s := planned(tt.plan)
		var stderr bytes.Buffer
		a := &app{stdout: io.Discard, stderr: &stderr, getenv: func(string) string { return "" }}
		w := &world{noSandbox: &sandbox.Unusable{Why: "bubblewrap is not installed", Remedy: "install it"}}
		err := a.addPython(s, w, found{noPython: w.noSandbox})
		if s.Python != tt.want || (err == nil) != (tt.fails == "") || err != nil && err.Error() != tt.fails || stderr.String() != tt.stderr || len(w.Tools) > 0 {
			t.Errorf("%s: %q, %v, %q", name, s.Python, err, stderr.String())
		}
	}
	if s := planned(plan.Plan{Tools: python, Unconfined: []string{"mcp:x", runflags.PythonName}}); s.Python != runflags.PythonUnconfined {
		t.Errorf("unconfined: %q", s.Python)
	}
}

// What holds answers, keys and runs is hidden, and so is this program.
func TestHidden(t *testing.T) {
	variables := map[string]string{"HOME": "/home/x", "HF_HOME": "/data/hf", "XDG_CONFIG_HOME": "/conf", "GAIA_SIGNING_KEY_FILE": "/keys/mine"}
	a := &app{getenv: func(name string) string { return variables[name] }}
	s := &runflags.Settings{}
	s.Source, s.Runs, s.Key, s.Cassette = "dir:/data/copy", "/runs", "/keys/other", "record:/tape"
	got, err := a.hidden(s)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{executable, "runs", "/runs", "/data/copy", "/keys/other", "/keys/mine", "/tape", filepath.Join("/data/hf", "hub"), "/conf/gaia", "/home/x/.cache/gaia", "/home/x/.local/share/gaia"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not hidden: %q", want, got)
		}
	}
}
