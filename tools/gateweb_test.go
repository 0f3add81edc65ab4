package tools_test

import (
	"context"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGateRedirect: a redirect to an answer source is not followed, and is a
// violation though the call was allowed.
func TestGateRedirect(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("https://huggingface.co/datasets/gaia-benchmark/GAIA/resolve/main/2023/validation/metadata.jsonl", http.StatusFound))
	defer server.Close()
	fetcher := web.New(web.Config{Exceptions: map[string]string{"pages.example:80": strings.TrimPrefix(server.URL, "http://")}})
	sink := &tools.GateSink{}
	s := tools.NewSession(t, sink, nil, web.NewWebFetch(fetcher))
	results, err := s.Run(context.Background(), 1, []tools.Call{{"c1", "web_fetch", `{"url":"http://pages.example/"}`}})
	if err != nil || !strings.Contains(results[0].Text, "R001") {
		t.Fatalf("results %+v, error %v", results, err)
	}
	payloads := tools.Flushed(t, s, sink)
	if got, want := tools.Names(payloads), "tool_proposed policy_decision policy_violation rollback tool_executed"; got != want {
		t.Fatalf("recorded %s, want %s", got, want)
	}
	urls := payloads[4].(trajectory.ToolExecuted).URLs
	if len(urls) != 2 || urls[0].Status != http.StatusFound || urls[1].Status != 0 {
		t.Errorf("addresses Recorded: %+v", urls)
	}
}

// TestGateOwnID: an address with the id of the session's task is not asked, nor
// is a redirect to one followed.
func TestGateOwnID(t *testing.T) {
	const own, other = "fab1e101-0000-4000-8000-000000000001", "fab1e101-0000-4000-8000-000000000002"
	for _, tt := range []struct {
		asked, leadsTo string
		refused        bool
	}{
		{"http://pages.example/" + own, "", true},
		{"http://pages.example/start", "http://pages.example/tasks?id=" + own, true},
		{"http://pages.example/start", "http://pages.example/tasks?id=" + other, false},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; r.URL.Path == "/start" {
				http.Redirect(w, r, tt.leadsTo, http.StatusFound)
			}
		}))
		fetcher := web.New(web.Config{Exceptions: map[string]string{"pages.example:80": strings.TrimPrefix(server.URL, "http://")}})
		s := tools.NewSession(t, &tools.GateSink{}, nil, web.NewWebFetch(fetcher))
		s.SetTask(own)
		results, err := s.Run(context.Background(), 1, []tools.Call{{"c1", "web_fetch", `{"url":"` + tt.asked + `"}`}})
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		told := strings.Contains(results[0].Text, "R001 answer sources: this looks for the task by its id")
		if beyond := asked == 2 || asked == 1 && tt.leadsTo == ""; told != tt.refused || beyond == tt.refused {
			t.Errorf("%s, then %q: told %q after %d requests", tt.asked, tt.leadsTo, results[0].Text, asked)
		}
	}
}
