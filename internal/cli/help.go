package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The sections of the flags in a help.
const (
	TaskFlags     = "Tasks"
	ModelFlags    = "Model"
	JudgeFlags    = "Judge"
	LimitFlags    = "Limits"
	AgentFlags    = "Agent and tools"
	EvidenceFlags = "Evidence and signing"
	MachineFlags  = "Machines"
	OutputFlags   = "Settings and output"
)

// sections are in the order of a help.
var sections = []string{TaskFlags, ModelFlags, JudgeFlags, LimitFlags, AgentFlags, EvidenceFlags, MachineFlags, OutputFlags}

const (
	// sectionKey annotates a flag with its section.
	sectionKey = "gaia_section"
	// maxFlat is the largest number of flags that a help lists without sections.
	maxFlat = 12
	// helpWidth is the number of columns that a help has.
	helpWidth = 80
)

// Section puts the flags that have none yet into a section of the help.
func Section(f *pflag.FlagSet, name string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[sectionKey] != nil {
			return
		}
		if err := f.SetAnnotation(flag.Name, sectionKey, []string{name}); err != nil {
			panic(err) // there is no such flag
		}
	})
}

// SectionOf returns the section of a flag; "" if it has none.
func SectionOf(flag *pflag.Flag) string { return strings.Join(flag.Annotations[sectionKey], "") }

// AddCommands adds commands to a group of the root's help.
func AddCommands(root *cobra.Command, title string, commands ...*cobra.Command) {
	keepOrder()
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// keepOrder has commands listed in the order in which they are added.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// AddHelp gives root and all commands below it their help, the commands "help" and "completion", which are listed in a group,
// and errors for flags.
func AddHelp(root *cobra.Command, group string) {
	root.SetUsageFunc(writeUsage)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		usage := ""
		if cmd.Runnable() || cmd.HasAvailableSubCommands() {
			usage = "\n" + cmd.UsageString()
		}
		cmd.Printf("%s\n%s", reflow(cmp.Or(cmd.Long, cmd.Short)), usage)
	})
	root.SetFlagErrorFunc(FlagError)
	help := &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Explain a command, or the exit codes",
		Example: "  gaia help run\n  gaia help ledger rank\n  gaia help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return KnownCommand(about, rest)
			}
			return about.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if about, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, below := range about.Commands() {
					if below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
						names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	root.SetHelpCommandGroupID(group)
	root.SetCompletionCommandGroupID(group)
	root.SetHelpCommand(help)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.AddCommand(&cobra.Command{Use: "exit-codes", GroupID: group, Short: "Explain the exit codes", Long: exitCodes()})
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			describeCompletion(cmd)
		}
	}
}

// exitCodes describes the exit codes.
func exitCodes() string {
	var b strings.Builder
	for _, c := range exit.Codes {
		fmt.Fprintf(&b, "%d: %s\n", c.Code, c.Name)
		for _, cause := range append(slices.Clone(c.Causes), "In a script: "+c.Script) {
			b.WriteString("  - " + wrap(strings.ReplaceAll(cause, "`", "'"), 4) + "\n")
		}
		b.WriteString("\n")
	}
	return b.String() + "Where several codes apply, the first of 130, 2, 4, 6, 5, 3 and 1 is the program's."
}

// describeCompletion replaces the texts that cobra has for the scripts of shells.
func describeCompletion(cmd *cobra.Command) {
	cmd.Short = "Write a script that completes commands in a shell"
	cmd.Long = `Completion writes a script for a shell. With it, Tab completes commands, flags, the
values of flags, runs, tasks, checks and rules.`
	cmd.Example = "  source <(gaia completion bash)"
	install := map[string]string{
		"bash":       "gaia completion bash > /etc/bash_completion.d/gaia",
		"zsh":        `gaia completion zsh > "${fpath[1]}/_gaia"`,
		"fish":       "gaia completion fish > ~/.config/fish/completions/gaia.fish",
		"powershell": "gaia completion powershell | Out-String | Invoke-Expression",
	}
	for _, shell := range cmd.Commands() {
		shell.Short = "Write the script for " + shell.Name()
		shell.Long = "This writes the script for " + shell.Name() + ". The example installs it; open a new shell after that."
		shell.Example = "  " + install[shell.Name()]
		shell.Flags().Lookup("no-descriptions").Usage = "complete without descriptions"
	}
}

// wrap breaks a line between words, and indents all but the first.
func wrap(line string, indent int) string {
	lines := strings.Split(text.WrapSoft(line, helpWidth-indent), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ") // which WrapSoft fills lines with
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// reflow joins the lines of a paragraph and breaks them again. Lines that begin with a space stay as they are.
func reflow(s string) string {
	var paragraphs []string
	for p := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		var lines []string
		joins := false
		for line := range strings.SplitSeq(p, "\n") {
			if fixed := strings.HasPrefix(line, " "); joins && !fixed {
				lines[len(lines)-1] += " " + line
			} else {
				lines = append(lines, line)
				joins = !fixed
			}
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, " ") {
				lines[i] = wrap(line, 0)
			}
		}
		paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

// writeUsage writes how a command is used, in 80 columns: its form, examples, the commands below it, its flags, and where the exit
// codes are explained.
func writeUsage(cmd *cobra.Command) error {
	var b strings.Builder
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", use)
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		groups := cmd.Groups()
		if len(groups) == 0 {
			groups = []*cobra.Group{{Title: "Commands:"}}
		}
		width := 0
		for _, below := range cmd.Commands() {
			if !below.Hidden {
				width = max(width, len(below.Name()))
			}
		}
		for _, group := range groups {
			fmt.Fprintf(&b, "\n%s\n", group.Title)
			for _, below := range cmd.Commands() {
				if below.GroupID == group.ID && (below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand()) {
					fmt.Fprintf(&b, "  %-*s  %s\n", width, below.Name(), below.Short)
				}
			}
		}
	}
	b.WriteString(flagUsages(cmd.Flags()))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	b.WriteString("\n" + exit.Short)
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// flagUsages lists the flags, in sections where there are many.
func flagUsages(flags *pflag.FlagSet) string {
	by := map[string]*pflag.FlagSet{}
	count := 0
	flags.SortFlags = false // sections are in the order of the definitions
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		section := SectionOf(flag)
		if flag.Name == "help" {
			section, flag.Usage = OutputFlags, "print this help"
		} else {
			count++
		}
		if flag.DefValue == "0s" {
			flag.DefValue = "" // which the usage explains
		}
		if by[section] == nil {
			by[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
			by[section].SortFlags = false
		}
		by[section].AddFlag(flag)
	})
	if count <= maxFlat {
		flags.SortFlags = true
		return "\nFlags:\n" + flags.FlagUsagesWrapped(helpWidth)
	}
	var b strings.Builder
	for _, section := range append([]string{""}, sections...) {
		if by[section] != nil {
			fmt.Fprintf(&b, "\n%s:\n%s", cmp.Or(section, "Flags"), by[section].FlagUsagesWrapped(helpWidth))
		}
	}
	return b.String()
}
