package trajectory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
)

const runID = "01JZ0000000000000000000RVN"

// manifestDigest is the parent of a journal's first line.
var manifestDigest = canonical.Digest([]byte("manifest"))

// disk is a Sink that knows what was synced. When block is not nil a Sync
// waits for it.
type disk struct {
	mu            sync.Mutex
	data          []byte
	durable       int // bytes synced
	writes, syncs int
	write, sync   error
	short         int // bytes that a write leaves out, without an error
	block         chan struct{}
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.write != nil {
		return 0, d.write
	}
	n := len(p) - d.short
	d.data = append(d.data, p[:n]...)
	return n, nil
}

func (d *disk) Sync() error {
	if d.block != nil {
		<-d.block
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.sync != nil {
		return d.sync
	}
	d.durable = len(d.data)
	return nil
}

// holds reports whether what is durable contains s.
func (d *disk) holds(s string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Contains(d.data[:d.durable], []byte(s))
}

func (d *disk) counts() (writes, syncs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes, d.syncs
}

// config has a clock that goes on by a millisecond every third time it is
// asked, and randomness that is the same in every run.
func config() LogConfig {
	start, n := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC), 0
	return LogConfig{
		RunID: runID,
		Now:   func() time.Time { n++; return start.Add(time.Duration(n/3) * time.Millisecond) },
		Mono:  func() time.Duration { return time.Duration(n) * time.Millisecond },
		Rand:  rand.NewChaCha8([32]byte{1}),
	}
}

func newLog(t testing.TB, sink Sink, end End, cfg LogConfig) *Log {
	t.Helper()
	l, err := NewLog(sink, end, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// read reads a whole journal, which must verify.
func read(t testing.TB, data []byte) ([]Event, End) {
	t.Helper()
	var events []Event
	end, tail, err := ReadJournal(bytes.NewReader(data), runID, manifestDigest, func(e Event, _ []byte) error {
		events = append(events, e)
		return nil
	})
	if err != nil || tail != nil {
		t.Fatalf("the journal does not verify: %v (tail %v)", err, tail)
	}
	return events, end
}

func turn(n int) Draft { return Draft{TaskID: "task-1", Attempt: 1, Turn: n, Payload: TurnStarted{}} }

func TestLogWritesTheJournal(t *testing.T) {
	sink := &disk{}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	rec := &Attempt{Log: l, TaskID: "task-1", Number: 2}
	if _, err := l.Append(Draft{Payload: RunStarted{ManifestSHA256: manifestDigest}}); err != nil {
		t.Fatal(err)
	}
	if err := rec.Append(0, TaskStarted{Question: "?"}); err != nil {
		t.Fatal(err)
	}
	ids, err := rec.Enqueue(1, TurnStarted{}, TurnCompleted{ToolCalls: 1})
	if err != nil {
		t.Fatal(err)
	}
	if sink.holds(`"turn_started"`) {
		t.Error("Enqueue waited for the disk")
	}
	if _, err := l.Append(); err != nil { // no event: all were enqueued before
		t.Fatal(err)
	}
	if !sink.holds(`"turn_completed"`) {
		t.Error("Append returned before what was enqueued was durable")
	}
	events, end := read(t, sink.data)
	want := []Type{TypeRunStarted, TypeTaskStarted, TypeTurnStarted, TypeTurnCompleted}
	if len(events) != len(want) {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		if e.Payload.Type() != want[i] || e.Seq != int64(i) || e.RunID != runID {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if e := events[3]; e.TaskID != "task-1" || e.Attempt != 2 || e.Turn != 1 || e.ID != ids[1] || events[2].ID != ids[0] {
		t.Errorf("the last event is %+v, ids %v", e, ids)
	}
	if e := events[0]; e.TaskID != "" || e.Attempt != 0 || e.Turn != 0 || e.Timestamp != "2031-02-03T04:05:06.789Z" {
		t.Errorf("the first event is %+v", e)
	}
	if l.End() != end {
		t.Errorf("the log ends at %+v, the journal at %+v", l.End(), end)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}

// TestLogIDs: ids grow strictly, in file order and across processes, with many
// writers and a clock that jumps back and forth.
func TestLogIDs(t *testing.T) {
	sink := &disk{}
	end := End{Head: manifestDigest}
	const writers, each = 16, 15
	for process := range 3 {
		cfg := config()
		var n time.Duration
		base := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(process) * time.Hour) // each starts before the last
		cfg.Now = func() time.Time { n++; return base.Add(n % 7 * time.Second) }
		cfg.Rand = rand.NewChaCha8([32]byte{byte(process)})
		l := newLog(t, sink, end, cfg)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					ids, err := l.Append(turn(w+1), turn(i+1))
					if err != nil || len(ids) != 2 || ids[0] >= ids[1] {
						t.Errorf("Append = %v, %v", ids, err)
						return
					}
				}
			})
		}
		wg.Wait()
		end = l.End()
	}
	events, readEnd := read(t, sink.data) // which checks chain, seq and ids
	if len(events) != 3*writers*each*2 || end != readEnd {
		t.Errorf("%d events, end %+v, the log's %+v", len(events), readEnd, end)
	}
	for i := 1; i < len(events); i++ {
		if events[i].Timestamp < events[i-1].Timestamp {
			t.Fatalf("time goes back at line %d", i+1)
		}
	}
}

// TestNeighboursAreNotGuessable: ids within one millisecond are apart by random
// steps of up to 2⁶⁸.
func TestNeighboursAreNotGuessable(t *testing.T) {
	cfg := config()
	cfg.Now = func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	l := newLog(t, &disk{}, End{Head: manifestDigest}, cfg)
	var last ulid.ULID
	large := 0
	for i := range 200 {
		ids, err := l.Append(turn(1))
		if err != nil {
			t.Fatal(err)
		}
		id := ulid.MustParseStrict(ids[0])
		if i > 0 {
			step := low64(id) - low64(last)
			if step > 1<<56 { // of 68 bits, the low 64: TestIDsAreNotGuessed measures each bit
				large++
			}
		}
		last = id
	}
	if large < 150 {
		t.Errorf("only %d of 199 steps are above 2⁵⁶", large)
	}
}

func low64(id ulid.ULID) (n uint64) {
	for _, b := range id[8:] {
		n = n<<8 | uint64(b)
	}
	return n
}

func TestNewLogRefusesABadEnd(t *testing.T) {
	if _, err := NewLog(&disk{}, End{LastID: "nonsense"}, config()); err == nil {
		t.Error("went on after an id that is none")
	}
}

func TestAppendReturnsAfterSync(t *testing.T) {
	sink := &disk{}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 25 {
				var early []string
				if i%5 == 0 {
					var err error
					if early, err = l.Enqueue(turn(7)); err != nil {
						t.Error(err)
					}
				}
				ids, err := l.Append(turn(1), turn(2))
				if err != nil {
					t.Error(err)
				}
				for _, id := range append(early, ids...) {
					if !sink.holds(id) {
						t.Errorf("Append returned before %s was durable", id)
					}
				}
			}
		})
	}
	wg.Wait()
	if events, _ := read(t, sink.data); len(events) != 16*(25*2+5) {
		t.Errorf("%d events", len(events))
	}
}

// waitFor waits until many events were taken in.
func waitFor(t *testing.T, l *Log, events int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); l.End().Events < events; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d events after 10 s, not %d", l.End().Events, events)
		}
	}
}

// TestGroupCommit holds the first sync back until many others have come: they
// are all written at once.
func TestGroupCommit(t *testing.T) {
	sink := &disk{block: make(chan struct{})}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	const others = 50
	var wg sync.WaitGroup
	append1 := func() {
		ids, err := l.Append(turn(1))
		if err != nil || !sink.holds(ids[0]) {
			t.Errorf("Append = %v, %v; durable: no", ids, err)
		}
	}
	wg.Go(append1)
	for w, _ := sink.counts(); w == 0; w, _ = sink.counts() {
		runtime.Gosched()
	}
	for range others {
		wg.Go(append1)
	}
	waitFor(t, l, 1+others)
	close(sink.block)
	wg.Wait()
	if writes, syncs := sink.counts(); writes != 2 || syncs != 2 {
		t.Errorf("%d writes and %d syncs for one append and then %d at once; want 2 and 2", writes, syncs, others)
	}
	if events, _ := read(t, sink.data); len(events) != 1+others {
		t.Errorf("%d events", len(events))
	}
}

// foreign is a payload of a type that no reader knows.
type foreign struct{}

func (foreign) Type() Type { return "foreign" }

var errDisk = errors.New("no space left on device")

func TestLogFailsForGood(t *testing.T) {
	tests := []struct {
		name   string
		break_ func(*disk, *LogConfig)
		draft  Draft
		want   string
	}{
		{"write", func(d *disk, _ *LogConfig) { d.write = errDisk }, turn(1), errDisk.Error()},
		{"sync", func(d *disk, _ *LogConfig) { d.sync = errDisk }, turn(1), errDisk.Error()},
		{"short write", func(d *disk, _ *LogConfig) { d.short = 1 }, turn(1), io.ErrShortWrite.Error()},
		{"recorded", func(_ *disk, c *LogConfig) { c.Recorded = func(Event, []byte) error { return errDisk } }, turn(1), errDisk.Error()},
		{"randomness", func(_ *disk, c *LogConfig) { c.Rand = strings.NewReader("short") }, turn(1), "EOF"},
		{"the end of time", func(_ *disk, c *LogConfig) { c.Now = func() time.Time { return time.UnixMilli(1 << 48) } }, turn(1), ulid.ErrBigTime.Error()},
		{"unknown type", nil, Draft{Payload: foreign{}}, `a foreign event cannot be at task "", attempt 0, turn 0`},
		{"a number too large", nil, Draft{TaskID: "t", Attempt: 1, Turn: 1, Payload: TurnCompleted{LatencyMs: 1<<53 + 1}}, "encoding a turn_completed event"},
		{"a task id that is not UTF-8", nil, Draft{TaskID: "\xff", Attempt: 1, Payload: TaskStarted{}}, "encoding a task_started event"},
		{"no task", nil, Draft{Attempt: 1, Turn: 1, Payload: TurnStarted{}}, `cannot be at task ""`},
		{"no attempt", nil, Draft{TaskID: "t", Turn: 1, Payload: TurnStarted{}}, "attempt 0"},
		{"negative attempt", nil, Draft{TaskID: "t", Attempt: -1, Payload: TaskStarted{}}, "attempt -1"},
		{"no turn", nil, Draft{TaskID: "t", Attempt: 1, Payload: TurnStarted{}}, "turn 0"},
		{"a turn too many", nil, Draft{TaskID: "t", Attempt: 1, Turn: 1, Payload: TaskStarted{}}, "turn 1"},
		{"an attempt too many", nil, Draft{TaskID: "t", Attempt: 1, Payload: TaskSealed{}}, "attempt 1"},
		{"a task too many", nil, Draft{TaskID: "t", Payload: RunCompleted{}}, `task "t"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink, cfg := &disk{}, config()
			if tt.break_ != nil {
				tt.break_(sink, &cfg)
			}
			l := newLog(t, sink, End{Head: manifestDigest}, cfg)
			_, first := l.Append(tt.draft)
			if !errors.Is(first, ErrNotRecorded) || !strings.Contains(first.Error(), tt.want) {
				t.Fatalf("Append: %v, want %q", first, tt.want)
			}
			writes, syncs := sink.counts()
			durable := sink.durable
			*sink = disk{data: sink.data, durable: durable, writes: writes, syncs: syncs} // repaired
			for range 2 {
				if ids, err := l.Append(turn(1)); err != first || ids != nil {
					t.Errorf("a later Append: %v, %v", ids, err)
				}
				if ids, err := l.Enqueue(turn(1)); err != first || ids != nil {
					t.Errorf("a later Enqueue: %v, %v", ids, err)
				}
				if _, err := l.Append(); err != first {
					t.Errorf("a later Append of nothing: %v", err)
				}
			}
			if l.Err() != first {
				t.Errorf("Err() = %v", l.Err())
			}
			if w, s := sink.counts(); w != writes || s != syncs {
				t.Errorf("the disk was used again: %d writes, %d syncs; before %d and %d", w, s, writes, syncs)
			}
		})
	}
}

// TestOversizeEvent: what a reader would refuse for its length is not written,
// nor what was to be recorded with it, and the log works on.
func TestOversizeEvent(t *testing.T) {
	long.NotRaced(t)
	draft := func(n int) Draft {
		return Draft{TaskID: "t", Attempt: 1, Payload: TaskStarted{Question: strings.Repeat("a", n), Workspace: []File{}}}
	}
	sink := &disk{}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	for _, record := range []func(...Draft) ([]string, error){l.Append, l.Enqueue} {
		ids, err := record(turn(1), draft(MaxLine-maxFrame), turn(2))
		if !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrNotRecorded) || ids != nil || len(sink.data) > 0 {
			t.Errorf("a line too long: %v, %v", ids, err)
		}
	}
	if _, err := l.Append(draft(MaxLine-2*maxFrame), turn(1)); err != nil || l.Err() != nil {
		t.Fatal(err, l.Err())
	}
	if end, tail, err := verify(sink.data); err != nil || tail != nil || end.Events != 2 {
		t.Errorf("%d events, %v", end.Events, err)
	}
}

// TestFailedIsToldFirst: what makes a log fail is told before anybody who waits
// for it goes on, and once.
func TestFailedIsToldFirst(t *testing.T) {
	c := config()
	var told []error
	c.Failed = func(err error) { told = append(told, err) }
	l := newLog(t, &disk{sync: errDisk}, End{Head: manifestDigest}, c)
	for range 3 {
		if _, err := l.Append(turn(1)); !errors.Is(err, errDisk) || len(told) != 1 || told[0] != err {
			t.Errorf("%v, told %v", err, told)
		}
	}
}

// TestFailureReachesEveryWaiter: the running sync fails, and no caller who
// waited for it, or came meanwhile, is told that it is recorded.
func TestFailureReachesEveryWaiter(t *testing.T) {
	sink := &disk{block: make(chan struct{}), sync: errDisk}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := l.Append(turn(1)); !errors.Is(err, ErrNotRecorded) || !errors.Is(err, errDisk) {
				t.Errorf("Append: %v", err)
			}
		})
	}
	waitFor(t, l, 20)
	close(sink.block)
	wg.Wait()
	if _, syncs := sink.counts(); syncs != 1 {
		t.Errorf("%d syncs: a failed sync was tried again", syncs)
	}
}

func TestRecorded(t *testing.T) {
	sink, cfg := &disk{}, config()
	var seen []Event
	var lines bytes.Buffer
	cfg.Recorded = func(e Event, line []byte) error {
		if !sink.holds(e.ID) {
			t.Errorf("%s was told before it was durable", e.ID)
		}
		seen = append(seen, e) // the log calls one at a time
		lines.Write(line)
		return nil
	}
	l := newLog(t, sink, End{Head: manifestDigest}, cfg)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				// bytes that are not UTF-8: the callback must see what is on disk
				p := AnswerCommitted{Answer: fmt.Sprintf("%d\xff%d", w, i)}
				ids, err := l.Append(Draft{TaskID: "t", Attempt: 1, Payload: p})
				if err != nil || len(ids) != 1 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	events, _ := read(t, sink.data)
	if diff := cmp.Diff(events, seen); diff != "" {
		t.Errorf("the callback saw other events than the journal holds (-journal +seen):\n%s", diff)
	}
	if !bytes.Equal(lines.Bytes(), sink.data) {
		t.Error("the callback saw other lines than the journal holds")
	}
}

// TestRecordedStopsTheLog: a follower that cannot go on ends the recording, and
// is not called again.
func TestRecordedStopsTheLog(t *testing.T) {
	sink, cfg, calls := &disk{}, config(), 0
	cfg.Recorded = func(e Event, _ []byte) error {
		if calls++; e.Seq == 1 {
			return errDisk
		}
		return nil
	}
	l := newLog(t, sink, End{Head: manifestDigest}, cfg)
	if _, err := l.Append(turn(1), turn(2), turn(3)); !errors.Is(err, errDisk) || !errors.Is(err, ErrNotRecorded) {
		t.Errorf("Append: %v", err)
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// TestLogOnAFullDisk writes to /dev/full, which takes nothing.
func TestLogOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full on this system: %v", err)
	}
	defer full.Close()
	l := newLog(t, full, End{Head: manifestDigest}, config())
	if _, err := l.Append(turn(1)); !errors.Is(err, ErrNotRecorded) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Append: %v", err)
	}
}

// TestLogInAFile uses a real file, closed behind the log's back.
func TestLogInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, f, End{Head: manifestDigest}, config())
	if _, err := l.Append(turn(1), turn(2)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(turn(3)); !errors.Is(err, ErrNotRecorded) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append to a closed file: %v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if events, _ := read(t, data); len(events) != 2 {
		t.Errorf("%d events", len(events))
	}
}

func TestMonoUs(t *testing.T) {
	cfg := config()
	cfg.Mono = func() time.Duration { return 81234567 * time.Nanosecond }
	sink := &disk{}
	if _, err := newLog(t, sink, End{Head: manifestDigest}, cfg).Append(turn(1)); err != nil {
		t.Fatal(err)
	}
	if events, _ := read(t, sink.data); events[0].MonoUs != 81234 {
		t.Errorf("mono_us = %d", events[0].MonoUs)
	}
}
