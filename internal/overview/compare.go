package overview

import (
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxCompared is how many tasks of two runs are listed; of more, those that flipped.
const maxCompared = 2000

// Compare returns the page that compares two runs as gaia compare does. Runs that are not complete, not verified or have
// no gold answers are shown beside each other with the reason why there is no comparison.
func Compare(a, b Source) (page.Compare, error) {
	a, b = a.begin(), b.begin()
	// Each side is shown as its own page has it, with its notices, also where there is no comparison.
	p := page.Compare{Head: page.Head{Title: "Compare two runs", Trail: a.Trail, Static: a.Static, Program: a.Program}, Choices: a.Compare}
	for i, side := range []struct {
		of  Source
		row *page.RunRow
	}{{a, &p.A}, {b, &p.B}} {
		run, err := Run(side.of, page.TaskFilter{}, 0)
		if err != nil {
			return page.Compare{}, err
		}
		*side.row = run.Row
		for _, n := range run.Notices {
			p.Notices = append(p.Notices, page.Notice{Kind: n.Kind, Text: fmt.Sprintf("%c: %s", 'A'+i, n.Text)})
		}
	}
	// The comparison is of what verified, not of what the journals are read to.
	runs := [2]*rundir.Run{a.Check.Audited.Run, b.Check.Audited.Run}
	for i, s := range []Source{a, b} {
		if runs[i] == nil || !runs[i].Complete || s.damage() != nil {
			p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeWarn, Text: fmt.Sprintf("%c is not a complete run that is verified: there is no comparison", 'A'+i)})
			return p, nil
		}
	}
	c, err := ledger.Compare(runs, [2]string{a.Place, b.Place}, true)
	if err != nil {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeWarn, Text: "no comparison: " + err.Error()})
		if errors.As(err, new(*trajectory.Fault)) {
			p.Notices[len(p.Notices)-1].Kind = page.NoticeBad
		}
		return p, nil
	}
	// Rows and pictures are those of the command, so that both give the same numbers.
	p.Summary = c.Rows()
	p.Plots = []plot.Plot{plot.Difference(c.Comparison, name(p.A), name(p.B)), plot.AccuracyAgainstCost([]plot.CostPoint{point(p.A), point(p.B)}),
		repeats([]string{"A", "B"}, runs[:])}
	// The tasks are those that stats.Compare paired.
	other := map[string]bool{} // asks another question
	for _, id := range c.Other {
		other[id] = true
	}
	for _, t := range runs[0].Tasks {
		id := t.Plan.TaskID
		of := runs[1].Task(id)
		if of == nil || other[id] {
			continue
		}
		ra, rb := runs[0].Result(t), runs[1].Result(of)
		row := page.ComparedTask{ID: id, Level: t.Plan.Level, A: ra.Outcome, B: rb.Outcome, APath: a.Paths.Task(id), BPath: b.Paths.Task(id),
			AAnswer: answerOf(t.Counted()), BAnswer: answerOf(of.Counted()), ACost: ra.CostMicroUSD, BCost: rb.CostMicroUSD}
		// A flip is about the official verdict alone: the judge ranks nothing.
		switch solvedA, solvedB := ra.Outcome == trajectory.Solved, rb.Outcome == trajectory.Solved; {
		case solvedB && !solvedA:
			row.Flip = "better"
		case solvedA && !solvedB:
			row.Flip = "worse"
		}
		if c.Tasks > maxCompared && row.Flip == "" {
			continue
		}
		p.Tasks = append(p.Tasks, row)
	}
	if c.Tasks > maxCompared {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeNote, Text: fmt.Sprintf("of %d tasks those are listed that one run solved and the other did not", c.Tasks)})
	}
	return p, nil
}

// name names a run in a picture.
func name(r page.RunRow) string {
	if r.Agent != "" {
		return r.Model + ", " + r.Agent
	}
	return r.Model
}

// point returns a run in the picture of accuracy against cost.
func point(r page.RunRow) plot.CostPoint {
	p := plot.CostPoint{Label: name(r), CostMicroUSD: r.CostMicroUSD}
	if r.Score != nil {
		p.Rate = *r.Score
	}
	return p
}

// repeats returns how runs did at the tasks of the first of them.
func repeats(names []string, runs []*rundir.Run) plot.Plot {
	var rows []plot.HeatRow
	for _, t := range runs[0].Tasks {
		row := plot.HeatRow{Name: t.Plan.TaskID}
		for _, run := range runs {
			// A task that the other run does not have, or never ended, is no failure.
			cell := plot.Absent
			if t := run.Task(row.Name); t != nil && t.Sealed != nil {
				cell = outcomeCells[t.Sealed.Outcome]
			}
			row.Cells = append(row.Cells, cell)
		}
		rows = append(rows, row)
	}
	return plot.Repeats(names, "run", rows)
}

// outcomeCells are the cells of the outcomes.
var outcomeCells = map[string]plot.Cell{trajectory.Solved: plot.Solved, trajectory.Failed: plot.Failed, trajectory.Skipped: plot.Failed,
	trajectory.Errored: plot.Errored, trajectory.Unscored: plot.Ungraded}
