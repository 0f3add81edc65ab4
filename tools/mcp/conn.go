package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// attemptServer is a server in an attempt: it is started by the first call, and
// started again after it ended. It answers one call at a time.
type attemptServer struct {
	plan   *planned
	busy   chan struct{} // held by whoever uses what follows
	live   *connection   // nil: not running
	starts int
	cpu    time.Duration // of those that ran before
	closed bool
}

// Close ends the server for good.
func (c *attemptServer) Close() error {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	c.closed = true
	c.drop()
	return nil
}

func (c *attemptServer) drop() {
	if c.live != nil {
		c.end(c.live)
		c.live = nil
	}
}

// end ends a session, and counts what it has used.
func (c *attemptServer) end(session *connection) {
	session.end()
	if session != nil && session.watch != nil {
		c.cpu += session.watch.CPU()
	}
}

// call takes one call to the server. Whatever the server does is a result.
func (c *attemptServer) call(ctx context.Context, remote string, args []byte) (tools.Output, error) {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return tools.Output{}, ctx.Err()
	}
	defer func() { <-c.busy }()
	if refusal := c.ready(ctx); refusal != "" || ctx.Err() != nil {
		return tools.Failed("%s", refusal), ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, c.plan.callTime())
	defer cancel()
	session := c.live
	session.allow()
	if session.watch != nil {
		session.watch.Begin()
		defer session.watch.Rest()
		defer session.watch.Look() // what it used, should it end between calls
	}
	// A server that does not read keeps whoever writes to it waiting: only its end helps.
	stop := context.AfterFunc(limited, session.end)
	defer stop()
	r, err := session.CallTool(limited, &mcp.CallToolParams{Name: remote, Arguments: jsontext.Value(args)})
	var out tools.Output
	switch theirs, refused := errors.AsType[*jsonrpc.Error](err); {
	case ctx.Err() != nil:
		c.drop()
		return tools.Output{}, ctx.Err()
	case limited.Err() != nil:
		c.drop()
		out = tools.Failed("no answer from the server within %s; it was ended, and the next call starts it again", c.plan.callTime())
	case refused && theirs.Code != jsonrpc.CodeInvalidRequest: // by which the library calls what is no message, too
		out = tools.Failed("the server refused the call: %s", tools.PlainLine(theirs.Message))
	case err != nil || r == nil:
		talked, beyond := session.left.spent(), session.beyond.Load()
		c.drop()
		switch {
		case beyond != nil:
			out = tools.Failed("the server was %s; the next call starts it again", *beyond)
		case talked:
			out = tools.Failed("the server sent too much: the limit is %d MiB and %d messages; "+
				"it was ended, and the next call starts it again", maxHeard>>20, maxMessages)
		default:
			out = tools.Failed("the server ended, or gave an answer that is none, before the call was done; "+
				"the next call starts it again%s", c.plan.wrote(session))
		}
	default:
		out = outputOf(r)
	}
	if session.http != nil { // the endpoint with its answer to the call
		session.http.mu.Lock()
		out.URLs = append([]trajectory.URL{session.http.status}, out.URLs...)
		session.http.mu.Unlock()
	}
	return out, nil
}

// ready has the server running, and says to the model why it has not.
func (c *attemptServer) ready(ctx context.Context) (refusal string) {
	if c.live != nil {
		c.live.mu.Lock()
		ended := c.live.ended
		c.live.mu.Unlock()
		if !ended {
			return ""
		}
	}
	c.drop()
	if c.closed {
		return "the attempt is over"
	}
	if c.cpu >= sandbox.LimitCPU {
		return fmt.Sprintf("the server has used all of its %v of processor time in this attempt, "+
			"and is not started again; go on without it", sandbox.LimitCPU)
	}
	if c.starts >= maxStarts {
		return "the server ended too often in this attempt, and is not started again; go on without it"
	}
	c.starts++
	limited, cancel := context.WithTimeout(ctx, c.plan.startTime())
	defer cancel()
	session, err := c.plan.open(limited, sandbox.LimitCPU-c.cpu)
	if err != nil {
		c.end(session)
		return "the server could not be started; go on without it, or try once more" + c.plan.wrote(session)
	}
	listed, err := c.plan.list(limited, session)
	if err != nil && !errors.As(err, new(*listFault)) {
		c.end(session)
		return "the server did not list its tools; go on without it, or try once more" + c.plan.wrote(session)
	}
	if err != nil || !slices.Equal(listed, c.plan.listed) {
		c.end(session)
		return "the server is not the server of the plan: it lists other tools, or describes them otherwise; it was not called"
	}
	c.live = session
	return ""
}

// connection is a server that runs, or a conversation with one.
type connection struct {
	*mcp.ClientSession
	left    allowance
	stderr  lastWords
	stop    func(*mcp.ClientSession) // ends program and connection; of the session nil if there is none yet
	mu      sync.Mutex               // held to write ClientSession and ended, and to read them elsewhere than in a call
	ended   bool
	http    *carrier
	watch   *sandbox.Watch         // of a program in the sandbox
	cpuLeft time.Duration          // that it may use
	begun   func()                 // has it watched as one that is in the sandbox for certain
	beyond  atomic.Pointer[string] // the limit that it went beyond
}

// watched has a program in the sandbox ended if it uses too much, until life
// ends. Its temporary folders count only once it is inside: before, it sees this
// machine's.
func (s *connection) watched(life context.Context, pid int, inside bool) {
	s.watch = sandbox.NewWatch(pid, inside, nil, s.cpuLeft)
	s.watch.Begin()
	over := make(chan string, 1)
	go s.watch.Run(life.Done(), over)
	go func() {
		select {
		case why := <-over:
			s.beyond.Store(&why)
			s.end()
		case <-life.Done():
		}
	}()
}

func (s *connection) allow() {
	s.left.bytes.Store(maxHeard)
	s.left.lines.Store(maxMessages)
	if s.http != nil {
		s.http.mu.Lock()
		s.http.status = trajectory.URL{URL: s.http.endpoint.String()}
		s.http.mu.Unlock()
	}
}

// end ends the session; it may be called more than once, and on none.
func (s *connection) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	again, client := s.ended, s.ClientSession
	s.ended = true
	s.mu.Unlock()
	if !again {
		s.stop(client)
	}
}

// open reaches a server, which may use so much processor time where it is a program
// in the sandbox, and begins the conversation. With an error there may be a session,
// which is to be ended.
func (s Server) open(ctx context.Context, cpuLeft time.Duration) (*connection, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	session := &connection{cpuLeft: cpuLeft, stop: func(*mcp.ClientSession) { end() }}
	session.allow()
	reach := s.startProgram
	if s.URL != "" {
		reach = s.overHTTP
	}
	transport, err := reach(life, end, session)
	if err != nil {
		return session, err
	}
	stop := context.AfterFunc(ctx, session.end)
	defer stop()
	client := mcp.NewClient(&mcp.Implementation{Name: "gaia", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	made, err := client.Connect(life, transport, nil)
	if err != nil {
		return session, err
	}
	session.mu.Lock()
	session.ClientSession = made
	ended := session.ended
	session.mu.Unlock()
	if ended {
		return session, mcp.ErrConnectionClosed
	}
	if session.begun != nil {
		session.begun()
	}
	return session, nil
}
