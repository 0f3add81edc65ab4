package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Look at policies, and try what they say of a call",
		Long: `Policy shows what a run under a policy may do: a mode (restricted, approved,
autonomous) or a policy file, a YAML mapping:

  mode: autonomous        # needed; what is left out is the mode's own
  allow: [read_file, Bash]
  deny: [web_search]
  confirm: [python]       # a person is asked, in any mode
  max_tool_calls: 100     # per task, or off
  max_task_cost: 0.50     # US dollars per task, or off
  answer_sources: [answers.example/gaia]
  commands: [git]
  packages: [requests]

The last three add to the rules R001, R004 and R005. No file takes from a rule.`,
		Example: `  gaia policy show restricted
  gaia policy hash mine.yaml
  echo '{"tool":"python","arguments":{"code":"import datasets"}}' | gaia policy check`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyShowCommand(), a.policyHashCommand(), a.policyCheckCommand())
	return cmd
}

// atMostOne wants no argument or one.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("see '"+cmd.CommandPath()+" --help'", "%s takes one argument at most, not %d", cmd.Name(), len(args))
	}
	return nil
}

// named returns the policy that the first argument names.
func named(args []string) (policy.Policy, error) {
	if len(args) == 0 {
		return namedPolicy("")
	}
	if args[0] == "" {
		return policy.Policy{}, usage("give restricted, approved, autonomous, or a policy file", "the policy has no name")
	}
	return namedPolicy(args[0])
}

func (a *app) policyShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show [MODE|FILE]",
		Short:             "Show a policy and the rules",
		Example:           "  gaia policy show\n  gaia policy show restricted --json",
		Args:              atMostOne,
		ValidArgsFunction: cobra.FixedCompletions(modes(), cobra.ShellCompDirectiveDefault),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := named(args)
			if err != nil {
				return err
			}
			return a.showPolicy(p, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// shownRule is a rule as policy show prints it.
type shownRule struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Version int    `json:"version"`
}

func (a *app) showPolicy(p policy.Policy, asJSON bool) error {
	if asJSON {
		var rules []shownRule
		for _, r := range policy.Rules() {
			rules = append(rules, shownRule(r))
		}
		return a.printJSON(struct {
			GuidanceHash string        `json:"guidance_hash"`
			Policy       policy.Policy `json:"policy"`
			PolicyHash   string        `json:"policy_hash"`
			Rules        []shownRule   `json:"rules"`
		}{policy.GuidanceHash(), p.Canonical(), p.Hash(), rules})
	}
	calls, cost := "no limit", "no limit"
	if p.MaxToolCalls != policy.Unlimited {
		calls = strconv.Itoa(p.MaxToolCalls)
	}
	if p.MaxCostMicroUSD != policy.Unlimited {
		cost = dollars(&p.MaxCostMicroUSD)
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"mode", string(p.Mode)}, {"allow", listed(p.Allow)}, {"deny", listed(p.Deny)}, {"confirm", listed(p.Confirm)},
		{"max_tool_calls", calls}, {"max_task_cost", cost},
		{"answer_sources", listed(p.AnswerSources)}, {"commands", listed(p.Commands)}, {"packages", listed(p.Packages)},
		{"policy_hash", p.Hash()}, {"guidance_hash", policy.GuidanceHash()},
	} {
		fmt.Fprintf(&b, "%-14s  %s\n", line[0], oneLine(line[1]))
	}
	b.WriteString("\n")
	for _, r := range policy.Rules() {
		fmt.Fprintf(&b, "%s.%d  %s\n", r.ID, r.Version, r.Title)
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (a *app) policyHashCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hash [MODE|FILE]",
		Short: "Print the hashes of a policy and of the rules",
		Long: `Hash prints what the plan of a run says of its governance: policy_hash, which is
the same for policies that mean the same, and guidance_hash, of the rules.`,
		Example:           "  gaia policy hash mine.yaml\n  gaia policy hash --json",
		Args:              atMostOne,
		ValidArgsFunction: cobra.FixedCompletions(modes(), cobra.ShellCompDirectiveDefault),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := named(args)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					GuidanceHash string `json:"guidance_hash"`
					PolicyHash   string `json:"policy_hash"`
				}{policy.GuidanceHash(), p.Hash()})
			}
			_, err = fmt.Fprintf(a.stdout, "policy_hash    %s\nguidance_hash  %s\n", p.Hash(), policy.GuidanceHash())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
