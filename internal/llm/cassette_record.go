package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/google/renameio/v2"
)

// Recorder is a transport that keeps every answer on a cassette before anyone sees it. An answer
// that cannot be kept is none: the request fails with an *Error "not_recorded" that stops the run.
// Requests without a whole answer are not recorded. One process at a time may record.
type Recorder struct {
	dir  string
	next http.RoundTripper

	mu     sync.Mutex
	counts map[string]int
}

// ErrRecorded means that a directory holds a cassette already.
var ErrRecorded = errors.New("it holds a recording already")

// NewRecorder starts a cassette in a directory, which it makes if there is none; one that holds a
// cassette is refused with ErrRecorded. Requests go to next; nil = a plain transport without a proxy.
func NewRecorder(dir string, next http.RoundTripper) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening cassette %q: %w", dir, bare(err))
	}
	r, err := ContinueRecorder(dir, next)
	if err == nil && len(r.counts) > 0 {
		return nil, fmt.Errorf("opening cassette %q: %w", dir, ErrRecorded)
	}
	return r, err
}

// ContinueRecorder goes on with a cassette, of a run that goes on: what is asked again gets the next
// number.
func ContinueRecorder(dir string, next http.RoundTripper) (*Recorder, error) {
	counts, err := openCassette(dir)
	if err != nil {
		return nil, err
	}
	if next == nil {
		next = plainTransport()
	}
	return &Recorder{dir: dir, next: transport.Guard(next), counts: counts}, nil
}

// RoundTrip implements http.RoundTripper.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, body, err := askedIn(req)
	if err != nil {
		return nil, err
	}
	sent := req.Clone(req.Context())
	if req.Body != nil {
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		sent.Body, _ = sent.GetBody()
	}
	res, err := r.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxRecorded))
	if err != nil { // what it is, the client judges as ever
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(answer), broken{err}))
		return res, nil
	}
	if err := r.keep(exchanged{asked, answeredWith(res, answer, key(req)), cassetteSchema}); err != nil {
		return nil, &Error{Code: "not_recorded", Stop: true, Message: err.Error()}
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	return res, nil
}

// key returns the API key that a request bears.
func key(req *http.Request) string {
	_, key, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	return key
}

// keep writes an exchange under the next number of its request.
func (r *Recorder) keep(e exchanged) error {
	data, err := encodeExchange(e)
	if err != nil {
		return fmt.Errorf("the answer cannot be put on the cassette: %w", err)
	}
	digest := e.Request.digest()
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, exchangeName(digest, r.counts[digest]+1))
	if exists(path) {
		return fmt.Errorf("cassette file %q is there already: does another process record there?", path)
	}
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(r.dir)); err != nil {
		return fmt.Errorf("writing cassette file %q: %w", path, bare(err))
	}
	r.counts[digest]++
	return nil
}

// broken is the rest of a body that could not be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
