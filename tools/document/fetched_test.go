package document_test

import (
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/web"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFetchModes(t *testing.T) {
	fetcher, mux := site(t, web.Config{})
	serve(mux, "/lamp", "text/html; charset=utf-8", 200, []byte(document.ArticlePage()))
	serve(mux, "/latin", "text/html; charset=iso-8859-1", 200, []byte("<!-- caf\xe9 --><p>hidden</p>"))
	serve(mux, "/data.csv", "text/csv", 200, []byte("a,b\n1,2\n"))
	serve(mux, "/paper", "application/pdf", 200, document.MakePDF("from afar"))
	serve(mux, "/bytes", "Application/octet-stream; x=1", 200, []byte(document.ArticlePage()))
	serve(mux, "/letter", "application/octet-stream", 200, document.MakeDocx(t))
	serve(mux, "/talk", "application/octet-stream", 200, document.MakePptx(t))
	serve(mux, "/note", "application/octet-stream", 200, document.MakeODT(t))
	serve(mux, "/all.zip", "application/zip", 200, document.MakeZip(t, map[string][]byte{"inside.csv": []byte("1,2\n")}))
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
		out := use(t, web.NewWebFetch(fetcher), workspace(t, nil), args)
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
		out := use(t, web.NewWebFetch(fetcher), workspace(t, nil), object{"url": "http://almanac.example" + test.path, "mode": test.mode})
		mustHold(t, test.path, out.Shown, "error: ", test.want)
	}
	out := use(t, web.NewWebFetch(fetcher), workspace(t, nil), object{"url": "http://almanac.example/lamp", "mode": "raw", "find": "BYLINE"})
	mustHold(t, "finding in the source", out.Shown, `class="byline">By Ida Venn`)
}

// TestFetchedFiles: a file of the web is read by a child as one of the workspace; a
// picture is not read.
func TestFetchedFiles(t *testing.T) {
	fetcher, mux := site(t, web.Config{Reader: document.ChildReader(t, "child-convert")})
	serve(mux, "/report", "application/pdf", 200, document.MakePDF("from afar"))
	serve(mux, "/gate.png", "image/png", 200, []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"))
	serve(mux, "/report.pdf", "application/octet-stream", 200, document.MakePDF("from afar"))
	serve(mux, "/book", "application/octet-stream", 200, document.MakeBook(t))
	for path, want := range map[string]string{"report": "pdf, 1 page", "report.pdf": "pdf, 1 page", "book": "xlsx, 3 sheets", "gate.png": "it is of type image/png, which cannot be read"} {
		mustHold(t, path, use(t, web.NewWebFetch(fetcher), workspace(t, nil), object{"url": "http://almanac.example/" + path}).Shown, want)
	}
}

func site(t *testing.T, config web.Config) (*web.Web, *http.ServeMux) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://")
	config.Exceptions = map[string]string{"almanac.example:80": to, "second.example:80": to}
	fetcher := web.New(config)
	return fetcher, mux
}

func serve(mux *http.ServeMux, path, contentType string, status int, body []byte) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have gone
	})
}
