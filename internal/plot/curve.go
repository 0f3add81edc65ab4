package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// RunCost is what a run cost.
type RunCost struct {
	Day, Run, Model string // the UTC day on which it began, as time.DateOnly
	Rehearsal       bool
	OnlyErrors      bool // its tasks were chosen because they failed in another run
	Tasks           int
	Solved          *int   // nil: nothing was graded
	CostMicroUSD    *int64 // of all tasks; nil: a price is unknown
}

// per returns the cost divided by a number of tasks, floored; nil if one of them is unknown or there are none.
func (r RunCost) per(tasks *int) *int64 {
	if r.CostMicroUSD == nil || tasks == nil || *tasks <= 0 {
		return nil
	}
	return new(bound(*r.CostMicroUSD) / int64(*tasks))
}

// maxCosts bounds the runs of CostCurve that are drawn.
const maxCosts = 400

// CostCurve shows what a task and a solved task cost, run by run, in the order that is given. Of more than 400 runs the last
// are drawn. Rehearsals are drawn only if there is nothing else, and runs of the errors of others never.
func CostCurve(runs []RunCost) Plot {
	p := Plot{Name: "cost-curve", Title: "Cost (US dollars) per task and per solved task, by run",
		Columns: []string{"day", "run", "model", "tasks", "solved", "cost USD", "per task USD", "per solved task USD", "kind"}}
	var drawn []RunCost
	real := slices.ContainsFunc(runs, func(r RunCost) bool { return !r.Rehearsal })
	for _, r := range runs {
		solved, kind := "", ""
		if r.Solved != nil {
			solved = strconv.Itoa(*r.Solved)
		}
		switch {
		case r.Rehearsal:
			kind = "rehearsal"
		case r.OnlyErrors:
			kind = "only errors"
		}
		p.Rows = append(p.Rows, []string{r.Day, r.Run, r.Model, strconv.Itoa(r.Tasks), solved, usd(r.CostMicroUSD), usd(r.per(&r.Tasks)), usd(r.per(r.Solved)), kind})
		if _, err := time.Parse(time.DateOnly, r.Day); err == nil && r.per(&r.Tasks) != nil && r.Rehearsal != real && !r.OnlyErrors {
			drawn = append(drawn, r)
		}
	}
	if len(drawn) == 0 {
		p.Note = "No run has a known cost."
		return p
	}
	if len(drawn) > maxCosts {
		p.Note = fmt.Sprintf("The last %d of %d are drawn. ", maxCosts, len(drawn))
		drawn = drawn[len(drawn)-maxCosts:]
	}
	d := &drawing{}
	top := d.legend(18, entry{"s0", circle, false, "per task"}, entry{"s1", square, true, "per solved task"})
	in := panel{84, width - 20, top + 10, top + 190}
	d.height = in.bottom + 28
	highest := int64(0)
	for _, r := range drawn {
		highest = max(highest, *r.per(&r.Tasks))
		if solved := r.per(r.Solved); solved != nil {
			highest = max(highest, *solved)
		}
	}
	y := d.yAxis(in, highest, dollars, roundStep)
	byDay := func(a, b RunCost) int { return cmp.Compare(a.Day, b.Day) } // of dates that are written alike
	x := d.dateAxis(in, epochDay(slices.MinFunc(drawn, byDay).Day), epochDay(slices.MaxFunc(drawn, byDay).Day))
	var paths, marks [2]string
	changes := ""
	for i, r := range drawn {
		at := x.at(epochDay(r.Day))
		if i > 0 && r.Model != drawn[i-1].Model {
			changes += segment(at, in.top, at, in.bottom)
		}
		for series, cost := range []*int64{r.per(&r.Tasks), r.per(r.Solved)} {
			if cost == nil {
				continue
			}
			paths[series] = lineTo(paths[series], at, y.at(*cost))
			marks[series] += mark([]int{circle, square}[series], at, y.at(*cost), 3)
		}
	}
	d.stroke("axis", changes, 1, true)
	d.stroke("s1", paths[1], 1.5, true)
	d.stroke("s0", paths[0], 1.5, false)
	d.stroke("s1", marks[1], 1.5, false)
	d.fill("s0", marks[0], 1)
	if changes != "" {
		p.Note += "A dashed line from top to bottom is another model. "
	}
	if !real {
		p.Note += "All runs are rehearsals, whose prices are invented. "
	}
	p.Note += "The cost of all attempts at all tasks of a run, divided by its tasks, and by those that it solved."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}
