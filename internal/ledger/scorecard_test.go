package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCard: a card shows what is counted, and the thresholds that it misses.
func TestCard(t *testing.T) {
	c := &Card{Runs: 1}
	for _, outcome := range []string{trajectory.Solved, trajectory.Failed} {
		if err := c.Add(rundir.TaskStats{CostMicroUSD: new(int64(3)), EvidenceComplete: true, LatencyMs: 1500, Outcome: outcome, Tokens: 7}); err != nil {
			t.Fatal(err)
		}
	}
	if r := c.Result(nil); r.Acceptance != nil || r.Err() != nil || !*r.SignerTrusted {
		t.Errorf("%+v", r)
	}
	want := rundir.DefaultThresholds()
	r := c.Result(&want)
	rows := fmt.Sprint(c.Rows(r))
	for _, shown := range []string{"[counted 1 run]", "2: 1 solved, 1 failed", "[solve rate 50.0 %]", "$0.000006, $0.000006 per solved task",
		"[not accepted solve_rate fails: 0.5, at least 0.6]", "policy_violations passes: 0, at most 0"} {
		if !strings.Contains(rows, shown) {
			t.Errorf("%q is not in %s", shown, rows)
		}
	}
	e := exit.Of(r.Err())
	if e.Code != exit.Findings || len(e.Reasons) != 1 || e.Reasons[0] != "solve_rate is 0.5, at least 0.6" {
		t.Errorf("%+v", e)
	}
}

// TestCountedTables: what was counted says of what, and a number that there is none of is no zero.
func TestCountedTables(t *testing.T) {
	read := EventsRead{Runs: 2, Imported: 1, Outside: 1, Rehearsal: true, Shortfall: Shortfall{Failed: 1}}
	text := Counted(RankTable(nil), read)
	if want := RehearsalHeader + "no rule was broken\n\nof 2 runs and 1 imported event, 1 run without such an attempt, 1 run could not be read\n"; text != want {
		t.Errorf("%q, not %q", text, want)
	}
	table := strings.Fields(RankTable([]history.RankedRule{{RuleID: "R004", Severity: "high", Frequency: 3, Attempts: 2, MeanRework: 1.5, Score: 4.5}}))
	if got := strings.Join(table[len(table)-6:], " "); got != "R004 high 3 2 1.50 4.50" {
		t.Errorf("%q", got)
	}
	metrics := MetricsTable(history.Metrics{Attempts: 1}, []history.GuidanceMetrics{{GuidanceHash: "g", PolicyHash: "p", Mode: "approved"}})
	if strings.Count(metrics, noNumber) != 4 || !strings.Contains(metrics, "p approved") {
		t.Errorf("%s", metrics)
	}
}
