package history

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/jedib0t/go-pretty/v6/text"
)

// NoNumber stands for a number that there is none of.
const NoNumber = "–"

// TrendRow returns a day or week as the cells of a table.
func TrendRow(b TrendBucket) []any {
	name, solved, rate, cost, tokens := b.Name, fmt.Sprint(b.Solved), NoNumber, NoNumber, NoNumber
	if b.Rehearsal {
		name += " rehearsal"
	}
	if scored := b.Tasks - b.Unscored; scored > 0 {
		rate = view.Percent(stats.NewRate(b.Solved, scored).AccuracyPPM)
	} else {
		solved = NoNumber
	}
	if b.CostPerSolveMicroUSD != nil {
		cost = view.Dollars(b.CostPerSolveMicroUSD)
	}
	if b.TokensPerSolve != nil {
		tokens = fmt.Sprint(*b.TokensPerSolve)
	}
	guidance := severally(b.GuidanceHashes)
	if b.GuidanceChanged {
		guidance += " changed"
	}
	if b.PolicyChanged {
		guidance += ", policy changed"
	}
	return []any{name, b.Runs, b.Tasks, solved, rate, cost, tokens, b.Retries, len(b.Regressions), guidance, severally(b.Models)}
}

// severally writes what a row's runs had, in the order of its use: the first and
// the last.
func severally(all []string) string {
	const most = 32 // columns
	shown := func(i int) string { return text.Snip(view.Line(all[i]), most, "…") }
	switch len(all) {
	case 0:
		return NoNumber
	case 1:
		return shown(0)
	case 2:
		return shown(0) + " → " + shown(1)
	}
	return fmt.Sprintf("%s → … → %s (%d)", shown(0), shown(len(all)-1), len(all))
}

// RegressionTable names the tasks that a run solved no more, the latest first; "" if
// there is none.
func RegressionTable(buckets []TrendBucket) string {
	const most = 20
	t := view.NewTable("regressed", "level", "outcome", "in", "solved in")
	shown, left := 0, 0
	for _, b := range slices.Backward(buckets) {
		for _, r := range slices.Backward(b.Regressions) {
			if shown == most {
				left++
				continue
			}
			shown++
			t.Row(view.Line(r.TaskID), r.Level, r.Outcome, r.RunID, r.Before)
		}
	}
	if shown == 0 {
		return ""
	}
	if left > 0 {
		return t.String() + fmt.Sprintf("\n and %d more, which --json lists", left)
	}
	return t.String()
}
