package intercept

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/net/dns/dnsmessage"
)

// TestRefusals: what may not be asked for, and what cannot be recorded, reaches no server and resolves no name. It is recorded
// with the reason.
func TestRefusals(t *testing.T) {
	var reached atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	exceptions := map[string]string{"almanac.example:80": serve(t, "http", "", handler), "almanac.example:443": serve(t, "https", "almanac.example", handler),
		"huggingface.co:443": serve(t, "https", "huggingface.co", handler)}
	plain := func(target string, header ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: almanac.example\r\n" + strings.Join(append(header, "\r\n"), "\r\n")
	}
	long := strings.Repeat("x", MaxAddress)
	tests := []struct {
		name, tunnel, send string
		status             int // 0: the connection is cut
		code               string
	}{
		{"a rule", "", plain("http://huggingface.co/datasets/gaia-benchmark/GAIA"), 403, "rule_refused"},
		{"a rule, in a tunnel", "huggingface.co:443", "GET /datasets/gaia-benchmark/GAIA HTTP/1.1\r\nHost: huggingface.co\r\n\r\n", 403, "rule_refused"},
		{"the task's id", "", plain("http://almanac.example/?q=fab1e001-0000-4000-8000-000000000001"), 403, "rule_refused"},
		{"loopback", "", plain("http://127.0.0.1:8080/"), 403, "private_address"},
		{"IPv6 loopback", "", plain("http://[::1]/"), 403, "private_address"},
		{"mapped loopback", "", plain("http://[::ffff:127.0.0.1]/"), 403, "private_address"},
		{"private network", "", plain("http://192.168.1.1/"), 403, "private_address"},
		{"metadata", "", plain("http://169.254.1.1/latest/"), 403, "private_address"},
		{"the metadata of a rule", "", plain("http://169.254.169.254/latest/"), 403, "rule_refused"},
		{"localhost", "", plain("http://localhost/"), 403, "private_address"},
		{"a name without a domain", "", plain("http://intranet/"), 403, "private_address"},
		{"a number", "", plain("http://2130706433/"), 403, "private_address"},
		{"hexadecimal", "", plain("http://0x7f000001/"), 403, "private_address"},
		{"another port of an exception", "", plain("http://almanac.example.localhost:81/"), 403, "private_address"},
		{"a tunnel to loopback", "", "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n", 403, "private_address"},
		{"a tunnel to the metadata service", "", "CONNECT metadata.google.internal:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403, "private_address"},
		{"no proxy request", "", plain("/"), 400, "bad_address"},
		{"a user name", "", plain("http://user:hunter2-invented@almanac.example/"), 400, "bad_address"},
		{"another scheme", "", plain("ftp://almanac.example/"), 400, "bad_address"},
		{"WebSocket scheme", "", plain("ws://almanac.example/"), 400, "bad_address"},
		{"file", "", plain("file:///etc/passwd"), 400, "bad_address"},
		{"no host", "", plain("http:///etc/passwd"), 400, "bad_address"},
		{"opaque", "", plain("http:almanac.example"), 400, "bad_address"},
		{"an odd port", "", plain("http://almanac.example:080/"), 400, "bad_address"},
		{"port 0", "", plain("http://almanac.example:0/"), 400, "bad_address"},
		{"a port that is none", "", plain("http://almanac.example:70000/"), 400, "bad_address"},
		{"an odd name", "", plain("http://almanac!.example/"), 400, "bad_address"},
		{"an empty label", "", plain("http://almanac..example/"), 400, "bad_address"},
		{"a zone", "", plain("http://[fe80::1%25lo]/"), 400, "bad_address"},
		{"a fragment in the query", "", plain("http://almanac.example/?q=1#huggingface.co"), 400, "bad_address"},
		{"the server itself", "almanac.example:443", "OPTIONS * HTTP/1.1\r\nHost: almanac.example\r\n\r\n", 400, "bad_address"},
		{"a long address", "", plain("http://almanac.example/" + long), 414, "address_too_long"},
		{"a tunnel without a port", "", "CONNECT almanac.example HTTP/1.1\r\nHost: almanac.example\r\n\r\n", 400, "bad_address"},
		{"a tunnel with a user name", "", "CONNECT user@almanac.example:443 HTTP/1.1\r\nHost: almanac.example:443\r\n\r\n", 400, "bad_address"},
		{"a tunnel to a path", "", "CONNECT /almanac.example:443 HTTP/1.1\r\nHost: almanac.example:443\r\n\r\n", 400, "bad_address"},
		{"another host", "almanac.example:443", "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", 421, "misdirected"},
		{"another port", "almanac.example:443", "GET / HTTP/1.1\r\nHost: almanac.example:8443\r\n\r\n", 421, "misdirected"},
		{"a whole address of another host", "almanac.example:443", "GET https://other.example/ HTTP/1.1\r\nHost: almanac.example\r\n\r\n", 421, "misdirected"},
		{"a whole address of another scheme", "almanac.example:443", "GET http://almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\n\r\n", 421, "misdirected"},
		{"a user name in a tunnel", "almanac.example:443", "GET https://user@almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\n\r\n", 400, "bad_address"},
		{"a tunnel in a tunnel", "almanac.example:443", "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n", 426, "upgrade_refused"},
		{"WebSocket", "", plain("http://almanac.example/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"), 426, "upgrade_refused"},
		{"WebSocket in a tunnel", "almanac.example:443", plain("/", "Connection: Upgrade", "Upgrade: websocket"), 426, "upgrade_refused"},
		{"a second upgrade", "", plain("http://almanac.example/", "Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"), 426, "upgrade_refused"},
		{"SSH", "", "CONNECT almanac.example:443 HTTP/1.1\r\nHost: almanac.example:443\r\n\r\nSSH-2.0-OpenSSH_9.2\r\n", 0, "not_http"},
		{"HTTP/2 without TLS", "", "CONNECT almanac.example:80 HTTP/1.1\r\nHost: almanac.example:80\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, "not_http"},
		{"bytes", "", "CONNECT almanac.example:443 HTTP/1.1\r\nHost: almanac.example:443\r\n\r\n\x00\x01\x02\x03\x04\x05\x06\x07\x08", 0, "not_http"},
		{"a hello that is none", "", "CONNECT almanac.example:443 HTTP/1.1\r\nHost: almanac.example:443\r\n\r\n\x16\x03\x01\x00\x05hello", 0, "tls_refused"},
		{"a body that is too large", "", "POST http://almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\nContent-Length: 1025\r\n\r\n", 413, "request_too_large"},
		{"chunks that are too large", "", "POST http://almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n" + strings.Repeat("x", 1025) + "\r\n0\r\n\r\n", 413, "request_too_large"},
		{"a slow body", "", "POST http://almanac.example/ HTTP/1.1\r\nHost: almanac.example\r\nContent-Length: 10\r\n\r\nabc", 408, "request_slow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, exceptions, func(s *settings) {
				s.bounds = func(b *bounds) { b.request, b.body = 1024, 300*time.Millisecond }
			})
			var conn net.Conn
			if tt.tunnel != "" {
				secure, err := r.tunnel(tt.tunnel, nil)
				must(t, err)
				_, err = io.WriteString(secure, tt.send)
				must(t, err)
				conn = secure
			} else {
				conn = r.dial(tt.send)
			}
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if tt.status == 0 { // the tunnel was begun
				must(t, err)
				if _, err := in.ReadByte(); err == nil && tt.code != "tls_refused" {
					t.Error("the tunnel goes on")
				}
				r.proxy.running.Wait()
			} else {
				must(t, err)
				text, _ := io.ReadAll(res.Body)
				if res.StatusCode != tt.status || !strings.HasPrefix(string(text), tt.code+": ") || strings.Contains(string(text), "hunter2") {
					t.Errorf("status %d, %q", res.StatusCode, text)
				}
			}
			refused := of[trajectory.RequestRefused](r)
			if len(refused) != 1 || refused[0].Code != tt.code || refused[0].Status != tt.status || (len(refused[0].RuleIDs) > 0) != (tt.code == "rule_refused") {
				t.Errorf("recorded %+v", refused)
			}
			if len(of[trajectory.ExchangeStarted](r)) != 0 || strings.Contains(r.journal.text(), "hunter2") {
				t.Error("it is recorded as an exchange, or with a secret")
			}
			r.finish()
		})
	}
	t.Cleanup(func() {
		if n := reached.Load(); n != 0 {
			t.Errorf("servers were reached %d times", n)
		}
	})
}

// TestTunnels: what a client may do in a tunnel, whatever else it does in it.
func TestTunnels(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, "%s%s of %v", q.Host, q.URL.Path, q.Header["Upgrade"])
	})
	const bare = "93.184.216.34"
	exceptions := map[string]string{"almanac.example:80": serve(t, "http", "", handler), "almanac.example:443": serve(t, "https", "almanac.example", handler),
		"almanac.example:8443": serve(t, "https", "almanac.example", handler), bare + ":443": serve(t, "https", bare, handler), "[2606:4700::1111]:443": serve(t, "https", "2606:4700::1111", handler)}
	for _, tt := range []struct{ name, connect, send, want string }{
		{"keep-alive", "almanac.example:443", "GET /a HTTP/1.1\r\nHost: Almanac.example:443\r\n\r\nGET /b HTTP/1.1\r\nHost: ALMANAC.EXAMPLE\r\n\r\n", "almanac.example/a of []almanac.example/b of []"},
		{"another port", "almanac.example:8443", "GET /a HTTP/1.1\r\nHost: almanac.example:8443\r\n\r\n", "almanac.example:8443/a of []"},
		{"a whole address", "almanac.example:443", "GET https://almanac.example/a HTTP/1.1\r\nHost: almanac.example\r\n\r\n", "almanac.example/a of []"},
		{"HTTP/1.0", "almanac.example:443", "GET /a HTTP/1.0\r\n\r\n", "almanac.example/a of []"},
		{"an offer of HTTP/2", "almanac.example:443", "GET /a HTTP/1.1\r\nHost: almanac.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", "almanac.example/a of []"},
		{"an IPv4 address", bare + ":443", "GET /a HTTP/1.1\r\nHost: " + bare + "\r\n\r\n", bare + "/a of []"},
		{"an IPv6 address", "[2606:4700::1111]:443", "GET /a HTTP/1.1\r\nHost: [2606:4700::1111]\r\n\r\n", "[2606:4700::1111]/a of []"},
		{"no TLS", "almanac.example:80", "GET /a HTTP/1.1\r\nHost: almanac.example\r\n\r\n", "almanac.example/a of []"},
		{"no TLS, sent at once", "", "CONNECT almanac.example:80 HTTP/1.1\r\nHost: almanac.example:80\r\n\r\nGET /a HTTP/1.1\r\nHost: almanac.example\r\n\r\n", "almanac.example/a of []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, exceptions, nil)
			var conn net.Conn
			switch {
			case tt.connect == "":
				conn = r.dial(tt.send)
			case strings.HasSuffix(tt.connect, ":80"):
				conn = r.dial("CONNECT " + tt.connect + " HTTP/1.1\r\nHost: " + tt.connect + "\r\n\r\n")
			default:
				secure, err := r.tunnel(tt.connect, nil)
				must(t, err)
				conn = secure
			}
			in := bufio.NewReader(conn)
			if _, secure := conn.(*tls.Conn); !secure {
				res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("CONNECT: %v", err)
				}
			}
			if tt.connect != "" {
				_, err := io.WriteString(conn, tt.send)
				must(t, err)
			}
			got := ""
			for range strings.Count(tt.send, "GET ") {
				res, err := http.ReadResponse(in, nil)
				must(t, err)
				b, err := io.ReadAll(res.Body)
				must(t, err)
				got += string(b)
			}
			if got != tt.want {
				t.Errorf("got %q", got)
			}
			r.finish()
			if n := len(of[trajectory.ExchangeCompleted](r)); n != strings.Count(tt.send, "GET ") || len(r.codes()) != 0 {
				t.Errorf("%d exchanges, refused %q", n, r.codes())
			}
		})
	}
}

// TestHandshakes: a client that does not accept the authority is refused and counted; one that speaks HTTP/2 only, or says
// nothing of what it speaks, is served.
func TestHandshakes(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	exceptions := map[string]string{"almanac.example:443": serve(t, "https", "almanac.example", handler)}
	for _, tt := range []struct {
		name   string
		change func(*tls.Config)
		code   string
	}{
		{"accepts it", func(*tls.Config) {}, ""},
		{"speaks TLS 1.2", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, ""},
		{"speaks HTTP/1.1", func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, ""},
		{"speaks HTTP/2 only", func(c *tls.Config) { c.NextProtos = []string{"h2"} }, ""},
		{"trusts others", func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, "tls_refused"},
		{"trusts others, with TLS 1.2", func(c *tls.Config) { c.RootCAs, c.MaxVersion = x509.NewCertPool(), tls.VersionTLS12 }, "tls_refused"},
		{"wants another name", func(c *tls.Config) { c.ServerName = "other.example" }, "tls_refused"},
		{"speaks TLS 1.1", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }, "tls_refused"},
		{"speaks IMAP", func(c *tls.Config) { c.NextProtos = []string{"imap"} }, "tls_refused"},
		{"pins", func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("another key") }
		}, "tls_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, exceptions, nil)
			config := &tls.Config{ServerName: "almanac.example", RootCAs: pool(r.proxy.Authority)}
			tt.change(config)
			secure, err := r.tunnel("almanac.example:443", config)
			if tt.code == "" {
				must(t, err)
				switch proto := secure.ConnectionState().NegotiatedProtocol; proto {
				case "h2":
					transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return secure, nil }, ForceAttemptHTTP2: true}
					defer transport.CloseIdleConnections()
					if status, body := r.get(&http.Client{Transport: transport}, "https://almanac.example/"); status != 200 || body != page {
						t.Errorf("status %d, %q", status, body)
					}
				default:
					_, err = io.WriteString(secure, "GET / HTTP/1.1\r\nHost: almanac.example\r\n\r\n")
					must(t, err)
					if res, err := http.ReadResponse(bufio.NewReader(secure), nil); err != nil || res.StatusCode != 200 {
						t.Errorf("%v, %v", res, err)
					}
				}
			} else if err == nil {
				if _, err := secure.Read(make([]byte, 1)); err == nil {
					t.Error("it is served")
				}
			}
			if secure != nil {
				secure.NetConn().Close()
			}
			r.proxy.running.Wait()
			if codes := r.codes(); !slices.Equal(codes, slices.DeleteFunc([]string{tt.code}, func(c string) bool { return c == "" })) {
				t.Errorf("refused %q", codes)
			}
			r.finish()
		})
	}
	t.Run("says nothing", func(t *testing.T) { // as clients of protocols in which the server speaks first
		r := newRig(t, exceptions, func(s *settings) { s.bounds = func(b *bounds) { b.handshake = 50 * time.Millisecond } })
		c := r.dial("CONNECT almanac.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		if codes := r.codes(); !slices.Equal(codes, []string{"not_http"}) {
			t.Errorf("refused %q", codes)
		}
	})
	t.Run("is not used", func(t *testing.T) {
		r := newRig(t, exceptions, nil)
		c := r.dial("CONNECT almanac.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		must(t, err)
		c.Close()
		r.proxy.running.Wait()
		r.finish()
		if codes := r.codes(); len(codes) > 0 {
			t.Errorf("refused %q", codes)
		}
	})
}

// resolver answers each question for a name with its address.
func resolver(t *testing.T, answers map[string]string) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			a, known := answers[strings.TrimSuffix(q.Name.String(), ".")]
			if !known {
				m.RCode = dnsmessage.RCodeNameError
			} else if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()}}}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestNames: a name is resolved once its exchange is recorded. What it resolves to is not told to the agent, so that names carry
// nothing that is not recorded.
func TestNames(t *testing.T) {
	r := newRig(t, nil, func(s *settings) {
		s.prepare = func(g *guard.Guard) {
			g.Dialer.Resolver = resolver(t, map[string]string{"ten.example": "10.77.66.55", "meta.example": "169.254.169.254", "self.example": "127.0.0.1"})
			// From the loopback address a connection to a public one fails in this machine.
			g.Dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
		}
	})
	for _, tt := range []struct {
		host   string
		status int
		code   string
	}{
		{"ten.example", 403, "private_address"}, {"meta.example", 403, "private_address"}, {"self.example", 403, "private_address"},
		{"missing.example", 502, "name_not_found"}, {"93.184.216.34", 502, "connection_failed"},
	} {
		for _, scheme := range []string{"http", "https"} {
			status, body := r.get(r.client(false), scheme+"://"+tt.host+"/")
			if status != tt.status || !strings.HasPrefix(body, tt.code+": ") || strings.ContainsAny(body, "0123456789") {
				t.Errorf("%s: status %d, %q", tt.host, status, body)
			}
			if done := r.completed(); done.Status != 0 || done.Error != tt.code || done.Probes != nil {
				t.Errorf("recorded %+v", done)
			}
		}
	}
	r.finish()
	if codes := r.codes(); len(codes) != 6 || codes[0] != "private_address" || codes[5] != codes[0] {
		t.Errorf("refused %q", codes)
	}
}

// TestSpent: exchanges and refusals have a bound.
func TestSpent(t *testing.T) {
	var reached atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "", handler)}, func(s *settings) { s.bounds = func(b *bounds) { b.exchanges = 2 } })
	for i := range 3 + trajectory.MostRequestsRefused {
		if status, body := r.get(r.client(false), "http://almanac.example/"); (status == 200) != (i < 2) || i >= 2 && !strings.HasPrefix(body, "exchanges_spent: ") {
			t.Fatalf("status %d, %q", status, body)
		}
	}
	r.finish()
	if reached.Load() != 2 || len(of[trajectory.ExchangeStarted](r)) != 2 || len(r.codes()) != trajectory.MostRequestsRefused || r.rec.Refused() != trajectory.MostRequestsRefused+1 {
		t.Errorf("the server was reached %d times, %d are recorded as refused of %d", reached.Load(), len(r.codes()), r.rec.Refused())
	}
}
