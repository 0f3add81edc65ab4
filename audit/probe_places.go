package audit

// interval is a place in canonical text, in bytes.
type interval struct{ start, end int }

// addInterval appends one that begins no earlier than the one before the last,
// and unites the two if they touch.
func addInterval(all []interval, next interval) []interval {
	for len(all) > 0 && next.start <= all[len(all)-1].end {
		last := all[len(all)-1]
		next = interval{min(last.start, next.start), max(last.end, next.end)}
		all = all[:len(all)-1]
	}
	return append(all, next)
}

// cursor looks around in intervals that are apart and in order. Looking at
// places one after the other costs one walk through them.
type cursor struct {
	all []interval
	i   int
}

// seek moves to the first interval that ends behind an offset.
func (c *cursor) seek(offset int) {
	for c.i > 0 && c.all[c.i-1].end > offset {
		c.i--
	}
	for c.i < len(c.all) && c.all[c.i].end <= offset {
		c.i++
	}
}

// overlaps says whether an interval has a part of a place.
func (c *cursor) overlaps(place interval) bool {
	c.seek(place.start)
	return c.i < len(c.all) && c.all[c.i].start < place.end
}

// near says whether an interval stands at most so many characters away, or
// overlaps the place.
func (c *cursor) near(t probeText, place interval, chars int) bool {
	if len(c.all) == 0 {
		return false
	}
	c.seek(place.start)
	return c.i < len(c.all) && t.chars(place.end, c.all[c.i].start) <= chars ||
		c.i > 0 && t.chars(c.all[c.i-1].end, place.start) <= chars
}

// beside says whether an interval stands directly beside a place.
func (c *cursor) beside(t probeText, place interval) bool {
	if len(c.all) == 0 {
		return false
	}
	c.seek(place.start)
	return c.i < len(c.all) && t.adjoin(place.end, c.all[c.i].start) ||
		c.i > 0 && t.adjoin(c.all[c.i-1].end, place.start)
}

// adjoin says whether at most 16 characters and no word lie between.
func (t probeText) adjoin(from, to int) bool {
	if from > to || t.chars(from, to) > besideChars {
		return false
	}
	s := wordScanner{b: t.b[from:to]}
	return !s.next()
}
