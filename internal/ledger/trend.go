package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/jedib0t/go-pretty/v6/text"
)

// TrendResult is a trend for people and programs.
type TrendResult struct {
	Buckets []history.TrendBucket `json:"buckets"` // by time
	By      string                `json:"by"`
	Shortfall
	Rehearsal bool `json:"rehearsal,omitzero"` // some of them are
	Runs      int  `json:"runs"`
}

// Trend follows the runs at paths by day or week. The error is that of reading, or that no run is complete.
func (r *Reader) Trend(paths []string, by string, q Query) (TrendResult, Read, error) {
	all := history.Trend{By: by}
	read, err := r.Runs(paths, q, func(s Run) error { return all.Add(s.RunStats) })
	if err == nil && read.Runs == 0 {
		err = cmp.Or(read.End(nil), noneComplete())
	}
	t := TrendResult{Buckets: all.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	t.Rehearsal = slices.ContainsFunc(t.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal })
	return t, read, err
}

// Text returns a row for each day or week, and below them the tasks that are solved no more.
func (r TrendResult) Text() string {
	out := ""
	switch {
	case r.Rehearsal && slices.ContainsFunc(r.Buckets, func(b history.TrendBucket) bool { return !b.Rehearsal }):
		out = "rehearsal: the rows that say so are of " + runview.RehearsalNote + "\n\n"
	case r.Rehearsal:
		out = RehearsalHeader
	}
	header, rows := r.Table()
	t := view.NewTable(header...)
	for _, row := range rows {
		t.Row(row...)
	}
	out += t.String() + "\n"
	if regressed := regressionTable(r.Buckets); regressed != "" {
		out += "\n" + regressed + "\n"
	}
	if r.Failed > 0 || r.Unrecorded() != "" {
		out += fmt.Sprintf("\nof %s%s\n%s", view.Count(r.Runs, "run"), r.Unread(), r.Unrecorded())
	}
	return out
}

// Table returns a row for each day or week, under its header. Cells are strings and integers.
func (r TrendResult) Table() (header []any, rows [][]any) {
	for _, b := range r.Buckets {
		rows = append(rows, trendRow(b))
	}
	return []any{r.By, "runs", "tasks", "solved", "", "cost/solve", "tokens/solve", "retries", "regressions", "guidance", "model"}, rows
}

// noNumber stands for a number that there is none of.
const noNumber = "–"

// trendRow returns a day or week as the cells of a table.
func trendRow(b history.TrendBucket) []any {
	name, solved, rate, cost, tokens := b.Name, fmt.Sprint(b.Solved), noNumber, noNumber, noNumber
	if b.Rehearsal {
		name += " rehearsal"
	}
	if b.OnlyErrors {
		name += " " + runview.ErrorsKey
	}
	if scored := b.Tasks - b.Unscored; scored > 0 {
		rate = view.Percent(stats.NewRate(b.Solved, scored).AccuracyPPM)
	} else {
		solved = noNumber
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
		return noNumber
	case 1:
		return shown(0)
	case 2:
		return shown(0) + " → " + shown(1)
	}
	return fmt.Sprintf("%s → … → %s (%d)", shown(0), shown(len(all)-1), len(all))
}

// regressionTable names the tasks that a run solved no more, the latest first; "" if
// there is none.
func regressionTable(buckets []history.TrendBucket) string {
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

// Costs returns a line for each finished run at paths, to be appended to a cost curve. There are none if a run does not
// verify, went on without evidence, or is signed by a key that the user does not trust: a line is not verified again.
func (r *Reader) Costs(paths []string, q Query) ([]byte, error) {
	q.Live = true
	var costs []history.Cost
	read, err := r.Runs(paths, q, func(run Run) error {
		costs = append(costs, history.CostOf(run.RunStats))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var unrecorded error
	if len(read.RecordingFailed) > 0 {
		unrecorded = exit.New(exit.Findings, errors.New(strings.TrimSpace(read.Unrecorded())), "leave them out")
	}
	if err := read.End(unrecorded); err != nil {
		return nil, err
	}
	if read.Runs == 0 {
		return nil, noneComplete()
	}
	lines, err := history.CostLines(costs)
	if err == nil {
		_, err = history.ReadCosts(lines) // what cannot be read again is not printed
	}
	return lines, err
}

const maxCurve = 64 << 20 // bytes

// DrawCosts returns the cost curve of the lines in a file, as SVG.
func DrawCosts(file string) ([]byte, error) {
	const hint = "such a file has the lines that 'gaia trend PATH… --costs' prints"
	lines, err := regular.ReadUpTo(file, maxCurve)
	var costs []history.Cost
	if err == nil {
		costs, err = history.ReadCosts(lines)
	}
	if err != nil {
		return nil, exit.New(exit.Failure, fmt.Errorf("reading the costs in %s: %w", view.Line(view.Quote(file)), regular.Cause(err)), hint)
	}
	curve := history.CostCurve(costs)
	if curve.SVG == "" {
		return nil, exit.New(exit.Failure, fmt.Errorf("no run in %s has a known cost", view.Line(view.Quote(file))), hint)
	}
	return []byte(curve.SVG + "\n"), nil
}

func noneComplete() error {
	return exit.New(exit.Incomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
}
