package audit_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// judgedRun has two answers for a judge, one that the official scorer credits, and a task
// without an answer.
const judgedRun = `Two answers that the judge is asked about.
-- task fab1e112-0000-4000-8000-00000000000a --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
judge: correct
-- answer fourteen --
The almanac counts fourteen lamps.
-- task fab1e112-0000-4000-8000-00000000000b --
question: Which harbour closed first?
gold: Tolmey
judge: incorrect
-- answer Brellin --
It closed in 1902.
-- task fab1e112-0000-4000-8000-00000000000c --
question: How many bells has the tower of Ostrel?
gold: 3
-- answer 3 --
I counted.
-- task fab1e112-0000-4000-8000-00000000000d --
question: How many steps has the tower of Ostrel?
gold: 90
-- no answer --
I do not know.
`

// rejudged writes the run and returns it with an honest later judgment.
func rejudged(t *testing.T) (dir string, run *rundir.Run, r audit.Rejudgment) {
	t.Helper()
	c, err := runs.Parse(judgedRun)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	if run, err = rundir.Verify(os.DirFS(dir), rundir.Options{}); err != nil {
		t.Fatal(err)
	}
	tasks, attempts := audit.Rejudged(run)
	if len(attempts) != 2 {
		t.Fatalf("%d answers are for a judge", len(attempts))
	}
	digest := canonical.Digest([]byte("x"))
	plan := plan.JudgePlan{Battery: judge.BatteryDigest(), Cache: true, Endpoint: digest, Model: "another-judge", Origin: "https://judge.example", Prompt: "judge.v1", PromptSHA256: digest}
	n := len(judge.Battery())
	b := trajectory.JudgeBattery{CostMicroUSD: new(int64(260)), LatencyMs: 9, Model: plan.Model, Prompt: plan.Prompt, Asked: n, SHA256: plan.Battery,
		Refused: []string{"comma"}, TokensIn: 100, TokensOut: 10, Tries: n, Passed: true}
	yes := true
	said := []trajectory.Judgment{
		{CostMicroUSD: new(int64(5)), Judged: &yes, LatencyMs: 7, Model: plan.Model, Path: judge.PathJudge, Prompt: plan.Prompt, RequestID: "r-1", ResponseModel: "another-judge-2", TokensIn: 30, TokensOut: 3, Tries: 1},
		{CostMicroUSD: new(int64(6)), ErrorStatus: 500, LatencyMs: 8, Model: plan.Model, Path: judge.PathError, Prompt: plan.Prompt, TokensIn: 31, TokensOut: 4, Tries: 2},
	}
	var verdicts []audit.LaterVerdict
	for i, a := range attempts {
		verdicts = append(verdicts, audit.LaterVerdict{Attempt: a.Number, Judgment: said[i], TaskID: tasks[i].Plan.TaskID})
	}
	return dir, run, audit.NewRejudgment(run, plan, &b, verdicts, "2031-02-03T04:05:06.000Z")
}

// placed puts an envelope into the run in the place of all others, and reads it.
func placed(t *testing.T, dir, name string, run *rundir.Run, envelope []byte) error {
	t.Helper()
	folder := filepath.Join(dir, audit.AttestationsDir)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), envelope, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := audit.ReadRejudgments(os.DirFS(dir), run)
	return err
}

// TestRejudgmentFields changes each member of a later judgment, one at a time, as the
// holder of the key can: it is refused, or it is the signer's word.
func TestRejudgmentFields(t *testing.T) {
	dir, run, r := rejudged(t)
	name := audit.RejudgmentFile(r.Judge)
	seal := func(v any) []byte {
		payload, err := canonical.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		envelope, err := sign.Seal(runs.Key(), audit.RejudgmentType, payload)
		if err != nil {
			t.Fatal(err)
		}
		return envelope
	}
	if err := placed(t, dir, name, run, seal(r)); err != nil {
		t.Fatal(err)
	}
	if s := r.Score(run); s == nil || s.Correct != 2 || s.Planned != 4 {
		t.Errorf("the score by this judge is %+v", s)
	}
	payload, err := canonical.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	// What cannot be checked: what a judge said, and what the requests were like.
	word := []string{"battery.latency_ms", "battery.tries", "verdicts.0.judgment.judged", "verdicts.0.judgment.latency_ms", "verdicts.0.judgment.request_id",
		"verdicts.0.judgment.response_model", "verdicts.0.judgment.tries", "verdicts.1.judgment.error_status", "verdicts.1.judgment.latency_ms", "verdicts.1.judgment.tries", "judge.cache"}
	var root any
	taken := map[string]bool{}
	tried := 0
	var walk func(path string, at any, set func(any))
	walk = func(path string, at any, set func(any)) {
		try := func(with any) {
			set(with)
			defer set(at)
			if tried++; placed(t, dir, name, run, seal(root)) == nil {
				taken[path] = true
			}
		}
		switch v := at.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				member := v[key]
				delete(v, key)
				if tried++; placed(t, dir, name, run, seal(root)) == nil {
					taken[strings.TrimPrefix(path+"."+key, ".")] = true
				}
				v[key] = member
				walk(strings.TrimPrefix(path+"."+key, "."), member, func(with any) { v[key] = with })
			}
			v["more"] = true
			if tried++; placed(t, dir, name, run, seal(root)) == nil {
				t.Errorf("%s can have more members", path)
			}
			delete(v, "more")
		case []any:
			try(append(slices.Clone(v), v[len(v)-1]))
			try(v[:len(v)-1])
			for i, element := range v {
				walk(path+"."+string(rune('0'+i)), element, func(with any) { v[i] = with })
			}
		case string:
			try(v + "x")
			try("")
			try("a\nb")
		case float64:
			try(v + 1)
			try(-1.0)
			try(float64(1 << 52))
		case bool:
			try(!v)
		case nil:
			try(true)
		}
	}
	if err := json.Unmarshal(payload, &root); err != nil {
		t.Fatal(err)
	}
	walk("", root, nil)
	for _, field := range slices.Sorted(maps.Keys(taken)) {
		if !slices.Contains(word, field) {
			t.Errorf("another %s is taken", field)
		}
	}
	if tried < 150 {
		t.Errorf("only %d changes", tried)
	}
}

// TestRejudgmentForged: what another judge said counts only under the plan's key, about
// this run, and of a judge that passed its self-test.
func TestRejudgmentForged(t *testing.T) {
	dir, run, honest := rejudged(t)
	yes := true
	for _, tt := range []struct {
		name   string
		key    sign.Key
		change func(r *audit.Rejudgment)
		why    string
	}{
		{"by another key", runs.OtherKey(), func(*audit.Rejudgment) {}, "signed by"},
		{"the run's own judge", runs.Key(), func(r *audit.Rejudgment) { r.Judge = *run.Manifest.Judge }, "is of the run's own judge"},
		{"of a credited answer", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[1].TaskID = run.Tasks[2].Plan.TaskID }, "has a verdict on attempt"},
		{"of a task without an answer", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[1].TaskID = run.Tasks[3].Plan.TaskID }, "has a verdict on attempt"},
		{"one verdict left out", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts = r.Verdicts[:1] }, "has 1 verdicts"},
		{"an official yes", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[0].Judgment.Official = true }, "does not go with its path"},
		{"of a judge that accepted an item", runs.Key(), func(r *audit.Rejudgment) { r.Battery.Accepted, r.Battery.Passed = []string{"dash"}, false }, "did not pass"},
		{"without a null battery", runs.Key(), func(r *audit.Rejudgment) { r.Battery = nil }, "did not pass"},
		{"of half a null battery", runs.Key(), func(r *audit.Rejudgment) { r.Battery.Problem, r.Battery.Passed = judge.Problems()[0], false }, "was not asked the whole"},
		{"of an item that there is not", runs.Key(), func(r *audit.Rejudgment) { r.Battery.Refused = []string{"the gold is 14"} }, "is no item"},
		{"a verdict where it failed", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[1].Judgment.Judged = &yes }, "does not go with its path"},
		{"asked too often", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[0].Judgment.Tries = 9 }, "too often"},
		{"free text", runs.Key(), func(r *audit.Rejudgment) { r.Verdicts[0].Judgment.RequestID = "a\x1b[2J" }, "not one line of text"},
		{"other totals", runs.Key(), func(r *audit.Rejudgment) { r.Totals.Judged = 2 }, "has totals"},
		{"about another journal", runs.Key(), func(r *audit.Rejudgment) { r.Head = canonical.Digest(nil) }, "is about a journal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := canonical.Encode(honest)
			if err != nil {
				t.Fatal(err)
			}
			var r audit.Rejudgment
			if err := canonical.Decode(payload, &r); err != nil {
				t.Fatal(err)
			}
			before := r.Totals
			tt.change(&r)
			if tt.why != "has totals" { // those that follow from what was changed
				r.Totals = audit.NewRejudgment(run, r.Judge, r.Battery, r.Verdicts, r.Created).Totals
			} else if before == r.Totals {
				t.Fatal("nothing was changed")
			}
			envelope, err := r.Seal(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			if err := placed(t, dir, audit.RejudgmentFile(r.Judge), run, envelope); err == nil || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%v, want %q", err, tt.why)
			}
		})
	}
	envelope, err := honest.Seal(runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := placed(t, dir, audit.AttestationsDir+"/judgment-0123456789abcdef.dsse.json", run, envelope); err == nil || !strings.Contains(err.Error(), "which its name is not of") {
		t.Errorf("under another name: %v", err)
	}
	line := append(envelope, '\n')
	if _, err := audit.DecodeRejudgments(bytes.Repeat(line, 2), run); err == nil || !strings.Contains(err.Error(), "each once") {
		t.Errorf("twice in a package: %v", err)
	}
	if all, err := audit.DecodeRejudgments(line, run); err != nil || len(all) != 1 {
		t.Errorf("%d, %v", len(all), err)
	}
}
