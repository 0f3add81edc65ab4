package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestRunEventsOfTheMainJob: each member of a run event is filled by what an attempt of
// the main job did. What is of the workspace takes a sandbox, in which the agent's
// Python can write.
func TestRunEventsOfTheMainJob(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent")
	stats, run, err := rundir.ReadStats(os.DirFS(p.newest()), "")
	if err != nil || !run.Complete {
		t.Fatal(err)
	}
	if len(stats.Events) != len(run.Tasks) {
		t.Errorf("%d events of %d tasks with an attempt each", len(stats.Events), len(run.Tasks))
	}
	filled := map[string]bool{}
	for _, e := range stats.Events {
		fillings("", reflect.ValueOf(e), filled)
	}
	var empty []string
	for name, is := range filled {
		if !is {
			empty = append(empty, name)
		}
	}
	slices.Sort(empty)
	want := []string{".denials.deny_list", ".person_refusals"} // a rehearsal has no deny list and asks no person
	if !offers(run, "python") {
		want = append(want, ".diff_summary.files", ".diff_summary.lines_added", ".diff_summary.lines_removed", ".files_touched", ".rework_lines", ".rollbacks")
	}
	slices.Sort(want)
	if !slices.Equal(empty, want) {
		t.Errorf("no attempt fills %s", strings.Join(empty, ", "))
	}
}

// offers reports whether the agent was given a tool.
func offers(run *rundir.Run, tool string) bool {
	return slices.ContainsFunc(run.Manifest.Tools, func(p plan.ToolPlan) bool { return p.Name == tool })
}

// fillings notes of each member, and of those inside it, whether it was ever more
// than nothing.
func fillings(name string, v reflect.Value, filled map[string]bool) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem() // null is nothing
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			member, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fillings(name+"."+member, v.Field(i), filled)
		}
	case v.Kind() == reflect.Slice:
		filled[name] = filled[name] || v.Len() > 0
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Struct {
				fillings(name, v.Index(i), filled)
			}
		}
	default:
		filled[name] = filled[name] || v.IsValid() && !v.IsZero()
	}
}
