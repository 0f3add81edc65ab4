package main

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Short names of what the commands use of package view.
const (
	rehearsalNote    = runview.RehearsalNote
	replayNote       = runview.ReplayNote
	notForSubmission = runview.NotForSubmission
)

func (a *app) newProgress(total, votes int, rehearsal bool) *progress.Progress {
	return progress.New(a.stderr, a.tty, total, votes, rehearsal)
}

// printRows prints names and values in two columns.
func (a *app) printRows(rows [][2]string) error { return view.Rows(a.stdout, rows) }

func oneLine(s string) string            { return view.Line(s) }
func quoteArg(s string) string           { return view.Quote(s) }
func counted(n int, thing string) string { return view.Count(n, thing) }
func percent(ppm int64) string           { return view.Percent(ppm) }
func dollars(microUSD *int64) string     { return view.Dollars(microUSD) }
func chosen(m plan.Plan) [][2]string     { return runview.Dataset(m) }
func outcomes(o rundir.Outcomes) string  { return runview.Outcomes(o) }

// newTable returns a table without borders.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	return t
}
