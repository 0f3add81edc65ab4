// Package guard keeps connections of tools and of own agents to the public internet.
//
// A [Guard] promises that no address is connected to that is not public, whatever a name resolves to at the moment of
// connecting, but for the exceptions of a rehearsal and the one server that the operator chose. Names for this machine and for
// private networks, and numbers that only some resolvers take for addresses, are refused before anything is resolved. No proxy
// is used: it would resolve names where the guard cannot see them. TestIsPublic, TestCheckResolved and, over HTTP,
// web.TestGuardRefuses, web.TestFetchEscapes and web.TestRebinding try that.
package guard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Guard decides what may be connected to. It looks at the address after the
// name was resolved, at the moment of connecting: a redirect, a name that
// resolves to the inside, or one that resolves differently the second time
// cannot get round it.
type Guard struct {
	Dialer     net.Dialer
	Offline    bool              // nothing but the exceptions and trusted is connected to
	exceptions map[string]string // "host:port" → loopback address to dial instead
	trusted    string            // "host:port" the operator chose, which may be anywhere
}

// New returns a guard with exceptions for hosts that are served by this machine, as "host:port" with the loopback address to
// dial, and for trusted, a "host:port" that the operator chose ("": none).
func New(exceptions map[string]string, trusted string) *Guard {
	g := &Guard{Dialer: net.Dialer{Timeout: 10 * time.Second}, exceptions: map[string]string{}, trusted: strings.ToLower(trusted)}
	for host, to := range exceptions {
		g.exceptions[strings.ToLower(host)] = to
	}
	return g
}

// NotPublic says that an address must not be connected to.
type NotPublic struct{ host, why string }

func (e *NotPublic) Error() string {
	return fmt.Sprintf("the host %q %s; only public addresses of the web can be fetched", e.host, e.why)
}

// Transport connects to what the guard allows.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            g.Dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           20,
		IdleConnTimeout:        10 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// Dial connects to address, "host:port" as the URL has it. A [NotPublic] is its error where that may not be.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	address = strings.ToLower(address)
	if to, ok := g.exceptions[address]; ok {
		at, err := netip.ParseAddrPort(to)
		if err != nil || !at.Addr().IsLoopback() {
			return nil, &NotPublic{address, fmt.Sprintf("is an exception that leads to %q, which is not a loopback address", to)}
		}
		return g.Dialer.DialContext(ctx, network, to)
	}
	if err := g.Check(address); err != nil {
		return nil, err
	}
	if address == g.trusted {
		return g.Dialer.DialContext(ctx, network, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	guarded := g.Dialer
	guarded.Control = func(_, resolved string, _ syscall.RawConn) error { return checkResolved(host, resolved) }
	return guarded.DialContext(ctx, network, address)
}

// Check returns the [NotPublic] of an address, "host:port", that can be refused before its name is resolved.
func (g *Guard) Check(address string) error {
	address = strings.ToLower(address)
	if _, ok := g.exceptions[address]; ok || address == g.trusted {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if why := badName(host); why != "" {
		return &NotPublic{host, why}
	}
	if a, err := netip.ParseAddr(host); err == nil && !isPublic(a) {
		return &NotPublic{host, "is not a public address"}
	}
	if g.Offline {
		return &NotPublic{host, "is no host of the rehearsal"}
	}
	return nil
}

// checkResolved is asked with the address that is about to be connected to.
func checkResolved(host, resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return &NotPublic{host, "has no plain address"}
	}
	if !isPublic(at.Addr()) {
		return &NotPublic{host, fmt.Sprintf("has the address %s, which is not public", at.Addr())}
	}
	return nil
}

// badName refuses names for this machine and for private networks, among them
// those of metadata services (metadata.google.internal), and numbers that only
// some resolvers take for addresses (2130706433, 0x7f.1, 0177.0.0.1), before
// anyone resolves them.
func badName(host string) (why string) {
	name := strings.TrimSuffix(host, ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return "is this machine"
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	private := []string{".internal", ".local", ".localdomain", ".home.arpa"}
	switch {
	case slices.ContainsFunc(private, func(zone string) bool { return strings.HasSuffix(name, zone) }):
		return "is a name of a private network"
	case oddNumber.MatchString(name[strings.LastIndexByte(name, '.')+1:]):
		return "is not a plain IPv4 address"
	case !strings.Contains(name, "."):
		return "has no domain, so that it is a name of a private network"
	}
	return ""
}

// oddNumber is a last label that makes a name a number (WHATWG URL, "ends in a
// number").
var oddNumber = regexp.MustCompile(`^(?:[0-9]+|0x[0-9a-f]*)$`)

// isPublic reports whether an address belongs to the public internet. It looks
// through addresses that carry an IPv4 one inside: mapped ones, and NAT64,
// which is how networks without IPv4 reach most of the web. The metadata
// services of clouds are link-local (169.254.169.254), inside refused blocks,
// or listed by themselves.
func isPublic(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(notPublicBlocks, func(block netip.Prefix) bool { return block.Contains(a) })
}

// notPublicBlocks are those of the IANA special-purpose registries (RFC 6890
// and later) that netip's own predicates leave out.
var notPublicBlocks = prefixes(
	"0.0.0.0/8",                                                                       // this network
	"100.64.0.0/10",                                                                   // carrier-grade NAT
	"168.63.129.16/32",                                                                // a cloud's host service
	"192.0.0.0/24",                                                                    // protocol assignments, and a cloud's metadata
	"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20", // documentation
	"192.88.99.0/24", // 6to4 relays, no longer in use
	"198.18.0.0/15",  // benchmarks
	"240.0.0.0/4",    // reserved, and broadcast
	"::/96",          // IPv4-compatible
	"64:ff9b:1::/48", // NAT64, local
	"100::/64",       // discard
	"2001::/23",      // protocol assignments, Teredo
	"2002::/16",      // 6to4
	"5f00::/16",      // segment routing
	"fec0::/10",      // site-local
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
