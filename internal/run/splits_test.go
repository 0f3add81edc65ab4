package run

import (
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
)

// TestKnownThen: a split that was given then or now only makes no other plan; one that is another now does.
func TestKnownThen(t *testing.T) {
	own, was, is := plan.SplitPlan{Name: "validation", Size: 26}, plan.SplitPlan{Name: "test", Size: 6}, plan.SplitPlan{Name: "test", Size: 7}
	for _, c := range []struct{ then, now, want []plan.SplitPlan }{
		{[]plan.SplitPlan{own, was}, []plan.SplitPlan{own, was}, []plan.SplitPlan{own, was}},
		{[]plan.SplitPlan{own, was}, []plan.SplitPlan{was, own}, []plan.SplitPlan{own, was}},
		{[]plan.SplitPlan{own, was}, []plan.SplitPlan{own}, []plan.SplitPlan{own, was}},
		{[]plan.SplitPlan{own}, []plan.SplitPlan{own, was}, []plan.SplitPlan{own}},
		{[]plan.SplitPlan{own, was}, []plan.SplitPlan{own, is}, []plan.SplitPlan{own, is}},
	} {
		if got := knownThen(c.then, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%+v then and %+v now are %+v, want %+v", c.then, c.now, got, c.want)
		}
	}
}
