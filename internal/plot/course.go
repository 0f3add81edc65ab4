package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Spent is what a run had spent at a time after its start.
type Spent struct {
	Ms           int64
	CostMicroUSD int64 // of the calls whose price is known
	Tokens       int64
}

// maxSteps bounds the steps of CostOverTime.
const maxSteps = 500

// CostOverTime shows the cumulative cost of a run; where nothing had a price, its tokens.
// unpriced is how many calls have no known price.
func CostOverTime(spent []Spent, unpriced int64) Plot {
	p := Plot{Name: "cost-over-time", Title: "Cumulative cost (US dollars) over time", Columns: []string{"time s", "cost USD", "tokens"}}
	spent = slices.Clone(spent)
	slices.SortStableFunc(spent, func(a, b Spent) int { return cmp.Compare(a.Ms, b.Ms) })
	if len(spent) > maxSteps { // the last of each part
		thin := make([]Spent, maxSteps)
		for i := range thin {
			thin[i] = spent[(i+1)*len(spent)/maxSteps-1]
		}
		p.Note = fmt.Sprintf("Of %d steps %d are shown. ", len(spent), maxSteps)
		spent = thin
	}
	for _, s := range spent {
		p.Rows = append(p.Rows, []string{seconds(s.Ms), usd(&s.CostMicroUSD), strconv.FormatInt(s.Tokens, 10)})
	}
	if len(spent) == 0 {
		p.Note = "No model was called yet."
		return p
	}
	of, label, unit := func(s Spent) int64 { return s.CostMicroUSD }, dollars, "s0"
	// A line at 0 says nothing: where nothing has a price, tokens show how the run went on.
	if !slices.ContainsFunc(spent, func(s Spent) bool { return s.CostMicroUSD > 0 }) {
		p.Title = "Cumulative tokens over time"
		of, label = func(s Spent) int64 { return s.Tokens }, count
		if unpriced == 0 {
			p.Note += "No call cost anything, so tokens are drawn. "
		}
	}
	if unpriced > 0 {
		p.Note += fmt.Sprintf("The price of %d calls is unknown: the cost is at least what is shown. ", unpriced)
	}
	highest := int64(0)
	for _, s := range spent {
		highest = max(highest, of(s))
	}
	d := &drawing{height: 240}
	in := panel{76, width - 20, 14, 206}
	y := d.yAxis(in, highest, label, roundStep)
	x := d.timeAxis(in, spent[len(spent)-1].Ms)
	path := "M" + num(in.left) + " " + num(in.bottom)
	for _, s := range spent {
		path += "H" + num(x.at(s.Ms)) + "V" + num(y.at(of(s)))
	}
	d.fill(unit, path+"V"+num(in.bottom)+"z", 0.2)
	d.stroke(unit, path, 2, false)
	p.Note += "Time is from the start of the run, without pauses taken out."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// Turn is a turn of an attempt.
type Turn struct {
	Number              int
	TokensIn, TokensOut int64
	LatencyMs           int64 // of the model
	Failed              bool  // a model call of it failed
}

// maxTurns bounds the bars of Turns.
const maxTurns = 100

// Turns shows the tokens and the latency of the turns of an attempt. Of more than 100,
// neighbours are shown as one bar of their means.
func Turns(turns []Turn) Plot {
	p := Plot{Name: "tokens-and-latency-by-turn", Title: "Tokens and latency (seconds) by turn",
		Columns: []string{"turn", "tokens in", "tokens out", "latency s", "failed calls in it"}}
	if len(turns) == 0 {
		p.Note = "The attempt has no turn yet."
		return p
	}
	type bar struct {
		Turn
		name string
	}
	each := (len(turns) + maxTurns - 1) / maxTurns
	var bars []bar
	for part := range slices.Chunk(turns, each) {
		b := bar{Turn: part[0], name: strconv.Itoa(part[0].Number)}
		if len(part) > 1 {
			b.name += "–" + strconv.Itoa(part[len(part)-1].Number)
		}
		// Each value is divided before it is added, so that no sum overflows.
		b.TokensIn, b.TokensOut, b.LatencyMs, b.Failed = 0, 0, 0, false
		n := int64(len(part))
		for _, t := range part {
			b.TokensIn += max(bound(t.TokensIn), 0) / n
			b.TokensOut += max(bound(t.TokensOut), 0) / n
			b.LatencyMs += max(bound(t.LatencyMs), 0) / n
			b.Failed = b.Failed || t.Failed
		}
		p.Rows = append(p.Rows, []string{b.name, strconv.FormatInt(b.TokensIn, 10), strconv.FormatInt(b.TokensOut, 10), seconds(b.LatencyMs), yes[b.Failed]})
		bars = append(bars, b)
	}
	// Tokens and latency have one axis of turns and two panels: two scales in one panel would invite to compare them.
	tokens, latency := int64(0), int64(0)
	for _, b := range bars {
		tokens, latency = max(tokens, b.TokensIn+b.TokensOut), max(latency, b.LatencyMs)
	}
	d := &drawing{}
	entries := []entry{{"s0", square, false, "tokens in"}, {"s1", square, true, "tokens out"}, {"s2", diamond, false, "latency"}}
	if slices.ContainsFunc(bars, func(b bar) bool { return b.Failed }) {
		entries = append(entries, entry{"s3", triangle, true, "failed"})
	}
	top := d.legend(18, entries...)
	above := panel{60, width - 16, top + 6, top + 136}
	below := panel{60, width - 16, above.bottom + 18, above.bottom + 108}
	d.height = below.bottom + 40
	y := d.yAxis(above, tokens, count, roundStep)
	by := timeStep(max(latency, 1), 3)
	l := scale{0, roundUp(latency, by), below.bottom, below.top}
	d.yTicks(below, l, ticks(0, l.hi, by), func(v int64) string { return clock(v, by) })
	slot := (above.right - above.left) / float64(len(bars))
	wide := min(slot*0.7, 28)
	in, out, points, line, failed := "", "", "", "", ""
	labelled := roundStep(int64(len(bars)), 8)
	for i, b := range bars {
		middle := above.left + float64(slot*(float64(i)+0.5))
		base, mid, high := y.at(0), y.at(b.TokensIn), y.at(b.TokensIn+b.TokensOut)
		in += box(middle-wide/2, mid, wide, base-mid)
		if mid-high >= 0.1 {
			out += box(middle-wide/2, high, wide, mid-high)
		}
		line = lineTo(line, middle, l.at(b.LatencyMs))
		points += mark(diamond, middle, l.at(b.LatencyMs), min(3, slot/3))
		if b.Failed {
			failed += mark(triangle, middle, below.bottom-6, 4)
		}
		if int64(i)%labelled == 0 || len(bars) == 1 {
			d.text(middle, below.bottom+16, "middle", strconv.Itoa(b.Number))
		}
	}
	d.fill("s0", in, 1)
	d.stroke("s1", out, 1.5, false)
	d.stroke("s2", line, 1.5, false)
	d.fill("s2", points, 1)
	d.stroke("s3", failed, 1.5, false)
	d.text((below.left+below.right)/2, below.bottom+33, "middle", "turn")
	if each > 1 {
		p.Note = fmt.Sprintf("Each bar is the mean of %d turns. ", each)
	}
	p.Note += "Above tokens, below the latency of the model; a triangle marks a turn in which a call of the model failed."
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// Span is an attempt in time.
type Span struct {
	Task    string
	Attempt int
	Start   int64 // in milliseconds after the start of the run
	End     int64 // of a span that is open: until when it was seen
	Outcome string
	Open    bool
}

// The most attempts that Attempts draws one by one, and the parts of time in which more are counted.
const (
	maxSpans = 60
	maxBins  = 120
)

// Attempts shows how many attempts were under way at a time, and below each attempt, or, of
// more than 60, how many ended.
func Attempts(spans []Span) Plot {
	p := Plot{Name: "attempts-over-time", Title: "Attempts over time, and how many at once"}
	if len(spans) == 0 {
		p.Note, p.Columns = "No attempt has begun.", []string{"task", "attempt", "from s", "to s", "outcome"}
		return p
	}
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	last := int64(1)
	for i := range spans {
		s := &spans[i]
		s.Start = max(bound(s.Start), 0)
		s.End = max(bound(s.End), s.Start)
		last = max(last, s.End)
	}
	parts := min(int64(maxBins), last)
	// In each part of time: the most at once, and what ended in it. A part has at least one millisecond.
	type bin struct{ most, answered, other int64 }
	bins := make([]bin, parts)
	part := func(ms int64) int64 { return min(int64(float64(ms)/float64(last)*float64(parts)), parts-1) }
	// Each beginning and end changes how many there are. An end comes before a beginning of the same millisecond: one
	// attempt that follows another is not two at once.
	type change struct {
		at int64
		by int64
	}
	var changes []change
	for _, s := range spans {
		changes = append(changes, change{s.Start, 1})
		if !s.Open {
			changes = append(changes, change{max(s.End, s.Start+1), -1})
			if s.Outcome == answered {
				bins[part(s.End)].answered++
			} else {
				bins[part(s.End)].other++
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	now, at, highest := int64(0), int64(0), int64(0)
	for _, c := range changes {
		// What is under way when a part ends is under way when the next begins.
		for to := part(c.at); at < to; {
			bins[at].most = max(bins[at].most, now)
			at++
			bins[at].most = max(bins[at].most, now)
		}
		now += c.by
		bins[at].most, highest = max(bins[at].most, now), max(highest, now)
	}
	d := &drawing{}
	in := panel{52, width - 16, 14, 94}
	y := d.yAxis(in, highest, count, roundStep)
	x := scale{0, last, in.left, in.right}
	// The area has a step for each part, so that a peak is not made lower by what is beside it.
	area := "M" + num(in.left) + " " + num(in.bottom)
	start := func(i int) float64 { return in.left + float64((in.right-in.left)*float64(i)/float64(parts)) }
	for i, b := range bins {
		area += "H" + num(start(i)) + "V" + num(y.at(b.most))
	}
	area += "H" + num(in.right)
	d.fill("s0", area+"V"+num(in.bottom)+"z", 0.3)
	d.stroke("s0", area, 1.5, false)
	below := panel{in.left, in.right, in.bottom + 40, 0}
	if len(spans) <= maxSpans {
		d.height = d.lanes(&p, below, x, spans) + 28
		p.Note = "Above how many attempts were under way; below each attempt in its lane."
	} else {
		d.legend(in.bottom+24, entry{"s0", square, false, "answered"}, entry{"s1", square, true, "ended without an answer"})
		p.Columns = []string{"from s", "to s", "at once at most", "answered", "ended without an answer"}
		highest := int64(0)
		for _, b := range bins {
			highest = max(highest, b.answered+b.other)
		}
		below.bottom = below.top + 80
		y := d.yAxis(below, highest, count, roundStep)
		got, not := "", ""
		for i, b := range bins {
			from, to := start(i), start(i+1)
			base, mid, top := y.at(0), y.at(b.answered), y.at(b.answered+b.other)
			if base-mid >= 0.1 {
				got += box(from, mid, to-from, base-mid)
			}
			if mid-top >= 0.1 {
				not += box(from+0.5, top, max(to-from-1, 0.5), mid-top)
			}
			p.Rows = append(p.Rows, []string{seconds(int64(i) * last / parts), seconds(int64(i+1) * last / parts), strconv.FormatInt(b.most, 10),
				strconv.FormatInt(b.answered, 10), strconv.FormatInt(b.other, 10)})
		}
		d.timeAxis(below, last)
		d.fill("s0", got, 1)
		d.stroke("s1", not, 1, false)
		d.height = below.bottom + 28
		p.Note = fmt.Sprintf("Above how many of the %d attempts were under way at most; below how many ended.", len(spans))
	}
	p.SVG = d.finish(p.Title, p.Note)
	return p
}

// answered is the outcome of an attempt that gave an answer, as in its attempt_ended.
const answered = "answered"

// lanes draws each attempt in the first lane that is free, adds the rows of the table, and
// returns where the panel ends.
func (d *drawing) lanes(p *Plot, in panel, x scale, spans []Span) float64 {
	d.legend(in.top-16, entry{"s0", square, false, "answered"}, entry{"s1", square, true, "no answer"}, entry{"s2", triangle, true, "open"})
	p.Columns = []string{"task", "attempt", "from s", "to s", "outcome"}
	var free []int64 // when each lane is
	paths := map[string]string{}
	for _, s := range spans {
		lane := slices.IndexFunc(free, func(at int64) bool { return at <= s.Start })
		if lane < 0 {
			lane = len(free)
			free = append(free, 0)
		}
		free[lane] = max(s.End, s.Start+1)
		top := in.top + 9*float64(lane)
		from, to := x.at(s.Start), x.at(s.End)
		// An attempt has a width, however short it was.
		bar := box(from+0.5, top, max(to-from-1, 1), 6)
		outcome := s.Outcome
		switch {
		case s.Open:
			outcome = "open"
			paths["s2"] += bar + segment(min(to, in.right), top-1, min(to, in.right), top+7)
		case s.Outcome == answered:
			paths["s0"] += bar
		default:
			paths["s1"] += bar
		}
		p.Rows = append(p.Rows, []string{s.Task, strconv.Itoa(s.Attempt), seconds(s.Start), seconds(s.End), outcome})
	}
	in.bottom = in.top + 9*float64(len(free)) + 3
	d.stroke("axis", segment(in.left, in.bottom, in.right, in.bottom), 1, false)
	d.timeAxis(in, x.hi)
	d.fill("s0", paths["s0"], 1)
	d.stroke("s1", paths["s1"], 1.2, false)
	d.stroke("s2", paths["s2"], 1.2, true)
	return in.bottom
}
