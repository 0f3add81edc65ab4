package intercept

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestFaults: what a server does wrong is recorded as it was, ends no other way than it did, and tells the agent nothing that is
// not recorded.
func TestFaults(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	sends := func(parts ...string) func(net.Conn, *http.Request) {
		return func(c net.Conn, _ *http.Request) {
			for _, part := range parts {
				_, _ = io.WriteString(c, part)
			}
		}
	}
	waits := func(part string) func(net.Conn, *http.Request) {
		return func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, part)
			_, _ = c.Read(make([]byte, 1))
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	must(t, z.Close())
	tests := []struct {
		name   string
		serve  func(net.Conn, *http.Request)
		status int    // that the agent sees; 0: it is cut
		body   string // what the agent gets, or its beginning where it is cut
		code   string // that is recorded
		seen   int    // status that is recorded
	}{
		{"hangs up at once", sends(), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"no HTTP", sends("SSH-2.0-Port Ellemere\r\n"), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"half a header", sends(ok), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"endless header", sends(ok, strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 80), "\r\n"), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"endless hints", sends(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <"+strings.Repeat("x", 4000)+">\r\n\r\n", 40), ok, "\r\n"), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"a header that waits", waits(ok), 504, "timeout: the server took too long\n", "timeout", 0},
		{"a switch", sends("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, "upgrade_refused: the server switched to another protocol, which is not recorded\n", "upgrade_refused", 0},
		{"an odd status", sends("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"), 502, "invalid_reply: the server did not answer in HTTP\n", "invalid_reply", 0},
		{"a length below nothing", sends(ok, "Content-Length: -1\r\n\r\nx"), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"two lengths", sends(ok, "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy"), 502, "invalid_reply: the server gave no reply that can be read\n", "invalid_reply", 0},
		{"less than its length", sends(ok, "Content-Length: 10\r\n\r\nabc"), 0, "", "cut_short", 200},
		{"more than its length", sends(ok, "Content-Length: 3\r\n\r\nabcdef"), 200, "abc", "", 200},
		{"half a chunk", sends(ok, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwo"), 0, "", "cut_short", 200},
		{"no last chunk", sends(ok, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), 0, "", "cut_short", 200},
		{"an odd chunk", sends(ok, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"), 0, "", "cut_short", 200},
		{"ends with its connection", sends(ok, "\r\nhello"), 200, "hello", "", 200},
		{"a status of the proxy", sends("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno"), 407, "no", "", 407},
		{"a large status", sends("HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nno"), 999, "no", "", 999},
		{"an odd reason", sends("HTTP/1.1 404 Port Ellemere\r\nContent-Length: 2\r\n\r\nno"), 404, "no", "", 404},
		{"hostile headers", sends("HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX Y: 1\r\nUpgrade: h3\r\nContent-Length: 2\r\n\r\nok"), 200, "ok", "", 200},
		{"a reply that is too large", sends(ok, "Content-Length: 5000000\r\n\r\n"), 502, "reply_too_large: the body of a reply has 4000000 bytes at most\n", "reply_too_large", 200},
		{"an endless reply", func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, ok+"\r\n")
			for part := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := c.Write(part); err != nil {
					return
				}
			}
		}, 0, "xxx", "reply_too_large", 200},
		{"a bomb", sends(ok, "Content-Encoding: gzip\r\nContent-Length: ", fmt.Sprint(bomb.Len()), "\r\n\r\n", bomb.String()), 200, bomb.String(), "", 200},
		{"damaged gzip", sends(ok, "Content-Encoding: gzip\r\nContent-Length: 30\r\n\r\n", bomb.String()[:30]), 200, bomb.String()[:30], "", 200},
		{"no gzip", sends(ok, "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello", "", 200},
		{"an unknown coding", sends(ok, "Content-Encoding: x-own\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello", "", 200},
		{"many codings", sends(ok, "Content-Encoding: gzip, gzip, gzip, gzip, gzip\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello", "", 200},
	}
	for _, tt := range tests {
		for _, host := range []string{"", "almanac.example"} { // with TLS
			t.Run(fmt.Sprintf("%s tls=%t", tt.name, host != ""), func(t *testing.T) {
				t.Parallel()
				scheme, port := "http", "80"
				if host != "" {
					scheme, port = "https", "443"
				}
				r := newRig(t, map[string]string{"almanac.example:" + port: raw(t, host, tt.serve)}, func(s *settings) {
					s.bounds = func(b *bounds) { b.reply, b.probed = 4_000_000, 1<<20 }
				})
				r.proxy.idle.ResponseHeaderTimeout = 2 * time.Second
				status, body := r.get(r.client(false), scheme+"://almanac.example/")
				if status != tt.status || tt.status != 0 && body != tt.body || tt.status == 0 && body != "" && !strings.HasPrefix(body, tt.body) {
					t.Errorf("status %d, %.200q", status, body)
				}
				r.finish()
				done := r.completed()
				if done.Status != tt.seen || done.Error != tt.code || done.Number != 1 || (done.Bytes > 0) != (done.SHA256 != "") {
					t.Errorf("recorded %+v", done)
				}
				if tt.status != 0 && tt.code == "" && done.SHA256 != canonical.Digest([]byte(body)) {
					t.Error("the digest is not of what the agent got")
				}
				if odd := strings.Contains(tt.name, "gzip") || strings.Contains(tt.name, "coding") || tt.name == "a bomb"; odd != (done.Unprobed == done.Bytes && done.Bytes > 0) && tt.code != "reply_too_large" {
					t.Errorf("unprobed are %d of %d bytes", done.Unprobed, done.Bytes)
				}
			})
		}
	}
}

// TestCertificates: a server whose certificate is not valid for it is not spoken to.
func TestCertificates(t *testing.T) {
	var reached atomic.Int32
	other := serve(t, "https", "other.example", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	for _, known := range []bool{true, false} {
		r := newRig(t, map[string]string{"almanac.example:443": other, "other.example:443": other}, func(s *settings) {
			if !known {
				s.Roots = nil
			}
		})
		address := "https://other.example/"
		if known {
			address = "https://almanac.example/"
		}
		if status, body := r.get(r.client(false), address); status != 502 || body != "certificate_invalid: the certificate of the server is not valid for it\n" {
			t.Errorf("status %d, %q", status, body)
		}
		if r.finish(); reached.Load() != 0 || r.completed().Error != "certificate_invalid" {
			t.Errorf("recorded %+v", r.completed())
		}
	}
}

// TestHangUp: wherever the agent hangs up, its exchange is recorded, and the server is let go.
func TestHangUp(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			sent   bool // the request leaves
			status int  // that is recorded
		}{
			{"in its header", false, 0}, {"in its body", false, 0}, {"before the reply", true, 0}, {"in the reply", true, 200}, {"in a stream", true, 200}, {"does not read", true, 200},
		} {
			t.Run(fmt.Sprintf("%s h2=%t", tt.name, h2), func(t *testing.T) {
				t.Parallel()
				begun, left := make(chan struct{}, 1), make(chan struct{}, 1)
				handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					begun <- struct{}{}
					switch tt.name {
					case "in the reply":
						w.Header().Set("Content-Length", "1000000")
						_, _ = io.WriteString(w, strings.Repeat("x", 1000))
					case "in a stream":
						_, _ = io.WriteString(w, "data: x\n\n")
					case "does not read":
						for q.Context().Err() == nil {
							_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
						}
					}
					if tt.status != 0 {
						_ = http.NewResponseController(w).Flush()
					}
					<-q.Context().Done()
					left <- struct{}{}
				})
				r := newRig(t, map[string]string{"almanac.example:443": serve(t, "https", "almanac.example", handler)}, func(s *settings) {
					s.bounds = func(b *bounds) { b.write = 200 * time.Millisecond }
				})
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://almanac.example/", nil)
				must(t, err)
				c := r.client(h2)
				switch tt.name {
				case "in its header":
					c, err := r.tunnel("almanac.example:443", nil)
					must(t, err)
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: alm")
					c.NetConn().Close()
				case "in its body":
					if h2 {
						in, out := io.Pipe()
						q.Body, q.ContentLength = in, 100
						go func() {
							_, _ = io.WriteString(out, "half")
							r.waitForBody()
							hangUp()
						}()
						if _, err := c.Do(q); err == nil {
							t.Error("it is answered")
						}
						break
					}
					c, err := r.tunnel("almanac.example:443", nil)
					must(t, err)
					_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: almanac.example\r\nContent-Length: 100\r\n\r\nhalf")
					r.waitForBody()
					c.NetConn().Close()
				case "before the reply":
					go func() {
						<-begun
						hangUp()
					}()
					if _, err := c.Do(q); err == nil {
						t.Error("it is answered")
					}
				default:
					res, err := c.Do(q)
					must(t, err)
					defer res.Body.Close()
					if tt.name != "does not read" {
						_, err = res.Body.Read(make([]byte, 100))
						must(t, err)
						hangUp()
					}
				}
				if tt.sent {
					<-left
				}
				r.proxy.running.Wait()
				if tt.sent {
					if done := r.completed(); done.Error != "hung_up" || done.Status != tt.status || (done.Bytes > 0) != (tt.status != 0) {
						t.Errorf("recorded %+v", done)
					}
				} else if codes := r.codes(); len(of[trajectory.ExchangeStarted](r)) != 0 || len(codes) > 1 || len(codes) == 1 && codes[0] != "hung_up" || len(codes) == 0 && tt.name == "in its body" {
					t.Errorf("refused %q", codes)
				}
				r.finish()
			})
		}
	}
}

// TestRecordingFails: where an event cannot be recorded, what it is of does not happen, everything is cut, and nothing is taken
// after.
func TestRecordingFails(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for failAt := 1; failAt <= 4; failAt++ {
			for _, known := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s sync %d length=%t", scheme, failAt, known), func(t *testing.T) {
					var reached, left atomic.Int32
					handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
						if q.URL.Path == "/wait" {
							_, _ = io.WriteString(w, "data: x\n\n")
							_ = http.NewResponseController(w).Flush()
							<-q.Context().Done()
							left.Add(1)
							return
						}
						reached.Add(1)
						if !known {
							_ = http.NewResponseController(w).Flush()
						}
						_, _ = io.WriteString(w, page)
					})
					port := map[string]string{"http": ":80", "https": ":443"}[scheme]
					r := newRig(t, map[string]string{"almanac.example" + port: serve(t, scheme, "almanac.example", handler)}, func(s *settings) {
						s.bounds = func(b *bounds) { b.hold = time.Minute }
					})
					r.journal.mu.Lock()
					r.journal.failAt = failAt
					r.journal.mu.Unlock()
					var got []string
					for range 3 {
						status, body := r.get(r.client(false), scheme+"://almanac.example/")
						got = append(got, fmt.Sprint(status, " ", len(body)))
					}
					whole := fmt.Sprint("200 ", len(page))
					want := [][]string{nil, {"0 0", "0 0", "0 0"}, {"0 0", "0 0", "0 0"}, {whole, "0 0", "0 0"}, {whole, "0 0", "0 0"}}[failAt]
					if !slices.Equal(got, want) || int(reached.Load()) != failAt/2 {
						t.Errorf("got %q, and the server was reached %d times", got, reached.Load())
					}
					if !errors.Is(r.proxy.Err(), trajectory.ErrNotRecorded) {
						t.Errorf("the error is %v", r.proxy.Err())
					}
					r.proxy.Close()
				})
			}
		}
	}
}

// TestFailureCutsAll: streams, tunnels and uploads that are under way are cut where recording fails elsewhere.
func TestFailureCutsAll(t *testing.T) {
	var left sync.WaitGroup
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/wait" {
			return
		}
		defer left.Done()
		_, _ = io.WriteString(w, "data: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	exceptions := map[string]string{"almanac.example:80": serve(t, "http", "", handler), "almanac.example:443": serve(t, "https", "almanac.example", handler)}
	r := newRig(t, exceptions, nil)
	left.Add(3)
	var streams []io.Reader
	for _, h2 := range []bool{false, true} {
		res, err := r.client(h2).Get("https://almanac.example/wait")
		must(t, err)
		defer res.Body.Close()
		streams = append(streams, res.Body)
	}
	res, err := r.client(false).Get("http://almanac.example/wait")
	must(t, err)
	defer res.Body.Close()
	idle, err := r.tunnel("almanac.example:443", nil)
	must(t, err)
	upload := r.dial("POST http://almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\nContent-Length: 100\r\n\r\nhalf")
	streams = append(streams, res.Body, idle, upload)
	r.journal.mu.Lock()
	r.journal.failAt = r.journal.synced + 1
	r.journal.mu.Unlock()
	if status, _ := r.get(r.client(false), "http://almanac.example/"); status != 0 {
		t.Errorf("status %d", status)
	}
	for i, s := range streams {
		if b, err := io.ReadAll(s); err == nil && i < 3 || len(b) > 9 {
			t.Errorf("stream %d ends with %q, %v", i, b, err)
		}
	}
	left.Wait()
	r.proxy.Close()
}

// TestHeldEnd: the agent has the end of a reply once the exchange is durable, and a stream as it comes.
func TestHeldEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		h2   bool
		head func(http.Header)
		got  int // bytes that come before the exchange is durable
	}{
		{"length", false, func(h http.Header) { h.Set("Content-Length", "15") }, 10},
		{"length, over HTTP/2", true, func(h http.Header) { h.Set("Content-Length", "15") }, 10},
		{"chunks", false, func(http.Header) {}, 10},
		{"chunks, over HTTP/2", true, func(http.Header) {}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := make(chan string)
			handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				tt.head(w.Header())
				for part := range next {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
				}
			})
			hold := make(chan struct{}, 16)
			r := newRig(t, map[string]string{"almanac.example:443": serve(t, "https", "almanac.example", handler)}, func(s *settings) { s.journal.hold = hold })
			hold <- struct{}{} // the request
			got := make(chan *http.Response)
			go func() {
				res, err := r.client(tt.h2).Get("https://almanac.example/")
				if err != nil {
					t.Error(err)
				}
				got <- res
			}()
			next <- "first"
			res := <-got
			defer res.Body.Close()
			body := bufio.NewReader(res.Body)
			expect := func(want string) {
				t.Helper()
				b := make([]byte, len(want))
				if _, err := io.ReadFull(body, b); err != nil || string(b) != want {
					t.Fatalf("got %q, %v", b, err)
				}
			}
			expect("first")
			next <- "after"
			expect("after")
			more := make(chan int, 1)
			go func() {
				b, err := io.ReadAll(body)
				if err != nil {
					t.Error(err)
				}
				more <- len(b)
			}()
			next <- "final"
			close(next)
			select {
			case <-more:
				t.Error("the end came before it was durable")
			case <-time.After(50 * time.Millisecond):
			}
			close(hold)
			if n := <-more; n != 5 {
				t.Errorf("%d bytes came last", n)
			}
			r.journal.hold = nil
			r.finish()
		})
	}
}

// TestParallel: exchanges at once have numbers in the order of the journal, and wait for their place.
func TestParallel(t *testing.T) {
	var now, most atomic.Int32
	full := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if n := now.Add(1); n > most.Load() {
			if most.Store(n); n == mostAtOnce {
				close(full)
			}
		}
		<-full
		now.Add(-1)
		_, _ = io.WriteString(w, q.URL.Path)
	})
	r := newRig(t, map[string]string{"almanac.example:443": serve(t, "https", "almanac.example", handler)}, nil)
	const requests = 3 * mostAtOnce
	var done sync.WaitGroup
	c := r.client(false)
	for i := range requests {
		done.Go(func() {
			if status, body := r.get(c, fmt.Sprintf("https://almanac.example/%d", i)); status != 200 || body != fmt.Sprintf("/%d", i) {
				t.Errorf("status %d, %q", status, body)
			}
		})
	}
	done.Wait()
	r.finish()
	if n := len(of[trajectory.ExchangeCompleted](r)); n != requests || most.Load() != mostAtOnce {
		t.Errorf("%d exchanges, %d at once", n, most.Load())
	}
}

// TestContextEnds: when the run is stopped or the attempt ends, what is under way is cut at once and recorded.
func TestContextEnds(t *testing.T) {
	for _, closed := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		begun := make(chan struct{})
		handler := http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			close(begun)
			<-q.Context().Done()
		})
		r := newRig(t, map[string]string{"almanac.example:443": serve(t, "https", "almanac.example", handler)}, func(s *settings) { s.ctx = ctx })
		answered := make(chan int)
		go func() {
			status, _ := r.get(r.client(true), "https://almanac.example/")
			answered <- status
		}()
		<-begun
		if closed {
			r.proxy.Close()
		} else {
			stop()
		}
		if status := <-answered; status != 0 {
			t.Errorf("status %d", status)
		}
		r.finish()
		if done := r.completed(); done.Error != "cut" || r.proxy.Err() != nil {
			t.Errorf("recorded %+v, %v", done, r.proxy.Err())
		}
		if status, _ := r.get(r.client(false), "https://almanac.example/"); status != 0 {
			t.Errorf("after Close a request got status %d", status)
		}
		stop()
	}
}

// TestLargeBodies: a reply of any size passes whole with a bounded memory; what is beyond the bounds is not probed.
func TestLargeBodies(t *testing.T) {
	size := int64(192 << 20)
	if long.Thorough() {
		size = MaxReply
	}
	block := bytes.Repeat([]byte("All that glitters is not gold.\n"), 1<<10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.WriteString(w, page)
		for left := size - int64(len(page)); left > 0; left -= int64(len(block)) {
			_, _ = w.Write(block[:min(left, int64(len(block)))])
		}
	})
	dir := t.TempDir()
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", handler)}, func(s *settings) {
		s.Dir = dir
		s.bounds = func(b *bounds) { b.probed = 8 << 20 }
	})
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := r.client(false).Get("http://almanac.example/")
	must(t, err)
	defer res.Body.Close()
	var most uint64
	var n int64
	for b := make([]byte, 1<<20); ; {
		got, err := res.Body.Read(b)
		if n += int64(got); n%(32<<20) < int64(got) {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if err != nil {
			break
		}
	}
	if n != size {
		t.Errorf("%d bytes came", n)
	}
	if most > before.HeapAlloc+64<<20 {
		t.Errorf("the heap grew by %d MiB", (most-before.HeapAlloc)>>20)
	}
	r.finish()
	if done := r.completed(); done.Bytes != size || done.Unprobed < size-8<<20 || done.Unprobed >= size || done.Probes.GoldHits == 0 || !done.Truncated {
		t.Errorf("recorded %+v", done)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if n := spooled.Load(); n != 0 {
		t.Errorf("%d bytes of replies are still in files", n)
	}
}
