package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/spf13/cobra"
)

// TestEveryCommandTakesNames: each command with arguments either takes runs, and then by "latest" and by abbreviated ids, or is
// listed here with what it takes instead. So is each flag.
func TestEveryCommandTakesNames(t *testing.T) {
	others := map[string]string{
		"agent doctor": "folder of an agent", "agent init": "recipe", "agent try": "folder of an agent", "board": "packages", "help": "commands", "key trust": "key file", "merge": "folders of shards",
		"ledger import": "files", "ledger show": "id of an event", "policy check": "file", "policy hash": "policy", "policy show": "policy",
		"prune cassettes": "cassettes", "prune packages": "packages", "tasks show": "task ids", "witness replay": "bundle", "witness show": "bundle", "witness verify": "bundles",
	}
	t.Chdir(t.TempDir())
	a := &app{}
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			walk(below)
		}
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		_, args, _ := strings.Cut(cmd.Use, " ")
		for _, name := range []string{"like", "runs"} {
			if f := cmd.Flags().Lookup(name); f != nil {
				if _, completes := cmd.GetFlagCompletionFunc(name); !completes {
					t.Errorf("%s --%s is completed by no run", path, name)
				}
			}
		}
		argument, _, _ := strings.Cut(args, " --")
		if argument == "" || strings.HasPrefix(args, "--") || cmd.Hidden || !cmd.Runnable() {
			return
		}
		_, takes := takesRuns[path]
		if seen[path] = true; takes == (others[path] != "") {
			t.Errorf("%s %s: its arguments have to be in takesRuns, or listed in this test", path, args)
		}
		if !takes {
			return
		}
		if err := cmd.RunE(cmd, []string{"latest", "latest"}); exit.Of(err).Code != exit.Usage || err.Error() != "there is no run in runs" {
			t.Errorf("%s latest: %v", path, err)
		}
		if cmd.ValidArgsFunction == nil {
			t.Errorf("%s completes no run", path)
		}
	}
	walk(a.root())
	for path := range takesRuns {
		if !seen[path] {
			t.Errorf("there is no command %s with arguments", path)
		}
	}
	if !slices.Contains(flagsTakeRuns, "like") || len(seen) < 25 {
		t.Errorf("%d commands with arguments", len(seen))
	}
}
