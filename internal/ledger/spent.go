package ledger

import "github.com/gaia-harness/gaia/trajectory"

// spending is what calls have cost so far, in micro-USD.
type spending struct {
	known    int64 // of all calls whose cost is known
	dearest  int64 // of one of them
	unpriced int64 // how many calls there are whose cost is not
}

// price adds up what an event's calls have cost.
func (f *Fold) price(p trajectory.Payload) {
	cost, asked := trajectory.Cost(p)
	if !asked {
		return
	}
	if cost == nil {
		f.spending.unpriced++
		return
	}
	f.spending.known += *cost
	f.spending.dearest = max(f.spending.dearest, *cost)
}

// Spent returns what a run has cost so far, in micro-USD, its judge included. A
// call whose cost is not known counts as the dearest that is, and as no less than
// unknown: not knowing is no way around a budget.
func (f *Fold) Spent(unknown int64) int64 {
	s := f.spending
	each := max(s.dearest, unknown)
	if s.unpriced > 0 && each > (maxCounted-s.known)/s.unpriced {
		return maxCounted
	}
	return s.known + s.unpriced*each
}
