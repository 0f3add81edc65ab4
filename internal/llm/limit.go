package llm

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	defaultStart = 8
	defaultMax   = 64
)

// LimiterConfig says how much is asked of an endpoint. The zero value adapts between 1 and 64 requests
// at once, from 8 on, at any rate.
type LimiterConfig struct {
	Fixed int // exactly so many requests at once; 0 = adapt
	Start int // at first; 0 = 8, or Max if that is less
	Max   int // at most; 0 = 64

	RequestsPerMinute int64 // 0 = any number
	TokensPerMinute   int64 // read and written; 0 = any number

	Now   func() time.Time                                 // for the rates; nil = the real clock
	Sleep func(ctx context.Context, d time.Duration) error // for the rates; nil = a real timer
}

// Limiter bounds the requests that are under way at one endpoint at once, and how many of them and
// of their tokens there are a minute. Requests are admitted in the order in which they came. The
// methods of a nil Limiter bound nothing.
//
// How many may be under way adapts: additive increase while answers come, multiplicative decrease when
// the endpoint refuses for load (type aimd says how). Refusals for load are the status 429 unless it
// is about the account's quota, 503 and 529, and a request that timed out, since a server that
// queues shows in no other way that it is asked too much. A 500 or a lost connection says nothing
// about load.
type Limiter struct {
	turn  *semaphore.Weighted // its holder is the next to be admitted
	room  chan struct{}       // something has changed that who has the turn may wait for
	rates rates
	fixed bool

	mu         sync.Mutex
	limit      int // in effect
	underWay   int
	aimd       aimd // decides the limit; it takes effect when it has been reported
	decided    int  // decreases
	effected   int  // of them, those in effect
	unreported []LimitChange
	reporting  bool
	changed    func(LimitChange)
	owed       int64                                         // tokens that were not charged to the shared rate yet
	permit     func(ctx context.Context, tokens int64) error // waits for a rate that is shared; nil: none is
	refused    func(error)                                   // called once, when a request first finds nothing that takes it; nil: nothing is
}

// NewLimiter returns a limiter for one endpoint.
func NewLimiter(c LimiterConfig) *Limiter {
	c.Max, c.Start = cmp.Or(max(c.Max, 0), defaultMax), cmp.Or(max(c.Start, 0), defaultStart)
	if c.Fixed > 0 {
		c.Start, c.Max = c.Fixed, c.Fixed
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = Sleep
	}
	start := min(c.Start, c.Max)
	return &Limiter{
		turn: semaphore.NewWeighted(1), room: make(chan struct{}, 1),
		rates: rates{requests: newBucket(c.RequestsPerMinute), tokens: newBucket(c.TokensPerMinute), now: c.Now, sleep: c.Sleep}, fixed: c.Fixed > 0,
		limit: start, aimd: aimd{limit: start, max: c.Max},
	}
}

// slot is one request's place among those under way.
type slot struct {
	l         *Limiter
	decreases int   // that were in effect when the request began
	tokens    int64 // that it was thought to cost
}

// Share has permit called before each request, to wait for a rate that is shared with other processes. It is given the
// tokens to charge, as the limiter counts them for its own rate. It must be called before the first request.
func (l *Limiter) Share(permit func(ctx context.Context, tokens int64) error) {
	if l != nil {
		l.permit = permit
	}
}

// Delay takes a request of so many tokens from the rates, and returns how long it must wait. It is for a process that
// keeps a rate which others share.
func (l *Limiter) Delay(tokens int64) time.Duration {
	now := l.rates.now()
	return max(l.rates.requests.take(now, 1), l.rates.tokens.take(now, tokens))
}

// Acquire waits until a request of so many bytes may be sent, or until the context ends. Whoever gets no error calls
// release once, with how the request went; with nil twice where it was not sent.
func (l *Limiter) Acquire(ctx context.Context, bytes int) (release func(*Response, *Error), err error) {
	s, err := l.acquire(ctx, bytes)
	return func(r *Response, e *Error) { s.release(Try{Response: r, Err: e}) }, err
}

// acquire waits until a request of so many bytes may be sent, or until the context ends. Whoever
// waits for the rates holds no slot.
func (l *Limiter) acquire(ctx context.Context, bytes int) (slot, error) {
	if l == nil {
		return slot{}, nil
	}
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return slot{}, err
	}
	defer l.turn.Release(1)
	tokens, err := l.rates.wait(ctx, bytes)
	if err == nil && l.permit != nil {
		l.mu.Lock()
		charged := int64(bytes)/bytesPerToken + 1 + l.owed
		l.owed, tokens = 0, int64(bytes)/bytesPerToken+1
		l.mu.Unlock()
		err = l.permit(ctx, charged)
	}
	if err != nil {
		return slot{}, err
	}
	for {
		l.mu.Lock()
		if l.underWay < l.limit {
			l.underWay++
			l.aimd.began(l.underWay)
			s := slot{l, l.effected, tokens}
			l.mu.Unlock()
			return s, nil
		}
		l.mu.Unlock()
		select {
		case <-l.room:
		case <-ctx.Done():
			return slot{}, ctx.Err()
		}
	}
}

// release gives the slot back and learns from how the request went. The zero Try is that of a request
// which was not sent.
func (s slot) release(t Try) {
	l := s.l
	if l == nil {
		return
	}
	rest := int64(0)
	if t.Response != nil {
		// It is charged what it cost beyond what was charged before; later requests wait for that. Of a usage that lies no
		// more is believed than a token for each byte that was read.
		usage, most := t.Response.Usage, bytesPerToken*s.tokens+mostWritten
		if rest = max(min(usage.In+usage.Out, most)-s.tokens, 0); l.rates.tokens != nil && rest > 0 {
			l.rates.tokens.take(l.rates.now(), rest)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed += rest
	if report := l.refused; report != nil && t.Err != nil && t.Err.Code == "unreachable" {
		l.refused = nil
		l.mu.Unlock()
		report(fmt.Errorf("cannot connect to the endpoint (%s); retrying: check --base-url, and that the server is running there", t.Err.Message))
		l.mu.Lock()
	}
	l.underWay--
	l.wake()
	if l.fixed {
		return
	}
	l.aimd.began(l.underWay + 1) // since the last change perhaps none has begun
	from, reason := l.aimd.limit, loadSign(t.Err)
	switch {
	// What began before the last decrease took effect was part of why it was made.
	case reason != "" && s.decreases == l.decided:
		if l.aimd.refused() {
			l.decided++
			l.unreported = append(l.unreported, LimitChange{from, l.aimd.limit, reason})
		}
	case t.Response != nil && l.aimd.served():
		l.unreported = append(l.unreported, LimitChange{from, l.aimd.limit, "all in use, and not refused"})
	}
	l.reportChanges()
}

// reportChanges reports the changes and puts each into effect. It unlocks l while it reports; a call in
// the meantime leaves its changes to the one that is reporting.
func (l *Limiter) reportChanges() {
	if l.reporting {
		return
	}
	l.reporting = true
	for len(l.unreported) > 0 {
		change, changed := l.unreported[0], l.changed
		l.unreported = l.unreported[1:]
		if changed != nil {
			l.mu.Unlock()
			changed(change)
			l.mu.Lock()
		}
		l.limit = change.To
		if change.To < change.From {
			l.effected++
		}
		l.wake()
	}
	l.reporting = false
}

// wake makes the holder of the turn check again.
func (l *Limiter) wake() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// loadSign says what of a failure is a sign that the endpoint is asked too much; "" = nothing is.
func loadSign(e *Error) string {
	switch {
	case e == nil || e.Stop:
		return ""
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable, e.Status == statusOverloaded:
		return fmt.Sprintf("status %d", e.Status)
	case e.Status == 0 && e.Code == "timeout":
		return e.Code
	}
	return ""
}

// statusOverloaded is what Anthropic's endpoints answer when they are overloaded.
const statusOverloaded = 529

// Limit returns how many requests may be under way at once; 0 = any number.
func (l *Limiter) Limit() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// LimitChange says that an endpoint is given more or fewer requests at once.
type LimitChange struct {
	From, To int
	Reason   string
}

// Follow calls changed with every change from now on, one at a time, in order and before it takes
// effect. A request that has just ended waits for it; it may ask for the Limit.
func (l *Limiter) Follow(changed func(LimitChange)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = changed
}

// OnUnreachable calls report once, right after the first request that could not connect to the endpoint,
// before it is tried again.
func (l *Limiter) OnUnreachable(report func(error)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = report
}

const (
	// A refusal counts as much as six answers: below one refusal to six answers the limit stays. So
	// it settles within a sixth of the cap also at a server that refuses as slowly as it answers, and
	// refusals that have nothing to do with how much is asked do not wear it down.
	refusalWeight = 6
	// enoughRefusals, with few answers between them, are believed.
	enoughRefusals = 4

	firstPatience = 2  // windows just below the ceiling before it is tried again
	mostPatience  = 32 // the same after it was refused again and again
	leastWindow   = 8  // answers, for patience: or small limits would be tried all the time
)

// aimd decides how many requests may be under way at once, by additive increase and multiplicative
// decrease with a memory of the ceiling where refusals came.
//
// Increase: by one, and only when the limit has been reached since the last change. Where no ceiling
// is known, or it is far, after as many answers as are a quarter of the limit. Just below the ceiling
// only after `patience` windows of as many answers as the limit, and the patience doubles each time the ceiling is
// refused again. A whole window at the ceiling proves that it is gone.
//
// Decrease: when refusals outweigh answers, to 7/8 of what was under way at most; to 3/4 if the last
// decrease is less than a window ago, since the cap then is far below.
type aimd struct {
	limit, max int
	peak       int  // most that were under way at once since the last change
	answers    int  // since the last change
	pressure   int  // of refusals: the weight of each, less one for each answer, never below 0
	ceiling    int  // what was under way when refusals came last; 0 = not known
	patience   int  // windows to wait below the ceiling
	fell       bool // the last change was a decrease
}

// began notes that a request makes it n under way.
func (a *aimd) began(n int) { a.peak = max(a.peak, n) }

// served counts an answer and reports whether the limit has grown.
func (a *aimd) served() bool {
	a.answers++
	a.pressure = max(a.pressure-1, 0)
	wanted := (a.limit + 3) / 4 // answers before the limit grows
	switch a.limit {
	case a.ceiling:
		wanted = a.limit
	case a.ceiling - 1:
		wanted = a.patience * max(a.limit, leastWindow)
	}
	if a.limit >= a.max || a.peak < a.limit || a.pressure > 0 || a.answers < wanted {
		return false
	}
	if a.limit == a.ceiling {
		a.ceiling = 0
	}
	a.change(a.limit + 1)
	a.fell = false
	return true
}

// refused counts a refusal for load and reports whether the limit has shrunk.
func (a *aimd) refused() bool {
	a.pressure += refusalWeight
	if a.pressure < enoughRefusals*refusalWeight || a.limit == 1 {
		return false
	}
	busy := min(a.peak, a.limit)
	if busy == a.ceiling {
		a.patience = min(2*a.patience, mostPatience)
	} else {
		a.ceiling, a.patience = busy, firstPatience
	}
	to := busy * 7 / 8
	if a.fell && a.answers < a.limit {
		to = busy * 3 / 4
	}
	a.change(max(min(to, busy-1), 1))
	a.fell = true
	return true
}

func (a *aimd) change(to int) {
	a.limit, a.peak, a.answers, a.pressure = to, 0, 0, 0
}

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

// TasksPerRequest is how many tasks are under way for each request that the endpoint is sent at once: while some wait
// for their tools, others ask.
const TasksPerRequest = 2

// TaskLimiter bounds how many tasks are under way.
type TaskLimiter struct {
	mu             sync.Mutex
	room           *sync.Cond // with mu: there may be room
	most, underWay int
}

// Tasks returns a limiter of the tasks whose requests the limiter l bounds: a fixed number of tasks, or with 0 so many
// as the limit of requests allows at the moment. changed is called with each change of that limit, before it has an
// effect on the tasks.
func (l *Limiter) Tasks(fixed int, changed func(LimitChange)) *TaskLimiter {
	t := newTaskLimiter(cmp.Or(fixed, TasksPerRequest*l.Limit()))
	l.Follow(func(c LimitChange) {
		changed(c)
		if fixed == 0 {
			t.allow(TasksPerRequest * c.To)
		}
	})
	return t
}

func newTaskLimiter(most int) *TaskLimiter {
	l := &TaskLimiter{most: max(most, 1)}
	l.room = sync.NewCond(&l.mu)
	return l
}

// allow changes how many tasks may be under way.
func (l *TaskLimiter) allow(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = max(most, 1)
	l.room.Broadcast()
}

// Enter waits for room. Its error is that of the context.
func (l *TaskLimiter) Enter(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.room.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil && l.underWay >= l.most {
		l.room.Wait()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.underWay++
	return nil
}

// Leave makes room for another task.
func (l *TaskLimiter) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	l.room.Broadcast()
}
