package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/gaia-harness/gaia/tools"
)

const convertName = "convert-document"

// convertCommand is what a run starts to read one document in a process of its
// own. It takes no arguments and is for no one else.
func convertCommand() *cobra.Command {
	return &cobra.Command{
		Use:    convertName,
		Short:  "Read a document for a run (internal)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.Join(tools.Convert(os.Stdin, os.Stdout), os.Stdout.Close())
		},
	}
}
