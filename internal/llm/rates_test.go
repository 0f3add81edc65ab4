package llm

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// minutes is a clock that only waiting moves on.
type minutes struct {
	now    time.Time
	waits  int
	failed error
}

func newMinutes() *minutes { return &minutes{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func (m *minutes) limiter(requests, tokens int64) *Limiter {
	return NewLimiter(LimiterConfig{Fixed: 10, RequestsPerMinute: requests, TokensPerMinute: tokens,
		Now: func() time.Time { return m.now },
		Sleep: func(_ context.Context, d time.Duration) error {
			m.waits++
			m.now = m.now.Add(d)
			return m.failed
		}})
}

// Over ten minutes no more is sent than the rates allow and a tenth of a minute's worth, at no moment;
// and not much less.
func TestRates(t *testing.T) {
	for _, tc := range []struct {
		name             string
		requests, tokens int64
		bytes            int
		usage            Usage
		wantRequests     float64 // in ten minutes
	}{
		{"requests", 60, 0, 4000, Usage{Reported: true, In: 900, Out: 5000}, 600},
		{"few requests", 3, 0, 1, Usage{}, 30},
		{"many requests", 6000, 0, 0, Usage{}, 60_000},
		{"tokens as thought", 0, 60_000, 3996, Usage{Reported: true, In: 1000}, 600},
		{"tokens and no usage", 0, 60_000, 3996, Usage{}, 600},
		{"more tokens than thought", 0, 60_000, 3996, Usage{Reported: true, In: 1500, Out: 500}, 300},
		{"fewer tokens than thought", 0, 60_000, 3996, Usage{Reported: true, In: 1, Out: 1}, 600},
		{"more than a minute's tokens at once", 0, 6000, 40_000, Usage{Reported: true, In: 10_000, Out: 2000}, 5},
		{"both, requests are fewer", 60, 600_000, 3996, Usage{Reported: true, In: 1000}, 600},
		{"both, tokens are fewer", 600, 60_000, 3996, Usage{Reported: true, In: 1000}, 600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMinutes()
			l, start := m.limiter(tc.requests, tc.tokens), m.now
			var requests, tokens int64
			for {
				s, err := l.acquire(background, tc.bytes)
				if err != nil {
					t.Fatal(err)
				}
				passed := m.now.Sub(start)
				if passed > 10*time.Minute {
					break
				}
				requests++
				tokens += int64(tc.bytes)/4 + 1
				over(t, passed, "requests", requests, tc.requests)
				over(t, passed, "tokens", tokens, tc.tokens)
				s.release(Try{Number: 1, Response: &Response{Usage: tc.usage}})
				tokens += max(tc.usage.In+tc.usage.Out-int64(tc.bytes)/4-1, 0)
			}
			if float64(requests) < 0.98*tc.wantRequests || float64(requests) > 1.02*tc.wantRequests+1 {
				t.Errorf("%d requests in ten minutes, not about %.0f", requests, tc.wantRequests)
			}
		})
	}
}

// over complains if more was used than the rate allows in the time that has passed. A request that is
// larger than the burst waits for itself, so it never makes more.
func over(t *testing.T, passed time.Duration, what string, used, perMinute int64) {
	t.Helper()
	if allowed := float64(perMinute)*passed.Minutes() + max(float64(perMinute)/10, 1); perMinute > 0 && float64(used) > allowed+0.01 {
		t.Fatalf("%d %s after %s, %.1f are allowed", used, what, passed, allowed)
	}
}

// Without rates no one waits, and what the wait was for stays charged when it ends early.
func TestRatesWait(t *testing.T) {
	m := newMinutes()
	l := m.limiter(0, 0)
	for range 10_000 {
		acquire(t, l).release(served)
	}
	if m.waits != 0 {
		t.Errorf("%d waits without rates", m.waits)
	}
	l, m.failed = m.limiter(60, 0), context.Canceled
	for range 6 {
		acquire(t, l).release(served)
	}
	if _, err := l.acquire(background, 0); !errors.Is(err, context.Canceled) || l.underWay != 0 {
		t.Errorf("error %v, %d under way", err, l.underWay)
	}
	m.failed = nil
	acquire(t, l).release(served)
	if m.waits != 2 {
		t.Errorf("%d waits", m.waits)
	}
}

// Rates beyond all bounds do not overflow, and a huge cost on a tiny rate is charged in no time.
func TestRatesBounds(t *testing.T) {
	m := newMinutes()
	l := m.limiter(math.MaxInt64, math.MaxInt64)
	for range 100 {
		s, err := l.acquire(background, math.MaxInt32)
		if err != nil {
			t.Fatal(err)
		}
		s.release(Try{Number: 1, Response: &Response{Usage: Usage{Reported: true, In: maxTokens, Out: maxTokens}}})
	}
	if m.waits != 0 {
		t.Errorf("%d waits", m.waits)
	}
	l, start := m.limiter(1, 1), m.now
	s := acquire(t, l)
	s.release(Try{Number: 1, Response: &Response{Usage: Usage{Reported: true, In: maxTokens, Out: maxTokens}}})
	acquire(t, l).release(served)
	if waited := m.now.Sub(start); waited < 24*time.Hour || waited > 14*24*time.Hour {
		t.Errorf("waited %s", waited)
	}
}

func TestRequestSize(t *testing.T) {
	r := Request{
		Messages: []Message{
			{Role: "user", Content: "0123456789", Image: &Image{Data: make([]byte, 1<<20)}},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Name: "calc", Arguments: "{}"}}, Opaque: []byte("xyz")},
		},
		Tools:  []ToolSpec{{Name: "calc", Description: "calculates", Parameters: []byte("{}")}},
		Schema: []byte("true"),
	}
	if got, want := r.size(), 10+imageBytes+4+2+3+4+10+2+4; got != want {
		t.Errorf("size %d, want %d", got, want)
	}
}

// TestShare: what is charged to a shared rate is what the limiter would charge to its own, usage beyond the estimate
// included, and a failed permit sends nothing.
func TestShare(t *testing.T) {
	ctx := context.Background()
	m := newMinutes()
	l, keeper := m.limiter(0, 0), m.limiter(60, 6000)
	var charged []int64
	var failed error
	l.Share(func(_ context.Context, tokens int64) error {
		charged = append(charged, tokens)
		return failed
	})
	for range 2 {
		s, err := l.acquire(ctx, 3996)
		if err != nil {
			t.Fatal(err)
		}
		s.release(Try{Response: &Response{Usage: Usage{Reported: true, In: 1200, Out: 300}}})
	}
	if len(charged) != 2 || charged[0] != 1000 || charged[1] != 1500 {
		t.Errorf("charged %v", charged)
	}
	failed = errors.New("gone")
	if _, err := l.acquire(ctx, 0); !errors.Is(err, failed) {
		t.Errorf("without a permit: %v", err)
	}
	for i := range 7 { // the first six fit into a tenth of a minute
		if d := keeper.Delay(1); (d > 0) != (i == 6) {
			t.Errorf("request %d waits %s", i+1, d)
		}
	}
	if d := keeper.Delay(6000); d < 50*time.Second {
		t.Errorf("a minute's tokens wait %s", d)
	}
	var none *Limiter
	none.Share(nil)
}
