package judgecache_test

import (
	"os"
	"syscall"
	"testing"
)

// BenchmarkGet reads and verifies entries that are there.
func BenchmarkGet(b *testing.B) {
	const questions = 100
	c := open(b, b.TempDir(), newKey(b, 1))
	for n := range questions {
		put(b, c, question(n), true)
	}
	n := 0
	for b.Loop() {
		if correct, found, _, err := c.Get(question(n % questions)); !correct || !found || err != nil {
			b.Fatal(correct, found, err)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "verdicts/s")
}

// BenchmarkSweep checks a whole cache, as every run does before it begins.
func BenchmarkSweep(b *testing.B) {
	const entries = 2000
	dir, key := b.TempDir(), newKey(b, 1)
	for n := range entries { // written bare: what is durable is no faster to read
		data := forge(b, key, members(b, key, question(n), "correct"))
		must(b, os.WriteFile(path(b, dir, question(n)), data, 0o600))
	}
	c := open(b, dir, key)
	checked := 0
	for b.Loop() {
		s := sweep(b, c)
		if s.Checked != entries || len(s.Bad) > 0 {
			b.Fatalf("%+v", s)
		}
		checked += s.Checked
	}
	b.ReportMetric(float64(checked)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkPut is to be read beside BenchmarkFdatasync, which only makes as
// many bytes durable.
func BenchmarkPut(b *testing.B) {
	c := open(b, b.TempDir(), newKey(b, 1))
	n := 0
	for b.Loop() {
		put(b, c, question(n), true)
		n++
	}
}

// BenchmarkFdatasync writes at the end of one file, and a file each: a new file
// needs a block of its own, which can cost more than all else.
func BenchmarkFdatasync(b *testing.B) {
	entry := make([]byte, 500)
	write := func(b *testing.B, f *os.File) {
		if _, err := f.Write(entry); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	create := func(b *testing.B, dir string) *os.File {
		f, err := os.CreateTemp(dir, "bare")
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	b.Run("one file", func(b *testing.B) {
		f := create(b, b.TempDir())
		defer f.Close()
		for b.Loop() {
			write(b, f)
		}
	})
	b.Run("new files", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			f := create(b, dir)
			write(b, f)
			f.Close()
		}
	})
}
