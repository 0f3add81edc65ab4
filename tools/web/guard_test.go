package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestIsPublic(t *testing.T) {
	no := []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "168.63.129.16", "192.0.0.192", "192.0.2.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "100::1", "3fff::1",
	}
	for _, a := range no {
		if isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::101:101", "::ffff:1.1.1.1"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s does not count as public", a)
		}
	}
}

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
	for _, near := range []string{"http://almanac.example:81/", "https://almanac.example/", "http://almanac.example.:80/", "http://x.almanac.example/"} {
		u, err := url.Parse(near)
		if err != nil {
			t.Fatal(err)
		}
		g := &guard{exceptions: map[string]string{"almanac.example:80": "127.0.0.1:" + port}}
		if _, ok := g.exceptions[HostPort(u)]; ok {
			t.Errorf("%s counts as the exception", near)
		}
	}
}

// The address is looked at after the name was resolved, at the moment of
// connecting.
func TestCheckResolved(t *testing.T) {
	for resolved, ok := range map[string]bool{"93.184.216.34:80": true, "[2606:4700::1111]:443": true, "127.0.0.1:80": false, "[::1]:80": false, "[fe80::1%lo]:80": false, "10.0.0.1:443": false, "/run/socket": false} {
		if err := checkResolved("rebound.example", resolved); (err == nil) != ok {
			t.Errorf("%s: %v", resolved, err)
		}
	}
}
