package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

const (
	maxRedirects   = 10
	errorBodyRunes = 1000 // characters of an error page that are shown
)

// WebConfig says how the web is reached. Exceptions name hosts that are served
// by this machine, as "host:port" with the loopback address to dial; they are
// for rehearsals. MaxBytes bounds a body (default 32 MiB), Timeout a whole
// exchange, redirects and body included (default 30 s). Reader makes text of
// bodies.
type WebConfig struct {
	Exceptions map[string]string
	MaxBytes   int64
	Timeout    time.Duration
	UserAgent  string
	Reader     Reader
}

// Web is the way out that the tools share.
type Web struct {
	config    WebConfig
	transport *http.Transport
}

// NewWeb makes a Web. It uses no proxy: one would resolve names where the guard
// cannot see them.
func NewWeb(c WebConfig) *Web { return newWeb(c, "") }

// newWeb makes a Web that may also reach trusted, a "host:port".
func newWeb(c WebConfig, trusted string) *Web {
	if c.MaxBytes <= 0 {
		c.MaxBytes = 32 << 20
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.UserAgent == "" {
		c.UserAgent = "gaia"
	}
	exceptions := map[string]string{}
	for host, to := range maps.All(c.Exceptions) {
		exceptions[strings.ToLower(host)] = to
	}
	g := &guard{dialer: net.Dialer{Timeout: 10 * time.Second}, exceptions: exceptions, trusted: strings.ToLower(trusted)}
	return &Web{config: c, transport: &http.Transport{
		Proxy:                  nil,
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           20,
		IdleConnTimeout:        10 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}}
}

// response is what came back, or as far as it got.
type response struct {
	urls        []trajectory.URL
	final       *url.URL
	status      int
	contentType string
	body        []byte
}

// get asks for a URL and follows redirects, each after env allowed it. The text
// of its error is for the model, unless ctx is done.
func (w *Web) get(ctx context.Context, env *Env, raw, accept string) (response, error) {
	var r response
	u, err := parseURL(raw)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return r, err
	}
	req.Header.Set("User-Agent", w.config.UserAgent)
	req.Header.Set("Accept", accept)
	r.urls = []trajectory.URL{{URL: u.String()}}
	client := &http.Client{Transport: w.transport, CheckRedirect: r.follow(env)}
	resp, err := client.Do(req)
	if err != nil {
		return r, w.explain(err)
	}
	defer resp.Body.Close()
	r.arrived(resp)
	r.final, r.status, r.contentType = resp.Request.URL, resp.StatusCode, resp.Header.Get("Content-Type")
	r.body, err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, w.config.MaxBytes))
	if err != nil {
		return r, w.explain(err)
	}
	return r, nil
}

// arrived notes the answer of the last address.
func (r *response) arrived(resp *http.Response) {
	last := &r.urls[len(r.urls)-1]
	last.Status, last.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
	last.ContentType = last.ContentType[:runeOffset(last.ContentType, 200)]
}

// refusedRedirect says why a redirect was not followed.
type refusedRedirect struct {
	to  string
	err error
}

func (e *refusedRedirect) Error() string {
	return fmt.Sprintf("it redirects to %q, which was not followed: %v", e.to, e.err)
}

func (r *response) follow(env *Env) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		r.arrived(req.Response)
		to := req.URL.String()
		if len(to) > maxURL { // it is recorded, and told to the model
			return &refusedRedirect{to[:runeOffset(to, 80)] + "…", fmt.Errorf("the address has %d bytes", len(to))}
		}
		r.urls = append(r.urls, trajectory.URL{URL: to})
		if len(via) > maxRedirects {
			return &refusedRedirect{to, fmt.Errorf("there were more than %d redirects", maxRedirects)}
		}
		if _, err := parseURL(to); err != nil {
			return &refusedRedirect{to, err}
		}
		if err := env.AllowURL(to); err != nil {
			return &refusedRedirect{to, err}
		}
		return nil
	}
}

// maxURL bounds, in bytes, an address that is asked or recorded.
const maxURL = 8 << 10

// parseURL accepts whole http and https addresses without credentials, and
// drops the fragment, which is not sent.
func parseURL(raw string) (*url.URL, error) {
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
	var (
		inside  *notPublic
		refused *refusedRedirect
		large   *http.MaxBytesError
		dns     *net.DNSError
		op      *net.OpError
		outer   *url.Error
	)
	switch {
	case errors.As(err, &inside):
		return inside
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &large):
		return fmt.Errorf("it is larger than %d MiB", large.Limit>>20)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no complete answer within %s", w.config.Timeout)
	case errors.As(err, &dns):
		return fmt.Errorf("the host %q cannot be found", dns.Name)
	case errors.As(err, &op):
		return fmt.Errorf("the connection failed: %v", op.Err)
	case errors.As(err, &outer):
		return fmt.Errorf("the exchange failed: %v", outer.Err)
	}
	return fmt.Errorf("the exchange failed: %v", err)
}

type webFetchArgs struct {
	URL  string `json:"url" jsonschema:"whole address of the page or file, beginning with http:// or https://"`
	Page int    `json:"page,omitzero" jsonschema:"which page of a long document to show, from 1; the first if left out"`
	Find string `json:"find,omitzero" jsonschema:"show only the lines that hold this text, in any case, with their neighbours"`
}

// NewWebFetch makes web_fetch, which reads a page or file of the web.
func NewWebFetch(w *Web) Tool {
	return define("web_fetch",
		"Reads a page or file from the web as text: web pages as markdown with their tables and links; pdf, xlsx, csv, json and text as read_file does. Long ones come in pages; find looks inside.",
		func(a webFetchArgs) Touches { return Touches{URLs: []string{a.URL}, Texts: nonEmpty(a.URL, a.Find)} },
		func(ctx context.Context, env *Env, a webFetchArgs) (Output, error) { return w.fetch(ctx, env, a) })
}

func (w *Web) fetch(ctx context.Context, env *Env, a webFetchArgs) (Output, error) {
	r, err := w.get(ctx, env, a.URL, "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.8")
	if ctx.Err() != nil {
		return Output{}, ctx.Err()
	}
	if err != nil {
		out := failed("cannot fetch %s: %v", a.URL, err)
		out.URLs = r.urls
		return out, nil
	}
	doc, err := w.config.Reader.convert(ctx, source{name: path.Base(r.final.Path), contentType: r.contentType, base: r.final, data: r.body})
	var u *unreadable
	if err != nil && !errors.As(err, &u) {
		return Output{}, err
	}
	var out Output
	switch {
	case r.status < 200 || r.status > 299:
		out = failed("the server answered %d %s to %s", r.status, http.StatusText(r.status), r.final)
		if doc.text != "" {
			out.Document = doc.text
			out.Shown += "\n" + doc.text[:runeOffset(doc.text, errorBodyRunes)]
		}
	case err != nil:
		out = failed("cannot read %s: %v", r.final, err)
	default:
		if len(r.urls) > 1 {
			doc.notes = append(doc.notes, fmt.Sprintf("redirected from %s", r.urls[0].URL))
		}
		out = doc.show(r.final.String(), a.Page, a.Find)
	}
	out.URLs = r.urls
	return out, nil
}

// nonEmpty leaves empty strings out.
func nonEmpty(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
