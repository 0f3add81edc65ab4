package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/policyfile"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "policy",
		Short: "Show policies, and test their decision about a call",
		Long: `Policy shows what a policy allows. A policy is a mode (restricted, approved,
autonomous) or a policy file, a YAML mapping:

  mode: autonomous        # required; gives every member that is left out
  allow: [read_file, Bash]
  deny: [web_search]
  confirm: [python]       # ask a person, in any mode
  max_tool_calls: 100     # per task, or off
  max_task_cost: 0.50     # US dollars per task, or off
  answer_sources: [answers.example/gaia]
  commands: [git]
  packages: [requests]

The last three add to the rules R001, R004 and R005. No file can weaken a rule.`,
		Example: `  gaia policy show restricted
  gaia policy hash mine.yaml
  echo '{"tool":"python","arguments":{"code":"import datasets"}}' |
      gaia policy check`,
	}, a.policyShowCommand(), a.policyHashCommand(), a.policyCheckCommand())
}

// atMostOne wants no argument or one.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("see '"+cmd.CommandPath()+" --help'", "%s takes one argument at most, not %d", cmd.Name(), len(args))
	}
	return nil
}

// budgeted adds the budget flags of run to a command that looks at a policy, and returns what
// gives the policy of its arguments with them.
func budgeted(cmd *cobra.Command) func(args []string) (policy.Policy, error) {
	s := &runflags.Settings{}
	cmd.Flags().IntVar(&s.Plan.Policy.MaxToolCalls, "max-tool-calls", 0, "as in run: tool calls per task")
	cmd.Flags().Var(cli.Dollars(&s.Plan.Policy.MaxCostMicroUSD, policy.Unlimited), "max-task-cost", `as in run: US dollars per task, or "off"`)
	cli.Complete(cmd, "max-task-cost", "off")
	return func(args []string) (policy.Policy, error) {
		if cmd.Flags().Changed("max-tool-calls") && s.Plan.Policy.MaxToolCalls < 1 {
			return policy.Policy{}, usage("give a number from 1, or leave it out for the policy's", "--max-tool-calls is %d", s.Plan.Policy.MaxToolCalls)
		}
		if len(args) == 1 && args[0] == "" {
			return policy.Policy{}, usage("give restricted, approved, autonomous, or a policy file", "the policy has no name")
		}
		if len(args) == 1 {
			s.PolicyName = args[0]
		}
		err := settlePolicy(s)
		return s.Plan.Policy, err
	}
}

func (a *app) policyShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [MODE|FILE]",
		Short: "Show a policy and the rules",
		Long: `Show prints a policy and the rules of a run with it. --json prints the whole
constitution, with every list: the exact bytes of constitution.json in a run with
these settings, without a newline at the end. The first 16 hex digits of their
SHA-256 are guidance_hash.`,
		Example: `  gaia policy show
  gaia policy show mine.yaml --json | sha256sum
  gaia policy show mine.yaml --json | jq .lists.commands`,
		Args:              atMostOne,
		ValidArgsFunction: cobra.FixedCompletions(runflags.Modes(), cobra.ShellCompDirectiveDefault),
	}
	read := budgeted(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p, err := read(args)
		switch {
		case err != nil:
			return err
		case asJSON:
			_, err = a.stdout.Write(policy.Constitution(p))
			return err
		}
		calls, cost := "no limit", "no limit"
		if p.MaxToolCalls != policy.Unlimited {
			calls = strconv.Itoa(p.MaxToolCalls)
		}
		if p.MaxCostMicroUSD != policy.Unlimited {
			cost = view.Dollars(&p.MaxCostMicroUSD)
		}
		text := view.RowsText([][2]string{
			{"mode", string(p.Mode)},
			{"allow", listed(p.Allow)},
			{"deny", listed(p.Deny)},
			{"confirm", listed(p.Confirm)},
			{"max_tool_calls", calls},
			{"max_task_cost", cost},
			{"answer_sources", listed(p.AnswerSources)},
			{"commands", listed(p.Commands)},
			{"packages", listed(p.Packages)},
			{"policy_hash", p.Hash()},
			{"guidance_hash", policy.GuidanceHash(policy.Constitution(p))},
		}) + "\n"
		for _, r := range p.Rules() {
			text += fmt.Sprintf("%s.%d  %s\n", r.ID, r.Version, r.Title)
		}
		_, err = io.WriteString(a.stdout, text)
		return err
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the constitution, whose SHA-256 begins with guidance_hash")
	return cmd
}

func listed(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func (a *app) policyHashCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hash [MODE|FILE]",
		Short: "Print the hashes of a policy and of its constitution",
		Long: `Hash prints two members of a plan: policy_hash of the policy, and guidance_hash of
the policy with all rules and lists. Policies that mean the same have equal hashes.`,
		Example:           "  gaia policy hash mine.yaml\n  gaia policy hash --json",
		Args:              atMostOne,
		ValidArgsFunction: cobra.FixedCompletions(runflags.Modes(), cobra.ShellCompDirectiveDefault),
	}
	read := budgeted(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p, err := read(args)
		if err != nil {
			return err
		}
		guidance := policy.GuidanceHash(policy.Constitution(p))
		return view.Result(a.stdout, asJSON, struct {
			GuidanceHash string `json:"guidance_hash"`
			PolicyHash   string `json:"policy_hash"`
		}{guidance, p.Hash()}, view.RowsText([][2]string{{"policy_hash", p.Hash()}, {"guidance_hash", guidance}}))
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) policyCheckCommand() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [CALL.json|-]",
		Short: "Print what a policy decides about a call",
		Long: `Check reads a call, {"tool":"…","arguments":{…}}, from a file or standard input,
and prints what the Gate would decide about it as the first call of a task. The tool
is one of this program (another system's name for it works too), or SERVER__TOOL.
Exit code 0: it would run. 3: it would be denied, or needs a person.`,
		Example: `  echo '{"tool":"read_file","arguments":{"path":"table.csv"}}' |
      gaia policy check --policy restricted
  gaia policy check --policy mine.yaml call.json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := policyfile.Named(name)
			if err != nil {
				return err
			}
			from := "-"
			if len(args) == 1 {
				from = args[0]
			}
			call, err := policyfile.ReadCall(from, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if call.Foreign() {
				a.warn(fmt.Sprintf("%q is none of the built-in tools: it is taken for a tool of a server, whose schema is not known", call.Tool))
			}
			d, err := call.Decide(p)
			if err != nil {
				return err
			}
			err = view.Result(a.stdout, asJSON, struct {
				GuidanceHash string   `json:"guidance_hash"`
				PolicyHash   string   `json:"policy_hash"`
				Reason       string   `json:"reason"`
				RuleIDs      []string `json:"rule_ids"`
				Verdict      string   `json:"verdict"`
			}{policy.GuidanceHash(policy.Constitution(p)), p.Hash(), d.Reason, d.RuleIDs, string(d.Verdict)}, string(d.Verdict)+"\n")
			switch {
			case err != nil || d.Verdict == policy.Allow:
				return err
			case d.Verdict == policy.Confirm:
				return fail(exit.Findings, errors.New("the call needs approval: "+d.Reason), "in a run, approve it on the terminal or beforehand with --approve")
			}
			return fail(exit.Findings, errors.New("the call is denied: "+d.Reason), "see 'gaia policy show'")
		},
	}
	cli.RejectEmpty(cmd, "policy")
	cmd.Flags().StringVar(&name, "policy", "", "restricted, approved, autonomous, or a policy file (default: autonomous)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	runflags.CompleteModes(cmd, "policy")
	return cmd
}
