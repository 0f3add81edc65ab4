// Package browser drives Debian's Chromium over pages of the viewer, in tests.
//
// A Page notes everything that a page must not do: console errors, exceptions, dialogs,
// violations of the content security policy, and requests to another origin. axe-core
// (axe/LICENSE) checks accessibility; it is in no program.
package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed axe/axe.min.js.gz
var axe []byte

// ScreenshotsEnv names the folder that gets a picture of each Page.Screenshot, for review by eye.
const ScreenshotsEnv = "GAIA_SCREENSHOTS"

// timeout bounds one action on a page. A loaded machine may start Chromium slowly.
const timeout = 60 * time.Second

// Browser is a running Chromium with an empty profile.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// New starts Chromium, or skips the test where there is none.
func New(t testing.TB) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: there is no chromium here, so no page is seen in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(timeout),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("enable-features", ""))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	return &Browser{t, ctx}
}

// Options say how a page is seen.
type Options struct {
	Width    int64 // pixels; 0: 1,200
	Dark     bool
	NoScript bool
}

// Page is a tab.
type Page struct {
	t      testing.TB
	ctx    context.Context
	width  int64  // of its window
	origin string // that requests may go to; "" before Open
	mu     sync.Mutex
	wrong  []string // what the page did and must not do
}

// report notes violations of the content security policy where a page meets them.
const report = `document.addEventListener("securitypolicyviolation", e =>
	console.error("CSP: " + e.violatedDirective + " refused " + (e.blockedURI || e.sourceFile) + " " + e.sample))`

// Page opens an empty tab, which closes at the end of the test.
func (b *Browser) Page(o Options) *Page {
	b.t.Helper()
	ctx, stop := chromedp.NewContext(b.ctx)
	b.t.Cleanup(stop)
	p := &Page{t: b.t, ctx: ctx}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	width := o.Width
	if width == 0 {
		width = 1200
	}
	p.width = width
	if err := chromedp.Do(ctx); err != nil { // which makes the tab
		b.t.Fatalf("opening a tab: %v", err)
	}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		b.t.Fatalf("listening to a tab: %v", err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, cdpage.Enable, cdpage.EnableParams{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: o.NoScript})
	call(p, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: report})
	return p
}

// call sends a command of the DevTools protocol to a tab.
func call[P, R any](p *Page, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, timeout)
	defer stop()
	r, err := chromedp.Call(ctx, c, params)
	if err != nil {
		p.t.Fatalf("%s: %v", c, err)
	}
	return r
}

// In lets a subtest use the tab: what fails fails that one.
func (p *Page) In(t testing.TB) *Page {
	p.t = t
	return p
}

func (p *Page) note(event any) {
	wrong := ""
	switch e := event.(type) {
	case *cdpage.EventJavascriptDialogOpening:
		wrong = "dialog: " + e.Message
		go chromedp.Call(p.ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{})
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			wrong += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var args []string
			for _, a := range e.Args {
				args = append(args, string(a.Value)+a.Description)
			}
			wrong = "console: " + strings.Join(args, " ")
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			wrong = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		from := originOf(e.DocumentURL) // what a page that was left still asks for is of that page's origin
		if e.Type == network.ResourceTypeDocument {
			p.mu.Lock()
			from = p.origin
			p.mu.Unlock()
		}
		if at := e.Request.URL; !strings.HasPrefix(at, "data:") && !strings.HasPrefix(at, "blob:") && originOf(at) != from {
			wrong = "request to another origin: " + at
		}
	}
	if wrong != "" {
		p.mu.Lock()
		p.wrong = append(p.wrong, wrong)
		p.mu.Unlock()
	}
}

// originOf returns scheme and host of an address. All files are one origin.
func originOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return at
	}
	return u.Scheme + "://" + u.Host
}

func (p *Page) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, timeout)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Open goes to an address and waits until it is loaded.
func (p *Page) Open(at string) {
	p.t.Helper()
	p.mu.Lock()
	p.origin = originOf(at)
	p.mu.Unlock()
	p.do("opening "+at, chromedp.Navigate(at))
}

// Eval returns what a JavaScript expression gives, a promise awaited.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, timeout)
	defer stop()
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		p.t.Fatalf("evaluating %s: %v", expression, err)
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		p.t.Fatalf("%s gives %s: %v", expression, raw, err)
	}
	return v
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		if Eval[bool](p, "!!("+expression+")") {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s did not become true; the page is\n%s", expression, Eval[string](p, "document.body.innerText"))
		}
	}
}

// Click clicks on the first element of a selector, which it scrolls to.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.do("clicking on "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Press presses keys, one after another: "j", "?", or a name such as kb.Enter.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.do("pressing "+keys, chromedp.KeyEvent(keys))
}

// Type writes into the first element of a selector.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.do("typing into "+selector, chromedp.Focus(chromedp.CSS(selector)))
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// Text returns what the first element of a selector shows.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	quoted, _ := json.Marshal(selector)
	return Eval[string](p, fmt.Sprintf("(document.querySelector(%s)?.innerText ?? '')", quoted))
}

// Accessible reports the violations that axe-core finds.
func (p *Page) Accessible() {
	p.t.Helper()
	source, err := gzip.NewReader(bytes.NewReader(axe))
	if err != nil {
		p.t.Fatal(err)
	}
	script, err := io.ReadAll(source)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do("reading axe-core", chromedp.Evaluate[chromedp.Void](string(script)))
	for _, v := range Eval[[]string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r =>
		r.violations.map(v => v.id + " (" + v.impact + "): " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 300)).join(" | ")))`) {
		p.t.Errorf("axe-core: %s", v)
	}
}

// Fits reports whether the page is no wider than its window. Where a phone is emulated,
// innerWidth grows with the page, so that it is no measure.
func (p *Page) Fits() {
	p.t.Helper()
	if wide := Eval[int64](p, "document.documentElement.scrollWidth"); wide > p.width {
		p.t.Errorf("the page is %d pixels wide in a window of %d", wide, p.width)
	}
}

// Heap returns the bytes of the page's script heap, after a collection of garbage.
func (p *Page) Heap() int64 {
	p.t.Helper()
	call(p, heapprofiler.CollectGarbage, cdp.Empty{})
	return int64(call(p, runtime.GetHeapUsage, cdp.Empty{}).UsedSize)
}

// Screenshot writes a picture of the whole page to the folder that ScreenshotsEnv names, if it is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	folder := os.Getenv(ScreenshotsEnv)
	if folder == "" {
		return
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), p.Picture(true), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Picture returns the page as PNG: the whole of it, or what the window shows.
func (p *Page) Picture(whole bool) []byte {
	p.t.Helper()
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	ctx, stop := context.WithTimeout(p.ctx, timeout)
	defer stop()
	png, err := chromedp.Run(ctx, take)
	if err != nil {
		p.t.Fatalf("taking a picture: %v", err)
	}
	return png
}

// Clean reports what the page did since the last call and must not do, except what is allowed: parts of such a line.
func (p *Page) Clean(allowed ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, wrong := range p.wrong {
		for _, part := range allowed {
			if strings.Contains(wrong, part) {
				continue next
			}
		}
		p.t.Errorf("the page did what it must not do: %s", wrong)
	}
	p.wrong = nil
}
