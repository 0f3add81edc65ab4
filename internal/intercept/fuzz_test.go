package intercept

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzAddress: an address that is decided on is whole, names the host that is asked, and is sent as it was decided on.
func FuzzAddress(f *testing.F) {
	for _, target := range []string{"http://almanac.example/", "http://user@a.example/", "/a?b#c", "//other.example/", "http://[::1]:80/", "*", "https://A.example:443/%2e%2e/?q=1", "http://a.example:80:90/"} {
		f.Add(target, "almanac.example")
	}
	f.Fuzz(func(t *testing.T, target, host string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
		if err != nil {
			return
		}
		to, _ := parseTarget("https", "almanac.example:443")
		for _, in := range []*tunnel{nil, {target: to}} {
			u, to, refused := address(r, in)
			if refused != nil {
				continue
			}
			again, err := url.Parse(u.String())
			if err != nil || again.Host != u.Host || again.User != nil || again.Fragment != "" || again.RequestURI() != u.RequestURI() || again.Scheme != u.Scheme {
				t.Fatalf("%q is sent as %q", u, again)
			}
			if in != nil && (u.Host != "almanac.example" || u.Scheme != "https") {
				t.Fatalf("%q leads elsewhere", u)
			}
			if to.host != strings.ToLower(again.Hostname()) || to.host == "" {
				t.Fatalf("%q is dialled as %q", u, to.dialled())
			}
		}
	})
}

// FuzzDecode: hostile bodies decode to no more than the bound, without a panic.
func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "gzip, br"} {
		body := page
		for name := range strings.SplitSeq(coding, ", ") {
			body = encoded(f, name, body)
		}
		f.Add(coding, []byte(body))
	}
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		const limit = 1 << 16
		p := &Proxy{late: t.Context(), bounds: bounds{look: lookTime}}
		if data, _ := p.looking().decode(bytes.NewReader(body), codings(http.Header{"Content-Encoding": {coding}}), limit); len(data) > limit {
			t.Fatalf("%d bytes", len(data))
		}
		if kept := acceptable([]string{coding}); strings.ContainsAny(kept, "\r\n") && !strings.ContainsAny(coding, "\r\n") {
			t.Fatalf("%q", kept)
		}
	})
}
