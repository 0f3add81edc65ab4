package external

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	dir    string // of the socket
}

// serve begins to serve the model and the tools. fail ends the agent where recording fails; when ctx ends, calls under way
// end, too.
func (a Agent) serve(ctx context.Context, fail context.CancelCauseFunc, session *tools.Session, rec *trajectory.Attempt) (*server, error) {
	s, l, prefix, err := a.listen()
	if err != nil {
		return nil, fmt.Errorf("serving the agent: %w", err)
	}
	turns := proxy.NewTurns(rec)
	s.proxy = proxy.New(ctx, a.Proxy, proxy.Attempt{Rec: rec, Turns: turns, Session: session, Money: a.Money, Full: a.Bodies,
		Origins: a.Origins, Passages: a.Passages, Probe: a.Probe})
	if a.Plan.Tools == plan.AgentToolsGate {
		s.tools = newToolServer(ctx, a, session, rec, turns)
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
	s.http = &http.Server{Handler: http.StripPrefix(prefix, handler), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.http.Serve(netutil.LimitListener(l, maxConnections)) }()
	return s, nil
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
		s.tools.close()
	}
	_ = s.http.Close()
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

// toolName returns the tool that the path of a request names, "" if it names none.
func toolName(path string) string {
	name, found := strings.CutPrefix(path, toolsPath+"/")
	if !found {
		return ""
	}
	return name
}
