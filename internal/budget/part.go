package budget

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// PartError means that the money that falls to a shard does not suffice for the first request of each of its tasks: the
// shard would skip a task though other shards have money left.
type PartError struct {
	Shard      trajectory.Shard
	Need, Part int64 // of its most expensive task, and what the shard has, in micro-USD
	Enough     int64 // for the whole run
}

func (e *PartError) Error() string {
	return fmt.Sprintf("shard %d of %d may cost %s, and the first request of one of its tasks reserves %s", e.Shard.Index, e.Shard.Of, view.Dollars(&e.Part), view.Dollars(&e.Need))
}

// Exit makes it an error of usage.
func (e *PartError) Exit() *exit.Error {
	return &exit.Error{Code: exit.Usage, Err: e, Hints: []string{"give --max-cost " + view.Dollars(&e.Enough)[1:] + " at least, fewer --shards, or a lower --max-tokens: what a request may cost is reserved before it is sent"}}
}

// CheckParts returns a *PartError if the part of a shard of the plan is below what the first request of one of its tasks
// reserves. tokens bounds the tokens of the first request of a task, by its place in the plan.
func (b *Budget) CheckParts(m plan.Plan, tokens func(task int) int64) error {
	if b == nil {
		return nil
	}
	most, has := make([]int64, m.Shards), make([]int64, m.Shards)
	for i := range m.Tasks {
		most[i%m.Shards] = max(most[i%m.Shards], b.First(tokens(i)))
		has[i%m.Shards]++
	}
	var found *PartError
	enough := int64(0)
	for i, need := range most {
		s, all := trajectory.Shard{Index: i + 1, Of: m.Shards}, int64(len(m.Tasks))
		enough = max(enough, (need*all+has[i]-1)/has[i])
		if part := m.Part(s, b.limit); part < need && found == nil {
			found = &PartError{Shard: s, Need: need, Part: part}
		}
	}
	if found == nil {
		return nil
	}
	found.Enough = enough
	return found
}
