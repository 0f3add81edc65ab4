package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/transport"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startProgram starts a server that is a program, and speaks with it by its
// standard input and output. Its last lines on standard error are part of the
// message where it ends too early.
func (s Server) startProgram(life context.Context, end func(), session *connection) (mcp.Transport, error) {
	cmd := s.prepare(life)
	cmd.Stderr = &session.stderr
	cmd.WaitDelay = 2 * time.Second // for pipes that someone else holds open
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	session.stop = func(client *mcp.ClientSession) {
		end() // which kills it
		_ = in.Close()
		_ = out.Close()
		_ = cmd.Wait()
		if client != nil {
			_ = client.Close()
		}
	}
	if s.Sandbox != nil {
		starting, started := context.WithCancel(life)
		session.watched(starting, cmd.Process.Pid, false)
		session.begun = func() {
			started()
			session.watched(life, cmd.Process.Pid, true)
		}
	}
	return &mcp.IOTransport{Reader: &hearing{out, &session.left, false}, Writer: in, MaxLineLength: maxLine}, nil
}

// prepare returns the program, not yet started. In the sandbox it gets the folders, and
// itself where it is apart from them and from the system's programs.
func (s Server) prepare(life context.Context) *sandbox.Program {
	var environment []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		environment = append(environment, name+"="+s.Env[name])
	}
	if s.Sandbox == nil {
		cmd := exec.CommandContext(life, s.Command[0], s.Command[1:]...)
		cmd.Env = append([]string{"PATH=" + s.Path}, environment...)
		child.Group(cmd)
		return &sandbox.Program{Cmd: cmd}
	}
	given := slices.Clone(s.Folders)
	if !isWithin(s.Command[0], append([]string{"/usr"}, s.Folders...)) {
		given = append(given, s.Command[0])
	}
	jail := sandbox.Jail{ReadOnly: given, Variables: environment, Network: s.Network == NetworkHost}
	return s.Sandbox.Command(life, jail, s.Command[0], s.Command[1:]...)
}

// isWithin reports whether a path is in one of some folders, or one of them.
func isWithin(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		_, below := sandbox.Within(folder, path)
		return below
	})
}

// allowance is how much a server may still say until it is asked the next time.
type allowance struct{ bytes, lines atomic.Int64 }

func (a *allowance) spent() bool { return a.bytes.Load() <= 0 || a.lines.Load() <= 0 }

// hearing reads what a server sends, up to its allowance. Each message is a line, unless
// the whole is one document.
type hearing struct {
	io.ReadCloser
	left     *allowance
	document bool
}

var errTalkative = errors.New("it sent too much")

func (h *hearing) Read(p []byte) (int, error) {
	if h.left.spent() {
		return 0, errTalkative
	}
	n, err := h.ReadCloser.Read(p)
	h.left.bytes.Add(-int64(n))
	if !h.document {
		h.left.lines.Add(-int64(bytes.Count(p[:n], []byte("\n"))))
	}
	return n, err
}

// lastWords keeps the end of what is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// Bounds of what is kept and shown of standard error.
const (
	stderrKept  = 8 << 10 // bytes
	stderrLines = 4
	stderrShown = 600 // bytes
)

func (t *lastWords) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-stderrKept):]...)
	t.text = t.text[max(0, len(t.text)-stderrKept):]
	return len(p), nil
}

// lines returns the last lines that say something, without secrets and on one line. Of a stack trace
// those are not indented: the frames are left out, the error stays.
func (t *lastWords) lines(hide func(string) string) string {
	t.mu.Lock()
	text, cut := string(t.text), len(t.text) == stderrKept
	t.mu.Unlock()
	if cut { // in a line, or in a secret
		_, text, _ = strings.Cut(text, "\n")
	}
	text = hide(strings.ToValidUTF8(text, "\ufffd"))
	var plain, indented []string
	for line := range strings.Lines(text) {
		shown := strings.TrimSpace(tools.PlainLine(line))
		switch {
		case !strings.ContainsFunc(shown, unicode.IsLetter):
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			indented = append(indented, shown)
		default:
			plain = append(plain, shown)
		}
	}
	if len(plain) == 0 {
		plain = indented
	}
	said := strings.Join(plain[max(0, len(plain)-stderrLines):], " | ")
	return strings.ToValidUTF8(said[max(0, len(said)-stderrShown):], "")
}

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
