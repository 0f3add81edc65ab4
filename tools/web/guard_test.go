package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A server on this machine is out of reach under every name and number it can
// be given, asked for directly or by a redirect; only the exact exception leads
// to it. No name server is asked.
func TestGuardRefuses(t *testing.T) {
	var reached atomic.Int32
	var redirect atomic.Value
	redirect.Store("")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go" {
			http.Redirect(w, r, redirect.Load().(string), http.StatusFound)
			return
		}
		reached.Add(1)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	web := New(Config{Exceptions: map[string]string{"Almanac.example:80": "127.0.0.1:" + port, "wide.example:80": "192.168.0.1:80", "named.example:80": "localhost:" + port}})
	env := workspace(t, nil)
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.0.1.", "localhost", "LOCALHOST", "localhost.", "db.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "0.0.0.0", "0",
		"2130706433", "0x7f000001", "0x7F.0.0.1", "0177.0.0.1", "017700000001", "127.0.1", "0x7f.1", "00000000000000000177.0.0.1", "99999999999999999999999999", "0xffffffffffffffffffff",
		"1２7.0.0.1", "①②⑦.0.0.1", "169.254.169.254", "[fe80::1%25lo]", "[64:ff9b::7f00:1]", "10.1.2.3", "wide.example", "named.example", "%31%32%37.0.0.1",
	}
	for _, host := range hosts {
		address := "http://" + host + ":" + port + "/secret"
		if strings.HasSuffix(host, ".example") {
			address = "http://" + host + "/secret"
		}
		for _, kind := range []string{"directly", "by a redirect"} {
			asked := address
			if kind == "by a redirect" {
				redirect.Store(address)
				asked = "http://almanac.example/go"
			}
			out := use(t, NewWebFetch(web), env, object{"url": asked})
			if !out.IsError || !strings.Contains(out.Shown, "only public addresses") && !strings.Contains(out.Shown, "not a URL") && !strings.Contains(out.Shown, "the exchange failed") {
				t.Errorf("%s, %s: %s", host, kind, out.Shown)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the server was reached %d times", n)
	}
	if out := use(t, NewWebFetch(web), env, object{"url": "http://ALMANAC.example/open"}); reached.Load() != 1 {
		t.Errorf("the exception does not work: %s", out.Shown)
	}
}
