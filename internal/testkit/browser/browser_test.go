package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestPage: a page that does what it must not do is reported, and one that does not is not.
func TestPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'")
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>good</title><link rel=icon href=data:,><main><h1>good</h1><label>name <input></label></main>`)
		case "/bad":
			fmt.Fprint(w, `<!doctype html><html lang="en"><title>bad</title><link rel=icon href=data:,><main><h1>bad</h1><input></main>
				<img src="http://127.0.0.1:9/x.png"><script>console.error("loud"); alert("stop"); nothing.at.all</script>`)
		}
	}))
	defer server.Close()
	b := New(t)

	good := b.Page(Options{Dark: true, Width: 400})
	good.Open(server.URL + "/good")
	good.Type("input", "someone")
	good.Wait("document.querySelector('input').value === 'someone'")
	if !Eval[bool](good, "matchMedia('(prefers-color-scheme: dark)').matches && innerWidth === 400") {
		t.Error("the page is not dark, or not 400 pixels wide")
	}
	if got := good.Text("h1"); got != "good" {
		t.Errorf("the heading is %q", got)
	}
	good.Accessible()
	good.Fits()
	good.Clean("securitypolicy", "CSP", "Content Security Policy") // of the icon
	if good.Heap() <= 0 {
		t.Error("the page has no heap")
	}

	bad := b.Page(Options{})
	quiet := &faults{TB: t}
	bad.t = quiet
	bad.Open(server.URL + "/bad")
	bad.Wait("document.querySelector('h1')")
	bad.Accessible()
	bad.Clean()
	for _, want := range []string{"loud", "dialog: stop", "exception: ", "CSP: img-src", "axe-core: label"} {
		if !slices.ContainsFunc(quiet.errors, func(e string) bool { return strings.Contains(e, want) }) {
			t.Errorf("no error has %q: %q", want, quiet.errors)
		}
	}

	still := b.Page(Options{NoScript: true})
	still.Open(server.URL + "/bad")
	still.t = quiet
	quiet.errors = nil
	still.Clean()
	if slices.ContainsFunc(quiet.errors, func(e string) bool { return strings.Contains(e, "loud") }) {
		t.Error("the page ran its script")
	}
}

// faults keeps the errors of a test.
type faults struct {
	testing.TB
	errors []string
}

func (f *faults) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
