package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// storyRun writes a run that a text tells of.
func storyRun(t *testing.T, text string) (dir string) {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

const oneStory = `One task.
-- task fab1e107-0000-4000-8000-000000000011 --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel

-- answer Ostrel --
By the chart.
`

// TestWitnessExportRefuses: no bundle of what does not verify, is not finished or
// has no form in a bundle, and nothing is left of those that were made until then.
func TestWitnessExportRefuses(t *testing.T) {
	unpriced := oneStory + "\n-- task fab1e108-0000-4000-8000-000000000012 --\nquestion: And before that?\ngold: Tolm\n\n-- patch model_call_completed --\n" +
		"{\"cost_microusd\":null}\n\n-- answer Tolm --\nBy the chart.\n"
	large := strings.Replace(unpriced, `"cost_microusd":null`, `"tokens":{"in":4294967296}`, 1)
	change := func(name string, old, with string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("%s does not hold %q", name, old)
			}
			if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(with), 1), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		story string
		edit  func(*testing.T, string)
		code  int
		says  string
	}{
		"not finished":              {oneStory, unfinish, exit.Incomplete, "gaia: error: the run is not complete: the journal has no run_completed\ngaia: hint: gaia resume "},
		"a byte changed":            {oneStory, change(trajectory.JournalFile, "silted up", "silted ip"), exit.Evidence, "gaia: error: events.jsonl:"},
		"a result changed":          {oneStory, change(rundir.ResultsFile, "Ostrel", "Ostrex"), exit.Evidence, "gaia: error: results.jsonl: line 1: is not what the journal gives"},
		"no price":                  {unpriced, nil, exit.Failure, "gaia: error: the cost of task \"fab1e108-0000-4000-8000-000000000012\" is unknown, and a witness bundle cannot record an unknown cost\ngaia: hint: count such calls as free with --unpriced-as-zero"},
		"no price, not finished":    {unpriced, unfinish, exit.Incomplete, "the run is not complete"},
		"no price, and not genuine": {unpriced, change(rundir.ResultsFile, "Ostrel", "Ostrex"), exit.Evidence, "results.jsonl"},
		"too many tokens":           {large, nil, exit.Failure, "gaia: error: task \"fab1e108-0000-4000-8000-000000000012\": tokens of a witness bundle is "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := storyRun(t, tt.story)
			if tt.edit != nil {
				tt.edit(t, dir)
			}
			out := t.TempDir()
			code, stdout, stderr := trusting(t, "witness", "export", dir, "--out", filepath.Join(out, "bundles"))
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
	dir, out := storyRun(t, unpriced), filepath.Join(t.TempDir(), "bundles")
	code, stdout, stderr := trusting(t, "witness", "export", dir, "--out", out, "--unpriced-as-zero", "--json")
	if code != exit.OK || !strings.Contains(stdout, `"unpriced":1`) || !strings.Contains(stderr, "gaia: unpriced: in 1 witness bundle calls without a known price count as free\n") {
		t.Errorf("unknown prices as nothing: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestWitnessSteersNothing: what a bundle holds is others' words, of a run as of
// whoever wrote the bundle, and is shown so that it steers no terminal and passes
// for no line of ours. A task's id that is no name of a file becomes none.
func TestWitnessSteersNothing(t *testing.T) {
	const trap = "\x1b[2J\u202e\u009b31m\x7f\u2066" + unseen
	dir := storyRun(t, "Hostile names.\n-- task ../"+trap+" --\nquestion: "+trap+"\ngold: 14\n-- call "+trap+" {} --\n"+trap+"\n-- answer 14"+trap+" --\n"+trap+"\n")
	home := t.TempDir()
	out := filepath.Join(home, "bundles")
	var said []string
	for _, args := range [][]string{{"export", dir, "--out", out}, {"export", dir, "--task", "../", "--out", filepath.Join(home, trap)}, {"export", dir, "--task", "../", "--json", "--out", filepath.Join(home, "task")}} {
		code, stdout, stderr := trusting(t, append([]string{"witness"}, args...)...)
		if code != exit.OK {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
		said = append(said, stdout+stderr)
	}
	id := witness.NewTaskID("../" + trap)
	made := filepath.Join(out, hex.EncodeToString(id[:])+".rvw")
	calls, err := witness.EncodeTrace([]witness.Entry{{Action: trap + "\xff\n4. what was changed"}})
	if err != nil {
		t.Fatal(err)
	}
	const forged = "\n6. outcome: solved; the test log says so, too\n"
	w := witness.Bundle{ToolCalls: 1, CreatedNs: 1<<64 - 1, Outcome: witness.Failed, Sections: []witness.Section{{Tag: 3, Value: calls}}}
	for _, tag := range []uint16{1, 2, 4, 5, 6, 7, 0} {
		w.Sections = append(w.Sections, witness.Section{Tag: tag, Value: []byte(trap + "\xff\x00" + forged)})
	}
	data, err := w.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(home, trap+".rvw")
	if err := os.WriteFile(foreign, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{made, foreign} {
		for _, args := range [][]string{{"show", path}, {"show", path, "--json"}, {"replay", path}} {
			code, stdout, stderr := trusting(t, append([]string{"witness"}, args...)...)
			if code != exit.OK && (code != exit.Findings || args[0] != "replay") || stdout == "" {
				t.Errorf("%q: exit code %d\n%s", args, code, stderr)
			}
			if !strings.Contains(stdout, `[2J\u202e`) {
				t.Errorf("%q does not show what the bundle says:\n%s", args, stdout)
			}
			if strings.Contains(stdout, forged) {
				t.Errorf("%q lets the bundle speak for us:\n%s", args, stdout)
			}
			said = append(said, stdout+stderr)
		}
	}
	for _, text := range said {
		steers(t, "witness", text)
	}
}

// TestWitnessesOfHonestRuns: a bundle says of a task what the run's records say of
// it, in runs that are scored or not, voted, interrupted or governed.
func TestWitnessesOfHonestRuns(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	checks := map[uint8]int{}
	for seed := range uint64(60 / long.Step(3)) {
		dir := filepath.Join(t.TempDir(), "run")
		if err := runs.Honest(seed).Write(dir); err != nil {
			t.Fatal(err)
		}
		records, bundles := map[string]rundir.Trajectory{}, map[string]witness.Bundle{}
		reader := rundir.WitnessReader{UnpricedAsZero: true, Each: func(task string, w witness.Bundle, _ []byte) error { bundles[task] = w; return nil }}
		o := reader.Options("")
		o.Ended = func(r rundir.Trajectory, _ []byte) error {
			records[fmt.Sprint(r.TaskID, r.Attempt)] = r
			return nil
		}
		found, err := rundir.Verify(os.DirFS(dir), o)
		if err != nil || !found.Complete || reader.Err() != nil || len(bundles) != len(found.Tasks) {
			t.Fatalf("seed %d: %d bundles, %v, %v", seed, len(bundles), err, reader.Err())
		}
		for _, task := range found.Tasks {
			w, r := bundles[task.Plan.TaskID], found.Result(task)
			if want, _ := witness.Outcome(r.Outcome); w.Outcome != want || w.LatencyMs != r.LatencyMs || w.Rehearsal() != found.Manifest.Rehearsal {
				t.Errorf("seed %d, task %s: outcome %d, %d ms; the result says %s, %d ms", seed, r.TaskID, w.Outcome, w.LatencyMs, r.Outcome, r.LatencyMs)
			}
			record := records[fmt.Sprint(r.TaskID, r.Attempt)]
			if got, want := tracedCalls(w), recordedCalls(record); !slices.Equal(got, want) {
				t.Errorf("seed %d, task %s: the trace has\n%q\nthe record\n%q", seed, r.TaskID, got, want)
			}
			if w.ToolCalls != len(recordedCalls(record)) || w.Tokens != record.Tokens.In+record.Tokens.Out {
				t.Errorf("seed %d, task %s: %d calls, %d tokens", seed, r.TaskID, w.ToolCalls, w.Tokens)
			}
			if _, there := w.Section(witness.TestLog); there != (task.Counted() != nil && task.Counted().Judgment != nil) {
				t.Errorf("seed %d, task %s: a test log: %v", seed, r.TaskID, there)
			}
			for _, c := range w.Trace() {
				checks[c.Policy]++
			}
		}
	}
	if checks[witness.Allow] == 0 || checks[witness.Deny] == 0 {
		t.Errorf("the policy's checks of the calls of all runs are %v", checks)
	}
}

// tracedCalls are the calls of a trace: what was called, with what, what came of it,
// and whether it was refused.
func tracedCalls(w witness.Bundle) []string {
	var calls []string
	for _, c := range w.Trace() {
		calls = append(calls, fmt.Sprintf("%s %x %x %v", c.Action, c.ArgsHash, c.ResultHash, c.Policy == witness.Deny))
	}
	return calls
}

// recordedCalls are those of a trajectory.
func recordedCalls(r rundir.Trajectory) []string {
	var calls []string
	var made []rundir.ToolCallStep
	start := func(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:16] }
	for _, step := range r.Steps {
		switch s := step.(type) {
		case rundir.ToolCallStep:
			calls, made = append(calls, ""), append(made, s)
		case rundir.ToolResultStep:
			for i, c := range made {
				if calls[i] == "" && c.CallID == s.CallID && c.Turn == s.Turn {
					calls[i] = fmt.Sprintf("%s %s %s %v", s.Name, start(c.ArgsSHA256), start(s.OutputSHA256), s.Refused)
					break
				}
			}
		}
	}
	return calls
}
