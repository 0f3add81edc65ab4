package intercept

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestHeavy: what becomes large waits for memory that all attempts share, and nothing else does. At the end of an attempt what
// still waits is not looked through.
func TestHeavy(t *testing.T) {
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.Create("a.txt")
	must(t, err)
	for range 1000 {
		_, _ = io.WriteString(w, strings.Repeat(" ", 8<<10))
	}
	must(t, z.Close())
	bodies := map[string]string{"/coded": encoded(t, "gzip", strings.Repeat(" ", 1<<20)), "/zip": zipped.String(), "/small": page}
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/coded" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, _ = io.WriteString(w, bodies[q.URL.Path])
	}))}, func(s *settings) { s.bounds = func(b *bounds) { b.late = time.Millisecond } })
	must(t, heavy.Acquire(t.Context(), mostHeavy))
	defer heavy.Release(mostHeavy)
	var waits sync.WaitGroup
	for _, path := range []string{"/coded", "/zip"} {
		waits.Go(func() { r.get(r.client(false), "http://almanac.example"+path) })
	}
	for len(of[trajectory.ExchangeStarted](r)) < 2 {
		time.Sleep(time.Millisecond)
	}
	if status, body := r.get(r.client(false), "http://almanac.example/small"); status != 200 || body != page {
		t.Errorf("status %d, %q", status, body)
	}
	if done := of[trajectory.ExchangeCompleted](r); len(done) != 1 || done[0].Unprobed != 0 {
		t.Errorf("completed %+v", done)
	}
	r.finish()
	waits.Wait()
	for _, done := range of[trajectory.ExchangeCompleted](r)[1:] {
		if done.Unprobed != done.Bytes {
			t.Errorf("completed %+v", done)
		}
	}
}

// slowProbe waits with its first text for the end.
type slowProbe struct {
	begun chan struct{}
	end   <-chan struct{}
	texts atomic.Int64
}

func (p *slowProbe) Probe(document, _ string, _ []string) (none trajectory.Probes) {
	if strings.Contains(document, "entry") && p.texts.Add(1) == 1 {
		close(p.begun)
		<-p.end
	}
	return none
}

// TestLookEnds: a look through a reply with very many texts ends soon after the attempt does, and the reply counts as not probed.
func TestLookEnds(t *testing.T) {
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for i := range 20_000 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%d.txt", i), Method: zip.Store})
		must(t, err)
		fmt.Fprintf(w, "entry %d", i)
	}
	must(t, z.Close())
	late := make(chan struct{})
	probe := &slowProbe{begun: make(chan struct{}), end: late}
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = zipped.WriteTo(w)
	}))}, func(s *settings) {
		s.attempt.Probe = probe
		s.bounds = func(b *bounds) { b.late = time.Millisecond }
	})
	context.AfterFunc(r.proxy.late, func() { close(late) })
	go r.get(r.client(false), "http://almanac.example/")
	<-probe.begun
	r.finish()
	if done := r.completed(); done.Unprobed != done.Bytes || done.Bytes == 0 || probe.texts.Load() > 1 {
		t.Errorf("%d texts, recorded %+v", probe.texts.Load(), done)
	}
}

// TestTrailerAtHangUp: the trailers of a reply that the agent leaves are not read while they come.
func TestTrailerAtHangUp(t *testing.T) {
	r := newRig(t, map[string]string{"almanac.example:80": raw(t, "", func(c net.Conn, _ *http.Request) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTrailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(c, "0\r\nX-End: 1\r\n\r\n")
	})}, nil)
	for range 50 {
		ctx, hangUp := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, "GET", "http://almanac.example/", nil)
		must(t, err)
		res, err := r.client(false).Do(q)
		must(t, err)
		hangUp()
		res.Body.Close()
	}
	r.finish()
}

// TestUnheard: a reply to a request that says more than it is compared with is no source: it may be an echo.
func TestUnheard(t *testing.T) {
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		_, _ = w.Write(body[len(body)-len(ownText):])
	}))}, nil)
	res, err := r.client(false).Post("http://almanac.example/", "text/plain", strings.NewReader(strings.Repeat("filler ", maxArgs/7+1)+ownText))
	must(t, err)
	_, _ = io.ReadAll(res.Body)
	res.Body.Close()
	r.finish()
	if by, _ := r.origins.Divide(ownText); len(by) > 0 {
		t.Errorf("an echo is a source: %v", by)
	}
}

const ownText = "the lighthouse keeper wrote the ledger of tides by hand every single evening"

// TestSpoolFails: what cannot be kept in a file takes no room.
func TestSpoolFails(t *testing.T) {
	before := spooled.Load()
	for _, dir := range []string{t.TempDir() + "/none", t.TempDir()} {
		s := &spool{proxy: &Proxy{Config: Config{Dir: dir}, bounds: bounds{probed: 1 << 30, spools: 3 << 20}}}
		for range 8 {
			s.write(make([]byte, 1<<20))
		}
		if _, err := os.Stat(dir); err != nil && (s.bytes != 0 || spooled.Load() != before) || err == nil && s.bytes != 3<<20 {
			t.Errorf("%d bytes are kept, %d counted", s.bytes, spooled.Load()-before)
		}
		s.drop()
		if spooled.Load() != before {
			t.Errorf("%d bytes are still counted", spooled.Load()-before)
		}
	}
}

// TestHonestGaps: what the agent can read no more of than was probed is no gap: a compressed reply that it cut, a picture, and
// bytes of an unknown kind, which are told. A locked archive is one.
func TestHonestGaps(t *testing.T) {
	dense := make([]byte, 32<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(dense)
	whole := encoded(t, "gzip", page+fmt.Sprintf("%x", dense))
	r := newRig(t, map[string]string{"almanac.example:80": raw(t, "", func(c net.Conn, q *http.Request) {
		var body string
		switch q.URL.Path {
		case "/cut":
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole[:len(whole)/2])
			return
		case "/picture":
			body = "\x89PNG\r\n\x1a\n" + string(dense)
		case "/unknown":
			body = "\x01" + string(dense)
		case "/locked":
			body = "7z\xbc\xaf\x27\x1c" + string(dense)
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})}, nil)
	for _, tt := range []struct {
		path   string
		gap    bool
		media  bool
		opaque int
	}{{"/cut", false, false, 0}, {"/picture", false, true, 0}, {"/unknown", false, false, 1}, {"/locked", true, false, 0}} {
		r.get(r.client(false), "http://almanac.example"+tt.path)
		if done := r.completed(); (done.Unprobed > 0) != tt.gap || done.Media != tt.media || done.Opaque != tt.opaque || tt.path == "/cut" && (done.Error != "cut_short" || done.Probes.GoldHits == 0) {
			t.Errorf("%s: %+v", tt.path, done)
		}
	}
	r.finish()
}
