package web

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"
)

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
	x := exchange{method: http.MethodPost, url: e.URL, header: http.Header{}, body: body}
	x.header.Set("Accept", "application/json")
	x.header.Set("Content-Type", "application/json")
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
