package document

import (
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
	"slices"
	"strings"
	"testing"
)

// tidesPage has a table.
const tidesPage = `<!doctype html><html><head><title>Tides of
 Ostrel</title><style>p{}</style><script>var secret = 1</script></head><body>
<nav><a href="/index">Index</a></nav><h1>Tides</h1>
<p>High water at <b>Salt Quay</b>, file_name.txt. <img src="data:image/png;base64,AAAA" alt="chart"> <a href="more?x=1#part">more</a></p>
<table><tr><th>Port</th><th>Height</th></tr><tr><td>Ostrel</td><td>4.2<br>metres</td></tr><tr><td rowspan="2">Hask</td><td>3|9</td></tr><tr><td>4.0</td></tr></table>
<table><tr><td>Listed</td><td><ul><li>one</li><li>two</li></ul></td></tr></table>
</body></html>`

// A table that claims to be enormous is written without being spread out.
func TestHugeTables(t *testing.T) {
	long.NotRaced(t)
	for name, page := range map[string]string{
		"columns": `<table><tr><td colspan="1000000000">x</td><td>last</td></tr></table>`,
		"rows":    `<table><tr><td rowspan="99999999" colspan="99999999">x</td><td>last</td></tr></table>`,
		"ragged":  `<table><tr>` + strings.Repeat("<td>", 5000) + `</tr>` + strings.Repeat("<tr><td>", 5000) + `last</table>`,
		"text":    `<table><tr><td rowspan=5000>` + strings.Repeat("long ", 20000) + `</td><td>last</td></tr></table>`,
		"many":    strings.Repeat(`<table><tr><td colspan=400000>x</td></tr></table>`, 100) + "last",
		"nested":  strings.Repeat(`<table><tr><td>`, 100) + "last",
	} {
		text, err := Reader{}.Read(t.Context(), Source{ContentType: "text/html", Base: "http://a.example/", Data: []byte(page)})
		if err != nil || !strings.Contains(text.Text, "last") || len(text.Text) > 8<<20 {
			t.Errorf("%s: %v, %d bytes", name, err, len(text.Text))
		}
	}
	_, err := Reader{}.Read(t.Context(), Source{ContentType: "text/html", Base: "http://a.example/", Data: []byte(strings.Repeat("<div>", 100_000))})
	if err == nil || !strings.Contains(err.Error(), "could not be parsed") {
		t.Errorf("deep nesting: %v", err)
	}
}

// articlePage has a main text among boxes and links.
func articlePage() string {
	text := strings.Repeat("<p>The lamp of Skerrow was first lit in the year of the great frost, and it has been kept burning by the keepers, their families, and later by the harbour trust, with only two short breaks.</p>\n", 8)
	return `<!doctype html><html><head><title>The lamp of Skerrow | The Ostrel Almanac</title><meta name="author" content="Ida Venn">
<meta property="article:published_time" content="2024-05-06T07:08:09Z"><script>var secret = 1</script></head><body>
<nav class="menu"><ul><li><a href="/a">Home</a></li><li><a href="/b">Shop the sale</a></li></ul></nav>
<div class="sidebar"><p>Subscribe now, subscribe often</p></div>
<article><h1>The lamp of Skerrow</h1><p class="byline">By Ida Venn</p>` + text + `<p>See <a href="keepers#list">the keepers</a>.</p></article>
<footer>All rights reserved by no one</footer></body></html>`
}

// A page that is hostile to those who look for its main text is shown whole, and soon.
func TestHostileArticles(t *testing.T) {
	long.NotRaced(t)
	for name, page := range map[string]string{
		"many":   strings.Repeat("<p>word, word</p>", maxArticleElements+1),
		"large":  "<p>" + strings.Repeat("word ", maxArticleBytes/5) + "</p>",
		"divs":   strings.Repeat("<div>", 400) + strings.Repeat("<div><p>word, word, word</p></div>", 6000),
		"deep":   strings.Repeat("<div>", 400) + "<p>" + strings.Repeat("word, ", 500_000),
		"spans":  strings.Repeat("<table><tr><td colspan=99999999 rowspan=99999999>word, and more</td></tr></table>", 50),
		"script": `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article","datePublished":"` + strings.Repeat("9", 5000) + `"}</script><p>word</p>`,
	} {
		src := Source{ContentType: "text/html", Base: "http://a.example/", Mode: ModeArticle, Data: []byte(page)}
		doc, err := Reader{}.Read(t.Context(), src)
		if whole := name == "many" || name == "large" || name == "deep"; err != nil || !strings.Contains(doc.Text, "word") || len(doc.Text) > tools.MaxDocument || whole != (doc.Kind == webPage) {
			t.Errorf("%s: %v, %d bytes of %s", name, err, len(doc.Text), doc.Kind)
		}
	}
}

// TestPageInChild: a page is read by the child as it is without one, and its source
// is shown where converting it takes more than the child may.
func TestPageInChild(t *testing.T) {
	t.Parallel()
	const base = "http://a.example/dir/?q=%22"
	for _, mode := range []string{ModeArticle, ModePage} {
		for _, page := range []string{articlePage(), tidesPage, `<p>one <a href="two#%c3">word</a></p>`, "<p>\xff\xe9</p>"} {
			src := Source{ContentType: "text/html", Base: base, Mode: mode, Data: []byte(page)}
			want, err := Reader{}.Read(t.Context(), src)
			must(t, err)
			got, err := childReader(t, "child-convert").Read(t.Context(), src)
			must(t, err)
			if got.Text != want.Text || got.Kind != want.Kind || !slices.Equal(got.Notes, want.Notes) {
				t.Errorf("%s: %q %q %q, want %q %q %q", mode, got.Kind, got.Notes, got.Text, want.Kind, want.Notes, want.Text)
			}
		}
	}
	nested := strings.Repeat("<blockquote>", 250) + strings.Repeat("z<br>\n", 100_000)
	for i, src := range []Source{{ContentType: "text/html", Base: base, Data: []byte(nested)}, {Name: "a.html", Data: []byte(nested)}} {
		if i%long.Step(2) != 0 { // each takes its second of the processor
			continue
		}
		doc, err := childReader(t, "child-tight").Read(t.Context(), src)
		must(t, err)
		if doc.Kind != "text" || doc.Text != nested || !slices.ContainsFunc(doc.Notes, func(n string) bool { return strings.Contains(n, "takes too much to convert") }) {
			t.Errorf("%s, %q: %d bytes", doc.Kind, doc.Notes, len(doc.Text))
		}
	}
}

func FuzzArticle(f *testing.F) {
	f.Add([]byte(articlePage()))
	f.Add([]byte(tidesPage))
	f.Fuzz(func(t *testing.T, page []byte) {
		src := Source{ContentType: "text/html", Base: "http://a.example/", Data: page}
		doc, why, err := request{Source: src}.article()
		if err != nil || (doc.Text == "") == (why == "") {
			t.Errorf("%q and %q, %v", doc.Text, why, err)
		}
	})
}
