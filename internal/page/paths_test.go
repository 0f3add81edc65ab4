package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPaths: a task may have any text as its id, and the server gets it back.
func TestPaths(t *testing.T) {
	var got string
	mux := http.NewServeMux()
	mux.HandleFunc("/run/R/task/{task}", func(_ http.ResponseWriter, r *http.Request) { got = TaskID(r.PathValue("task")) })
	for _, id := range []string{"c61d22de-5f6c-4958-a7f6-5e9707bd3466", "", ".", "..", "~", "~x", "../../etc/passwd", "a/b", "a b?c#d&e%", "//evil.example", "\u202e<b>"} {
		got = "none"
		path := Paths{Run: "/run/R"}.Task(id)
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
		if got != id {
			t.Errorf("%s leads to %q, want %q", path, got, id)
		}
	}
}
