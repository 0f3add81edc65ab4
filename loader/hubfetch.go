package loader

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/gaia-harness/gaia/internal/transport"
)

// A hubFile is what the hub says of a file before it gives it.
type hubFile struct {
	path   string
	commit string
	digest string // SHA-256, or git's SHA-1 of a blob, hex
	size   int64  // -1 = not said
}

// lockNotice is how long another process is waited for without a word.
const lockNotice = 2 * time.Second

// damaged is what can be done about bytes that are not those that were promised.
const damaged = "try again later; if it stays so, the hub, or what stands between, damages the file"

// maxFileBytes bounds a file of a dataset, so that a hub cannot fill the disk with one.
const maxFileBytes = 4 << 30

// ask returns what the hub says of a file. Where the file does not exist, the error wraps fs.ErrNotExist and the commit
// is set all the same, if the hub gave it.
func (h *hub) ask(ctx context.Context, revision, name string) (file hubFile, err error) {
	err = h.retry(ctx, func() error {
		answer, err := h.request(ctx, http.MethodHead, revision, name, 0)
		if err != nil {
			return err
		}
		answer.Body.Close()
		file = hubFile{path: name, commit: answer.Header.Get("X-Repo-Commit"), size: answer.ContentLength}
		if !isCommit(file.commit) {
			file.commit = ""
		}
		if err := h.refusal(answer, revision, name); err != nil {
			return err
		}
		file.digest = cmp.Or(etag(answer.Header.Get("X-Linked-Etag")), etag(answer.Header.Get("ETag")))
		if linked := answer.Header.Get("X-Linked-Size"); linked != "" {
			if file.size, err = strconv.ParseInt(linked, 10, 64); err != nil {
				file.size = -1
			}
		} else if answer.StatusCode != http.StatusOK {
			file.size = -1 // what it says is the length of the redirect
		}
		if file.size > maxFileBytes {
			return sourceErrorf("see "+h.Endpoint+"/datasets/"+h.Repo+"/tree/"+revision, "the hub says that %s has %d bytes, which no file of a dataset like GAIA has", name, file.size)
		}
		if file.commit == "" || newHash(file.digest, 0) == nil {
			return &SourceError{Reason: fmt.Sprintf("what answers at %s is no hub: it names no commit, or no digest, for %s", h.base.Host, name),
				Remedies: []string{"check HF_ENDPOINT, and that no proxy or login page stands between"}, cause: errNotGiven}
		}
		return nil
	})
	return file, err
}

// askAt returns what the hub says of a file of a commit.
func (h *hub) askAt(ctx context.Context, commit, name string) (hubFile, error) {
	file, err := h.ask(ctx, commit, name)
	if err == nil && file.commit != commit {
		return hubFile{}, sourceErrorf("check HF_ENDPOINT", "asked for commit %s, the hub answers with %s", commit, file.commit)
	}
	return file, err
}

// etag returns the value of an entity tag, without its quotes.
func etag(s string) string { return strings.Trim(strings.TrimPrefix(s, "W/"), `"`) }

// fetch brings a file into the cache, going on where an earlier fetch was interrupted.
func (h *hub) fetch(ctx context.Context, commit, name string) error {
	file, err := h.askAt(ctx, commit, name)
	if err != nil {
		return err
	}
	err = func() error {
		waiting := time.AfterFunc(lockNotice, func() { h.Notice("another process is fetching " + file.path + "; waiting for it") })
		unlock, err := h.kept.lock(ctx, file.digest)
		waiting.Stop()
		if err != nil {
			return err
		}
		defer unlock()
		blob := h.kept.blob(file.digest)
		if _, err = os.Stat(blob); errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(filepath.Dir(blob), 0o777); err == nil {
				err = h.retry(ctx, func() error { return h.download(ctx, file, blob) })
			}
		}
		if err != nil {
			return err
		}
		return h.kept.link(file.commit, file.path, file.digest)
	}()
	if refused := (*SourceError)(nil); err == nil || ctx.Err() != nil || errors.As(err, &refused) {
		return err
	}
	failed := inCache(err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		failed.cause = errNotGiven // what such a cache has is all that is to be had
		h.Notice(failed.Reason)
	}
	return failed
}

// download makes one try at fetching what is still missing of a file.
func (h *hub) download(ctx context.Context, file hubFile, blob string) error {
	// A link would have what it leads to overwritten, which others can choose where the cache is shared.
	f, err := os.OpenFile(blob+".incomplete", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", f.Name())
	}
	if err != nil {
		return err
	}
	have := info.Size()
	if have > file.size {
		have = 0 // of another file, or there is no telling
	}
	if have < file.size || file.size < 0 {
		if err := h.receive(ctx, file, f, have); err != nil {
			return err
		}
	}
	sum, err := digestOf(ctx, f, file.digest)
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return err
	}
	if sum != file.digest {
		_ = f.Truncate(0) // what an earlier try left may be to blame, and is not to be gone on with
		return &SourceError{
			Reason:   fmt.Sprintf("what the hub sends as %s has the digest %s, where it promises %s", file.path, sum, file.digest),
			Remedies: []string{damaged},
			again:    have > 0,
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), blob); err != nil {
		return err
	}
	h.Progress(Progress{Path: file.path, Done: info.Size(), Size: info.Size(), Kept: true})
	return nil
}

// receive asks for the bytes of a file that follow the first have ones and writes them to f.
func (h *hub) receive(ctx context.Context, file hubFile, f *os.File, have int64) error {
	answer, err := h.request(ctx, http.MethodGet, file.commit, file.path, have)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := h.refusal(answer, file.commit, file.path); err != nil {
		return err
	}
	restart := false
	switch part := answer.Header.Get("Content-Range"); {
	case answer.StatusCode == http.StatusOK:
		have = 0
	case answer.StatusCode != http.StatusPartialContent || !strings.HasPrefix(part, fmt.Sprintf("bytes %d-", have)):
		have, restart = 0, true
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if restart {
		return &SourceError{Reason: fmt.Sprintf("the hub answers %d %s to a request for %s", answer.StatusCode, http.StatusText(answer.StatusCode), file.path), Remedies: []string{damaged}, again: true}
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	if file.size < 0 {
		file.size = answer.ContentLength // of the whole: nothing is resumed where the size is not known
	}
	limit := int64(maxFileBytes)
	if file.size >= 0 {
		limit = file.size - have
	}
	in := &arriving{in: answer.Body, done: have, say: func(done int64) { h.Progress(Progress{Path: file.path, Done: done, Size: file.size}) }}
	n, err := io.Copy(f, io.LimitReader(in, limit+1))
	switch {
	case in.err != nil:
		return h.unreachable(ctx, answer.Request.URL.Host, in.err)
	case err != nil:
		return err
	case n > limit || file.size >= 0 && n < limit:
		if n > limit {
			_ = f.Truncate(0)
		}
		return &SourceError{Reason: fmt.Sprintf("%d bytes or more of %s came, where the hub promises %d", have+n, file.path, file.size),
			Remedies: []string{damaged}, again: true}
	}
	return nil
}

// arriving counts what is read, and keeps the error that is not the end.
type arriving struct {
	in   io.Reader
	done int64
	say  func(int64)
	err  error
}

func (a *arriving) Read(b []byte) (int, error) {
	n, err := a.in.Read(b)
	if a.done += int64(n); n > 0 {
		a.say(a.done)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

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
		if e, known := errors.AsType[*SourceError](err); err != nil && (!known || !e.again || e.after > longestTold) {
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
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errors.New("the connection was cut")
	case errors.Is(err, errStalled), errors.As(err, &network), errors.As(err, new(*tls.CertificateVerificationError)):
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

// refusal returns the error of an answer that is not a success; nil if it is one.
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
	fail := func(reason string, remedies ...string) *SourceError {
		return &SourceError{Reason: reason + said, Remedies: remedies, cause: errNotGiven}
	}
	asked := "no token was found (" + h.TokenFrom + ")"
	if h.Token != "" {
		asked = "asked with the token from " + h.TokenFrom
	}
	accept := "accept its terms, logged in, at " + page
	token := "make a token at " + h.Endpoint + "/settings/tokens and set HF_TOKEN to it, or run 'hf auth login'"
	switch {
	case status == http.StatusTooManyRequests:
		e := fail("the hub counts too many requests ("+asked+")", "wait five minutes and start again: what has come is kept")
		e.again, e.after = true, waitTold(answer.Header)
		if h.Token == "" {
			e.Remedies = append(e.Remedies, "requests with a token may be more")
		}
		if e.after > 0 {
			e.Remedies[0] = fmt.Sprintf("wait %s and start again: what has come is kept", e.after)
		}
		return e
	case status >= 500 || status == http.StatusRequestTimeout || !sameOrigin(answer.Request.URL, h.base):
		e := fail(fmt.Sprintf("%s answers %d %s for %s", answer.Request.URL.Host, status, http.StatusText(status), name),
			"try again later: what has come is kept")
		e.again, e.after = true, waitTold(answer.Header)
		return e
	case code == "EntryNotFound":
		e := fail(fmt.Sprintf("%s at %s has no file %q", h.Repo, revision, name), "see "+page+"/tree/"+revision)
		e.final, e.cause = true, fs.ErrNotExist
		return e
	case code == "RevisionNotFound":
		e := fail(fmt.Sprintf("%s has no revision %q", h.Repo, revision), "see "+page+"/commits/main, or leave out --revision for the newest")
		e.final = true
		return e
	case code == "GatedRepo" && h.Token == "" || status == http.StatusUnauthorized && h.Token == "" && code != "RepoNotFound":
		return fail(h.Repo+" is only for those who accepted its terms, and "+asked, accept, token)
	case code == "GatedRepo" && strings.Contains(said, "fine-grained"), status == http.StatusForbidden && code != "GatedRepo":
		return fail("access to "+h.Repo+" was refused, "+asked,
			"allow the token to read public gated repositories at "+h.Endpoint+"/settings/tokens, or use one of type read", accept)
	case code == "GatedRepo":
		return fail(h.Repo+" is only for those who accepted its terms, and the account was refused, "+asked,
			accept, "see whose token it is: 'hf auth whoami'")
	case code == "RepoNotFound" || status == http.StatusNotFound:
		return fail(fmt.Sprintf("the hub has no dataset %q, or does not show it, %s", h.Repo, asked),
			"check the name; a private dataset needs a token of someone who may read it")
	case status == http.StatusUnauthorized:
		return fail("the hub does not accept the token from "+h.TokenFrom, token)
	}
	return fail(fmt.Sprintf("%s answers %d %s for %s", h.base.Host, status, http.StatusText(status), name), "check HF_ENDPOINT if it is set")
}

// waitTold returns how long the hub asks to wait: Retry-After, in seconds or as a date that is held against the
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
