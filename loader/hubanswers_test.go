package loader_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
)

// over lets a test answer a request itself, or after what the server would answer.
func over(answer func(next http.Handler, w http.ResponseWriter, r *http.Request)) hub.Effect {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(next, w, r) })
	}
}

// What a server says of a file and what it sends are held against each other, whatever the way they are sent.
func TestHubAnswers(t *testing.T) {
	large := attachments(t)[0]
	data, digest := original(t, large), largeDigest(t, large)
	size := strconv.Itoa(len(data))
	head, get := hub.Match{Method: "HEAD"}, hub.Match{CDN: true, Method: "GET"}
	part := func(from, to int) hub.Effect {
		return hub.Answer(http.StatusPartialContent, "application/octet-stream", string(data[from:to]),
			"Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
	}
	redirect := func(s *hub.Server, location string) {
		s.Fail(hub.Match{Method: "GET"}, -1, hub.Redirect(location))
	}
	cases := []struct {
		name   string
		faults func(*hub.Server)
		want   string // of the error; "" = the file comes
		ranges []string
	}{
		{"another commit", func(s *hub.Server) { s.Fail(head, -1, hub.Header("X-Repo-Commit", second)) }, "asked for commit " + first + ", the hub answers with " + second, nil},
		{"named, and sent on within the hub", func(s *hub.Server) {
			s.Fail(head, -1, hub.Answer(http.StatusFound, "text/plain", "", "Location", s.URL+"/nowhere",
				"X-Repo-Commit", first, "X-Linked-Etag", `"`+digest+`"`, "X-Linked-Size", size))
		}, "", []string{""}},
		{"as large as no dataset", func(s *hub.Server) { s.Fail(head, -1, hub.Header("X-Linked-Size", "4294967297")) }, "has 4294967297 bytes, which no file of a dataset like GAIA has", nil},
		{"as large as can be said", func(s *hub.Server) { s.Fail(head, -1, hub.Header("X-Linked-Size", "9223372036854775807")) }, "which no file of a dataset like GAIA has", nil},
		{"larger than can be said", func(s *hub.Server) { s.Fail(head, -1, hub.Header("X-Linked-Size", "9223372036854775808")) }, "", []string{""}},
		{"smaller than nothing", func(s *hub.Server) { s.Fail(head, -1, hub.Header("X-Linked-Size", "-5")) }, "", []string{""}},
		{"of a size not said, in chunks", func(s *hub.Server) {
			s.Fail(head, -1, hub.Header("X-Linked-Size", ""))
			s.Fail(get, -1, hub.Header("Content-Length", ""))
		}, "", []string{""}},
		{"of a size not said, cut", func(s *hub.Server) {
			s.Fail(head, -1, hub.Header("X-Linked-Size", ""))
			s.Fail(get, 1, hub.Header("Content-Length", ""), hub.Cut(100))
		}, "", []string{"", ""}},
		{"of a size not said, wrong", func(s *hub.Server) {
			s.Fail(head, -1, hub.Header("X-Linked-Size", ""))
			s.Fail(get, -1, hub.Header("Content-Length", ""), hub.Garble())
		}, "has the digest", []string{""}},
		{"compressed unasked", func(s *hub.Server) {
			s.Fail(head, -1, hub.Header("X-Linked-Size", ""))
			s.Fail(get, -1, over(func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = z.Write(data)
				_ = z.Close()
			}))
		}, "has the digest", nil},
		{"a part unasked", func(s *hub.Server) { s.Fail(get, 1, part(50, len(data))) }, "", []string{"", ""}},
		{"the first part unasked", func(s *hub.Server) { s.Fail(get, 1, part(0, 50)) }, "", []string{"", "bytes=50-"}},
		{"always a part unasked", func(s *hub.Server) { s.Fail(get, -1, part(50, len(data))) }, "answers 206 Partial Content", []string{"", "", "", "", ""}},
		{"sent on to a file", func(s *hub.Server) { redirect(s, "file:///invented/secret") }, "sends on from http to file, where anybody could read along", nil},
		{"named at a file", func(s *hub.Server) { s.Fail(head, -1, hub.Redirect("file:///invented/secret")) }, "is no hub", nil},
		{"sent on with a password", func(s *hub.Server) { redirect(s, "http://user:secret@"+strings.TrimPrefix(s.CDN, "http://")+"/x") }, "answers 400 Bad Request", nil},
		{"sent on to nowhere with a password", func(s *hub.Server) { redirect(s, "http://user:secret@127.0.0.1:1/x") }, "connection refused", nil},
		{"no end of the body", func(s *hub.Server) {
			s.Fail(get, -1, over(func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := w.Write(data); err != nil {
						return
					}
				}
			}))
		}, "where the hub promises " + size, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, config := serve(t)
			c.faults(server)
			config.Progress = func(p loader.Progress) {
				if p.Done > int64(len(data))+1 { // one more shows that it is too long
					t.Errorf("%d bytes were read of what should have %d", p.Done, len(data))
				}
			}
			got, err := read(t, config, large)
			refused := (*loader.SourceError)(nil)
			switch {
			case c.want == "" && (err != nil || !bytes.Equal(got, data)):
				t.Errorf("%d bytes, %v", len(got), err)
			case c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || len(refused.Remedies) == 0 || strings.Contains(err.Error(), "secret")):
				t.Errorf("got %v, want %q", err, c.want)
			}
			var ranges []string
			for _, r := range server.Requests() {
				if r.CDN && r.File != "" {
					ranges = append(ranges, r.Range)
				}
			}
			if c.ranges != nil && !slices.Equal(ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", ranges, c.ranges)
			}
			if config.Offline = true; c.want != "" {
				if _, err := read(t, config, large); err == nil {
					t.Error("and yet it is in the cache")
				}
			}
		})
	}
}

// How long the hub wants to be left alone is told, and obeyed.
func TestHubWaitTold(t *testing.T) {
	for want, fault := range map[string]hub.Effect{
		"answers 503 Service Unavailable for " + parquet + "; trying again in 7s": hub.Answer(503, "text/html", "", "Retry-After", "7"),
		"counts too many requests":                         hub.RateLimited(8, -1),
		"trying again in 8s":                               hub.RateLimited(8, -1),
		"answers 500 Internal Server Error for " + parquet: hub.Answer(500, "text/html", ""),
	} {
		server, c := serve(t)
		server.Fail(hub.Match{}, -1, fault)
		ctx, cancel := context.WithCancel(t.Context())
		told := ""
		c.Notice = func(s string) { told = s; cancel() }
		if _, err := source(t, c).Open(ctx, first, parquet); !errors.Is(err, context.Canceled) || !strings.Contains(told, want) {
			t.Errorf("told %q, want %q; %v", told, want, err)
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%d requests before the wait is over", n)
		}
		cancel()
	}
}

// switches answers each request with 101 and keeps the connection open until the client leaves.
func switches(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "other")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// A hub that switches to another protocol is an error, and no wait.
func TestHubSwitches(t *testing.T) {
	t.Parallel()
	server, c := serve(t)
	server.Fail(hub.Match{}, -1, over(func(_ http.Handler, w http.ResponseWriter, r *http.Request) { switches(w, r) }))
	c.Patience = time.Hour // so that it does not end the request
	if _, err := read(t, c, attachments(t)[0]); err == nil || !strings.Contains(err.Error(), "does not speak HTTP as it should") {
		t.Errorf("got %v", err)
	}
}

// Patience is for the next byte, not for the whole: what comes slowly comes. Its size is not said, so that nothing of a
// try that was given up would help the next.
func TestHubPatience(t *testing.T) {
	t.Parallel()
	large := attachments(t)[0]
	data := original(t, large)
	server, c := serve(t)
	c.Patience = 500 * time.Millisecond
	server.Fail(hub.Match{Method: "HEAD"}, -1, hub.Header("X-Linked-Size", ""))
	server.Fail(hub.Match{CDN: true}, -1, over(func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
		const parts = 8
		for i := range parts {
			_, _ = w.Write(data[i*len(data)/parts : (i+1)*len(data)/parts])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(c.Patience / 4):
			case <-r.Context().Done():
				return
			}
		}
	}))
	if got, err := read(t, c, large); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A token that a server repeats, wherever it does, is not shown.
func TestHubDoesNotRepeatToken(t *testing.T) {
	const token = "hf_inventedInventedInventedInvented12"
	for name, answer := range map[string]string{
		"in the message":             "HTTP/1.1 403 Forbidden\r\nX-Error-Message: no access with " + token + "\r\nContent-Length: 0\r\n\r\n",
		"late in the message":        "HTTP/1.1 403 Forbidden\r\nX-Error-Message: " + strings.Repeat("x", 280) + token + "\r\nContent-Length: 0\r\n\r\n",
		"in a malformed header":      "HTTP/1.1 200 OK\r\n" + token + "\r\n\r\n",
		"as the status":              "HTTP/1.1 " + token + "\r\n\r\n",
		"as the protocol":            token + " 200 OK\r\n\r\n",
		"as the length":              "HTTP/1.1 200 OK\r\nContent-Length: " + token + "\r\n\r\n",
		"as the encoding":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + token + "\r\n\r\n",
		"in an address of no use":    "HTTP/1.1 302 Found\r\nLocation: http://[" + token + "\r\nContent-Length: 0\r\n\r\n",
		"as the scheme's rest":       "HTTP/1.1 302 Found\r\nLocation: gopher://" + token + "/\r\nContent-Length: 0\r\n\r\n",
		"in an address of no scheme": "HTTP/1.1 302 Found\r\nLocation: %" + token + "\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("sent %q", r.Header.Get("Authorization"))
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}))
			defer server.Close()
			var told []string
			c := loader.HubConfig{Endpoint: server.URL, Repo: repo, Revision: "main", Token: token, TokenFrom: "HF_TOKEN", Cache: t.TempDir(),
				Transport: http.DefaultTransport, FirstWait: time.Millisecond, Notice: func(s string) { told = append(told, s) }}
			_, err := source(t, c).Open(t.Context(), first, parquet)
			if err == nil {
				t.Fatal("opened")
			}
			refused := (*loader.SourceError)(nil)
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			for _, said := range slices.Concat([]string{err.Error()}, told, refused.Remedies) {
				if strings.Contains(said, token[:12]) {
					t.Errorf("shown: %s", said)
				}
			}
		})
	}
}

// What was given up leaves nothing running.
func TestHubLeavesNothingRunning(t *testing.T) {
	large := attachments(t)[0]
	for name, c := range map[string]struct {
		fault   hub.Effect
		givesUp bool
	}{
		"given up":              {hub.Stall(40), true},
		"given up without head": {hub.Hang(), true},
		"too long":              {hub.Resize(1 << 20), false},
		"refused":               {hub.Answer(403, "text/plain", strings.Repeat("x", 1<<20)), false},
	} {
		t.Run(name, func(t *testing.T) {
			server, config := serve(t)
			server.Fail(hub.Match{CDN: true}, -1, c.fault)
			transport := &http.Transport{}
			config.Transport = transport
			before := runtime.NumGoroutine()
			ctx := t.Context()
			if c.givesUp {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			if _, err := source(t, config).Open(ctx, first, large); err == nil {
				t.Fatal("opened")
			}
			transport.CloseIdleConnections()
			for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					stacks := make([]byte, 1<<16)
					t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				}
			}
		})
	}
}
