package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments of a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("see 'gaia "+called(cmd)+" --help'", "%s takes no argument, not %q", called(cmd), args[0])
	}
	return nil
}

// knownCommand refuses the name of a command that a command does not have.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("see 'gaia "+called(cmd)+" --help'", "%s has no command %q", called(cmd), args[0])
	}
	return nil
}

// called is how a command is called, without the program.
func called(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}
