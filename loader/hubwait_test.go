package loader

import (
	"net/http"
	"testing"
	"time"
)

func TestWaitTold(t *testing.T) {
	const now = "Sun, 01 Nov 2026 12:00:00 GMT"
	cases := []struct {
		retryAfter, rateLimit, date string
		want                        time.Duration
	}{
		{"7", "", "", 7 * time.Second},
		{"0", `"resolvers";r=0;t=55`, "", 0},
		{"", `"resolvers";r=0;t=55`, "", 55 * time.Second},
		{"", `"api"; r=0 ; t=5`, "", 5 * time.Second},
		{"", `"resolvers";r=2998;t=172`, "", 0},
		{"Sun, 01 Nov 2026 12:00:30 GMT", "", now, 30 * time.Second},
		{"Sun, 01 Nov 2026 11:00:00 GMT", "", now, 0},
		{"Sun, 01 Nov 2026 12:00:30 GMT", "", "", 0},
		{"soon", "", now, 0},
		{"-3", "", now, 0},
		{"99999999999999999999", "", now, 0},
		{"", "", now, 0},
	}
	for _, c := range cases {
		if got := waitTold(http.Header{"Retry-After": {c.retryAfter}, "Ratelimit": {c.rateLimit}, "Date": {c.date}}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func FuzzWaitTold(f *testing.F) {
	f.Add("7", `"resolvers";r=0;t=55`, "Sun, 01 Nov 2026 12:00:00 GMT")
	f.Add("Sun, 01 Nov 2026 12:00:30 GMT", "", "Sun, 01 Nov 2026 12:00:00 GMT")
	f.Fuzz(func(t *testing.T, after, limit, date string) {
		if d := waitTold(http.Header{"Retry-After": {after}, "Ratelimit": {limit}, "Date": {date}}); d < 0 {
			t.Errorf("wait %s", d)
		}
	})
}
