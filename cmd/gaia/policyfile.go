package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/spf13/cobra"
)

// maxPolicyFile bounds, in bytes, what is read of a policy file or a call: above
// it the parser refuses.
const maxPolicyFile = 1 << 20

// governance says under which policy a run stands, and what is approved before
// anybody is asked.
type governance struct {
	policyName string         // a mode or a file; "" for autonomous
	planned    *policy.Policy // of the plan that goes on or is repeated; nil: none
	approve    []string       // tools, or approveAll
}

// approveAll approves every tool beforehand.
const approveAll = "all"

func (g *governance) addPolicy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.policyName, "policy", "", "restricted, approved, autonomous, or a policy file (default: autonomous)")
	completeModes(cmd, "policy")
}

func (g *governance) addApprove(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&g.approve, "approve", nil, `tools whose calls are approved beforehand where they need it, or "all" (default: each call is asked about on the terminal)`)
	completeWith(cmd, "approve", cobra.ShellCompDirectiveNoFileComp, append(policy.BuiltinTools(), approveAll)...)
}

// completeModes completes a flag by the modes, and by files.
func completeModes(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, cobra.ShellCompDirectiveDefault, modes()...)
}

func modes() []string {
	return []string{string(policy.Restricted), string(policy.Approved), string(policy.Autonomous)}
}

// check refuses what approves nothing.
func (g governance) check() error {
	for _, tool := range g.approve {
		if tool == "" || strings.ContainsAny(tool, " \t\n") {
			return usage("give names of tools with commas between them, or all", "--approve names the tool %q", tool)
		}
		if hint := noTool(tool); tool != approveAll && hint != "" {
			return usage(hint, "--approve names %q, and there is no such tool", tool)
		}
	}
	return nil
}

// noTool is a hint where a name is none of a tool: neither of this program's, also
// of those that a run may lack, nor as tools of MCP servers are called, which only
// the servers know. It is "" for a name that is.
func noTool(name string) string {
	own := policy.ToolName(name)
	server, _, remote := strings.Cut(own, "__")
	if own == policy.EveryTool || slices.Contains(policy.BuiltinTools(), own) || remote && regexp.MustCompile(tools.MCPName).MatchString(server) {
		return ""
	}
	if near := nearest(own, policy.BuiltinTools()); near != "" {
		return "did you mean " + near + "?"
	}
	return "the tools are " + listed(policy.BuiltinTools()) + ", and those of MCP servers by SERVER__TOOL"
}

// base returns the policy without the budgets of the flags.
func (g governance) base() (policy.Policy, error) {
	if g.planned == nil {
		return namedPolicy(g.policyName)
	}
	if _, err := policy.Builtin(g.planned.Mode); err != nil {
		return policy.Policy{}, fail(exitFailure, fmt.Errorf("taking the policy from the plan: %w", err))
	}
	return *g.planned, nil
}

// namedPolicy returns the policy of a mode or of a file; "" is autonomous.
func namedPolicy(name string) (policy.Policy, error) {
	name = cmp.Or(name, string(policy.Autonomous))
	if p, err := policy.Builtin(policy.Mode(name)); err == nil {
		return p, nil
	}
	const hint = "give restricted, approved, autonomous, or a policy file"
	info, err := os.Stat(name)
	if err != nil {
		return policy.Policy{}, usage(hint, "reading the policy %q: %v", name, unwrapPath(err))
	}
	if !info.Mode().IsRegular() {
		return policy.Policy{}, usage(hint, "the policy %q is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return policy.Policy{}, usage("", "reading the policy %q: %v", name, unwrapPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicyFile))
	if err != nil {
		return policy.Policy{}, usage("", "reading the policy %q: %v", name, unwrapPath(err))
	}
	p, err := policy.Parse(data)
	var wrong *policy.FileError
	if errors.As(err, &wrong) {
		// Shown as mistakes in the settings are: the line, with a caret under the place.
		shown := settingsFile{name: name, lines: strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff")), "\n")}
		return policy.Policy{}, shown.wrong(place{wrong.Line, wrong.Column}, wrong.Hint, "%s", wrong.Message)
	}
	if err != nil {
		return policy.Policy{}, err
	}
	for _, tool := range p.Named() {
		if hint := noTool(tool); hint != "" {
			return policy.Policy{}, usage(hint, "the policy %q names the tool %q, and there is none", name, tool)
		}
	}
	return p, nil
}
