package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/plan"
)

// TestPlanDifferences: what each run has of its own makes no other plan, all else does.
func TestPlanDifferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*plan.Plan)
		want   string
	}{
		{"nothing", func(*plan.Plan) {}, ""},
		{"the id", func(m *plan.Plan) { m.RunID = "r2" }, ""},
		{"the time", func(m *plan.Plan) { m.Created = "2032-01-01T00:00:00.000Z" }, ""},
		{"the key", func(m *plan.Plan) { m.SigningKey = "another" }, ""},
		{"the program", func(m *plan.Plan) { m.Harness.Version, m.Harness.Dirty = "9", true }, ""},
		{"the salt", func(m *plan.Plan) { m.GoldCommitment = "sha256:other" }, ""},
		{"the salt of a question", func(m *plan.Plan) {
			m.Tasks = []plan.PlannedTask{{TaskID: "a", QuestionSHA256: "sha256:other"}}
		}, ""},
		{"whether there is gold", func(m *plan.Plan) { m.GoldCommitment = "" }, "gold_commitment differs"},
		{"the guidance", func(m *plan.Plan) { m.GuidanceHash = "g2" }, `guidance_hash was "g1", is "g2"`},
		{"the model", func(m *plan.Plan) { m.Model.Name = "other" }, `model was {"name":"m"`},
		{"the policy", func(m *plan.Plan) { m.PolicyHash = "p2" }, `policy_hash was "p1", is "p2"`},
		{"a budget", func(m *plan.Plan) { m.Budgets.Turns = 3 }, "budgets was "},
		{"what was approved", func(m *plan.Plan) { m.Approved = []string{"python"} }, "approved was "},
		{"a task", func(m *plan.Plan) { m.Tasks = []plan.PlannedTask{{TaskID: "b"}} }, "tasks was "},
	} {
		plan := func() plan.Plan {
			m := plan.New()
			m.RunID, m.Created, m.SigningKey, m.GoldCommitment = "r1", "2031-01-01T00:00:00.000Z", "a key", "sha256:one"
			m.Model.Name, m.GuidanceHash, m.PolicyHash = "m", "g1", "p1"
			m.Tasks = []plan.PlannedTask{{TaskID: "a"}}
			return m
		}
		a, b := plan(), plan()
		c.change(&b)
		got, err := planDifferences(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestTrendAsText prints rows that no rehearsal gives. What comes from a run steers no
// terminal.
func TestTrendAsText(t *testing.T) {
	cost, tokens := int64(1_234_567), int64(89)
	real := history.TrendBucket{CostPerSolveMicroUSD: &cost, GuidanceChanged: true, PolicyChanged: true, GuidanceHashes: []string{"g1", "g2"}, Models: []string{"a\x1b[2J", "b", "c"}, Name: "2031-W06",
		Retries: 3, Runs: 2, Solved: 1, Tasks: 6, TokensPerSolve: &tokens, Unscored: 2}
	for i := range 22 {
		real.Regressions = append(real.Regressions, history.Regression{Before: "r1", Level: 1, Outcome: "failed", RunID: "r2", TaskID: fmt.Sprintf("task%02d", i)})
	}
	real.Regressions[21].TaskID = "task\n21"
	unscored := history.TrendBucket{GuidanceHashes: []string{"g2"}, Models: []string{strings.Repeat("m", 40)}, Name: "2031-W07", Runs: 1, Tasks: 2, Unscored: 2}
	unsolved := history.TrendBucket{GuidanceHashes: []string{"g2"}, Models: []string{"m"}, Name: "2031-W08", Rehearsal: true, Runs: 1, Tasks: 2}
	var out bytes.Buffer
	if err := (&app{stdout: &out}).printTrend(trendResult{Buckets: []history.TrendBucket{real, unscored, unsolved}, By: "week", Rehearsal: true, Runs: 4}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"rehearsal: the rows that say so are of built-in tasks and a scripted model; not a GAIA score",
		"week runs tasks solved cost/solve tokens/solve retries regressions guidance model",
		`2031-W06 2 6 1 25.0 % $1.234567 89 3 22 g1 → g2 changed, policy changed a\u001b[2J → … → c (3)`,
		"2031-W07 1 2 – – – – 0 0 g2 " + strings.Repeat("m", 31) + "…",
		"2031-W08 rehearsal 1 2 0 0.0 % – – 0 0 g2 m",
		"regressed level outcome in solved in",
		"task 21 1 failed r2 r1 task20 1 failed r2 r1", // the latest first
		"task02 1 failed r2 r1 and 2 more, which --json lists",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(got, "task01") || strings.Contains(out.String(), "task\n21") {
		t.Errorf("there is what is to be left out in\n%s", out.String())
	}
}
