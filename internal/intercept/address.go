package intercept

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// target is a server that is asked for: host in lower case, without brackets.
type target struct {
	scheme, host, port string
	explicit           string // the port as it was given; "": it was not
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// hostName is a name that a certificate can have.
var hostName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_.])?$`) })

// parseTarget reads the host of an address, with or without a port. The scheme is http or https.
func parseTarget(scheme, authority string) (t target, ok bool) {
	t = target{scheme: scheme, host: strings.ToLower(authority), port: defaultPorts[scheme]}
	if host, port, err := net.SplitHostPort(t.host); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return t, false
		}
		t.host, t.port, t.explicit = host, port, port
	} else if inner, found := strings.CutPrefix(t.host, "["); found {
		if t.host, found = strings.CutSuffix(inner, "]"); !found {
			return t, false
		}
	}
	if ip, err := netip.ParseAddr(t.host); err == nil {
		return t, ip.Zone() == "" && (ip.Is4() || strings.Contains(authority, "["))
	}
	return t, hostName().MatchString(t.host) && !strings.Contains(t.host, "..")
}

// dialled is what is connected to.
func (t target) dialled() string { return net.JoinHostPort(t.host, t.port) }

// authority is the host of an address, with the port unless it is the usual one.
func (t target) authority() string {
	if t.port != defaultPorts[t.scheme] {
		return t.dialled()
	}
	if strings.Contains(t.host, ":") {
		return "[" + t.host + "]"
	}
	return t.host
}

// address returns the whole address of a request, as it is decided on and sent.
func address(r *http.Request, in *tunnel) (u *url.URL, to target, refused *refusal) {
	bad := &refusal{http.StatusBadRequest, codeBadAddress, "this is a proxy for http and https: send a whole address, without a user name", nil}
	whole := r.URL.IsAbs() || r.URL.Host != ""
	scheme, authority, ok := r.URL.Scheme, r.URL.Host, false
	if in != nil {
		if scheme = in.target.scheme; !whole {
			authority = r.Host
		}
		if whole && r.URL.Scheme != scheme {
			return nil, to, misdirected
		}
		if authority == "" {
			authority = in.target.authority()
		}
	}
	if defaultPorts[scheme] == "" {
		return nil, to, bad
	}
	if to, ok = parseTarget(scheme, authority); !ok || r.URL.User != nil || r.URL.Opaque != "" {
		return nil, to, bad
	}
	if in != nil && (to.scheme != in.target.scheme || to.host != in.target.host || to.port != in.target.port) { // another server
		return nil, to, misdirected
	}
	path := r.URL.Path
	if path == "" && whole {
		path = "/"
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(r.URL.RawQuery, "#") {
		return nil, to, bad
	}
	u = &url.URL{Scheme: scheme, Host: to.authority(), Path: path, RawPath: r.URL.RawPath, ForceQuery: r.URL.ForceQuery, RawQuery: r.URL.RawQuery}
	if len(u.String()) > MaxAddress {
		return nil, to, &refusal{http.StatusRequestURITooLong, "address_too_long", "an address has 8 KiB at most", nil}
	}
	return u, to, nil
}
