package intercept

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// tunnel is the connection of a CONNECT.
type tunnel struct {
	net.Conn
	in     *bufio.Reader
	target target
}

type tunnelKey struct{}

// Read implements net.Conn. What came with the CONNECT is read first.
func (t *tunnel) Read(b []byte) (int, error) { return t.in.Read(b) }

// listener accepts tunnels.
type listener struct {
	conns chan net.Conn
	ctx   context.Context
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "tunnel", Net: "unix"} }

// connect begins a tunnel. No name is resolved and nothing is connected to: that is done for each request in it.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.running.Done()
	x := &exchange{Proxy: p, w: w, rc: http.NewResponseController(w), request: r, shown: r.Host}
	to, ok := parseTarget("https", r.Host)
	if !ok || r.URL.User != nil || r.URL.Host != r.Host || to.explicit == "" {
		x.refuse(&refusal{http.StatusBadRequest, codeBadAddress, "CONNECT takes the name or address of a host, and a port: CONNECT example.org:443", nil})
		return
	}
	if err := p.Guard.Check(to.dialled()); err != nil {
		x.refuse(notPublic)
		return
	}
	conn, buffered, err := x.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	t := &tunnel{conn, buffered.Reader, to}
	kept := false
	defer func() {
		if !kept {
			_ = conn.Close()
		}
	}()
	defer context.AfterFunc(p.ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(p.bounds.handshake))
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	first, err := t.in.Peek(1)
	if len(first) == 0 {
		if errors.Is(err, io.EOF) || p.ctx.Err() != nil { // it was not used
			return
		}
		x.record(notHTTP)
		return
	}
	inner := net.Conn(t)
	switch {
	case first[0] == recordOfHandshake:
		config, err := p.Authority.config(to.host)
		if err != nil {
			x.record(notHTTP)
			return
		}
		secure := tls.Server(t, config)
		if err := secure.HandshakeContext(p.ctx); err != nil {
			if p.ctx.Err() == nil {
				x.record(tlsRefused)
			}
			return
		}
		inner = secure
	case t.speaksHTTP():
		t.target, _ = parseTarget("http", r.Host)
	default:
		x.record(notHTTP)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	select {
	case p.tunnels.conns <- inner:
		kept = true
	case <-p.ctx.Done():
	}
}

// recordOfHandshake is the first byte of TLS.
const recordOfHandshake = 0x16

// plainMethods are those of requests in a tunnel without TLS.
var plainMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// speaksHTTP reports whether a tunnel begins with a request.
func (t *tunnel) speaksHTTP() bool {
	const longest = len("OPTIONS ")
	begin, _ := t.in.Peek(longest)
	method, _, found := strings.Cut(string(begin), " ")
	return found && slices.Contains(plainMethods, method)
}
