package tools

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpConn is a server in an attempt: it is started by the first call, and
// started again after it ended. It answers one call at a time.
type mcpConn struct {
	plan   *mcpPlan
	turn   chan struct{} // held by whoever uses what follows
	live   *mcpSession   // nil: not running
	starts int
	closed bool
}

func (p *mcpPlan) keep() (io.Closer, error) {
	return &mcpConn{plan: p, turn: make(chan struct{}, 1)}, nil
}

// Close ends the server for good.
func (c *mcpConn) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	c.drop()
	return nil
}

func (c *mcpConn) drop() {
	if c.live != nil {
		c.live.end()
		c.live = nil
	}
}

// call takes one call to the server. Whatever the server does is a result.
func (c *mcpConn) call(ctx context.Context, t *mcpTool, args []byte) (Output, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return Output{}, ctx.Err()
	}
	defer func() { <-c.turn }()
	if refusal := c.ready(ctx); refusal != "" || ctx.Err() != nil {
		return failed("%s", refusal), ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, c.plan.callTime())
	defer cancel()
	session := c.live
	session.allow()
	// A server that does not read keeps whoever writes to it waiting: only its end helps.
	stop := context.AfterFunc(limited, session.end)
	defer stop()
	r, err := session.CallTool(limited, &mcp.CallToolParams{Name: t.remote, Arguments: jsontext.Value(args)})
	var out Output
	switch theirs := (*jsonrpc.Error)(nil); {
	case ctx.Err() != nil:
		c.drop()
		return Output{}, ctx.Err()
	case limited.Err() != nil:
		c.drop()
		out = failed("no answer from the server within %s; it was ended, and the next call starts it anew", c.plan.callTime())
	case errors.As(err, &theirs) && theirs.Code != jsonrpc.CodeInvalidRequest: // by which the library calls what is no message, too
		out = failed("the server refused the call: %s", plainLine(theirs.Message))
	case err != nil || r == nil:
		over := session.spent()
		c.drop()
		if over {
			out = failed("the server said too much: the limit is %d MiB and %d messages; it was ended, and the next call starts it anew", mcpHeard>>20, mcpMessages)
		} else {
			out = failed("the server ended, or gave an answer that is none, before the call was done; the next call starts it anew")
		}
	default:
		out = mcpOutput(r)
	}
	out.URLs = append(session.reached(), out.URLs...)
	return out, nil
}

// ready has the server running, and says to the model why it has not.
func (c *mcpConn) ready(ctx context.Context) (refusal string) {
	if c.live != nil && !c.live.over() {
		return ""
	}
	c.drop()
	if c.closed {
		return "the attempt is over"
	}
	if c.starts >= mcpStarts {
		return "the server ended too often in this attempt, and is not started again; go on without it"
	}
	c.starts++
	limited, cancel := context.WithTimeout(ctx, c.plan.startTime())
	defer cancel()
	session, err := c.plan.open(limited)
	if err != nil {
		session.end()
		return "the server could not be started; go on without it, or try once more"
	}
	listed, err := c.plan.list(limited, session)
	if own := (*mcpFault)(nil); err != nil && !errors.As(err, &own) {
		session.end()
		return "the server did not say what its tools are; go on without it, or try once more"
	}
	if err != nil || !slices.Equal(listed, c.plan.listed) {
		session.end()
		return "the server is not the server of the plan: it lists other tools, or describes them otherwise; it was not called"
	}
	c.live = session
	return ""
}

// mcpSession is a server that runs, or a conversation with one.
type mcpSession struct {
	*mcp.ClientSession
	left   allowance
	stderr lastWords
	ended  atomic.Bool
	once   sync.Once
	stop   func() // ends program and connection
	http   *mcpHTTP
}

func (s *mcpSession) allow() {
	s.left.bytes.Store(mcpHeard)
	s.left.lines.Store(mcpMessages)
	if s.http != nil {
		s.http.forget()
	}
}

func (s *mcpSession) spent() bool { return s.left.spent() }

func (s *mcpSession) over() bool { return s.ended.Load() }

// end ends the session; it may be called more than once, and on none.
func (s *mcpSession) end() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		s.ended.Store(true)
		s.stop()
	})
}

// open reaches a server and greets it. With an error there may be a session,
// which is to be ended.
func (s MCPServer) open(ctx context.Context) (*mcpSession, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	session := &mcpSession{stop: end}
	session.allow()
	transport, err := s.transport(life, end, session)
	if err != nil {
		return session, err
	}
	stop := context.AfterFunc(ctx, session.end)
	defer stop()
	client := mcp.NewClient(&mcp.Implementation{Name: "gaia", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	session.ClientSession, err = client.Connect(life, transport, nil)
	return session, err
}

func (s MCPServer) transport(life context.Context, end func(), session *mcpSession) (mcp.Transport, error) {
	if s.URL != "" {
		return s.overHTTP(session, end)
	}
	return s.startProgram(life, end, session)
}

// startProgram starts a server that is a program, and speaks with it by its
// standard input and output. What it writes to standard error is kept for the
// user who plans with it, and nobody else.
func (s MCPServer) startProgram(life context.Context, end func(), session *mcpSession) (mcp.Transport, error) {
	cmd := s.command(life)
	cmd.Stderr = &session.stderr
	cmd.WaitDelay = 2 * time.Second // for pipes that someone else holds open
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	session.stop = func() {
		end() // which kills it
		_ = in.Close()
		_ = out.Close()
		_ = cmd.Wait()
		if session.ClientSession != nil {
			_ = session.ClientSession.Close()
		}
	}
	return &mcp.IOTransport{Reader: &hearing{out, &session.left, false}, Writer: in, MaxLineLength: mcpLine}, nil
}

// command is the program, not yet started.
func (s MCPServer) command(life context.Context) *exec.Cmd {
	if s.Sandbox != nil {
		return s.Sandbox.command(life, jail{readOnly: s.given()}, s.Command[0], s.Command[1:]...)
	}
	cmd := exec.CommandContext(life, s.Command[0], s.Command[1:]...)
	cmd.Env = []string{"PATH=" + s.Path}
	ownGroup(cmd)
	return cmd
}

// given is what the program is given in the sandbox: the folders, and itself
// where it lies apart from them and from the system's programs.
func (s MCPServer) given() []string {
	given := slices.Clone(s.Folders)
	for _, place := range append([]string{"/usr"}, s.Folders...) {
		if _, below := within(place, s.Command[0]); below {
			return given
		}
	}
	return append(given, s.Command[0])
}

// allowance is how much a server may still say until it is asked the next time.
type allowance struct{ bytes, lines atomic.Int64 }

func (a *allowance) spent() bool { return a.bytes.Load() <= 0 || a.lines.Load() <= 0 }

// hearing is what a server says, as far as it may. Each message stands on a line
// of its own, unless the whole is one document.
type hearing struct {
	io.ReadCloser
	left     *allowance
	document bool
}

var errTalkative = errors.New("it said too much")

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

func (t *lastWords) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-1024):]...)
	t.text = t.text[max(0, len(t.text)-1024):]
	return len(p), nil
}

// last is the last line, as it may be shown.
func (t *lastWords) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	return plainLine(text[strings.LastIndexByte(text, '\n')+1:])
}
