package budget

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCheckParts: a plan is refused exactly if a shard could not begin one of its tasks, and what the error calls enough is.
func TestCheckParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 500 {
		m := plan.Plan{Tasks: make([]plan.PlannedTask, 1+random.IntN(20))}
		m.Shards = 1 + random.IntN(len(m.Tasks))
		need := make([]int64, len(m.Tasks))
		for i := range need {
			need[i] = random.Int64N(30)
		}
		tokens := func(task int) int64 { return need[task] }
		b := dollarAToken(t, 1+random.Int64N(1500))
		want := false
		for i := range need {
			s := trajectory.Shard{Index: i%m.Shards + 1, Of: m.Shards}
			want = want || m.Part(s, b.limit) < b.First(need[i])
		}
		err := b.CheckParts(m, tokens)
		var part *PartError
		if errors.As(err, &part) != want || (err != nil) != want {
			t.Fatalf("%d tasks in %d shards with %d: %v, want refused: %t", len(m.Tasks), m.Shards, b.limit, err, want)
		}
		if want {
			refused++
			if err := dollarAToken(t, part.Enough).CheckParts(m, tokens); err != nil {
				t.Fatalf("%d is not enough: %v", part.Enough, err)
			}
		}
	}
	if refused < 50 || refused > 450 {
		t.Errorf("%d of 500 plans were refused", refused)
	}
	if err := (*Budget)(nil).CheckParts(plan.Plan{}, nil); err != nil {
		t.Error(err)
	}
}
