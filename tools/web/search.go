package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"
)

const (
	shownResults  = 10
	maxHits       = 100 // that are taken of an answer, whatever the engine sends
	snippetRunes  = 500
	searchTries   = 4
	firstWait     = time.Second
	longestWait   = 30 * time.Second // between tries; an engine that asks for more is not asked again
	maxEngineSays = 200              // characters of an engine's own words that are quoted
)

type webSearchArgs struct {
	Query string `json:"query"`
}

// NewWebSearch makes web_search, which asks e. The engine's host may be on this
// machine or a private network, since the operator chose it: the guard holds
// for everything else. It panics if there is no engine of e's name.
//
// The key goes into a header of the request and nowhere else: an engine that
// has one is asked without following redirects, and should it repeat the key
// in its answer, that is taken out. The address of the request is recorded, then those of
// what was found.
func NewWebSearch(w *Web, e Engine) tools.Tool {
	form, ok := engines[e.Name]
	if !ok {
		panic(fmt.Sprintf("there is no search engine %q", e.Name))
	}
	e.URL = cmp.Or(e.URL, form.url)
	s := &searcher{engine: e, form: form, web: w}
	if u, err := url.Parse(s.engine.URL); err == nil {
		s.web = &Web{w.config, guard.New(w.config.Exceptions, HostPort(u)).Transport()}
	}
	return tools.Define(tools.Definition[webSearchArgs]{Name: "web_search",
		Description: "Searches the web.",
		Run:         s.search,
		URLs:        func(a webSearchArgs) []string { return []string{s.form.ask(s.engine, a.Query).url} }})
}

type searcher struct {
	web    *Web
	engine Engine
	form   engineForm
}

// HostPort is what is dialled for u.
func HostPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

func (s *searcher) search(ctx context.Context, env *tools.Env, a webSearchArgs) (tools.Output, error) {
	if strings.TrimSpace(a.Query) == "" {
		return tools.Failed("the query is empty"), nil
	}
	r, err := s.ask(ctx, env, a.Query)
	if ctx.Err() != nil {
		return tools.Output{}, ctx.Err()
	}
	var out tools.Output
	switch {
	case err != nil:
		out = tools.Failed("the search engine could not be asked: %v", err)
	case r.status != http.StatusOK:
		out = tools.Failed("the search engine answered %d %s%s",
			r.status, http.StatusText(r.status), turnedDown(r.status, s.engine.Name, r.body))
	default:
		var found []hit
		ok := gjson.ValidBytes(r.body)
		if ok {
			found, ok = s.form.read(gjson.ParseBytes(r.body))
		}
		if out = results(a.Query, found); !ok {
			out = tools.Failed("the search engine's answer is not a list of results")
		}
	}
	out.URLs = append(r.urls, out.URLs...)
	return out.Without(s.engine.Key), nil
}

// ask asks the engine, and again while it is overloaded or asks to be asked
// less often. The response has the addresses of all tries.
func (s *searcher) ask(ctx context.Context, env *tools.Env, query string) (response, error) {
	x := s.form.ask(s.engine, query)
	if s.engine.Key == "" {
		x.allow = env.AllowURL
	}
	waits := &backoff.ExponentialBackOff{InitialInterval: firstWait, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: longestWait}
	var asked []trajectory.URL
	for try := 1; ; try++ {
		r, err := s.web.do(ctx, x)
		if s.engine.Key != "" { // before anything is cut in the middle of it
			r.body = bytes.ReplaceAll(r.body, []byte(s.engine.Key), []byte(trajectory.Redacted))
		}
		asked = append(asked, r.urls...)
		r.urls = asked
		if err != nil || try == searchTries || r.status != http.StatusTooManyRequests && r.status < 500 {
			return r, err
		}
		wait := waits.NextBackOff()
		if asked := llm.RetryAfter(r.status, r.header, nil); asked > 0 {
			wait = asked
		}
		if wait > longestWait {
			return r, nil
		}
		if err := s.web.config.Sleep(ctx, wait); err != nil {
			return r, err
		}
	}
}

// turnedDown says what an engine's refusal means for the model, in the engine's
// own words where it has any.
func turnedDown(status int, engine string, body []byte) string {
	says, hint := "", ""
	for _, path := range []string{"error", "detail", "message", "error.detail", "detail.error"} {
		if v := gjson.GetBytes(body, path); v.Type == gjson.String && gjson.ValidBytes(body) {
			says = tools.OneLine(v.String())
			says = says[:tools.RuneOffset(says, maxEngineSays)]
		}
	}
	switch words := strings.ToLower(says); {
	case engine == SearXNG && status == http.StatusForbidden:
		hint = ": it probably does not offer the json format"
	case status == http.StatusUnauthorized || status == http.StatusForbidden || strings.Contains(words, "subscription token"):
		hint = ": it does not accept the key; web_search is out of order, go on without it"
	case status == http.StatusPaymentRequired || status == 432 || status == 433 || strings.Contains(words, "credit"):
		hint = ": what it may be asked is used up; web_search is out of order, go on without it"
	case status == http.StatusTooManyRequests:
		hint = ": it is asked too often; go on with something else and search later"
	case status >= 500:
		hint = ": it is in trouble; search later"
	}
	if says != "" {
		hint += fmt.Sprintf(" (it says %q)", says)
	}
	return hint
}

// results lists what was found. The document holds everything, with whole
// extracts; the first few are shown.
func results(query string, found []hit) tools.Output {
	var out tools.Output
	var document, shown strings.Builder
	n := 0
	found = found[:min(len(found), maxHits)]
	for _, f := range found {
		if f.address != "" && len(f.address) <= maxURL {
			out.URLs = append(out.URLs, trajectory.URL{URL: f.address})
		}
		label := "answer box"
		if !f.box {
			n++
			label = fmt.Sprint(n)
		}
		document.WriteString(f.entry(label, tools.MaxDocument))
		if f.box || n <= shownResults {
			shown.WriteString(f.entry(label, snippetRunes))
		}
	}
	out.Document = document.String()
	out.Shown = fmt.Sprintf("[%s for %q, %d shown]\n%s", tools.Count(n, "result"), query, min(n, shownResults), shown.String())
	if len(found) == 0 {
		out.Document = fmt.Sprintf("no results for %q", query)
		out.Shown = fmt.Sprintf("[no results for %q; try fewer or other words]", query)
	}
	return out
}

// hit is one thing found, each part on one line; a box is what an engine puts
// beside its results: what it knows about a thing, or an answer it has copied
// out of a page.
type hit struct {
	title, address, extract string
	box                     bool
}

// entry writes h with at most so many characters of its title and extract.
func (h hit) entry(number string, runes int) string {
	return fmt.Sprintf("%s. %s\n   %s\n   %s\n", number, atMost(h.title, runes), atMost(h.address, maxURL), atMost(h.extract, runes))
}

// atMost cuts text to so many characters.
func atMost(text string, runes int) string {
	if end := tools.RuneOffset(text, runes); end < len(text) {
		return text[:end] + "…"
	}
	return text
}

// The search engines that web_search can ask.
const (
	Tavily  = "tavily"
	Brave   = "brave"
	Serper  = "serper"
	SearXNG = "searxng"
)

// Engine is a search engine: one of the names above, the address of its search
// endpoint, and the key to ask it with. An empty URL is the service's own;
// SearXNG has none, each instance being someone's, needs no key, and must offer
// the json format, which is off by default.
type Engine struct{ Name, URL, Key string }

// Origin is where the engine is: scheme and host, "" for a URL that is none.
func (e Engine) Origin() string { return tools.Origin(cmp.Or(e.URL, engines[e.Name].url)) }

// engineForm is how one of the engines is asked and answers. What read returns
// is false for an answer that is no list of results.
type engineForm struct {
	url  string
	ask  func(e Engine, query string) exchange
	read func(answer gjson.Result) ([]hit, bool)
}

var engines = map[string]engineForm{
	// https://docs.tavily.com/documentation/api-reference/endpoint/search.
	// The answer that it would have its own model write is not asked for.
	Tavily: {
		url: "https://api.tavily.com/search",
		ask: func(e Engine, query string) exchange {
			return post(e, "Authorization", "Bearer "+e.Key, map[string]any{"query": query, "max_results": shownResults})
		},
		read: func(answer gjson.Result) ([]hit, bool) {
			return listed(answer.Get("results"), "url", "content", "published_date")
		},
	},
	// https://api-dashboard.search.brave.com/app/documentation/web-search
	Brave: {
		url: "https://api.search.brave.com/res/v1/web/search",
		ask: func(e Engine, query string) exchange {
			x := get(e, "q", query, "count", fmt.Sprint(shownResults), "text_decorations", "false")
			x.header.Set("X-Subscription-Token", e.Key)
			return x
		},
		read: readBrave,
	},
	// https://serper.dev
	Serper: {
		url: "https://google.serper.dev/search",
		ask: func(e Engine, query string) exchange {
			return post(e, "X-API-KEY", e.Key, map[string]any{"q": query, "num": shownResults})
		},
		read: readSerper,
	},
	// https://docs.searxng.org/dev/search_api.html
	SearXNG: {
		ask:  func(e Engine, query string) exchange { return get(e, "q", query, "format", "json") },
		read: func(answer gjson.Result) ([]hit, bool) { return listed(answer.Get("results"), "url", "content", "") },
	},
}

// get is a question in the address itself.
func get(e Engine, pairs ...string) exchange {
	x := exchange{url: e.URL, header: http.Header{"Accept": {"application/json"}}}
	if u, err := url.Parse(e.URL); err == nil {
		values := u.Query()
		for pair := range slices.Chunk(pairs, 2) {
			values.Set(pair[0], pair[1])
		}
		u.RawQuery = values.Encode()
		x.url = u.String()
	}
	return x
}

// post is a question in a body.
func post(e Engine, header, value string, question map[string]any) exchange {
	body, err := json.Marshal(question, json.Deterministic(true))
	if err != nil { // a query that is not UTF-8, which no decoded argument is
		body = nil
	}
	x := exchange{method: http.MethodPost, url: e.URL, header: http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}, body: body}
	x.header.Set(header, value)
	return x
}

// listed reads an array of results; date names a member that is put before the
// extract, "" for none.
func listed(list gjson.Result, address, extract, date string) ([]hit, bool) {
	if !list.IsArray() {
		return nil, false
	}
	var found []hit
	for _, f := range list.Array() {
		h := hit{title: lineOf(f, "title"), address: lineOf(f, address), extract: lineOf(f, extract)}
		if date != "" {
			h.extract = joined(": ", lineOf(f, date), h.extract)
		}
		found = append(found, h)
	}
	return found, true
}

// readBrave: an answer without pages has no member web.
func readBrave(answer gjson.Result) ([]hit, bool) {
	if answer.Get("type").String() != "search" {
		return nil, false
	}
	var found []hit
	boxes := answer.Get("infobox.results")
	if boxes.IsObject() {
		boxes = answer.Get("infobox")
	}
	for _, b := range boxes.Array() {
		h := hit{title: cmp.Or(lineOf(b, "title"), lineOf(b, "label")), address: lineOf(b, "url"),
			extract: joined(" ", lineOf(b, "description"), lineOf(b, "long_desc")), box: true}
		for _, pair := range b.Get("attributes").Array() {
			h.extract = joined("; ", h.extract, joined(": ", lineOf(pair, "0"), lineOf(pair, "1")))
		}
		found = append(found, h)
	}
	ok := true
	if pages := answer.Get("web.results"); pages.Exists() {
		var list []hit
		list, ok = listed(pages, "url", "description", "age")
		found = append(found, list...)
	}
	for i := range found { // its texts have entities
		h := &found[i]
		h.title, h.extract = tools.OneLine(html.UnescapeString(h.title)), tools.OneLine(html.UnescapeString(h.extract))
	}
	return found, ok
}

func readSerper(answer gjson.Result) ([]hit, bool) {
	var found []hit
	if b := answer.Get("answerBox"); b.IsObject() {
		found = append(found, hit{title: lineOf(b, "title"), address: lineOf(b, "link"),
			extract: joined(" ", lineOf(b, "answer"), lineOf(b, "snippet")), box: true})
	}
	if g := answer.Get("knowledgeGraph"); g.IsObject() {
		h := hit{title: joined(", ", lineOf(g, "title"), lineOf(g, "type")), address: cmp.Or(lineOf(g, "descriptionLink"), lineOf(g, "website")),
			extract: lineOf(g, "description"), box: true}
		g.Get("attributes").ForEach(func(name, value gjson.Result) bool {
			h.extract = joined("; ", h.extract, joined(": ", tools.OneLine(name.String()), tools.OneLine(value.String())))
			return true
		})
		found = append(found, h)
	}
	list, ok := listed(answer.Get("organic"), "link", "snippet", "date")
	return append(found, list...), ok
}

// lineOf is a member of an answer on one line.
func lineOf(v gjson.Result, path string) string { return tools.OneLine(v.Get(path).String()) }

// joined joins what is not empty.
func joined(by string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), by)
}
