// Package web reaches the web for the agent: web_fetch reads a page, a file or an archived
// copy of one, and web_search asks a search engine.
//
// It promises that no address is connected to that is not public, whatever a name resolves
// to at the moment of connecting, but for the exceptions of a rehearsal and the engine that
// the operator chose (TestGuardRefuses), that a redirect is followed only where the rules
// allow it (TestRedirects), and that the key of an engine appears in no result.
package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/trajectory"
)

const maxRedirects = 10

// WebConfig says how the web is reached. Exceptions name hosts that are served
// by this machine, as "host:port" with the loopback address to dial; they are
// for rehearsals, and with Offline nothing else is reached. MaxBytes bounds a body (default 32 MiB), Timeout a whole
// exchange, redirects and body included (default 30 s). Reader makes text of
// bodies. Archive is where archived copies are (default
// https://web.archive.org). Sleep waits between tries of a search, or until the
// context ends (default: a timer).
type Config struct {
	Exceptions map[string]string
	Offline    bool
	MaxBytes   int64
	Timeout    time.Duration
	UserAgent  string
	Reader     document.Reader
	Archive    string
	Sleep      func(context.Context, time.Duration) error
}

// Web is the way out that the tools share.
type Web struct {
	config    Config
	transport *http.Transport
}

// NewWeb makes a Web. It uses no proxy: one would resolve names where the guard
// cannot see them.
func New(c Config) *Web {
	c.MaxBytes = cmp.Or(max(0, c.MaxBytes), 32<<20)
	c.Timeout = cmp.Or(max(0, c.Timeout), 30*time.Second)
	c.UserAgent = cmp.Or(c.UserAgent, "gaia")
	c.Archive = cmp.Or(c.Archive, "https://web.archive.org")
	if c.Sleep == nil {
		c.Sleep = llm.Sleep
	}
	g := guard.New(c.Exceptions, "")
	g.Offline = c.Offline
	return &Web{c, g.Transport()}
}

// exchange is a request to a server.
type exchange struct {
	method, url string      // method "" is GET
	header      http.Header // besides the user agent
	body        []byte
	allow       func(url string) error // asked before a redirect is followed; nil: none is
}

// response is what came back, or as far as it got.
type response struct {
	urls        []trajectory.URL
	final       *url.URL
	status      int
	header      http.Header
	contentType string
	body        []byte
}

// do asks for a URL and follows redirects as far as that is allowed. The text
// of its error is for the model, unless ctx is done. No cookie is kept, and no page
// is told which one led to it.
func (w *Web) do(ctx context.Context, x exchange) (response, error) {
	var r response
	u, err := ParseURL(x.url)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, x.method, u.String(), bytes.NewReader(x.body))
	if err != nil {
		return r, err
	}
	maps.Copy(req.Header, x.header)
	req.Header.Set("User-Agent", w.config.UserAgent)
	r.urls = []trajectory.URL{{URL: u.String()}}
	client := &http.Client{Transport: transport.Guard(w.transport), CheckRedirect: r.follow(x.allow)}
	resp, err := client.Do(req)
	if err != nil {
		return r, w.explain(err)
	}
	defer resp.Body.Close()
	r.arrived(resp)
	r.final, r.status, r.header, r.contentType = resp.Request.URL, resp.StatusCode, resp.Header, resp.Header.Get("Content-Type")
	if packed := resp.Header.Get("Content-Encoding"); packed != "" && packed != "identity" {
		return r, fmt.Errorf("the server sent it packed as %q, which was not asked for", packed[:tools.RuneOffset(packed, 40)])
	}
	if resp.ContentLength > w.config.MaxBytes {
		return r, w.explain(&http.MaxBytesError{Limit: w.config.MaxBytes})
	}
	r.body, err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, w.config.MaxBytes))
	if err != nil {
		err = w.explain(err)
	}
	return r, err
}

// arrived notes the answer of the last address.
func (r *response) arrived(resp *http.Response) {
	last := &r.urls[len(r.urls)-1]
	last.Status, last.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
	last.ContentType = last.ContentType[:tools.RuneOffset(last.ContentType, 200)]
}

// refusedRedirect says why a redirect was not followed.
type refusedRedirect struct {
	to  string
	err error
}

func (e *refusedRedirect) Error() string {
	return fmt.Sprintf("it redirects to %q, which was not followed: %v", e.to, e.err)
}

func (r *response) follow(allow func(url string) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if allow == nil {
			return http.ErrUseLastResponse
		}
		r.arrived(req.Response)
		to := req.URL.String()
		if len(to) > maxURL { // it is recorded and shown to the model
			return &refusedRedirect{to[:tools.RuneOffset(to, 80)] + "…", fmt.Errorf("the address has %d bytes", len(to))}
		}
		r.urls = append(r.urls, trajectory.URL{URL: to})
		if len(via) > maxRedirects {
			return &refusedRedirect{to, fmt.Errorf("there were more than %d redirects", maxRedirects)}
		}
		_, err := ParseURL(to)
		if err == nil {
			err = allow(to)
		}
		if err != nil {
			return &refusedRedirect{to, err}
		}
		req.Header.Del("Referer")
		return nil
	}
}

// maxURL bounds, in bytes, an address that is asked or recorded.
const maxURL = 8 << 10

// ParseURL accepts whole http and https addresses without credentials, and
// drops the fragment, which is not sent.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("a web address of %d bytes is too long", len(raw))
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL", raw)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not a whole web address; it must begin with http:// or https://", raw)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q has no host", raw)
	case u.User != nil:
		return nil, fmt.Errorf("%q holds a user name; leave it out", raw)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// explain words a failed exchange for the model: what happened, without the
// addresses of this machine.
func (w *Web) explain(err error) error {
	if inside, is := errors.AsType[*guard.NotPublic](err); is {
		return inside
	} else if refused, is := errors.AsType[*refusedRedirect](err); is {
		return refused
	} else if large, is := errors.AsType[*http.MaxBytesError](err); is {
		return fmt.Errorf("it is larger than %d MiB", large.Limit>>20)
	} else if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no complete answer within %s", w.config.Timeout)
	} else if dns, is := errors.AsType[*net.DNSError](err); is {
		return fmt.Errorf("the host %q cannot be found", dns.Name)
	} else if op, is := errors.AsType[*net.OpError](err); is {
		return fmt.Errorf("the connection failed: %v", op.Err)
	} else if outer, is := errors.AsType[*url.Error](err); is {
		err = outer.Err
	}
	return fmt.Errorf("the exchange failed: %v", err)
}
