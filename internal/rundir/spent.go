package rundir

import "github.com/gaia-harness/gaia/trajectory"

// spending is what calls have cost so far, in micro-USD.
type spending struct {
	known    int64 // of all calls whose cost is known
	dearest  int64 // of one of them
	unpriced int64 // how many calls there are whose cost is not
	open     int64 // how many of them have no end
}

// price adds up what an event's calls have cost.
func (f *Fold) price(p trajectory.Payload) {
	switch p := p.(type) {
	case trajectory.ModelCallStarted:
		f.spending.open++
	case trajectory.ModelCallCompleted:
		f.spending.open--
		if p.Error != nil && p.OutputSHA256 == "" && p.Error.Unanswered() {
			f.spending.unpriced++
		}
	}
	cost, requests := trajectory.Cost(p)
	if requests <= 0 {
		return
	}
	n := int64(requests)
	if cost == nil {
		f.spending.unpriced += min(n, maxCounted-f.spending.unpriced)
		return
	}
	f.spending.known += *cost
	f.spending.dearest = max(f.spending.dearest, *cost/n+min(*cost%n, 1))
}

// Spent returns what a run may have cost so far, in micro-USD, its judge
// included. A call whose cost is not known, also one whose answer was lost,
// counts as the most expensive that is, and as no less than unknown: not knowing is no
// way around a budget.
func (f *Fold) Spent(unknown int64) int64 {
	s := f.spending
	each := max(s.dearest, unknown)
	unpriced := s.unpriced + max(s.open, 0)
	if unpriced > 0 && each > (maxCounted-s.known)/unpriced {
		return maxCounted
	}
	return s.known + unpriced*each
}
