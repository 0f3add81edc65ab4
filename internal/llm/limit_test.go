package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	served     = Try{Number: 1, Response: &Response{}}
	tooMany    = Try{Number: 1, Err: &Error{Status: 429, Code: "rate_limit_exceeded", Retryable: true}}
	background = context.Background()
)

func acquire(t testing.TB, l *Limiter) slot {
	t.Helper()
	s, err := l.acquire(background, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// capped is an endpoint that refuses what exceeds its cap. It answers the oldest request and refuses
// what is too much whenever all have arrived that the limit lets out: so it is always as busy as the
// client makes it, however fast the machine is.
type capped struct {
	cap, warm, total int // answers before it counts, and before it lets all go
	limiter          *Limiter

	mu                      sync.Mutex
	waiting                 []chan bool
	answered, refused, area int // refused, and limits added up, since it was warm
}

func (c *capped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	decided := make(chan bool, 1)
	c.mu.Lock()
	c.waiting = append(c.waiting, decided)
	c.mu.Unlock()
	c.decide()
	if <-decided {
		good(w, r)
	} else {
		answer(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`)(w, r)
	}
}

func (c *capped) decide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 && (c.answered >= c.total || len(c.waiting) >= c.limiter.Limit()) {
		for len(c.waiting) > c.cap {
			last := len(c.waiting) - 1
			c.waiting[last] <- false
			c.waiting = c.waiting[:last]
			if c.answered >= c.warm && c.answered < c.total {
				c.refused++
			}
		}
		c.waiting[0] <- true
		c.waiting = c.waiting[1:]
		if c.answered >= c.warm && c.answered < c.total {
			c.area += c.limiter.Limit()
		}
		c.answered++
	}
}

// A server that refuses what exceeds its cap, over real HTTP and with many clients: the limit settles
// within a fifth of the cap, and few requests are refused.
func TestSettlesOverHTTP(t *testing.T) {
	for _, capacity := range []int{4, 8, 16, 40} {
		limiter := NewLimiter(LimiterConfig{})
		c := &capped{cap: capacity, warm: 100 + 20*capacity, limiter: limiter}
		c.total = c.warm + 200 + 20*capacity
		e := httptest.NewServer(c)
		over, stop := context.WithCancel(background)
		var others sync.WaitGroup
		others.Go(func() { // where a limit that has fallen lets nothing arrive that would decide
			for over.Err() == nil {
				c.decide()
				_ = Sleep(over, time.Millisecond)
			}
		})
		transport := &http.Transport{MaxIdleConnsPerHost: 64}
		h := New(Config{BaseURL: e.URL, Transport: transport, Limiter: limiter, MaxTries: 10_000,
			Sleep: func(ctx context.Context, _ time.Duration) error { runtime.Gosched(); return ctx.Err() }})
		var chats atomic.Int64
		var workers sync.WaitGroup
		for range 80 {
			workers.Go(func() {
				for chats.Add(1) <= int64(c.total)+80 {
					if _, err := h.Chat(background, ask, &journal{}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
		stop()
		others.Wait()
		transport.CloseIdleConnections()
		e.Close()

		counted := float64(c.total - c.warm)
		mean, share := float64(c.area)/counted, float64(c.refused)/counted
		if mean < 0.8*float64(capacity) || mean > 1.2*float64(capacity) || share > 0.06 {
			t.Errorf("cap %d: the limit is %.2f on average, with %.3f refusals an answer", capacity, mean, share)
		}
		t.Logf("cap %d: limit %.2f, %.4f refusals an answer", capacity, mean, share)
	}
	noGoroutineLeft(t)
}

// Requests are let in in the order in which they came.
func TestAcquireInOrder(t *testing.T) {
	l := NewLimiter(LimiterConfig{Fixed: 1})
	first := acquire(t, l)
	const waiting = 20
	order := make(chan int, waiting)
	var done sync.WaitGroup
	for i := range waiting {
		started := make(chan struct{})
		done.Go(func() {
			close(started)
			s, err := l.acquire(background, 0)
			if err != nil {
				t.Error(err)
			}
			order <- i
			s.release(served)
		})
		<-started
		blocked(t, i+1)
	}
	first.release(served)
	done.Wait()
	for i := range waiting {
		if got := <-order; got != i {
			t.Fatalf("request %d was let in when it was the turn of %d", got, i)
		}
	}
}

// blocked waits until so many goroutines wait in acquire.
func blocked(t *testing.T, n int) {
	t.Helper()
	for range 5000 {
		buffer := make([]byte, 1<<20)
		waiting := 0
		for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			head, _, _ := strings.Cut(stack, "\n")
			if strings.Contains(head, "[select") && strings.Contains(stack, "Limiter).acquire") {
				waiting++
			}
		}
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("there are never %d goroutines waiting", n)
}

// Waiting ends with the context, for the first in the line and for those behind it, and takes nothing.
func TestAcquireCancelled(t *testing.T) {
	l := NewLimiter(LimiterConfig{Fixed: 1})
	held := acquire(t, l)
	ctx, cancel := context.WithCancel(background)
	errs := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := l.acquire(ctx, 0)
			errs <- err
		}()
	}
	blocked(t, 3)
	cancel()
	for range 3 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	held.release(served)
	if _, err := l.acquire(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: error %v", err)
	}
	acquire(t, l).release(served)
	if l.underWay != 0 {
		t.Errorf("%d are under way", l.underWay)
	}
}

// Never are more under way than the limit allows, and none is lost, whatever ends how.
func TestNoSlotIsLost(t *testing.T) {
	l := NewLimiter(LimiterConfig{Start: 4, Max: 6})
	var most, now atomic.Int64
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for i := range 300 {
				ctx, cancel := context.WithCancel(background)
				if (w+i)%3 == 0 {
					go cancel()
				}
				s, err := l.acquire(ctx, 0)
				if err == nil {
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					runtime.Gosched()
					now.Add(-1)
					s.release([]Try{served, tooMany, {}, served, {Number: 1, Err: &Error{Status: 500}}}[i%5])
				}
				cancel()
			}
		})
	}
	workers.Wait()
	if most.Load() > 6 {
		t.Errorf("%d were under way at once", most.Load())
	}
	if l.underWay != 0 {
		t.Errorf("%d are under way after the last", l.underWay)
	}
	for range l.Limit() {
		acquire(t, l)
	}
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	if _, err := l.acquire(ctx, 0); err == nil {
		t.Error("one more than the limit was let in")
	}
}

// A change is told before it takes effect, one at a time and in order, and who is told may ask for the
// limit.
func TestFollow(t *testing.T) {
	l := NewLimiter(LimiterConfig{Start: 2, Max: 5})
	var told []LimitChange
	var telling atomic.Int64
	l.Follow(func(c LimitChange) {
		if telling.Add(1) != 1 {
			t.Error("told of two changes at once")
		}
		if got := l.Limit(); got != c.From {
			t.Errorf("told of %+v when the limit is %d", c, got)
		}
		told = append(told, c)
		telling.Add(-1)
	})
	var requests atomic.Int64
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for range 200 {
				s, err := l.acquire(background, 0)
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				if requests.Add(1)%200 >= 180 {
					s.release(tooMany)
				} else {
					s.release(served)
				}
			}
		})
	}
	workers.Wait()
	limit, up, down := 2, 0, 0
	for _, c := range told {
		if c.From != limit {
			t.Fatalf("%+v follows a limit of %d", c, limit)
		}
		limit = c.To
		switch {
		case c.To == c.From+1 && c.Reason == "all in use, and not refused":
			up++
		case c.To < c.From && c.To >= 1 && c.Reason == "status 429":
			down++
		default:
			t.Errorf("told %+v", c)
		}
	}
	if limit != l.Limit() || up == 0 || down == 0 {
		t.Errorf("the last change told of is to %d, the limit is %d; %d up, %d down", limit, l.Limit(), up, down)
	}
}

// While a change is being told, the old limit holds, and other requests end without waiting.
func TestOldLimitHoldsUntilTold(t *testing.T) {
	l := NewLimiter(LimiterConfig{Start: 2, Max: 3})
	reached, goOn := make(chan struct{}), make(chan struct{})
	l.Follow(func(LimitChange) { close(reached); <-goOn })
	a, b := acquire(t, l), acquire(t, l)
	done := make(chan struct{})
	go func() { a.release(served); close(done) }()
	<-reached
	a = acquire(t, l)
	b.release(served)
	b = acquire(t, l)
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	if _, err := l.acquire(ctx, 0); err == nil {
		t.Error("a third was let in before the change was told")
	}
	close(goOn)
	<-done
	acquire(t, l).release(Try{})
	a.release(Try{})
	b.release(Try{})
}

// What began before a decrease does not count again.
// TestRefusalsAtOnce: refusals right after the limit has grown are of those that
// were under way all along, and cut it as ever.
func TestRefusalsAtOnce(t *testing.T) {
	l := NewLimiter(LimiterConfig{Start: 40})
	var slots []slot
	for range 40 {
		s, err := l.acquire(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s)
	}
	for _, s := range slots[:10] {
		s.release(Try{Response: &Response{}})
	}
	grown := l.Limit()
	for _, s := range slots[10:14] {
		s.release(Try{Err: &Error{Status: http.StatusTooManyRequests}})
	}
	if cut := l.Limit(); grown != 41 || cut < 26 || cut >= 40 {
		t.Errorf("the limit grew to %d and was cut to %d, with 30 under way", grown, cut)
	}
}

func TestOneDecreaseForRefusalsAtOnce(t *testing.T) {
	l := NewLimiter(LimiterConfig{Start: 32})
	slots := make([]slot, 32)
	for i := range slots {
		slots[i] = acquire(t, l)
	}
	for _, s := range slots {
		s.release(tooMany)
	}
	if got := l.Limit(); got != 28 {
		t.Errorf("limit %d", got)
	}
}

// Nor does what begins while the decrease is still being told, under the old limit.
func TestOneDecreaseWhileTold(t *testing.T) {
	l := NewLimiter(LimiterConfig{})
	reached, goOn := make(chan struct{}), make(chan struct{})
	l.Follow(func(LimitChange) { close(reached); <-goOn })
	slots := make([]slot, 8)
	for i := range slots {
		slots[i] = acquire(t, l)
	}
	done := make(chan struct{})
	go func() {
		for _, s := range slots[:enoughRefusals] {
			s.release(tooMany)
		}
		close(done)
	}()
	<-reached
	for i := range enoughRefusals {
		slots[i] = acquire(t, l)
	}
	close(goOn)
	<-done
	for _, s := range slots {
		s.release(tooMany)
	}
	if got := l.Limit(); got != 7 {
		t.Errorf("limit %d", got)
	}
}

func TestLoadSigns(t *testing.T) {
	for _, tc := range []struct {
		try  Try
		want string
	}{
		{Try{}, ""},
		{served, ""},
		{tooMany, "status 429"},
		{Try{Err: &Error{Status: 503}}, "status 503"},
		{Try{Err: &Error{Status: 529}}, "status 529"},
		{Try{Err: &Error{Code: "timeout"}}, "timeout"},
		{Try{Err: &Error{Status: 429, Code: "insufficient_quota", Stop: true}}, ""},
		{Try{Err: &Error{Status: 500}}, ""},
		{Try{Err: &Error{Status: 504, Code: "timeout"}}, ""},
		{Try{Err: &Error{Status: 400}}, ""},
		{Try{Err: &Error{Code: "transport"}}, ""},
		{Try{Err: &Error{Code: "cancelled"}}, ""},
		{Try{Response: &Response{}, Err: &Error{Status: 200, Code: "empty_completion"}}, ""},
	} {
		if got := loadSign(tc.try.Err); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.try.Err, got, tc.want)
		}
	}
}

// The decisions one by one: how many answers and refusals there are between the changes.
func TestAIMD(t *testing.T) {
	a := aimd{limit: 8, max: 64}
	answers := func(want int) {
		t.Helper()
		n := 1
		for a.began(a.limit); !a.served(); n++ {
			if n > 10_000 {
				t.Fatal("it never grows")
			}
		}
		if n != want {
			t.Errorf("up to %d after %d answers, not %d", a.limit, n, want)
		}
	}
	refusals := func(want, limit int) {
		t.Helper()
		n := 1
		for a.began(a.limit); !a.refused(); n++ {
			if n > 100 {
				t.Fatal("it never shrinks")
			}
		}
		if n != want || a.limit != limit {
			t.Errorf("down to %d after %d refusals, not to %d after %d", a.limit, n, limit, want)
		}
	}
	answers(2) // 9: nothing is known, so fast
	answers(3)
	answers(3)
	answers(3)
	refusals(4, 10) // at 12
	answers(3)      // 11: below the ceiling
	answers(22)     // 12: the ceiling again, after two windows
	refusals(4, 10)
	answers(3)
	answers(44) // refused again: twice the patience
	answers(12) // a whole window at the ceiling: it is gone
	answers(4)  // 14
	if a.ceiling != 0 || a.limit != 14 {
		t.Errorf("%+v", a)
	}
	refusals(4, 12)
	refusals(4, 9) // soon after: the cap is far below
	for range 20 {
		a.refused()
		for range refusalWeight {
			a.began(a.limit)
			a.served()
		}
	}
	if a.limit < 9 {
		t.Errorf("one refusal to six answers brings it down to %d", a.limit)
	}
	a = aimd{limit: 1, max: 64}
	for range 100 {
		if a.refused() {
			t.Fatalf("below 1: %+v", a)
		}
	}
}

// The methods of no limiter bound nothing.
func TestNoLimiter(t *testing.T) {
	var l *Limiter
	l.Follow(func(LimitChange) { t.Error("told of a change") })
	for range 100 {
		acquire(t, l).release(tooMany)
	}
	if l.Limit() != 0 {
		t.Errorf("limit %d", l.Limit())
	}
}

// While a call waits to try again it holds no slot.
func TestNoSlotWhileWaiting(t *testing.T) {
	l := NewLimiter(LimiterConfig{Fixed: 1})
	waits := 0
	h := client(t, serve(t, answer(503, `{}`), answer(503, `{}`), good), func(c *Config) {
		c.Limiter = l
		c.Sleep = func(ctx context.Context, _ time.Duration) error {
			waits++
			acquire(t, l).release(Try{})
			return nil
		}
	})
	if _, err := h.Chat(background, ask, &journal{}); err != nil || waits != 2 {
		t.Errorf("%d waits, %v", waits, err)
	}
	if l.underWay != 0 {
		t.Errorf("%d are under way", l.underWay)
	}
}

// BenchmarkLimiter is what a request pays for being let in, with eight goroutines for each slot.
func BenchmarkLimiter(b *testing.B) {
	for _, tc := range []struct {
		name   string
		config LimiterConfig
	}{
		{"fixed", LimiterConfig{Fixed: 2}},
		{"adapting", LimiterConfig{Start: 2, Max: 2}},
		{"with rates", LimiterConfig{Fixed: 2, RequestsPerMinute: 1 << 40, TokensPerMinute: 1 << 40}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			l := NewLimiter(tc.config)
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					acquire(b, l).release(served)
				}
			})
		})
	}
	b.Run("alone", func(b *testing.B) {
		l := NewLimiter(LimiterConfig{})
		for b.Loop() {
			acquire(b, l).release(served)
		}
	})
}

func TestAcquire(t *testing.T) {
	l := NewLimiter(LimiterConfig{Fixed: 1})
	release, err := l.Acquire(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	none, err := l.Acquire(ended, 100)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a second request: %v", err)
	}
	none(nil, nil) // it held nothing
	release(&Response{}, nil)
	if _, err := l.Acquire(context.Background(), 100); err != nil {
		t.Error(err)
	}
	var unbounded *Limiter
	if release, err = unbounded.Acquire(ended, 100); err != nil {
		t.Error(err)
	}
	release(nil, &Error{})
}
