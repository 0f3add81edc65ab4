package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/tools"
	"github.com/spf13/cobra"
)

// maxPolicyFile bounds, in bytes, what is read of a policy file or a call: above
// it the parser refuses.
const maxPolicyFile = 1 << 20

// completeModes completes a flag by the modes, and by files.
func completeModes(cmd *cobra.Command, flag string) {
	completeWith(cmd, flag, cobra.ShellCompDirectiveDefault, modes()...)
}

func modes() []string {
	return []string{string(policy.Restricted), string(policy.Approved), string(policy.Autonomous)}
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
	if near := settings.Nearest(own, policy.BuiltinTools()); near != "" {
		return "did you mean " + near + "?"
	}
	return "the tools are " + listed(policy.BuiltinTools()) + ", and those of MCP servers by SERVER__TOOL"
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
		return policy.Policy{}, usage(wrong.Hint, "%s:%d:%d: %s", name, wrong.Line, wrong.Column, wrong.Message)
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
