package main

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
)

// printComparison prints the two runs beside each other, what their difference is
// worth, and each task that flipped.
func (a *app) printComparison(c comparison) error {
	out := ""
	switch {
	case c.A.Rehearsal && c.B.Rehearsal:
		out = "rehearsal: " + rehearsalNote + "\n\n"
	case c.A.Rehearsal:
		out = "rehearsal: A is of " + rehearsalNote + "\n\n"
	case c.B.Rehearsal:
		out = "rehearsal: B is of " + rehearsalNote + "\n\n"
	}
	for _, side := range []struct {
		name string
		comparedRun
	}{{"A", c.A}, {"B", c.B}} {
		if side.RecordingFailed != "" {
			out += fmt.Sprintf("recording failed: %s went on without evidence: %s\n\n", side.name, oneLine(side.RecordingFailed))
		}
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n\n", out, visible.Text(comparisonTable(c))); err != nil {
		return err
	}
	if err := a.printRows(comparisonRows(c)); err != nil || len(c.Flips) == 0 {
		return err
	}
	t := newTable()
	t.AppendHeader(table.Row{"flipped", "level", "A", "B"})
	for _, f := range c.Flips {
		t.AppendRow(table.Row{oneLine(f.TaskID), f.Level, f.From, f.To})
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n", visible.Text(t.Render()))
	return err
}

// comparisonTable is a row for each thing that is known of both runs, with
// the difference where it is one of numbers.
func comparisonTable(c comparison) string {
	t := newTable()
	t.AppendHeader(table.Row{"", "A", "B", "B less A"})
	for _, r := range [][3]string{
		{"run", c.A.RunID, c.B.RunID}, {"started", c.A.Started, c.B.Started}, {"model", c.A.Model, c.B.Model},
		{"guidance", c.A.GuidanceHash, c.B.GuidanceHash}, {"policy", c.A.PolicyMode + " " + c.A.PolicyHash, c.B.PolicyMode + " " + c.B.PolicyHash},
	} {
		differs := ""
		if r[0] != "run" && r[0] != "started" && r[1] != r[2] {
			differs = "another"
		}
		t.AppendRow(table.Row{r[0], oneLine(r[1]), oneLine(r[2]), differs})
	}
	t.AppendSeparator()
	t.AppendRow(table.Row{"solved", c.A.Solved, c.B.Solved, signed(int64(c.B.Solved - c.A.Solved))})
	t.AppendRow(table.Row{"solve rate", percent(c.A.RatePPM), percent(c.B.RatePPM), signedPercent(c.RatePPM)})
	t.AppendRow(table.Row{"cost", dollars(c.A.CostMicroUSD), dollars(c.B.CostMicroUSD), signedDollars(c.CostMicroUSD)})
	t.AppendRow(table.Row{"tokens", c.A.Tokens, c.B.Tokens, signed(c.Tokens)})
	return t.Render()
}

func comparisonRows(c comparison) [][2]string {
	tasks := fmt.Sprintf("%d in both", c.Tasks)
	for _, other := range []struct {
		n    int
		what string
	}{{len(c.A.Only), "only in A"}, {len(c.B.Only), "only in B"}, {len(c.Other), "with another question"}} {
		if other.n > 0 {
			tasks += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	rows := [][2]string{
		{"tasks", tasks},
		{"outcomes", fmt.Sprintf("%d solved by both, %d only by A, %d only by B, %d by neither", c.Both, c.OnlyA, c.OnlyB, c.Neither)},
		{"difference", fmt.Sprintf("%s of the tasks, 95 %% interval %s to %s (bootstrap over the pairs, exact)", signedPercent(c.RatePPM), signedPercent(c.LowPPM), signedPercent(c.HighPPM))},
		{"McNemar", fmt.Sprintf("p %s (exact, two-sided, of %s)", pValue(c.PPPM), counted(c.OnlyA+c.OnlyB, "flipped task"))},
	}
	what := "plans"
	for _, d := range c.Differences {
		rows, what = append(rows, [2]string{what, d}), ""
	}
	if len(c.Differences) == 0 {
		rows = append(rows, [2]string{"plans", "the same"})
	}
	return rows
}

// pValue writes a p-value in parts per million, which is never 0.
func pValue(ppm int64) string {
	if ppm == 0 {
		return "< 0.000001"
	}
	return fmt.Sprintf("= %d.%06d", ppm/1e6, ppm%1e6)
}

// signedPercent is percent of a difference.
func signedPercent(ppm int64) string {
	switch {
	case ppm < 0:
		return "-" + percent(-ppm)
	case ppm > 0:
		return "+" + percent(ppm)
	}
	return percent(ppm)
}

// signedDollars is dollars of a difference.
func signedDollars(micro *int64) string {
	switch {
	case micro == nil || *micro == 0:
		return dollars(micro)
	case *micro < 0:
		less := -*micro
		return "-" + dollars(&less)
	}
	return "+" + dollars(micro)
}

// signed writes a difference.
func signed(n int64) string {
	if n > 0 {
		return fmt.Sprintf("+%d", n)
	}
	return fmt.Sprint(n)
}
