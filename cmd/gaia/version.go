package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit and digest of this program",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := harness()
			if err != nil {
				return err
			}
			commit := h.Commit
			if commit == "" {
				commit = "unknown"
			}
			if h.Dirty {
				commit += " (modified)"
			}
			_, err = fmt.Fprintf(a.stdout, "gaia %s\ncommit %s\nexecutable %s\n", h.Version, commit, h.ExecutableSHA256)
			return err
		},
	}
}
