package plot

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// most is the largest value that is drawn; sums and steps of such values do not overflow.
const most = int64(1) << 60

// bound returns a value that can be drawn.
func bound(v int64) int64 { return min(max(v, -most), most) }

// scale maps values to a side of a picture. The zero value is not valid.
type scale struct {
	lo, hi   int64 // hi is larger
	from, to float64
}

// at returns the place of a value. Values outside of the scale are at its ends.
func (s scale) at(v int64) float64 {
	part := float64(bound(v)-s.lo) / float64(s.hi-s.lo)
	return s.from + float64(min(max(part, 0), 1)*(s.to-s.from)) // the conversion keeps machines from fusing the two
}

// roundStep returns the least of 1, 2 and 5 times a power of ten of which most fit into a span.
func roundStep(span int64, most int64) int64 {
	for ten := int64(1); ; ten *= 10 {
		for _, by := range []int64{1, 2, 5} {
			if span/(ten*by) <= most || ten >= 1e17 {
				return ten * by
			}
		}
	}
}

// timeStep is roundStep for milliseconds, in units of clocks.
func timeStep(span int64, most int64) int64 {
	const s, m, h, day = 1000, 60_000, 3_600_000, 86_400_000
	for _, step := range []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, s, 2 * s, 5 * s, 10 * s, 15 * s, 30 * s,
		m, 2 * m, 5 * m, 10 * m, 15 * m, 30 * m, h, 2 * h, 3 * h, 6 * h, 12 * h, day, 2 * day, 7 * day} {
		if span/step <= most {
			return step
		}
	}
	return day * roundStep(span/day, most)
}

// ticks returns the multiples of a step from lo to hi.
func ticks(lo, hi, step int64) (all []int64) {
	// Division rounds towards 0: the first multiple can be below lo, and is left out.
	for v := lo / step * step; v <= hi && len(all) < 50; v += step {
		if v >= lo {
			all = append(all, v)
		}
	}
	return all
}

// roundUp returns the least multiple of a step that is at least v, and not 0.
func roundUp(v, step int64) int64 { return max((v+step-1)/step, 1) * step }

// percent writes parts per million as a percentage without decimals.
func percent(ppm int64) string { return strconv.FormatInt(ppm/10_000, 10) + " %" }

// dollars writes micro-USD with as many decimals as it needs.
func dollars(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	s := fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6)
	s = strings.TrimRight(s, "0")
	if point := strings.IndexByte(s, '.'); len(s)-point == 2 { // $0.5 is $0.50
		s += "0"
	}
	return sign + "$" + strings.TrimSuffix(s, ".")
}

// count writes a number with a unit for thousands.
func count(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= u.of {
			return strings.TrimSuffix(fmt.Sprintf("%d.%d", n/u.of, n%u.of*10/u.of), ".0") + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// clock writes milliseconds in the unit of a step.
func clock(ms, step int64) string {
	unit, name := int64(86_400_000), " d"
	switch {
	case ms == 0:
		return "0"
	case step < 1000:
		unit, name = 1, " ms"
	case step < 60_000:
		unit, name = 1000, " s"
	case step < 3_600_000:
		unit, name = 60_000, " min"
	case step < 86_400_000:
		unit, name = 3_600_000, " h"
	}
	return strings.TrimSuffix(fmt.Sprintf("%d.%d", ms/unit, ms%unit*10/unit), ".0") + name
}

// seconds writes milliseconds for a table, in seconds with three decimals.
func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

// panel is the part of a picture that has axes.
type panel struct{ left, right, top, bottom float64 }

// yAxis draws the axis of a panel from 0 to at least hi with its grid, and returns its scale.
func (d *drawing) yAxis(p panel, hi int64, label func(int64) string, step func(span, most int64) int64) scale {
	hi = max(bound(hi), 1)
	by := step(hi, max(int64((p.bottom-p.top)/30), 2))
	s := scale{0, roundUp(hi, by), p.bottom, p.top}
	d.yTicks(p, s, ticks(0, s.hi, by), label)
	return s
}

// yTicks draws ticks of a scale as lines across a panel.
func (d *drawing) yTicks(p panel, s scale, at []int64, label func(int64) string) {
	grid := ""
	for _, v := range at {
		y := s.at(v)
		grid += segment(p.left, y, p.right, y)
		d.text(p.left-6, y+4, "end", label(v))
	}
	d.stroke("grid", grid, 1, false)
	d.stroke("axis", segment(p.left, p.top, p.left, p.bottom)+segment(p.left, p.bottom, p.right, p.bottom), 1, false)
}

// xTicks draws ticks of a scale below a panel, with lines up through it.
func (d *drawing) xTicks(p panel, s scale, at []int64, label func(int64) string) {
	grid := ""
	for _, v := range at {
		x := s.at(v)
		grid += segment(x, p.top, x, p.bottom)
		anchor := "middle"
		if x > width-20 {
			anchor, x = "end", min(x+10, width-2)
		}
		d.text(x, p.bottom+16, anchor, label(v))
	}
	d.stroke("grid", grid, 1, false)
}

// timeAxis draws the axis of time below a panel, from 0 to ms, and returns its scale.
func (d *drawing) timeAxis(p panel, ms int64) scale {
	ms = max(bound(ms), 1)
	step := timeStep(ms, 6)
	s := scale{0, ms, p.left, p.right}
	d.xTicks(p, s, ticks(0, ms, step), func(v int64) string { return clock(v, step) })
	return s
}

// epochDay returns the days since 1970 of a valid time.DateOnly.
func epochDay(date string) int64 {
	at, _ := time.Parse(time.DateOnly, date)
	return at.Unix() / 86_400
}

// dateAxis writes dates below a panel, from one day to another since 1970, and returns its scale.
func (d *drawing) dateAxis(in panel, first, last int64) scale {
	x := scale{first, max(last, first+1), in.left + 12, in.right - 12}
	if first == last {
		x = scale{first - 1, first + 1, in.left, in.right}
	}
	// Dates are long: the first, the last and one between them have room at 400 px.
	labels := []int64{first}
	if last > first {
		labels = []int64{first, last}
		if middle := (first + last) / 2; middle > first && last-middle > 1 {
			labels = []int64{first, middle, last}
		}
	}
	for i, at := range labels {
		anchor := []string{"start", "middle", "end"}[i*2/max(len(labels)-1, 1)]
		where := x.at(at)
		switch {
		case len(labels) == 1:
			anchor = "middle"
		case i == 0:
			where = in.left
		}
		d.text(where, in.bottom+18, anchor, time.Unix(at*86_400, 0).UTC().Format(time.DateOnly))
	}
	return x
}
