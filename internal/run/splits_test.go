package run

import (
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/ledger"
)

// TestKnownThen: a split that was given then or now only makes no other plan; one that is another now does.
func TestKnownThen(t *testing.T) {
	own, was, is := ledger.SplitPlan{Name: "validation", Size: 26}, ledger.SplitPlan{Name: "test", Size: 6}, ledger.SplitPlan{Name: "test", Size: 7}
	for _, c := range []struct{ then, now, want []ledger.SplitPlan }{
		{[]ledger.SplitPlan{own, was}, []ledger.SplitPlan{own, was}, []ledger.SplitPlan{own, was}},
		{[]ledger.SplitPlan{own, was}, []ledger.SplitPlan{was, own}, []ledger.SplitPlan{own, was}},
		{[]ledger.SplitPlan{own, was}, []ledger.SplitPlan{own}, []ledger.SplitPlan{own, was}},
		{[]ledger.SplitPlan{own}, []ledger.SplitPlan{own, was}, []ledger.SplitPlan{own}},
		{[]ledger.SplitPlan{own, was}, []ledger.SplitPlan{own, is}, []ledger.SplitPlan{own, is}},
	} {
		if got := knownThen(c.then, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%+v then and %+v now are %+v, want %+v", c.then, c.now, got, c.want)
		}
	}
}
