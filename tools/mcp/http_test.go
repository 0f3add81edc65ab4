package mcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// overLoopback serves the good server over HTTP to those who know the word.
func overLoopback(t *testing.T) (Server, *httptest.Server) {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return goodServer() }, nil)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Word") != "sesame" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(ts.Close)
	return Server{Name: "web", URL: ts.URL + "/mcp", Headers: map[string]string{"X-Word": "sesame"}}, ts
}

func TestMCPOverHTTP(t *testing.T) {
	s, ts := overLoopback(t)
	all, env := mcpNamed(t, s), mcpAttempt(t)
	if got, want := all["web__add"].Spec().Server, "mcp:web "+ts.URL; got != want {
		t.Errorf("the server is %q, not %q", got, want)
	}
	out := use(t, all["web__add"], env, object{"a": 40, "b": 2})
	if out.Shown != `{"sum":42}` || len(out.URLs) != 1 || out.URLs[0].URL != ts.URL+"/mcp" || out.URLs[0].Status != 200 || out.URLs[0].ContentType == "" {
		t.Errorf("%+v", out)
	}
	use(t, all["web__count_calls"], env, object{})
	if out := use(t, all["web__count_calls"], env, object{}); out.Shown != "call 2" {
		t.Errorf("the calls of an attempt are not one session: %q", out.Shown)
	}
	if out := use(t, all["web__many"], env, object{}); len(out.URLs) != 4 || out.URLs[0].Status != 200 || out.URLs[1].Status != 0 {
		t.Errorf("%+v", out.URLs)
	}
	ts.CloseClientConnections()
	ts.Close()
	out = use(t, all["web__add"], env, object{"a": 1, "b": 2})
	if !out.IsError || len(out.URLs) != 1 || out.URLs[0].Status != 0 {
		t.Errorf("a server that is gone: %+v", out)
	}
	s.Headers = nil
	if _, err := s.Tools(t.Context()); err == nil {
		t.Error("a server that is not told the word is used")
	}
}

// What a server over HTTP does that it must not leads nowhere.
func TestMCPOverHTTPRefusals(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(elsewhere.Close)
	for name, handle := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"redirect inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusPermanentRedirect)
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{")
		},
		"switch of protocols": switchesProtocols,
		"endless document":    func(w http.ResponseWriter, r *http.Request) { mcpEndless(w, r, "application/json", "          ") },
		"endless event": func(w http.ResponseWriter, r *http.Request) {
			mcpEndless(w, r, "text/event-stream", "data: aaaaaaaaaaaaa")
		},
		"endless events": func(w http.ResponseWriter, r *http.Request) {
			mcpEndless(w, r, "text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`+"\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			ts := httptest.NewServer(handle)
			t.Cleanup(ts.Close)
			if _, err := (Server{Name: "web", URL: ts.URL}).Tools(t.Context()); err == nil || reached || len(err.Error()) > 700 {
				t.Errorf("%v; reached: %t", err, reached)
			}
		})
	}
}

// mcpEndless says a thing again until no one listens.
func mcpEndless(w http.ResponseWriter, r *http.Request, media, text string) {
	w.Header().Set("Content-Type", media)
	text = strings.Repeat(text, 100)
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, text); err != nil {
			return
		}
	}
}

// switchesProtocols answers with 101 and keeps the connection open until the client leaves.
func switchesProtocols(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "other")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
