// Package viewer serves the pages of runs to a browser on this machine.
//
// Only who has the address that the program printed sees anything. Its token is used once, for a cookie that only this
// browser has. The Host header is checked first, so that no page of the web can reach the server under a name of its
// choice; a refused request does not use the token up. No route changes a run: only GET and HEAD are answered, and ids
// and digests are looked up, never used as paths.
//
// A run that is shown is followed as its journal grows. Viewers share one reader, which is dropped when it was idle for
// a while, or when too many runs are open. When a run is complete it is verified and audited once, in the background.
package viewer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/visible"
	"golang.org/x/net/netutil"
)

// Config is what a server shows, and where.
type Config struct {
	// Runs lists the runs and packages that there are, in the order of the list. Dir is the place of each. It is called
	// at most once a second, and only while someone looks. The server sets Path.
	Runs func() ([]page.RunRow, error)

	// First is the place of the run that the printed address leads to; "": it leads to the list.
	First string

	// History returns the page of what many runs did, without its paths. Nil: there is none.
	History func() (page.History, error)

	// Gold returns the expected answers of the run at a place, by task id. Nil: no page shows one.
	Gold func(place string) (map[string]string, error)

	Verify verify.Env                    // verifies and audits
	Trust  func() (keyring.Trust, error) // whom the user trusts

	// Listen is the address that the user named, as host:port. "": 127.0.0.1 and a free port. Only an address that was
	// named may be one that other machines reach.
	Listen    string
	Cert, Key string // files in PEM for TLS; "": HTTP

	// Control is the folder, of this user alone, in which a running server leaves the address for NewAddresses. "": none.
	Control string

	Program string // and its version, for the foot of pages

	Log func(string) // given what went wrong in the server, one line each; nil: not reported
}

// Bounds of a server.
const (
	maxConnections = 128
	maxHeader      = 16 << 10 // bytes
	headerTime     = 5 * time.Second
	requestTime    = 60 * time.Second // to answer, other than with a stream
	idleTime       = 60 * time.Second
	graceTime      = 400 * time.Millisecond // for answers under way at the end
)

// Server is a viewer of runs. Its methods may be used by several goroutines.
type Server struct {
	c       Config
	door    door
	runs    runSet
	streams streams
	tls     *tls.Config
	bound   net.Listener // whose names the door answers to

	ctx    context.Context // ends with the server
	cancel context.CancelFunc
	group  sync.WaitGroup // of readers, the background job and the janitor
}

// New returns a server for c. It reads the files of TLS.
func New(c Config) (*Server, error) {
	s := &Server{c: c}
	if c.Log == nil {
		s.c.Log = func(string) {}
	}
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return nil, exit.Usagef("give both, or neither", "TLS needs the file of the certificate and that of its key")
	case c.Cert != "":
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, exit.Usagef("both are files in PEM", "reading the certificate %q and its key: %v", c.Cert, err)
		}
		s.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.runs.s, s.runs.jobs = s, make(chan struct{}, 1)
	s.runs.known, s.runs.open = map[string]bool{}, map[string]*opened{}
	s.door.unused = newSecret()
	return s, nil
}

// Listen opens the address of the configuration. One that other machines reach must have been named.
func (s *Server) Listen() (net.Listener, error) {
	address := s.c.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, exit.Usagef("give it as 127.0.0.1:8080", "the address %q: %v", address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return nil, exit.Usagef("give the name or address that the browser will open, such as 192.0.2.7:"+port,
			"%q is every address of this machine, and the server answers to one", address)
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, exit.Usagef("leave the port out for a free one; 'gaia view --new-token' prints the address of a viewer that runs", "the port of %s is in use", address)
	case errors.Is(err, syscall.EACCES):
		return nil, exit.Usagef("ports below 1024 are for the administrator", "listening on %s: %v", address, errors.Unwrap(err))
	case err != nil:
		return nil, exit.Usagef("give an address of this machine", "listening on %s: %v", address, err)
	}
	if err := s.bind(l); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// bind takes the names from l that the server answers to.
func (s *Server) bind(l net.Listener) error {
	at, ok := l.Addr().(*net.TCPAddr)
	switch {
	case !ok:
		return fmt.Errorf("the viewer listens on TCP only, and %s is %s", l.Addr(), l.Addr().Network())
	case !at.IP.IsLoopback() && s.c.Listen == "":
		return exit.Usagef("name the address by --listen, with a certificate", "other machines could reach %s", at)
	}
	host := ""
	if s.c.Listen != "" {
		host, _, _ = net.SplitHostPort(s.c.Listen)
	}
	s.door.bind(at, host, s.tls != nil)
	s.bound = l
	return nil
}

// Address returns the address to open, with a token that was not used yet. The server listens already.
func (s *Server) Address() string {
	scheme := "http"
	if s.door.secure {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s%s?t=%s", scheme, s.door.host, tokenPath, s.door.token())
}

// Token returns a token that was not used yet.
func (s *Server) Token() string { return s.door.token() }

// Warning says what a user must know of the address that the server listens on; "": nothing. The server listens already.
func (s *Server) Warning() string {
	if s.door.loopback || s.tls != nil {
		return ""
	}
	return "other machines reach " + visible.Line(s.door.host) + ", and without TLS whoever sees the network's traffic can read the runs, and take the cookie"
}

// Serve answers requests on l until ctx ends, which it waits less than a second for, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	if s.bound != l { // not by Listen
		if err := s.bind(l); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	defer s.cancel()
	forget, err := s.leaveAddress()
	if err != nil {
		s.c.Log("--new-token will not find this viewer: " + err.Error())
	}
	defer forget()
	routes := http.NewServeMux()
	for pattern, handler := range s.handlers() {
		routes.HandleFunc(pattern, handler)
	}
	server := &http.Server{
		Handler: s.door.guard(routes, s.c.Log), DisableGeneralOptionsHandler: true, TLSConfig: s.tls,
		ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return s.ctx },
	}
	ended := make(chan error, 1)
	go func() {
		l := netutil.LimitListener(l, maxConnections)
		if s.tls != nil {
			ended <- server.ServeTLS(l, "", "")
		} else {
			ended <- server.Serve(l)
		}
	}()
	s.group.Go(s.runs.tidy)
	select {
	case err = <-ended:
	case <-s.ctx.Done():
		grace, cancel := context.WithTimeout(context.Background(), graceTime)
		server.Shutdown(grace)
		cancel()
		server.Close()
		err = nil
	}
	s.cancel()
	// Close all runs, and wait a moment for their readers.
	s.runs.mu.Lock()
	for _, o := range s.runs.open {
		o.cancel()
	}
	clear(s.runs.open)
	s.runs.mu.Unlock()
	done := make(chan struct{})
	go func() { s.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(graceTime):
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// pathOf returns the path of a run.
func pathOf(id string) string { return "/run/" + url.PathEscape(id) }
