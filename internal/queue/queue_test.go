package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// records is a handler that keeps everything in memory.
type records struct {
	mu       sync.Mutex
	copies   map[string][]byte
	notes    map[string][]byte
	workers  []string
	claims   map[int]Claim
	permits  int
	money    map[string]Money
	left     []string
	progress map[string]Progress
	order    Order
	fail     error             // of each method but Claimed
	judge    func(Claim) error // nil: all are good
}

func newRecords() *records {
	return &records{copies: map[string][]byte{}, notes: map[string][]byte{}, claims: map[int]Claim{}, money: map[string]Money{}, progress: map[string]Progress{}, order: Work}
}

func (r *records) lock() func() { r.mu.Lock(); return r.mu.Unlock }

func (r *records) Join(_ context.Context, j Join) (Joined, error) {
	defer r.lock()()
	if j.Version != "v1" {
		return Joined{}, &Refusal{"this server is v1, the worker is " + j.Version}
	}
	i := slices.Index(r.workers, j.Key)
	if i < 0 {
		i, r.workers = len(r.workers), append(r.workers, j.Key)
	}
	return Joined{Delegation: []byte("delegation of " + j.Key), Index: i + 1}, r.fail
}

func (r *records) Append(_ context.Context, a Append) (int64, error) {
	defer r.lock()()
	have := r.copies[a.Key]
	if a.Offset > int64(len(have)) || r.fail != nil {
		return int64(len(have)), r.fail
	}
	same := min(len(have)-int(a.Offset), len(a.Lines))
	if !bytes.Equal(have[a.Offset:int(a.Offset)+same], a.Lines[:same]) {
		return 0, &Refusal{"the journal differs from its copy"}
	}
	r.copies[a.Key] = append(have, a.Lines[same:]...)
	if a.Note != nil {
		r.notes[a.Key] = bytes.Clone(a.Note)
	}
	return int64(len(r.copies[a.Key])), nil
}

func (r *records) Permit(context.Context, Permit) (time.Duration, error) {
	defer r.lock()()
	r.permits++
	return time.Millisecond, r.fail
}

func (r *records) Reserve(_ context.Context, m Money) (Grant, error) {
	defer r.lock()()
	r.money[m.Key] = m
	if m.Spent+m.Held > 100 {
		return Spent, r.fail
	}
	return Granted, r.fail
}

func (r *records) Progress(_ context.Context, p Progress) (Order, error) {
	defer r.lock()()
	r.progress[p.Key] = p
	return r.order, r.fail
}

func (r *records) Leave(_ context.Context, l Leave) error {
	defer r.lock()()
	r.left = append(r.left, l.Key)
	return r.fail
}

func (r *records) Claimed(_ context.Context, c Claim) error {
	defer r.lock()()
	if first, ok := r.claims[c.Task]; ok && (first.Key != c.Key || first.Digest != c.Digest) {
		return &Refusal{"another claim is on record"}
	}
	if r.judge != nil {
		if err := r.judge(c); err != nil {
			return err
		}
	}
	r.claims[c.Task] = c
	return nil
}

func (r *records) Claims() iter.Seq2[Claim, error] {
	return func(yield func(Claim, error) bool) {
		defer r.lock()()
		for _, task := range slices.Sorted(maps.Keys(r.claims)) {
			if !yield(r.claims[task], nil) {
				return
			}
		}
	}
}

func (r *records) count() int { defer r.lock()(); return len(r.claims) }

// see reads what the handler has.
func see[T any](r *records, f func() T) T { defer r.lock()(); return f() }

func (r *records) copyOf(key string) (lines []byte, note string) {
	defer r.lock()()
	return bytes.Clone(r.copies[key]), string(r.notes[key])
}

func testPlan(tasks int) Plan {
	return Plan{RunID: "01RUN", Tasks: tasks, Manifest: bytes.Repeat([]byte("manifest "), 200_000), Envelope: []byte("{}"), BaseURL: "http://127.0.0.1:1/v1"}
}

func testOptions(t testing.TB, tasks int) Options {
	return Options{Plan: testPlan(tasks), Listen: "127.0.0.1:0", StoreDir: t.TempDir(), AckWait: time.Second, Period: 100 * time.Millisecond, Log: logTo(t)}
}

// logTo logs while the test runs.
func logTo(t testing.TB) func(string) {
	var mu sync.Mutex
	over := false
	t.Cleanup(func() { mu.Lock(); over = true; mu.Unlock() })
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Log(line)
		}
	}
}

// serve starts a server; stop ends it and waits.
func serve(t testing.TB, o Options, h Handler) (s *Server, stop func()) {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, h) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	t.Cleanup(stop)
	return s, stop
}

func dial(t testing.TB, o ClientOptions) *Client {
	t.Helper()
	if o.Log == nil {
		o.Log = logTo(t)
	}
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func worker(t testing.TB, url, key string) *Client {
	t.Helper()
	c := dial(t, ClientOptions{URL: url})
	join(t, c, key)
	return c
}

func join(t testing.TB, c *Client, key string) {
	t.Helper()
	if _, _, err := c.Join(t.Context(), Join{Key: key, Name: "host", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
}

func claimOf(task int, by string) Claim {
	return Claim{Task: task, Digest: canonical.Digest(fmt.Appendf(nil, "%d by %s", task, by)), Head: []byte("head of " + by)}
}

// work takes, claims and finishes tasks until ctx ends. It returns the tasks that it claimed first.
func work(ctx context.Context, t testing.TB, c *Client, pause func()) (first []int) {
	for {
		task, err := c.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return first
		}
		pause()
		switch err := c.Claim(context.WithoutCancel(ctx), claimOf(task.Place, c.key)); { // one on record must reach who made it
		case err == nil:
			first = append(first, task.Place)
		case !errors.Is(err, ErrClaimed):
			if ctx.Err() == nil {
				t.Error(err)
			}
			return first
		}
		task.Done()
	}
}

// waitFor waits until a condition holds. Its limit is that of a hanging test.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 30_000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not within five minutes", what)
}

// checkOnce checks that each task has one claim, and that the workers agree.
func checkOnce(t *testing.T, h *records, tasks int, firsts ...[]int) {
	t.Helper()
	all := slices.Concat(firsts...)
	slices.Sort(all)
	if len(all) != tasks || len(slices.Compact(all)) != tasks || h.count() != tasks {
		t.Errorf("%d of %d tasks claimed first by a worker, %d on record", len(all), tasks, h.count())
	}
}

func none() {}

// TestEachTaskOnce: of many tasks over several clients, each is claimed by one.
func TestEachTaskOnce(t *testing.T) {
	t.Parallel()
	const workers = 4
	tasks := 2000 / long.Step(4)
	if long.Raced {
		tasks = 200
	}
	h := newRecords()
	o := testOptions(t, tasks)
	o.AckWait = time.Minute // a slow worker that gets its own task again would count it twice
	s, _ := serve(t, o, h)
	ctx, cancel := context.WithCancel(t.Context())
	firsts := make([][]int, 3*workers)
	var all sync.WaitGroup
	for w := range workers {
		c := worker(t, s.URL(), fmt.Sprint("key ", w))
		for i := range 3 { // under way at the same time
			all.Go(func() { firsts[3*w+i] = work(ctx, t, c, none) })
		}
	}
	waitFor(t, "all claims", func() bool { return h.count() == tasks })
	cancel()
	all.Wait()
	checkOnce(t, h, tasks, firsts...)
	if n, err := s.Refill(t.Context()); n != 0 || err != nil {
		t.Errorf("published %d tasks that are claimed: %v", n, err)
	}
}

// TestJoin: a worker gets the plan in pieces, or the reason of the refusal.
func TestJoin(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 5)
	s, _ := serve(t, o, newRecords())
	c := dial(t, ClientOptions{URL: s.URL()})
	joined, p, err := c.Join(t.Context(), Join{Key: "k", Name: "host", Version: "v1"})
	if err != nil || joined.Index != 1 || string(joined.Delegation) != "delegation of k" {
		t.Fatal(joined, err)
	}
	if p.RunID != "01RUN" || p.Tasks != 5 || p.BaseURL != o.Plan.BaseURL || !bytes.Equal(p.Manifest, o.Plan.Manifest) || !bytes.Equal(p.Envelope, o.Plan.Envelope) || len(p.Settings) != 0 {
		t.Error("the plan is not the server's")
	}
	var refusal *Refusal
	if _, _, err := c.Join(t.Context(), Join{Key: "other", Version: "v2"}); !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, "the worker is v2") {
		t.Error(err)
	}
	if _, _, err := c.Join(t.Context(), Join{Key: strings.Repeat("k", maxText+1), Version: "v1"}); !errors.Is(err, errBounds) {
		t.Error(err)
	}
}

// TestAppend: a journal is copied in pieces; again, from anywhere, and after the copy was lost, with the same result.
func TestAppend(t *testing.T) {
	t.Parallel()
	h := newRecords()
	s, _ := serve(t, testOptions(t, 1), h)
	c := worker(t, s.URL(), "k")
	journal := make([]byte, 3*MaxChunk+17) // one line of more than one message
	for i := range journal {
		journal[i] = byte('a' + rand.N(26))
	}
	size := int64(len(journal))
	send := func(from, to int64) error {
		return c.Append(t.Context(), bytes.NewReader(journal), from, to, fmt.Appendf(nil, "note at %d", to))
	}
	for _, step := range []struct{ from, to int64 }{{0, 100}, {100, 100}, {0, 100}, {100, size}, {100, size}, {size, size}, {size - 1, size}} {
		if err := send(step.from, step.to); err != nil {
			t.Fatal(step, err)
		}
		if have, note := h.copyOf("k"); !bytes.Equal(have, journal[:len(have)]) || int64(len(have)) < step.to || note != fmt.Sprint("note at ", step.to) {
			t.Fatal(step, "the copy is not the journal")
		}
	}
	unlock := h.lock()
	h.copies["k"] = h.copies["k"][:50]
	unlock()
	err := send(size-5, size)
	if have, _ := h.copyOf("k"); err != nil || !bytes.Equal(have, journal) {
		t.Error("a copy that became shorter is not filled again:", err)
	}
	var refusal *Refusal
	if err := send(0, 100); err != nil {
		t.Error("a copy that is longer by what was sent before:", err)
	}
	journal[10] = '!'
	if err := send(0, 100); !errors.As(err, &refusal) {
		t.Error("a journal that differs was copied:", err)
	}
	if err := c.Append(t.Context(), bytes.NewReader(journal), 0, 100, nil); !errors.Is(err, errBounds) {
		t.Error("a journal without a tree head was copied:", err)
	}
}

// TestRequests: the other requests reach the handler with the worker's key, and its answers the worker.
func TestRequests(t *testing.T) {
	t.Parallel()
	h := newRecords()
	s, _ := serve(t, testOptions(t, 1), h)
	c := worker(t, s.URL(), "k")
	ctx := t.Context()
	if err := c.Permit(ctx, 5); err != nil || see(h, func() int { return h.permits }) != 1 {
		t.Error(err)
	}
	if g, err := c.Reserve(ctx, Money{Seq: 1, Spent: 60, Held: 40}); g != Granted || err != nil || see(h, func() int64 { return h.money["k"].Held }) != 40 {
		t.Error(g, err)
	}
	if g, err := c.Reserve(ctx, Money{Seq: 2, Spent: 100, Held: 1}); g != Spent || err != nil {
		t.Error(g, err)
	}
	if _, err := c.Reserve(ctx, Money{Spent: 1}); !errors.Is(err, errBounds) {
		t.Error(err)
	}
	see(h, func() Order { h.order = Drain; return h.order })
	if o, err := c.Progress(ctx, Progress{UnderWay: []int{0}, Cost: 7}); o != Drain || err != nil || see(h, func() int64 { return h.progress["k"].Cost }) != 7 {
		t.Error(o, err)
	}
	if _, err := c.Progress(ctx, Progress{UnderWay: make([]int, MaxUnderWay+1)}); !errors.Is(err, errBounds) {
		t.Error(err)
	}
	if err := c.Leave(ctx, "drained"); err != nil || !slices.Equal(see(h, func() []string { return h.left }), []string{"k"}) {
		t.Error(err)
	}
	// An error that is no refusal is tried again, and its text stays here.
	see(h, func() error { h.fail = errors.New("disk full on /srv"); return nil })
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := c.Leave(short, ""); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "/srv") {
		t.Error(err)
	}
}

// TestClaims: the first claim stays, and who comes second gets it.
func TestClaims(t *testing.T) {
	t.Parallel()
	h := newRecords()
	s, _ := serve(t, testOptions(t, 3), h)
	a, b := worker(t, s.URL(), "a"), worker(t, s.URL(), "b")
	claim := claimOf(1, "a")
	for range 2 { // the reply may have been lost
		if err := a.Claim(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	err := b.Claim(t.Context(), claimOf(1, "b"))
	var claimed *ClaimedError
	if !errors.Is(err, ErrClaimed) || !errors.As(err, &claimed) || claimed.First.Key != "a" || claimed.First.Digest != claim.Digest || !bytes.Equal(claimed.First.Head, claim.Head) {
		t.Error(err)
	}
	claim.Digest = "sha256:"
	if err := a.Claim(t.Context(), claim); !errors.Is(err, errBounds) {
		t.Error(err)
	}
}

// TestRefusedClaim: a claim that the server does not accept is removed, and its task comes again.
func TestRefusedClaim(t *testing.T) {
	t.Parallel()
	h := newRecords()
	h.judge = func(c Claim) error {
		if c.Key == "liar" {
			return &Refusal{"the head does not cover the task"}
		}
		return nil
	}
	s, _ := serve(t, testOptions(t, 2), h)
	liar, good := worker(t, s.URL(), "liar"), worker(t, s.URL(), "good")
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		task, err := liar.Next(short)
		if err != nil {
			t.Fatal(err)
		}
		_ = liar.Claim(t.Context(), claimOf(task.Place, "liar"))
		task.Done()
	}
	// Names that are no task, and a deletion before there is a claim.
	_, claims, err := liar.handles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"7", "01", "x"} {
		if _, err := claims.Put(t.Context(), key, []byte("{}")); err != nil {
			t.Error(key, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var first []int
	var done sync.WaitGroup
	done.Go(func() { first = work(ctx, t, good, none) })
	waitFor(t, "claims of the good worker", func() bool { return h.count() == 2 })
	waitFor(t, "the rest to be removed", func() bool {
		bucket, err := s.js.KeyValue(t.Context(), s.names.bucket())
		if err != nil {
			t.Fatal(err)
		}
		keys, err := bucket.Keys(t.Context())
		return err == nil && len(keys) == 2
	})
	bucket, err := s.js.Stream(t.Context(), "KV_"+s.names.bucket())
	if err != nil {
		t.Fatal(err)
	}
	published := bucket.CachedInfo().State.LastSeq
	// A name that, as a pattern, has all claims.
	for _, key := range []string{"*", ">", "x"} {
		if err := liar.conn.Publish("$KV."+liar.names.bucket()+"."+key, []byte("{}")); err != nil {
			t.Error(key, err)
		}
	}
	waitFor(t, "all three to be judged", func() bool {
		info, err := bucket.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = bucket.GetLastMsgForSubject(t.Context(), "$KV."+s.names.bucket()+".x")
		return info.State.LastSeq >= published+3 && errors.Is(err, jetstream.ErrMsgNotFound)
	})
	for _, task := range []string{"0", "1"} {
		if _, err := claims.Get(t.Context(), task); err != nil {
			t.Errorf("the claim of task %s is gone: %v", task, err)
		}
	}
	stop()
	done.Wait()
	checkOnce(t, h, 2, first)
}

// TestWorkersGone: the tasks of workers that are killed come to others, and those of one that only was slow are claimed
// once.
func TestWorkersGone(t *testing.T) {
	t.Parallel()
	const tasks = 60
	h := newRecords()
	o := testOptions(t, tasks)
	o.AckWait = 3 * time.Second // a sign of work comes in time on a slow machine, too
	s, _ := serve(t, o, h)
	killed := worker(t, s.URL(), "killed")
	for range 10 {
		if _, err := killed.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	killed.Close() // nothing is acknowledged
	frozen := worker(t, s.URL(), "frozen")
	lost, err := frozen.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost.end() // as if the process stood still: no sign of work
	busy := worker(t, s.URL(), "busy")
	kept, err := busy.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	live := worker(t, s.URL(), "live")
	ctx, cancel := context.WithCancel(t.Context())
	var first []int
	var done sync.WaitGroup
	done.Go(func() { first = work(ctx, t, live, none) })
	waitFor(t, "claims of what was lost", func() bool { return h.count() == tasks-1 })
	if err := frozen.Claim(t.Context(), claimOf(lost.Place, "frozen")); !errors.Is(err, ErrClaimed) {
		t.Error(err)
	}
	lost.Done()
	time.Sleep(o.AckWait + o.AckWait/2) // a task that is worked on stays with its worker
	if err := busy.Claim(t.Context(), claimOf(kept.Place, "busy")); err != nil {
		t.Error(err)
	}
	kept.Done()
	waitFor(t, "the last claim", func() bool { return h.count() == tasks })
	cancel()
	done.Wait()
	checkOnce(t, h, tasks, first, []int{kept.Place})
}

// TestReturn: a task that is given back comes again at once.
func TestReturn(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 1)
	o.AckWait = time.Hour
	s, _ := serve(t, o, newRecords())
	a, b := worker(t, s.URL(), "a"), worker(t, s.URL(), "b")
	task, err := a.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	task.Return()
	if again, err := b.Next(t.Context()); err != nil || again.Place != task.Place {
		t.Error(again, err)
	}
}

// TestRestart: a server that starts again, with its store and without, goes on where the records are, and workers that
// were under way notice it once.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"kept", "deleted"} {
		t.Run(store, func(t *testing.T) {
			const tasks = 120
			h := newRecords()
			o := testOptions(t, tasks)
			s, stop := serve(t, o, h)
			o.Listen = strings.TrimPrefix(s.URL(), "nats://")
			var mu sync.Mutex
			said := map[string]int{}
			var lines []string
			ctx, cancel := context.WithCancel(t.Context())
			firsts := make([][]int, 2)
			var done sync.WaitGroup
			var begun atomic.Int64 // tasks; those of the second half wait until the server is gone
			gone := make(chan struct{})
			for w := range 2 {
				c := dial(t, ClientOptions{URL: s.URL(), Log: func(line string) {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, fmt.Sprint(w, " ", line))
					switch {
					case strings.Contains(line, "does not answer"):
						said[fmt.Sprint(w, " lost")]++
					case strings.Contains(line, "answers again"):
						said[fmt.Sprint(w, " found")]++
					}
				}})
				join(t, c, fmt.Sprint("key ", w))
				done.Go(func() {
					firsts[w] = work(ctx, t, c, func() {
						if begun.Add(1) > tasks/2 {
							<-gone
						}
					})
				})
			}
			waitFor(t, "some claims", func() bool { return h.count() > tasks/4 })
			stop()
			close(gone)
			waitFor(t, "the workers to notice", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return said["0 lost"] > 0 && said["1 lost"] > 0
			})
			if store == "deleted" {
				if err := os.RemoveAll(o.StoreDir); err != nil {
					t.Fatal(err)
				}
			}
			s, _ = serve(t, o, h)
			waitFor(t, "all claims", func() bool { return h.count() == tasks })
			cancel()
			done.Wait()
			if store == "kept" {
				checkOnce(t, h, tasks, firsts...)
			}
			// Each claim on record is in the bucket.
			c := worker(t, s.URL(), "late")
			for task := range tasks {
				var first *ClaimedError
				if err := c.Claim(t.Context(), claimOf(task, "late")); !errors.As(err, &first) || first.First.Digest != see(h, func() string { return h.claims[task].Digest }) {
					t.Fatal(task, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for w := range 2 { // once for each time that the connection was lost, which starting may do twice
				lost, found := said[fmt.Sprint(w, " lost")], said[fmt.Sprint(w, " found")]
				if lost < 1 || lost > 2 || found > lost || found < lost-1 { // a worker may have had nothing more to do
					t.Errorf("what the workers said: %q", lines)
				}
			}
		})
	}
}

// TestQueueLost: messages and streams that vanish under a server that runs come back.
func TestQueueLost(t *testing.T) {
	t.Parallel()
	const tasks = 40
	h := newRecords()
	s, _ := serve(t, testOptions(t, tasks), h)
	c := worker(t, s.URL(), "k")
	for range tasks / 4 {
		task, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Claim(t.Context(), claimOf(task.Place, "k")); err != nil {
			t.Fatal(err)
		}
		task.Done()
	}
	waitFor(t, "the claims to be on record", func() bool { return h.count() == tasks/4 })
	stream, err := s.js.Stream(t.Context(), s.names.stream())
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if task, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		task.Return()
	}
	for _, name := range []string{s.names.stream(), "KV_" + s.names.bucket()} {
		if err := s.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { work(ctx, t, c, none) })
	waitFor(t, "all claims", func() bool { return h.count() == tasks })
	cancel()
	done.Wait()
}

// TestOtherRun: a server and a worker refuse a queue that is of another run.
func TestOtherRun(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 3)
	s, stop := serve(t, o, newRecords())
	c := worker(t, s.URL(), "k")
	o.Listen = strings.TrimPrefix(s.URL(), "nats://")
	stop()
	o.Plan.RunID = "01OTHER"
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), `of run "01RUN"`) || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
	o.StoreDir = t.TempDir()
	serve(t, o, newRecords())
	if _, err := c.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "run 01OTHER now") {
		t.Error(err)
	}
}

// TestRepeatedPermit: a permit whose reply was lost counts once.
func TestRepeatedPermit(t *testing.T) {
	t.Parallel()
	h := newRecords()
	s, _ := serve(t, testOptions(t, 1), h)
	c := worker(t, s.URL(), "k")
	data, err := encodeFrame(call{ID: "one", Schema: schema}, Permit{Key: "k"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var replies sync.WaitGroup
	for range 20 {
		replies.Go(func() {
			if m, err := c.conn.Request(c.names.rpc("permit", c.sender), data, tryFor); err != nil || !bytes.Contains(m.Data, []byte(`"microseconds":1000`)) {
				t.Error(err)
			}
		})
	}
	replies.Wait()
	if n := see(h, func() int { return h.permits }); n != 1 {
		t.Errorf("%d permits were counted", n)
	}
	for i := range maxRecent + 10 {
		if _, _, err := s.rpc.once(t.Context(), fmt.Sprint(i), func() (any, []byte, error) { return empty{}, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.rpc.recent) != maxRecent || len(s.rpc.order) != maxRecent {
		t.Errorf("%d permits are remembered", len(s.rpc.recent))
	}
}
