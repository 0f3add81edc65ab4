package loader

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/gaia-harness/gaia/internal/transport"
)

const (
	hubTries    = 5
	longestWait = 30 * time.Second // that is chosen here
	longestTold = 6 * time.Minute  // that is obeyed: the hub counts requests over five
	maxHops     = 10
)

var errStalled = errors.New("nothing came for too long")

// retry does something until it succeeds, fails for good, or has failed too often.
func (h *hub) retry(ctx context.Context, do func() error) error {
	waits := &backoff.ExponentialBackOff{InitialInterval: h.FirstWait, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: longestWait}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		var e *SourceError
		if err != nil && (!errors.As(err, &e) || !e.again || e.after > longestTold) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(hubTries), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			h.Notice(fmt.Sprintf("%s; trying again in %s", err, wait.Round(100*time.Millisecond)))
		}))
	return err
}

// request asks for a file, or for the bytes of it that follow the first from ones. It follows redirects itself: the
// token goes to the hub's own scheme, host and port and nowhere else, where the library would send it to other ports
// and subdomains as well. A HEAD is followed no further than to the answer that names the digest, and not elsewhere.
func (h *hub) request(ctx context.Context, method, revision, name string, from int64) (*http.Response, error) {
	where := h.Endpoint + "/datasets/" + h.Repo + "/resolve/" + url.PathEscape(revision)
	for _, part := range strings.Split(name, "/") {
		where += "/" + url.PathEscape(part)
	}
	at, err := url.Parse(where)
	if err != nil {
		return nil, err
	}
	for range maxHops {
		answer, err := h.send(ctx, method, at, from)
		if err != nil {
			return nil, h.unreachable(ctx, at.Host, err)
		}
		next, err := answer.Location()
		if answer.StatusCode/100 != 3 || err != nil || method == http.MethodHead && (answer.Header.Get("X-Linked-Etag") != "" || !sameOrigin(next, h.base)) {
			return answer, nil
		}
		answer.Body.Close()
		if next.Scheme != "https" && next.Scheme != at.Scheme {
			return nil, &SourceError{Reason: fmt.Sprintf("%s sends on from %s to %s, where anybody could read along", at.Host, at.Scheme, next.Scheme),
				Remedies: []string{"check HF_ENDPOINT"}, cause: errNotGiven}
		}
		at = next
	}
	return nil, &SourceError{Reason: h.base.Host + " sends from one address to the next without end",
		Remedies: []string{"check HF_ENDPOINT"}, cause: errNotGiven}
}

// send makes one request. Its answer's body fails when nothing comes for too long, and must be closed.
func (h *hub) send(ctx context.Context, method string, at *url.URL, from int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(h.Patience, func() { cancel(errStalled) })
	end := func() { timer.Stop(); cancel(nil) }
	r, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		end()
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "identity") // sizes and digests are those of the file
	r.Header.Set("User-Agent", "gaia")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	if h.Token != "" && sameOrigin(at, h.base) {
		r.Header.Set("Authorization", "Bearer "+h.Token)
	}
	client := http.Client{Transport: transport.Guard(h.Transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		stalled := context.Cause(ctx)
		end()
		if errors.Is(stalled, errStalled) {
			err = errStalled
		}
		return nil, err
	}
	answer.Body = &patientBody{ReadCloser: answer.Body, ctx: ctx, timer: timer, patience: h.Patience, end: end}
	return answer, nil
}

// A patientBody fails when nothing comes for too long.
type patientBody struct {
	io.ReadCloser
	ctx      context.Context
	timer    *time.Timer
	patience time.Duration
	end      func()
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.patience)
	n, err := b.ReadCloser.Read(p)
	if err != nil && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *patientBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// unreachable is the failure of a request that got no answer, or not all of it. Addresses are left out: those of the
// hub's storage are keys to it.
func (h *hub) unreachable(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	var network net.Error // a refused connection, an unknown name, a time-out
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errors.New("the connection was cut")
	case errors.Is(err, errStalled), errors.As(err, &network), errors.As(err, &certificate):
	default: // the library shows what came, which may be a key
		err = errors.New("what answers does not speak HTTP as it should")
	}
	return &SourceError{
		Reason:   fmt.Sprintf("reading from %s: %v", host, err),
		Remedies: []string{"check the network, and HF_ENDPOINT if it is set; what has come is kept, so start again", "HF_HUB_OFFLINE=1 goes on with what the cache has"},
		again:    true,
		cause:    errNotGiven,
	}
}

// refusal says what an answer means that is no success; nil if it is one.
func (h *hub) refusal(answer *http.Response, revision, name string) error {
	status := answer.StatusCode
	if status < 400 || status == http.StatusRequestedRangeNotSatisfiable {
		return nil
	}
	page := h.Endpoint + "/datasets/" + h.Repo
	code, said := answer.Header.Get("X-Error-Code"), answer.Header.Get("X-Error-Message")
	if h.Token != "" {
		said = strings.ReplaceAll(said, h.Token, "…")
	}
	if said != "" {
		said = ": " + strings.Join(strings.Fields(said[:min(len(said), 300)]), " ")
	}
	fail := func(format string, args ...any) *SourceError {
		return &SourceError{Reason: fmt.Sprintf(format, args...) + said, cause: errNotGiven}
	}
	asked := "no token was found (" + h.TokenFrom + ")"
	if h.Token != "" {
		asked = "asked with the token from " + h.TokenFrom
	}
	accept := "accept its terms, logged in, at " + page
	token := "make a token at " + h.Endpoint + "/settings/tokens and set HF_TOKEN to it, or run 'hf auth login'"
	switch {
	case status == http.StatusTooManyRequests:
		e := fail("the hub counts too many requests (%s)", asked)
		e.again, e.after = true, waitTold(answer.Header)
		e.Remedies = []string{"wait five minutes and start again: what has come is kept"}
		if h.Token == "" {
			e.Remedies = append(e.Remedies, "requests with a token may be more")
		}
		if e.after > 0 {
			e.Remedies[0] = fmt.Sprintf("wait %s and start again: what has come is kept", e.after)
		}
		return e
	case status >= 500 || status == http.StatusRequestTimeout || !sameOrigin(answer.Request.URL, h.base):
		e := fail("%s answers %d %s for %s", answer.Request.URL.Host, status, http.StatusText(status), name)
		e.again, e.after, e.Remedies = true, waitTold(answer.Header), []string{"try again later: what has come is kept"}
		return e
	case code == "EntryNotFound":
		e := fail("%s at %s has no file %q", h.Repo, revision, name)
		e.final, e.cause, e.Remedies = true, fs.ErrNotExist, []string{"see " + page + "/tree/" + revision}
		return e
	case code == "RevisionNotFound":
		e := fail("%s has no revision %q", h.Repo, revision)
		e.final, e.Remedies = true, []string{"see " + page + "/commits/main, or leave out --revision for the newest"}
		return e
	case code == "GatedRepo" && h.Token == "" || status == http.StatusUnauthorized && h.Token == "" && code != "RepoNotFound":
		e := fail("%s is only for those who accepted its terms, and %s", h.Repo, asked)
		e.Remedies = []string{accept, token}
		return e
	case code == "GatedRepo" && strings.Contains(said, "fine-grained"), status == http.StatusForbidden && code != "GatedRepo":
		e := fail("access to %s was refused, %s", h.Repo, asked)
		e.Remedies = []string{"allow the token to read public gated repositories at " + h.Endpoint + "/settings/tokens, or use one of type read", accept}
		return e
	case code == "GatedRepo":
		e := fail("%s is only for those who accepted its terms, and the account was refused, %s", h.Repo, asked)
		e.Remedies = []string{accept, "see whose token it is: 'hf auth whoami'"}
		return e
	case code == "RepoNotFound" || status == http.StatusNotFound:
		e := fail("the hub has no dataset %q, or does not show it, %s", h.Repo, asked)
		e.Remedies = []string{"check the name; a private dataset needs a token of somebody who may read it"}
		return e
	case status == http.StatusUnauthorized:
		e := fail("the hub does not accept the token from %s", h.TokenFrom)
		e.Remedies = []string{token}
		return e
	}
	e := fail("%s answers %d %s for %s", h.base.Host, status, http.StatusText(status), name)
	e.Remedies = []string{"check HF_ENDPOINT if it is set"}
	return e
}

// waitTold reads how long the hub wants to be left alone: Retry-After, in seconds or as a date that is held against the
// answer's own, else the reset of a RateLimit that has nothing left, as in `"resolvers";r=0;t=55`.
func waitTold(header http.Header) time.Duration {
	told := header.Get("Retry-After")
	if m := regexp.MustCompile(`;\s*r=0\s*;\s*t=(\d+)`).FindStringSubmatch(header.Get("RateLimit")); told == "" && m != nil {
		told = m[1]
	}
	if seconds, err := strconv.ParseUint(told, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	then, err := http.ParseTime(told)
	now, nerr := http.ParseTime(header.Get("Date"))
	if err != nil || nerr != nil {
		return 0
	}
	return max(then.Sub(now), 0)
}
