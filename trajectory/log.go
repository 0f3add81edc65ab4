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
	"path/filepath"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/oklog/ulid/v2"
)

// ErrNotRecorded means that events could not be made durable. It is final for
// the log: after a failed write or sync nobody knows what the disk holds, so
// nothing is tried again and nothing more is accepted.
var ErrNotRecorded = errors.New("evidence could not be recorded")

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
	// Recorded, if set, sees every event with its line (newline included) in
	// order once it is durable. Its error makes the log fail.
	Recorded func(Event, []byte) error
	// Bodies, if set, makes whole bodies durable, before the lines that name
	// them. Without it none are kept.
	Bodies func([]Body) error
}

// Log is the one writer of a journal. Its methods may be called from many
// goroutines: whoever finds no flush under way writes and syncs for all that
// have gathered (group commit).
type Log struct {
	sink   Sink
	cfg    LogConfig
	random io.Reader // of cfg.Rand, some at a time

	mu       sync.Mutex
	flushed  sync.Cond // signals that flushing or durable changed
	end      End       // where the next event goes
	last     ulid.ULID
	pending  []line
	bodies   []Body // to be written before pending
	flushing bool
	durable  End // what is known to be on disk
	failed   error
}

type line struct {
	event Event
	bytes []byte
	end   End // of the journal up to here
}

// NewLog continues a journal at end; a new journal ends at
// End{Head: digest of manifest.json}.
func NewLog(sink Sink, end End, cfg LogConfig) (*Log, error) {
	l := &Log{sink: sink, cfg: cfg, end: end, durable: end, random: bufio.NewReaderSize(cfg.Rand, 512)}
	l.flushed.L = &l.mu
	if end.LastID != "" {
		id, err := ulid.ParseStrict(end.LastID)
		if err != nil {
			return nil, fmt.Errorf("continuing a journal after id %q: %w", end.LastID, err)
		}
		l.last = id
	}
	return l, nil
}

// Append records events in order and returns their ids when they, and all
// enqueued before them, are durable. The error matches ErrNotRecorded.
func (l *Log) Append(drafts ...Draft) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids, err := l.enqueue(drafts)
	if err != nil {
		return nil, err
	}
	mine := l.end.Events
	for l.durable.Events < mine && l.failed == nil {
		if l.flushing {
			l.flushed.Wait()
			continue
		}
		l.flush()
	}
	return ids, l.failed
}

// Enqueue records events without waiting for the disk: they become durable
// with the next Append. What must not happen before it is recorded, needs
// Append.
func (l *Log) Enqueue(drafts ...Draft) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueue(drafts)
}

func (l *Log) enqueue(drafts []Draft) ([]string, error) {
	ids := make([]string, 0, len(drafts))
	for _, d := range drafts {
		if l.failed != nil {
			return nil, l.failed
		}
		id, err := l.nextID()
		if err != nil {
			return nil, l.fail(err)
		}
		e := Event{
			Attempt: d.Attempt, ID: id.String(), MonoUs: l.cfg.Mono().Microseconds(), ParentHash: l.end.Head,
			Payload: d.Payload, RunID: l.cfg.RunID, Seq: l.end.Events, TaskID: d.TaskID, Timestamp: timestamp(id), Turn: d.Turn,
		}
		k, known := kindOf(d.Payload.Type())
		if !known || !k.scope.fits(d.TaskID, d.Attempt, d.Turn) {
			return nil, l.fail(fmt.Errorf("a %s event cannot stand at task %q, attempt %d, turn %d", d.Payload.Type(), d.TaskID, d.Attempt, d.Turn))
		}
		b, err := encode(&e, k)
		if err != nil {
			return nil, l.fail(fmt.Errorf("encoding a %s event: %w", d.Payload.Type(), err))
		}
		if len(b) > MaxLine {
			return nil, l.fail(fmt.Errorf("a %s event of %d bytes, over the limit of %d", d.Payload.Type(), len(b), MaxLine))
		}
		l.last = id
		l.end = End{Events: l.end.Events + 1, Head: sign.Digest(b), LastID: e.ID}
		l.pending = append(l.pending, line{e, b, l.end})
		ids = append(ids, e.ID)
	}
	return ids, nil
}

// nextID returns an id above the last one, also when the clock steps back and
// when the last one is of a process before this one: of the same millisecond it
// is the last one and a random step, of a later one random. (The library's
// monotonic source draws some 250 times for a step of this size, and knows only
// the ids that it made itself.)
func (l *Log) nextID() (ulid.ULID, error) {
	ms := max(ulid.Timestamp(l.cfg.Now()), l.last.Time())
	if ms == l.last.Time() {
		var step [8]byte
		if _, err := io.ReadFull(l.random, step[:6]); err != nil {
			return ulid.ULID{}, err
		}
		if id, ok := after(l.last, 1+binary.LittleEndian.Uint64(step[:])); ok {
			return id, nil
		}
		ms++
	}
	return ulid.New(ms, l.random)
}

// after returns the id that is step, at most 2⁴⁸, above one of the same
// millisecond; false if there is none.
func after(id ulid.ULID, step uint64) (ulid.ULID, bool) {
	low := binary.BigEndian.Uint64(id[8:])
	high := binary.BigEndian.Uint16(id[6:8])
	sum, carry := bits.Add64(low, step, 0)
	if uint64(high)+carry > math.MaxUint16 {
		return ulid.ULID{}, false
	}
	binary.BigEndian.PutUint64(id[8:], sum)
	binary.BigEndian.PutUint16(id[6:8], high+uint16(carry))
	return id, true
}

// flush writes and syncs all that is pending. It is called with the lock held
// and gives it up while the disk works.
func (l *Log) flush() {
	batch, bodies := l.pending, l.bodies
	l.pending, l.bodies = nil, nil
	l.flushing = true
	l.mu.Unlock()
	err := l.write(batch, bodies)
	l.mu.Lock()
	l.flushing = false
	if err != nil {
		l.fail(err)
	} else if len(batch) > 0 {
		l.durable = batch[len(batch)-1].end
	}
	l.flushed.Broadcast()
}

func (l *Log) write(batch []line, bodies []Body) error {
	if len(bodies) > 0 {
		if err := l.cfg.Bodies(bodies); err != nil {
			return err
		}
	}
	var size int
	for _, b := range batch {
		size += len(b.bytes)
	}
	all := make([]byte, 0, size)
	for _, b := range batch {
		all = append(all, b.bytes...)
	}
	if n, err := l.sink.Write(all); err != nil || n != len(all) {
		return cmp.Or(err, io.ErrShortWrite)
	}
	if err := l.sink.Sync(); err != nil {
		return err
	}
	if l.cfg.Recorded == nil {
		return nil
	}
	for _, b := range batch {
		if err := l.cfg.Recorded(b.event, b.bytes); err != nil {
			return err
		}
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
		l.failed = fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return l.failed
}

// Keep takes a whole body that an event enqueued after it will name, and
// returns its digest; "" if the log keeps none.
func (l *Log) Keep(body string) string {
	if l.cfg.Bodies == nil {
		return ""
	}
	b := Body{SHA256: sign.Digest([]byte(body)), Text: body}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, b)
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
