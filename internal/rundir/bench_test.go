package rundir

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// BenchmarkVerify verifies a finished run of 300 tasks of 20 turns each from a real directory. Bytes are those of the
// journal. Its bounds are measured in the same run: x-sha256 is the least time over the least of crypto/sha256 for the
// journal, x-sha256sum over that of the program, where there is one. Use -cpu 1 to see what one core does.
func BenchmarkVerify(b *testing.B) {
	var tasks []string
	var script strings.Builder
	script.WriteString("run started\n")
	for i := range 300 {
		id := fmt.Sprintf("task-%03d", i)
		tasks = append(tasks, id)
		at := id + ".1"
		fmt.Fprintf(&script, "%s begin\n", at)
		for turn := 1; turn <= 20; turn++ {
			for _, what := range []string{"turn", fmt.Sprint("prompt kept=", turn-1), "call in=1000 out=50 cost=30", "propose web_fetch", "allow", "executed web_fetch", "done"} {
				fmt.Fprintf(&script, "%s.%d %s\n", at, turn, what)
			}
		}
		fmt.Fprintf(&script, "%s answer 42\n%s ended answered\n%s graded right\n%s sealed solved 1/1\n", at, at, at, id)
	}
	script.WriteString("run completed solved=300\n")
	m := planOf(b, tasks...)
	for i := range m.Tasks {
		m.Tasks[i].Level = 1 + i%3
	}
	m.Dataset.Levels = [3]int{100, 100, 100}
	all := files(b, m, script.String())
	dir := directory(b, all)
	b.SetBytes(int64(len(all[trajectory.JournalFile])))
	b.ReportAllocs()
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		began := time.Now()
		if run, err := Verify(os.DirFS(dir), Options{}); err != nil || !run.Complete {
			b.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	b.ReportMetric(float64(best)/float64(least(func() error { sha256.Sum256(all[trajectory.JournalFile]); return nil })), "x-sha256")
	program := func() error { return exec.Command("sha256sum", filepath.Join(dir, trajectory.JournalFile)).Run() }
	if err := program(); err == nil {
		b.ReportMetric(float64(best)/float64(least(program)), "x-sha256sum")
	}
}

// least returns the least time that something takes in five tries, 0 if it fails.
func least(do func() error) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range 5 {
		began := time.Now()
		if do() != nil {
			return 0
		}
		best = min(best, time.Since(began))
	}
	return best
}
