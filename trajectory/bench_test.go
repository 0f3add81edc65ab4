package trajectory

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
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
	digest := sign.Digest([]byte("output"))
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

// BenchmarkAppendDurable has 64 writers on a real file; BenchmarkBareSync is
// what the same disk gives to writing and syncing such a line, without us.
func BenchmarkAppendDurable(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), JournalFile))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	l := newLog(b, f, End{Head: manifestDigest}, liveConfig())
	draft := kilobyte()
	b.SetParallelism(32)
	var failed atomic.Bool
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Append(draft); err != nil {
				failed.Store(true)
			}
		}
	})
	if failed.Load() {
		b.Fatal(l.Err())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkBareSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), JournalFile))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := bytes.Repeat([]byte("x"), 1024)
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
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
