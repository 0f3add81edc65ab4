package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

const tablePage = `<!doctype html><html><head><title>Tides of
 Ostrel</title><style>p{}</style><script>var secret = 1</script></head><body>
<nav><a href="/index">Index</a></nav><h1>Tides</h1>
<p>High water at <b>Salt Quay</b>, file_name.txt. <img src="data:image/png;base64,AAAA" alt="chart"> <a href="more?x=1#part">more</a></p>
<table><tr><th>Port</th><th>Height</th></tr><tr><td>Ostrel</td><td>4.2<br>metres</td></tr><tr><td rowspan="2">Hask</td><td>3|9</td></tr><tr><td>4.0</td></tr></table>
<table><tr><td>Listed</td><td><ul><li>one</li><li>two</li></ul></td></tr></table>
</body></html>`

// site serves the small web of these tests under http://almanac.example.
func site(t *testing.T, config Config) (*Web, *http.ServeMux) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://")
	config.Exceptions = map[string]string{"almanac.example:80": to, "second.example:80": to}
	web := New(config)
	t.Cleanup(web.transport.CloseIdleConnections)
	return web, mux
}

func serve(mux *http.ServeMux, path, contentType string, status int, body []byte) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have gone
	})
}

func TestFetch(t *testing.T) {
	web, mux := site(t, Config{})
	serve(mux, "/tides", "text/html; charset=utf-8", 200, []byte(tablePage))
	serve(mux, "/latin", "text/html; charset=iso-8859-1", 200, []byte("<p>caf\xe9</p>"))
	serve(mux, "/meta", "text/html", 200, []byte("<html><head><meta charset=windows-1251></head><body>\xcf\xf0\xe8</body></html>"))
	serve(mux, "/control", "text/html", 200, []byte("<p>a stray \x02 byte</p>"))
	serve(mux, "/data", "text/csv", 200, []byte("a,b\n1,2\n"))
	serve(mux, "/api", "application/json", 200, []byte(`{"a":1}`))
	serve(mux, "/plain", "text/plain", 200, []byte("<html>not markup here"))
	serve(mux, "/long", "text/plain", 200, []byte(strings.Repeat("a line of the long text\n", 1000)+"the Last line\n"))
	tests := []struct {
		args object
		want []string
	}{
		{object{"url": "http://almanac.example/tides#top"}, []string{
			"[http://almanac.example/tides: web page; page 1 of 1]\ntitle: Tides of Ostrel\n", "[Index](http://almanac.example/index)", "# Tides", "**Salt Quay**, file_name.txt.",
			"(http://almanac.example/more?x=1#part)", "| Port | Height |", "| Ostrel | 4.2<br />metres |", `| Hask | 3\|9 |`, "| Hask | 4.0 |", "Listed\n\n- one\n- two"}},
		{object{"url": "http://almanac.example/latin"}, []string{"web page, decoded from windows-1252;", "café"}},
		{object{"url": "http://almanac.example/meta"}, []string{"web page, decoded from windows-1251;", "При"}},
		{object{"url": "http://almanac.example/control"}, []string{"web page;", "a stray"}},
		{object{"url": "http://almanac.example/data"}, []string{"csv, 2 rows counting the first", "a,b\n1,2\n"}},
		{object{"url": "http://almanac.example/api"}, []string{"json", `{"a":1}`}},
		{object{"url": "http://almanac.example/plain"}, []string{"text;", "<html>not markup here"}},
		{object{"url": " http://almanac.example/long ", "page": 4}, []string{"page 4 of 4]", "the Last line"}},
		{object{"url": "http://almanac.example/long", "find": "LAST"}, []string{"1001:the Last line", "999-a line"}},
	}
	for _, test := range tests {
		out := use(t, NewWebFetch(web), workspace(t, nil), test.args)
		if out.IsError || len(out.URLs) != 1 || out.URLs[0].Status != 200 || out.URLs[0].ContentType == "" {
			t.Errorf("%v: error %v, reached %+v", test.args, out.IsError, out.URLs)
		}
		mustHold(t, fmt.Sprint(test.args), out.Shown, test.want...)
		for _, not := range []string{"secret", "base64"} {
			if strings.Contains(out.Document, not) {
				t.Errorf("%v holds %q", test.args, not)
			}
		}
	}
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/long"})
	if !strings.HasSuffix(out.Document, "the Last line\n") || strings.Contains(out.Shown, "Last") {
		t.Error("the document is not whole, or all of it is shown")
	}
}

// switches answers with 101 and keeps the connection open until the client leaves.
func switches(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "other")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestFetchFailures(t *testing.T) {
	web, mux := site(t, Config{MaxBytes: 10_000, Timeout: 5 * time.Second})
	serve(mux, "/gone", "text/html", 404, []byte("<title>Gone</title><p>"+strings.Repeat("It moved. ", 500)))
	serve(mux, "/denied", "application/json", 403, nil)
	serve(mux, "/broken", "text/plain", 503, []byte("try later"))
	serve(mux, "/empty", "text/html", 200, nil)
	serve(mux, "/nothing", "text/html", 204, nil)
	serve(mux, "/picture", "image/png", 200, []byte("\x89PNG\r\n\x1a\n"))
	serve(mux, "/large", "text/plain", 200, make([]byte, 20_000))
	mux.HandleFunc("/switched", switches)
	mux.HandleFunc("/packed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(bytes.Repeat([]byte("x"), 1<<20))
		_ = z.Close()
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("short"))
	})
	tests := []struct {
		url    string
		status int // of the last address; 0 if there was no answer
		want   string
	}{
		{"http://almanac.example/gone", 404, "error: the server answered 404 Not Found to http://almanac.example/gone\ntitle: Gone\n\nIt moved. It moved."},
		{"http://almanac.example/denied", 403, "error: the server answered 403 Forbidden"},
		{"http://almanac.example/broken", 503, "503 Service Unavailable to http://almanac.example/broken\ntry later"},
		{"http://almanac.example/empty", 200, "cannot read http://almanac.example/empty: it is empty (0 bytes)"},
		{"http://almanac.example/nothing", 204, "it is empty"},
		{"http://almanac.example/picture", 200, "it is of type image/png, which cannot be read"},
		{"http://almanac.example/large", 200, "it is larger than 0 MiB"},
		{"http://almanac.example/packed", 200, "it is larger than 0 MiB"},
		{"http://almanac.example/switched", 0, "the server switched to another protocol"},
		{"http://almanac.example/cut", 200, "the exchange failed: unexpected EOF"},
		{"almanac.example/tides", -1, "must begin with http:// or https://"},
		{"file:///etc/passwd", -1, "must begin with http:// or https://"},
		{"ftp://almanac.example/", -1, "must begin with http:// or https://"},
		{"http://", -1, "has no host"},
		{"http:///path", -1, "has no host"},
		{"http://user:pass@almanac.example/", -1, "holds a user name"},
		{"http://a b/", -1, "is not a URL"},
		{"", -1, "is not a whole web address"},
	}
	for _, test := range tests {
		out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": test.url})
		if !out.IsError || len([]rune(out.Shown)) > 1200 {
			t.Errorf("%s: error %v, %d bytes shown", test.url, out.IsError, len(out.Shown))
		}
		mustHold(t, test.url, out.Shown, test.want)
		if test.status < 0 && len(out.URLs) != 0 || test.status >= 0 && (len(out.URLs) != 1 || out.URLs[0].Status != test.status) {
			t.Errorf("%s reached %+v", test.url, out.URLs)
		}
	}
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/gone"})
	if strings.Count(out.Document, "It moved.") != 500 {
		t.Error("the document of an error page is not whole")
	}
}

func TestFetchTimeout(t *testing.T) {
	web, mux := site(t, Config{Timeout: 20 * time.Millisecond})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("beginning"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/slow"})
	mustHold(t, "a slow page", out.Shown, "error: cannot fetch http://almanac.example/slow: no complete answer within 20ms")
	closed := httptest.NewServer(nil)
	to := strings.TrimPrefix(closed.URL, "http://")
	closed.Close()
	out = use(t, NewWebFetch(New(Config{Exceptions: map[string]string{"closed.example:80": to}})), workspace(t, nil), object{"url": "http://closed.example/"})
	mustHold(t, "a closed port", out.Shown, "the connection failed: ")
	if strings.Contains(out.Shown, to) {
		t.Errorf("the message names an address of this machine: %s", out.Shown)
	}
}

// Every hop is asked about before it is followed, and recorded.
func TestRedirects(t *testing.T) {
	web, mux := site(t, Config{})
	hop := func(path, to string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	hop("/a", "http://second.example/b?q=1#frag")
	hop("/b", "/c")
	serve(mux, "/c", "text/plain", 200, []byte("arrived"))
	hop("/loop", "/loop")
	hop("/denied", "http://second.example/answers")
	serve(mux, "/answers", "text/plain", 200, []byte("gold"))
	hop("/file", "file:///etc/passwd")
	hop("/long", "/"+strings.Repeat("é", 1<<12))
	hop("/user", "http://me@second.example/c")
	for i := range 11 {
		hop(fmt.Sprintf("/n%d", i), fmt.Sprintf("/n%d", i+1))
	}
	serve(mux, "/n11", "text/plain", 200, []byte("far"))

	found := func(urls ...string) (want []trajectory.URL) {
		for _, u := range urls {
			want = append(want, trajectory.URL{URL: u, Status: 302, ContentType: "text/html; charset=utf-8"})
		}
		return want
	}
	const a, s = "http://almanac.example", "http://second.example"
	tests := []struct {
		url, want string
		isError   bool
		urls      []trajectory.URL
		asked     []string
	}{
		{a + "/a", "[http://second.example/c: text, redirected from http://almanac.example/a; page 1 of 1]\narrived", false,
			append(found(a+"/a", s+"/b?q=1#frag"), trajectory.URL{URL: s + "/c", Status: 200, ContentType: "text/plain"}), []string{s + "/b?q=1#frag", s + "/c"}},
		{a + "/denied", `it redirects to "http://second.example/answers", which was not followed: refused: R001`, true,
			append(found(a+"/denied"), trajectory.URL{URL: s + "/answers"}), []string{s + "/answers"}},
		{a + "/file", "must begin with http:// or https://", true, append(found(a+"/file"), trajectory.URL{URL: "file:///etc/passwd"}), nil},
		{a + "/long", "which was not followed: the address has 245", true, found(a + "/long"), nil}, // each é is six bytes in an address
		{a + "/" + strings.Repeat("b", 8<<10), "a web address of 8215 bytes is too long", true, nil, nil},
		{a + "/user", "holds a user name", true, append(found(a+"/user"), trajectory.URL{URL: "http://me@second.example/c"}), nil},
		{a + "/n1", "far", false, nil, nil},
		{a + "/n0", "there were more than 10 redirects", true, nil, nil},
		{a + "/loop", "there were more than 10 redirects", true, nil, nil},
	}
	for _, test := range tests {
		env := workspace(t, nil)
		var asked []string
		env.AllowURL = func(url string) error {
			asked = append(asked, url)
			if strings.Contains(url, "answers") {
				return errors.New("refused: R001")
			}
			return nil
		}
		out := use(t, NewWebFetch(web), env, object{"url": test.url})
		if out.IsError != test.isError || strings.Contains(out.Shown, "gold") {
			t.Errorf("%s: %+v", test.url, out)
		}
		mustHold(t, test.url, out.Shown, test.want)
		if test.urls != nil && (!slices.Equal(out.URLs, test.urls) || !slices.Equal(asked, test.asked)) {
			t.Errorf("%s reached %+v\nand asked for %q", test.url, out.URLs, asked)
		}
	}
}

// What a server says in other encodings is recorded as UTF-8 all the same.
func TestEvidenceIsUTF8(t *testing.T) {
	web, mux := site(t, Config{})
	mux.HandleFunc("/odd", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{"/caf\xe9?q=caf\xe9"}
		w.Header().Set("Content-Type", "text/plain; x=\xe9")
		w.WriteHeader(302)
	})
	serve(mux, "/caf\xe9", "text/plain; name=\xe9", 200, []byte("ok"))
	serve(mux, "/search", "application/json", 200, []byte("{\"results\":[{\"title\":\"caf\xe9\",\"url\":\"http://a.example/\xe9\",\"content\":\"x\xe9\"}]}"))
	for _, out := range []tools.Output{
		use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/odd"}),
		use(t, NewWebSearch(web, Engine{Name: SearXNG, URL: "http://almanac.example/search"}), workspace(t, nil), object{"query": "x"}),
	} {
		if out.IsError || len(out.URLs) != 2 {
			t.Errorf("%+v", out)
		}
		text := out.Shown + out.Document
		for _, u := range out.URLs {
			text += u.URL + u.ContentType
		}
		if !utf8.ValidString(text) {
			t.Errorf("not UTF-8: %q", text)
		}
	}
}
