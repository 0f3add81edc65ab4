package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -count=1 -run ^TestReference$ . -update

const generatedNote = "<!-- Written by 'make generate' from the program. Change the program, not this page. -->\n"

// TestReference: the reference pages are what the program makes of its flags, settings and exit codes.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{"reference-flags.md": flagsPage(), "reference-settings.md": settingsPage(t), "exit-codes.md": exitCodesPage()} {
		path := filepath.Join(root(t), "docs", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			lines, now := strings.Split(string(got), "\n"), strings.Split(want, "\n")
			at := 0
			for at < min(len(lines), len(now))-1 && lines[at] == now[at] {
				at++
			}
			t.Errorf("docs/%s:%d: it is not what the program makes now: make generate (%v)\nhave %s\nwant %s", name, at+1, err, lines[at], now[at])
		}
	}
}

// TestVariablesAreDocumented: each variable of the environment that the program reads or sets has a row in
// docs/reference-settings.md, or in docs/agents.md if it is for an own agent.
func TestVariablesAreDocumented(t *testing.T) {
	docs := readFile(t, "docs/reference-settings.md") + readFile(t, "docs/agents.md")
	found := 0
	for _, p := range packages(t) {
		if strings.HasPrefix(p.name(), "internal/testkit") || p.name() == "internal/plan" { // the latter names those that only agents see
			continue
		}
		for _, name := range p.GoFiles {
			source := readFile(t, filepath.Join(p.name(), name))
			for _, m := range regexp.MustCompile(`"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"`).FindAllStringSubmatch(source, -1) {
				if found++; !strings.Contains(docs, "`"+m[1]+"`") {
					t.Errorf("no row in docs/reference-settings.md for %s of %s/%s", m[1], p.name(), name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d variables were found", found)
	}
}

// flagsPage returns docs/reference-flags.md. Commands and flags are in the groups of the help.
func flagsPage() string {
	var list, pages strings.Builder
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		fmt.Fprintf(&list, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), cmd.Short)
		fmt.Fprintf(&pages, "\n## %s\n\n%s:\n%s\n", path, cmd.Short, code(strings.TrimSuffix(cmd.UseLine(), " [flags]")))
		pages.WriteString(flagTables(cmd.Flags(), "--", func(f *pflag.Flag) bool { return !f.Hidden }, func(f *pflag.Flag) []string {
			if path == "gaia key init" { // whose --key is a file to create
				return nil
			}
			return settings.Environment(f.Name)
		}))
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() && cmd.Name() != "completion" {
				walk(below)
			}
		}
	}
	root := (&app{}).root()
	for _, group := range root.Groups() {
		fmt.Fprintf(&list, "\n**%s**\n\n| command | what it does |\n|---|---|\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && cmd.IsAvailableCommand() {
				walk(cmd)
			}
		}
	}
	return generatedNote + `
# Commands and flags

Each command with its flags. ` + "`--help`" + ` after a command prints the same, with examples.
A flag that is not given has the value of its variable of the environment, then of ` + "`gaia.yaml`" + ` ([reference-settings.md](reference-settings.md)), then its default.
` + list.String() + pages.String()
}

// helpOrder has the groups of flags in the order of a help.
var helpOrder = []string{"", cli.TaskFlags, cli.ModelFlags, cli.JudgeFlags, cli.LimitFlags, cli.AgentFlags, cli.EvidenceFlags, cli.MachineFlags, cli.OutputFlags}

// flagTables returns the tables of the flags that keep reports, one for each group of the help where there are many. dashes
// stand before a name.
func flagTables(flags *pflag.FlagSet, dashes string, keep func(*pflag.Flag) bool, variables func(*pflag.Flag) []string) string {
	rows := map[string]string{}
	var sections []string
	count := 0
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || !keep(f) {
			return
		}
		name := code(dashes + f.Name)
		if f.Shorthand != "" && dashes != "" {
			name = code("-"+f.Shorthand) + ", " + name
		}
		_, usage := pflag.UnquoteUsage(f)
		text, byDefault := cutDefault(usage)
		if byDefault == "" && !slices.Contains([]string{"", "[]", "0", "0s", "false"}, f.DefValue) {
			byDefault = code(f.DefValue)
		}
		var names []string
		for _, v := range variables(f) {
			names = append(names, code(v))
		}
		section := cli.SectionOf(f)
		if count++; rows[section] == "" {
			sections = append(sections, section)
		}
		rows[section] += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, valueOf(f.Value.Type()), cell(byDefault), strings.Join(names, ", "), cell(text))
	})
	heading := "\n| " + map[bool]string{true: "setting", false: "flag"}[dashes == ""] + " | value | default | environment | what |\n|---|---|---|---|---|\n"
	slices.SortStableFunc(sections, func(a, b string) int { return slices.Index(helpOrder, a) - slices.Index(helpOrder, b) })
	var tables strings.Builder
	for i, section := range sections {
		if section != "" && count > 12 {
			fmt.Fprintf(&tables, "\n**%s**\n%s", section, heading)
		} else if i == 0 {
			tables.WriteString(heading)
		}
		tables.WriteString(rows[section])
	}
	return tables.String()
}

func code(s string) string { return "`" + s + "`" }

// cell returns a text that can stand in a table.
func cell(s string) string {
	return regexp.MustCompile(`[|<>]`).ReplaceAllStringFunc(s, func(c string) string { return `\` + c })
}

// cutDefault returns the help text of a flag without its default, and the default.
func cutDefault(usage string) (text, byDefault string) {
	const begin = "(default: "
	at := strings.Index(usage, begin)
	if at < 0 {
		return usage, ""
	}
	depth, rest := 1, usage[at+len(begin):]
	end := strings.IndexFunc(rest, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth == 0
	})
	return strings.TrimSpace(strings.TrimSpace(usage[:at]) + rest[end+1:]), rest[:end]
}

// valueOf describes how the value of a flag is written.
func valueOf(kind string) string {
	if kind == settings.AutoOrNumber || !strings.Contains(kind, "|") {
		return strings.TrimPrefix(settings.Described(kind), "a ")
	}
	var choices []string
	for choice := range strings.SplitSeq(kind, "|") {
		choices = append(choices, code(choice))
	}
	return strings.Join(choices, ", ")
}

// settingsPage returns docs/reference-settings.md.
func settingsPage(t *testing.T) string {
	flags := runFlags(t)
	variables := func(f *pflag.Flag) []string { return settings.Environment(f.Name) }
	isSetting := func(f *pflag.Flag) bool { return !slices.Contains(settings.NotFlags(), f.Name) && !f.Hidden }
	var onlyFlags []string
	for _, name := range settings.NotFlags() {
		if flags.Lookup(name) != nil {
			onlyFlags = append(onlyFlags, code("--"+name))
		}
	}
	return generatedNote + `
# Settings

` + "`gaia.yaml`" + ` in the working directory, or the file of ` + "`--settings`" + `, has the flags of ` + "`gaia run`" + ` by name, one per line.
[running.md](running.md#where-settings-come-from) says which value counts and what the file refuses.

## Flags

The setting ` + "`model: gpt-4o`" + ` is the flag ` + "`--model gpt-4o`" + `. A list is ` + "`[1, 2]`" + `, or one value per line.
The environment is stronger than the file, and the command line is stronger than both.
` + flagTables(flags, "", isSetting, variables) + `
These are for the command line only: ` + strings.Join(onlyFlags, ", ") + `.

## mcp

A list of at most 16 MCP servers ([howto](running.md#mcp-servers)). Each has these members:

` + memberTable(settings.Server{}) + `
## agent

Your own agent, for ` + "`--agent`" + ` ([agents.md](agents.md)):

` + memberTable(settings.Agent{}) + `
## evaluators

A mapping from names to commands that ` + "`gaia ledger evaluate`" + ` runs ([ledger.md](ledger.md)). Each has these members:

` + memberTable(settings.Evaluator{}) + environmentSection
}

// memberTable returns the members of a settings block, whose rows are in doc tags.
func memberTable(block any) string {
	var rows strings.Builder
	rows.WriteString("| member | value | default | what |\n|---|---|---|---|\n")
	for _, field := range reflect.VisibleFields(reflect.TypeOf(block)) {
		name := field.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		byDefault, text, _ := strings.Cut(field.Tag.Get("doc"), "; ")
		kind := map[string]string{"string": "text", "int": "whole number", "*bool": "true or false", "[]string": "list of texts", "map[string]string": "mapping of texts"}[field.Type.String()]
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, kind, cell(byDefault), cell(text))
	}
	return rows.String()
}

// environmentSection names the variables that are no flag.
const environmentSection = `
## Environment

Variables that are not the value of a flag. Keys are in the environment only, never in the file.

| variable | what |
|---|---|
| ` + "`OPENAI_API_KEY`" + ` | key for the endpoint of the models, sent as ` + "`Authorization: Bearer`" + `. An endpoint on this machine needs none |
| ` + "`ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`" + ` | key and endpoint for an own agent that asks the messages interface |
| ` + "`TAVILY_API_KEY`, `BRAVE_API_KEY`, `BRAVE_SEARCH_API_KEY`, `SERPER_API_KEY`" + ` | keys of search engines, in the order in which one is chosen |
| ` + "`HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_DISABLE_IMPLICIT_TOKEN`" + ` | token for the hub, or its file; the last one switches it off |
| ` + "`HF_ENDPOINT`, `HF_HOME`, `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`" + ` | another hub; where its cache is |
| ` + "`HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`" + ` | use the cache only |
| ` + "`SLURM_ARRAY_TASK_ID`, `SLURM_ARRAY_TASK_MIN`, `SLURM_ARRAY_TASK_MAX`, `SLURM_ARRAY_TASK_COUNT`, `JOB_COMPLETION_INDEX`" + ` | which shard of a plan runs, without ` + "`--shard`" + ` |
| ` + "`XDG_CONFIG_HOME`, `XDG_CACHE_HOME`, `XDG_DATA_HOME`, `XDG_RUNTIME_DIR`" + ` | where keys, the judge cache, the history and the viewer's socket are, in their folder ` + "`gaia`" + `; without them below ` + "`HOME`" + ` |
| ` + "`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`" + ` | proxy for the hub. Models, search engines, web pages and MCP servers are reached directly, without a proxy |
| ` + "`NO_COLOR`" + ` | if it is not empty, a terminal is written to without colours; so is one with ` + "`TERM=dumb`" + ` |
| ` + "`TMPDIR`" + ` | where workspaces of attempts are |
`

// exitCodesPage returns docs/exit-codes.md.
func exitCodesPage() string {
	var page strings.Builder
	page.WriteString(generatedNote + "\n# Exit codes\n\n`gaia help exit-codes` explains them. Where several apply, the first of these is the exit code: ")
	codes := slices.Clone(exit.Codes)
	slices.SortFunc(codes, func(a, b exit.Code) int { return exit.Compare(a.Code, b.Code) })
	var order []string
	for _, c := range codes {
		order = append(order, fmt.Sprint(c.Code))
	}
	page.WriteString(strings.Join(order, ", ") + ".\nThe line `gaia: also:` names the others.\n")
	for _, c := range exit.Codes {
		fmt.Fprintf(&page, "\n## %d: %s\n\n", c.Code, c.Name)
		for _, cause := range c.Causes {
			page.WriteString("- " + cause + "\n")
		}
		page.WriteString("\n**In a script:** " + c.Script + "\n")
	}
	return page.String()
}
