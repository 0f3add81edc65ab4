package main

import "github.com/spf13/cobra"

func (a *app) judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Try an LLM judge, and look at what it said",
		Long: `The LLM judge is asked about answers that the official scorer calls wrong. Its
verdicts are kept, signed, so that no run asks the same twice, and count only if it
calls answers incorrect that say nothing.`,
		Example: `  gaia judge check --judge-model gpt-4o-mini
  gaia judge run runs/01J… --judge-model gpt-4o-mini
  gaia judge cache verify`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.judgeCheckCommand(), a.judgeRunCommand(), a.judgeCacheCommand())
	return cmd
}
