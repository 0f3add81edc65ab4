package audit

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
)

// commercial matches the bases of names of models that only their makers serve:
// nobody has their weights.
var commercial = regexp.MustCompile(`^(?:chatgpt-|gpt-(?:3-5|[4-9])|o[1-9](?:-|$)|claude-|gemini-|grok-[3-9]|sonar(?:-|$)|nova-(?:lite|micro|premier|pro)|qwen[0-9-]*-?(?:max|plus|turbo)(?:-|$))`)

// localOrigins looks for models that only their makers serve and that are asked on
// this computer or in a private network: what stands there can answer by itself.
// Gateways of one's own do so, too.
func localOrigins(m ledger.Manifest, n *Notes) {
	type asked struct{ what, model, origin string }
	models := []asked{{"the agent's model", m.Model.Name, m.Model.Origin}}
	if j := m.Judge; j != nil {
		models = append(models, asked{"the judge", j.Model, j.Origin})
	}
	if v := m.Vision; v != nil {
		models = append(models, asked{"the model of describe_image", v.Model, v.Origin})
	}
	named := func(a asked) bool { return commercial.MatchString(nameOf(a.model).base) }
	any := slices.ContainsFunc(models, named)
	for _, a := range models {
		if named(a) && local(a.origin) {
			n.find("local-origin", place{given: true}, fmt.Sprintf("%s, %q, is asked at %s", a.what, a.model, a.origin), "an address of its provider")
		}
	}
	if s := m.Search; s != nil && any && local(s.Origin) {
		n.find("local-origin", place{given: true}, "the search engine is asked at "+s.Origin, "a public search engine")
	}
}

// local reports whether an origin is of this computer or of a private network.
func local(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || shared.Contains(ip)
	}
	if !strings.Contains(host, ".") { // a name of this computer, or of a container beside it
		return true
	}
	return slices.ContainsFunc([]string{".home.arpa", ".internal", ".intranet", ".lan", ".local", ".localdomain", ".localhost"}, func(end string) bool { return strings.HasSuffix(host, end) })
}

// shared are addresses behind the translation of a carrier, which private networks
// also use.
var shared = netip.MustParsePrefix("100.64.0.0/10")
