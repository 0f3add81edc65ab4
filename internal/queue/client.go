package queue

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// tryFor is how long one try of a request may take.
const tryFor = 5 * time.Second

// patience returns how a thing is tried again: until the context of the caller ends.
func patience() []backoff.RetryOption {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 50*time.Millisecond, 5*time.Second
	return []backoff.RetryOption{backoff.WithBackOff(b), backoff.WithMaxElapsedTime(0)}
}

// notice says once that something is gone, and once that it is back.
type notice struct {
	say  func(string)
	what string
	mu   sync.Mutex
	gone bool
	bad  int // tries in a row that failed
}

func newNotice(say func(string), what string) *notice { return &notice{say: say, what: what} }

func (n *notice) lost(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.gone && err != nil {
		n.gone = true
		n.say(fmt.Sprintf("%s does not answer, trying again: %v", n.what, err))
	}
}

// failed is lost when several tries in a row failed: a server that starts has its parts one after the other.
func (n *notice) failed(err error) {
	n.mu.Lock()
	n.bad++
	several := n.bad > 4
	n.mu.Unlock()
	if several {
		n.lost(err)
	}
}

func (n *notice) found() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad = 0
	if n.gone {
		n.gone = false
		n.say(n.what + " answers again")
	}
}

// link ends what waits for a reply on a connection that was lost.
type link struct {
	mu  sync.Mutex
	ctx context.Context // of this connection; nil: nothing waits yet
	cut context.CancelFunc
}

func (l *link) dropped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		l.cut()
	}
	l.ctx = nil
}

// try returns a context for one try: it ends after a time, 0 for none, and when the connection is lost.
func (l *link) try(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cut = context.WithCancel(context.Background())
	}
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// connect connects to a server of NATS. It waits for one that is not there, and refuses one that is not the right one or
// that refuses this user. The link ends with each connection.
func connect(ctx context.Context, url string, options []nats.Option, said *notice, l *link) (*nats.Conn, error) {
	options = append(options,
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if !c.IsClosed() {
				said.lost(err)
			}
			l.dropped()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				said.say(fmt.Sprintf("the server of NATS: %v", err))
			}
		}))
	return backoff.Retry(ctx, func() (*nats.Conn, error) {
		conn, err := nats.Connect(url, options...)
		if err == nil {
			said.found()
			return conn, nil
		}
		for _, final := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrSecureConnWanted, nats.ErrSecureConnRequired, nats.ErrNkeysNotSupported} {
			if errors.Is(err, final) {
				return nil, backoff.Permanent(fmt.Errorf("%s: %w", url, err))
			}
		}
		if errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(tls.AlertError)) || errors.As(err, new(tls.RecordHeaderError)) {
			return nil, backoff.Permanent(fmt.Errorf("%s: %w", url, err))
		}
		said.lost(err)
		return nil, err
	}, patience()...)
}

// ClientOptions say how a worker reaches its server.
type ClientOptions struct {
	URL  string       // nats://HOST:PORT
	Name string       // of the queue, "": DefaultName
	Seed []byte       // NKey of this machine; needed off loopback
	CA   []byte       // who signed the server's certificate, PEM; nil: whom the machine trusts
	Log  func(string) // gets what an operator wants to know, from any goroutine; nil: it is dropped
}

// Client is the end of the queue that a worker has. Its methods may be called concurrently, after Join. While the server
// does not answer they try again, until their context ends; Log is told once.
type Client struct {
	names  names
	sender string
	conn   *nats.Conn
	link   link
	js     jetstream.JetStream
	said   *notice

	key, run string // since Join
	tasks    int

	mu       sync.Mutex
	consumer jetstream.Consumer // nil: to be looked up
	claims   jetstream.KeyValue // nil: to be looked up
}

// Dial connects to a server of NATS, and waits for it if it is not there.
func Dial(ctx context.Context, o ClientOptions) (*Client, error) {
	n, err := newNames(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	options, sender, err := access(o.URL, o.Seed, o.CA)
	if err != nil {
		return nil, err
	}
	c := &Client{names: n, sender: sender, said: newNotice(o.Log, "the server "+o.URL)}
	if c.conn, err = connect(ctx, o.URL, options, c.said, &c.link); err != nil {
		return nil, err
	}
	if c.js, err = jetstream.New(c.conn, jetstream.WithDefaultTimeout(tryFor)); err != nil {
		c.conn.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() { c.conn.Close() }

// ask sends a request until there is a reply. It returns the raw bytes after the reply, too.
func ask[T any, P interface {
	*T
	message
}](ctx context.Context, c *Client, op string, value request, body []byte) (reply T, raw []byte, err error) {
	if err := value.check(); err != nil {
		return reply, nil, fmt.Errorf("%s: %w", op, err)
	}
	data, err := encodeFrame(call{ID: nuid.Next(), Schema: schema}, value, body)
	if err != nil {
		return reply, nil, err
	}
	raw, err = backoff.Retry(ctx, func() ([]byte, error) {
		once, cancel := c.link.try(ctx, tryFor)
		defer cancel()
		m, err := c.conn.RequestWithContext(once, c.names.rpc(op, c.sender), data)
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		c.said.found()
		head, line, raw, ok := cutFrame(m.Data)
		var r result
		switch {
		case !ok || decodeValue(head, &r) != nil:
			return nil, backoff.Permanent(errors.New("the reply is not one of this version of gaia"))
		case r.Status == statusRefused:
			return nil, backoff.Permanent(&Refusal{r.Error})
		case r.Status == statusAgain:
			return nil, errAgain
		}
		if err := decodeValue(line, P(&reply)); err != nil {
			return nil, backoff.Permanent(fmt.Errorf("the reply: %w", err))
		}
		return raw, nil
	}, patience()...)
	if err != nil {
		err = fmt.Errorf("%s: %w", op, err)
	}
	return reply, raw, err
}

// failed notes an error of the connection, and returns it; one that is final is permanent.
func (c *Client) failed(ctx context.Context, err error) error {
	if c.conn.IsClosed() {
		return backoff.Permanent(err)
	}
	if ctx.Err() == nil {
		c.said.failed(err)
	}
	return err
}

// Join makes this client a worker, and returns the plan that the server has. The caller checks who signed it. It is
// called once, before the other methods; after a restart of the server nothing is to be repeated.
func (c *Client) Join(ctx context.Context, j Join) (Joined, Plan, error) {
	reply, _, err := ask[joinReply](ctx, c, "join", &j, nil)
	if err != nil {
		return Joined{}, Plan{}, err
	}
	p := Plan{RunID: reply.RunID, Tasks: reply.Tasks, BaseURL: reply.BaseURL}
	for i, to := range []*[]byte{&p.Manifest, &p.Envelope, &p.Settings} {
		want := reply.Documents[i]
		for int64(len(*to)) < want.Bytes {
			_, piece, err := ask[empty](ctx, c, "document", &documentRequest{Document: i, Key: j.Key, Offset: int64(len(*to))}, nil)
			if err != nil {
				return Joined{}, Plan{}, err
			}
			if *to = append(*to, piece...); len(piece) == 0 || int64(len(*to)) > want.Bytes {
				break
			}
		}
		if !canonical.HasDigest(*to, want.Digest) {
			return Joined{}, Plan{}, errors.New("join: the plan changed while it was read")
		}
	}
	c.key, c.run, c.tasks = j.Key, p.RunID, p.Tasks
	return reply.Joined, p, nil
}

// Append makes the server's copy of this worker's journal as long as to, and returns when that is synced there. The
// server is sent what it does not have, from the offset from or from where its copy ends; note is a signed tree head of
// the journal up to to. The same call again is harmless. A copy that differs from the journal is a [*Refusal].
func (c *Client) Append(ctx context.Context, journal io.ReaderAt, from, to int64, note []byte) error {
	if from < 0 || from > to || len(note) == 0 {
		return fmt.Errorf("append: %w", errBounds)
	}
	for {
		a := Append{Key: c.key, Offset: from}
		a.Lines = make([]byte, min(to-from, MaxChunk))
		if _, err := journal.ReadAt(a.Lines, from); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("append: reading the journal: %w", err)
		}
		end := from + int64(len(a.Lines))
		if end == to {
			a.Note = note
		}
		reply, _, err := ask[appendReply](ctx, c, "append", &a, a.Lines)
		switch {
		case err != nil:
			return err
		case reply.Size >= end && end == to:
			return nil
		case reply.Size > to:
			return fmt.Errorf("append: %w", &Refusal{fmt.Sprintf("the server has %d bytes of the journal, which has %d", reply.Size, to)})
		case reply.Size > from || reply.Size < from:
			from = reply.Size // where the copy ends: behind what was sent, or before it if the copy was shorter
		default:
			return fmt.Errorf("append: %w", &Refusal{fmt.Sprintf("the server's copy stays at %d bytes", reply.Size)})
		}
	}
}

// Permit waits until this worker may send one request to the model.
func (c *Client) Permit(ctx context.Context, tokens int64) error {
	reply, _, err := ask[permitReply](ctx, c, "permit", &Permit{Key: c.key, Tokens: tokens}, nil)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(reply.Microseconds) * time.Microsecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reserve asks whether this worker may have spent and reserved so much of the common budget. Key is filled in. For [Wait]
// the caller asks again, with the next number.
func (c *Client) Reserve(ctx context.Context, m Money) (Grant, error) {
	m.Key = c.key
	reply, _, err := ask[reserveReply](ctx, c, "reserve", &m, nil)
	return reply.Grant, err
}

// Progress reports what this worker is doing, and returns what it is to do. Key is filled in.
func (c *Client) Progress(ctx context.Context, p Progress) (Order, error) {
	p.Key = c.key
	reply, _, err := ask[progressReply](ctx, c, "progress", &p, nil)
	return reply.Order, err
}

// Leave says that this worker takes no more tasks.
func (c *Client) Leave(ctx context.Context, reason string) error {
	_, _, err := ask[empty](ctx, c, "leave", &Leave{Key: c.key, Reason: reason}, nil)
	return err
}

// Task is a task that this worker has, until Done or Return. Meanwhile the server is told that it is being worked on.
type Task struct {
	Place int // in the plan, from 0
	msg   jetstream.Msg
	end   func()
}

// Done takes the task out of the queue, after it was claimed, here or by another worker.
func (t *Task) Done() {
	t.end()
	_ = t.msg.Ack() // if it is lost, the task comes again to a worker that finds its claim
}

// Return gives the task back: another worker gets it at once.
func (t *Task) Return() {
	t.end()
	_ = t.msg.Nak() // if it is lost, another worker gets it when this one is silent
}

// Next returns the next task, when there is one. It takes no task in advance: a worker that is to have n tasks under way
// calls it n times.
func (c *Client) Next(ctx context.Context) (*Task, error) {
	return backoff.Retry(ctx, func() (*Task, error) {
		task, err := c.next(ctx)
		if err != nil {
			c.mu.Lock()
			c.consumer, c.claims = nil, nil
			c.mu.Unlock()
			if !errors.As(err, new(*backoff.PermanentError)) {
				err = c.failed(ctx, err)
			}
		}
		return task, err
	}, patience()...)
}

func (c *Client) next(ctx context.Context) (*Task, error) {
	for {
		tasks, claims, err := c.handles(ctx)
		if err != nil {
			return nil, err
		}
		once, cancel := c.link.try(ctx, 4*tryFor)
		msg, err := tasks.Next(jetstream.FetchContext(once))
		cancel()
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, ctx.Err()
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
			continue // there is none now
		case err != nil:
			return nil, err
		}
		c.said.found()
		var m taskMessage
		if err := decodeValue(msg.Data(), &m); err != nil || m.Task >= c.tasks {
			return nil, backoff.Permanent(fmt.Errorf("%s is no task", msg.Subject()))
		}
		if m.RunID != c.run {
			_ = msg.Nak()
			return nil, backoff.Permanent(fmt.Errorf("the queue is of run %s now, and this worker is of run %s", m.RunID, c.run))
		}
		switch _, err := claims.Get(ctx, strconv.Itoa(m.Task)); {
		case err == nil:
			_ = msg.Ack()
			continue
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			_ = msg.Nak()
			return nil, err
		}
		working, end := context.WithCancel(context.WithoutCancel(ctx)) // the task outlives the call that got it
		go func() {
			for tick := time.NewTicker(tasks.CachedInfo().Config.AckWait / 3); ; {
				select {
				case <-working.Done():
					tick.Stop()
					return
				case <-tick.C:
					_ = msg.InProgress() // while the server is gone, nothing can be told
				}
			}
		}()
		return &Task{Place: m.Task, msg: msg, end: end}, nil
	}
}

// handles returns the queue and the bucket.
func (c *Client) handles(ctx context.Context) (jetstream.Consumer, jetstream.KeyValue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumer == nil || c.claims == nil {
		tasks, err := c.js.Consumer(ctx, c.names.stream(), consumer)
		if err != nil {
			return nil, nil, err
		}
		claims, err := c.js.KeyValue(ctx, c.names.bucket())
		if err != nil {
			return nil, nil, err
		}
		c.consumer, c.claims = tasks, claims
	}
	return c.consumer, c.claims, nil
}

// Claim claims a task for this worker, after Append returned for its lines. If another claim was first, the error is a
// [*ClaimedError], which has it; the same claim again is no error. Key, RunID and Schema are filled in.
func (c *Client) Claim(ctx context.Context, claim Claim) error {
	claim.Key, claim.RunID, claim.Schema = c.key, c.run, schema
	if err := claim.check(); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	value, err := canonical.Encode(claim)
	if err != nil {
		return err
	}
	key := strconv.Itoa(claim.Task)
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		_, claims, err := c.handles(ctx)
		if err != nil {
			return struct{}{}, c.failed(ctx, err)
		}
		once, cancel := c.link.try(ctx, tryFor)
		defer cancel()
		_, err = claims.Create(once, key, value)
		if err == nil {
			c.said.found()
			return struct{}{}, nil
		}
		// Another claim is there, or this one and its reply was lost, or the server is gone.
		entry, getErr := claims.Get(once, key)
		if getErr != nil {
			c.mu.Lock()
			c.consumer, c.claims = nil, nil
			c.mu.Unlock()
			return struct{}{}, c.failed(ctx, err)
		}
		c.said.found()
		if bytes.Equal(entry.Value(), value) {
			return struct{}{}, nil
		}
		first, decodeErr := decodeClaim(entry.Value())
		if decodeErr != nil {
			return struct{}{}, decodeErr // the server removes it
		}
		return struct{}{}, backoff.Permanent(&ClaimedError{first})
	}, patience()...)
	if err != nil {
		err = fmt.Errorf("claim of task %d: %w", claim.Task, err)
	}
	return err
}
