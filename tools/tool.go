// Package tools holds what the agent can do, and the Gate that stands before
// it.
//
// It promises that a tool is reached through the [Gate] only: the methods that
// do something are unexported, so no other package can call past it. What a
// tool found comes back as an [Output]: the whole Document, which rules, probes
// and digests are computed over, and Shown, the page of it that the model gets.
//
// It refuses arguments that do not fit a tool's schema, files outside the
// attempt's workspace (links that lead out of it too), addresses that are not
// public (except those a rehearsal names by exact host and port), redirects
// that the rules refuse, and documents above the limits that stand beside each
// reader. A refusal, a missing page or a damaged file is a result the model can
// act on ([Output.IsError]); a Go error means that the machinery broke.
//
// Documents in formats that can be made to take too much (pdf and office files)
// are read in a process of their own, the child of a
// [Reader], which has limits of memory and time, an
// empty environment and no files to write. One that exhausts it is a damaged
// file like any other. Archives are listed, and their members read in memory;
// nothing is unpacked to disk.
//
// Python runs in a [Sandbox] that was tried before, with the workspace and
// nothing else of the machine, and what uses too much is killed as a whole
// (TestSandboxHides, TestPythonEscapes); only [NewUnsafePython], which a run has to
// ask for, goes without. An MCP server's tools are those that it listed when the
// run was planned: one that lists others is not called, nothing that it asks for
// itself is done, and its program gets no workspace (TestMCPNotOfThePlan,
// TestMCPMisbehaves, TestMCPEscapes). A call that needs approval runs if someone
// gives it, which lifts no rule, and never where no one can be asked
// (TestGateApproval, TestGateNobodyToAsk). A turn that breaks rules in mode
// autonomous, or leaves more than can be kept, has its workspace put back to the
// byte; what cannot be copied before is not changed (TestGateRollback,
// TestGateCheckpointFails, TestWorkspaceRestores).
//
// Calls that ask a model are decided one after the other, each with what is left of
// the task's money, tokens and time; others are not held up
// (TestBudgetHoldsInsideATurn, TestTokensHoldInsideATurn, TestTimeHoldsInsideATurn,
// TestFreeCallsAreNotSerialised).
//
// TestGuardRefuses, TestRedirects and TestReadFileStaysInside show the other
// refusals; TestReadFileFailures, TestOfficeFailures and TestHostileArchives walk
// through the damaged files, TestHostileFiles and TestChildFails through what a child does not survive.
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
	call(ctx context.Context, env *Env, args []byte) (Output, error)
}

// AdmitsDirectly returns the addresses that a tool makes of arguments, in a test.
func AdmitsDirectly(_ direct.Key, t Tool, args []byte) ([]string, error) { return t.admits(args) }

// CallDirectly calls a tool without the Gate, in a test: its key has no other holder.
func CallDirectly(ctx context.Context, _ direct.Key, t Tool, env *Env, args []byte) (Output, error) {
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
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", d.Name, err))
	}
	parameters, err := json.Marshal(schema)
	if len(schema.Properties) == 0 {
		// The library leaves the key out where there are none, and model endpoints insist on it.
		parameters = []byte(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", d.Name, err))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", d.Name, err))
	}
	tool := &defined[A]{d, Spec{Name: d.Name, Description: d.Description, Parameters: parameters}, resolved}
	if d.Need != nil {
		return askingTool[A]{tool}
	}
	return tool
}

type defined[A any] struct {
	Definition[A]
	spec   Spec
	schema *jsonschema.Resolved
}

func (d *defined[A]) Spec() Spec { return d.spec }

func (d *defined[A]) writes() bool { return d.Writes }

// decode accepts exactly one JSON value that fits the schema: no unknown or
// repeated names.
func (d *defined[A]) decode(args []byte) (A, error) {
	var a, none A
	args = orNone(args)
	if err := validate(d.spec, d.schema, args); err != nil {
		return none, err
	}
	if err := json.Unmarshal(args, &a, json.RejectUnknownMembers(true)); err != nil {
		return none, fmt.Errorf("the arguments do not fit %s: %s", d.spec.Name, reason(err))
	}
	return a, nil
}

func (d *defined[A]) admits(args []byte) ([]string, error) {
	a, err := d.decode(args)
	if err != nil || d.URLs == nil {
		return nil, err
	}
	return d.URLs(a), nil
}

func (d *defined[A]) call(ctx context.Context, env *Env, args []byte) (Output, error) {
	a, err := d.decode(args)
	if err != nil {
		return Failed("%v", err), nil
	}
	out, err := d.Run(ctx, env, a)
	return out.valid(), err
}

// askingTool is a tool that asks a model.
type askingTool[A any] struct{ *defined[A] }

func (t askingTool[A]) needs(env *Env, args []byte) Need {
	a, err := t.decode(args)
	if err != nil { // it does not run
		return Need{}
	}
	return t.Need(env, a)
}

// Foreign describes a tool that only a schema knows, such as one of an MCP server. It
// changes no workspace.
type Foreign struct {
	Spec   Spec
	Schema *jsonschema.Resolved    // of Spec.Parameters
	Check  func(args []byte) error // is asked before the schema is applied
	Run    func(ctx context.Context, env *Env, args []byte) (Output, error)
}

// DefineForeign makes a tool from its description.
func DefineForeign(f Foreign) Tool { return &foreign{f} }

type foreign struct{ f Foreign }

func (t *foreign) Spec() Spec { return t.f.Spec }

func (t *foreign) writes() bool { return false }

func (t *foreign) admits(args []byte) ([]string, error) {
	if err := t.f.Check(args); err != nil {
		return nil, err
	}
	return nil, validate(t.f.Spec, t.f.Schema, orNone(args))
}

func (t *foreign) call(ctx context.Context, env *Env, args []byte) (Output, error) {
	if _, err := t.admits(args); err != nil {
		return Failed("%v", err), nil
	}
	out, err := t.f.Run(ctx, env, orNone(args))
	return out.valid(), err
}

// validate accepts exactly one JSON value that fits a schema.
func validate(spec Spec, schema *jsonschema.Resolved, args []byte) error {
	var v any
	if err := json.Unmarshal(args, &v); err != nil {
		return fmt.Errorf("the arguments of %s are not one JSON object: %s", spec.Name, reason(err))
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("the arguments do not fit %s: %s; its parameters are %s", spec.Name, unfit(err), spec.Parameters)
	}
	return nil
}

// orNone is the arguments of a call: no text at all counts as {}, which is what
// models send to a tool without arguments.
func orNone(args []byte) []byte {
	if len(bytes.TrimSpace(args)) == 0 {
		return []byte("{}")
	}
	return args
}

// What stands in a library's errors and is of no use to the model: the value
// itself, which it has sent, and a place counted in bytes. A refusal is to say
// no more than the call did.
var (
	quotedValue = regexp.MustCompile(`(?s)type: .* has type "`)
	atOffset    = regexp.MustCompile(` after offset [0-9]+`)
)

// unfit is a schema's error without the value that does not fit it.
func unfit(err error) string {
	return Clipped(quotedValue.ReplaceAllString(strings.ReplaceAll(err.Error(), "validating root: ", ""), `type: it has type "`))
}

// reason is err without the name of the library that found it.
func reason(err error) string {
	text := err.Error()
	for _, prefix := range []string{"jsontext: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return Clipped(atOffset.ReplaceAllString(text, ""))
}

// valid makes everything that came from outside UTF-8, which the evidence is
// written in.
func (o Output) valid() Output {
	clean := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
	o.Document, o.Shown = clean(o.Document), clean(o.Shown)
	for i, u := range o.URLs {
		o.URLs[i] = trajectory.URL{URL: clean(u.URL), Status: u.Status, ContentType: clean(u.ContentType)}
	}
	return o
}

// without takes a secret out of everything that came from outside.
func (o Output) Without(secret string) Output {
	if secret == "" {
		return o
	}
	clean := func(s string) string { return strings.ReplaceAll(s, secret, trajectory.Redacted) }
	o.Document, o.Shown = clean(o.Document), clean(o.Shown)
	for i, u := range o.URLs {
		o.URLs[i] = trajectory.URL{URL: clean(u.URL), Status: u.Status, ContentType: clean(u.ContentType)}
	}
	return o
}
