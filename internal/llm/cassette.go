package llm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/renameio/v2"
)

// A cassette is a directory that keeps the answers of an endpoint, one file an exchange: see the
// chapter of docs/formats.md. A Recorder fills it, a Player answers from it. Requests are identified by
// a digest, whatever the host and however many are under way; the same request asked again gets
// the next of its answers. It holds the answers, but neither requests nor keys (decision 0071).

const (
	cassetteSchema = "gaia.cassette/1"
	maxRecorded    = 32 << 20  // bytes of an answer's body; what is beyond is cut, which no client accepts
	maxExchange    = 256 << 20 // bytes of a file: a body of control characters is six times as long as JSON
)

// exchanged is one file of a cassette.
type exchanged struct {
	Request  askedFor `json:"request"`
	Response answered `json:"response"`
	Schema   string   `json:"schema"`
}

// askedFor is what a request is known by. Its canonical JSON's digest is in the name of the file.
type askedFor struct {
	BodySHA256 string `json:"body_sha256"`
	Method     string `json:"method"`
	Path       string `json:"path"`
}

type answered struct {
	Base64  bool              `json:"base64,omitzero"` // the body is no UTF-8
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	Status  int               `json:"status"`
}

// digest returns the 64 hexadecimal digits that the names of the request's files begin with.
func (a askedFor) digest() string {
	b, err := json.Marshal(a) // its members are in order, and all of them text
	if err != nil {
		panic("llm: a request on a cassette has no JSON: " + err.Error())
	}
	return strings.TrimPrefix(canonical.Digest(b), "sha256:")
}

func exchangeName(digest string, n int) string { return digest + "-" + strconv.Itoa(n) + ".json" }

// askedIn reads the body of a request, and says what the request is known by.
func askedIn(req *http.Request) (asked askedFor, body []byte, err error) {
	if req.Body != nil {
		body, err = io.ReadAll(req.Body)
		if closing := req.Body.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return askedFor{}, nil, err
		}
	}
	// What differs between two bodies that say the same does not count: the order and form of JSON, and the boundary
	// of a form, which may be random.
	essential := jsontext.Value(bytes.Clone(body))
	if essential.Canonicalize() != nil {
		essential = body
		if _, parameters, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err == nil && parameters["boundary"] != "" {
			essential = bytes.ReplaceAll(body, []byte("--"+parameters["boundary"]), []byte("--"))
		}
	}
	// Nor does what the endpoint puts before the part of the path that the interface defines.
	full := strings.TrimRight(req.URL.Path, "/")
	path := full[strings.LastIndexByte(full, '/')+1:]
	for _, known := range []string{"chat/completions", "audio/transcriptions"} {
		if strings.HasSuffix(full, "/"+known) {
			path = known
		}
	}
	return askedFor{canonical.Digest(essential), req.Method, path}, body, nil
}

// keptHeader reports whether a header of an answer, by its canonical name, is kept: what the client reads
// or a person needs to ask the provider about it, and no credentials.
func keptHeader(name string) bool {
	switch name {
	case "Content-Type", "Date", "Retry-After", "Retry-After-Ms", "X-Request-Id", "Request-Id", costHeader:
		return true
	}
	return strings.HasPrefix(name, "X-Ratelimit-")
}

// answeredWith makes the record of an answer, without the key of the request it belongs to.
func answeredWith(res *http.Response, body []byte, key string) answered {
	shown := strings.NewReplacer()
	if len(key) >= 8 { // shorter ones are placeholders
		inJSON, _ := json.Marshal(key) // text always marshals
		plain := strings.Trim(string(inJSON), `"`)
		shown = strings.NewReplacer(key, "[redacted]", plain, "[redacted]", strings.ReplaceAll(plain, "/", `\/`), "[redacted]")
	}
	a := answered{Body: shown.Replace(string(body)), Headers: map[string]string{}, Status: res.StatusCode}
	if a.Base64 = !utf8.ValidString(a.Body); a.Base64 {
		a.Body = base64.StdEncoding.EncodeToString([]byte(a.Body))
	}
	for name := range res.Header {
		if keptHeader(name) && (name != costHeader || len(res.Header[name]) == 1) { // a repeated one is of no use
			a.Headers[name] = strings.ToValidUTF8(shown.Replace(res.Header.Get(name)), "\uFFFD")
		}
	}
	return a
}

func (a answered) bytes() ([]byte, error) {
	if a.Base64 {
		return base64.StdEncoding.Strict().DecodeString(a.Body)
	}
	return []byte(a.Body), nil
}

func encodeExchange(e exchanged) ([]byte, error) {
	b, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	c := jsontext.Value(b)
	err = c.Canonicalize()
	return c, err
}

// decodeExchange reads a file of a cassette. Only what encodeExchange writes is accepted.
func decodeExchange(data []byte) (exchanged, error) {
	damaged := errors.New("not an exchange as it is recorded (" + cassetteSchema + ")")
	var e exchanged
	if err := json.Unmarshal(data, &e, json.RejectUnknownMembers(true)); err != nil {
		return exchanged{}, damaged
	}
	again, err := encodeExchange(e)
	if err != nil || !bytes.Equal(again, data) || e.Schema != cassetteSchema || e.Response.Status < 200 || e.Response.Status > 599 || e.Response.Headers == nil {
		return exchanged{}, damaged
	}
	for name := range e.Response.Headers {
		if http.CanonicalHeaderKey(name) != name || !keptHeader(name) {
			return exchanged{}, damaged
		}
	}
	if body, err := e.Response.bytes(); err != nil || e.Response.Base64 == utf8.Valid(body) {
		return exchanged{}, damaged
	}
	return e, nil
}

// readExchange reads the n-th exchange of the requests with a digest. The error names the file.
func readExchange(dir, digest string, n int) (e exchanged, err error) {
	path := filepath.Join(dir, exchangeName(digest, n))
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxExchange) {
		err = errors.New("not a regular file, or too large")
	}
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(path); err == nil {
			e, err = decodeExchange(data)
		}
	}
	if err == nil && e.Request.digest() != digest {
		err = errors.New("its name is that of another request")
	}
	if err != nil {
		return exchanged{}, fmt.Errorf("reading cassette file %q: %w", path, regular.Cause(err))
	}
	return e, nil
}

var exchangeFile = regexp.MustCompile(`^([0-9a-f]{64})-([1-9][0-9]{0,8})\.json$`)

// openCassette reads every exchange of a cassette, and returns how many there are of each digest.
// It ignores files whose names do not end in .json, or begin with a dot.
func openCassette(dir string) (map[string]int, error) {
	fail := func(format string, args ...any) (map[string]int, error) {
		return nil, fmt.Errorf("opening cassette %q: "+format, append([]any{dir}, args...)...)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fail("%w", regular.Cause(err))
	case !info.IsDir():
		return fail("not a directory")
	case info.Mode().Perm()&0o022 != 0:
		return fail("others than its owner may write there (chmod go-w helps)")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fail("%w", regular.Cause(err))
	}
	counts, present := map[string]int{}, map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		parts := exchangeFile.FindStringSubmatch(f.Name())
		if parts == nil {
			return fail("%q is not the name of an exchange", f.Name())
		}
		n, _ := strconv.Atoi(parts[2]) // of at most nine digits
		if _, err := readExchange(dir, parts[1], n); err != nil {
			return nil, err
		}
		counts[parts[1]]++
		present[f.Name()] = true
	}
	for digest, n := range counts {
		for i := range n {
			if name := exchangeName(digest, i+1); !present[name] {
				return fail("%q is missing", name)
			}
		}
	}
	return counts, nil
}

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
		return nil, fmt.Errorf("opening cassette %q: %w", dir, regular.Cause(err))
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
		next = PlainTransport()
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
	_, key, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	unrecorded := func(format string, args ...any) (*http.Response, error) {
		return nil, &Error{Code: "not_recorded", Stop: true, Message: fmt.Sprintf(format, args...)}
	}
	data, err := encodeExchange(exchanged{asked, answeredWith(res, answer, key), cassetteSchema})
	if err != nil {
		return unrecorded("the answer cannot be put on the cassette: %v", err)
	}
	digest := asked.digest()
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, exchangeName(digest, r.counts[digest]+1))
	if _, err := os.Lstat(path); err == nil {
		return unrecorded("cassette file %q is there already: does another process record there?", path)
	}
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(r.dir)); err != nil {
		return unrecorded("writing cassette file %q: %v", path, regular.Cause(err))
	}
	r.counts[digest]++
	res.Body = io.NopCloser(bytes.NewReader(answer))
	return res, nil
}

// broken is the rest of a body that could not be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Player is a transport that answers from a cassette and reaches no network. The n-th time that a
// request comes, it gets the n-th answer that was recorded for it. A request without one fails with an
// *Error "not_on_cassette" that stops the run: it is not the run that was recorded.
type Player struct {
	dir    string
	counts map[string]int

	mu     sync.Mutex
	played map[string]int
}

// NewPlayer opens a cassette and reads all of it once; a damaged file is an error that names it.
func NewPlayer(dir string) (*Player, error) {
	counts, err := openCassette(dir)
	if err != nil {
		return nil, err
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("opening cassette %q: nothing is recorded there", dir)
	}
	return &Player{dir: dir, counts: counts, played: map[string]int{}}, nil
}

// RoundTrip implements http.RoundTripper.
func (p *Player) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, _, err := askedIn(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	digest := asked.digest()
	p.mu.Lock()
	n := p.played[digest] + 1
	recorded := n <= p.counts[digest]
	if recorded {
		p.played[digest] = n
	}
	p.mu.Unlock()
	var e exchanged
	var body []byte
	what := fmt.Sprintf("%s %s with the body %s", asked.Method, asked.Path, asked.BodySHA256)
	switch {
	case recorded:
		if e, err = readExchange(p.dir, digest, n); err == nil {
			body, err = e.Response.bytes()
		}
	case n == 1:
		err = fmt.Errorf("cassette %q has no answer to %s: the run is not the one that was recorded", p.dir, what)
	default:
		err = fmt.Errorf("cassette %q has no more answers to %s: it was asked %d times when it was recorded", p.dir, what, n-1)
	}
	if err != nil {
		return nil, &Error{Code: "not_on_cassette", Stop: true, Message: err.Error()}
	}
	header := http.Header{}
	for name, value := range e.Response.Headers {
		header.Set(name, value)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", e.Response.Status, http.StatusText(e.Response.Status)), StatusCode: e.Response.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}
