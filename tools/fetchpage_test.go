package tools

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// articlePage has a main text among boxes and links.
func articlePage() string {
	text := strings.Repeat("<p>The lamp of Skerrow was first lit in the year of the great frost, and it has been kept burning by the keepers, their families, and later by the harbour trust, with only two short breaks.</p>\n", 8)
	return `<!doctype html><html><head><title>The lamp of Skerrow | The Ostrel Almanac</title><meta name="author" content="Ida Venn">
<meta property="article:published_time" content="2024-05-06T07:08:09Z"><script>var secret = 1</script></head><body>
<nav class="menu"><ul><li><a href="/a">Home</a></li><li><a href="/b">Shop the sale</a></li></ul></nav>
<div class="sidebar"><p>Subscribe now, subscribe often</p></div>
<article><h1>The lamp of Skerrow</h1><p class="byline">By Ida Venn</p>` + text + `<p>See <a href="keepers#list">the keepers</a>.</p></article>
<footer>All rights reserved by nobody</footer></body></html>`
}

func TestFetchModes(t *testing.T) {
	web, mux := site(t, WebConfig{})
	serve(mux, "/lamp", "text/html; charset=utf-8", 200, []byte(articlePage()))
	serve(mux, "/latin", "text/html; charset=iso-8859-1", 200, []byte("<!-- caf\xe9 --><p>hidden</p>"))
	serve(mux, "/data.csv", "text/csv", 200, []byte("a,b\n1,2\n"))
	serve(mux, "/paper", "application/pdf", 200, makePDF("from afar"))
	serve(mux, "/bytes", "Application/octet-stream; x=1", 200, []byte(articlePage()))
	serve(mux, "/letter", "application/octet-stream", 200, makeDocx(t))
	serve(mux, "/talk", "application/octet-stream", 200, makePptx(t))
	serve(mux, "/note", "application/octet-stream", 200, makeODT(t))
	serve(mux, "/all.zip", "application/zip", 200, zipOf(t, raw{name: "inside.csv", data: "1,2\n"}))
	serve(mux, "/none", "text/html", 200, []byte("<p></p>"))
	serve(mux, "/app", "text/html", 200, []byte(`<!doctype html><title>App</title><div id=root></div><script>`+strings.Repeat("boot();", 60)+`</script>`))
	serve(mux, "/tube", "text/html", 200, []byte("<title>Video</title><script>"+strings.Repeat("var player={};", 9000)+"</script><a href=/about>About</a>"+strings.Repeat("<p>Terms, privacy, how it works</p>", 12)))
	serve(mux, "/short", "text/html", 200, []byte("<script src=count.js></script><p>The keeper in 1871 was Ida Venn, of whom this page says nothing else at all.</p>"))
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="..\\keep/log.tsv"`)
		_, _ = w.Write([]byte("a\tb\n1\t2\n"))
	})
	tests := []struct {
		path, mode string
		want, not  []string
	}{
		{"/lamp", "article", []string{"lamp: article, main text only", "title: The lamp of Skerrow", "byline: Ida Venn\n", "date: 2024-05-06\n", "first lit in the year", "(http://almanac.example/keepers#list)"},
			[]string{"Shop the sale", "All rights", "secret", "Subscribe"}},
		{"/lamp", "", []string{": web page;", "Shop the sale", "All rights", "Subscribe now", "first lit"}, []string{"secret", "<nav"}},
		{"/lamp", "page", []string{": web page;", "Shop the sale"}, nil},
		{"/lamp", "raw", []string{"text as it was served", "<nav class=\"menu\">", "var secret = 1"}, nil},
		{"/latin", "raw", []string{"decoded from windows-1252", "<!-- café --><p>hidden</p>"}, nil},
		{"/data.csv", "article", []string{"csv, ", "whole, since it is no web page", "a,b\n1,2\n"}, nil},
		{"/paper", "article", []string{"pdf, 1 page", "whole, since", "from afar"}, nil},
		{"/letter", "", []string{": docx"}, nil},
		{"/talk", "", []string{": pptx"}, nil},
		{"/note", "", []string{": odt"}, nil},
		{"/all.zip", "", []string{": zip", "inside.csv"}, nil},
		{"/none", "article", []string{"web page", "whole, since its main text could not be found"}, nil},
		{"/get", "", []string{"tsv, 2 rows"}, nil},
		{"/bytes", "", []string{"web page;", "first lit"}, []string{"<nav"}},
		{"/bytes", "article", []string{"article, main text only"}, []string{"Shop the sale"}},
		{"/app", "", []string{"the page is made by scripts, which are not run; try archived or another source"}, []string{"boot"}},
		{"/tube", "", []string{"the page is made by scripts", "Terms, privacy"}, nil},
		{"/app", "article", []string{"the page is made by scripts"}, nil},
		{"/short", "", []string{"The keeper in 1871"}, []string{"made by scripts"}},
	}
	for _, test := range tests {
		args := object{"url": "http://almanac.example" + test.path}
		if test.mode != "" {
			args["mode"] = test.mode
		}
		out := use(t, NewWebFetch(web), workspace(t, nil), args)
		if out.IsError {
			t.Errorf("%s as %q is an error", test.path, test.mode)
		}
		mustHold(t, test.path+" as "+test.mode, out.Shown, test.want...)
		for _, not := range test.not {
			if strings.Contains(out.Shown, not) {
				t.Errorf("%s as %q holds %q:\n%s", test.path, test.mode, not, out.Shown)
			}
		}
	}
	for _, test := range []struct{ path, mode, want string }{
		{"/paper", "raw", "it is of type application/pdf, which is not text; leave mode out"},
		{"/lamp", "reader", `there is no mode "reader"; give page, article or raw`},
	} {
		out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example" + test.path, "mode": test.mode})
		mustHold(t, test.path, out.Shown, "error: ", test.want)
	}
	out := use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/lamp", "mode": "raw", "find": "BYLINE"})
	mustHold(t, "finding in the source", out.Shown, `class="byline">By Ida Venn`)
}

// A page that is hostile to those who look for its main text is shown whole, and soon.
func TestHostileArticles(t *testing.T) {
	long.NotRaced(t)
	for name, page := range map[string]string{
		"many":   strings.Repeat("<p>word, word</p>", maxArticleElements+1),
		"large":  "<p>" + strings.Repeat("word ", maxArticleBytes/5) + "</p>",
		"divs":   strings.Repeat("<div>", 400) + strings.Repeat("<div><p>word, word, word</p></div>", 6000),
		"deep":   strings.Repeat("<div>", 400) + "<p>" + strings.Repeat("word, ", 500_000),
		"spans":  strings.Repeat("<table><tr><td colspan=99999999 rowspan=99999999>word, and more</td></tr></table>", 50),
		"script": `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article","datePublished":"` + strings.Repeat("9", 5000) + `"}</script><p>word</p>`,
	} {
		src := source{contentType: "text/html", base: mustParse(t, "http://a.example/"), data: []byte(page)}
		doc, err := Reader{}.convertAs(t.Context(), modeArticle, src)
		if whole := name == "many" || name == "large" || name == "deep"; err != nil || !strings.Contains(doc.text, "word") || len(doc.text) > maxDocument || whole != (doc.kind == webPage) {
			t.Errorf("%s: %v, %d bytes of %s", name, err, len(doc.text), doc.kind)
		}
	}
}

// TestPageInChild: a page is read by the child as it is without one, and its source
// is shown where converting it takes more than the child may.
func TestPageInChild(t *testing.T) {
	t.Parallel()
	base := mustParse(t, "http://a.example/dir/?q=%22")
	for _, mode := range []string{modeArticle, modePage} {
		for _, page := range []string{articlePage(), tablePage, `<p>one <a href="two#%c3">word</a></p>`, "<p>\xff\xe9</p>"} {
			src := source{contentType: "text/html", base: base, data: []byte(page)}
			want, err := Reader{}.convertAs(t.Context(), mode, src)
			must(t, err)
			got, err := child(t, "child-convert").convertAs(t.Context(), mode, src)
			must(t, err)
			if got.text != want.text || got.kind != want.kind || !slices.Equal(got.notes, want.notes) {
				t.Errorf("%s: %q %q %q, want %q %q %q", mode, got.kind, got.notes, got.text, want.kind, want.notes, want.text)
			}
		}
	}
	nested := strings.Repeat("<blockquote>", 250) + strings.Repeat("z<br>\n", 100_000)
	for _, src := range []source{{contentType: "text/html", base: base, data: []byte(nested)}, {name: "a.html", data: []byte(nested)}} {
		doc, err := child(t, "child-tight").convertAs(t.Context(), modePage, src)
		must(t, err)
		if doc.kind != "text" || doc.text != nested || !slices.ContainsFunc(doc.notes, func(n string) bool { return strings.Contains(n, "takes too much to convert") }) {
			t.Errorf("%s, %q: %d bytes", doc.kind, doc.notes, len(doc.text))
		}
	}
}

func FuzzArticle(f *testing.F) {
	f.Add([]byte(articlePage()))
	f.Add([]byte(tablePage))
	f.Fuzz(func(t *testing.T, page []byte) {
		src := source{contentType: "text/html", base: mustParse(t, "http://a.example/"), data: page}
		doc, why, err := Reader{}.article(src)
		if err != nil || (doc.text == "") == (why == "") {
			t.Errorf("%q and %q, %v", doc.text, why, err)
		}
	})
}

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
	web := NewWeb(WebConfig{Archive: "http://archive.example", Exceptions: map[string]string{"archive.example:80": to, "second.example:80": to}})
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
		made, err := NewWebFetch(web).admits([]byte(args))
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
