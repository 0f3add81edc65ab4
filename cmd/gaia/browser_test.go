package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/gaia-harness/gaia/internal/testkit/browser"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// viewing starts gaia view, and returns the address with the token that it prints.
func (p program) viewing(args ...string) (address string) {
	p.t.Helper()
	cmd := p.command(append([]string{"view"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("gaia view ends with %v\n%s", err, &stderr)
		}
	})
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		for word := range strings.FieldsSeq(lines.Text()) {
			if strings.HasPrefix(word, "http://127.0.0.1:") {
				go io.Copy(io.Discard, pipe)
				return word
			}
		}
	}
	p.t.Fatalf("gaia view %q prints no address: %v\n%s", args, lines.Err(), &stderr)
	return ""
}

// siteOf returns an address without its path.
func siteOf(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// paths returns the pages of a run that links of its pages lead to.
func paths(run, task string) map[string]string {
	return map[string]string{
		"runs": "/", "run": "/run/" + run, "task": "/run/" + run + "/task/" + task, "audit": "/run/" + run + "/audit",
		"journal": "/run/" + run + "/journal?line=40", "compare": "/compare?a=" + run + "&b=" + run, "history": "/history",
	}
}

// TestViewInBrowser: a reader sees the rehearsal in Chromium, by mouse and keyboard, on a small and a large screen, light
// and dark.
func TestViewInBrowser(t *testing.T) {
	t.Parallel()
	long.NotRaced(t)
	b := browser.New(t)
	p := newProgram(t)
	p.want(0, "run", "--submit-intent")
	dir := p.runDir()
	run := filepath.Base(dir)
	p.want(0, "run", "--out", "runs", "--limit", "2") // another one to compare with
	address := p.viewing()
	at := siteOf(address)

	page := b.Page(browser.Options{})
	page.Open(address)
	page.Wait(`document.querySelectorAll("table.rows tbody tr").length === 2`)
	if strings.Contains(browser.Eval[string](page, "location.href"), "t=") {
		t.Error("the token stays in the address")
	}
	page.Screenshot("runs")
	page.Accessible()

	t.Run("keyboard", func(t *testing.T) {
		page.In(t)
		page.Open(at + "/run/" + run)
		page.Wait(`document.querySelector("dialog")`) // the script has run
		page.Press("j")
		page.Press("j")
		page.Press("k")
		page.Wait(`document.activeElement.matches("tr") && document.activeElement.rowIndex === 1`)
		page.Press("?")
		page.Wait(`document.querySelector("dialog").open`)
		page.Press(kb.Escape)
		page.Wait(`!document.querySelector("dialog").open`)
		page.Press("/")
		page.Wait(`document.activeElement.matches("form.filter input, form.filter select")`)
		page.Press(kb.Escape)
		page.Press("j")
		page.Press(kb.Enter)
		page.Wait(`location.pathname.includes("/task/") && document.querySelector(".item") && document.querySelector("dialog")`)
		page.Press("j")
		page.Wait(`document.activeElement.matches(".item, .finding")`)
		page.Clean()
	})

	t.Run("filters", func(t *testing.T) {
		page.In(t)
		all := `document.querySelectorAll("#tasks tbody tr").length`
		page.Open(at + "/run/" + run)
		if n := browser.Eval[int](page, all); n != 40 {
			t.Fatalf("the run has %d tasks", n)
		}
		for query, want := range map[string]string{
			"?level=1": `[...document.querySelectorAll("#tasks tbody tr")].length > 0`, "?tool=web_search": all + " > 0", "?outcome=solved": all + " > 0",
			"?text=fab1e009": all + " === 1", "?text=nothing-has-this": all + " === 0",
		} {
			page.Open(at + "/run/" + run + query)
			if !browser.Eval[bool](page, want+" && "+all+" < 40") {
				t.Errorf("%s shows %d tasks", query, browser.Eval[int](page, all))
			}
		}
		page.Open(at + "/run/" + run)
		page.Type("form.filter input[type=search]", "fab1e025")
		page.Press(kb.Enter)
		page.Wait(`location.search.includes("fab1e025") && ` + all + ` === 1`)
		page.Clean()
	})

	t.Run("links", func(t *testing.T) {
		page.In(t)
		page.Open(at + "/run/" + run + "/task/fab1e025-0000-4000-8000-000000000025")
		page.Open(at + browser.Eval[string](page, `new URL([...document.querySelectorAll("a.permalink")].at(-1).href).pathname + new URL([...document.querySelectorAll("a.permalink")].at(-1).href).search`) +
			browser.Eval[string](page, `new URL([...document.querySelectorAll("a.permalink")].at(-1).href).hash`))
		page.Wait(`document.getElementById(location.hash.slice(1))?.getBoundingClientRect().top < innerHeight`)
		page.Click("a.raw")
		page.Wait(`location.pathname.endsWith("/journal") && document.querySelector("main")?.innerText.includes("parent_hash")`)
		page.Clean()
	})

	t.Run("looks", func(t *testing.T) {
		page.In(t)
		task := browser.Eval[string](openTask(page, at+"/run/"+run), `location.pathname.split("/").at(-1)`)
		looks := []browser.Options{{Width: 400}, {Width: 1600, Dark: true}} // package page takes the other two
		if !long.Thorough() {
			looks = looks[:1] // axe-core takes seconds for each
		}
		for _, o := range looks {
			seen := b.Page(o).In(t)
			for name, path := range paths(run, task) {
				seen.Open(at + path)
				seen.Wait(`document.querySelector("main h1, header h1, h1")`)
				seen.Fits()
				seen.Accessible()
				seen.Screenshot(fmt.Sprintf("%s-%d-%t", name, o.Width, o.Dark))
			}
			seen.Clean()
		}
	})

	t.Run("without script", func(t *testing.T) {
		page.In(t)
		still := b.Page(browser.Options{NoScript: true}).In(t)
		still.Open(at + "/run/" + run)
		still.Click("#tasks tbody tr a")
		still.Wait(`location.pathname.includes("/task/") && document.querySelector(".item")`)
		still.Open(at + "/run/" + run + "?text=fab1e009")
		still.Wait(`document.querySelectorAll("#tasks tbody tr").length === 1`)
		still.Clean()
	})

	t.Run("report", func(t *testing.T) {
		page.In(t)
		for name, args := range map[string][]string{"plain": nil, "texts": {"--with-texts"}} {
			p.want(0, append([]string{"report", dir, "-o", name + ".html"}, args...)...)
			file := b.Page(browser.Options{Width: 400}).In(t)
			file.Open("file://" + filepath.Join(p.dir, name+".html"))
			file.Wait(`document.querySelectorAll("#tasks tbody tr").length > 20`)
			file.Fits()
			if name == "plain" { // the other takes axe-core a minute
				file.Accessible()
				file.Screenshot("report")
			}
			file.Clean()
			data, err := os.ReadFile(filepath.Join(p.dir, name+".html"))
			if err != nil {
				t.Fatal(err)
			}
			if has := bytes.Contains(data, []byte("FINAL ANSWER")); has != (name == "texts") {
				t.Errorf("report %s has texts: %t", name, has)
			}
		}
	})

	t.Run("refused", func(t *testing.T) {
		page.In(t)
		response, err := http.Get(address) // the token was used
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("a token that was used gives %s", response.Status)
		}
		second := p.viewing(dir) // two viewers do not disturb each other
		page.Open(second)
		page.Wait(`document.querySelector("#tasks tbody tr")`)
		page.Open(at + "/")
		page.Wait(`document.querySelectorAll("table.rows tbody tr").length === 2`)
		page.Clean()
	})
}

// openTask opens the first task of a run.
func openTask(page *browser.Page, run string) *browser.Page {
	page.Open(run)
	page.Click("#tasks tbody tr a")
	page.Wait(`location.pathname.includes("/task/")`)
	return page
}

// TestViewLive: a page follows a run that another process writes, to its end, and says when it is removed.
func TestViewLive(t *testing.T) {
	t.Parallel()
	long.NotRaced(t)
	b := browser.New(t)
	p := newProgram(t)
	if code, stderr := p.signalAfter(4, syscall.SIGKILL); code != -1 {
		t.Fatalf("was not killed: exit code %d\n%s", code, stderr)
	}
	dir := p.runDir()
	address := p.viewing()
	page := b.Page(browser.Options{})
	page.Open(address)
	page.Open(siteOf(address) + "/run/" + filepath.Base(dir))
	page.Wait(`document.querySelector("main").innerText.includes("not")`)
	page.Screenshot("unfinished")
	browser.Eval[bool](page, `(globalThis.first = document.querySelector("main"), true)`)
	p.want(0, "resume", dir)
	page.Wait(`document.querySelector("main") === first && document.querySelector(".score .figure").innerText.includes("%")`)
	page.Wait(`!document.querySelector("main").innerText.includes("not verified")`)
	page.Screenshot("finished")
	page.Clean()

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(strings.ToLower(page.Text("main")), "removed") { // the server looks once a second
		page.Open(siteOf(address) + "/run/" + filepath.Base(dir))
	}
	page.Clean("410", "404")
}

// TestViewHostile: whatever a model, page, dataset, judge or operator wrote stays text: no dialog, no request, no report
// of the content security policy.
func TestViewHostile(t *testing.T) {
	t.Parallel()
	long.NotRaced(t)
	b := browser.New(t)
	const each = 11 // payloads in a text; in all rounds together each text has each of them once, and each round has all in some text
	rounds := len(runs.Payloads) / each
	for round := range rounds {
		if !long.Turn(round, rounds) { // of .ci/run, too: so many commits have all rounds, as GAIA_THOROUGH=1 without GAIA_ROTATION has
			continue
		}
		p := newProgram(t)
		files, err := runs.Hostile(func(n int, text string) string {
			for k := range each {
				text += runs.Payloads[(n+round*each+k)%len(runs.Payloads)]
			}
			return text
		})
		if err != nil {
			t.Fatal(err)
		}
		p.writeRun(files)
		address := p.viewing()
		page := b.Page(browser.Options{Width: 400})
		page.Open(address)
		seen := map[string]bool{}
		links := func() []string {
			return browser.Eval[[]string](page, `[...new Set([...document.querySelectorAll("a[href]")].map(a => a.href.split("#")[0]).filter((h, i) => !h.includes("line=") || i % 17 === 0))]`)
		}
		for next := links(); len(next) > 0 && len(seen) < 60; next = next[1:] {
			to := next[0]
			if seen[to] || strings.Contains(to, "/plot/") || strings.Contains(to, "/body/") {
				continue
			}
			seen[to] = true
			if !strings.HasPrefix(to, siteOf(address)+"/") {
				t.Errorf("a link leads to %q", to)
				continue
			}
			page.Open(to)
			if browser.Eval[bool](page, `!!document.querySelector("main") && document.querySelectorAll("iframe, object, embed, base, form[action^='http:']:not([action*='127.0.0.1']), meta[http-equiv=refresh], [onerror], [onload], [style]").length > 0`) {
				t.Errorf("%s has an element that text made", to)
			}
			next = append(next, links()...)
		}
		if len(seen) < 10 {
			t.Errorf("round %d: only %d pages were seen", round, len(seen))
		}
		page.Clean("404")
	}
}

// writeRun writes the files of a run.
func (p program) writeRun(files map[string][]byte) (dir string) {
	dir = filepath.Join(p.dir, "runs", "01M00000000000000000000000")
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	return dir
}

// TestViewLarge: of an attempt of 100,000 events a page has at most 3,000, and its heap stays below 150 MB.
func TestViewLarge(t *testing.T) {
	long.OnlyThorough(t)
	b := browser.New(t)
	p := newProgram(t)
	files, err := runs.Long(100_000 / runs.LongRound)
	if err != nil {
		t.Fatal(err)
	}
	p.writeRun(files)
	address := p.viewing()
	page := b.Page(browser.Options{})
	page.Open(address)
	run := browser.Eval[string](page, `document.querySelector("table.rows tbody a").pathname`)
	page.Open(siteOf(address) + run + "/task/" + runs.LongTask)
	items := `document.querySelectorAll(".item, .item .under").length`
	t.Logf("the first chunk has %d items, %d ms after the browser began to ask for it", browser.Eval[int](page, items),
		browser.Eval[int](page, `Math.round(performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd)`))
	first := browser.Eval[string](page, `document.querySelector(".item").id`)
	for range 16 { // 15 chunks are 3,000 items
		page.Wait(`document.querySelector("#items a[rel=next]:not([aria-busy])")`)
		before := browser.Eval[string](page, `[...document.querySelectorAll(".item")].at(-1).id`)
		browser.Eval[bool](page, `([...document.querySelectorAll("#items a[rel=next]")].at(-1).scrollIntoView(), true)`)
		page.Wait(`[...document.querySelectorAll(".item")].at(-1).id !== "` + before + `"`)
	}
	if browser.Eval[bool](page, `!!document.getElementById("`+first+`")`) {
		t.Error("the first event is still shown after 16 more chunks")
	}
	if n := browser.Eval[int](page, items); n > 3000 {
		t.Errorf("the page has %d items", n)
	}
	heap := page.Heap()
	t.Logf("%d items, heap %d bytes", browser.Eval[int](page, items), heap)
	if heap > 150e6 {
		t.Errorf("the heap has %d bytes", heap)
	}
	page.Clean()
}

// TestPicture writes the picture of the README: the page of the rehearsal, as 'make picture' asks for it.
func TestPicture(t *testing.T) {
	out := os.Getenv("GAIA_PICTURE")
	if out == "" {
		t.Skip("'make picture' sets GAIA_PICTURE")
	}
	b := browser.New(t)
	p := newProgram(t)
	p.want(0, "run", "--submit-intent")
	address := p.viewing("latest")
	page := b.Page(browser.Options{Width: 1280})
	page.Open(address)
	page.Wait(`document.querySelector(".score .figure") && !document.querySelector("main").innerText.includes("not verified")`)
	page.Clean()
	if err := os.WriteFile(out, page.Picture(false), 0o644); err != nil {
		t.Fatal(err)
	}
}
