package intercept

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// reply is what came back.
type reply struct {
	status  int // 0: nothing came
	header  http.Header
	trailer http.Header
	bytes   int64
	sha256  string
	body    *spool   // as it came; nil: there is none
	failed  *refusal // why it is not whole; nil: it is
}

const copyBytes = 32 << 10

// part is some of a body; err is what ended it.
type part struct {
	data []byte
	err  error
}

// parts reads a body ahead by one part. It gives the buffers of parts back to the reader by free.
func parts(ctx context.Context, body io.Reader) (next <-chan part, free chan<- []byte) {
	parts, buffers := make(chan part), make(chan []byte, 2)
	buffers <- make([]byte, copyBytes)
	buffers <- make([]byte, copyBytes)
	go func() {
		for {
			var b []byte
			select {
			case b = <-buffers:
			case <-ctx.Done():
				return
			}
			n, err := body.Read(b[:copyBytes])
			select {
			case parts <- part{b[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return parts, buffers
}

// copy passes a reply on as it comes, but for its end, which is held until the exchange is recorded. cut ends ctx, with which the
// reply comes.
func (x *exchange) copy(ctx context.Context, cut func(), r reply, res *http.Response) {
	// What invites to QUIC would lead past the proxy.
	maps.Copy(x.w.Header(), withoutHops(res.Header, "Alt-Svc", "Alternate-Protocol"))
	if x.request.Method == http.MethodHead || r.status == http.StatusNoContent || r.status == http.StatusNotModified || res.ContentLength == 0 {
		x.complete(r)
		x.w.WriteHeader(r.status)
		return
	}
	if r := x.request; res.ContentLength < 0 || len(res.Trailer) > 0 && r.ProtoMajor == 1 && r.ProtoMinor > 0 { // trailers follow chunks
		x.w.Header().Del("Content-Length")
	}
	r.body = &spool{proxy: x.Proxy}
	defer r.body.drop()
	coming := x.attempt.Pending.Reply()
	defer coming.Recorded()
	events := strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream")
	x.w.WriteHeader(r.status)
	next, free := parts(ctx, res.Body)
	var held []byte // came last, and is not passed on
	release := func(flush bool) {
		coming.Came(events && held != nil) // once: there are streams that last as long as the attempt
		events = events && held == nil
		_ = x.rc.SetWriteDeadline(time.Now().Add(x.bounds.write))
		_, err := x.w.Write(held)
		if err == nil && flush {
			err = x.rc.Flush()
		}
		if held != nil {
			free <- held
			held = nil
		}
		if err != nil {
			x.gone = true
			cut()
		}
	}
	timer := time.NewTimer(x.bounds.hold)
	defer timer.Stop()
	quiet := timer.C
	if !x.request.ProtoAtLeast(1, 1) { // the end is that of the connection, and a cut looks like it
		quiet = nil
	}
	hash := sha256.New()
	for ended := false; !ended; {
		select {
		case p := <-next:
			if len(p.data) > 0 || p.err == nil {
				release(false)
				held = p.data
			}
			hash.Write(p.data)
			r.body.write(p.data)
			r.bytes += int64(len(p.data))
			switch {
			case r.bytes > x.bounds.reply:
				r.failed, ended = x.tooLarge(), true
			case errors.Is(p.err, io.EOF):
				r.trailer, ended = res.Trailer, true // nothing else may be read: its reader writes it
			case p.err != nil:
				r.failed, ended = x.failure(p.err, true), true
			}
			timer.Reset(x.bounds.hold)
		case <-quiet:
			if r.bytes != res.ContentLength {
				release(true)
			}
		case <-ctx.Done():
			r.failed, ended = x.failure(ctx.Err(), true), true
		}
	}
	cut()
	coming.Came(r.failed != nil) // it has all but what is held
	if r.bytes > 0 {
		r.sha256 = canonical.DigestOf(hash)
	}
	x.complete(r)
	coming.Recorded()
	if r.failed != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range withoutHops(r.trailer) {
		x.w.Header()[http.TrailerPrefix+name] = values
	}
	release(true)
	_ = x.rc.SetWriteDeadline(time.Time{})
}

// complete records how an exchange ended.
func (x *exchange) complete(r reply) {
	rec := x.attempt.Rec
	done := trajectory.ExchangeCompleted{Bytes: r.bytes, LatencyMs: max(x.Now().Sub(x.sent).Milliseconds(), 0), Number: x.number, SHA256: r.sha256, Status: r.status}
	if r.status != 0 {
		done.ContentType = rec.Redact.Label(r.header.Get("Content-Type"))
		x.examine(r, &done)
	}
	if r.failed != nil {
		done.Error = r.failed.code
	}
	if err := rec.Append(0, done); err != nil {
		x.notRecorded(err)
	}
	if r.failed == notPublic {
		x.record(notPublic)
	}
}
