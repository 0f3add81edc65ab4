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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/gaia-harness/gaia/internal/testkit/browser"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/transcript"
)

// growing is an attempt that is still going on.
type growing struct {
	events atomic.Int64
	asked  atomic.Int64 // how often its page was
	hold   sync.RWMutex // while it is locked, no reply with the page comes
	live   atomic.Bool  // pages that are opened from now on follow the stream
	news   chan string  // lines for the stream, which one page follows
}

// page returns the page from an event on.
func (g *growing) page(r *http.Request) Task {
	total, from := int(g.events.Load()), natural(r.FormValue("from"))
	if line := natural(r.FormValue("line")); line > 0 {
		from = (line - 1001) / transcript.ChunkSize * transcript.ChunkSize
	}
	p := Task{Head: Head{Title: "Growing"}, Path: "/growing", Attempt: 1, Chunk: transcript.Chunk{From: from, Total: total, Next: from + transcript.ChunkSize, Prev: from - transcript.ChunkSize, Open: true}}
	if g.live.Load() {
		p.Live = "/events"
	}
	if p.Chunk.Next >= total {
		p.Chunk.Next = -1
	}
	if p.Chunk.Prev < 0 {
		p.Chunk.Prev = -1
	}
	for i := from; i < min(total, from+transcript.ChunkSize); i++ {
		p.Chunk.Items = append(p.Chunk.Items, transcript.Item{Line: int64(1001 + i), Turn: i/10 + 1, Kind: transcript.KindReply, Title: fmt.Sprint("event ", i), Text: strings.Repeat("a line\n", 20)})
	}
	return p
}

// stream is its stream of server-sent events.
func (g *growing) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case news := <-g.news:
			fmt.Fprint(w, news+"\n\n")
			w.(http.Flusher).Flush()
		}
	}
}

// serve serves the sample, and a growing attempt, as a server of pages would.
func serve(t *testing.T) (string, *growing) {
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
	g := &growing{news: make(chan string)}
	show("/growing", func(r *http.Request) page {
		g.asked.Add(1)
		g.hold.RLock()
		defer g.hold.RUnlock()
		return g.page(r)
	})
	show("/growing/chunk", func(r *http.Request) page { return fragment{g.page(r)} })
	mux.HandleFunc("GET /events", g.stream)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, g
}

// TestPagesInBrowser looks at each page narrow and dark, and wide and light; TestContrast has the other pairs.
func TestPagesInBrowser(t *testing.T) {
	long.OnlyThorough(t)
	b := browser.New(t)
	at, _ := serve(t)
	for name := range samples() {
		for _, o := range []browser.Options{{Width: 400, Dark: true}, {Width: 1600}} {
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
	for _, o := range []browser.Options{{Width: 400}, {Width: 1600, Dark: true}} {
		p := b.Page(o)
		p.Open((&url.URL{Scheme: "file", Path: file}).String())
		p.Fits()
		p.Accessible()
		p.Screenshot(fmt.Sprintf("report-%d-%v", o.Width, map[bool]string{true: "dark", false: "light"}[o.Dark]))
		p.Clean()
	}
}

// TestScriptInBrowser uses the pages by keys, links and streams.
func TestScriptInBrowser(t *testing.T) {
	b := browser.New(t)
	at, g := serve(t)
	g.events.Store(4000)
	const items, focus = `document.querySelectorAll(".item").length`, `document.activeElement.id`

	p := b.Page(browser.Options{})
	p.Open(at + "/growing")
	p.Press("jjk")
	p.Wait(focus + ` === "e1001"`)
	p.Press(kb.Enter)
	p.Wait(`document.querySelector("#e1001 details").open`)
	p.Press("/")
	p.Wait(`document.activeElement.name === "text"`)
	p.Press("jk?")
	p.Wait(`document.activeElement.value.endsWith("jk?") && !document.querySelector("dialog").open`)
	p.Press(kb.Escape + "?")
	p.Wait(`document.querySelector("dialog").open`)
	p.Press(kb.Escape)
	p.Wait(`!document.querySelector("dialog").open`)

	// At the end of a page the next chunk is loaded, and the page keeps a bounded number.
	p.Wait(`(scrollTo(0, document.body.scrollHeight), ` + items + ` >= 400)`)
	p.Wait(`(document.querySelector("#items > .chunk:last-child a[rel=next]")?.click(), document.getElementById("e4900"))`)
	if n := browser.Eval[int](p, items); n > 3000 {
		t.Errorf("%d items in the page", n)
	}
	first := browser.Eval[string](p, `document.querySelector(".item").id`)
	p.Click("#items > .chunk:first-child a[rel=prev]")
	p.Wait(`document.querySelector(".item").id !== "` + first + `"`)
	if n := browser.Eval[int](p, items); n > 3000 {
		t.Errorf("%d items in the page", n)
	}
	p.Clean()

	// A link to an event leads to it, wherever it is.
	p = b.Page(browser.Options{})
	p.Open(at + "/growing#e3456")
	p.Wait(focus + ` === "e3456" && location.search.includes("line=3456")`)
	p.Clean()

	// What a reader has opened, focused and scrolled to stays as it is while the page grows.
	g.events.Store(150)
	g.live.Store(true)
	p = b.Page(browser.Options{})
	p.Open(at + "/growing")
	p.Wait(`document.getElementById("live").textContent === "live"`)
	p.Wait(`(document.querySelector("#e1005 details").open = true, document.getElementById("e1005").focus(), scrollTo(0, 700), true)`)
	top := browser.Eval[float64](p, `document.getElementById("e1005").getBoundingClientRect().top`)
	g.events.Store(160)
	g.news <- "data: 2"
	p.Wait(items + " === 160")
	if now := browser.Eval[float64](p, `document.getElementById("e1005").getBoundingClientRect().top`); now != top {
		t.Errorf("the page moved by %g pixels", now-top)
	}
	p.Wait(focus + ` === "e1005" && document.querySelector("#e1005 details").open`)
	before := g.asked.Load()
	for range 30 { // at once: the page is asked for at most each 250 ms
		g.news <- "data: 3"
	}
	g.events.Store(161)
	g.news <- "event: end\ndata: 4"
	p.Wait(items + " === 161")
	if n := g.asked.Load() - before; n > 20 {
		t.Errorf("the page was asked for %d times", n)
	}
	p.Clean()

	// A chunk that comes while the page is asked for again stays the one that it is.
	g.events.Store(400)
	p = b.Page(browser.Options{})
	p.Open(at + "/growing")
	p.Wait(`document.getElementById("live").textContent === "live"`)
	wait := func(asked int64) {
		for g.asked.Load() < asked {
			time.Sleep(time.Millisecond)
		}
	}
	before = g.asked.Load()
	g.hold.Lock()
	g.news <- "data: 5"
	wait(before + 1)
	p.Click("a[rel=next]")
	p.Wait(items + " === 400")
	g.hold.Unlock()
	g.news <- "data: 6"
	wait(before + 2) // the first reply has been used
	p.Wait(items + ` === 400 && document.getElementById("e1400") && document.querySelectorAll("#e1001").length === 1`)
	p.Clean()

	// Tables are sorted by their headers.
	p = b.Page(browser.Options{Width: 1600})
	p.Open(at + "/run")
	p.Click("#task-rows th:nth-child(10) button")
	p.Wait(`(n => n.every((x, i) => !i || n[i-1] >= x))([...document.querySelectorAll("#task-rows td:nth-child(10)")].map(c => +c.textContent.replace(",", "")))`)
	p.Clean()

	// Without script the links do the same.
	g.events.Store(400)
	p = b.Page(browser.Options{NoScript: true})
	p.Open(at + "/growing")
	p.Click("a[rel=next]")
	p.Wait(`location.search.includes("from=200") && document.getElementById("e1201")`)
	p.Clean()
}
