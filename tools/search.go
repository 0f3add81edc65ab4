package tools

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/tidwall/gjson"
)

const (
	shownResults = 10
	snippetRunes = 500
)

type webSearchArgs struct {
	Query string `json:"query" jsonschema:"what to look for, as one would type it into a search engine"`
}

// NewWebSearch makes web_search, which asks a SearXNG instance. searxngURL is
// its search endpoint; it may be on this machine or a private network, since
// the operator chose it: the guard holds for everything else. The instance must
// offer the json format, which is off by default.
func NewWebSearch(w *Web, searxngURL string) Tool {
	s := &searcher{endpoint: searxngURL}
	if u, err := url.Parse(searxngURL); err == nil {
		s.web = newWeb(w.config, hostPort(u))
	} else {
		s.web = w
	}
	return define("web_search",
		"Searches the web and lists the results found: title, address and an extract of each. Read a result with web_fetch.",
		func(a webSearchArgs) Touches {
			return Touches{URLs: []string{s.url(a.Query)}, Texts: nonEmpty(a.Query)}
		},
		s.search)
}

type searcher struct {
	web      *Web
	endpoint string
}

// hostPort is what is dialled for u.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// url is the address asked for a query.
func (s *searcher) url(query string) string {
	u, err := url.Parse(s.endpoint)
	if err != nil {
		return s.endpoint
	}
	values := u.Query()
	values.Set("q", query)
	values.Set("format", "json")
	u.RawQuery = values.Encode()
	return u.String()
}

func (s *searcher) search(ctx context.Context, env *Env, a webSearchArgs) (Output, error) {
	if strings.TrimSpace(a.Query) == "" {
		return failed("the query is empty"), nil
	}
	r, err := s.web.get(ctx, env, s.url(a.Query), "application/json")
	if ctx.Err() != nil {
		return Output{}, ctx.Err()
	}
	var out Output
	switch {
	case err != nil:
		out = failed("the search engine could not be asked: %v", err)
	case r.status != http.StatusOK:
		out = failed("the search engine answered %d %s%s", r.status, http.StatusText(r.status), searchHint(r.status))
	case !gjson.ValidBytes(r.body) || !gjson.GetBytes(r.body, "results").IsArray():
		out = failed("the search engine's answer is not a list of results")
	default:
		out = results(a.Query, gjson.GetBytes(r.body, "results").Array())
	}
	out.URLs = append(r.urls, out.URLs...)
	return out, nil
}

func searchHint(status int) string {
	if status == http.StatusForbidden {
		return ": it probably does not offer the json format"
	}
	return ""
}

// results lists what was found. The document holds everything, with whole
// extracts; the first few are shown.
func results(query string, found []gjson.Result) Output {
	var out Output
	var document, shown strings.Builder
	for i, f := range found {
		address := oneLine(f.Get("url").String())
		if address != "" && len(address) <= maxURL {
			out.URLs = append(out.URLs, trajectory.URL{URL: address})
		}
		title, extract := oneLine(f.Get("title").String()), oneLine(f.Get("content").String())
		fmt.Fprintf(&document, "%d. %s\n   %s\n   %s\n", i+1, title, address, extract)
		if i < shownResults {
			if end := runeOffset(extract, snippetRunes); end < len(extract) {
				extract = extract[:end] + "…"
			}
			fmt.Fprintf(&shown, "%d. %s\n   %s\n   %s\n", i+1, title, address, extract)
		}
	}
	out.Document = document.String()
	out.Shown = fmt.Sprintf("[%s for %q, %d shown]\n%s", count(len(found), "result"), query, min(len(found), shownResults), shown.String())
	if len(found) == 0 {
		out.Document = fmt.Sprintf("no results for %q", query)
		out.Shown = "[no results for " + fmt.Sprintf("%q", query) + "; try fewer or other words]"
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
