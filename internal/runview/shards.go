package runview

import (
	"strconv"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
)

// ShardColumns are the columns of [Shards].
var ShardColumns = []string{"entry", "shard", "tasks", "events", "state", "head"}

// Shards describes the shards of a merged run, a row each: how many tasks count in its journal, where that ends, and what is
// missing; nil if the run is not a merged one.
func Shards(f *rundir.Fold) (rows [][]string) {
	if f.Shards == nil {
		return nil
	}
	counted := make([]int, len(f.Shards.Shards)+1)
	for _, n := range f.Shards.Counted {
		counted[n]++
	}
	for i, s := range f.Shards.Shards {
		state := "counts"
		switch {
		case s.Folder == "":
			state = "gone: " + view.Count(s.Lost, "task") + " lost"
		case s.Superseded:
			state = "superseded"
		case s.Lost > 0:
			state = "counts; " + view.Count(s.Lost, "task") + " made again"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), s.Name(), strconv.Itoa(counted[i+1]), strconv.FormatInt(s.Events, 10), state, s.Head})
	}
	return rows
}

// TaskShard says in which journal of a merged run a task counts; "" if the run is not a merged one.
func TaskShard(f *rundir.Fold, t *rundir.Task) string {
	if f.Shards == nil {
		return ""
	}
	text := "none: its journal is gone"
	if s := f.ShardOf(t); s.Folder != "" {
		text = s.Name() + ", " + s.Journal()
	}
	if t.Superseded > 0 {
		text += "; " + view.Count(t.Superseded, "attempt") + " superseded"
	}
	return text
}
