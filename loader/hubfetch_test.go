package loader_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
)

// Faults of a download: those that pass are made up for, and what does not verify is refused.
func TestHubFaults(t *testing.T) {
	large, small := attachments(t)[0], "2023/validation/"+filepath.Base(attachments(t)[len(attachments(t))-1])
	get := hub.Match{CDN: true, Method: "GET", Path: large}
	direct := hub.Match{Method: "GET", Path: small}
	cases := []struct {
		name   string
		file   string
		faults func(*hub.Server)
		want   string // of the error; "" = the file comes
		ranges []string
	}{
		{"none", large, nil, "", []string{""}},
		{"cut once", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(100)) }, "", []string{"", "bytes=100-"}},
		{"cut small once", small, func(s *hub.Server) { s.Fail(direct, 2, hub.Cut(10)) }, "", nil},
		{"cut four times", large, func(s *hub.Server) { s.Fail(get, 4, hub.Cut(50)) }, "", []string{"", "bytes=50-", "bytes=100-", "bytes=150-", "bytes=200-"}},
		{"cut always", large, func(s *hub.Server) { s.Fail(get, -1, hub.Cut(1)) }, "the connection was cut", []string{"", "bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-"}},
		{"stalled once", large, func(s *hub.Server) { s.Fail(get, 1, hub.Stall(20)) }, "", []string{"", "bytes=20-"}},
		{"stalled always", large, func(s *hub.Server) { s.Fail(get, -1, hub.Hang()) }, "nothing came for too long", nil},
		{"ignores the range", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(30)); s.Fail(get, 1, hub.IgnoreRange()) }, "", []string{"", "bytes=30-"}},
		{"another range", large, func(s *hub.Server) {
			s.Fail(get, 1, hub.Cut(30))
			s.Fail(get, 1, hub.Header("Content-Range", "bytes 7-99/100"))
		}, "", []string{"", "bytes=30-", ""}},
		{"refuses the range", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(30)); s.Fail(get, 1, hub.Answer(416, "text/plain", "")) }, "", []string{"", "bytes=30-", ""}},
		{"wrong bytes", large, func(s *hub.Server) { s.Fail(get, -1, hub.Garble()) }, "has the digest", []string{""}},
		{"wrong bytes after a cut", large, func(s *hub.Server) { s.Fail(get, 1, hub.Garble(), hub.Cut(30)) }, "", []string{"", "bytes=30-", ""}},
		{"small and wrong", small, func(s *hub.Server) { s.Fail(direct, -1, hub.Garble()) }, "has the digest", nil},
		{"too short", large, func(s *hub.Server) { s.Fail(get, 1, hub.Resize(-9)) }, "", nil},
		{"always too short", small, func(s *hub.Server) { s.Fail(direct, -1, hub.Resize(-9)) }, "where the hub promises", nil},
		{"too long", large, func(s *hub.Server) { s.Fail(get, -1, hub.Resize(9)) }, "where the hub promises", nil},
		{"500, 503, 429", large, func(s *hub.Server) {
			s.Fail(get, 1, hub.Answer(500, "text/plain", "oops"))
			s.Fail(get, 1, hub.Answer(503, "text/html", "<h1>"))
			s.Fail(hub.Match{Method: "GET"}, 1, hub.RateLimited(-1, 0))
		}, "", nil},
		{"an address that expired", large, func(s *hub.Server) { s.Fail(get, 1, hub.Answer(403, "application/xml", "<Error>expired</Error>")) }, "", nil},
		{"weak tag", small, func(s *hub.Server) {
			s.Fail(hub.Match{Method: "HEAD", Path: small}, -1, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(&weakTag{w}, r)
				})
			})
		}, "", nil},
		{"odd size", large, func(s *hub.Server) { s.Fail(hub.Match{Method: "HEAD"}, -1, hub.Header("X-Linked-Size", "many")) }, "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, config := serve(t)
			if strings.HasPrefix(c.name, "stalled") { // elsewhere a busy machine is to be waited for
				config.Patience = 250 * time.Millisecond
			}
			if c.faults != nil {
				c.faults(server)
			}
			got, err := read(t, config, c.file)
			if c.want == "" && (err != nil || !bytes.Equal(got, original(t, c.file))) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			var ranges []string
			for _, r := range server.Requests() {
				if r.CDN {
					ranges = append(ranges, r.Range)
				}
			}
			if c.ranges != nil && !slices.Equal(ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", ranges, c.ranges)
			}
			if server.Leaks() > 0 {
				t.Errorf("%d requests took the token elsewhere", server.Leaks())
			}
			if c.want != "" { // nothing that does not verify is a file of the cache
				config.Offline = true
				if _, err := read(t, config, c.file); err == nil {
					t.Error("and yet it is in the cache")
				}
			}
		})
	}
}

// weakTag marks the tag of an answer as weak, as proxies that compress do.
type weakTag struct{ http.ResponseWriter }

func (w *weakTag) WriteHeader(status int) {
	if tag := w.Header().Get("Etag"); tag != "" {
		w.Header().Set("Etag", "W/"+tag)
	}
	w.ResponseWriter.WriteHeader(status)
}

// An interrupted download goes on in another process, and what an earlier one left is not trusted.
func TestHubResumes(t *testing.T) {
	large := attachments(t)[0]
	size := len(original(t, large))
	server, c := serve(t)
	server.Fail(hub.Match{CDN: true}, -1, hub.Cut(0))
	server.Fail(hub.Match{CDN: true}, -1, hub.Cut(0))
	if _, err := read(t, c, large); err == nil {
		t.Fatal("came though it was cut")
	}
	partial, err := filepath.Glob(c.Cache + "/*/blobs/*.incomplete")
	if err != nil || len(partial) != 1 {
		t.Fatalf("%q, %v", partial, err)
	}
	for name, left := range map[string][]byte{
		"a good part":   original(t, large)[:size/2],
		"all of it":     original(t, large),
		"another part":  bytes.Repeat([]byte("x"), size/3),
		"another whole": bytes.Repeat([]byte("x"), size),
		"too much":      bytes.Repeat([]byte("x"), size+1),
	} {
		t.Run(name, func(t *testing.T) {
			server, again := serve(t)
			server.Heal()
			blobs := filepath.Join(again.Cache, "datasets--invented--tasks/blobs")
			if err := os.MkdirAll(blobs, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(blobs, filepath.Base(partial[0])), left, 0o644); err != nil {
				t.Fatal(err)
			}
			var seen []loader.Progress
			again.Progress = func(p loader.Progress) { seen = append(seen, p) }
			got, err := read(t, again, large)
			if err != nil || !bytes.Equal(got, original(t, large)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if name == "a good part" && (len(seen) == 0 || seen[0].Done <= int64(size/2) || seen[len(seen)-1] != (loader.Progress{Path: large, Done: int64(size), Size: int64(size), Kept: true})) {
				t.Errorf("progress %+v", seen)
			}
			if left, err := filepath.Glob(blobs + "/*.incomplete"); err != nil || left != nil {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

func TestHubFetchesOnce(t *testing.T) {
	large := attachments(t)[0]
	server, c := serve(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := read(t, c, large); err != nil || !bytes.Equal(got, original(t, large)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	n := 0
	for _, r := range server.Requests() {
		if r.CDN {
			n++
		}
	}
	if n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

func TestHubCancelled(t *testing.T) {
	large := attachments(t)[0]
	server, c := serve(t)
	server.Fail(hub.Match{CDN: true}, -1, hub.Stall(40))
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(loader.Progress) { cancel() }
	_, err := source(t, c).Open(ctx, first, large)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The token goes to the endpoint and nowhere else, and nothing goes from https to http.
func TestHubKeepsTheToken(t *testing.T) {
	var elsewhere []http.Header
	var mu sync.Mutex
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		elsewhere = append(elsewhere, r.Header.Clone())
	}))
	defer other.Close()
	server, c := serve(t)
	server.Fail(hub.Match{Method: "GET"}, -1, hub.Redirect(other.URL+"/x"))
	if _, err := read(t, c, attachments(t)[0]); err == nil {
		t.Error("took what another server sent")
	}
	if len(elsewhere) == 0 || slices.ContainsFunc(elsewhere, func(h http.Header) bool { return h.Get("Authorization") != "" }) {
		t.Errorf("the other server was sent %q", elsewhere)
	}
	secure := httptest.NewTLSServer(http.RedirectHandler(other.URL+"/x", http.StatusFound))
	defer secure.Close()
	before := len(elsewhere)
	server.Heal()
	server.Fail(hub.Match{Method: "GET"}, -1, hub.Redirect(secure.URL+"/x"))
	c.Transport = secure.Client().Transport
	c.Cache = t.TempDir()
	if _, err := read(t, c, attachments(t)[0]); err == nil || !strings.Contains(err.Error(), "where anybody could read along") || len(elsewhere) != before {
		t.Errorf("sent from https to http: %v", err)
	}
}
