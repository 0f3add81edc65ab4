package judgecache_test

import (
	"os"
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
