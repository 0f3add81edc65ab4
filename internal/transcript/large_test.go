package transcript

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// longRun writes a run whose one attempt has so many events.
func longRun(t testing.TB, events int) string {
	t.Helper()
	files, err := runs.Long(events / runs.LongRound)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, files)
}

// TestLarge: an attempt of many events is read in chunks, by a filter too, and its series stay short.
func TestLarge(t *testing.T) {
	long.NotRaced(t)
	events := 20_000
	if long.Thorough() {
		events = 100_000
	}
	j := read(t, os.DirFS(longRun(t, events)))
	seen, denied := 0, 0
	for from := 0; from >= 0; {
		c, err := j.Chunk(runs.LongTask, 1, from, Filter{})
		if err != nil || len(c.Items) > ChunkSize || c.From != seen {
			t.Fatalf("%d items from %d after %d: %v", len(c.Items), c.From, seen, err)
		}
		seen += len(c.Items)
		from = c.Next
	}
	if want := events + 1; seen != want { // and its task_started
		t.Errorf("%d events, want %d", seen, want)
	}
	requests := 0
	for from := 0; from >= 0; requests++ {
		c, err := j.Chunk(runs.LongTask, 1, from, Filter{Bad: true, Tool: "read_file"})
		if err != nil {
			t.Fatal(err)
		}
		denied += len(c.Items)
		from = c.Next
	}
	if denied != events/runs.LongRound/50 || requests < events*3/10/maxScanned+1 { // three of ten events are of calls, and are read
		t.Errorf("%d denials in %d requests", denied, requests)
	}
	spent, turns := j.Spent(), j.Turns(runs.LongTask, 1)
	if n := len(spent); n < maxPoints/4 || n > maxPoints || len(turns) < maxPoints/4 || len(turns) > maxPoints {
		t.Errorf("%d and %d points", n, len(turns))
	}
	count, tokens := 0, int64(0)
	for _, g := range turns {
		count, tokens = count+g.Count, tokens+g.Tokens.In
	}
	if last := spent[len(spent)-1]; count != events/5 || tokens != int64(events/10*900) || last.Tokens.In != tokens || last.CostMicroUSD != int64(events/10*40) {
		t.Errorf("%d turns, %d tokens, %+v", count, tokens, last)
	}
}

// BenchmarkFirstChunk measures the time until the first chunk of an attempt of 100,000 events is there, then until all is
// read, and the heap that is held at the end.
func BenchmarkFirstChunk(b *testing.B) {
	dir := longRun(b, 100_000)
	runtime.GC()
	for b.Loop() {
		began := time.Now()
		j, err := Open(os.DirFS(dir))
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- j.Follow(noWriter) }()
		for {
			if c, err := j.Chunk(runs.LongTask, 1, 0, Filter{}); err == nil && len(c.Items) == ChunkSize {
				break
			}
			runtime.Gosched()
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "ms-to-chunk")
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-end")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapInuse)/1e6, "MB-heap-used")
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-heap-held")
		runtime.KeepAlive(j)
	}
}
