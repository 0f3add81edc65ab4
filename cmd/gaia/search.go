package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
	"github.com/spf13/cobra"
)

// searchNone leaves the tool web_search out.
const searchNone = "none"

// searchKey says which variables hold the key of a search engine.
type searchKey struct {
	engine    string
	variables []string
}

// searchKeys are the engines that need a key, in the order in which one is
// taken that has it.
func searchKeys() []searchKey {
	return []searchKey{
		{tools.Tavily, []string{"TAVILY_API_KEY"}},
		{tools.Brave, []string{"BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"}},
		{tools.Serper, []string{"SERPER_API_KEY"}},
	}
}

// addSearchFlags makes the flags that say what the tool web_search asks.
func (s *settings) addSearchFlags(cmd *cobra.Command) {
	engines := []string{tools.Tavily, tools.Brave, tools.Serper, tools.SearXNG, searchNone}
	cmd.Flags().Var(flagText{&s.search, strings.Join(engines, "|")}, "search", "search engine of the tool web_search (default: the first whose key or address is set)")
	cmd.Flags().StringVar(&s.searxng, "searxng-url", "", "SearXNG search endpoint with JSON enabled (default: SEARXNG_URL)")
	completeFixed(cmd, "search", engines...)
}

// settleSearch settles which search engine is asked: the one that is named; else a
// SearXNG instance that the flags give; else the first whose key is in the environment.
func (a *app) settleSearch(s *settings) error {
	keys, found := map[string]string{}, []string(nil)
	if s.searxng != "" {
		found = append(found, tools.SearXNG)
	}
	for _, k := range searchKeys() {
		for _, name := range k.variables {
			keys[k.engine] = cmp.Or(keys[k.engine], strings.TrimSpace(a.getenv(name)))
		}
		if keys[k.engine] != "" {
			found = append(found, k.engine)
		}
	}
	if instance := a.getenv("SEARXNG_URL"); s.searxng == "" && instance != "" {
		s.searxng = instance
		found = append(found, tools.SearXNG)
	}
	name := s.search
	if name == "" && len(found) > 0 {
		name = found[0]
		if len(found) > 1 {
			fmt.Fprintf(a.stderr, "gaia: web_search asks %s, though %s could be asked, too; --search chooses\n", name, strings.Join(found[1:], " and "))
		}
	}
	if name != tools.SearXNG {
		s.searxng = ""
	}
	if name == "" || name == searchNone {
		return nil
	}
	s.engine = tools.Engine{Name: name, URL: s.searxng, Key: keys[name]}
	return s.checkEngine()
}

// checkEngine refuses an engine that is unknown or cannot be asked.
func (s settings) checkEngine() error {
	if s.engine.Name == tools.SearXNG {
		u, err := url.Parse(s.engine.URL)
		switch {
		case s.engine.URL == "":
			return usage("give --searxng-url, or set SEARXNG_URL", "there is no address to search with searxng")
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return usage("give a URL such as http://localhost:8080/search", "--searxng-url %q is no search endpoint", shownURL(s.engine.URL))
		case u.User != nil:
			return usage("leave them out", "--searxng-url holds credentials, which would be recorded")
		}
		return nil
	}
	for _, k := range searchKeys() {
		if k.engine != s.engine.Name {
			continue
		}
		if s.engine.Key == "" && !s.dry {
			return usage("set "+k.variables[0]+", or give --search none", "there is no key to search with %s", k.engine)
		}
		return nil
	}
	return usage(`give "tavily", "brave", "serper", "searxng" or "none"`, "--search is %q", s.engine.Name)
}

// plannedSearch is --search of a plan.
func plannedSearch(m plan.Plan) string {
	if m.Search == nil {
		return searchNone
	}
	return m.Search.Engine
}

// searchPlan is what the plan of a run says of its search engine.
func (s settings) searchPlan() *plan.SearchPlan {
	if s.engine.Name == "" {
		return nil
	}
	return &plan.SearchPlan{Engine: s.engine.Name, Origin: s.engine.Origin()}
}
