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
// TestMCPMisbehaves, TestMCPEscapes). A call that needs approval runs if somebody
// gives it, which lifts no rule, and never where nobody can be asked
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

	"github.com/gaia-harness/gaia/internal/secret"
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
	Root     *folder
	AllowURL func(url string) error
	Kept     *kept
	grant    *grant // of a tool that asks a model; nil: nothing limits it
}

// kept holds what tools keep between the calls of one attempt, such as a process,
// each under a name of its own. It ends with the attempt.
type kept struct {
	mu    sync.Mutex
	byKey map[string]io.Closer
}

// get returns what is kept under a name, made on first need.
func (k *kept) get(name string, open func() (io.Closer, error)) (io.Closer, error) {
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

// close ends everything.
func (k *kept) close() error {
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

// defined is a tool whose arguments are of type A.
type defined[A any] struct {
	spec   Spec
	schema *jsonschema.Resolved
	urls   func(A) []string // that are made of the arguments; nil: none are
	writer bool
	run    func(context.Context, *Env, A) (Output, error)
}

// define makes a tool from one definition: the schema shown to the model, the
// validation and the decoding all come from A's fields and their tags. It
// panics if A has no JSON Schema, which is a mistake in the program.
func define[A any](name, description string, run func(context.Context, *Env, A) (Output, error)) *defined[A] {
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", name, err))
	}
	parameters, err := json.Marshal(schema)
	if len(schema.Properties) == 0 {
		// The library leaves the key out where there are none, and model endpoints insist on it.
		parameters = []byte(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", name, err))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", name, err))
	}
	return &defined[A]{spec: Spec{Name: name, Description: description, Parameters: parameters}, schema: resolved, run: run}
}

func (d *defined[A]) Spec() Spec { return d.spec }

func (d *defined[A]) writes() bool { return d.writer }

// decode accepts exactly one JSON value that fits the schema: no unknown or
// repeated names.
func (d *defined[A]) decode(args []byte) (A, error) {
	var a, none A
	args = orNone(args)
	var v any
	if err := json.Unmarshal(args, &v); err != nil {
		return none, fmt.Errorf("the arguments of %s are not one JSON object: %s", d.spec.Name, reason(err))
	}
	if err := d.schema.Validate(v); err != nil {
		return none, fmt.Errorf("the arguments do not fit %s: %s; its parameters are %s",
			d.spec.Name, unfit(err), d.spec.Parameters)
	}
	if err := json.Unmarshal(args, &a, json.RejectUnknownMembers(true)); err != nil {
		return none, fmt.Errorf("the arguments do not fit %s: %s", d.spec.Name, reason(err))
	}
	return a, nil
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

// maxReason bounds, in bytes, what a library's error is quoted with. It is below
// what the evidence keeps of a name.
const maxReason = 240

// unfit is a schema's error without the value that does not fit it.
func unfit(err error) string {
	return clipped(quotedValue.ReplaceAllString(strings.ReplaceAll(err.Error(), "validating root: ", ""), `type: it has type "`))
}

// reason is err without the name of the library that found it.
func reason(err error) string {
	text := err.Error()
	for _, prefix := range []string{"jsontext: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return clipped(atOffset.ReplaceAllString(text, ""))
}

// clipped takes credentials out before the cut: half of one is not known for one.
func clipped(s string) string {
	s, _ = secret.Redact(s, trajectory.Redacted)
	return strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
}

func (d *defined[A]) admits(args []byte) ([]string, error) {
	a, err := d.decode(args)
	if err != nil || d.urls == nil {
		return nil, err
	}
	return d.urls(a), nil
}

// askingTool is a tool that asks a model.
type askingTool[A any] struct {
	*defined[A]
	need func(*Env, A) Need
}

func (t askingTool[A]) needs(env *Env, args []byte) Need {
	a, err := t.decode(args)
	if err != nil { // it does not run
		return Need{}
	}
	return t.need(env, a)
}

func (d *defined[A]) call(ctx context.Context, env *Env, args []byte) (Output, error) {
	a, err := d.decode(args)
	if err != nil {
		return failed("%v", err), nil
	}
	out, err := d.run(ctx, env, a)
	return out.valid(), err
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

// count is a number of things in words: "1 page", "2 pages".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// failed is a result that the model can act on.
func failed(format string, args ...any) Output {
	text := "error: " + fmt.Sprintf(format, args...)
	return Output{Document: text, Shown: text, IsError: true}
}
