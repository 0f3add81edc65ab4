package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func TestSearch(t *testing.T) {
	web, mux := site(t, Config{})
	mux.HandleFunc("/search", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("format") != "json" || q.Get("lang") != "en" {
			t.Errorf("asked with %q", r.URL.RawQuery)
		}
		var results []object
		switch q.Get("q") {
		case "tides & time":
			for i := range 12 {
				results = append(results, object{"title": fmt.Sprintf("Result\n %d", i+1), "url": fmt.Sprintf("http://almanac.example/%d", i+1), "content": strings.Repeat("extract ", 80), "score": 1.5})
			}
		case "odd":
			results = append(results, object{"title": 7, "url": nil, "content": object{"a": 1}}, object{})
		}
		w.Header().Set("Content-Type", "application/json")
		text, err := json.Marshal(object{"query": q.Get("q"), "results": append([]object{}, results...)})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	})
	tool := NewWebSearch(web, Engine{Name: SearXNG, URL: "http://almanac.example/search?lang=en"})
	out := use(t, tool, workspace(t, nil), object{"query": "tides & time"})
	mustHold(t, "the list", out.Shown, `[12 results for "tides & time", 10 shown]`+"\n1. Result 1\n   http://almanac.example/1\n   extract extract", "…\n2. Result 2\n", "10. Result 10")
	if out.IsError || strings.Contains(out.Shown, "11. ") || !strings.Contains(out.Document, "12. Result 12\n   http://almanac.example/12\n   "+strings.TrimSpace(strings.Repeat("extract ", 80))+"\n") {
		t.Errorf("shown too much or recorded too little:\n%s", out.Document)
	}
	if len(out.URLs) != 13 || out.URLs[0].URL != "http://almanac.example/search?format=json&lang=en&q=tides+%26+time" || out.URLs[0].Status != 200 ||
		out.URLs[12].URL != "http://almanac.example/12" || out.URLs[12].Status != 0 {
		t.Errorf("recorded %+v", out.URLs)
	}
	out = use(t, tool, workspace(t, nil), object{"query": "nothing"})
	if out.IsError || out.Shown != `[no results for "nothing"; try fewer or other words]` {
		t.Errorf("%+v", out)
	}
	if out = use(t, tool, workspace(t, nil), object{"query": "odd"}); out.IsError || len(out.URLs) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestSearchFailures(t *testing.T) {
	web, mux := site(t, Config{Sleep: func(context.Context, time.Duration) error { return nil }})
	serve(mux, "/html", "text/html", 200, []byte("<html>results</html>"))
	serve(mux, "/list", "application/json", 200, []byte(`{"results":{}}`))
	serve(mux, "/broken", "application/json", 200, []byte(`{"results":[`))
	serve(mux, "/off", "text/html", 403, []byte("no"))
	serve(mux, "/busy", "text/html", 429, []byte("no"))
	for path, want := range map[string]string{
		"/html":   "error: the search engine's answer is not a list of results",
		"/list":   "not a list of results",
		"/broken": "not a list of results",
		"/off":    "answered 403 Forbidden: it probably does not offer the json format",
		"/busy":   "answered 429 Too Many Requests",
	} {
		out := use(t, NewWebSearch(web, Engine{Name: SearXNG, URL: "http://almanac.example" + path}), workspace(t, nil), object{"query": "x"})
		if tries := map[string]int{"/busy": searchTries}[path]; !out.IsError || len(out.URLs) != max(tries, 1) {
			t.Errorf("%s: %+v", path, out)
		}
		mustHold(t, path, out.Shown, want)
	}
	out := use(t, NewWebSearch(web, Engine{Name: SearXNG, URL: "http://almanac.example/html"}), workspace(t, nil), object{"query": " "})
	mustHold(t, "an empty query", out.Shown, "the query is empty")
	out = use(t, NewWebSearch(web, Engine{Name: SearXNG, URL: "::"}), workspace(t, nil), object{"query": "x"})
	mustHold(t, "a bad endpoint", out.Shown, "the search engine could not be asked")
}

// The operator's own instance may be on this machine; what it redirects to may
// not, and web_fetch does not get there.
func TestSearchOnThisMachine(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("the redirect was followed") }))
	defer secret.Close()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("q") == "away" {
			http.Redirect(w, r, secret.URL, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(`{"results":[{"title":"Local","url":"http://a.example/","content":"found"}]}`))
	}))
	defer engine.Close()
	web := New(Config{})
	tool := NewWebSearch(web, Engine{Name: SearXNG, URL: engine.URL + "/search"})
	out := use(t, tool, workspace(t, nil), object{"query": "x"})
	mustHold(t, "the list", out.Shown, "1. Local\n   http://a.example/\n   found\n")
	out = use(t, tool, workspace(t, nil), object{"query": "away"})
	mustHold(t, "a redirect", out.Shown, "error: the search engine could not be asked", "is not a public address")
	out = use(t, NewWebFetch(web), workspace(t, nil), object{"url": engine.URL})
	mustHold(t, "a fetch", out.Shown, "is not a public address")
}
