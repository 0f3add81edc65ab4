// Package remote settles which services a run asks: the endpoint of its models, their prices, and the search engine.
//
// It contacts none of them. Errors are mistakes of usage with a hint, and show no part of a URL that may hold a key
// (TestParseURL). The caller passes what the environment has; the package does not read it.
package remote

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/tools/web"
)

// ParseURL reads a base URL as --base-url gives it.
func ParseURL(text string) (*url.URL, error) { return ParseURLOf("--base-url", "OPENAI_API_KEY", text) }

// ParseURLOf reads a base URL that a flag or a variable gives. key is the variable that has its key.
func ParseURLOf(name, key, text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, exit.Usagef("give a URL such as https://api.openai.com/v1", "%s %q is not a base URL", name, shown(text))
	case base.User != nil:
		return nil, exit.Usagef("set "+key+" instead", "%s holds credentials, which would be recorded", name)
	case base.RawQuery != "" || base.Fragment != "":
		hint := "leave out what begins with ? or #; a key belongs into " + key
		if before, _, azure := strings.Cut(base.Path, "/openai/deployments/"); azure {
			hint = "name the deployment by --model and give " + name + " " + base.Scheme + "://" + base.Host + before + "/openai/v1, which needs no api-version"
		}
		return nil, exit.Usagef(hint,
			"%s has a query or a fragment, and endpoints are asked without", name)
	}
	return base, nil
}

// shown returns a URL as it was given, without the parts that may hold a key.
func shown(text string) string {
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		text = text[:i+1] + "…"
	}
	i := strings.LastIndex(text, "@")
	if i < 0 {
		return text
	}
	scheme, _, found := strings.Cut(text[:i], "//")
	if !found {
		return "…" + text[i:]
	}
	return scheme + "//…" + text[i:]
}

// Origin returns scheme and host of a base URL, "" for what is none.
func Origin(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" {
		return ""
	}
	return base.Scheme + "://" + base.Host
}

// IsLocal reports whether a URL leads to this machine, whose models cost nothing.
func IsLocal(base *url.URL) bool {
	host := base.Hostname()
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Prices reads the price table in a file; "" is the built-in one.
func Prices(file string) (llm.Prices, error) {
	const most = 16 << 20 // bytes; a model has about a hundred
	if file == "" {
		return llm.BuiltinPrices(), nil
	}
	data, err := regular.ReadUpTo(file, most)
	if err != nil {
		return llm.Prices{}, exit.Usagef("name a price table with --prices FILE, or leave it out for the built-in one",
			"reading the price table %q: %v", file, err)
	}
	prices, err := llm.ParsePrices(data)
	if err != nil {
		return llm.Prices{}, exit.Usagef("docs/formats.md has the form of a price table, and an example", "the price table %q: %v", file, err)
	}
	return prices, nil
}

// NoSearch leaves the tool web_search out.
const NoSearch = "none"

// engines are the search engines that need a key, in the order of preference, and the variables that may hold it.
var engines = []struct {
	name      string
	variables []string
}{
	{web.Tavily, []string{"TAVILY_API_KEY"}},
	{web.Brave, []string{"BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"}},
	{web.Serper, []string{"SERPER_API_KEY"}},
}

// SearchKey returns the key of a search engine and the variable that has it; "" if there is none.
func SearchKey(engine string, getenv func(string) string) (key, variable string) {
	for _, e := range engines {
		for _, name := range e.variables {
			if key := strings.TrimSpace(getenv(name)); key != "" && e.name == engine {
				return key, name
			}
		}
	}
	return "", ""
}

// SearchKeys returns the values of all variables that may hold the key of a search engine.
func SearchKeys(getenv func(string) string) (keys []string) {
	for _, e := range engines {
		for _, name := range e.variables {
			keys = append(keys, strings.TrimSpace(getenv(name)))
		}
	}
	return keys
}

// Search returns the search engine of a run: the one that is named; else a SearXNG instance that the flags give; else
// the first whose key is in the environment. Without one its name is "". others are those that could be asked, too,
// where none was named. A key is not needed where optional is set.
func Search(named, searxng string, optional bool, getenv func(string) string) (e web.Engine, others []string, err error) {
	var found []string
	if searxng != "" {
		found = append(found, web.SearXNG)
	}
	for _, k := range engines {
		if key, _ := SearchKey(k.name, getenv); key != "" {
			found = append(found, k.name)
		}
	}
	if instance := getenv("SEARXNG_URL"); searxng == "" && instance != "" {
		searxng = instance
		found = append(found, web.SearXNG)
	}
	name := named
	if name == "" && len(found) > 0 {
		name, others = found[0], found[1:]
	}
	switch name {
	case "", NoSearch:
		return web.Engine{}, others, nil
	case web.SearXNG:
		u, err := url.Parse(searxng)
		switch {
		case searxng == "":
			err = exit.Usagef("give --searxng-url, or set SEARXNG_URL", "there is no address to search with searxng")
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			err = exit.Usagef("give a URL such as http://localhost:8080/search", "--searxng-url %q is no search endpoint", shown(searxng))
		case u.User != nil:
			err = exit.Usagef("leave them out", "--searxng-url holds credentials, which would be recorded")
		}
		return web.Engine{Name: name, URL: searxng}, others, err
	}
	key, _ := SearchKey(name, getenv)
	err = exit.Usagef(`give "tavily", "brave", "serper", "searxng" or "none"`, "--search is %q", name)
	for _, k := range engines {
		if k.name == name {
			if err = nil; key == "" && !optional {
				err = exit.Usagef("set "+k.variables[0]+", or give --search none", "there is no key to search with %s", name)
			}
		}
	}
	return web.Engine{Name: name, Key: key}, others, err
}

// Remedy returns what helps after some failures of a request, "" for others; resume is the command that resumes the run. A
// mistake in the plan cannot be fixed by resuming.
func Remedy(asked *llm.Error, resume string) string {
	switch {
	case asked.Hint != "":
		return asked.Hint
	case asked.Code == "not_on_cassette":
		return "start a new run with the settings that the recording was made with: tasks, model, budgets and tools"
	case asked.Code == "responses_api_required", asked.Code == "not_a_chat_model":
		return "start a new run with --api responses: resume keeps to the interface of the plan"
	case asked.Status == http.StatusUnauthorized:
		return "set OPENAI_API_KEY to a key of the endpoint, then: " + resume
	}
	return ""
}
