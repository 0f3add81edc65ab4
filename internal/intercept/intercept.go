// Package intercept is the recorded network of one attempt of an own agent: an HTTP proxy that ends TLS, decides on each
// request, records it and its reply, and passes both on.
package intercept

import (
	"context"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/semaphore"
)

// Config says how the network is reached. The attempts of a run share one.
type Config struct {
	Authority *Authority
	Guard     *guard.Guard
	Roots     *x509.CertPool // that sign the certificates of servers; nil: those of the system
	Now       func() time.Time
	Dir       string // for what of replies is too large for memory; "": the usual one for temporary files

	// Bodies bounds the bytes of requests that are held in memory before they have left, of all attempts that share it; requests
	// beyond wait. It must have room for MaxRequest. Nil: twice that for each attempt.
	Bodies *semaphore.Weighted
}

// Prober looks for signs of a leak in a document that a request brought in.
type Prober interface {
	Probe(document, args string, urls []string) trajectory.Probes
}

// Attempt is what the proxy records to and asks.
type Attempt struct {
	Rec    *trajectory.Attempt
	Decide func(url string) policy.Decision // of tools.Session
	Probe  Prober                           // nil: the evidence has no probes
	Full   bool                             // the log keeps bodies: keep those of exchanges as well
}

// Proxy is an http.Handler of one attempt, for absolute-form requests and CONNECT.
type Proxy struct {
	Config
	attempt Attempt

	mu  sync.Mutex
	err error
}

// New returns the proxy of one attempt. When ctx ends, what is under way is cut.
func New(ctx context.Context, c Config, a Attempt) *Proxy { return &Proxy{Config: c, attempt: a} }

// Close cuts what is under way, refuses everything after, and returns when all exchanges are recorded.
func (p *Proxy) Close() {}

// Err returns why recording failed, nil while it works. It matches trajectory.ErrNotRecorded.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "the recorded network is not there yet", http.StatusBadGateway)
}
