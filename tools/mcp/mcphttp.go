package mcp

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"sync"

	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpHTTP carries the requests to a server's endpoint, and to no other place.
type mcpHTTP struct {
	base     http.RoundTripper
	endpoint *url.URL
	headers  map[string]string
	session  *mcpSession

	mu     sync.Mutex
	status trajectory.URL // of the first request of a call
}

// overHTTP speaks with a server by streamable HTTP. The operator chose its host,
// which may be anywhere.
func (s MCPServer) overHTTP(session *mcpSession, end func()) (mcp.Transport, error) {
	endpoint, err := web.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	base := web.Transport(nil, web.HostPort(endpoint))
	carrier := &mcpHTTP{base: transport.Guard(base), endpoint: endpoint, headers: s.Headers, session: session}
	session.http = carrier
	session.stop = func(client *mcp.ClientSession) {
		if client != nil {
			_ = client.Close()
		}
		end()
		base.CloseIdleConnections()
	}
	client := &http.Client{Transport: carrier, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("redirects of an MCP server are not followed")
	}}
	return &mcp.StreamableClientTransport{Endpoint: endpoint.String(), HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: mcpLine}, nil
}

func (h *mcpHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
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
	h.arrived(resp)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &hearing{resp.Body, &h.session.left, media == "application/json"}
	return resp, nil
}

func (h *mcpHTTP) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = trajectory.URL{URL: h.endpoint.String()}
}

func (h *mcpHTTP) arrived(resp *http.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status.Status == 0 {
		h.status.Status, h.status.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
		h.status.ContentType = h.status.ContentType[:tools.RuneOffset(h.status.ContentType, 200)]
	}
}

// reached is the endpoint with its answer to the call; nothing of a program.
func (s *mcpSession) reached() []trajectory.URL {
	if s.http == nil {
		return nil
	}
	s.http.mu.Lock()
	defer s.http.mu.Unlock()
	return []trajectory.URL{s.http.status}
}
