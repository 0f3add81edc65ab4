package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tidwall/gjson"
)

const engineKey = "fab1e-key-of-no-one"

// conversations are the engines' in testdata, by name of the engine.
func conversations(t testing.TB) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for name := range engines {
		archive, err := txtar.ParseFile(filepath.Join("testdata", "search", name+".txtar"))
		must(t, err)
		all[name] = map[string]string{}
		for _, f := range archive.Files {
			all[name][f.Name] = string(f.Data)
		}
	}
	return all
}

// Each engine is asked as its documentation says, and what it answers is listed.
func TestEngines(t *testing.T) {
	for name, c := range conversations(t) {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = []string{r.Method + " " + r.URL.RequestURI(), string(body)}
				for name, values := range r.Header {
					asked = append(asked, strings.ToLower(name)+": "+values[0])
				}
				_, _ = w.Write([]byte(c["answer"]))
			}))
			defer server.Close()
			e := Engine{Name: name, URL: server.URL + "/search", Key: engineKey}
			if name == SearXNG {
				e.Key = ""
			}
			tool := NewWebSearch(New(Config{}), e)
			out := use(t, tool, workspace(t, nil), object{"query": `Ostrel tide "gauge"`})
			if out.IsError || out.Shown != c["shown"] {
				t.Errorf("shown:\n%s", out.Shown)
			}
			for line := range strings.Lines(strings.ReplaceAll(c["request"], "SECRET", engineKey)) {
				line = strings.TrimSpace(line)
				if head, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "{") {
					line = strings.ToLower(head) + ": " + value
				}
				if !slices.Contains(asked, line) {
					t.Errorf("it was not asked with %q but with %q", line, asked)
				}
			}
			made, err := admits(tool, []byte(`{"query":"Ostrel tide \"gauge\""}`))
			must(t, err)
			var reached []string
			for _, u := range out.URLs[1:] {
				reached = append(reached, u.URL)
			}
			if out.URLs[0].URL != made[0] || out.URLs[0].Status != 200 || strings.Join(reached, "\n")+"\n" != c["urls"] {
				t.Errorf("touches %q and reached %+v", made, out.URLs)
			}
			if strings.Contains(fmt.Sprint(out, made, tool.Spec()), engineKey) {
				t.Error("the key got out")
			}
			if address := engines[name].url; (name == SearXNG) != (address == "") || address != "" && !strings.HasPrefix(address, "https://") {
				t.Errorf("its own address is %q", address)
			}
		})
	}
}

// What an engine refuses is told to the model in words it can act on, without
// the key, and what passes is tried again.
func TestEngineRefusals(t *testing.T) {
	const asked, more = 1, searchTries
	tests := []struct {
		engine string
		status int
		header http.Header
		body   string
		tries  int
		want   string
	}{
		{Tavily, 401, nil, `{"detail":{"error":"Unauthorized: ` + engineKey + ` is no key."}}`, asked,
			`401 Unauthorized: it does not accept the key; web_search is out of order, go on without it (it says "Unauthorized: [redacted] is no key.")`},
		{Serper, 403, http.Header{"Content-Type": {"text/" + engineKey}}, `{"message":"no key \u0066` + engineKey[1:] + `"}`, asked, `(it says "no key [redacted]")`},
		{Tavily, 432, nil, `{"detail":{"error":"This request exceeds your plan's set usage limit."}}`, asked, `432 : what it may be asked is used up; web_search is out of order`},
		{Tavily, 433, nil, `{"detail":{"error":"limit"}}`, asked, `what it may be asked is used up`},
		{Brave, 422, nil, `{"type":"ErrorResponse","error":{"status":422,"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"The provided subscription token is invalid."}}`, asked, "it does not accept the key"},
		{Brave, 402, nil, `{"error":{"detail":"pay"}}`, asked, "what it may be asked is used up"},
		{Brave, 429, nil, `{"type":"ErrorResponse","error":{"status":429,"code":"RATE_LIMITED","detail":"Request rate limit exceeded for plan."}}`, more, `429 Too Many Requests: it is asked too often`},
		{Brave, 422, nil, `{"error":{"detail":"Unable to validate request parameter(s)"}}`, asked, `422 Unprocessable Entity (it says "Unable to validate request parameter(s)")`},
		{Serper, 403, nil, `{"message":"Unauthorized.","statusCode":403}`, asked, "it does not accept the key"},
		{Serper, 400, nil, `{"message":"Not enough credits","statusCode":400}`, asked, "what it may be asked is used up"},
		{Serper, 503, nil, `<html>down`, more, "503 Service Unavailable: it is in trouble; search later"},
		{Serper, 500, nil, `{"message":["` + strings.Repeat("x", 9000) + `"]}`, more, "500 Internal Server Error: it is in trouble"},
		{Serper, 302, http.Header{"Location": {"/elsewhere"}}, ``, asked, "302 Found"},
		{Serper, 429, http.Header{"Retry-After": {"7"}}, ``, more, "it is asked too often"},
		{Serper, 429, http.Header{"Retry-After": {"3600"}}, ``, asked, "it is asked too often"},
		{Serper, 429, http.Header{"Retry-After": {"2h3"}}, ``, more, "it is asked too often"}, // which says nothing
		{Serper, 200, nil, `{"organic":{}}`, asked, "not a list of results"},
		{Brave, 200, nil, `{"web":{"results":[]}}`, asked, "not a list of results"},
		{Tavily, 200, nil, `[`, asked, "not a list of results"},
	}
	for _, test := range tests {
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tries++
			for name, values := range test.header {
				w.Header()[name] = values
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		var waits []time.Duration
		web := New(Config{Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }})
		out := use(t, NewWebSearch(web, Engine{Name: test.engine, URL: server.URL, Key: engineKey}), workspace(t, nil), object{"query": "x"})
		server.Close()
		mustHold(t, test.engine, out.Shown, test.want)
		if !out.IsError || tries != test.tries || len(out.URLs) != tries || len(waits) != tries-1 || strings.Contains(fmt.Sprint(out), engineKey) || len(out.Shown) > 500 {
			t.Errorf("%s %d: after %d tries and waits %v: %+v", test.engine, test.status, tries, waits, out)
		}
		for i, d := range waits {
			if least := firstWait << i / 2; d < least || d > 3*least {
				if told := test.header.Get("Retry-After"); told == "" || d.String() != told+"s" {
					t.Errorf("%s %d: wait %d is %s", test.engine, test.status, i, d)
				}
			}
		}
	}
}

// An engine that comes round is listened to, and one that is waited for in vain
// ends with the attempt.
func TestEngineRecovers(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch tries++; tries {
		case 1:
			w.Header().Set("Date", "Fri, 20 Nov 2026 10:00:00 GMT")
			w.Header().Set("Retry-After", "Fri, 20 Nov 2026 10:00:12 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.Header().Set("Retry-After-Ms", "11500")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = w.Write([]byte(`{"organic":[]}`))
		}
	}))
	defer server.Close()
	var waits []time.Duration
	ended := errors.New("ended")
	config := Config{Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }}
	out := use(t, NewWebSearch(New(config), Engine{Name: Serper, URL: server.URL}), workspace(t, nil), object{"query": "x"})
	if out.IsError || !slices.Equal(waits, []time.Duration{12 * time.Second, 11500 * time.Millisecond}) || len(out.URLs) != 3 || out.URLs[0].Status != 503 || out.URLs[2].Status != 200 {
		t.Errorf("after %v: %+v", waits, out)
	}
	tries = 0
	ctx, cancel := context.WithCancelCause(t.Context())
	config.Sleep = func(ctx context.Context, d time.Duration) error { cancel(ended); return ctx.Err() }
	if _, err := callTool(ctx, NewWebSearch(New(config), Engine{Name: Serper, URL: server.URL}), workspace(t, nil), []byte(`{"query":"x"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that waits when all ends: %v", err)
	}
}

// Whatever an engine answers, a list of it can be shown.
func FuzzEngines(f *testing.F) {
	for name, c := range conversations(f) {
		f.Add(name, []byte(c["answer"]))
	}
	f.Fuzz(func(t *testing.T, name string, answer []byte) {
		form, ok := engines[name]
		if !ok || !gjson.ValidBytes(answer) {
			return
		}
		found, ok := form.read(gjson.ParseBytes(answer))
		if !ok {
			return
		}
		out := results("x", found)
		if lines := strings.Count(out.Document, "\n"); lines > 3*len(found) || out.IsError {
			t.Errorf("%d lines of %d results: %q", lines, len(found), out.Document)
		}
		turnedDown(400, name, answer)
	})
}

// However much an engine sends, a result can be recorded.
func TestEngineFloods(t *testing.T) {
	var found []hit
	for range 2500 {
		found = append(found, hit{title: strings.Repeat("t", 10_000), address: "http://a.example/" + strings.Repeat("a", 8000), extract: "e"})
	}
	out := results("x", found)
	if len(out.URLs) != maxHits || len(out.Shown) > 200_000 {
		t.Errorf("%d addresses, %d bytes shown", len(out.URLs), len(out.Shown))
	}
}
