package llm

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	bytesPerToken = 4      // of what is asked; texts in English have 4 to 5
	imageBytes    = 4096   // what a picture counts as: its tokens follow from its size, not from its bytes
	mostBuckets   = 14_400 // that one request is charged; of a tenth of a minute each, they are a day's worth
	mostPerMinute = 1_000_000_000_000
)

// size returns about how many bytes a model reads of the request.
func (r Request) size() int {
	n := len(r.Schema)
	for _, m := range r.Messages {
		n += len(m.Content) + len(m.Opaque)
		for _, call := range m.ToolCalls {
			n += len(call.Name) + len(call.Arguments)
		}
		if m.Image != nil {
			n += imageBytes
		}
	}
	for _, tool := range r.Tools {
		n += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	return n
}

// rates bounds requests and tokens a minute; nothing where both are nil.
type rates struct {
	requests, tokens *bucket
	now              func() time.Time
	sleep            func(context.Context, time.Duration) error
}

// wait waits until a request of so many bytes may be sent, and returns the tokens that were
// charged for it. What was charged stays so when the context ends.
func (r rates) wait(ctx context.Context, bytes int) (tokens int64, err error) {
	if r.requests == nil && r.tokens == nil {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := r.now()
	tokens = int64(bytes)/bytesPerToken + 1
	if d := max(r.requests.take(now, 1), r.tokens.take(now, tokens)); d > 0 {
		return tokens, r.sleep(ctx, d)
	}
	return tokens, nil
}

// mostWritten bounds, in tokens, what is believed that a model wrote.
const mostWritten = 1_000_000

// bucket fills evenly and holds at most a tenth of a minute's worth.
type bucket struct {
	limiter *rate.Limiter
	size    int64
}

func newBucket(perMinute int64) *bucket {
	if perMinute <= 0 {
		return nil
	}
	perMinute = min(perMinute, mostPerMinute)
	size := max(perMinute/10, 1)
	return &bucket{rate.NewLimiter(rate.Limit(float64(perMinute)/60), int(size)), size}
}

// take takes n out, which may leave a debt, and returns how long it is until that is paid.
func (b *bucket) take(now time.Time, n int64) (wait time.Duration) {
	if b == nil {
		return 0
	}
	// The limiter gives no more than it can hold at once.
	for n = min(n, mostBuckets*b.size); n > 0; n -= b.size {
		wait = b.limiter.ReserveN(now, int(min(n, b.size))).DelayFrom(now)
	}
	return wait
}
