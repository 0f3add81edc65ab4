package remote

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/tools/web"
)

// TestParseURL: what is not a base URL is refused, and no part of it that may hold a key is shown.
func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://api.example/v1":               "",
		"http://[::1]:8080/v1":                 "",
		"models.example":                       `"models.example" is not a base URL`,
		"ftp://models.example":                 "is not a base URL",
		"https://me:secret@models.example/v1":  "holds credentials",
		"me:secret@models.example":             `"…@models.example" is not a base URL`,
		"ftp://secret@models.example":          `"ftp://…@models.example"`,
		"https://models.example/v1?key=secret": "has a query or a fragment",
		"ftp://models.example?key=secret":      `"ftp://models.example?…"`,
	} {
		_, err := ParseURL(text)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestAzureAddress: the earlier interface of Azure is refused with the address of the present one.
func TestAzureAddress(t *testing.T) {
	_, err := ParseURL("https://harbour.openai.azure.com/openai/deployments/blue?api-version=2024-10-21")
	if hints := exit.Of(err).Hints; len(hints) != 1 || !strings.Contains(hints[0], "give --base-url https://harbour.openai.azure.com/openai/v1,") {
		t.Errorf("the hints are %q", hints)
	}
}

// TestIsLocal: only this machine is free of charge.
func TestIsLocal(t *testing.T) {
	for text, want := range map[string]bool{"http://localhost:1/v1": true, "http://127.0.0.9": true, "http://[::1]:80": true,
		"http://localhost.example": false, "http://10.0.0.1": false, "http://0.0.0.0": false} {
		u, err := url.Parse(text)
		if err != nil || IsLocal(u) != want {
			t.Errorf("%s: %v, %v", text, !want, err)
		}
	}
}

// TestSearch: a named engine is asked, else the first that can be; mistakes are refused.
func TestSearch(t *testing.T) {
	const keyed = "TAVILY_API_KEY= t \nBRAVE_SEARCH_API_KEY=b\nSEARXNG_URL=http://searx.example/search"
	for _, c := range []struct{ name, named, searxng, env, want, wrong string }{
		{"nothing is set", "", "", "", "", ""},
		{"none wins", NoSearch, "", keyed, "", ""},
		{"the first key", "", "", keyed, web.Tavily + " t", ""},
		{"a named engine", web.Brave, "", keyed, web.Brave + " b", ""},
		{"the flag's address", "", "http://other.example", keyed, web.SearXNG + " http://other.example", ""},
		{"the address of the environment", "", "", "SEARXNG_URL=http://searx.example", web.SearXNG + " http://searx.example", ""},
		{"no key", web.Serper, "", keyed, "", "there is no key to search with serper"},
		{"no address", web.SearXNG, "", "", "", "there is no address"},
		{"no URL", web.SearXNG, "nowhere", "", "", "is no search endpoint"},
		{"credentials", web.SearXNG, "http://a:b@c", "", "", "holds credentials"},
		{"another engine", "duck", "", keyed, "", `--search is "duck"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _, err := Search(c.named, c.searxng, false, func(name string) string {
				for _, line := range strings.Split(c.env, "\n") {
					if value, ok := strings.CutPrefix(line, name+"="); ok {
						return value
					}
				}
				return ""
			})
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %s", err, c.wrong)
				}
			} else if got := strings.TrimSpace(e.Name + " " + e.Key + e.URL); err != nil || got != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}
