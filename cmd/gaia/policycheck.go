package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
)

func (a *app) policyCheckCommand() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [CALL.json|-]",
		Short: "Say what a policy decides about a call",
		Long: `Check reads a call, {"tool":"…","arguments":{…}}, from a file or from standard
input, and says what the Gate would decide about it as the first call of a task.
A tool is one of this program's, also by another system's name for it, or one of
a server, SERVER__TOOL.
Exit code 0 means that it would run, 3 that it would not, or not without a person.`,
		Example: `  echo '{"tool":"read_file","arguments":{"path":"table.csv"}}' | gaia policy check --policy restricted
  gaia policy check --policy mine.yaml call.json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "policy"); err != nil {
				return err
			}
			p, err := namedPolicy(name)
			if err != nil {
				return err
			}
			from := "-"
			if len(args) == 1 {
				from = args[0]
			}
			call, err := readCall(from, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if call.foreign() {
				a.warn(fmt.Sprintf("%q is none of the built-in tools: it is taken for a tool of a server, whose schema is not known", call.tool))
			}
			d, err := call.decide(p)
			if err != nil {
				return err
			}
			return a.tellDecision(p, d, asJSON)
		},
	}
	cmd.Flags().StringVar(&name, "policy", "", "restricted, approved, autonomous, or a policy file (default: autonomous)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	completeModes(cmd, "policy")
	return cmd
}

// checkedCall is a call that policy check was given; arguments are nil if it has none.
type checkedCall struct {
	tool      string
	arguments jsontext.Value
}

// readCall reads a call of a tool from a file, or from standard input.
func readCall(from string, stdin io.Reader) (checkedCall, error) {
	var data []byte
	var err error
	what := "standard input"
	if from == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxPolicyFile+1))
	} else {
		what = strconv.Quote(from)
		data, err = readAtMost(from, maxPolicyFile)
	}
	if err != nil {
		return checkedCall{}, usage("name a file that holds a call, or - for standard input", "reading the call in %s: %v", what, unwrapPath(err))
	}
	call, err := parseCall(data)
	if err != nil {
		return checkedCall{}, usage(`a call is {"tool":"read_file","arguments":{"path":"table.csv"}}`, "reading the call in %s: %v", what, err)
	}
	return call, nil
}

func parseCall(data []byte) (checkedCall, error) {
	if len(data) > maxPolicyFile {
		return checkedCall{}, fmt.Errorf("it is larger than %d bytes", maxPolicyFile)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return checkedCall{}, errors.New("it is empty")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(data, &members); err != nil {
		var broken *jsontext.SyntacticError
		if errors.As(err, &broken) {
			return checkedCall{}, errors.New("it is not JSON: " + strings.TrimPrefix(broken.Error(), "jsontext: "))
		}
		return checkedCall{}, errors.New("it is not an object")
	}
	call := checkedCall{arguments: members["arguments"]}
	for name, value := range members {
		switch {
		case name != "tool" && name != "arguments":
			return checkedCall{}, fmt.Errorf("%q is no member of a call", name)
		case name == "tool" && value.Kind() != '"':
			return checkedCall{}, errors.New("its tool is not text")
		case name == "tool":
			text, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return checkedCall{}, errors.New("its tool is not text")
			}
			call.tool = policy.ToolName(string(text))
		}
	}
	if call.tool == "" {
		return checkedCall{}, errors.New("it names no tool")
	}
	return call, nil
}

// foreign reports whether the tool can only be one of a server.
func (c checkedCall) foreign() bool {
	return strings.Contains(c.tool, "__") && !slices.Contains(policy.BuiltinTools(), c.tool)
}

// decide judges the call as the Gate does.
func (c checkedCall) decide(p policy.Policy) (policy.Decision, error) {
	args, malformed := policy.Arguments(c.arguments)
	asked := policy.CallOf(c.tool, args)
	if malformed != nil {
		asked.Texts = append(asked.Texts, string(c.arguments))
	}
	asked.Known = c.foreign() || slices.Contains(policy.BuiltinTools(), c.tool)
	d := policy.Decide(p, asked)
	if d.Verdict == policy.Deny {
		return d, nil
	}
	unfit := ""
	if malformed != nil {
		unfit = "they are not an object"
	} else if !c.foreign() {
		var err error
		if unfit, err = c.unfit(); err != nil {
			return d, err
		}
	}
	if unfit != "" {
		d = policy.Decision{Verdict: policy.Deny, Reason: fmt.Sprintf("the arguments do not fit %s: %s", c.tool, unfit)}
	}
	return d, nil
}

// unfit says why the arguments do not fit the schema of a built-in tool, "" if they do.
func (c checkedCall) unfit() (string, error) {
	web := tools.NewWeb(tools.WebConfig{})
	builtin := []tools.Tool{tools.NewCalculate(), tools.NewDescribeImage(nil, "", tools.Reader{}), tools.NewListFiles(), tools.NewReadFile(tools.Reader{}),
		tools.NewTranscribe(nil, ""), tools.NewUnsafePython(tools.Interpreter{}), tools.NewWebFetch(web), tools.NewWebSearch(web, tools.Engine{Name: tools.SearXNG})}
	at := slices.IndexFunc(builtin, func(t tools.Tool) bool { return t.Spec().Name == c.tool })
	if at < 0 {
		return "", fmt.Errorf("the schema of %q is not known", c.tool)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(builtin[at].Spec().Parameters, &schema); err != nil {
		return "", fmt.Errorf("reading the schema of %q: %v", c.tool, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return "", fmt.Errorf("reading the schema of %q: %v", c.tool, err)
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

func (a *app) tellDecision(p policy.Policy, d policy.Decision, asJSON bool) error {
	var err error
	if asJSON {
		err = a.printJSON(struct {
			GuidanceHash string   `json:"guidance_hash"`
			PolicyHash   string   `json:"policy_hash"`
			Reason       string   `json:"reason"`
			RuleIDs      []string `json:"rule_ids"`
			Verdict      string   `json:"verdict"`
		}{policy.GuidanceHash(policy.Constitution(p)), p.Hash(), d.Reason, d.RuleIDs, string(d.Verdict)})
	} else {
		_, err = fmt.Fprintln(a.stdout, d.Verdict)
	}
	switch {
	case err != nil || d.Verdict == policy.Allow:
		return err
	case d.Verdict == policy.Confirm:
		return fail(exitFindings, errors.New("the call needs approval: "+d.Reason), "in a run, approve it on the terminal or beforehand with --approve")
	}
	hint := "see 'gaia policy show'"
	return fail(exitFindings, errors.New("the call is denied: "+d.Reason), hint)
}
