package plan

import (
	"slices"
	"testing"
)

// TestKnownSplits: a split that was given then or now only makes no other plan; one that is another now does.
func TestKnownSplits(t *testing.T) {
	own, was, is := SplitPlan{Name: "validation", Size: 26}, SplitPlan{Name: "test", Size: 6}, SplitPlan{Name: "test", Size: 7}
	for _, c := range []struct{ then, now, want []SplitPlan }{
		{[]SplitPlan{own, was}, []SplitPlan{own, was}, []SplitPlan{own, was}},
		{[]SplitPlan{own, was}, []SplitPlan{was, own}, []SplitPlan{own, was}},
		{[]SplitPlan{own, was}, []SplitPlan{own}, []SplitPlan{own, was}},
		{[]SplitPlan{own}, []SplitPlan{own, was}, []SplitPlan{own}},
		{[]SplitPlan{own, was}, []SplitPlan{own, is}, []SplitPlan{own, is}},
	} {
		if got := KnownSplits(c.then, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%+v then and %+v now are %+v, want %+v", c.then, c.now, got, c.want)
		}
	}
}
