package rundir_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCutOff cuts the last lines off a finished run, from one to all of them.
// That the end is missing is said by name, also where the records were cut to
// fit, the end was put back, or everything was signed again.
//
// Who also takes away what was written when the run was closed has a run that
// was never finished. Nothing tells it from one but a checkpoint that was
// published; so it is never taken for a finished one.
func TestCutOff(t *testing.T) {
	t.Parallel()
	run, _ := varied(t)
	s := lines(t, run)
	whole := bytes.SplitAfter(bytes.TrimSuffix(run[trajectory.JournalFile], []byte("\n")), []byte("\n"))
	if len(whole) != len(s) || len(s) < 60 {
		t.Fatalf("%d lines of %d", len(whole), len(s))
	}
	missing := "events.jsonl: has no run_completed in a run that was closed: its end is missing"
	for k := 1; k <= len(s); k = min(k+long.Step(thin), max(len(s), k+1)) {
		if k == len(s) {
			missing = "events.jsonl: has no run_started"
		}
		stopped := k < len(s) && s[len(s)-k-1]["type"] == "run_completed"
		unended := "the journal has no run_completed"
		if stopped {
			unended = "it was stopped by its endpoint, with 2 of 3 tasks begun"
		}
		what := fmt.Sprintf("without the last %d lines", k)
		cut := maps.Clone(run)
		cut[trajectory.JournalFile] = bytes.Join(whole[:len(whole)-k], nil)
		wantWords(t, what, cut, missing)
		for _, signs := range []bool{false, true} {
			wantWords(t, what+", records cut to fit", forged(t, run, s[:len(s)-k], signs), missing)
			if k == 1 {
				continue
			}
			ended := lines(t, run).without(len(s)-k, len(s)-1)
			if err := runs.Place(ended); err != nil {
				t.Fatal(err)
			}
			words := "run_completed does not count what was sealed"
			switch {
			case k == len(s):
				words = "a journal has one run_started, its first line"
			case stopped:
				words = "comes after run_completed, which only run_resumed may follow here"
			}
			wantWords(t, what+", and the end put back", forged(t, run, ended, signs), words)
		}
		unfinished := forged(t, run, s[:len(s)-k], false)
		for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
			delete(unfinished, name)
		}
		if k == len(s) { // a run begins with its first line on disk
			wantWords(t, what+", and without what was written at its end", unfinished, missing)
			continue
		}
		found, err := rundir.Verify(runs.Mutation{Dir: unfinished}.FS(), rundir.Options{})
		if err != nil || found.Complete || found.Missing != unended || found.RootHash != "" || found.End.Events != int64(len(s)-k) {
			t.Errorf("%s, and without what was written at its end: %v, %+v", what, err, found)
		}
	}
}
