package audit_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

var trajectories = flag.Int("trajectories", 1_000, "largest run that BenchmarkTrajectories audits")

var checkCalls = flag.Int("calls", 12, "of each task of the larger run that BenchmarkAudit audits")

// longRun writes an honest run of so many tasks with so many calls each, and
// returns its directory, the answers and the size of its journal.
func longRun(tb testing.TB, tasks, steps int) (fs.FS, *audit.Gold, int64) {
	tb.Helper()
	var text strings.Builder
	for i := range tasks {
		fmt.Fprintf(&text, "-- task fab1e900-0000-4000-8000-%012d --\nquestion: In which year was lighthouse number %d of the coast of Orrin lit for the first time?\ngold: %d\n\n", i, i, 1800+i)
		for call := range steps {
			fmt.Fprintf(&text, "-- call web_fetch {\"url\":\"http://almanac.example/%d/%d\"} --\n%s\n", i, call, strings.Repeat("A page about lights and the people who keep them. ", 15+call%10))
		}
		fmt.Fprintf(&text, "-- answer %d --\nAs the page says.\n\n", 1800+i)
	}
	c, err := runs.Parse(text.String())
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(tb.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		tb.Fatal(err)
	}
	journal, err := os.Stat(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		tb.Fatal(err)
	}
	gold := &audit.Gold{Answers: map[string]string{}, Salt: c.Salt()}
	for id, answer := range c.Gold() {
		gold.Answers[strings.Clone(id)] = strings.Clone(answer) // or they would hold all of the text
	}
	return os.DirFS(dir), gold, journal.Size()
}

// BenchmarkAudit verifies and audits runs, and beside it only verifies: what is
// left is the audit's own. Bytes are the journal's: some 60 MB for as many tasks
// as both splits have with 12 calls each, and with -calls 30 nearly three times as
// much, since each request lists all messages before it.
func BenchmarkAudit(b *testing.B) {
	for _, size := range []struct{ tasks, calls int }{{40, 10}, {466, *checkCalls}} {
		b.Run(fmt.Sprintf("%dx%d", size.tasks, size.calls), func(b *testing.B) {
			dir, gold, bytes := longRun(b, size.tasks, size.calls)
			b.Run("audit", func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					if r, _, err := audit.Run(dir, audit.Options{Gold: gold}); err != nil || !r.Attestation.Clean {
						b.Fatal(err, r.Attestation)
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(bytes)/1e6, "MB")
				b.ReportMetric(float64(peak(b, dir, gold))/(1<<20), "MiB-peak")
			})
			b.Run("verify", func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					if run, err := rundir.Verify(dir, rundir.Options{}); err != nil || !run.Complete {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkTrajectories shows that the time per trajectory stays what it is: of
// two steps each.
func BenchmarkTrajectories(b *testing.B) {
	for _, tasks := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			if tasks > *trajectories {
				b.Skip("with -trajectories ", tasks)
			}
			dir, gold, bytes := longRun(b, tasks, 2)
			b.SetBytes(bytes)
			b.ResetTimer()
			for b.Loop() {
				if r, _, err := audit.Run(dir, audit.Options{Gold: gold}); err != nil || !r.Attestation.Clean {
					b.Fatal(err, r.Attestation)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(tasks), "µs/trajectory")
		})
	}
}

// peak returns the largest heap of an audit, as it is in use whenever a file is
// read, with a collector that runs as soon as a tenth is garbage.
func peak(b *testing.B, dir fs.FS, gold *audit.Gold) (most uint64) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	watched := watchedFS{dir, func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}}
	if _, _, err := audit.Run(watched, audit.Options{Gold: gold}); err != nil {
		b.Fatal(err)
	}
	return most
}

// watchedFS tells of every reading of a file.
type watchedFS struct {
	fs.FS
	reading func()
}

func (w watchedFS) Open(name string) (fs.File, error) {
	f, err := w.FS.Open(name)
	return watchedFile{f, w.reading}, err
}

type watchedFile struct {
	fs.File
	reading func()
}

func (f watchedFile) Read(p []byte) (int, error) {
	f.reading()
	return f.File.Read(p)
}
