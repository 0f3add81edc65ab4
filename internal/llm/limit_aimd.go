package llm

const (
	// A refusal counts as much as six answers: below one refusal to six answers the limit stays. So
	// it settles within a sixth of the cap also at a server that refuses as slowly as it answers, and
	// refusals that have nothing to do with how much is asked do not wear it down.
	refusalWeight = 6
	// enoughRefusals, with few answers between them, are believed.
	enoughRefusals = 4

	firstPatience = 2  // windows just below the ceiling before it is tried again
	mostPatience  = 32 // the same after it was refused again and again
	leastWindow   = 8  // answers, for patience: or small limits would be tried all the time
)

// aimd decides how many requests may be under way at once, by additive increase and multiplicative
// decrease with a memory of the ceiling where refusals came.
//
// Increase: by one, and only when the limit has been reached since the last change. Where no ceiling
// is known, or it is far, after as many answers as are a quarter of the limit. Just below the ceiling
// only after `patience` windows of as many answers as the limit, and the patience doubles each time the ceiling is
// refused again. A whole window at the ceiling proves that it is gone.
//
// Decrease: when refusals outweigh answers, to 7/8 of what was under way at most; to 3/4 if the last
// decrease is less than a window ago, since the cap then is far below.
type aimd struct {
	limit, max int
	peak       int  // most that were under way at once since the last change
	answers    int  // since the last change
	pressure   int  // of refusals: the weight of each, less one for each answer, never below 0
	ceiling    int  // what was under way when refusals came last; 0 = not known
	patience   int  // windows to wait below the ceiling
	fell       bool // the last change was a decrease
}

// began notes that a request makes it n under way.
func (a *aimd) began(n int) { a.peak = max(a.peak, n) }

// served counts an answer and reports whether the limit has grown.
func (a *aimd) served() bool {
	a.answers++
	a.pressure = max(a.pressure-1, 0)
	if a.limit >= a.max || a.peak < a.limit || a.pressure > 0 || a.answers < a.wanted() {
		return false
	}
	if a.limit == a.ceiling {
		a.ceiling = 0
	}
	a.change(a.limit + 1)
	a.fell = false
	return true
}

// wanted is the number of answers before the limit grows.
func (a *aimd) wanted() int {
	switch {
	case a.limit == a.ceiling:
		return a.limit
	case a.limit == a.ceiling-1:
		return a.patience * max(a.limit, leastWindow)
	}
	return (a.limit + 3) / 4
}

// refused counts a refusal for load and reports whether the limit has shrunk.
func (a *aimd) refused() bool {
	a.pressure += refusalWeight
	if a.pressure < enoughRefusals*refusalWeight || a.limit == 1 {
		return false
	}
	busy := min(a.peak, a.limit)
	if busy == a.ceiling {
		a.patience = min(2*a.patience, mostPatience)
	} else {
		a.ceiling, a.patience = busy, firstPatience
	}
	to := busy * 7 / 8
	if a.fell && a.answers < a.limit {
		to = busy * 3 / 4
	}
	a.change(max(min(to, busy-1), 1))
	a.fell = true
	return true
}

func (a *aimd) change(to int) {
	a.limit, a.peak, a.answers, a.pressure = to, 0, 0, 0
}
