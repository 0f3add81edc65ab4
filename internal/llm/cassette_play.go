package llm

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Player is a transport that answers from a cassette and reaches no network. The n-th time that a
// request comes, it gets the n-th answer that was recorded for it. A request without one fails with an
// *Error "not_on_cassette" that stops the run: whatever came after would be of another run.
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
	n, ok := p.advance(digest)
	if !ok {
		return nil, &Error{Code: "not_on_cassette", Stop: true, Message: p.missing(asked, n)}
	}
	e, err := readExchange(p.dir, digest, n)
	var body []byte
	if err == nil {
		body, err = e.Response.bytes()
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

// advance counts that a request came, and says for which time and whether that was recorded.
func (p *Player) advance(digest string) (n int, recorded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = p.played[digest] + 1
	if n > p.counts[digest] {
		return n, false
	}
	p.played[digest] = n
	return n, true
}

func (p *Player) missing(asked askedFor, n int) string {
	what := fmt.Sprintf("%s %s with the body %s", asked.Method, asked.Path, asked.BodySHA256)
	if n == 1 {
		return fmt.Sprintf("cassette %q has no answer to %s: the run is not the one that was recorded", p.dir, what)
	}
	return fmt.Sprintf("cassette %q has no more answers to %s: it was asked %d times when it was recorded", p.dir, what, n-1)
}
