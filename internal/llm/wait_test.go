package llm

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRetryAfter(t *testing.T) {
	const date = "Sun, 01 Nov 2026 12:00:00 GMT"
	now := func() time.Time { return time.Date(2026, 11, 1, 12, 0, 10, 0, time.UTC) }
	for _, tc := range []struct {
		name   string
		header []string
		want   time.Duration // after a 429
		other  time.Duration // after a 503
	}{
		{"nothing", nil, 0, 0},
		{"seconds", []string{"Retry-After", "7"}, 7 * time.Second, 7 * time.Second},
		{"parts of seconds", []string{"Retry-After", "0.25"}, 250 * time.Millisecond, 250 * time.Millisecond},
		{"date", []string{"Retry-After", "Sun, 01 Nov 2026 12:00:30 GMT", "Date", date}, 30 * time.Second, 30 * time.Second},
		{"date without Date", []string{"Retry-After", "Sun, 01 Nov 2026 12:00:30 GMT"}, 20 * time.Second, 20 * time.Second},
		{"date in the past", []string{"Retry-After", "Sun, 01 Nov 2026 11:00:00 GMT", "Date", date}, 0, 0},
		{"date far away", []string{"Retry-After", "Sun, 01 Nov 2099 11:00:00 GMT", "Date", date}, latestTold, latestTold},
		{"milliseconds", []string{"Retry-After-Ms", "150"}, 150 * time.Millisecond, 150 * time.Millisecond},
		{"milliseconds before seconds", []string{"Retry-After-Ms", "1500", "Retry-After", "2"}, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"reset of requests", []string{"X-Ratelimit-Reset-Requests", "1s"}, time.Second, 0},
		{"reset of tokens", []string{"X-Ratelimit-Reset-Tokens", "6m0s"}, 6 * time.Minute, 0},
		{"reset in milliseconds", []string{"X-Ratelimit-Reset-Requests", "20ms"}, 20 * time.Millisecond, 0},
		{"reset in plain seconds", []string{"X-Ratelimit-Reset-Requests", "1.5"}, 1500 * time.Millisecond, 0},
		{"the longer reset", []string{"X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "3s"}, 3 * time.Second, 0},
		{"no requests left", []string{"X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "3s", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Remaining-Tokens", "9"}, time.Second, 0},
		{"no tokens left", []string{"X-Ratelimit-Reset-Requests", "3s", "X-Ratelimit-Reset-Tokens", "1s", "X-Ratelimit-Remaining-Requests", "9", "X-Ratelimit-Remaining-Tokens", "0"}, time.Second, 0},
		{"Retry-After before resets", []string{"Retry-After", "2", "X-Ratelimit-Reset-Tokens", "6m0s"}, 2 * time.Second, 2 * time.Second},
		{"zero", []string{"Retry-After", "0"}, 0, 0},
		{"negative", []string{"Retry-After", "-3", "Retry-After-Ms", "-3", "X-Ratelimit-Reset-Tokens", "-1s"}, 0, 0},
		{"nonsense", []string{"Retry-After", "soon", "Retry-After-Ms", "NaN", "X-Ratelimit-Reset-Tokens", "x"}, 0, 0},
		{"huge", []string{"Retry-After", "1e300"}, latestTold, latestTold},
		{"infinite", []string{"Retry-After", "Inf"}, latestTold, latestTold},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := http.Header{}
			for i := 0; i < len(tc.header); i += 2 {
				header.Set(tc.header[i], tc.header[i+1])
			}
			if got := RetryAfter(429, header, now); got != tc.want {
				t.Errorf("after 429: %v, want %v", got, tc.want)
			}
			if got := RetryAfter(503, header, now); got != tc.other {
				t.Errorf("after 503: %v, want %v", got, tc.other)
			}
		})
	}
	header := http.Header{"Retry-After": {"Sun, 01 Nov 2026 12:00:30 GMT"}}
	if got := RetryAfter(429, header, nil); got != 0 {
		t.Errorf("a date without any clock: %v", got)
	}
}

// The waits between tries, over HTTP: exponential with jitter up to a minute, or what the server asks
// for up to five.
func TestWaits(t *testing.T) {
	const s = time.Second
	busy := func(headers ...string) http.HandlerFunc { return answer(429, `{}`, headers...) }
	for _, tc := range []struct {
		name   string
		jitter func() float64
		tries  int
		steps  []http.HandlerFunc
		want   []time.Duration
	}{
		{"least jitter", func() float64 { return 0 }, 9, []http.HandlerFunc{busy()}, []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}},
		{"no jitter", nil, 9, []http.HandlerFunc{busy()}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}},
		{"jitter at the cap", func() float64 { return 1 }, 9, []http.HandlerFunc{busy()}, []time.Duration{3 * s / 2, 3 * s, 6 * s, 12 * s, 24 * s, 48 * s, 60 * s, 60 * s}},
		{"jitter out of range", func() float64 { return -7 }, 2, []http.HandlerFunc{busy()}, []time.Duration{s / 2}},
		{"default tries", nil, 0, []http.HandlerFunc{busy()}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s}},
		{"told", func() float64 { return 0 }, 3, []http.HandlerFunc{busy("Retry-After", "90")}, []time.Duration{90 * s, 90 * s}},
		{"told, spread", func() float64 { return 0.5 }, 2, []http.HandlerFunc{busy("Retry-After", "100")}, []time.Duration{105 * s}},
		{"told too long", func() float64 { return 1 }, 2, []http.HandlerFunc{busy("Retry-After", "3600")}, []time.Duration{300 * s}},
		{"a server's wait restarts the intervals", nil, 5, []http.HandlerFunc{busy(), busy(), busy("Retry-After-Ms", "100"), busy()}, []time.Duration{s, 2 * s, 105 * time.Millisecond, s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := client(t, serve(t, tc.steps...), func(c *Config) { c.Jitter, c.MaxTries = tc.jitter, tc.tries })
			_, err := h.Chat(context.Background(), ask, &journal{})
			var failed *Error
			if !errors.As(err, &failed) || !failed.Retryable {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, h.waits); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without Sleep the client waits by itself.
func TestRealWait(t *testing.T) {
	h := client(t, serve(t, answer(429, `{}`, "Retry-After-Ms", "1"), good), func(c *Config) { c.Sleep = nil })
	if _, err := h.Chat(context.Background(), ask, &journal{}); err != nil {
		t.Error(err)
	}
}

// The error keeps what the server asked for, so that a caller can slow down.
func TestErrorTellsRetryAfter(t *testing.T) {
	_, err := client(t, serve(t, answer(429, `{}`, "Retry-After", "3600")), nil).Chat(context.Background(), ask, &journal{})
	var failed *Error
	if !errors.As(err, &failed) || failed.RetryAfter != time.Hour {
		t.Errorf("error %+v", failed)
	}
}
