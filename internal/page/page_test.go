package page

import (
	"bytes"
	"html/template"
	"io"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/visible"
	"golang.org/x/net/html"
)

// planted is added to each payload, so that it is found wherever it goes.
const planted = "zq9"

var isPath = regexp.MustCompile(`Path$|^(Prev|Next|Live|Static)$`)

// filler fills a model: every string by text, every path by path, slices with two
// elements, numbers with number, and all that can be true or set.
type filler struct {
	text, path func() string
	filters    func() string
}

func (f filler) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		switch {
		case v.Type() == reflect.TypeFor[template.HTML]():
		case isPath.MatchString(name):
			v.SetString(f.path())
		default:
			v.SetString(f.text())
		}
	case reflect.Bool:
		v.SetBool(name != "File" && name != "Site")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		n := int64(3)
		if name == "Done" || name == "Correct" {
			n = 2
		}
		v.SetInt(n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Struct:
		g := f
		if name == "Filter" {
			g.text = f.filters
		}
		for i := range v.NumField() {
			g.fill(v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic(v.Kind().String())
	}
}

// fragment is what TaskItems writes, as a page.
type fragment struct{ Task }

func (p fragment) Write(w io.Writer) error { return TaskItems(w, p.Task) }

type page interface{ Write(io.Writer) error }

// everyPage returns a page of each type, filled.
func everyPage(fill func(reflect.Value, string)) map[string]page {
	all := map[string]page{}
	for name, zero := range map[string]page{"runs": Runs{}, "served": ServedRun{}, "run": Run{}, "task": Task{}, "compare": Compare{}, "audit": Audit{}, "history": History{}, "journal": Journal{},
		"failure": Failure{}, "report": Report{}, "fragment": fragment{}} {
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(v, "")
		all[name] = v.Interface().(page)
	}
	return all
}

func written(t *testing.T, p page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatalf("%T: %v", p, err)
	}
	return b.String()
}

// elements returns the elements of a page in their order.
func elements(t *testing.T, page string) []*html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var all []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func always(s string) func() string { return func() string { return s } }

// textAttributes can contain text of others.
var textAttributes = []string{"title", "alt", "aria-label", "value", "content"}

// TestHostileText: whatever is written into any field of any page, the page has the
// elements and attributes that it has for harmless text, nothing of it is in an attribute
// that does something, and no hidden character remains.
func TestHostileText(t *testing.T) {
	harmless := map[string]map[string]bool{} // elements and attributes, by page
	for _, text := range []string{"plain", strings.Repeat("long text, which is folded ", 60)} {
		for name, p := range everyPage(filler{text: always(text), path: always("/p"), filters: always("plain")}.fill) {
			if harmless[name] == nil {
				harmless[name] = map[string]bool{}
			}
			for _, e := range elements(t, written(t, p)) {
				harmless[name][e.Data] = true
				for _, a := range e.Attr {
					harmless[name][e.Data+" "+a.Key] = true
				}
			}
		}
	}
	for _, payload := range runs.Payloads {
		payload += planted
		for name, p := range everyPage(filler{text: always(payload), path: always("/p"), filters: always("plain")}.fill) {
			out := written(t, p)
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && r != '\t' && visible.Hidden(r) }); i >= 0 {
				t.Errorf("%s, %q: hidden character in %.40q", name, payload, out[i:])
			}
			found := false
			for _, e := range elements(t, out) {
				if !harmless[name][e.Data] {
					t.Errorf("%s, %q: element %s", name, payload, e.Data)
				}
				for _, a := range e.Attr {
					if !harmless[name][e.Data+" "+a.Key] {
						t.Errorf("%s, %q: attribute %s of %s", name, payload, a.Key, e.Data)
					}
					if strings.Contains(a.Val, planted) && !slices.Contains(textAttributes, a.Key) {
						t.Errorf("%s, %q: in %s of %s: %q", name, payload, a.Key, e.Data, a.Val)
					}
				}
				found = found || e.Data != "script" && e.FirstChild != nil && strings.Contains(e.FirstChild.Data, planted)
			}
			if !found {
				t.Errorf("%s, %q: the text is not there at all", name, payload)
			}
		}
	}
}

// TestHostilePaths: a path or filter from outside leads nowhere but to this server.
func TestHostilePaths(t *testing.T) {
	for _, payload := range runs.Payloads {
		payload += planted
		for name, p := range everyPage(filler{text: always(payload), path: always(payload), filters: always(payload)}.fill) {
			for _, e := range elements(t, written(t, p)) {
				for _, a := range e.Attr {
					if !slices.Contains([]string{"href", "src", "action", "data-chunk", "data-live"}, a.Key) {
						continue
					}
					u, err := url.Parse(a.Val)
					if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(a.Val, "//") || strings.Contains(a.Val, "\\") {
						t.Errorf("%s, %q: %s of %s is %q (%v)", name, payload, a.Key, e.Data, a.Val, err)
					}
				}
			}
		}
	}
}

// TestEmptyPages: pages with nothing in them have landmarks, one h1 and a way past the header.
func TestEmptyPages(t *testing.T) {
	for name, p := range everyPage(func(reflect.Value, string) {}) {
		checkFrame(t, name, written(t, p))
	}
	for name, p := range everyPage(filler{text: always("plain"), path: always("/p"), filters: always("plain")}.fill) {
		checkFrame(t, name, written(t, p))
	}
}

func checkFrame(t *testing.T, name, page string) {
	t.Helper()
	if name == "fragment" {
		return
	}
	count := map[string]int{}
	for _, e := range elements(t, page) {
		count[e.Data]++
		for _, a := range e.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: attribute %s of %s", name, a.Key, e.Data)
			}
		}
		if e.Data == "table" && (e.FirstChild == nil || !slices.ContainsFunc(slices.Collect(e.ChildNodes()), func(n *html.Node) bool { return n.Data == "caption" })) {
			t.Errorf("%s: a table without caption", name)
		}
		if e.Data == "th" && !slices.ContainsFunc(e.Attr, func(a html.Attribute) bool { return a.Key == "scope" }) {
			t.Errorf("%s: a th without scope", name)
		}
	}
	for _, one := range []string{"h1", "main", "footer", "title"} {
		if count[one] != 1 {
			t.Errorf("%s: %d of %s", name, count[one], one)
		}
	}
	if !strings.Contains(page, `class="skip" href="#main"`) {
		t.Errorf("%s: no skip link", name)
	}
}

// TestContrast: texts have the contrast that WCAG 2.2 asks for at AA on all that they stand on, and edges of fields
// and marks of plots three to one.
func TestContrast(t *testing.T) {
	themes := strings.SplitN(string(Style), "prefers-color-scheme: dark", 2)
	for i, css := range themes {
		colour := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			if colour[m[1]] == "" {
				colour[m[1]] = m[2]
			}
		}
		check := func(front, back string, least float64) {
			if got := contrast(t, colour[front], colour[back]); got < least {
				t.Errorf("theme %d: %s on %s is %.2f, want %.1f", i, front, back, got, least)
			}
		}
		for _, back := range []string{"page", "panel", "sunken", "accent-soft"} {
			for _, front := range []string{"text", "muted", "accent", "good", "bad", "warn", "live", "calm"} {
				check(front, back, 4.5)
			}
			check("edge", back, 3)
		}
		for _, series := range []string{"s0", "s1", "s2", "s3", "s4", "s5"} {
			check(series, "panel", 4.5)
		}
		for _, name := range []string{"good", "bad", "warn", "live", "calm", "accent"} {
			check(name, name+"-soft", 4.5)
			check("text", name+"-soft", 4.5)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(hex string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#")[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// TestScript: the script keeps its bounds, and has none of what its policy forbids.
func TestScript(t *testing.T) {
	if n := bytes.Count(Script, []byte("\n")); n > 600 {
		t.Errorf("%d lines", n)
	}
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser", "http:", ".style."} {
		if bytes.Contains(Script, []byte(word)) {
			t.Errorf("the script has %s", word)
		}
	}
	for _, text := range [][]byte{Script, Style} {
		if bytes.Contains(bytes.ToLower(text), []byte("</s")) {
			t.Error("would end its element in a file")
		}
	}
}
