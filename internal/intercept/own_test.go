package intercept

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestOwn: gold in a request is recorded as the agent's, wherever it stands there, and a reply that repeats it is no source;
// an address that a model gave is not the agent's.
func TestOwn(t *testing.T) {
	r := newRig(t, map[string]string{"almanac.example:80": serve(t, "http", "almanac.example", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprint(w, q.URL.Query().Get("say"), q.Header.Get("X-Say"), string(body))
	}))}, nil)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, testGold)
	must(t, w.Close())
	c := r.client(false)
	for i, send := range []struct {
		query, header, body, coding string
		gold                        int
	}{
		{gold: 0}, {query: "?say=Port%20Ellemere", gold: 1}, {header: testGold, gold: 1}, {body: testGold, gold: 1}, {body: zipped.String(), coding: "gzip", gold: 1},
		{query: "?say=Port%20Ellemere%2C+as+the+model+says", gold: 0},
	} {
		if send.query != "" && send.gold == 0 {
			r.origins.Add(origin.Reply, "You could ask http://almanac.example/"+send.query+" for that.")
		}
		q, err := http.NewRequest("GET", "http://almanac.example/"+send.query, bytes.NewReader([]byte(send.body)))
		must(t, err)
		q.Header.Set("X-Say", send.header)
		if send.coding != "" {
			q.Header.Set("Content-Encoding", send.coding)
		}
		res, err := c.Do(q)
		must(t, err)
		_, err = io.ReadAll(res.Body)
		must(t, err)
		res.Body.Close()
		if started := of[trajectory.ExchangeStarted](r)[i]; started.Own == nil || (started.Own.GoldHits > 0) != (send.gold > 0) {
			t.Errorf("request %d: %+v, want %d hits at least", i, started.Own, send.gold)
		}
		if _, rest := r.origins.Divide(testGold); len(rest) == 0 {
			t.Errorf("request %d: an echo is a source", i)
		}
	}
	r.finish()
}
