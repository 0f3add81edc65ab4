package main

import (
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/stats"
	"slices"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func (a *app) trendCommand() *cobra.Command {
	var by string
	var asJSON, anew bool
	cmd := &cobra.Command{
		Use:   "trend PATH…",
		Short: "Show by day or week whether runs get better",
		Long: `Trend verifies finished runs and counts them by the day or the ISO week, in UTC,
in which they began: tasks, how many the official scorer found solved, what a
solve took in money and tokens, model calls that were tried again, under which
guidance and model, and regressions: tasks that the last earlier run with them
solved, and this one did not. Each PATH is a run directory, a full package, its
archive, or a folder that holds some, such as runs/.

What a solve took is all that the tasks of scored runs took, over those that they
solved; it is – where nothing was solved or a price is unknown. Runs without gold
answers have no part in it, nor in regressions. Rehearsals have rows of their own.

Runs that were verified before and are as they were are not read again; --verify
reads all anew. Runs that do not verify are named and left out, exit code 4.`,
		Example: `  gaia trend runs
  gaia trend runs submission-2026-01-02-5XK9QZ7M.tar.gz --by day
  gaia trend runs --json | jq '.buckets[].regressions[].task_id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia trend --help'", "trend takes the runs to follow")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if by != history.ByDay && by != history.ByWeek {
				return usage("give day or week", "--by is %q", by)
			}
			return a.trend(args, by, history.Query{Verify: anew}, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", history.ByWeek, "day or week")
	f.BoolVar(&asJSON, "json", false, "print the rows as JSON, with all regressions")
	f.BoolVar(&anew, "verify", false, "verify all runs anew")
	completeFixed(cmd, "by", history.ByDay, history.ByWeek)
	return cmd
}

// trendResult is what trend prints with --json.
type trendResult struct {
	Buckets []history.TrendBucket `json:"buckets"` // by time
	By      string                `json:"by"`
	history.Shortfall
	Rehearsal bool `json:"rehearsal,omitzero"` // some of them are
	Runs      int  `json:"runs"`
}

func (a *app) trend(paths []string, by string, q history.Query, asJSON bool) error {
	all := history.Trend{By: by}
	read, err := a.eachRun(paths, q, func(s history.Run) error { return all.Add(s.RunStats) })
	if err != nil {
		return err
	}
	if read.Runs == 0 {
		if err := read.End(nil); err != nil {
			return err
		}
		return fail(exitIncomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
	}
	result := trendResult{Buckets: all.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	result.Rehearsal = slices.ContainsFunc(result.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal })
	show := a.printTrend
	if asJSON {
		show = func(r trendResult) error { return a.printJSON(r) }
	}
	if err := show(result); err != nil {
		return err
	}
	return read.End(nil)
}

// printTrend prints a row for each day or week, and below what solved no more.
func (a *app) printTrend(r trendResult) error {
	out := ""
	switch {
	case r.Rehearsal && slices.ContainsFunc(r.Buckets, func(b history.TrendBucket) bool { return !b.Rehearsal }):
		out = "rehearsal: the rows that say so are of " + rehearsalNote + "\n\n"
	case r.Rehearsal:
		out = "rehearsal: " + rehearsalNote + "\n\n"
	}
	t := newTable()
	t.AppendHeader(table.Row{r.By, "runs", "tasks", "solved", "", "cost/solve", "tokens/solve", "retries", "regressions", "guidance", "model"})
	for _, b := range r.Buckets {
		t.AppendRow(trendRow(b))
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n", out, visible.Text(t.Render())); err != nil {
		return err
	}
	below := ""
	if regressed := regressionTable(r.Buckets); regressed != "" {
		below = "\n" + visible.Text(regressed) + "\n"
	}
	if r.Failed > 0 || len(r.RecordingFailed) > 0 {
		below += fmt.Sprintf("\nof %s%s\n%s", counted(r.Runs, "run"), r.Unread(), r.Unrecorded())
	}
	_, err := fmt.Fprint(a.stdout, below)
	return err
}

// noNumber stands for a number that there is none of.
const noNumber = "–"

func trendRow(b history.TrendBucket) table.Row {
	name, solved, rate, cost, tokens := b.Name, fmt.Sprint(b.Solved), noNumber, noNumber, noNumber
	if b.Rehearsal {
		name += " rehearsal"
	}
	if scored := b.Tasks - b.Unscored; scored > 0 {
		rate = percent(stats.NewRate(b.Solved, scored).AccuracyPPM)
	} else {
		solved = noNumber
	}
	if b.CostPerSolveMicroUSD != nil {
		cost = dollars(b.CostPerSolveMicroUSD)
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
	return table.Row{name, b.Runs, b.Tasks, solved, rate, cost, tokens, b.Retries, len(b.Regressions), guidance, severally(b.Models)}
}

// severally writes what a row's runs had, in the order of its use: the first and
// the last.
func severally(all []string) string {
	const most = 32 // columns
	shown := func(i int) string { return text.Snip(oneLine(all[i]), most, "…") }
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
	t := newTable()
	t.AppendHeader(table.Row{"regressed", "level", "outcome", "in", "solved in"})
	shown, left := 0, 0
	for _, b := range slices.Backward(buckets) {
		for _, r := range slices.Backward(b.Regressions) {
			if shown == most {
				left++
				continue
			}
			shown++
			t.AppendRow(table.Row{oneLine(r.TaskID), r.Level, r.Outcome, r.RunID, r.Before})
		}
	}
	if shown == 0 {
		return ""
	}
	if left > 0 {
		return t.Render() + fmt.Sprintf("\n and %d more, which --json lists", left)
	}
	return t.Render()
}
