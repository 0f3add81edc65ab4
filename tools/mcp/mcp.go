// Package mcp makes tools of the servers of the Model Context Protocol.
//
// A server's tools are those that it listed when the run was planned: one that lists others
// is not called (TestMCPNotOfThePlan), nothing that it asks for itself is done
// (TestMCPMisbehaves), and its program gets no workspace (TestMCPEscapes). What it says is
// bounded in bytes, messages, time and processor time.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCPServer says how a server of the Model Context Protocol is reached, whose
// tools become tools of the agent. It has a Command, or a URL.
//
// A Command is an absolute path and arguments. With a Sandbox it runs there,
// without a workspace, and sees Folders besides the system's own programs; it has
// the network of this machine if Network is NetworkHost. Without a Sandbox it runs
// like any program of the user. Its environment is Env, and outside of the sandbox
// Path. The values of Env are secret.
//
// A URL is asked over streamable HTTP, with Headers, whose values are secret.
// Its host may be anywhere; no redirect is followed.
type MCPServer struct {
	Name    string // MCPName
	Command []string
	Folders []string
	Sandbox *sandbox.Sandbox
	Env     map[string]string
	Network string // NetworkHost, or NetworkNone, which is also ""
	Path    string
	URL     string
	Headers map[string]string
	Only    []string // the server's own names of the tools that are taken; nil: all

	StartTimeout time.Duration // until it has said what its tools are; 0: MCPStart
	call         time.Duration // 0: mcpCall
}

// The networks of a server that is a program, as a plan records them.
const (
	NetworkNone = "none"
	NetworkHost = "host"
)

// MCPStart is how long a server may take to start by default, and MCPStartMost the longest
// that can be said.
const (
	MCPStart     = 30 * time.Second
	MCPStartMost = 10 * time.Minute
)

// MCPName is what a server may be called.
const MCPName = `^[a-z][a-z0-9-]{0,31}$`

// Limits of a server, which is not trusted.
const (
	mcpTools       = 64        // that are taken of a server
	mcpPages       = 64        // in which they are listed
	mcpDescription = 4 << 10   // bytes
	mcpSchema      = 64 << 10  // bytes of a schema as the model gets it
	mcpArguments   = 256 << 10 // bytes of a call's: what validating them takes grows with both
	mcpComparisons = 4 << 20   // of a value with a part of a schema: about a second
	mcpCall        = 120 * time.Second
	mcpStarts      = 5        // in an attempt, of a server that ends by itself
	mcpHeard       = 24 << 20 // bytes that it may say in a call, or to its start
	mcpMessages    = 10_000   // likewise; each takes a tenth of a millisecond
	mcpLine        = 16 << 20 // bytes of one message
)

// mcpListed is a tool as a server lists it, and the model is told of it.
type mcpListed struct{ remote, name, description, schema string }

// mcpPlan is a server with the list that it gave when the run was planned.
type mcpPlan struct {
	MCPServer
	listed []mcpListed
}

// Tools starts the server, asks for its tools and ends it. Its errors are for
// the user. A server whose list differs from this one later is not called: the
// tools that are returned start it again for each attempt.
func (s MCPServer) Tools(ctx context.Context) ([]tools.Tool, error) {
	if !regexp.MustCompile(MCPName).MatchString(s.Name) {
		return nil, fmt.Errorf("an MCP server cannot be called %q", s.Name)
	}
	limited, cancel := context.WithTimeout(ctx, s.startTime())
	defer cancel()
	session, err := s.open(limited, sandbox.LimitCPU)
	if err != nil {
		return nil, s.unusable(ctx, limited, session, err)
	}
	defer session.end()
	plan := &mcpPlan{MCPServer: s}
	if plan.listed, err = s.list(limited, session); err != nil {
		return nil, s.unusable(ctx, limited, session, err)
	}
	var all []tools.Tool
	for _, listed := range plan.listed {
		schema, err := resolveMCP([]byte(listed.schema))
		if err != nil {
			return nil, fmt.Errorf("the MCP server %q: the schema of the tool %q %w", s.Name, tools.PlainLine(listed.remote), err)
		}
		all = append(all, plan.tool(listed, schema))
	}
	return all, nil
}

// unusable says to the user why a server cannot be planned with.
func (s MCPServer) unusable(ctx, limited context.Context, session *mcpSession, err error) error {
	session.end()
	var own *mcpFault
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("it did not say within %s what its tools are; start_timeout gives it longer", s.startTime())
	case errors.As(err, &own):
		return fmt.Errorf("the MCP server %q %s", s.Name, s.hidden(own.why))
	default:
		err = startFault(s.hidden(tools.Plain(err)))
	}
	return fmt.Errorf("the MCP server %q cannot be used: %w%s", s.Name, err, s.wrote(session))
}

// wrote returns what a server that has ended wrote to standard error at last, behind a semicolon and
// without secrets; "" if it wrote nothing.
func (s MCPServer) wrote(session *mcpSession) string {
	if session == nil {
		return ""
	}
	lines := session.stderr.lines(s.hidden)
	if lines == "" {
		return ""
	}
	return fmt.Sprintf("; it wrote to standard error: %q", lines)
}

// secrets are the values that a server was given and may repeat. Short ones are none, as for a
// trajectory.Redactor: to take them out would spoil every text.
func (s MCPServer) secrets() []string {
	values := slices.Collect(maps.Values(s.Env))
	for _, value := range s.Headers {
		_, credential, _ := strings.Cut(value, " ") // of "Bearer …"
		values = append(values, value, credential)
	}
	values = slices.DeleteFunc(values, func(v string) bool { return len(v) < 6 })
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return values
}

// hidden is a text without secrets.
func (s MCPServer) hidden(text string) string {
	text, _ = trajectory.NewRedactor(nil, s.secrets()...).Redact(text)
	return text
}

// startFault says why a server did not start without the names of what the library
// was at: only the last of them is of the server.
func startFault(text string) error {
	text = regexp.MustCompile(`^(?:connection closed: |client is closing: |rejected by transport: |(?:calling|sending) "[^"]*": )+`).ReplaceAllString(text, "")
	if text == "EOF" || strings.HasSuffix(text, "broken pipe") { // by whether it ended before it was written to
		text = "it ended before it had said what its tools are"
	}
	return errors.New(text)
}

// mcpFault is something that a server's list has and must not have.
type mcpFault struct{ why string }

func (f *mcpFault) Error() string { return f.why }

func mcpFaultf(format string, args ...any) error { return &mcpFault{fmt.Sprintf(format, args...)} }

// list asks a server for its tools, and takes those that are wanted, by name.
func (s MCPServer) list(ctx context.Context, session *mcpSession) ([]mcpListed, error) {
	var listed []mcpListed
	params := &mcp.ListToolsParams{}
	for range mcpPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if t == nil || s.Only != nil && !slices.Contains(s.Only, t.Name) {
				continue
			}
			one, err := s.take(t)
			if err != nil {
				return nil, err
			}
			if listed = append(listed, one); len(listed) > mcpTools {
				return nil, mcpFaultf("has more than %d tools; name those that are wanted", mcpTools)
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return listed, s.distinct(listed)
		}
	}
	return nil, mcpFaultf("lists its tools on more than %d pages", mcpPages)
}

// distinct sorts a list, in which each name stands once and none is missing.
func (s MCPServer) distinct(listed []mcpListed) error {
	slices.SortFunc(listed, func(a, b mcpListed) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(listed); i++ {
		if listed[i-1].name == listed[i].name {
			return mcpFaultf("has two tools that would be called %q", listed[i].name)
		}
	}
	for _, want := range s.Only {
		if !slices.ContainsFunc(listed, func(l mcpListed) bool { return l.remote == want }) {
			return mcpFaultf("has no tool %q", want)
		}
	}
	if len(listed) == 0 {
		return mcpFaultf("has no tools")
	}
	return nil
}

// take checks what a server says of one tool.
func (s MCPServer) take(t *mcp.Tool) (mcpListed, error) {
	name, shown := mcpToolName(s.Name, t.Name), tools.PlainLine(t.Name)
	if t.Name == "" || len(t.Name) > 256 {
		return mcpListed{}, mcpFaultf("has a tool whose name has %d bytes", len(t.Name))
	}
	if len(t.Description) > mcpDescription {
		return mcpListed{}, mcpFaultf("describes its tool %q in %d bytes; %d are the limit", shown, len(t.Description), mcpDescription)
	}
	if what := unseen(t.Description); what != "" {
		return mcpListed{}, mcpFaultf("describes its tool %q with a character that is not seen, %s", shown, what)
	}
	schema, err := mcpParameters(t.InputSchema)
	if err != nil {
		return mcpListed{}, mcpFaultf("has a tool %q whose schema %v", shown, err)
	}
	description := t.Description
	if description == "" {
		description = fmt.Sprintf("The tool %q of the server %q.", shown, s.Name)
	}
	return mcpListed{t.Name, name, description, string(schema)}, nil
}

// mcpToolName is what the model calls a server's tool: both names, with what
// endpoints allow in the name of a tool.
func mcpToolName(server, remote string) string {
	name := server + "__" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, remote)
	return name[:min(len(name), 64)]
}

func (s MCPServer) startTime() time.Duration {
	if s.StartTimeout > 0 {
		return s.StartTimeout
	}
	return MCPStart
}

func (s MCPServer) callTime() time.Duration {
	if s.call > 0 {
		return s.call
	}
	return mcpCall
}

// tool makes a tool of what the server lists. No server is given a workspace.
func (p *mcpPlan) tool(l mcpListed, schema *jsonschema.Resolved) tools.Tool {
	spec := tools.Spec{Name: l.name, Description: l.description, Parameters: []byte(l.schema), Server: "mcp:" + p.Name, Env: slices.Sorted(maps.Keys(p.Env))}
	switch {
	case p.URL != "":
		spec.Server += " " + tools.Origin(p.URL)
	case p.Network == NetworkHost || p.Sandbox == nil:
		spec.Network = NetworkHost
	default:
		spec.Network = NetworkNone
	}
	return tools.DefineForeign(tools.Foreign{Spec: spec, Schema: schema, Check: l.check, Run: func(ctx context.Context, env *tools.Env, args []byte) (tools.Output, error) {
		if env.Kept == nil {
			return tools.Output{}, errors.New("there is nothing that keeps the MCP server")
		}
		server, err := env.Kept.Get("mcp:"+p.Name, p.keep)
		if err != nil {
			return tools.Output{}, err
		}
		out, err := server.(*mcpConn).call(ctx, l.remote, args)
		for _, value := range p.secrets() { // which a server may repeat
			out = out.Without(value)
		}
		return out, err
	}})
}

// check bounds what validating arguments takes: each value may be held against each part
// of the schema, and nothing can interrupt that.
func (l mcpListed) check(args []byte) error {
	if len(args) > mcpArguments {
		return fmt.Errorf("the arguments of %s have %d bytes; %d are the limit", l.name, len(args), mcpArguments)
	}
	if size, err := schemaParts([]byte(l.schema)); err != nil || size*values(args) > mcpComparisons {
		return fmt.Errorf("the arguments of %s have too many values for its schema", l.name)
	}
	return nil
}
