package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/go-json-experiment/json"
)

// outvoted is a replayed run whose right answer was given once and a wrong one
// twice.
const outvoted = `-- plan --
{"cassette":"replay","retry":{"attempts_per_task":4},"submit_intent":false,"voting":{"attempts":3,"rule":"majority.v1"}}

-- task fab1e107-0000-4000-8000-000000000001 --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel

-- answer Ostrel --
By the chart.

-- answer Old Tolmey --
By its name.

-- answer old-tolmey. --
By its name, too.
`

// TestShowVoting: what is shown of a vote says which attempt counts and why, and
// does not pass the attempt that was right for the run's.
func TestShowVoting(t *testing.T) {
	c, err := runs.Parse(outvoted)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"show", dir}, []string{
			"rehearsal: built-in tasks and a scripted model; not a GAIA score\n\nreplay: the answers come from a cassette; no model was asked\n\n",
			" 3 (2 agree) ", " Old Tolmey",
			"voting     3 attempts a task, majority.v1; the scores are maj@3, of the answers voted for (official pass@1 100.0 %, pass@3 100.0 %)\n",
			"outcomes   0 solved, 1 failed,",
		}},
		{[]string{"show", dir, "fab1e107"}, []string{
			"replay: the answers come from a cassette; no model was asked\n",
			"  answer: Ostrel (rule final-answer.v1)\n  votes: 1; official correct, judge says correct (official)\n",
			"  answer: Old Tolmey (rule final-answer.v1)\n  votes: 2, and it counts; official wrong, judge says wrong (judge)\n",
			"  answer: old-tolmey. (rule final-answer.v1)\n  votes: 2; official wrong, judge says wrong (judge)\n",
			"sealed as failed: official wrong, judge says wrong (judge)\n",
		}},
	} {
		code, stdout, stderr := trusting(t, tt.args...)
		if code != exit.OK {
			t.Fatalf("%v: exit code %d\n%s", tt.args, code, stderr)
		}
		for _, want := range tt.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%v does not say %q:\n%s", tt.args, want, stdout)
			}
		}
	}
	_, stdout, _ := command(t, "show", "--json", dir)
	var out struct {
		Summary rundir.Summary `json:"summary"`
	}
	err = json.Unmarshal([]byte(stdout), &out)
	if s := out.Summary; err != nil || s.Voting == nil || s.Voting.PassAtK.Correct != 1 || s.Scores.Official.Correct != 0 {
		t.Errorf("%v:\n%s", err, stdout)
	}
}
