package trajectory

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/oklog/ulid/v2"
)

// ErrNotRecorded means that events could not be made durable. It is final for the log: after a failed write or sync it
// is unknown what the disk holds, so nothing is tried again and nothing more is accepted.
var ErrNotRecorded = errors.New("evidence could not be recorded")

// ErrTooLarge means that an event is larger than a line may be. It is refused with all that was to be recorded together
// with it, and the log works on.
var ErrTooLarge = fmt.Errorf("an event is larger than %d bytes and cannot be recorded", MaxLine)

// Draft is an event before the log has given it its place.
type Draft struct {
	TaskID  string
	Attempt int
	Turn    int
	Payload Payload
}

// Sink is the open journal file.
type Sink interface {
	io.Writer
	Sync() error
}

// LogConfig holds what a Log needs from outside.
type LogConfig struct {
	RunID string
	Now   func() time.Time     // wall clock
	Mono  func() time.Duration // monotonic time since the process started
	Rand  io.Reader            // entropy of the ids
	// Recorded, if set, sees every event with its line (newline included) in order once it is durable. Its error makes
	// the log fail.
	Recorded func(Event, []byte) error
	// Failed, if set, is called at once with what makes the log fail, before the callers that wait for it return. It
	// must not call the log.
	Failed func(error)
	// Bodies, if set, makes whole bodies durable, before the lines that name them. Without it none are kept.
	Bodies func([]Body) error
}

// Log is the one writer of a journal. Its methods may be called from many goroutines. Events gather in a batch while
// the one before is written and synced; whoever waits for one of them waits for its batch (group commit).
type Log struct {
	sink   Sink
	cfg    LogConfig
	random io.Reader // of cfg.Rand, some at a time

	mu      sync.Mutex
	end     End // where the next event goes
	last    ulid.ULID
	clock   string // timestamp of last
	open    *batch // gathers
	written *batch // is being written; nil: none is
	durable End    // what is known to be on disk
	spare   *batch // room for the next one; nil: none
	failed  error
}

// maxSpare bounds, in bytes, the room that is kept for another batch.
const maxSpare = 1 << 20

// batch is what is written and synced at once.
type batch struct {
	lines  []byte
	events []placed
	bodies []Body // to be written before the lines
	wanted bool   // a caller waits for it
	done   chan struct{}
	err    error // when done is closed
}

// placed is an event with where its line ends, in the batch and in the journal.
type placed struct {
	event Event
	to    int
	end   End
}

// newBatch returns an empty batch with the room of one that is done with, if there is one.
func newBatch(room *batch) *batch {
	b := &batch{done: make(chan struct{})}
	if room != nil {
		b.lines, b.events = room.lines[:0], room.events[:0]
	}
	return b
}

// NewLog continues a journal at end; a new journal ends at End{Head: digest of manifest.json}.
func NewLog(sink Sink, end End, cfg LogConfig) (*Log, error) {
	l := &Log{sink: sink, cfg: cfg, end: end, durable: end, open: newBatch(nil), random: bufio.NewReaderSize(cfg.Rand, 512)}
	if end.LastID != "" {
		id, err := ulid.ParseStrict(end.LastID)
		if err != nil {
			return nil, fmt.Errorf("continuing a journal after id %q: %w", end.LastID, err)
		}
		l.last = id
	}
	return l, nil
}

// Append records events in order and returns their ids when they, and all enqueued before them, are durable. The error
// matches ErrNotRecorded, or it is ErrTooLarge.
func (l *Log) Append(drafts ...Draft) ([]string, error) {
	bodies, err := encodeAll(drafts)
	l.mu.Lock()
	ids, err := l.enqueue(drafts, bodies, err)
	if err != nil || l.durable.Events == l.end.Events {
		l.mu.Unlock()
		return ids, err
	}
	b := l.open
	if len(b.events) == 0 { // what was enqueued before is on its way
		b = l.written
	}
	b.wanted = true
	first := l.written == nil
	if first {
		l.take()
	}
	l.mu.Unlock()
	if first && l.flush() { // its own batch; others are not waited for
		go func() {
			for l.flush() {
			}
		}()
	}
	<-b.done
	return ids, b.err
}

// Enqueue records events without waiting for the disk: they become durable with the next Append. What must not happen
// before it is recorded, needs Append.
func (l *Log) Enqueue(drafts ...Draft) ([]string, error) {
	bodies, err := encodeAll(drafts)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueue(drafts, bodies, err)
}

// encodeAll encodes the payloads of drafts, which takes most of the time and needs no lock.
func encodeAll(drafts []Draft) ([]body, error) {
	bodies := make([]body, len(drafts))
	for i, d := range drafts {
		k, known := kinds[d.Payload.Type()]
		if !known || !k.scope.fits(d.TaskID, d.Attempt, d.Turn) {
			return bodies[:i], fmt.Errorf("a %s event cannot be at task %q, attempt %d, turn %d", d.Payload.Type(), d.TaskID, d.Attempt, d.Turn)
		}
		b, err := encodePayload(d.Payload, k)
		if err != nil {
			return bodies[:i], fmt.Errorf("encoding a %s event: %w", d.Payload.Type(), err)
		}
		if len(b.bytes) > MaxLine-maxFrame {
			return nil, ErrTooLarge
		}
		bodies[i] = b
	}
	return bodies, nil
}

// maxFrame bounds, in bytes, the rest of a line whose ids are not very long.
const maxFrame = 4 << 10

// enqueue gives events their places. invalid is why there are fewer bodies than drafts.
func (l *Log) enqueue(drafts []Draft, bodies []body, invalid error) ([]string, error) {
	if errors.Is(invalid, ErrTooLarge) {
		return nil, invalid
	}
	ids := make([]string, 0, len(bodies))
	for i, p := range bodies {
		if l.failed != nil {
			return nil, l.failed
		}
		id, err := l.nextID()
		if err != nil {
			return nil, l.fail(err)
		}
		if l.clock == "" || id.Time() != l.last.Time() {
			l.clock = timestamp(id)
		}
		d, start := drafts[i], len(l.open.lines)
		e := Event{
			Attempt: d.Attempt, ID: id.String(), MonoUs: l.cfg.Mono().Microseconds(), ParentHash: l.end.Head,
			RunID: l.cfg.RunID, Seq: l.end.Events, TaskID: d.TaskID, Timestamp: l.clock, Turn: d.Turn,
		}
		all, err := e.appendLine(l.open.lines, p)
		if err != nil {
			return nil, l.fail(fmt.Errorf("encoding a %s event: %w", p.payload.Type(), err))
		}
		if n := len(all) - start; n > MaxLine {
			return nil, l.fail(fmt.Errorf("a %s event of %d bytes, over the limit of %d", p.payload.Type(), n, MaxLine))
		}
		l.last = id
		l.end = End{Events: l.end.Events + 1, Head: canonical.Digest(all[start:]), LastID: e.ID}
		l.open.lines = all
		l.open.events = append(l.open.events, placed{e, len(all), l.end})
		ids = append(ids, e.ID)
	}
	if invalid != nil {
		return nil, l.fail(invalid)
	}
	return ids, l.failed
}

// nextID returns an id above the last one, also when the clock steps back and when the last one is of a process before
// this one. In a later millisecond all 80 bits are random. In the same one it is the last id and a random step of up to
// 2⁶⁸, so that who knows the ids before and behind cannot guess it. (The library's monotonic source draws some 250
// times for a step, and knows only the ids that it made itself.)
func (l *Log) nextID() (ulid.ULID, error) {
	ms := max(ulid.Timestamp(l.cfg.Now()), l.last.Time())
	if ms == l.last.Time() {
		var step [9]byte
		if _, err := io.ReadFull(l.random, step[:]); err != nil {
			return ulid.ULID{}, err
		}
		if id, ok := after(l.last, uint16(step[8]&15), binary.LittleEndian.Uint64(step[:8])); ok {
			return id, nil
		}
		ms++
	}
	return ulid.New(ms, l.random)
}

// after returns the id that is high·2⁶⁴ + low + 1 above one of the same millisecond; false if there is none.
func after(id ulid.ULID, high uint16, low uint64) (ulid.ULID, bool) {
	sum, carry := bits.Add64(binary.BigEndian.Uint64(id[8:]), low, 1)
	top := uint64(binary.BigEndian.Uint16(id[6:8])) + uint64(high) + carry
	if top > math.MaxUint16 {
		return ulid.ULID{}, false
	}
	binary.BigEndian.PutUint64(id[8:], sum)
	binary.BigEndian.PutUint16(id[6:8], uint16(top))
	return id, true
}

// take makes the gathered events the batch that is being written.
func (l *Log) take() {
	l.written, l.open, l.spare = l.open, newBatch(l.spare), nil
}

// flush writes the batch that was taken, and takes the next if it is wanted.
func (l *Log) flush() (more bool) {
	b := l.written
	b.err = l.write(b)
	l.mu.Lock()
	if b.err != nil {
		b.err = l.fail(b.err)
	} else if n := len(b.events); n > 0 {
		l.durable = b.events[n-1].end
	}
	l.written = nil
	more = l.open.wanted
	if more && l.failed != nil { // it is unknown what the disk holds: nothing more is written
		l.open.err, more = l.failed, false
		close(l.open.done)
		l.open = newBatch(nil)
	}
	if cap(b.lines) <= maxSpare {
		clear(b.events) // the payloads
		l.spare = &batch{lines: b.lines, events: b.events}
	}
	if more {
		l.take()
	}
	l.mu.Unlock()
	close(b.done)
	return more
}

func (l *Log) write(b *batch) error {
	if len(b.bodies) > 0 {
		if err := l.cfg.Bodies(b.bodies); err != nil {
			return err
		}
	}
	if n, err := l.sink.Write(b.lines); err != nil || n != len(b.lines) {
		return cmp.Or(err, io.ErrShortWrite)
	}
	if err := l.sink.Sync(); err != nil {
		return err
	}
	if l.cfg.Recorded == nil {
		return nil
	}
	from := 0
	for _, p := range b.events {
		if err := l.cfg.Recorded(p.event, b.lines[from:p.to:p.to]); err != nil {
			return err
		}
		from = p.to
	}
	return nil
}

// fail makes the log refuse everything from now on.
func (l *Log) fail(err error) error {
	if l.failed == nil {
		var path *fs.PathError
		if errors.As(err, &path) { // the directory may have been renamed since
			err = fmt.Errorf("%s %s: %w", path.Op, filepath.Base(path.Path), path.Err)
		}
		var link *os.LinkError
		if errors.As(err, &link) {
			err = fmt.Errorf("%s: %w", link.Op, link.Err)
		}
		l.failed = fmt.Errorf("%w: %w", ErrNotRecorded, err)
		if l.cfg.Failed != nil {
			l.cfg.Failed(l.failed)
		}
	}
	return l.failed
}

// Keep takes a whole body that an event enqueued after it will name, and returns its digest; "" if the log keeps none.
func (l *Log) Keep(body string) string {
	if l.cfg.Bodies == nil {
		return ""
	}
	b := Body{SHA256: canonical.Digest([]byte(body)), Text: body}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.bodies = append(l.open.bodies, b)
	return b.SHA256
}

// Err returns what made the log fail, nil while it works.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// End returns the place after the last event accepted.
func (l *Log) End() End {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Durable returns the place after the last event that is known to be on disk.
func (l *Log) Durable() End {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}
