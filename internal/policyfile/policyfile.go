// Package policyfile reads the policies and calls that a user names, and decides about a call as the Gate does.
//
// A policy is a mode or a YAML file, which is read within a limit and may name only tools that there can be. A call is
// one JSON object, {"tool":"…","arguments":{…}}, of at most 1 MiB. [Call.Decide] judges it as the first call of a task:
// by the policy, and by the schema of a built-in tool. Nothing is run (policy.txtar).
package policyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// maxFile bounds, in bytes, what is read of a policy file or a call: above
// it the parser refuses.
const maxFile = 1 << 20

// NoTool is a hint where a name is none of a tool: neither of this program's, also
// of those that a run may lack, nor as tools of MCP servers are called, which only
// the servers know. It is "" for a name that is.
func NoTool(name string) string {
	own := policy.ToolName(name)
	server, _, remote := strings.Cut(own, "__")
	if own == policy.EveryTool || slices.Contains(policy.BuiltinTools(), own) || remote && regexp.MustCompile(mcp.Name).MatchString(server) {
		return ""
	}
	if near := settings.Nearest(own, policy.BuiltinTools()); near != "" {
		return "did you mean " + near + "?"
	}
	return "the tools are " + strings.Join(policy.BuiltinTools(), ", ") + ", and those of MCP servers by SERVER__TOOL"
}

// Named returns the policy of a mode or of a file; "" is autonomous.
func Named(name string) (policy.Policy, error) {
	name = cmp.Or(name, string(policy.Autonomous))
	if p, err := policy.Builtin(policy.Mode(name)); err == nil {
		return p, nil
	}
	hint := "give restricted, approved, autonomous, or a policy file"
	if near := settings.Nearest(name, []string{string(policy.Restricted), string(policy.Approved), string(policy.Autonomous)}); near != "" {
		hint = "did you mean " + near + "?"
	}
	info, err := os.Stat(name)
	if err != nil {
		return policy.Policy{}, exit.Usagef(hint, "reading the policy %q: %v", name, regular.Cause(err))
	}
	if !info.Mode().IsRegular() {
		return policy.Policy{}, exit.Usagef(hint, "the policy %q is not a regular file", name)
	}
	data, err := regular.Read(name, maxFile-1) // of a larger file as much as the parser rejects
	if err != nil {
		return policy.Policy{}, exit.Usagef("", "reading the policy %q: %v", name, regular.Cause(err))
	}
	p, err := policy.Parse(data)
	var wrong *policy.FileError
	if errors.As(err, &wrong) {
		return policy.Policy{}, exit.Usagef(wrong.Hint, "%s:%d:%d: %s", name, wrong.Line, wrong.Column, wrong.Message)
	}
	if err != nil {
		return policy.Policy{}, err
	}
	for _, tool := range p.Named() {
		if hint := NoTool(tool); hint != "" {
			return policy.Policy{}, exit.Usagef(hint, "the policy %q names the tool %q, and there is none", name, tool)
		}
	}
	return p, nil
}

// Call is a call that policy check was given; arguments are nil if it has none.
type Call struct {
	Tool      string
	arguments jsontext.Value
}

// ReadCall reads a call of a tool from a file, or from standard input.
func ReadCall(from string, stdin io.Reader) (Call, error) {
	var data []byte
	var err error
	what := "standard input"
	if from == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxFile+1))
	} else {
		what = strconv.Quote(from)
		data, err = regular.Read(from, maxFile)
	}
	if err != nil {
		return Call{}, exit.Usagef("name a file that holds a call, or - for standard input", "reading the call in %s: %v", what, regular.Cause(err))
	}
	call, err := parseCall(data)
	if err != nil {
		return Call{}, exit.Usagef(`a call is {"tool":"read_file","arguments":{"path":"table.csv"}}`, "reading the call in %s: %v", what, err)
	}
	return call, nil
}

func parseCall(data []byte) (Call, error) {
	if len(data) > maxFile {
		return Call{}, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Call{}, errors.New("it is empty")
	}
	var call struct {
		Tool      string         `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
	}
	var broken *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch err := json.Unmarshal(data, &call, json.RejectUnknownMembers(true)); {
	case errors.As(err, &broken):
		return Call{}, errors.New("it is not JSON: " + strings.TrimPrefix(broken.Error(), "jsontext: "))
	case errors.As(err, &wrong) && errors.Is(wrong.Err, json.ErrUnknownName):
		return Call{}, fmt.Errorf("%q is no member of a call", wrong.JSONPointer.LastToken())
	case errors.As(err, &wrong) && wrong.JSONPointer == "/tool":
		return Call{}, errors.New("its tool is not text")
	case err != nil:
		return Call{}, errors.New("it is not an object")
	case call.Tool == "":
		return Call{}, errors.New("it names no tool")
	}
	return Call{Tool: policy.ToolName(call.Tool), arguments: call.Arguments}, nil
}

// Foreign reports whether the tool can only be one of a server.
func (c Call) Foreign() bool {
	return strings.Contains(c.Tool, "__") && !slices.Contains(policy.BuiltinTools(), c.Tool)
}

// Decide judges the call as the Gate does.
func (c Call) Decide(p policy.Policy) (policy.Decision, error) {
	args, malformed := policy.Arguments(c.arguments)
	asked := policy.CallOf(c.Tool, args)
	if malformed != nil {
		asked.Texts = append(asked.Texts, string(c.arguments))
	}
	asked.Known = c.Foreign() || slices.Contains(policy.BuiltinTools(), c.Tool)
	d := policy.Decide(p, asked)
	if d.Verdict == policy.Deny {
		return d, nil
	}
	unfit := ""
	if malformed != nil {
		unfit = "they are not an object"
	} else if !c.Foreign() {
		var err error
		if unfit, err = c.unfit(); err != nil {
			return d, err
		}
	}
	if unfit != "" {
		d = policy.Decision{Verdict: policy.Deny, Reason: fmt.Sprintf("the arguments do not fit %s: %s", c.Tool, unfit)}
	}
	return d, nil
}

// unfit says why the arguments do not fit the schema of a built-in tool, "" if they do.
func (c Call) unfit() (string, error) {
	fetcher := web.New(web.Config{})
	builtin := []tools.Tool{tools.NewCalculate(), media.NewDescribeImage(nil, "", document.Reader{}), tools.NewListFiles(), document.NewReadFile(document.Reader{}),
		media.NewTranscribe(nil, ""), sandbox.NewUnsafePython(sandbox.Interpreter{}), web.NewWebFetch(fetcher), web.NewWebSearch(fetcher, web.Engine{Name: web.SearXNG})}
	at := slices.IndexFunc(builtin, func(t tools.Tool) bool { return t.Spec().Name == c.Tool })
	if at < 0 {
		return "", fmt.Errorf("the schema of %q is not known", c.Tool)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(builtin[at].Spec().Parameters, &schema); err != nil {
		return "", fmt.Errorf("reading the schema of %q: %v", c.Tool, err)
	}
	schema.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // none: the model is not told, and the Gate checks it
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return "", fmt.Errorf("reading the schema of %q: %v", c.Tool, err)
	}
	values := map[string]any{}
	if c.arguments != nil {
		if err := json.Unmarshal(c.arguments, &values); err != nil {
			return "they are not an object", nil
		}
	}
	if err := resolved.Validate(values); err != nil {
		return strings.ReplaceAll(err.Error(), "validating root: ", ""), nil
	}
	return "", nil
}
