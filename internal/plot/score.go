package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/internal/stats"
)

// unknown stands in tables for a number that is not known.
const unknown = "unknown"

// yes stands in tables for what is so.
var yes = map[bool]string{true: "yes"}

// tenths writes parts per million as a percentage with one decimal, for a table.
func tenths(ppm int64) string {
	sign := ""
	if ppm < 0 {
		sign, ppm = "-", -ppm
	}
	t := (ppm + 500) / 1000
	return fmt.Sprintf("%s%d.%d", sign, t/10, t%10)
}

// usd writes micro-USD in dollars, for a table; nil is unknown.
func usd(micro *int64) string {
	if micro == nil {
		return unknown
	}
	sign, n := "", *micro
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%06d", sign, n/1e6, n%1e6)
}

// rateCells are the cells of a rate: correct, of, rate, low and high end in percent.
func rateCells(r *stats.Rate) []string {
	if r == nil {
		return []string{"", "", "", "", ""}
	}
	return []string{strconv.Itoa(r.Correct), strconv.Itoa(r.Planned), tenths(r.AccuracyPPM), tenths(r.WilsonLowPPM), tenths(r.WilsonHighPPM)}
}

// LevelRate is a row of scores. A nil rate is not drawn.
type LevelRate struct {
	Name             string
	Official, Judged *stats.Rate
}

// maxLevels bounds the rows of AccuracyByLevel.
const maxLevels = 24

// AccuracyByLevel shows the scores by level with their Wilson intervals.
func AccuracyByLevel(levels []LevelRate) Plot {
	p := Plot{Name: "accuracy-by-level", Title: "Accuracy by level, with 95 % intervals",
		Columns: []string{"level", "official correct", "of", "official %", "from %", "to %", "judged correct", "of", "judged %", "from %", "to %"}}
	// Levels are few; the bound keeps the picture small whatever the plan has.
	levels = levels[:min(len(levels), maxLevels)]
	scored, judged := false, false
	for _, l := range levels {
		scored, judged = scored || l.Official != nil, judged || l.Judged != nil
	}
	if !scored && !judged {
		p.Note = "No task has a verdict."
		return p
	}
	if !judged {
		p.Columns = p.Columns[:6]
	}
	d := &drawing{}
	top := 8.0
	if judged {
		top = d.legend(18, entry{"s0", circle, false, "official"}, entry{"s1", square, true, "judged"})
	}
	const row = 40.0
	in := panel{72, width - 60, top + 4, top + 4 + row*float64(len(levels))}
	d.height = in.bottom + 26
	x := d.rateAxis(in)
	for i, l := range levels {
		y := in.top + row*(float64(i)+0.5)
		d.text(in.left-8, y+4, "end", short(l.Name, 8))
		// Two verdicts of a level stand side by side, so that neither interval hides the other.
		apart := 0.0
		if l.Official != nil && l.Judged != nil {
			apart = 9
		}
		if l.Official != nil {
			d.rate(in, x, y-apart, entry{"s0", circle, false, ""}, *l.Official)
		}
		if l.Judged != nil {
			d.rate(in, x, y+apart, entry{"s1", square, true, ""}, *l.Judged)
		}
		p.Rows = append(p.Rows, append(append([]string{l.Name}, rateCells(l.Official)...), rateCells(l.Judged)...)[:len(p.Columns)])
	}
	p.Note = "The marks are the scores, the lines their Wilson intervals; where two overlap, chance can explain the difference."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// rateAxis draws the axes of a panel whose values from left to right are rates, and returns its scale.
func (d *drawing) rateAxis(in panel) scale {
	x := scale{0, 1_000_000, in.left, in.right}
	d.xTicks(in, x, ticks(0, x.hi, x.hi/5), percent)
	d.stroke("axis", segment(in.left, in.top, in.left, in.bottom)+segment(in.left, in.bottom, in.right, in.bottom), 1, false)
	return x
}

// rate draws a rate with its interval, and writes it at the right end of the panel.
func (d *drawing) rate(in panel, x scale, y float64, as entry, r stats.Rate) {
	d.stroke(as.class+" ci", whisker(x.at(r.WilsonLowPPM), x.at(r.WilsonHighPPM), y), 1.5, false)
	d.mark(as, x.at(r.AccuracyPPM), y, 5, 2)
	d.text(in.right+10, y+4, "start", tenths(r.AccuracyPPM)+" %")
}

// CostPoint is a run in AccuracyAgainstCost.
type CostPoint struct {
	Label        string
	CostMicroUSD *int64 // nil: a price is unknown
	Rate         stats.Rate
}

// The most runs of AccuracyAgainstCost that are drawn, and whose names are in the picture.
const (
	maxPoints = 150
	maxNamed  = 10
)

// AccuracyAgainstCost shows runs by what they cost, with the Pareto front: the runs that no
// other run beats in both. Runs whose cost is unknown are only in the table.
func AccuracyAgainstCost(points []CostPoint) Plot {
	p := Plot{Name: "accuracy-against-cost", Title: "Accuracy against cost (US dollars), with 95 % intervals",
		Columns: []string{"number", "run", "cost USD", "correct", "of", "accuracy %", "from %", "to %", "front"}}
	type placed struct {
		CostPoint
		number int
		front  bool
	}
	var known []placed
	for i, c := range points {
		if c.CostMicroUSD != nil && c.Rate.Planned > 0 {
			known = append(known, placed{CostPoint: c, number: i + 1})
		}
	}
	// From the cheapest on, a run is on the front if it scores more than every one before it. A twin of one that is on the
	// front, with the same cost and score, is on it too.
	slices.SortStableFunc(known, func(a, b placed) int {
		return cmp.Or(cmp.Compare(*a.CostMicroUSD, *b.CostMicroUSD), cmp.Compare(b.Rate.AccuracyPPM, a.Rate.AccuracyPPM))
	})
	front, best := map[int]bool{}, int64(-1)
	for i := range known {
		k := &known[i]
		twin := i > 0 && known[i-1].front && *known[i-1].CostMicroUSD == *k.CostMicroUSD && known[i-1].Rate.AccuracyPPM == k.Rate.AccuracyPPM
		if k.Rate.AccuracyPPM > best || twin {
			k.front, front[k.number], best = true, true, k.Rate.AccuracyPPM
		}
	}
	for i, c := range points {
		p.Rows = append(p.Rows, append(append([]string{strconv.Itoa(i + 1), c.Label, usd(c.CostMicroUSD)}, rateCells(&c.Rate)...), yes[front[i+1]]))
	}
	if n := len(points) - len(known); n > 0 {
		p.Note = fmt.Sprintf("%d of %d have no place in the picture: their cost or score is unknown. ", n, len(points))
	}
	if len(known) == 0 {
		if p.Note == "" {
			p.Note = "No run has both a cost and a score."
		}
		return p
	}
	drawn := known
	if len(known) > maxPoints { // the front first
		drawn = slices.Clone(known)
		slices.SortStableFunc(drawn, func(a, b placed) int { return ordered(b.front) - ordered(a.front) })
		drawn = drawn[:maxPoints]
		p.Note += fmt.Sprintf("%d are drawn, those of the front first. ", maxPoints)
	}
	d := &drawing{}
	top := d.legend(18, entry{"s0", circle, false, "on the front"}, entry{"s1", square, true, "another is cheaper and as good"})
	in := panel{52, width - 16, top + 12, top + 242}
	y := scale{0, 1_000_000, in.bottom, in.top}
	d.yTicks(in, y, ticks(0, y.hi, y.hi/5), percent)
	highest := max(bound(*known[len(known)-1].CostMicroUSD), 1)
	step := roundStep(highest, 5)
	x := scale{0, roundUp(highest, step), in.left, in.right}
	d.xTicks(in, x, ticks(0, x.hi, step), dollars)
	// Marks and intervals of a kind are one path each: an SVG of many points stays small.
	steps, whiskers := "", map[bool]string{}
	marks := map[bool]string{}
	last, end := 0.0, 0.0
	for _, k := range drawn {
		at, height := x.at(*k.CostMicroUSD), y.at(k.Rate.AccuracyPPM)
		whiskers[k.front] += upright(at, y.at(k.Rate.WilsonLowPPM), y.at(k.Rate.WilsonHighPPM))
		shape := square
		if k.front {
			shape = circle
		}
		marks[k.front] += mark(shape, at, height, 4)
	}
	// The front is a staircase: between two runs on it, the cheaper one is the best that its money buys.
	for _, k := range known {
		if !k.front {
			continue
		}
		if end = x.at(*k.CostMicroUSD); len(steps) > 4000 {
			continue
		}
		if last = y.at(k.Rate.AccuracyPPM); steps == "" {
			steps = "M" + num(end) + " " + num(last)
		} else {
			steps += "H" + num(end) + "V" + num(last)
		}
	}
	d.stroke("s0", steps+"M"+num(in.right)+" "+num(last)+"H"+num(end), 1.5, true)
	d.stroke("s1 ci", whiskers[false], 1, false)
	d.stroke("s0 ci", whiskers[true], 1, false)
	d.stroke("s1", marks[false], 1.5, false)
	d.fill("s0", marks[true], 1)
	bottom := in.bottom + 22
	for _, k := range drawn[:min(len(drawn), 40)] {
		anchor, at := "start", x.at(*k.CostMicroUSD)+7
		if at > width-24 {
			anchor, at = "end", at-14
		}
		d.text(at, y.at(k.Rate.AccuracyPPM)-5, anchor, strconv.Itoa(k.number))
	}
	for _, k := range drawn[:min(len(drawn), maxNamed)] {
		bottom += line
		d.text(in.left, bottom, "start", fmt.Sprintf("%d  %s", k.number, short(k.Label, 44)))
	}
	d.height = bottom + 10
	p.Note += "The dashed line is the Pareto front: no other run costs less and scores as much. Numbers are those of the table."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// ordered is 1 for true.
func ordered(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Difference shows what two runs solved of the tasks of both, what the difference is worth,
// and what they cost. nameA and nameB stand beside A and B in the picture.
func Difference(c stats.Comparison, nameA, nameB string) Plot {
	p := Plot{Name: "difference", Title: "Solve rates of A and B, and B less A with its 95 % interval",
		Columns: []string{"", "name", "solved", "of", "rate %", "from %", "to %", "cost USD", "tokens"}}
	if c.Tasks == 0 {
		p.Note = "The runs have no task in common."
		return p
	}
	a, b := stats.NewRate(c.A.Solved, c.Tasks), stats.NewRate(c.B.Solved, c.Tasks)
	row := func(name, label string, r stats.Rate, of stats.Compared) []string {
		return append(append([]string{name, label}, rateCells(&r)...), usd(of.CostMicroUSD), strconv.FormatInt(of.Tokens, 10))
	}
	p.Rows = [][]string{row("A", nameA, a, c.A), row("B", nameB, b, c.B),
		{"B less A", "", strconv.Itoa(c.OnlyB - c.OnlyA), strconv.Itoa(c.Tasks), tenths(c.RatePPM), tenths(c.LowPPM), tenths(c.HighPPM), usd(c.CostMicroUSD), strconv.FormatInt(c.Tokens, 10)}}
	d := &drawing{}
	in := panel{72, width - 60, 8, 96}
	x := d.rateAxis(in)
	for i, side := range []entry{{"s0", circle, false, "A"}, {"s1", square, false, "B"}} {
		y := in.top + 22 + 44*float64(i)
		d.text(in.left-8, y+4, "end", side.text)
		d.rate(in, x, y, side, []stats.Rate{a, b}[i])
	}
	// The difference has another axis, with 0 in the middle, as wide as its interval needs.
	less := panel{in.left, in.right, in.bottom + 36, in.bottom + 76}
	reach := max(-c.LowPPM, c.HighPPM, -c.RatePPM, c.RatePPM, 10_000)
	step := roundStep(reach, 2)
	dx := scale{-roundUp(reach, step), roundUp(reach, step), less.left, less.right}
	d.xTicks(less, dx, ticks(dx.lo, dx.hi, step), func(v int64) string {
		if step < 10_000 {
			return tenths(v) + " %"
		}
		return percent(v)
	})
	d.stroke("axis", segment(dx.at(0), less.top, dx.at(0), less.bottom)+segment(less.left, less.bottom, less.right, less.bottom), 1.5, false)
	y := (less.top + less.bottom) / 2
	d.text(less.left-8, y+4, "end", "B less A")
	d.stroke("s3 ci", whisker(dx.at(c.LowPPM), dx.at(c.HighPPM), y), 1.5, false)
	d.fill("s3", mark(diamond, dx.at(c.RatePPM), y, 5), 1)
	d.text(less.right+6, y+4, "start", tenths(c.RatePPM)+" %")
	bottom := less.bottom + 24
	// Costs are bars from 0, which can be compared by their length.
	if c.A.CostMicroUSD != nil && c.B.CostMicroUSD != nil {
		highest := max(bound(*c.A.CostMicroUSD), bound(*c.B.CostMicroUSD), 1)
		cost := panel{in.left, in.right, bottom + 10, bottom + 66}
		step := roundStep(highest, 4)
		cx := scale{0, roundUp(highest, step), cost.left, cost.right}
		d.xTicks(cost, cx, ticks(0, cx.hi, step), dollars)
		d.text(cost.left-8, cost.top+18, "end", "cost A")
		d.text(cost.left-8, cost.top+46, "end", "cost B")
		d.fill("s0", box(cost.left, cost.top+6, cx.at(*c.A.CostMicroUSD)-cost.left, 16), 1)
		d.fill("s1", box(cost.left, cost.top+34, cx.at(*c.B.CostMicroUSD)-cost.left, 16), 1)
		bottom = cost.bottom + 24
	} else {
		p.Note = "A cost is unknown, and not drawn. "
	}
	for _, name := range []string{"A  " + short(nameA, 44), "B  " + short(nameB, 44)} {
		bottom += line
		d.text(in.left, bottom-6, "start", name)
	}
	d.height = bottom + 6
	p.Note += "Intervals of A and B are Wilson's; that of the difference is of the bootstrap over the pairs of tasks. Where it contains 0, chance can explain the difference."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// TrendPoint is what the runs of a day or week did.
type TrendPoint struct {
	Name      string // "2026-11-26" or "2026-W48"
	Start     string // its first day, as time.DateOnly
	Rehearsal bool
	Runs      int
	Rate      *stats.Rate // nil: no task has a verdict
	CostPer   *int64      // for each solved task, in micro-USD; nil: unknown, or none was solved
}

// maxTrend bounds the days or weeks of Trend that are drawn.
const maxTrend = 150

// Trend shows solve rates over days or weeks. Of more than 150 the last are drawn.
func Trend(points []TrendPoint) Plot {
	p := Plot{Name: "trend", Title: "Solve rate over time, with 95 % intervals",
		Columns: []string{"time", "runs", "solved", "of", "rate %", "from %", "to %", "cost per solved task USD", "rehearsal"}}
	var drawn []TrendPoint
	for _, t := range points {
		p.Rows = append(p.Rows, append(append([]string{t.Name, strconv.Itoa(t.Runs)}, rateCells(t.Rate)...), usd(t.CostPer), yes[t.Rehearsal]))
		if _, err := time.Parse(time.DateOnly, t.Start); err == nil && t.Rate != nil && t.Rate.Planned > 0 {
			drawn = append(drawn, t)
		}
	}
	if len(drawn) == 0 {
		p.Note = "No run has a score."
		return p
	}
	if len(drawn) > maxTrend {
		p.Note = fmt.Sprintf("The last %d of %d are drawn. ", maxTrend, len(drawn))
		drawn = drawn[len(drawn)-maxTrend:]
	}
	day := func(t TrendPoint) int64 { return epochDay(t.Start) } // so that a week without runs is a gap
	d := &drawing{}
	entries := []entry{{"s0", circle, false, "runs"}}
	if slices.ContainsFunc(drawn, func(t TrendPoint) bool { return t.Rehearsal }) {
		entries = append(entries, entry{"s1", square, true, "rehearsals"})
	}
	top := d.legend(18, entries...)
	in := panel{52, width - 24, top + 12, top + 212}
	d.height = in.bottom + 28
	y := scale{0, 1_000_000, in.bottom, in.top}
	d.yTicks(in, y, ticks(0, y.hi, y.hi/5), percent)
	x := d.dateAxis(in, day(drawn[0]), day(drawn[len(drawn)-1]))
	// Runs and rehearsals are two series, by whether it is a rehearsal.
	path, whiskers, marks := map[bool]string{}, map[bool]string{}, map[bool]string{}
	for _, t := range drawn {
		at, height := x.at(day(t)), y.at(t.Rate.AccuracyPPM)
		shape := circle
		if t.Rehearsal {
			shape = square
		}
		path[t.Rehearsal] = lineTo(path[t.Rehearsal], at, height)
		whiskers[t.Rehearsal] += upright(at, y.at(t.Rate.WilsonLowPPM), y.at(t.Rate.WilsonHighPPM))
		marks[t.Rehearsal] += mark(shape, at, height, 4)
	}
	d.stroke("s1 ci", whiskers[true], 1, false)
	d.stroke("s0 ci", whiskers[false], 1, false)
	d.stroke("s1", path[true], 1.5, true)
	d.stroke("s0", path[false], 1.5, false)
	d.stroke("s1", marks[true], 1.5, false)
	d.fill("s0", marks[false], 1)
	p.Note += "Each mark is a day or week of runs, each line its Wilson interval. Rehearsals are no measurement of a model."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}
