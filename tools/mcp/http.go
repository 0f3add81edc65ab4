package mcp

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"sync"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// carrier carries the requests to a server's endpoint, and to no other place.
type carrier struct {
	base     http.RoundTripper
	endpoint *url.URL
	headers  map[string]string
	session  *connection

	mu     sync.Mutex
	status trajectory.URL // of the first request of a call
}

// overHTTP speaks with a server by streamable HTTP. The operator chose its host,
// which may be anywhere.
func (s Server) overHTTP(_ context.Context, end func(), session *connection) (mcp.Transport, error) {
	endpoint, err := web.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	base := guard.New(nil, web.HostPort(endpoint)).Transport()
	session.http = &carrier{base: transport.Guard(base), endpoint: endpoint, headers: s.Headers, session: session}
	session.stop = func(client *mcp.ClientSession) {
		if client != nil {
			_ = client.Close()
		}
		end()
		base.CloseIdleConnections()
	}
	client := &http.Client{Transport: session.http, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("redirects of an MCP server are not followed")
	}}
	return &mcp.StreamableClientTransport{Endpoint: endpoint.String(), HTTPClient: client, MaxRetries: -1,
		DisableStandaloneSSE: true, MaxEventSize: maxLine}, nil
}

func (h *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() != h.endpoint.String() {
		return nil, errors.New("an MCP server is asked at its endpoint only")
	}
	req = req.Clone(req.Context())
	for name, value := range h.headers {
		req.Header.Set(name, value)
	}
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind := resp.Header.Get("Content-Type")
	h.mu.Lock()
	if h.status.Status == 0 {
		h.status.Status, h.status.ContentType = resp.StatusCode, kind[:tools.RuneOffset(kind, 200)]
	}
	h.mu.Unlock()
	media, _, _ := mime.ParseMediaType(kind)
	resp.Body = &hearing{resp.Body, &h.session.left, media == "application/json"}
	return resp, nil
}
