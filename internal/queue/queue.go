// Package queue carries work between a server and its workers over NATS JetStream. No other package imports NATS.
//
// JetStream carries work, never evidence. It holds two things: a work queue with one message for each task that has no
// claim, and a bucket with one claim for each task that has one. Both can be lost at any time. The server records each
// claim with [Handler.Claimed]; from these records, and from the plan, it makes the queue again. A task is a place in
// the plan, from 0.
//
// The first claim of a task is the only one: the bucket takes one value for each task and never another. A worker that
// was frozen or cut off loses its task to another one after the time in [Options].AckWait, and finds out with
// [Client.Claim], which returns a [ClaimedError].
//
// Everything else is requests and replies, which [Handler] answers. A message is a line of canonical JSON, a second one,
// and for some raw bytes. What arrives is hostile: it has bounds, one accepted form, and a sender that the server of
// NATS checks. Requests are repeated until there is a reply; a repeated request has the same effect as one.
//
// Each user of the server of NATS has its own NKey, and workers may use the subjects in [Permissions] only. Nothing
// starts, and no goroutine runs, before [Start] or [Dial].
package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// Bounds on what one message holds, in bytes unless said otherwise.
const (
	MaxChunk    = 512 << 10 // of a journal or a document in one message
	MaxDocument = 64 << 20  // one document of the plan
	MaxNote     = 4 << 10   // a signed tree head
	MaxUnderWay = 1 << 12   // tasks that one worker has under way
	MaxWorkers  = 1 << 12   // keys of workers
	maxMessage  = 64 << 10  // the JSON of a message, but for tasks and claims:
	maxClaim    = 16 << 10
	maxText     = 1 << 10
)

const schema = "gaia.queue/1"

// Plan is what each worker gets: the signed plan, and what is needed to carry it out. It holds no secret.
type Plan struct {
	RunID    string
	Tasks    int    // how many the plan has
	Manifest []byte // manifest.json
	Envelope []byte // manifest.dsse.json
	Settings []byte
	BaseURL  string
}

// Join asks to become a worker. One that was interrupted joins again with the same key.
type Join struct {
	Key     string `json:"key"`     // public half of the key that the worker made, as a line
	Name    string `json:"name"`    // for the display: a host name
	Version string `json:"version"` // of the worker's gaia
}

// Joined is the answer to [Join].
type Joined struct {
	Delegation []byte `json:"delegation"` // DSSE envelope for the worker's key
	Index      int    `json:"index"`      // of the worker, from 1
}

// Append is a piece of a worker's journal.
type Append struct {
	Key    string `json:"key"`
	Note   []byte `json:"note,omitzero"` // signed tree head of the journal up to the end of Lines; nil: the piece may end within a line
	Offset int64  `json:"offset"`        // of Lines in the journal, in bytes
	Lines  []byte `json:"-"`             // at most MaxChunk; valid until the handler returns
}

// Permit asks for one request to the model.
type Permit struct {
	Key    string `json:"key"`
	Tokens int64  `json:"tokens"` // that it may use
}

// Money is what a worker has spent of the common budget, and what it wants to have reserved besides, both in all: a
// question that comes again, or late, changes nothing.
type Money struct {
	Held  int64  `json:"held"` // micro-USD
	Key   string `json:"key"`
	Seq   int64  `json:"seq"`   // counts the questions of this worker, from 1
	Spent int64  `json:"spent"` // micro-USD
}

// Grant is the answer to [Money].
type Grant string

const (
	Granted Grant = "granted"
	Wait    Grant = "wait"  // others hold what is left; some of it may return
	Spent   Grant = "spent" // it will never be granted
)

// Progress is what a worker is doing, for the display. None of it is evidence.
type Progress struct {
	Calls    int64  `json:"calls"` // of the model
	Cost     int64  `json:"cost"`  // micro-USD spent so far
	Key      string `json:"key"`
	Lost     int    `json:"lost"` // tasks that it finished second
	Finished int    `json:"finished"`
	UnderWay []int  `json:"under_way"`
}

// Order is what a worker is to do.
type Order string

const (
	Work  Order = "work"
	Drain Order = "drain" // finish what is under way, take nothing more
	Done  Order = "done"  // all tasks are claimed
)

// Leave says that a worker takes no more tasks and has none.
type Leave struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Claim says that a worker finished a task, and that the server's copy of its journal has the task's lines.
type Claim struct {
	Digest string `json:"digest"` // of the task's lines, as in task_committed
	Head   []byte `json:"head"`   // signed tree head of the worker's journal that covers them
	Key    string `json:"key"`    // of the worker
	RunID  string `json:"run_id"`
	Schema string `json:"schema"`
	Task   int    `json:"task"`
}

// ErrClaimed is matched by the error of a claim that is not the first of its task.
var ErrClaimed = errors.New("the task is claimed")

// ClaimedError has the claim that was first. It matches [ErrClaimed].
type ClaimedError struct{ First Claim }

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("task %d is claimed by %s", e.First.Task, e.First.Key)
}

func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// Refusal is an error of a handler that the worker gets as it is. A request that is refused is not repeated; after any
// other error it is.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return e.Reason }

// Handler answers the workers. Its methods run concurrently; requests of one worker may overlap, and the same request
// may come again, also after a restart. Key is a key that joined, or for Join one that might, and no other user of the
// server of NATS has used it since the server started. A method returns promptly: it does not wait for other workers.
type Handler interface {
	// Join delegates to a key, or refuses. A key that has a delegation gets the same one.
	Join(context.Context, Join) (Joined, error)
	// Append makes the server's copy of the worker's journal longer and returns its size when it is synced, also if
	// that is less than a.Offset: the worker goes on from there. Bytes that the copy has must be equal, else it is
	// refused. A note is checked, and kept with the copy.
	Append(ctx context.Context, a Append) (size int64, err error)
	// Permit takes a place in the common rate and returns after how long it begins.
	Permit(context.Context, Permit) (time.Duration, error)
	// Reserve answers whether a worker may have so much of the common budget. What was spent counts in any case, and
	// less than before is always granted. A question older than the last one changes nothing.
	Reserve(context.Context, Money) (Grant, error)
	Progress(context.Context, Progress) (Order, error)
	Leave(context.Context, Leave) error

	// Claimed checks a claim and records it durably. An error that is a [*Refusal], also for a task that has another
	// claim on record, removes it from the bucket; after any other error it comes again. So does each claim after a
	// restart. Calls do not overlap.
	Claimed(context.Context, Claim) error
	// Claims yields each claim on record, also ones that the bucket never had.
	Claims() iter.Seq2[Claim, error]
}

// message is a value that came from outside.
type message interface{ check() error }

var errBounds = errors.New("a member is out of bounds")

func within(ok ...bool) error {
	for _, o := range ok {
		if !o {
			return errBounds
		}
	}
	return nil
}

func isText(s string, least int) bool { return len(s) >= least && len(s) <= maxText }

func (j *Join) check() error {
	return within(isText(j.Key, 1), isText(j.Name, 0), isText(j.Version, 1))
}

func (j *Joined) check() error {
	return within(len(j.Delegation) > 0, j.Index > 0)
}

func (a *Append) check() error {
	return within(isText(a.Key, 1), a.Offset >= 0, len(a.Note) <= MaxNote)
}

func (p *Permit) check() error { return within(isText(p.Key, 1), p.Tokens >= 0) }

func (m *Money) check() error {
	return within(isText(m.Key, 1), m.Seq > 0, m.Spent >= 0, m.Held >= 0)
}

func (p *Progress) check() error {
	for _, task := range p.UnderWay {
		if task < 0 {
			return errBounds
		}
	}
	return within(isText(p.Key, 1), p.Calls >= 0, p.Cost >= 0, p.Lost >= 0, p.Finished >= 0, len(p.UnderWay) <= MaxUnderWay)
}

func (l *Leave) check() error { return within(isText(l.Key, 1), isText(l.Reason, 0)) }

func (c *Claim) check() error {
	return within(c.Schema == schema, c.Task >= 0, isText(c.RunID, 1), isText(c.Key, 1), canonical.IsDigest(c.Digest), len(c.Head) > 0, len(c.Head) <= MaxNote)
}

// decodeClaim reads a value of the bucket.
func decodeClaim(data []byte) (c Claim, err error) {
	if len(data) > maxClaim {
		return Claim{}, errBounds
	}
	if err = canonical.Decode(data, &c); err == nil {
		err = c.check()
	}
	return c, err
}
