package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// authorize adds the key. Anthropic's own host takes it in a separate header; of those with the same interface some
// take that one, and some the usual one.
func (u Upstream) authorize(req *http.Request, dialect string) {
	if u.APIKey == "" {
		return
	}
	host := strings.ToLower(req.URL.Hostname())
	anthropic := host == "anthropic.com" || strings.HasSuffix(host, ".anthropic.com")
	if dialect == llm.DialectMessages {
		req.Header.Set("X-Api-Key", u.APIKey)
	}
	if dialect != llm.DialectMessages || !anthropic {
		req.Header.Set("Authorization", "Bearer "+u.APIKey)
	}
}

// leastKey is the length of a key below which it is a placeholder, such as "none".
const leastKey = 8

// forms are the key as texts hold it.
func (u Upstream) forms() []string {
	if len(u.APIKey) < leastKey {
		return nil
	}
	return slices.Compact([]string{u.APIKey, strings.ReplaceAll(u.APIKey, "/", `\/`), url.QueryEscape(u.APIKey), url.PathEscape(u.APIKey)})
}

// hide returns a body without the key.
func (u Upstream) hide(b []byte) []byte {
	for _, form := range u.forms() {
		if bytes.Contains(b, []byte(form)) {
			b = bytes.ReplaceAll(b, []byte(form), []byte(trajectory.Redacted))
		}
	}
	return b
}

func (u Upstream) hideText(s string) string { return string(u.hide([]byte(s))) }

// hideIn returns a header without values that hold the key.
func (u Upstream) hideIn(h http.Header) http.Header {
	clean := http.Header{}
	for name, values := range h {
		for _, v := range values {
			if u.hideText(v) == v {
				clean.Add(name, v)
			}
		}
	}
	return clean
}

// sentBody is the body of a request. The transport holds it until it has read the whole reply; once the reply begins,
// its memory is given back.
type sentBody struct {
	mu   sync.Mutex
	data []byte
}

func (s *sentBody) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = nil
}

func (s *sentBody) reader() io.ReadCloser { return io.NopCloser(&sentReader{body: s}) }

type sentReader struct {
	body *sentBody
	at   int
}

func (r *sentReader) Read(b []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	if r.at >= len(r.body.data) {
		return 0, io.EOF
	}
	n := copy(b, r.body.data[r.at:])
	r.at += n
	return n, nil
}
