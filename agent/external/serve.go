package external

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/intercept"
	"github.com/gaia-harness/gaia/internal/pending"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/net/netutil"
)

// Bounds on what an agent's connections may take.
const (
	maxConnections = 512
	maxHeader      = 64 << 10 // bytes
	headerTime     = 30 * time.Second
	idleTime       = 5 * time.Minute
)

// server is what an agent can reach in one attempt.
type server struct {
	socket string // path of the Unix socket; "" where it listens on a loopback port
	url    string // as the agent reaches it
	proxy  *proxy.Proxy
	tools  *toolServer // nil: the agent has its own
	http   *http.Server
	dir    string // of the sockets

	network struct { // recorded; all of it is nil or "" where the plan has none
		socket    string
		authority []byte // its certificate, in PEM
		proxy     *intercept.Proxy
		http      *http.Server
	}
}

// serve begins to serve the model and the tools. fail ends the agent where recording fails; when ctx ends, calls under way
// end, too.
func (a Agent) serve(ctx context.Context, fail context.CancelCauseFunc, session *tools.Session, rec *trajectory.Attempt) (*server, error) {
	s, l, prefix, err := a.listen()
	if err != nil {
		return nil, fmt.Errorf("serving the agent: %w", err)
	}
	var names []string
	if a.Plan.Tools == plan.AgentToolsGate {
		for _, spec := range session.Specs() {
			names = append(names, spec.Name)
		}
	}
	turns, replies := proxy.NewTurns(rec), &pending.Set{}
	s.proxy = proxy.New(ctx, a.Proxy, proxy.Attempt{Rec: rec, Tools: names, Turns: turns, Session: session, Money: a.Money, Full: a.Bodies,
		Pending: replies, Origins: a.Origins, Passages: a.Passages, Probe: a.Probe})
	if a.Plan.Tools == plan.AgentToolsGate {
		s.tools = newToolServer(ctx, a, session, rec, turns, replies)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if err := s.notRecorded(); err != nil {
				fail(err)
			}
		}()
		if s.tools == nil || !s.tools.serve(w, r, s.proxy) {
			s.proxy.ServeHTTP(w, r)
		}
	})
	s.http = begin(l, http.StripPrefix(prefix, handler))
	if a.Plan.Network == plan.NetworkRecord {
		if err := a.serveNetwork(ctx, s, fail, session, rec, replies); err != nil {
			return nil, errors.Join(fmt.Errorf("serving the agent's network: %w", err), s.close())
		}
	}
	return s, nil
}

// begin serves HTTP.
func begin(l net.Listener, h http.Handler) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(netutil.LimitListener(l, maxConnections)) }()
	return server
}

// serveNetwork begins to serve the recorded network.
func (a Agent) serveNetwork(ctx context.Context, s *server, fail context.CancelCauseFunc, session *tools.Session, rec *trajectory.Attempt, replies *pending.Set) (err error) {
	c, n := a.Network, &s.network
	c.Guard = cmp.Or(c.Guard, guard.New(nil, ""))
	if c.Authority, err = intercept.NewAuthority(a.Now()); err != nil {
		return err
	}
	n.socket = filepath.Join(s.dir, "n")
	l, err := net.Listen("unix", n.socket)
	if err != nil {
		return err
	}
	c.Now, c.Dir, n.authority = a.Now, s.dir, c.Authority.PEM()
	n.proxy = intercept.New(ctx, c, intercept.Attempt{Rec: rec, Decide: session.DecideURL, Probe: a.Probe, Pending: replies, Origins: a.Origins, Full: a.Bodies})
	n.http = begin(l, n.proxy)
	go func() { // recording may fail when no request is handled
		<-n.proxy.Done()
		if err := n.proxy.Err(); err != nil {
			fail(err)
		}
	}()
	return nil
}

// listen opens the socket of an attempt. An agent with this machine's network reaches a loopback port, under a path that no
// one else knows.
func (a Agent) listen() (s *server, l net.Listener, prefix string, err error) {
	if a.Sandbox == nil || a.Plan.Network == plan.NetworkHost {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, "", err
		}
		prefix = "/" + rand.Text()
		return &server{url: "http://" + l.Addr().String() + prefix}, l, prefix, nil
	}
	s = &server{url: "http://" + sandbox.AgentAddress}
	if s.dir, err = os.MkdirTemp(a.SocketDir, "s"); err != nil {
		return nil, nil, "", err
	}
	s.socket = filepath.Join(s.dir, "s")
	if len(s.socket) > maxSocket {
		err = fmt.Errorf("the path of the socket, %q, is longer than %d bytes: set TMPDIR to a shorter one", s.socket, maxSocket)
	} else {
		l, err = net.Listen("unix", s.socket)
	}
	if err != nil {
		_ = os.RemoveAll(s.dir)
		return nil, nil, "", err
	}
	return s, l, "", nil
}

// close refuses further calls and returns when those under way are recorded, with why recording failed.
func (s *server) close() error {
	if s.tools != nil {
		// Refuse new calls, and cut off those that run.
		s.tools.mu.Lock()
		s.tools.closed = true
		s.tools.mu.Unlock()
		s.tools.end()
	}
	_ = s.http.Close()
	if s.network.proxy != nil {
		_ = s.network.http.Close()
		s.network.proxy.Close()
	}
	s.proxy.Close()
	if s.tools != nil {
		s.tools.running.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	return s.notRecorded()
}

// notRecorded returns why recording failed.
func (s *server) notRecorded() error {
	err := s.proxy.Err()
	if err == nil && s.network.proxy != nil {
		err = s.network.proxy.Err()
	}
	if err == nil && s.tools != nil {
		err = s.tools.notRecorded()
	}
	return err
}

// fault returns the failure of the last model call or the last tool call, if it says nothing about the task.
func (s *server) fault() error {
	if failed := s.proxy.Failed(); failed != nil {
		return failed
	}
	if s.tools != nil {
		return s.tools.lastFault()
	}
	return nil
}
