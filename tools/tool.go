// Package tools holds the Gate, and the tools that need nothing but the workspace.
// The packages below it hold the others: document, media, sandbox, web and mcp.
//
// A tool is reached through the [Gate] only: the methods that do something are
// unexported, so no other package can call past it (TestOnlyTheGateCalls). A tool returns
// an [Output]: the whole Document, which rules, probes and digests are computed over, and
// Shown, the page of it that the model gets.
//
// The Gate refuses arguments that do not fit a tool's schema, and the workspace has no
// files outside of it, links that lead out of it included. A refusal, a missing page or a
// damaged file is a result the model can act on ([Output.IsError]); a Go error means that
// the machinery broke.
//
// A call that needs approval runs if someone approves it, which lifts no rule, and never
// where there is no one to ask (TestGateApproval, TestGateNoOneToAsk). A turn that breaks
// rules in mode autonomous, or leaves more than can be kept, has its workspace restored to
// the byte; what cannot be copied before is not changed (TestGateRollback,
// TestGateCheckpointFails, TestWorkspaceRestores). An own agent writes to its workspace
// itself, and calls tools at any time: calls that can change the workspace run alone, and
// nothing of it is restored (TestSharedWriters, TestSharedIsNotRestored).
//
// Calls that ask a model are decided one after the other, each with what is left of
// the task's money, tokens and time; others are not held up
// (TestBudgetHoldsInsideATurn, TestTokensHoldInsideATurn, TestTimeHoldsInsideATurn,
// TestFreeCallsAreNotSerialised).
package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gaia-harness/gaia/tools/internal/direct"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

// Spec is how a tool is described to the model. Parameters is a JSON Schema of
// type object. Server names the MCP server whose tool it is, and where it is if
// it is asked over HTTP ("mcp:notes https://notes.example"). Server, Network and
// Env are for the plan; the model does not see them.
type Spec struct {
	Name, Description string
	Parameters        []byte
	Server            string
	Network           string   // of a server that is a program: NetworkNone or NetworkHost
	Env               []string // names of the variables that the server is given, sorted
}

// Output is what a tool made. Document is the whole of it as text, before
// paging or cuts; Shown is what the model sees. With IsError Shown says what
// went wrong, in words the model can act on, and so does Document where there
// is no document. URLs are the addresses reached, in order: requested,
// redirects, final; one with status 0 gave no answer, or was only named (by a
// search result, by a redirect that was refused). Model says what a model was
// asked for to make the document, nil if none was; the Gate charges its cost.
type Output struct {
	Document string
	Shown    string
	IsError  bool
	URLs     []trajectory.URL
	Model    *trajectory.ModelUse
}

// Env is what a tool may use of an attempt. Root is its workspace, nil where
// nothing lies in it; AllowURL is asked for every redirect target before it is
// followed, and an error from it refuses the redirect; Kept is what tools keep
// between the calls of the attempt.
type Env struct {
	Root     *Folder
	AllowURL func(url string) error
	Kept     *Kept
	grant    *grant // of a tool that asks a model; nil: nothing limits it

	start   tree        // of a workspace that is shared with an own agent; nil: it is not
	foreign atomic.Bool // something was read that is not in start
}

// Kept holds what tools keep between the calls of one attempt, such as a process,
// each under its name. It ends with the attempt.
type Kept struct {
	mu    sync.Mutex
	byKey map[string]io.Closer
}

// Get returns what is kept under a name; open makes it where there is nothing yet.
func (k *Kept) Get(name string, open func() (io.Closer, error)) (io.Closer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have, ok := k.byKey[name]; ok {
		return have, nil
	}
	made, err := open()
	if err != nil {
		return nil, err
	}
	if k.byKey == nil {
		k.byKey = map[string]io.Closer{}
	}
	k.byKey[name] = made
	return made, nil
}

// Close ends everything that is kept.
func (k *Kept) Close() error {
	k.mu.Lock()
	all := k.byKey
	k.byKey = nil
	k.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, all[name].Close())
	}
	return errors.Join(errs...)
}

// Tool is one thing the agent can do. It can be described by anyone and called
// by the Gate only.
type Tool interface {
	Spec() Spec
	// admits decodes the arguments strictly, and returns the addresses that the
	// tool makes of them. What the arguments themselves name, policy.CallOf
	// knows. The text of its error is for the model.
	admits(args []byte) (urls []string, err error)
	// writes reports whether calls can change the workspace.
	writes() bool
	// asks reports whether calls ask a model.
	asks() bool
	// needs bounds one request of a call whose arguments it admits, of a tool that asks a
	// model; where the call cannot get as far as a request, any bound will do.
	needs(env *Env, args []byte) Need
	// call runs the tool with arguments that it admits: the Gate has asked it before it decided.
	call(ctx context.Context, env *Env, args []byte) (Output, error)
}

// AdmitsDirectly returns the addresses that a tool makes of arguments, in a test.
func AdmitsDirectly(_ direct.Key, t Tool, args []byte) ([]string, error) { return t.admits(args) }

// CallDirectly calls a tool without the Gate, in a test: its key has no other holder.
func CallDirectly(ctx context.Context, _ direct.Key, t Tool, env *Env, args []byte) (Output, error) {
	if _, err := t.admits(args); err != nil {
		return Failed("%v", err), nil
	}
	return t.call(ctx, env, args)
}

// Definition describes a tool whose arguments are of type A: the schema shown to the
// model, the validation and the decoding all come from A's fields and their tags.
type Definition[A any] struct {
	Name, Description string
	Run               func(context.Context, *Env, A) (Output, error)
	URLs              func(A) []string   // addresses that are made of the arguments; nil: none are
	Need              func(*Env, A) Need // of a tool that asks a model; nil: it asks none
	Writes            bool               // calls can change the workspace
}

// Define makes a tool from its definition. It panics if A has no JSON Schema, which is a
// mistake in the program.
func Define[A any](d Definition[A]) Tool {
	var parameters []byte
	var resolved *jsonschema.Resolved
	schema, err := jsonschema.For[A](nil)
	if err == nil {
		resolved, err = schema.Resolve(nil)
	}
	if err == nil {
		// That there are no other parameters goes without saying: it is checked, and costs a model's tokens.
		shown := *schema
		shown.AdditionalProperties = nil
		parameters, err = json.Marshal(&shown)
	}
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", d.Name, err))
	}
	if len(schema.Properties) == 0 {
		// The library leaves the key out where there are none, and model endpoints insist on it.
		parameters = []byte(`{"type":"object","properties":{}}`)
	}
	decode := func(args []byte) (a A, err error) { // no unknown or repeated names
		if err = json.Unmarshal(args, &a, json.RejectUnknownMembers(true)); err != nil {
			err = fmt.Errorf("the arguments do not fit %s: %s", d.Name, reason(err))
		}
		return a, err
	}
	t := &tool{spec: Spec{Name: d.Name, Description: d.Description, Parameters: parameters}, schema: resolved, canWrite: d.Writes}
	t.urls = func(args []byte) ([]string, error) {
		a, err := decode(args)
		if err != nil || d.URLs == nil {
			return nil, err
		}
		return d.URLs(a), nil
	}
	t.run = func(ctx context.Context, env *Env, args []byte) (Output, error) {
		a, err := decode(args)
		if err != nil {
			return Failed("%v", err), nil
		}
		return d.Run(ctx, env, a)
	}
	if d.Need != nil {
		t.need = func(env *Env, args []byte) Need {
			a, err := decode(args)
			if err != nil { // it does not run
				return Need{}
			}
			return d.Need(env, a)
		}
	}
	return t
}

// Foreign describes a tool that only a schema knows, such as one of an MCP server. It
// changes no workspace and asks no model.
type Foreign struct {
	Spec   Spec
	Schema *jsonschema.Resolved    // of Spec.Parameters
	Check  func(args []byte) error // is asked before the schema is applied
	Run    func(ctx context.Context, env *Env, args []byte) (Output, error)
}

// DefineForeign makes a tool from its description.
func DefineForeign(f Foreign) Tool {
	return &tool{spec: f.Spec, schema: f.Schema, check: f.Check, run: f.Run}
}

// tool is the only kind of [Tool].
type tool struct {
	spec     Spec
	schema   *jsonschema.Resolved
	canWrite bool
	check    func(args []byte) error // before the schema is applied; may be nil
	urls     func(args []byte) ([]string, error)
	need     func(env *Env, args []byte) Need // nil: it asks no model
	run      func(ctx context.Context, env *Env, args []byte) (Output, error)
}

func (t *tool) Spec() Spec { return t.spec }

func (t *tool) writes() bool { return t.canWrite }

func (t *tool) asks() bool { return t.need != nil }

func (t *tool) needs(env *Env, args []byte) Need { return t.need(env, orNone(args)) }

// admits accepts exactly one JSON value that fits the schema.
func (t *tool) admits(args []byte) ([]string, error) {
	if t.check != nil {
		if err := t.check(args); err != nil {
			return nil, err
		}
	}
	var v any
	args = orNone(args)
	if err := json.Unmarshal(args, &v); err != nil {
		return nil, fmt.Errorf("the arguments of %s are not one JSON object: %s", t.spec.Name, reason(err))
	}
	if err := t.schema.Validate(v); err != nil {
		return nil, fmt.Errorf("the arguments do not fit %s: %s; its parameters are %s", t.spec.Name, unfit(err), t.spec.Parameters)
	}
	if t.urls == nil {
		return nil, nil
	}
	return t.urls(args)
}

func (t *tool) call(ctx context.Context, env *Env, args []byte) (Output, error) {
	out, err := t.run(ctx, env, orNone(args))
	// The evidence is written in UTF-8.
	return out.edited(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }), err
}

// orNone is the arguments of a call: no text at all counts as {}, which is what
// models send to a tool without arguments.
func orNone(args []byte) []byte {
	if len(bytes.TrimSpace(args)) == 0 {
		return []byte("{}")
	}
	return args
}

// A library's errors quote the value itself, which the model has sent, and a place counted
// in bytes. A refusal contains no more than the call did.
var (
	quotedValue = regexp.MustCompile(`(?s)type: .* has type "`)
	atOffset    = regexp.MustCompile(` after offset [0-9]+`)
)

// unfit is a schema's error without the value that does not fit it.
func unfit(err error) string {
	text := strings.ReplaceAll(err.Error(), "validating root: ", "")
	return Clipped(quotedValue.ReplaceAllString(text, `type: it has type "`))
}

// reason is err without the name of the library that found it.
func reason(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "jsontext: "), "json: ")
	return Clipped(atOffset.ReplaceAllString(text, ""))
}

// edited is an output with everything that came from outside edited.
func (o Output) edited(edit func(string) string) Output {
	o.Document, o.Shown = edit(o.Document), edit(o.Shown)
	for i, u := range o.URLs {
		o.URLs[i] = trajectory.URL{URL: edit(u.URL), Status: u.Status, ContentType: edit(u.ContentType)}
	}
	return o
}

// Without redacts a secret in everything that came from outside.
func (o Output) Without(secret string) Output {
	if secret == "" {
		return o
	}
	return o.edited(func(s string) string { return strings.ReplaceAll(s, secret, trajectory.Redacted) })
}
