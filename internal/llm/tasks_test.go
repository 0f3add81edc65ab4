package llm

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestTaskLimiter(t *testing.T) {
	var mu sync.Mutex
	limit, inside, most := 2, 0, 0
	l := newTaskLimiter(limit)
	allow := func(n int) {
		limit = n
		l.allow(n)
	}
	var all sync.WaitGroup
	for i := range 60 {
		if err := l.Enter(context.Background()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		inside++
		most = max(most, inside)
		if inside > limit {
			t.Errorf("%d inside of %d", inside, limit)
		}
		if i == 30 {
			allow(5)
		}
		mu.Unlock()
		all.Go(func() {
			time.Sleep(time.Millisecond)
			mu.Lock()
			inside--
			mu.Unlock()
			l.Leave()
		})
	}
	all.Wait()
	if most < 3 {
		t.Errorf("never more than %d inside", most)
	}
	ended, cancel := context.WithCancel(context.Background())
	allow(1)
	if l.Enter(ended) != nil {
		t.Error("there is room for one")
	}
	cancel()
	if l.Enter(ended) == nil {
		t.Error("there is room for two")
	}
}
