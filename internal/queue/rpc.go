package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// Requests that are answered at the same time, and those of one sender. On a server without NKeys all workers are one.
const (
	maxCalls   = 256
	maxCallsOf = 32
)

// maxRecent bounds the permits that are remembered, for requests that come again because the reply was lost.
const maxRecent = 1 << 13

// errAgain makes a sender ask again.
var errAgain = errors.New("the server is busy")

// dispatcher answers requests.
type dispatcher struct {
	s    *Server
	docs [3][]byte
	ops  map[string]operation

	mu     sync.Mutex
	calls  map[string]int // that are being answered, of each sender
	all    int
	owners map[string]string // sender of each key
	recent map[string]*permitted
	order  []string // of recent, the oldest first
}

type permitted struct {
	done  chan struct{}
	reply any
	err   error
}

// operation reads the value of a request and answers it.
type operation func(ctx context.Context, h Handler, by, id string, value, body []byte) (reply any, raw []byte, err error)

// request is a message that names the key of its worker.
type request interface {
	message
	from() string
}

func (j *Join) from() string            { return j.Key }
func (a *Append) from() string          { return a.Key }
func (p *Permit) from() string          { return p.Key }
func (m *Money) from() string           { return m.Key }
func (p *Progress) from() string        { return p.Key }
func (l *Leave) from() string           { return l.Key }
func (r *documentRequest) from() string { return r.Key }

// operate makes an operation of a function for one type of request.
func operate[T any, P interface {
	*T
	request
}](d *dispatcher, f func(ctx context.Context, h Handler, request T, body []byte) (any, []byte, error)) operation {
	return func(ctx context.Context, h Handler, by, _ string, value, body []byte) (any, []byte, error) {
		var r T
		if err := decodeValue(value, P(&r)); err != nil {
			return nil, nil, &Refusal{err.Error()}
		}
		if err := d.own(P(&r).from(), by); err != nil {
			return nil, nil, err
		}
		return f(ctx, h, r, body)
	}
}

func newDispatcher(s *Server) *dispatcher {
	p := s.options.Plan
	d := &dispatcher{s: s, docs: [3][]byte{p.Manifest, p.Envelope, p.Settings}, calls: map[string]int{}, owners: map[string]string{}, recent: map[string]*permitted{}}
	permit := operate(d, func(ctx context.Context, h Handler, p Permit, _ []byte) (any, []byte, error) {
		wait, err := h.Permit(ctx, p)
		return permitReply{wait.Microseconds()}, nil, err
	})
	d.ops = map[string]operation{
		"join": operate(d, func(ctx context.Context, h Handler, j Join, _ []byte) (any, []byte, error) {
			joined, err := h.Join(ctx, j)
			reply := joinReply{BaseURL: p.BaseURL, Joined: joined, RunID: p.RunID, Tasks: p.Tasks}
			for _, doc := range d.docs {
				reply.Documents = append(reply.Documents, document{int64(len(doc)), canonical.Digest(doc)})
			}
			return reply, nil, err
		}),
		"document": operate(d, func(_ context.Context, _ Handler, r documentRequest, _ []byte) (any, []byte, error) {
			doc := d.docs[r.Document]
			if r.Offset > int64(len(doc)) {
				return nil, nil, &Refusal{errBounds.Error()}
			}
			return empty{}, doc[r.Offset:min(r.Offset+MaxChunk, int64(len(doc)))], nil
		}),
		"append": operate(d, func(ctx context.Context, h Handler, a Append, body []byte) (any, []byte, error) {
			a.Lines = body
			size, err := h.Append(ctx, a)
			return appendReply{size}, nil, err
		}),
		"permit": func(ctx context.Context, h Handler, by, id string, value, body []byte) (any, []byte, error) {
			return d.once(ctx, by+" "+id, func() (any, []byte, error) { return permit(ctx, h, by, id, value, body) })
		},
		"reserve": operate(d, func(ctx context.Context, h Handler, m Money, _ []byte) (any, []byte, error) {
			grant, err := h.Reserve(ctx, m)
			return reserveReply{grant}, nil, err
		}),
		"progress": operate(d, func(ctx context.Context, h Handler, p Progress, _ []byte) (any, []byte, error) {
			order, err := h.Progress(ctx, p)
			return progressReply{order}, nil, err
		}),
		"leave": operate(d, func(ctx context.Context, h Handler, l Leave, _ []byte) (any, []byte, error) {
			return empty{}, nil, h.Leave(ctx, l)
		}),
	}
	return d
}

// own lets a sender use a key that no other one has used.
func (d *dispatcher) own(key, by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch owner, known := d.owners[key]; {
	case known && owner != by:
		return &Refusal{"the key is of another worker"}
	case !known && len(d.owners) >= MaxWorkers:
		return &Refusal{fmt.Sprintf("there were %d workers already", MaxWorkers)}
	}
	d.owners[key] = by
	return nil
}

// once answers a request that comes again as it was answered first.
func (d *dispatcher) once(ctx context.Context, id string, answer func() (any, []byte, error)) (any, []byte, error) {
	d.mu.Lock()
	first, known := d.recent[id]
	if !known {
		first = &permitted{done: make(chan struct{})}
		d.recent[id] = first
		if d.order = append(d.order, id); len(d.order) > maxRecent {
			delete(d.recent, d.order[0])
			d.order = d.order[1:]
		}
	}
	d.mu.Unlock()
	if !known {
		first.reply, _, first.err = answer()
		close(first.done)
	}
	select {
	case <-first.done:
		return first.reply, nil, first.err
	case <-ctx.Done():
		return nil, nil, errAgain
	}
}

// start answers requests until ctx ends or stop is called; stop waits for those that are being answered.
func (d *dispatcher) start(ctx context.Context, h Handler) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	sub, err := d.s.conn.Subscribe(d.s.names.rpc("*", "*"), func(m *nats.Msg) {
		parts := strings.Split(m.Subject, ".")
		op, by := parts[len(parts)-2], parts[len(parts)-1]
		if !d.enter(by) {
			d.reply(m, nil, nil, errAgain)
			return
		}
		running.Go(func() {
			defer d.exit(by)
			reply, raw, err := d.answer(ctx, h, op, by, m.Data)
			d.reply(m, reply, raw, err)
		})
	})
	if err == nil {
		err = sub.SetPendingLimits(1<<13, 64<<20)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return func() {
		_ = sub.Unsubscribe()
		cancel()
		running.Wait()
	}, nil
}

func (d *dispatcher) answer(ctx context.Context, h Handler, op, by string, data []byte) (any, []byte, error) {
	head, value, body, ok := cutFrame(data)
	var c call
	operation := d.ops[op]
	if !ok || operation == nil || decodeValue(head, &c) != nil || len(body) > 0 && op != "append" {
		return nil, nil, &Refusal{"the request is not one of this version of gaia"}
	}
	return operation(ctx, h, by, c.ID, value, body)
}

func (d *dispatcher) enter(by string) bool {
	most := maxCallsOf
	if by == local {
		most = maxCalls
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= maxCalls || d.calls[by] >= most {
		return false
	}
	d.all++
	d.calls[by]++
	return true
}

func (d *dispatcher) exit(by string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.calls[by]--; d.calls[by] == 0 {
		delete(d.calls, by)
	}
}

// reply sends an answer. What goes wrong with it, the sender sees as no answer, and asks again.
func (d *dispatcher) reply(m *nats.Msg, value any, raw []byte, err error) {
	r := result{Schema: schema, Status: statusOK}
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		r.Status, r.Error = statusRefused, strings.ToValidUTF8(refusal.Reason[:min(len(refusal.Reason), maxText/4)], "")
	case err != nil:
		r.Status = statusAgain // the reason may hold paths of the server
	}
	if err != nil {
		value, raw = empty{}, nil
		if !errors.Is(err, errAgain) && refusal == nil && !errors.Is(err, context.Canceled) {
			d.s.options.Log(fmt.Sprintf("a request of a worker: %v", err))
		}
	}
	data, err := encodeFrame(r, value, raw)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil && !errors.Is(err, nats.ErrMsgNoReply) && !errors.Is(err, nats.ErrConnectionClosed) {
		d.s.options.Log(fmt.Sprintf("a reply to a worker: %v", err))
	}
}
