package loader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
)

func TestHubRefusals(t *testing.T) {
	cases := []struct {
		name   string
		change func(*loader.HubConfig)
		faults func(*hub.Server)
		want   string // of the error
		remedy string // in one of them
		tries  int    // requests for the metadata of the split
	}{
		{"no token", func(c *loader.HubConfig) { c.Token, c.TokenFrom = "", "neither in HF_TOKEN nor in ~/token" }, nil,
			"invented/tasks is only for those who accepted its terms, and no token was found (neither in HF_TOKEN nor in ~/token)", "accept its terms, logged in, at {hub}/datasets/invented/tasks", 1},
		{"terms not accepted", func(c *loader.HubConfig) { c.Token = "hf_terms" }, nil,
			"the account was refused, asked with the token from HF_TOKEN: Access to dataset invented/tasks is restricted and you are not in the authorized list", "accept its terms, logged in, at {hub}/datasets/invented/tasks", 1},
		{"a token without access", func(c *loader.HubConfig) { c.Token = "hf_fine" }, nil,
			"access to invented/tasks was refused, asked with the token from HF_TOKEN: Please enable access", "allow the token to read public gated repositories at {hub}/settings/tokens", 1},
		{"unknown token", func(c *loader.HubConfig) { c.Token = "hf_other" }, nil,
			"the hub does not accept the token from HF_TOKEN: Invalid credentials", "make a token at {hub}/settings/tokens", 1},
		{"unknown revision", func(c *loader.HubConfig) { c.Revision = "v9" }, nil, `invented/tasks has no revision "v9": Invalid rev id`, "leave out --revision", 1},
		{"unknown commit", func(c *loader.HubConfig) { c.Revision = strings.Repeat("a", 40) }, nil, `has no revision "aaaa`, "leave out --revision", 1},
		{"unknown repo", func(c *loader.HubConfig) { c.Repo = "invented/other" }, nil, `the hub has no dataset "invented/other", or does not show it, asked with`, "check the name", 1},
		{"unknown repo without a token", func(c *loader.HubConfig) { c.Repo, c.Token = "invented/other", "" }, nil, `the hub has no dataset "invented/other", or does not show it, no token`, "check the name", 1},
		{"offline", func(c *loader.HubConfig) { c.Offline = true }, nil, "offline, and the cache has no revision main of invented/tasks", "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, or fetch it where there is a network: gaia tasks download --dataset hub:invented/tasks --revision ", 0},
		{"offline at a commit", func(c *loader.HubConfig) { c.Offline, c.Revision = true, first }, nil, "offline, and the cache has no 2023/validation/metadata", "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, or fetch it where there is a network: gaia tasks download --dataset hub:invented/tasks --revision ", 0},
		{"rate limited", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RateLimited(0, -1)) }, "the hub counts too many requests (asked with the token from HF_TOKEN)", "wait five minutes", 5},
		{"rate limited for long", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RateLimited(3600, -1)) }, "the hub counts too many requests", "wait 1h0m0s and start again", 1},
		{"down", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Answer(502, "text/html", "<h1>Bad Gateway</h1>")) }, "answers 502 Bad Gateway for 2023/validation/metadata.parquet", "try again later", 5},
		{"no answer", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Drop()) }, "the connection was cut", "check the network", 5},
		{"no commit", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Repo-Commit", "")) }, "is no hub: it names no commit", "no proxy or login page stands between", 1},
		{"odd commit", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Repo-Commit", "../../../x")) }, "is no hub: it names no commit", "check HF_ENDPOINT", 1},
		{"login page", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Answer(200, "text/html", "<h1>Log in</h1>")) }, "is no hub", "login page", 1},
		{"odd digest", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Linked-Etag", `"../../x"`)) }, "is no hub", "check HF_ENDPOINT", 1},
		{"redirected for ever", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RedirectLoop()) }, "from one address to the next without end", "check HF_ENDPOINT", 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, config := serve(t)
			if c.change != nil {
				c.change(&config)
			}
			if c.faults != nil {
				c.faults(server)
			}
			set, gold, err := loader.Load(t.Context(), source(t, config), loader.Validation, loader.Filter{})
			if err == nil {
				t.Fatalf("loaded %d tasks", len(set.Tasks))
			}
			var refused *loader.SourceError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %q, want %q", err, c.want)
			}
			if remedies := strings.Join(refused.Remedies, "\n"); !strings.Contains(remedies, strings.ReplaceAll(c.remedy, "{hub}", server.URL)) {
				t.Errorf("remedies %q, want %q", remedies, c.remedy)
			}
			if strings.Contains(err.Error()+strings.Join(refused.Remedies, ""), "hf_") {
				t.Errorf("shows the token: %v %q", err, refused.Remedies)
			}
			if set.Tasks != nil || gold.Len() != 0 {
				t.Errorf("handed out %d tasks beside the error", len(set.Tasks))
			}
			if n := len(server.Requests()); (n > 0) != (c.tries > 0) || n < c.tries || c.tries == 5 && n != 5 {
				t.Errorf("%d requests, want %d", n, c.tries)
			}
		})
	}
}
