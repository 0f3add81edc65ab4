package overview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxRepeats is how many runs the heat map of many runs has at most, the newest.
const maxRepeats = 20

// History returns the page of what the runs at paths did, by history.ByDay or history.ByWeek: the trend as gaia trend
// has it, and the broken rules as gaia ledger rank does. Runs that do not verify are counted in a notice. The error is
// that nothing could be read.
func History(r *ledger.Reader, paths []string, by string, plots string) (page.History, error) {
	p := page.History{Head: page.Head{Title: "History"}, PlotsPath: plots, Trend: page.Table{Note: "No complete run was found."}, Rules: page.Table{Note: "No rule was broken."}}
	trend, ranking := history.Trend{By: by}, history.Ranking{}
	var points []plot.CostPoint
	type repeat struct {
		name  string
		cells map[string]plot.Cell
	}
	var last []repeat
	// The runs are read once for the trend, the ranking and the plots; each is held only while it is counted.
	read, err := r.Runs(paths, ledger.Query{Empty: true}, func(run ledger.Run) error {
		if err := trend.Add(run.RunStats); err != nil {
			return err
		}
		for _, e := range run.Events {
			ranking.Add(e)
		}
		solved, unscored, cost, cells := 0, false, new(int64), map[string]plot.Cell{}
		for _, t := range run.Tasks {
			cells[t.TaskID] = outcomeCells[t.Outcome]
			unscored = unscored || t.Outcome == trajectory.Unscored
			cost = stats.AddCost(cost, t.CostMicroUSD)
			if t.Outcome == trajectory.Solved {
				solved++
			}
		}
		// Rehearsals, unscored runs and those of the errors of others have no place in accuracy against cost.
		if !unscored && !run.Rehearsal && run.Dataset.ErrorsOf.RunID == "" && len(points) < 10_000 {
			points = append(points, plot.CostPoint{Label: run.Model + ", " + run.RunID, CostMicroUSD: cost, Rate: stats.NewRate(solved, len(run.Tasks))})
		}
		if last = append(last, repeat{run.RunID, cells}); len(last) > maxRepeats {
			last = last[1:]
		}
		return nil
	})
	if err != nil {
		return page.History{}, err
	}
	result := ledger.TrendResult{Buckets: trend.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	p.Trend.Columns, p.Trend.Rows = cells(result.Table())
	if at := slices.Index(p.Trend.Columns, ""); at >= 0 { // of the solve rate, which a terminal shows beside the count
		p.Trend.Columns[at] = "solve rate"
	}
	p.Rules.Columns, p.Rules.Rows = cells(ledger.RankRows(ranking.Rules()))
	// What is left out is said first: a trend of the runs that verify looks better than one of all.
	if read.FailedErr != nil {
		why := append([]string{"left out: " + read.FailedErr.Error()}, exit.Of(read.FailedErr).Reasons...)
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeBad, Text: strings.Join(why, "\n")})
	}
	if unrecorded := read.Unrecorded(); unrecorded != "" {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeBad, Text: unrecorded})
	}
	if read.UntrustedErr != nil {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeWarn, Text: read.UntrustedErr.Error()})
	}
	if slices.ContainsFunc(result.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal }) {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeNote, Text: "rehearsals are " + runview.RehearsalNote})
	}
	var drawn []plot.TrendPoint
	for _, b := range result.Buckets {
		if b.OnlyErrors { // their rate is none of a split
			continue
		}
		t := plot.TrendPoint{Name: b.Name, Start: b.Start, Rehearsal: b.Rehearsal, Runs: b.Runs, CostPer: b.CostPerSolveMicroUSD}
		// A week in which nothing was graded has no rate, which is not a rate of 0.
		if scored := b.Tasks - b.Unscored; scored > 0 {
			t.Rate = new(stats.NewRate(b.Solved, scored))
		}
		drawn = append(drawn, t)
	}
	// The runs need not have the same tasks: the rows are those of all, and a cell can be absent.
	tasks := map[string]bool{}
	var names []string
	for i, run := range last {
		names = append(names, fmt.Sprintf("%d: %s", i+1, run.name))
		for id := range run.cells {
			tasks[id] = true
		}
	}
	var heat []plot.HeatRow
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		row := plot.HeatRow{Name: id}
		for _, run := range last {
			row.Cells = append(row.Cells, run.cells[id])
		}
		heat = append(heat, row)
	}
	p.Plots = []plot.Plot{plot.Trend(drawn), plot.AccuracyAgainstCost(points), plot.Repeats(names, "run", heat)}
	return p, nil
}

// cells writes the cells of a table as text.
func cells(header []any, rows [][]any) (columns []string, text [][]string) {
	write := func(all []any) []string {
		row := make([]string, len(all))
		for i, cell := range all {
			row[i] = fmt.Sprint(cell)
		}
		return row
	}
	for _, r := range rows {
		text = append(text, write(r))
	}
	return write(header), text
}
