package planfolder

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestIndex: a process runs the shard that a flag or a scheduler names, and none where that is not clear.
func TestIndex(t *testing.T) {
	array := func(id, least, most, count string) map[string]string {
		return map[string]string{"SLURM_ARRAY_TASK_ID": id, "SLURM_ARRAY_TASK_MIN": least, "SLURM_ARRAY_TASK_MAX": most, "SLURM_ARRAY_TASK_COUNT": count}
	}
	job := func(index string) map[string]string { return map[string]string{"JOB_COMPLETION_INDEX": index} }
	both := array("1", "1", "4", "4")
	both["JOB_COMPLETION_INDEX"] = "0"
	for _, tt := range []struct {
		of   int
		flag string
		env  map[string]string
		want int // 0: refused
	}{
		{4, "1/4", nil, 1}, {4, "4/4", nil, 4}, {4, "5/4", nil, 0}, {4, "0/4", nil, 0}, {4, "1/3", nil, 0}, {4, "1", nil, 0}, {4, "01/4", nil, 0},
		{4, " 1/4", nil, 0}, {4, "-1/4", nil, 0}, {4, "1/4/4", nil, 0}, {4, "1/4\n", nil, 0}, {4, "99999/99999", nil, 0},
		{4, "2/4", both, 2}, {4, "", both, 0}, {4, "", nil, 0}, {1, "", nil, 1},
		{4, "", array("1", "1", "4", "4"), 1}, {4, "", array("4", "1", "4", "4"), 4}, {4, "", array("0", "0", "3", "4"), 1}, {4, "", array("13", "10", "13", "4"), 4},
		{4, "", array("3", "1", "4", "2"), 0}, {4, "", array("2", "0", "6", "4"), 0}, {4, "", array("1", "1", "8", "8"), 0}, {4, "", array("5", "1", "4", "4"), 0},
		{4, "", array("1", "", "", ""), 0}, {4, "", array("x", "1", "4", "4"), 0}, {4, "", array("0", "1", "4", "4"), 0}, {1, "", array("2", "1", "4", "4"), 0},
		{4, "", job("0"), 1}, {4, "", job("3"), 4}, {4, "", job("4"), 0}, {4, "", job("-1"), 0}, {4, "", job("x"), 0}, {1, "", job("1"), 0}, {1, "", job("0"), 1},
	} {
		f := &Folder{Plan: plan.Plan{Shards: tt.of}}
		got, err := f.Index(tt.flag, func(name string) string { return tt.env[name] })
		if got != tt.want || (err == nil) != (tt.want > 0) || err != nil && (exit.Of(err).Code != exit.Usage || len(exit.Of(err).Hints) != 1) {
			t.Errorf("of %d, %q, %v: %d, %v, want %d", tt.of, tt.flag, tt.env, got, err, tt.want)
		}
	}
}

// TestRate: each shard has at least one of a rate, and all together have just that rate.
func TestRate(t *testing.T) {
	for tasks := 1; tasks < 12; tasks++ {
		for shards := 1; shards <= tasks; shards++ {
			m := plan.Plan{Shards: shards, Tasks: make([]plan.PlannedTask, tasks)}
			for rate := int64(shards); rate < 40; rate++ {
				sum := int64(0)
				for index := 1; index <= shards; index++ {
					part := Rate(m, trajectory.Shard{Index: index, Of: shards}, rate)
					if sum += part; part < 1 {
						t.Fatalf("%d tasks in %d shards: shard %d has %d of %d", tasks, shards, index, part, rate)
					}
				}
				if sum != rate {
					t.Fatalf("%d tasks in %d shards have %d of %d", tasks, shards, sum, rate)
				}
			}
			if Rate(m, trajectory.Shard{Index: 1, Of: shards}, 0) != 0 {
				t.Fatal("a rate without a limit has one")
			}
		}
	}
}
