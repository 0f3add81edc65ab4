package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/history"
)

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
	out := TrendResult{Buckets: []history.TrendBucket{real, unscored, unsolved}, By: "week", Rehearsal: true, Runs: 4}.Text()
	got := strings.Join(strings.Fields(out), " ")
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
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if strings.Contains(got, "task01") || strings.Contains(out, "task\n21") {
		t.Errorf("there is what is to be left out in\n%s", out)
	}
}
