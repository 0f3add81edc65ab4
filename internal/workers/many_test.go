package workers

import (
	"flag"
	"testing"
	"time"
)

var many = flag.Int("many", 0, "tasks of TestMany; 0 leaves it out")

// TestMany: so many tasks over four workers are claimed once each. With -v it prints how long it took:
//
//	go test ./internal/workers -run TestMany -v -timeout 6h -many 100000
func TestMany(t *testing.T) {
	if *many == 0 {
		t.Skip("give -many 100000")
	}
	c := start(t, *many, 0, func(o *orders) { o.AtOnce = 8 })
	began := time.Now()
	for range 4 {
		c.worker(nil)
	}
	n := c.finish()
	t.Logf("%d tasks over 4 workers: %s with grading, %+v; %d model calls", *many, time.Since(began).Round(time.Second), n, c.model.Counts().Requests)
}
