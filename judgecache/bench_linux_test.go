package judgecache_test

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPut keeps an entry and, in turn, makes as many bytes durable in a file
// of their own and at the end of one, with a bare fdatasync each. What a disk
// takes for one changes from moment to moment: only what is taken in turn can be
// compared. A new file needs another block, as an entry does.
func BenchmarkPut(b *testing.B) {
	c := open(b, b.TempDir(), newKey(b, 1))
	dir, entry := b.TempDir(), make([]byte, 500)
	create := func() *os.File {
		f, err := os.CreateTemp(dir, "bare")
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	write := func(f *os.File) {
		if _, err := f.Write(entry); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	one := create()
	defer one.Close()
	var puts, news, appends time.Duration
	took := func(sum *time.Duration, do func()) {
		began := time.Now()
		do()
		*sum += time.Since(began)
	}
	n := 0
	for b.Loop() {
		took(&puts, func() { put(b, c, question(n), true) })
		took(&news, func() { f := create(); write(f); f.Close() })
		took(&appends, func() { write(one) })
		n++
	}
	b.ReportMetric(float64(puts.Nanoseconds())/float64(n), "ns/entry")
	b.ReportMetric(float64(puts)/float64(news), "fdatasyncs-of-new-files/entry")
	b.ReportMetric(float64(puts)/float64(appends), "fdatasyncs-of-appends/entry")
}
