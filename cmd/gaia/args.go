package main

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/settings"
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
		return usage(nearCommand(cmd, args[0]), "%s has no command %q", called(cmd), args[0])
	}
	return nil
}

// nearCommand is a hint where a command has none of a name.
func nearCommand(cmd *cobra.Command, name string) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := settings.Nearest(name, names); near != "" {
		return "did you mean " + strings.TrimSpace(called(cmd)+" "+near) + "?"
	}
	return "see '" + cmd.CommandPath() + " --help'"
}

// called is how a command is called, without the program.
func called(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}
