package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shortVerbs are the first words of the short texts of commands.
var shortVerbs = strings.Fields("Begin Build Check Compare Continue Copy Count Create Do Evaluate Explain Export Fetch Give Go Import Judge Let List Look Make Plan Print Query " +
	"Rank Remove Run Show Sign Solve Test Trust Try Verify Write")

// TestHelp: the help of every command fits 80 columns and has examples, its short text begins with a verb and has no full
// stop, and where it has many flags each is in a section.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		seen++
		var out strings.Builder
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		help := out.String()
		for line := range strings.Lines(help) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 || strings.HasSuffix(line, " ") || strings.Contains(line, "\t") {
				t.Errorf("%s: %d columns, a tab or a space at the end: %q", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		isTopic := !cmd.Runnable() && !cmd.HasSubCommands()
		if !isTopic && (!strings.Contains(help, "\nExamples:\n  ") || !strings.HasSuffix(help, "For more: gaia help exit-codes\n")) {
			t.Errorf("%s: its help has no example, or does not point to the exit codes:\n%s", cmd.CommandPath(), help)
		}
		if verb, _, _ := strings.Cut(cmd.Short, " "); !slices.Contains(shortVerbs, verb) || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short text begins with no verb, or ends with a full stop: %q", cmd.CommandPath(), cmd.Short)
		}
		var flags, without []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			if flags = append(flags, f.Name); cli.SectionOf(f) == "" {
				without = append(without, f.Name)
			}
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") || !strings.Contains(help, "--"+f.Name) {
				t.Errorf("%s --%s: its text is empty, ends with a full stop, or is not in the help: %q", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
		if len(flags) > 12 && len(without) > 0 {
			t.Errorf("%s has %d flags, and %q are in no section", cmd.CommandPath(), len(flags), without)
		}
		for _, below := range cmd.Commands() {
			if cmd == root && below.GroupID == "" && !below.Hidden && below.Name() != "help" {
				t.Errorf("%s is in no group", below.CommandPath())
			}
			walk(below)
		}
	}
	walk(root)
	if seen < 70 {
		t.Errorf("only %d commands were seen", seen)
	}
}
