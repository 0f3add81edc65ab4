package trajectory

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// unsynced takes everything and keeps nothing.
type unsynced struct{}

func (unsynced) Write(p []byte) (int, error) { return len(p), nil }
func (unsynced) Sync() error                 { return nil }

func liveConfig() LogConfig {
	began := time.Now()
	return LogConfig{RunID: runID, Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader}
}

// kilobyte is an event whose line has about 1 KiB.
func kilobyte() Draft {
	digest := canonical.Digest([]byte("output"))
	return Draft{TaskID: "4f3c2b1a-0000-4000-8000-000000000001", Attempt: 1, Turn: 3, Payload: ToolExecuted{Bytes: 700, CallID: "call-1", Head: strings.Repeat("word ", 70),
		LatencyMs: 12, Name: "web_fetch", OutputSHA256: digest, ShownBytes: 700, ShownSHA256: digest, URLs: []URL{{ContentType: "text/html", Status: 200, URL: "http://almanac.example/"}}}}
}

// BenchmarkAppend encodes, hashes and appends events of 1 KiB without a disk.
func BenchmarkAppend(b *testing.B) {
	l := newLog(b, unsynced{}, End{Head: manifestDigest}, liveConfig())
	draft := kilobyte()
	for b.Loop() {
		if _, err := l.Append(draft); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// group is a bare group commit: what the disk and the scheduler give to writing
// lines of 1 KiB from many goroutines, without anything of ours.
type group struct {
	file     *os.File
	mu       sync.Mutex
	flushed  sync.Cond
	pending  []byte
	added    int
	durable  int
	flushing bool
}

func (g *group) append(line []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, line...)
	g.added++
	for mine := g.added; g.durable < mine; {
		if g.flushing {
			g.flushed.Wait()
			continue
		}
		batch, upTo := g.pending, g.added
		g.pending, g.flushing = nil, true
		g.mu.Unlock()
		_, err := g.file.Write(batch)
		if err == nil {
			err = g.file.Sync()
		}
		g.mu.Lock()
		if err != nil {
			return err
		}
		g.flushing, g.durable = false, upTo
		g.flushed.Broadcast()
	}
	return nil
}

// BenchmarkAppendDurable has many writers on a real file, and right after it the
// bare group commit with as many: of-bare-% is what is left of its speed.
func BenchmarkAppendDurable(b *testing.B) {
	for _, writers := range []int{8, 64, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			create := func() *os.File {
				f, err := os.Create(filepath.Join(b.TempDir(), JournalFile))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { f.Close() })
				return f
			}
			l, bare := newLog(b, create(), End{Head: manifestDigest}, liveConfig()), &group{file: create()}
			bare.flushed.L = &bare.mu
			draft, line := kilobyte(), bytes.Repeat([]byte("x"), 1024)
			all := func(add func() error) time.Duration {
				var wg sync.WaitGroup
				began := time.Now()
				for w := range writers {
					wg.Go(func() {
						for range (b.N + w) / writers {
							if err := add(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				return time.Since(began)
			}
			b.ResetTimer()
			ours := all(func() error { _, err := l.Append(draft); return err })
			b.StopTimer()
			theirs := all(func() error { return bare.append(line) })
			b.ReportMetric(float64(b.N)/ours.Seconds(), "events/s")
			b.ReportMetric(float64(b.N)/theirs.Seconds(), "bare/s")
			b.ReportMetric(100*theirs.Seconds()/ours.Seconds(), "of-bare-%")
		})
	}
}

func BenchmarkReadJournal(b *testing.B) {
	sink := &disk{}
	l := newLog(b, sink, End{Head: manifestDigest}, liveConfig())
	for range 2000 {
		if _, err := l.Enqueue(kilobyte()); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := l.Append(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(sink.data)))
	for b.Loop() {
		if end, _, err := verify(sink.data); err != nil || end.Events != 2000 {
			b.Fatal(end, err)
		}
	}
}
