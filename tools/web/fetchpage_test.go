package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// archive serves copies as the Internet Archive does: it redirects to the
// capture nearest to what is asked for.
func archive(t *testing.T) *Web {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stamp, page, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/web/"), "id_/")
		captured, when := "20150610080910", "Wed, 10 Jun 2015 08:09:10 GMT"
		switch {
		case strings.HasSuffix(page, "/never"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(page, "/away"):
			http.Redirect(w, r, "http://second.example/today", http.StatusFound)
		case strings.HasSuffix(page, "/moved"):
			http.Redirect(w, r, "http://archive.example/web/"+captured+"id_/http://second.example/answers", http.StatusFound)
		case stamp != captured:
			w.Header()["Location"] = []string{"/web/" + captured + "id_/" + page}
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Content-Type", "text/html")
			if !strings.HasSuffix(page, "/undated") {
				w.Header().Set("Memento-Datetime", when)
			}
			if strings.HasSuffix(page, "/gone") {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(`<title>As it was</title><p>Asked for ` + page + `, <a href="next">next</a></p>`))
		}
	}))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://")
	web := New(Config{Archive: "http://archive.example", Exceptions: map[string]string{"archive.example:80": to, "second.example:80": to}})
	t.Cleanup(web.transport.CloseIdleConnections)
	return web
}

func TestArchived(t *testing.T) {
	web := archive(t)
	tests := []struct {
		url, archived string
		first         string // address asked
		want          []string
		isError       bool
	}{
		{"https://tides.example/log?d=1#top", "latest", "/web/2id_/https://tides.example/log?d=1",
			[]string{"[https://tides.example/log?d=1: web page, an archived copy, captured 2015-06-10; page 1 of 1]", "Asked for https://tides.example/log?d=1", "(https://tides.example/next)"}, false},
		{"https://tides.example/log", "2015", "/web/20150701000000id_/https://tides.example/log", []string{"captured 2015-06-10"}, false},
		{"https://tides.example/log", "2015-02", "/web/20150215000000id_/https://tides.example/log", []string{"captured 2015-06-10"}, false},
		{"https://tides.example/log", "2016-02-29", "/web/20160229120000id_/https://tides.example/log", []string{"captured 2015-06-10"}, false},
		{"https://tides.example/undated", "2015", "/web/20150701000000id_/https://tides.example/undated", []string{"captured 2015-06-10"}, false},
		{"https://tides.example/never", "2015", "/web/20150701000000id_/https://tides.example/never", []string{"the archive holds no copy of https://tides.example/never"}, true},
		{"https://tides.example/gone", "2015", "/web/20150701000000id_/https://tides.example/gone", []string{"the server answered 404 Not Found", "As it was"}, true},
		{"https://tides.example/away", "2015", "/web/20150701000000id_/https://tides.example/away", []string{"was not followed: it leads out of the archive"}, true},
		{"https://tides.example/moved", "2015", "/web/20150701000000id_/https://tides.example/moved", []string{"was not followed: refused: http://second.example/answers"}, true},
		{"https://tides.example/", "2015-02-30", "", []string{`archived is "2015-02-30"; give latest, or a date as YYYY, YYYY-MM or YYYY-MM-DD`}, true},
		{"https://tides.example/", "yesterday", "", []string{`archived is "yesterday"`}, true},
		{"http://archive.example/web/2015/https://tides.example/", "2015", "", []string{"is an archived copy already"}, true},
		{"file:///etc/passwd", "latest", "", []string{"must begin with http:// or https://"}, true},
	}
	for _, test := range tests {
		env := workspace(t, nil)
		env.AllowURL = func(url string) error {
			if url == "http://second.example/answers" {
				return refusedAddress(url)
			}
			return nil
		}
		args := `{"url":"` + test.url + `","archived":"` + test.archived + `"}`
		out := use(t, NewWebFetch(web), env, object{"url": test.url, "archived": test.archived})
		mustHold(t, test.url+" of "+test.archived, out.Shown, test.want...)
		if out.IsError != test.isError {
			t.Errorf("%s: error %v", args, out.IsError)
		}
		made, err := admits(NewWebFetch(web), []byte(args))
		must(t, err)
		if test.first == "" {
			if len(out.URLs) != 0 || len(made) != 0 {
				t.Errorf("%s reached %+v and touches %q", args, out.URLs, made)
			}
			continue
		}
		first := "http://archive.example" + test.first
		if len(out.URLs) == 0 || out.URLs[0].URL != first || !slices.Equal(made, []string{first}) {
			t.Errorf("%s reached %+v and touches %q", args, out.URLs, made)
		}
	}
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "https://tides.example/log", "archived": "2015"})
	want := trajectory.URL{URL: "http://archive.example/web/20150610080910id_/https://tides.example/log", Status: 200, ContentType: "text/html"}
	if len(out.URLs) != 2 || out.URLs[0].Status != 302 || out.URLs[1] != want {
		t.Errorf("reached %+v", out.URLs)
	}
}

type refusedAddress string

func (r refusedAddress) Error() string { return "refused: " + string(r) }

// TestTestdataIsInvented: what the engines' conversations name does not exist.
func TestTestdataIsInvented(t *testing.T) {
	entries, err := os.ReadDir("testdata/search")
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile("testdata/search/" + e.Name())
		must(t, err)
		for _, rest := range strings.Split(string(text), "://")[1:] {
			if host, _, _ := strings.Cut(rest, "/"); !strings.HasSuffix(host, ".example") {
				t.Errorf("%s names %q", e.Name(), host)
			}
		}
	}
}
