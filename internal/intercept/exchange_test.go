package intercept

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/klauspost/compress/zstd"
)

var discard = log.New(io.Discard, "", 0)

const page = "<p>The steamer left Port Ellemere at dawn, says the log of the pilot.</p>"

// encoded returns a text in a content coding.
func encoded(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return text
	}
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

// TestExchange: what the agent asks for and is answered passes byte for byte, whatever is spoken, and the journal has it, the
// text of the reply, its probes, and nothing of headers.
func TestExchange(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for _, h2 := range []bool{false, true} {
			if h2 && scheme == "http" {
				continue
			}
			for _, coding := range []string{"", "gzip", "deflate", "raw", "br", "zstd", "gzip, br"} {
				for _, known := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s h2=%t %q length=%t", scheme, h2, coding, known), func(t *testing.T) {
						body := page
						for name := range strings.SplitSeq(coding, ", ") {
							body = encoded(t, name, body)
						}
						var got *http.Request
						var sent []byte
						r := newRig(t, map[string]string{"almanac.example:80": "", "almanac.example:443": ""}, func(s *settings) {
							handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
								got = q
								sent, _ = io.ReadAll(q.Body)
								h := w.Header()
								h.Set("Content-Type", "text/html; charset=utf-8")
								h.Set("Set-Cookie", "id=secret-cookie")
								h.Set("Alt-Svc", `h3=":443"`)
								h.Set("Keep-Alive", "timeout=5")
								if coding != "" {
									h.Set("Content-Encoding", strings.Replace(coding, "raw", "deflate", 1))
								}
								if !known {
									_ = http.NewResponseController(w).Flush()
								}
								_, _ = io.WriteString(w, body)
							})
							port := map[string]string{"http": ":80", "https": ":443"}[scheme]
							s.exceptions = map[string]string{"almanac.example" + port: serve(t, scheme, "almanac.example", handler)}
							s.attempt.Full = true
						})
						address := scheme + "://almanac.example/tides?place=x%2Fy&key=hunter2-invented"
						const request = "where=harbour&token=hunter2-invented"
						q, err := http.NewRequest(http.MethodPost, address, strings.NewReader(request))
						must(t, err)
						q.Header.Set("Cookie", "id=secret-cookie")
						q.Header.Set("Authorization", "Bearer secret-token")
						q.Header.Set("Proxy-Authorization", "Basic secret-token")
						q.Header.Set("Accept-Encoding", "gzip;q=0.5, compress, br, deflate, zstd, *;q=0.1")
						res, err := r.client(h2).Do(q)
						must(t, err)
						defer res.Body.Close()
						answer, err := io.ReadAll(res.Body)
						must(t, err)
						if string(answer) != body || res.StatusCode != 200 || (res.ContentLength == int64(len(body))) != known || res.ProtoMajor == 2 != h2 {
							t.Errorf("status %d, length %d, %s, %q", res.StatusCode, res.ContentLength, res.Proto, answer)
						}
						if h := res.Header; h.Get("Alt-Svc") != "" || h.Get("Keep-Alive") != "" || h.Get("Set-Cookie") == "" || h.Get("Content-Type") == "" {
							t.Errorf("the agent got %v", h)
						}
						if h := got.Header; string(sent) != request || got.RequestURI != "/tides?place=x%2Fy&key=hunter2-invented" || got.Host != "almanac.example" || h.Get("Cookie") == "" ||
							h.Get("Authorization") == "" || h.Get("Proxy-Authorization") != "" || h.Get("Accept-Encoding") != "gzip;q=0.5, br, deflate, zstd" || got.UserAgent() != "Go-http-client/"+map[bool]string{false: "1.1", true: "2.0"}[h2] {
							t.Errorf("the server got %s %v, %q", got.RequestURI, h, sent)
						}
						r.finish()
						if text := r.journal.text(); strings.Contains(text, "secret-") || strings.Contains(text, "hunter2") || strings.Contains(fmt.Sprint(r.journal.bodies), "hunter2") {
							t.Error("a secret is recorded")
						}
						started, done := of[trajectory.ExchangeStarted](r)[0], of[trajectory.ExchangeCompleted](r)[0]
						if started.Number != 1 || started.Method != "POST" || started.URL != scheme+"://almanac.example/tides?place=x%2Fy&key=[redacted]" || started.Redactions != 1 ||
							started.SHA256 != canonical.Digest([]byte(request)) || started.Bytes != int64(len(request)) || r.journal.bodies[started.BodySHA256] != "where=harbour&token=[redacted]" {
							t.Errorf("started %+v", started)
						}
						if done.Number != 1 || done.Status != 200 || done.Error != "" || done.SHA256 != canonical.Digest([]byte(body)) || done.Bytes != int64(len(body)) || done.Head != page ||
							done.Truncated || done.Unprobed != 0 || done.ContentType != "text/html; charset=utf-8" || r.journal.bodies[done.BodySHA256] != page {
							t.Errorf("completed %+v", done)
						}
						if done.Probes == nil || done.Probes.GoldHits != 1 {
							t.Errorf("probes %+v", done.Probes)
						}
						if by, _ := r.origins.Divide(page); by[origin.Exchange] != int64(len(page)) {
							t.Errorf("the page is divided as %v", by)
						}
					})
				}
			}
		}
	}
}

// TestForms: replies and requests of all forms pass as they are.
func TestForms(t *testing.T) {
	long := strings.Repeat("All that glitters is not gold. ", 10_000)
	handler := http.NewServeMux()
	handler.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
	})
	handler.HandleFunc("/same", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"a"`)
		w.WriteHeader(http.StatusNotModified)
	})
	handler.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	handler.HandleFunc("/moved", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/head", http.StatusFound) })
	handler.HandleFunc("/missing", http.NotFound)
	handler.HandleFunc("/range", func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "a.txt", time.Time{}, strings.NewReader(long))
	})
	handler.HandleFunc("/echo", func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %d %v %s", q.Method, q.ContentLength, q.Trailer, b)
	})
	handler.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "Port Ellemere")
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	})
	handler.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	for _, scheme := range []string{"http", "https"} {
		for _, h2 := range []bool{false, true} {
			if h2 && scheme == "http" {
				continue
			}
			t.Run(fmt.Sprintf("%s h2=%t", scheme, h2), func(t *testing.T) {
				r := newRig(t, map[string]string{map[string]string{"http": "almanac.example:80", "https": "almanac.example:443"}[scheme]: serve(t, scheme, "almanac.example", handler)}, nil)
				c := r.client(h2)
				do := func(method, path string, body io.Reader, header ...string) (*http.Response, string) {
					t.Helper()
					q, err := http.NewRequest(method, scheme+"://almanac.example"+path, body)
					must(t, err)
					for i := 0; i+1 < len(header); i += 2 {
						q.Header.Set(header[i], header[i+1])
					}
					if q.Header.Get("Trailer") != "" {
						q.Trailer = http.Header{"X-After": {"1"}}
						q.ContentLength = -1
					}
					res, err := c.Do(q)
					must(t, err)
					defer res.Body.Close()
					b, err := io.ReadAll(res.Body)
					must(t, err)
					return res, string(b)
				}
				if res, _ := do("HEAD", "/head", nil); res.StatusCode != 200 || res.ContentLength != 1234 {
					t.Errorf("%+v", res)
				}
				if res, _ := do("GET", "/same", nil, "If-None-Match", `"a"`); res.StatusCode != 304 || res.Header.Get("Etag") == "" {
					t.Errorf("%+v", res)
				}
				if res, _ := do("DELETE", "/nothing", nil); res.StatusCode != 204 {
					t.Errorf("%+v", res)
				}
				if res, _ := do("GET", "/moved", nil); res.StatusCode != 302 || res.Header.Get("Location") != "/head" {
					t.Errorf("%+v", res)
				}
				if res, _ := do("GET", "/missing", nil); res.StatusCode != 404 {
					t.Errorf("%+v", res)
				}
				if res, body := do("GET", "/range", nil, "Range", "bytes=4-8"); res.StatusCode != 206 || body != "that " || res.Header.Get("Content-Range") == "" {
					t.Errorf("%+v, %q", res, body)
				}
				if _, body := do("GET", "/range", nil); body != long {
					t.Errorf("%d bytes", len(body))
				}
				if done := r.completed(); !done.Truncated || done.Head != long[:trajectory.ExchangeHead] || done.Unprobed != 0 {
					t.Errorf("%+v", done)
				}
				if _, body := do("POST", "/echo", strings.NewReader("")); !strings.HasPrefix(body, "POST 0 map[] ") {
					t.Error(body)
				}
				if _, body := do("PUT", "/echo", io.MultiReader(strings.NewReader("in "), strings.NewReader("chunks"))); !strings.HasSuffix(body, " map[] in chunks") {
					t.Error(body)
				}
				if _, body := do("PUT", "/echo", strings.NewReader("with trailers"), "Trailer", "X-After"); !strings.HasSuffix(body, "map[X-After:[1]] with trailers") {
					t.Error(body)
				}
				continued := false
				q, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { continued = true }}), "POST", scheme+"://almanac.example/echo", strings.NewReader("expected"))
				must(t, err)
				q.Header.Set("Expect", "100-continue")
				res, err := c.Do(q)
				must(t, err)
				res.Body.Close()
				if !continued || res.StatusCode != 200 {
					t.Errorf("continued: %t, status %d", continued, res.StatusCode)
				}
				if res, body := do("GET", "/trailers", nil); body != "body" || res.Trailer.Get("X-Sum") != testGold || res.Trailer.Get("X-Late") != "1" {
					t.Errorf("%q, %v", body, res.Trailer)
				}
				if done := r.completed(); done.Probes.GoldHits != 1 {
					t.Errorf("the trailer is not probed: %+v", done.Probes)
				}
				hinted := false
				q, err = http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { hinted = true; return nil }}), "GET", scheme+"://almanac.example/hints", nil)
				must(t, err)
				res, err = c.Do(q)
				must(t, err)
				res.Body.Close()
				if hinted {
					t.Error("what comes before the reply, and is not recorded, is passed on")
				}
				r.finish()
				numbers := map[int]bool{}
				for _, done := range of[trajectory.ExchangeCompleted](r) {
					numbers[done.Number] = true
					if done.Error != "" {
						t.Errorf("%+v", done)
					}
				}
				if n := slices.Max(slices.Collect(maps.Keys(numbers))); n != 13 || len(numbers) != n {
					t.Errorf("%d exchanges up to number %d", len(numbers), n)
				}
			})
		}
	}
}

// TestEcho: what the agent brings along and a server repeats comes from the agent, wherever in the request it stood.
func TestEcho(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		fmt.Fprint(w, q.URL.Path, " ", q.FormValue("q"), " ", q.UserAgent(), " ", string(b), " ")
		if text, err := base64.StdEncoding.DecodeString(q.FormValue("64")); err == nil {
			_, _ = w.Write(text)
		}
	})
	const brought = "The steamer Calluna left Port Ellemere in the night."
	for _, tt := range []struct{ name, target, agent, body string }{
		{"query", "/?q=" + url.QueryEscape(brought), "", ""},
		{"path", "/" + url.PathEscape(brought), "", ""},
		{"header", "/", brought, ""},
		{"body", "/", "", brought},
		{"packed body", "/", "", encoded(t, "gzip", brought)},
		{"base64", "/?64=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(brought))), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", handler)}, nil)
			q, err := http.NewRequest(http.MethodPost, "http://almanac.example"+tt.target, strings.NewReader(tt.body))
			must(t, err)
			q.Header.Set("User-Agent", tt.agent)
			res, err := r.client(false).Do(q)
			must(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			must(t, err)
			res.Body.Close()
			r.finish()
			if own := of[trajectory.ExchangeStarted](r)[0].Own; own == nil || own.GoldHits == 0 {
				t.Errorf("probes of the request: %+v", own)
			}
			if by, _ := r.origins.Divide(brought); by[origin.Exchange] != 0 {
				t.Errorf("it is witnessed as %v", by)
			}
		})
	}
	t.Run("explained", func(t *testing.T) { // what was given to it may be asked for
		r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", handler)}, nil)
		r.origins.Add(origin.Reply, brought)
		if status, _ := r.get(r.client(false), "http://almanac.example/?q="+url.QueryEscape(brought)); status != 200 {
			t.Errorf("status %d", status)
		}
		r.finish()
		if own := of[trajectory.ExchangeStarted](r)[0].Own; own != nil && own.GoldHits > 0 {
			t.Errorf("probes of the request: %+v", own)
		}
	})
}

// TestEarly: an agent that acts on an event of a stream, or hangs up, is recorded after what it acts on, and what it read is known.
// A page that comes slowly is not waited for, and a stream that does not end only in time, and once.
func TestEarly(t *testing.T) {
	const event = "data: the lamp of the outer harbour wall\n\n"
	for _, c := range []struct {
		name, kind string
		hangUp     bool
		late       bool // it ends when the next exchange has begun
	}{
		{"an event", "text/event-stream; charset=utf-8", false, false},
		{"an event, and it goes on", "text/event-stream", false, true},
		{"it hangs up", "text/plain", true, false},
		{"a page", "text/plain", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{}, 4)
			lamps := serve(t, "http", "", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path != "/stream" {
					next <- struct{}{}
					return
				}
				w.Header().Set("Content-Type", c.kind)
				_, _ = io.WriteString(w, event)
				_ = http.NewResponseController(w).Flush()
				if c.late {
					<-next
				} else {
					time.Sleep(200 * time.Millisecond) // in which the agent acts
				}
				_, _ = io.WriteString(w, "data: bye\n\n")
			}))
			r := newRig(t, map[string]string{"lamps.example:80": lamps}, nil)
			agent := r.client(false)
			res, err := agent.Get("http://lamps.example/stream")
			must(t, err)
			_, err = io.ReadFull(res.Body, make([]byte, len(event)))
			must(t, err)
			if c.hangUp {
				res.Body.Close()
				time.Sleep(100 * time.Millisecond) // what an agent does takes as long
			}
			if status, _ := r.get(agent, "http://lamps.example/?q=the+lamp+of+the+outer+harbour+wall"); status != 200 {
				t.Errorf("status %d", status)
			}
			if !c.hangUp {
				_, err = io.Copy(io.Discard, res.Body)
				must(t, err)
				res.Body.Close()
			}
			var order []string
			for _, e := range r.events() {
				switch p := e.Payload.(type) {
				case trajectory.ExchangeStarted:
					order = append(order, fmt.Sprint("started ", p.Number))
				case trajectory.ExchangeCompleted:
					order = append(order, fmt.Sprint("completed ", p.Number))
				}
			}
			second := "completed 1"
			if c.late { // then both end at once
				second = "started 2"
			}
			if len(order) != 4 || order[1] != second {
				t.Errorf("recorded in the order %q", order)
			}
			if own := of[trajectory.ExchangeStarted](r)[1].Own; own == nil {
				t.Error("a header of the agent's is explained")
			}
			_, rest := r.origins.Divide("the lamp of the outer harbour wall")
			if len(rest) > 0 {
				t.Errorf("%q is not known", rest)
			}
			r.finish()
		})
	}
}
