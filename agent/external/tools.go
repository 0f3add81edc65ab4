package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/pending"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Where tools are called.
const (
	mcpPath   = "/mcp"
	toolsPath = "/tools"
)

const (
	maxToolRequest = 1 << 20  // bytes
	toolParallel   = 64       // calls of an attempt at once; others wait
	toolCalls      = 2000     // calls of an attempt that the Gate decides on, where the plan allows fewer model calls
	maxArguments   = 64 << 20 // bytes of the arguments of all calls of an attempt, which are held until it ends
)

// errOver ends calls that come when the attempt is over.
var errOver = errors.New("the attempt is over")

// errSpent refuses calls beyond the most.
var errSpent = errors.New("the attempt has made all of its tool calls: answer with what there is")

// toolServer passes the tool calls of one attempt to the Gate. Each is a separate turn.
type toolServer struct {
	session *tools.Session
	rec     *trajectory.Attempt
	turns   *proxy.Turns
	pending *pending.Set
	now     func() time.Time
	ctx     context.Context // of calls; it does not end when the agent hangs up
	end     context.CancelFunc
	places  chan struct{} // of requests that are read
	slots   chan struct{} // of calls, of which a request over MCP may have many
	most    int
	mcp     http.Handler
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	begun  int
	bytes  int   // of arguments
	err    error // why recording failed
	failed error // of the last call, if it says nothing about the task
}

func newToolServer(ctx context.Context, a Agent, session *tools.Session, rec *trajectory.Attempt, turns *proxy.Turns, replies *pending.Set) *toolServer {
	for _, spec := range session.Specs() {
		a.Origins.Add(origin.Definition, spec.Description)
		a.Origins.Add(origin.Definition, string(spec.Parameters))
	}
	s := &toolServer{session: session, rec: rec, turns: turns, pending: replies, now: a.Now, most: max(a.Plan.Calls, toolCalls), places: make(chan struct{}, toolParallel), slots: make(chan struct{}, toolParallel)}
	s.ctx, s.end = context.WithCancel(ctx)
	// Serve the tools over MCP. Each request is a separate session, since no tool has anything to say unasked. The
	// library is given no tools: it would answer calls of others by itself, and reject schemas that it finds odd.
	server := mcp.NewServer(&mcp.Implementation{Name: "gaia", Version: "1"},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			SupportedProtocolVersions: []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}}) // later ones need members that the library adds to its own results only
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch p := r.GetParams().(type) {
			case *mcp.ListToolsParams:
				all := &mcp.ListToolsResult{Tools: []*mcp.Tool{}}
				for _, spec := range s.session.Specs() {
					all.Tools = append(all.Tools, &mcp.Tool{Name: spec.Name, Description: spec.Description, InputSchema: json.RawMessage(spec.Parameters)})
				}
				return all, nil
			case *mcp.CallToolParamsRaw:
				if p == nil {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no name of a tool"}
				}
				text, isError, err := s.call(p.Name, p.Arguments)
				if err != nil { // whose text is not the agent's
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: errOver.Error()}
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: isError}, nil
			}
			return next(ctx, method, r)
		}
	})
	s.mcp = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxToolRequest})
	return s
}

func (s *toolServer) notRecorded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *toolServer) lastFault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// enter takes one of the calls of the attempt, with so many bytes of arguments.
func (s *toolServer) enter(bytes int) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.err != nil:
		return "", errOver
	case s.begun >= s.most || bytes > maxArguments-s.bytes:
		return "", errSpent
	}
	s.begun++
	s.bytes += bytes
	s.running.Add(1)
	return fmt.Sprintf("call_%d", s.begun), nil
}

// spent reports whether no further call is taken.
func (s *toolServer) spent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun >= s.most || s.bytes > maxArguments-maxToolRequest
}

// call takes one call through the Gate, after the replies that may ask for it are recorded; args are the bytes that came. The result is durable when it returns. Only where
// recording fails is an error one that matches trajectory.ErrNotRecorded.
func (s *toolServer) call(name string, args []byte) (text string, isError bool, err error) {
	id, err := s.enter(len(args))
	if err != nil {
		return err.Error(), true, nil
	}
	defer s.running.Done()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.ctx.Done():
		return errOver.Error(), true, nil
	}
	s.pending.Wait(s.ctx)
	began := s.now()
	turn, err := s.turns.Begin()
	if err != nil {
		return "", true, s.ended(err)
	}
	call := tools.Call{ID: id, Name: s.rec.Redact.Label(name), Args: string(args)}
	results, err := s.session.Run(s.ctx, turn, []tools.Call{call})
	done := trajectory.TurnCompleted{LatencyMs: s.now().Sub(began).Milliseconds(), ToolCalls: 1}
	if broke := s.rec.Append(turn, done); broke != nil {
		err = broke
	}
	switch err = s.ended(err); {
	case isNotRecorded(err):
		return "", true, err
	case errors.Is(err, trajectory.ErrTooLarge):
		return "error: the call is too large to be recorded", true, nil
	case err != nil:
		return "error: the tool could not be run: this is a fault of the harness, and not of the call", true, nil
	}
	return results[0].Text, results[0].IsError, nil
}

// ended keeps how a call ended.
func (s *toolServer) ended(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = nil
	switch {
	case isNotRecorded(err):
		s.err = cmp.Or(s.err, err)
	case err != nil && !errors.Is(err, trajectory.ErrTooLarge) && s.ctx.Err() == nil:
		s.failed = err
	}
	return err
}

// serve answers a request for a tool. It returns false for one that is none.
func (s *toolServer) serve(w http.ResponseWriter, r *http.Request, refuser *proxy.Proxy) bool {
	name, named := strings.CutPrefix(r.URL.Path, toolsPath+"/")
	switch {
	case r.URL.Path == mcpPath:
	case r.URL.Path == toolsPath && r.Method == http.MethodGet:
		s.list(w)
		return true
	case !named || name == "" || r.Method != http.MethodPost:
		return false
	}
	if s.spent() && r.Method == http.MethodPost {
		refuser.Refuse(w, r, http.StatusBadRequest, "calls_spent", errSpent.Error())
		return true
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-r.Context().Done():
		return true
	case <-s.ctx.Done():
		panic(http.ErrAbortHandler)
	}
	if !named {
		s.mcp.ServeHTTP(w, r)
		return true
	}
	args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxToolRequest))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		refuser.Refuse(w, r, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a tool call has %d MiB at most", maxToolRequest>>20))
		return true
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	text, isError, err := s.call(name, args)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, struct {
		Text    string `json:"text"`
		IsError bool   `json:"is_error"`
	}{text, isError})
	return true
}

// list answers with the tools.
func (s *toolServer) list(w http.ResponseWriter) {
	type tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	all := []tool{}
	for _, spec := range s.session.Specs() {
		all = append(all, tool{spec.Name, spec.Description, spec.Parameters})
	}
	writeJSON(w, struct {
		Tools []tool `json:"tools"`
	}{all})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the agent may be gone
}
