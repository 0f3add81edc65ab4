package plan

import (
	"math/rand/v2"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestDelegateToItself: the key of a plan is no shard's.
func TestDelegateToItself(t *testing.T) {
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	if envelope, err := (Plan{}).NewDelegation("", trajectory.Shard{Index: 1, Key: key.Public().Line()}).Sign(key); err == nil {
		t.Errorf("%s", envelope)
	}
}

// TestPart: the parts of shards add up to the whole, each has what its tasks are of it, and at most one more.
func TestPart(t *testing.T) {
	for _, tasks := range []int{1, 2, 3, 7, 64, 165, 1000} {
		m := Plan{Tasks: make([]PlannedTask, tasks)}
		for _, of := range []int{1, 2, 3, 7, 64, 100, 999, 1000} {
			if of > tasks {
				continue
			}
			for _, n := range []int64{0, 1, 2, int64(of) - 1, int64(of), int64(of) + 1, 999_983, 25_000_000, 1<<53 - 1} {
				sum, before := int64(0), int64(0)
				for i := 1; i <= of; i++ {
					s := trajectory.Shard{Index: i, Of: of}
					own := int64(0)
					for task := range tasks {
						if HasTask(s, task) {
							own++
						}
					}
					part := m.Part(s, n)
					low := n/int64(tasks)*own + n%int64(tasks)*own/int64(tasks)
					if part < low || part > low+1 || i > 1 && part > before {
						t.Fatalf("%d of %d micro-USD for shard %d of %d with %d of %d tasks; the shard before it has %d", part, n, i, of, own, tasks, before)
					}
					sum, before = sum+part, part
				}
				if sum != n {
					t.Fatalf("%d in %d parts of %d tasks add up to %d", n, of, tasks, sum)
				}
			}
			if got := m.Part(trajectory.Shard{Index: 1}, 17); got != 17 {
				t.Fatalf("a worker has %d of 17", got)
			}
		}
	}
}
