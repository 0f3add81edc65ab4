package viewer

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// large writes a run of some 100,000 events in one attempt.
func large(b *testing.B) (id, dir string) {
	b.Helper()
	files, err := runs.Long(100_000 / runs.LongRound)
	if err != nil {
		b.Fatal(err)
	}
	dir = filepath.Join(b.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return idOf(b, dir), dir
}

// BenchmarkFirstChunk opens a run of 100,000 events in one attempt, and gets the page of the attempt.
func BenchmarkFirstChunk(b *testing.B) {
	id, dir := large(b)
	for b.Loop() {
		b.StopTimer()
		r := start(b, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"})}).signIn()
		r.runs.jobs <- struct{}{} // verification comes later
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		began := time.Now()
		res, err := r.client.Get(r.base + "/run/" + id + "/task/" + runs.LongTask)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.StatusCode, err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/first-page")
		o, release, err := r.runs.use(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		<-o.caughtUp
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/all-read")
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB/heap")
		b.ReportMetric(float64(o.journal.State().Events), "events")
		b.ReportMetric(float64(strings.Count(string(body), `id="e`)), "items")
		began = time.Now()
		if _, body := r.get(fmt.Sprintf("/run/%s/task/%s/chunk?attempt=1&from=%d", id, runs.LongTask, 50_000)); len(body) == 0 {
			b.Fatal("no chunk")
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/chunk")
		release()
		r.stop()
		b.StartTimer()
	}
}
