// Package intercept is the recorded network of one attempt of an own agent: an HTTP proxy that ends TLS, decides on each request,
// records it and its reply, and passes both on.
//
// A [Proxy] takes requests with whole addresses, and CONNECT for tunnels in which TLS or plain HTTP is spoken. A tunnel leads
// nowhere: its client is answered with a certificate of the [Authority], over HTTP/1.1 or HTTP/2, and each request in it is a
// separate exchange. It promises:
//
//   - A request is durable in the journal before a name is resolved for it. The end of its reply is held until the exchange is
//     durable, too: where the length is known, the last bytes; else the end of the body, and the last bytes unless nothing
//     came for a moment, as in streams.
//   - A request is recorded after the replies on which the agent may have acted before their end, within bounds (package pending).
//     Of those here it may in a stream of events, and where it hangs up. A stream that goes on is waited for once.
//   - What cannot be recorded does not happen: where recording fails each connection is cut without a well-formed end,
//     [Proxy.Err] returns why, and everything after is refused.
//   - The Gate decides on the whole address of each request, as it is sent. A request for another host than that of its tunnel
//     is refused. Addresses that are not public are refused, whatever a name resolves to; where only that shows it, the
//     exchange is completed with the code private_address, and the refusal recorded as well.
//   - A request that is not passed on is a request_refused event. So are tunnels of clients that do not accept the authority, and
//     tunnels with something that is not HTTP. WebSocket and other upgrades are refused, and what invites to QUIC is taken away.
//   - Bodies pass byte for byte. Of a request's header, what is for proxies goes, and of Accept-Encoding what could not be
//     decoded here. Of the values of headers only Content-Type is recorded; addresses and heads are, but for secrets.
//   - The reply is decoded, unpacked and probed as a whole, with its header, and added to the origins of the attempt. What of it
//     is not, is counted as unprobed: bytes beyond the bounds, and all where something in it is locked or damaged. Pictures,
//     sound and video are told, and what is packed or encrypted in an unknown way is counted. Full evidence keeps the text of a reply decoded, where it has at most 8 MiB.
//   - Bodies take a bounded memory and time: the few that are large, decoded or unpacked, are looked through one or two at once in
//     the process, each for 20 seconds, and for 5 seconds after the end of the attempt. A request that takes longer is refused.
//   - What the agent asks with is its own, unless something explains it that the agent was given: address, header and body of a
//     request are probed for themselves, and their echo witnesses nothing. The reply
//     to a request that says more than 1 MiB is no origin.
//   - Nothing is sent twice, but for what net/http repeats: a request without a body on a connection that the server had closed.
//   - No text of an error comes from a server: what the agent is told depends on codes that are recorded.
//
// TestFaults, TestRecordingFails, TestRefusals, TestHangUp, TestHeavy, TestLookEnds and TestLargeBodies try that over sockets.
package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/pending"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/semaphore"
)

// Bounds of an attempt.
const (
	MostExchanges = 10_000
	MaxHeader     = 64 << 10 // bytes, of a request in a tunnel and of a reply
	MaxAddress    = 8 << 10  // bytes
	MaxRequest    = 32 << 20 // bytes of its body
	MaxReply      = 1 << 30  // bytes of its body, as they come

	mostAtOnce  = 64       // exchanges; others wait
	mostWaiting = 256      // others are refused
	maxBodies   = 64 << 20 // bytes of requests whose exchanges are under way; others wait
)

// How long things may take.
const (
	handshakeTime = 10 * time.Second // until a tunnel has what shows what is spoken in it, and for TLS
	headerTime    = 30 * time.Second // the header of a request in a tunnel
	idleTime      = 5 * time.Minute  // between two requests in a tunnel
	bodyTime      = time.Minute      // the body of a request, which comes from the same machine
	replyTime     = 5 * time.Minute  // until a reply begins
	writeTime     = 2 * time.Minute  // until the agent takes some of a reply
	holdTime      = 10 * time.Millisecond
	lookTime      = 20 * time.Second // the look through one body
	lateTime      = 5 * time.Second  // the looks that are under way at the end of the attempt
)

// Config says how the network is reached. The attempts of a run share one.
type Config struct {
	Authority *Authority
	Guard     *guard.Guard
	Roots     *x509.CertPool // that sign the certificates of servers; nil: those of the system
	Now       func() time.Time
	Dir       string // for replies that are too large for memory, in files without a name; "": the usual folder for temporary files
}

// Prober looks for signs of a leak in a document that a request brought in.
type Prober interface {
	Probe(document, args string, urls []string) trajectory.Probes
}

// Attempt is what the proxy records to and asks.
type Attempt struct {
	Rec     *trajectory.Attempt
	Decide  func(url string) policy.Decision // of tools.Session
	Probe   Prober                           // nil: the evidence has no probes
	Pending *pending.Set                     // replies of the attempt that are not recorded yet; nil: those of the proxy alone
	Origins *origin.Index                    // nil: none are kept
	Full    bool                             // the log keeps bodies: keep those of exchanges as well
}

// Proxy is an http.Handler of one attempt, for requests with whole addresses and CONNECT.
type Proxy struct {
	Config
	attempt Attempt
	bounds  bounds

	ctx       context.Context // ends what is under way
	cut       context.CancelFunc
	running   sync.WaitGroup // requests and handshakes
	slots     chan struct{}
	bodies    *semaphore.Weighted
	late      context.Context // ends some time after ctx: what is not looked through then is not at all
	waiting   atomic.Int32    // requests that wait for a slot
	transport http.RoundTripper
	idle      *http.Transport // below transport
	tunnels   *listener
	inner     *http.Server // of the requests in tunnels

	mu     sync.Mutex
	closed bool
	err    error // why recording failed
	number int   // of the last exchange
}

// bounds are those that tests make smaller.
type bounds struct {
	exchanges                      int
	request, reply, probed, spools int64
	hold, handshake, body, write   time.Duration
	look, late                     time.Duration
}

// New returns the proxy of one attempt. When ctx ends, what is under way is cut.
func New(ctx context.Context, c Config, a Attempt) *Proxy {
	if a.Pending == nil {
		a.Pending = &pending.Set{}
	}
	p := &Proxy{Config: c, attempt: a, slots: make(chan struct{}, mostAtOnce), bodies: semaphore.NewWeighted(maxBodies),
		bounds: bounds{MostExchanges, MaxRequest, MaxReply, maxProbed, maxSpools, holdTime, handshakeTime, bodyTime, writeTime, lookTime, lateTime}}
	p.ctx, p.cut = context.WithCancel(ctx)
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	p.late = late
	context.AfterFunc(p.ctx, func() { time.AfterFunc(p.bounds.late, end) })
	p.idle = c.Guard.Transport()
	p.idle.MaxIdleConns, p.idle.MaxIdleConnsPerHost = mostAtOnce, mostAtOnce
	p.idle.MaxResponseHeaderBytes, p.idle.ResponseHeaderTimeout = MaxHeader, replyTime
	p.idle.DisableCompression = true
	p.idle.TLSClientConfig = &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}
	p.transport = transport.Guard(p.idle)
	p.tunnels = &listener{conns: make(chan net.Conn), ctx: p.ctx}
	p.inner = &http.Server{
		Handler: http.HandlerFunc(p.serveTunnel), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader,
		ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostAtOnce}, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, tunnelKey{}, c)
		}}
	go func() { _ = p.inner.Serve(p.tunnels) }()
	context.AfterFunc(p.ctx, func() { _ = p.inner.Close() })
	return p
}

// Close cuts what is under way, refuses everything after, and returns when all exchanges are recorded.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cut()
	p.running.Wait()
	p.idle.CloseIdleConnections()
}

// Done is closed once nothing is passed on any more: after Close, at the end of the context, and where recording failed.
func (p *Proxy) Done() <-chan struct{} { return p.ctx.Done() }

// Err returns why recording failed, nil while it works. It matches trajectory.ErrNotRecorded.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// enter counts a request that is handled. It returns false once no more are.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil || p.ctx.Err() != nil {
		return false
	}
	p.running.Add(1)
	return true
}

// notRecorded ends everything, and the connection of the request that found it.
func (p *Proxy) notRecorded(err error) {
	if !errors.Is(err, trajectory.ErrNotRecorded) {
		err = fmt.Errorf("%w: %w", trajectory.ErrNotRecorded, err)
	}
	p.mu.Lock()
	p.err = cmp.Or(p.err, err)
	p.mu.Unlock()
	p.cut()
	panic(http.ErrAbortHandler)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	p.serve(w, r, nil)
}

// serveTunnel takes a request in a tunnel.
func (p *Proxy) serveTunnel(w http.ResponseWriter, r *http.Request) {
	t, _ := r.Context().Value(tunnelKey{}).(*tunnel)
	p.serve(w, r, t)
}

// serve takes a request; in is the tunnel that it comes through, nil for none.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, in *tunnel) {
	x := &exchange{Proxy: p, w: w, rc: http.NewResponseController(w), request: r}
	if !p.enter() {
		_ = x.rc.SetReadDeadline(time.Unix(1, 0)) // or the server would wait for the rest of its body
		panic(http.ErrAbortHandler)
	}
	defer p.running.Done()
	defer context.AfterFunc(p.ctx, func() { // what waits for the agent
		_ = x.rc.SetReadDeadline(time.Unix(1, 0))
		_ = x.rc.SetWriteDeadline(time.Unix(1, 0))
	})()
	if refused := x.handle(in); refused != nil {
		x.refuse(refused)
	}
}
