package intercept

import (
	"net/http"
	"slices"
	"strings"
)

// hopByHop are the headers of a connection, not of what is sent over it.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// withoutHops returns a header without those of its connection.
func withoutHops(h http.Header, more ...string) http.Header {
	dropped := slices.Concat(hopByHop, more)
	for _, value := range h.Values("Connection") {
		for name := range strings.SplitSeq(value, ",") {
			dropped = append(dropped, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	kept := http.Header{}
	for name, values := range h {
		if !slices.Contains(dropped, name) {
			kept[name] = values
		}
	}
	return kept
}

// requestHeader returns what a server gets of the header of a request.
func requestHeader(h http.Header) http.Header {
	out := withoutHops(h, "Expect", "Http2-Settings", "Content-Length")
	if slices.ContainsFunc(h.Values("Te"), func(v string) bool { return strings.Contains(strings.ToLower(v), "trailers") }) {
		out.Set("Te", "trailers")
	}
	out.Set("Accept-Encoding", acceptable(h.Values("Accept-Encoding")))
	if _, named := h["User-Agent"]; !named {
		out["User-Agent"] = nil // or net/http would add its own
	}
	return out
}

// acceptable returns those of the encodings that a client accepts that can be decoded here; none is not to encode.
func acceptable(values []string) string {
	var kept []string
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		item = strings.TrimSpace(item)
		coding, _, _ := strings.Cut(item, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding == "identity" || decoders[coding] != nil {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		return "identity"
	}
	return strings.Join(kept, ", ")
}
