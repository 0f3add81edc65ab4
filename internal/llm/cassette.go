package llm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A cassette is a directory that keeps the answers of an endpoint, one file an exchange: see the
// chapter of docs/formats.md. A Recorder fills it, a Player answers from it. Requests are known by
// a digest, whatever the host and however many are under way; the same request asked again gets
// the next of its answers. It holds what models and endpoints said, and no request and no key.

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
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
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
	sum := sha256.Sum256(essential(req.Header.Get("Content-Type"), body))
	return askedFor{"sha256:" + hex.EncodeToString(sum[:]), req.Method, apiPath(req.URL.Path)}, body, nil
}

// essential takes out of a body what differs between two that say the same: the order and form of
// JSON, and the boundary of a form, which may be random.
func essential(contentType string, body []byte) []byte {
	if canonical := jsontext.Value(bytes.Clone(body)); canonical.Canonicalize() == nil {
		return canonical
	}
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil && parameters["boundary"] != "" {
		return bytes.ReplaceAll(body, []byte("--"+parameters["boundary"]), []byte("--"))
	}
	return body
}

// apiPath is the part of a path that the interface defines: what stands before is the endpoint's.
func apiPath(path string) string {
	path = strings.TrimRight(path, "/")
	for _, known := range []string{"chat/completions", "audio/transcriptions"} {
		if strings.HasSuffix(path, "/"+known) {
			return known
		}
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// keptHeader reports whether a header of an answer, by its canonical name, is kept: what the client reads
// or a person needs to ask the provider about it, and nothing that lets anyone in.
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
func readExchange(dir, digest string, n int) (exchanged, error) {
	path := filepath.Join(dir, exchangeName(digest, n))
	e, err := func() (exchanged, error) {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return exchanged{}, bare(err)
		case !info.Mode().IsRegular() || info.Size() > maxExchange:
			return exchanged{}, errors.New("not a regular file, or too large")
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return exchanged{}, bare(err)
		}
		e, err := decodeExchange(data)
		if err == nil && e.Request.digest() != digest {
			err = errors.New("it is of another request than its name says")
		}
		return e, err
	}()
	if err != nil {
		return exchanged{}, fmt.Errorf("reading cassette file %q: %w", path, err)
	}
	return e, nil
}

// bare takes the path out of an error that will be named with it.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// openCassette reads every exchange of a cassette, and returns how many there are of each digest.
// Files that are not called *.json are not looked at.
func openCassette(dir string) (counts map[string]int, err error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening cassette %q: %w", dir, bare(err))
	case !info.IsDir():
		return nil, fmt.Errorf("opening cassette %q: not a directory", dir)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("opening cassette %q: others than its owner may write there (chmod go-w helps)", dir)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening cassette %q: %w", dir, bare(err))
	}
	named := regexp.MustCompile(`^([0-9a-f]{64})-([1-9][0-9]{0,8})\.json$`)
	counts, last := map[string]int{}, map[string]int{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		parts := named.FindStringSubmatch(f.Name())
		if parts == nil {
			return nil, fmt.Errorf("opening cassette %q: %q is not the name of an exchange", dir, f.Name())
		}
		n, _ := strconv.Atoi(parts[2]) // of at most nine digits
		if _, err := readExchange(dir, parts[1], n); err != nil {
			return nil, err
		}
		counts[parts[1]]++
		last[parts[1]] = max(last[parts[1]], n)
	}
	for digest, n := range last {
		for i := 1; i <= n && counts[digest] < n; i++ {
			if name := exchangeName(digest, i); !exists(filepath.Join(dir, name)) {
				return nil, fmt.Errorf("opening cassette %q: %q is missing", dir, name)
			}
		}
	}
	return counts, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
