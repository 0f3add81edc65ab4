// Package mcp makes tools of the servers of the Model Context Protocol.
//
// A server's tools are those that it listed when the run was planned: one that lists others
// is not called (TestMCPNotOfThePlan), nothing that it asks for itself is done
// (TestMCPMisbehaves), and its program gets no workspace (TestMCPEscapes). What it says is
// bounded in bytes, messages, time and processor time.
package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server says how a server of the Model Context Protocol is reached, whose
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
type Server struct {
	Name    string // matches Name
	Command []string
	Folders []string
	Sandbox *sandbox.Sandbox
	Env     map[string]string
	Network string // NetworkHost, or NetworkNone, which is also ""
	Path    string
	URL     string
	Headers map[string]string
	Only    []string // the server's own names of the tools that are taken; nil: all

	StartTimeout time.Duration // until it has listed its tools; 0: the default
	call         time.Duration // 0: mcpCall
}

// The networks of a server that is a program, as a plan records them.
const (
	NetworkNone = "none"
	NetworkHost = "host"
)

// defaultStartTime is how long a server may take to start by default, and MaxStartTime the longest
// time that can be configured.
const (
	defaultStartTime = 30 * time.Second
	MaxStartTime     = 10 * time.Minute
)

// Name matches the names that a server may have.
const Name = `^[a-z][a-z0-9-]{0,31}$`

// Limits of a server, which is not trusted.
const (
	maxTools        = 64        // that are taken of a server
	maxPages        = 64        // in which they are listed
	maxDescription  = 4 << 10   // bytes
	maxSchema       = 64 << 10  // bytes of a schema as the model gets it
	maxArguments    = 256 << 10 // bytes of a call's: what validating them takes grows with both
	maxComparisons  = 4 << 20   // of a value with a part of a schema: about a second
	defaultCallTime = 120 * time.Second
	maxStarts       = 5        // in an attempt, of a server that ends by itself
	maxHeard        = 24 << 20 // bytes that it may say in a call, or to its start
	maxMessages     = 10_000   // likewise; each takes a tenth of a millisecond
	maxLine         = 16 << 20 // bytes of one message
)

// listedTool is a tool as a server lists it and the model sees it.
type listedTool struct{ remote, name, description, schema string }

// mcpPlan is a server with the list that it gave when the run was planned.
type planned struct {
	Server
	listed []listedTool
}

// Tools starts the server, asks for its tools and ends it. Its errors are for
// the user. A server whose list differs from this one later is not called: the
// tools that are returned start it again for each attempt.
func (s Server) Tools(ctx context.Context) ([]tools.Tool, error) {
	if !regexp.MustCompile(Name).MatchString(s.Name) {
		return nil, fmt.Errorf("an MCP server cannot be called %q", s.Name)
	}
	limited, cancel := context.WithTimeout(ctx, s.startTime())
	defer cancel()
	session, err := s.open(limited, sandbox.LimitCPU)
	if err != nil {
		return nil, s.unusable(ctx, limited, session, err)
	}
	defer session.end()
	plan := &planned{Server: s}
	if plan.listed, err = s.list(limited, session); err != nil {
		return nil, s.unusable(ctx, limited, session, err)
	}
	var all []tools.Tool
	for _, listed := range plan.listed {
		schema, err := resolveSchema([]byte(listed.schema))
		if err != nil {
			return nil, fmt.Errorf("the MCP server %q: the schema of the tool %q %w", s.Name, tools.PlainLine(listed.remote), err)
		}
		all = append(all, plan.tool(listed, schema))
	}
	return all, nil
}

// unusable ends a session and says to the user why a server cannot be planned with.
func (s Server) unusable(ctx, limited context.Context, session *connection, err error) error {
	session.end()
	switch own, is := errors.AsType[*listFault](err); {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("it did not list its tools within %s; start_timeout gives it longer", s.startTime())
	case is:
		return fmt.Errorf("the MCP server %q %s", s.Name, s.hidden(own.why))
	default: // only the last of the names that the library puts before an error is of the server
		text := libraryNames.ReplaceAllString(s.hidden(tools.Plain(err)), "")
		if text == "EOF" || strings.HasSuffix(text, "broken pipe") { // by whether it ended before it was written to
			text = "it ended before it had listed its tools"
		}
		err = errors.New(text)
	}
	return fmt.Errorf("the MCP server %q cannot be used: %w%s", s.Name, err, s.wrote(session))
}

var libraryNames = regexp.MustCompile(
	`^(?:connection closed: |client is closing: |rejected by transport: |(?:calling|sending) "[^"]*": )+`)

// wrote returns the last lines that a server that has ended wrote to standard error, behind a semicolon and
// without secrets; "" if there are none.
func (s Server) wrote(session *connection) string {
	if session != nil {
		if lines := session.stderr.lines(s.hidden); lines != "" {
			return fmt.Sprintf("; it wrote to standard error: %q", lines)
		}
	}
	return ""
}

// secrets are the values that a server was given and may repeat. Short ones are none, as for a
// trajectory.Redactor: to take them out would spoil every text.
func (s Server) secrets() []string {
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
func (s Server) hidden(text string) string {
	text, _ = trajectory.NewRedactor(nil, s.secrets()...).Redact(text)
	return text
}

// listFault is a reason to refuse what a server lists.
type listFault struct{ why string }

func (f *listFault) Error() string { return f.why }

func listFaultf(format string, args ...any) error { return &listFault{fmt.Sprintf(format, args...)} }

// list asks a server for its tools, and takes those that are wanted, by name.
func (s Server) list(ctx context.Context, session *connection) ([]listedTool, error) {
	var listed []listedTool
	params := &mcp.ListToolsParams{}
	for pages := 1; pages == 1 || params.Cursor != ""; pages++ {
		if pages > maxPages {
			return nil, listFaultf("lists its tools on more than %d pages", maxPages)
		}
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
			if listed = append(listed, one); len(listed) > maxTools {
				return nil, listFaultf("has more than %d tools; name those that are wanted", maxTools)
			}
		}
		params.Cursor = page.NextCursor
	}
	slices.SortFunc(listed, func(a, b listedTool) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(listed); i++ {
		if listed[i-1].name == listed[i].name {
			return nil, listFaultf("has two tools that would be called %q", listed[i].name)
		}
	}
	for _, want := range s.Only {
		if !slices.ContainsFunc(listed, func(l listedTool) bool { return l.remote == want }) {
			return nil, listFaultf("has no tool %q", want)
		}
	}
	if len(listed) == 0 {
		return nil, listFaultf("has no tools")
	}
	return listed, nil
}

// take checks the description of one tool.
func (s Server) take(t *mcp.Tool) (listedTool, error) {
	name, shown := toolName(s.Name, t.Name), tools.PlainLine(t.Name)
	if t.Name == "" || len(t.Name) > 256 {
		return listedTool{}, listFaultf("has a tool whose name has %d bytes", len(t.Name))
	}
	if len(t.Description) > maxDescription {
		return listedTool{}, listFaultf("describes its tool %q in %d bytes; %d are the limit", shown, len(t.Description), maxDescription)
	}
	if what := unseen(t.Description); what != "" {
		return listedTool{}, listFaultf("describes its tool %q with a character that is not seen, %s", shown, what)
	}
	schema, err := parameters(t.InputSchema)
	if err != nil {
		return listedTool{}, listFaultf("has a tool %q whose schema %v", shown, err)
	}
	description := t.Description
	if description == "" {
		description = fmt.Sprintf("The tool %q of the server %q.", shown, s.Name)
	}
	return listedTool{t.Name, name, description, string(schema)}, nil
}

// toolName is what the model calls a server's tool: both names, with what
// endpoints allow in the name of a tool.
func toolName(server, remote string) string {
	name := server + "__" + notInNames.ReplaceAllString(remote, "_")
	return name[:min(len(name), 64)]
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

func (s Server) startTime() time.Duration { return cmp.Or(s.StartTimeout, defaultStartTime) }

func (s Server) callTime() time.Duration { return cmp.Or(s.call, defaultCallTime) }

// tool makes a tool of what the server lists. No server is given a workspace.
func (p *planned) tool(l listedTool, schema *jsonschema.Resolved) tools.Tool {
	spec := tools.Spec{Name: l.name, Description: l.description, Parameters: []byte(l.schema),
		Server: "mcp:" + p.Name, Env: slices.Sorted(maps.Keys(p.Env))}
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
		server, err := env.Kept.Get("mcp:"+p.Name, func() (io.Closer, error) {
			return &attemptServer{plan: p, busy: make(chan struct{}, 1)}, nil
		})
		if err != nil {
			return tools.Output{}, err
		}
		out, err := server.(*attemptServer).call(ctx, l.remote, args)
		for _, value := range p.secrets() { // which a server may repeat
			out = out.Without(value)
		}
		return out, err
	}})
}

// check bounds what validating arguments takes: each value may be held against each part
// of the schema, and nothing can interrupt that.
func (l listedTool) check(args []byte) error {
	if len(args) > maxArguments {
		return fmt.Errorf("the arguments of %s have %d bytes; %d are the limit", l.name, len(args), maxArguments)
	}
	values := 0 // names included
	for d := jsontext.NewDecoder(bytes.NewReader(args)); ; values++ {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	if size, err := schemaParts([]byte(l.schema)); err != nil || size*values > maxComparisons {
		return fmt.Errorf("the arguments of %s have too many values for its schema", l.name)
	}
	return nil
}
