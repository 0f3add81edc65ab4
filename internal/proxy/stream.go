package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
)

// stream passes the events of a reply on as they come, up to the first that an agent may act on, and to the one that ends it. What
// comes from there on is held until the reply is recorded.
func (c *call) stream(r reply, body io.Reader, to Upstream, cut func()) {
	c.out.open(r.header)
	in := events{r: bufio.NewReaderSize(body, 16<<10)}
	parser, hash := llm.NewStream(c.dialect, slices.Contains(c.edits, llm.EditUsage)), sha256.New()
	r.streamed = true
	for {
		event, err := in.next(c.maxReply - r.bytes)
		hash.Write(event)
		r.bytes += int64(len(event))
		if c.attempt.Full {
			r.kept = append(r.kept, event...)
		}
		if len(event) > 0 {
			pass, last := parser.Next(to.hide(event))
			if c.pending.Came(false); last {
				r.held, r.last = append(r.held, pass...), true
				break
			}
			switch {
			case errors.Is(err, errTooLong):
			case len(r.held) > 0 || parser.Usable():
				r.held = append(r.held, pass...)
			default:
				c.out.event(pass)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if r.failed = c.transportFailed(err); errors.Is(err, errTooLong) {
				r.failed = c.tooLong(r.status)
			}
			break
		}
	}
	r.sha256, r.partial, r.body = canonical.DigestOf(hash), parser.Partial(), parser.Body()
	c.complete(r, to)
	if r.last { // the end of the body, so that the connection can be used again
		defer time.AfterFunc(maxRest, cut).Stop()
		_, _ = io.CopyN(io.Discard, in.r, maxRestBytes)
	}
}

// What is read after the last event.
const (
	maxRest      = 50 * time.Millisecond
	maxRestBytes = 4 << 10
)

var errTooLong = errors.New("the stream is too long")

// events parts a body into server-sent events.
type events struct {
	r   *bufio.Reader
	buf []byte
}

// next returns the next event with the blank line that ends it, as it came; it is valid until the call after. With an
// error it returns what came before that. An event and what is read ahead of it stay below most bytes.
func (e *events) next(most int64) ([]byte, error) {
	e.buf = e.buf[:0]
	start := 0 // of the line
	for {
		part, err := e.r.ReadSlice('\n')
		if int64(len(e.buf)+len(part)) > most {
			return e.buf, errTooLong
		}
		e.buf = append(e.buf, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return e.buf, err
		}
		line := bytes.TrimRight(e.buf[start:], "\r\n")
		if len(line) == 0 {
			return e.buf, nil
		}
		start = len(e.buf)
	}
}
