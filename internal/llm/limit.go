package llm

import "context"

// Limiter bounds the requests that are under way at one endpoint at once. The methods of a nil
// Limiter bound nothing.
type Limiter struct{}

// slot is one request's place among those under way.
type slot struct{}

func (l *Limiter) acquire(ctx context.Context, bytes int) (slot, error) { return slot{}, nil }

func (slot) release(Try) {}

// Limit returns how many requests may be under way at once; 0 = any number.
func (l *Limiter) Limit() int { return 0 }

// LimitChange says that an endpoint is given more or fewer requests at once.
type LimitChange struct {
	From, To int
	Reason   string
}

// Follow tells changed of every change from now on, one at a time, before it takes effect.
func (l *Limiter) Follow(changed func(LimitChange)) {}
