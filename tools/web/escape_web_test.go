package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers each question for a name with the next of its addresses,
// and then with the last one.
type nameServer struct {
	answers map[string][]string
	asked   map[string]int
	conn    net.PacketConn
}

func serveNames(t *testing.T, answers map[string][]string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{answers, map[string]int{}, conn}
	go func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer, err := s.answer(packet[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return s
}

func (s *nameServer) answer(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	list := s.answers[name]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	a := netip.MustParseAddr(list[min(s.asked[name], len(list)-1)])
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	switch {
	case q.Type == dnsmessage.TypeA && a.Is4():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: a.As4()}}}
	case q.Type == dnsmessage.TypeAAAA && a.Is6():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}}}
	}
	if q.Type == dnsmessage.TypeAAAA { // the pair of questions counts once
		return m.Pack()
	}
	defer func() { s.asked[name]++ }()
	return m.Pack()
}

// web reaches the web by these names, from an address of this machine if one is
// given.
func (s *nameServer) web(c Config, from net.Addr) *Web {
	w := New(c)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
	g := guard.New(c.Exceptions, "")
	g.Dialer = net.Dialer{Resolver: resolver, LocalAddr: from}
	w.transport.DialContext = g.Dial
	return w
}

// TestFetchEscapes: nothing that web_fetch can be asked for, and nothing that a
// page can redirect it to, reaches a service of this machine or its network.
func TestFetchEscapes(t *testing.T) {
	var reached atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer service.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(service.URL, "http://"))
	must(t, err)
	redirect := ""
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{redirect}
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer page.Close()
	names := serveNames(t, map[string][]string{
		"inside.example": {"127.0.0.1"}, "ten.example": {"10.0.0.7"}, "meta.example": {"169.254.169.254"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"},
		"nat.example": {"64:ff9b::7f00:1"}, "sixtofour.example": {"2002:7f00:1::1"}, "zero.example": {"0.0.0.0"}, "www.metadata.internal.example": {"fd00:ec2::254"},
	})
	web := names.web(Config{Timeout: 5 * time.Second, Exceptions: map[string]string{"almanac.example:80": strings.TrimPrefix(page.URL, "http://")}}, nil)
	const inside, scheme = "only public addresses", "must begin with http:// or https://"
	tests := []struct{ url, want string }{
		{"http://169.254.169.254/latest/meta-data/", inside}, {"http://[fd00:ec2::254]/latest/meta-data/", inside}, {"http://100.100.100.200/", inside},
		{"http://168.63.129.16/metadata", inside}, {"http://192.0.0.192/opc/v2/", inside}, {"http://[fe80::a9fe:a9fe%25eth0]/", inside},
		{"http://[64:ff9b::a9fe:a9fe]/", inside}, {"http://[2002:a9fe:a9fe::]/", inside}, {"http://[::ffff:169.254.169.254]/", inside}, {"http://2852039166/", inside},
		{"http://0xa9.0xfe.0xa9.0xfe/", inside}, {"http://0251.0376.0251.0376/", inside}, {"http://169.254.43518/", inside}, {"http://169.254.169.254./", inside},
		{"http://metadata.google.internal/computeMetadata/v1/", inside}, {"http://metadata/", inside}, {"http://METADATA.google.internal./", inside}, {"http://instance-data/", inside},
		{"http://printer.local/", inside}, {"http://router.home.arpa/", inside}, {"http://localhost:PORT/", inside}, {"http://127.0.0.1:PORT/", inside},
		{"https://127.0.0.1:PORT/", inside}, {"http://[::1]:PORT/", inside}, {"http://127.1:PORT/", inside}, {"http://0:PORT/", inside},
		{"http://inside.example:PORT/", inside}, {"https://inside.example:PORT/", inside}, {"http://inside.example.:PORT/", inside}, {"http://ten.example/", inside},
		{"http://meta.example/latest/", inside}, {"http://six.example:PORT/", inside}, {"http://mapped.example:PORT/", inside}, {"http://nat.example:PORT/", inside},
		{"http://sixtofour.example:PORT/", inside}, {"http://zero.example:PORT/", inside}, {"http://www.metadata.internal.example/", inside},
		{"http://almanac.example:PORT/", "cannot be found"}, {"https://almanac.example/", "cannot be found"}, {"http://sub.almanac.example/", "cannot be found"},
		{"http://almanac.example@127.0.0.1:PORT/", "holds a user name"}, {"http://127.0.0.1:PORT@almanac.example/", "holds a user name"},
		{"http://127.0.0.1:PORT\\@almanac.example/", ""}, {"http://almanac.example:80:PORT/", ""}, {"http://127.0.0.1:+PORT/", ""},
		{"file:///etc/passwd", scheme}, {"FILE:///etc/passwd", scheme}, {"gopher://127.0.0.1:PORT/_GET", scheme}, {"dict://127.0.0.1:PORT/", scheme}, {"ftp://127.0.0.1:PORT/", scheme},
		{"unix:///run/docker.sock", scheme}, {"data:text/html,x", scheme}, {"javascript:alert(1)", scheme}, {"jar:http://127.0.0.1:PORT/!/", scheme},
		{"http+unix://%2Frun%2Fdocker.sock/", ""}, {"http://%2Frun%2Fdocker.sock/", ""},
	}
	for _, test := range tests {
		url := strings.ReplaceAll(test.url, "PORT", port)
		for _, asked := range []string{url, "http://almanac.example/go"} {
			redirect = url
			out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": asked})
			if !out.IsError {
				t.Errorf("%s by %s: %s", url, asked, out.Shown)
			}
			mustHold(t, url+" by "+asked, out.Shown, test.want)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the service was reached %d times", n)
	}
}

// A name that is public when it is first looked up, and of this machine the next
// time, is judged by the address that is connected to.
func TestRebinding(t *testing.T) {
	var reached atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer service.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(service.URL, "http://"))
	must(t, err)
	names := serveNames(t, map[string][]string{"rebound.example": {"93.184.216.34", "127.0.0.1"}})
	// From the loopback address a connection to a public one fails in this machine;
	// one to the service would not.
	web := names.web(Config{Timeout: 5 * time.Second}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	address := "http://rebound.example:" + port + "/"
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": address})
	if !out.IsError || strings.Contains(out.Shown, "not public") {
		t.Errorf("the public address: %s", out.Shown)
	}
	for range 2 {
		out = use(t, NewWebFetch(web), workspace(t, nil), object{"url": address})
		mustHold(t, "the other address", out.Shown, `the host "rebound.example" has the address 127.0.0.1, which is not public`)
	}
	if reached.Load() != 0 {
		t.Error("the service was reached")
	}
}

// byHand serves connections by hand, under http://almanac.example.
func byHand(t *testing.T, c Config, serve func(net.Conn)) *Web {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				serve(conn)
			}()
		}
	}()
	c.Exceptions = map[string]string{"almanac.example:80": l.Addr().String()}
	web := New(c)
	t.Cleanup(web.transport.CloseIdleConnections)
	return web
}

// repeat sends a part until no one listens.
func repeat(part string, pause time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

func send(head string, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, head)
		then(conn)
	}
}

// A server that answers without an end, or claims to, costs no more than the
// limits of time and size.
func TestHostileServers(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	must(t, z.Close())
	ok := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	tests := []struct {
		name    string
		timeout time.Duration
		serve   func(net.Conn)
		want    string
	}{
		{"a drip of the body", 100 * time.Millisecond, send(ok+"\r\n", repeat("x", time.Millisecond)), "no complete answer within 100ms"},
		{"a drip of the head", 100 * time.Millisecond, send(ok+"X: ", repeat("x", time.Millisecond)), "no complete answer within 100ms"},
		{"silence", 50 * time.Millisecond, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }, "no complete answer within 50ms"},
		{"endless headers", time.Minute, send(ok, repeat("X-Filler: "+strings.Repeat("x", 4000)+"\r\n", 0)), "the exchange failed"},
		{"endless hints", time.Minute, repeat("HTTP/1.1 103 Early Hints\r\nLink: <"+strings.Repeat("x", 4000)+">\r\n\r\n", 0), "the exchange failed"},
		{"an endless body", time.Minute, send(ok+"\r\n", repeat(strings.Repeat("x", 4000), 0)), "it is larger than 1 MiB"},
		{"endless chunks", time.Minute, send(ok+"Transfer-Encoding: chunked\r\n\r\n", repeat("1\r\nx\r\n", 0)), "it is larger than 1 MiB"},
		{"a claim of 2 GB", time.Minute, send(ok+"Content-Length: 2147483648\r\n\r\n", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }), "it is larger than 1 MiB"},
		{"a claim below nothing", time.Minute, send(ok+"Content-Length: -1\r\n\r\n", repeat("x", 0)), "the exchange failed"},
		{"a bomb", time.Minute, send(fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", ok, packed.Len()), func(conn net.Conn) { _, _ = conn.Write(packed.Bytes()) }), "it is larger than 1 MiB"},
		{"what was not asked for", time.Minute, send(ok+"Content-Encoding: br\r\nContent-Length: 1\r\n\r\n", repeat("x", 0)), `packed as "br", which was not asked for`},
		{"no HTTP", time.Minute, repeat("SSH-2.0-x\r\n", 0), "the exchange failed"},
	}
	for _, test := range tests {
		web := byHand(t, Config{MaxBytes: 1 << 20, Timeout: test.timeout}, test.serve)
		out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/"})
		if !out.IsError || len(out.Shown) > 600 {
			t.Errorf("%s: %.300s", test.name, out.Shown)
		}
		mustHold(t, test.name, out.Shown, test.want)
	}
}

// No server learns more than it must, whatever another one set and whatever the
// environment says.
func TestNothingIsTold(t *testing.T) {
	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	web, mux := site(t, Config{})
	var told []string
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			told = append(told, name)
		}
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "fab1e"})
		w.Header().Set("WWW-Authenticate", "Basic")
		if r.URL.Path == "/private" {
			http.Redirect(w, r, "http://second.example/end", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("end"))
	})
	for range 2 {
		if out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/private?q=1"}); out.IsError {
			t.Errorf("%+v", out)
		}
	}
	slices.Sort(told)
	if told = slices.Compact(told); !slices.Equal(told, []string{"Accept", "Accept-Encoding", "User-Agent"}) {
		t.Errorf("the servers were told %q", told)
	}
	if proxied.Load() != 0 {
		t.Error("the proxy of the environment was asked")
	}
}
