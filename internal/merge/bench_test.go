package merge

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

var (
	benchTasks = flag.Int("tasks", 2000, "tasks of the benchmarks")
	benchTurns = flag.Int("turns", 3, "turns of each task")
)

// BenchmarkPlan verifies the folders of 4 shards of tasks of three turns: with -tasks 100000 a journal of 2 GB.
func BenchmarkPlan(b *testing.B) {
	s := newSite(b, runID, *benchTasks, 4)
	var folders []string
	for i := range 4 {
		folders = append(folders, s.shard(fmt.Sprint("shards/", i), i+1, told{Told: runs.Told{Turns: *benchTurns}}))
	}
	before := cpu(b)
	for b.Loop() {
		if _, _, err := Plan(s.folder, folders, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}

// cpu returns the time that this process has computed.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
