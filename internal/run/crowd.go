package run

import (
	"context"
	"sync"
)

// crowd lets so many tasks in at once as are allowed at the moment.
type crowd struct {
	allowed func() int

	mu     sync.Mutex
	inside int
	change chan struct{} // closed when there may be room
}

func newCrowd(allowed func() int) *crowd {
	return &crowd{allowed: allowed, change: make(chan struct{})}
}

// enter waits for room, or for the context to end.
func (c *crowd) enter(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.inside < max(c.allowed(), 1) {
			c.inside++
			c.mu.Unlock()
			return nil
		}
		wait := c.change
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *crowd) leave() {
	c.mu.Lock()
	c.inside--
	c.mu.Unlock()
	c.wake()
}

// wake lets those who wait look again.
func (c *crowd) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.change)
	c.change = make(chan struct{})
}
