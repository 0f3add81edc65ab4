package page

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/browser"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// serve serves the sample as a server of pages would.
func serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	show := func(path string, p func(*http.Request) page) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", CSP)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if err := p(r).Write(w); err != nil {
				t.Error(err)
			}
		})
	}
	for name, p := range samples() {
		show("/"+name, func(*http.Request) page { return p })
	}
	send := func(kind string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(body)
		}
	}
	mux.HandleFunc("GET /static/style.css", send("text/css", Style))
	mux.HandleFunc("GET /static/script.js", send("text/javascript", Script))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET "+sampleRow(1).Path+"/picture/", func(w http.ResponseWriter, r *http.Request) {
		m := image.NewRGBA(image.Rect(0, 0, 320, 120))
		for i := range 320 * 120 {
			m.Set(i%320, i/320, color.RGBA{uint8(i % 320 / 2), 90, uint8(i / 320), 255})
		}
		png.Encode(w, m)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestPagesInBrowser looks at each page in light and dark, narrow and wide.
func TestPagesInBrowser(t *testing.T) {
	long.OnlyThorough(t)
	b := browser.New(t)
	at := serve(t)
	for name := range samples() {
		for _, o := range []browser.Options{{Width: 400}, {Width: 400, Dark: true}, {Width: 1600}, {Width: 1600, Dark: true}} {
			if name == "report" {
				continue // it is a file: TestReportInBrowser
			}
			p := b.Page(o)
			p.Open(at + "/" + name)
			p.Fits()
			p.Accessible()
			p.Screenshot(fmt.Sprintf("%s-%d-%v", name, o.Width, map[bool]string{true: "dark", false: "light"}[o.Dark]))
			p.Clean()
		}
	}
}

// TestReportInBrowser opens the report as a file.
func TestReportInBrowser(t *testing.T) {
	long.OnlyThorough(t)
	b := browser.New(t)
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(written(t, sampleReport(165, true))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []browser.Options{{Width: 400}, {Width: 1600, Dark: true}, {Width: 1600}} {
		p := b.Page(o)
		p.Open((&url.URL{Scheme: "file", Path: file}).String())
		p.Fits()
		p.Accessible()
		p.Screenshot(fmt.Sprintf("report-%d-%v", o.Width, map[bool]string{true: "dark", false: "light"}[o.Dark]))
		p.Clean()
	}
}
