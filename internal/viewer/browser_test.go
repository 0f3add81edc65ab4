package viewer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/testkit/browser"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestBrowser: the printed address opens in a browser, from a terminal and from a page of another site, and what is shown
// follows the run.
func TestBrowser(t *testing.T) {
	b := browser.New(t)
	id, dir, task := good(t)
	journal := filepath.Join(dir, trajectory.JournalFile)
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.LastIndexByte(data[:len(data)/2], '\n') + 1
	if err := os.WriteFile(journal, data[:half], 0o644); err != nil {
		t.Fatal(err)
	}
	varied, _ := runs.Varied()
	m, err := varied.Merged(2, runs.Part{Index: 2}, runs.Part{Index: 1}, runs.Part{Index: 2})
	merged := filepath.Join(t.TempDir(), "merged")
	if err := errors.Join(err, runs.WriteFiles(merged, m.Files)); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "running"}, page.RunRow{ID: idOf(t, merged), Dir: merged, State: page.Complete}), First: dir})
	p := b.Page(browser.Options{})
	p.Open(r.Address())
	p.Wait(fmt.Sprintf("location.pathname === '/run/%s' && document.body.innerText.includes('not finished')", id))
	if got := browser.Eval[string](p, "document.cookie + document.referrer"); got != "" {
		t.Errorf("a script sees %q", got)
	}
	tab := b.Page(browser.Options{})
	tab.Open(r.base + "/run/" + id + "/task/" + task)
	tab.Wait("document.getElementById('items')")
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data[half:]); err != nil {
		t.Fatal(err)
	}
	p.Wait("!document.body.innerText.includes('not finished') && !document.body.innerText.includes('not verified') && !document.body.dataset.live")
	tab.Wait("document.body.innerText.includes('South Marrow') || document.querySelectorAll('.item').length > 3")
	p.Clean()
	tab.Clean()

	// Of a merged run the shards are listed, and a line of its journals is named by its file.
	tab.Open(r.base + "/run/" + idOf(t, merged))
	tab.Wait("document.querySelectorAll('#shards tbody tr').length === 3 && document.getElementById('shards').innerText.includes('superseded')")
	tab.Open(r.base + "/run/" + idOf(t, merged) + "/journal?line=2#e2")
	tab.Wait("document.getElementById('e2').innerText.includes('shards/2/events.jsonl, line 2')")
	tab.Clean()

	// A link on another site: 127.0.0.1 is not localhost.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>x</title><link rel=icon href='data:,'><a href='%s'>open</a><img src='%s/'>", r.Address(), r.base)
	}))
	defer other.Close()
	link := browser.New(t).Page(browser.Options{})
	link.Open(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	link.Click("a")
	link.Wait(fmt.Sprintf("location.pathname === '/run/%s' && document.querySelector('h1')", id))
}
