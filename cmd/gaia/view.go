package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/runlist"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

// takesRuns says which arguments of each command name runs: the first so many; -1: all.
var takesRuns = map[string]int{
	"adjudicate": 1, "audit": 1, "compare": -1, "disclose": 1, "export": 1, "judge run": 1, "prune bodies": -1, "prune runs": -1, "resume": 1, "runs": -1,
	"scorecard": -1, "show": 1, "submit": 1, "trend": -1, "verify": -1, "witness export": 1,
}

// flagsTakeRuns are the flags that name runs, by name, whatever their command.
var flagsTakeRuns = []string{"like", "runs"}

// named makes a command accept "latest" and the start of a run id wherever it takes a run, and completes them.
func (a *app) named(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		a.named(below)
	}
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	n, takes := takesRuns[path]
	var flags []string
	for _, name := range flagsTakeRuns {
		if cmd.Flags().Lookup(name) != nil {
			flags = append(flags, name)
			cli.CompleteRuns(cmd, name, func() []string { return runlist.Names(runFolders(cmd)) })
		}
	}
	if !takes && flags == nil {
		return
	}
	if takes && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if n >= 0 && len(args) >= n {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return runlist.Names(runFolders(cmd)), cobra.ShellCompDirectiveDefault
		}
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args = slices.Clone(args)
		for i := range args {
			if takes && (n < 0 || i < n) {
				if err := findRun(cmd, &args[i]); err != nil {
					return err
				}
			}
		}
		for _, name := range flags {
			if err := cli.EachValue(cmd, name, func(value *string) error { return findRun(cmd, value) }); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

// findRun replaces the name of a run by the path of its directory.
func findRun(cmd *cobra.Command, name *string) (err error) {
	*name, err = runlist.Find(*name, runFolders(cmd))
	return err
}

// runFolders are where names of runs are looked up: in runs, and in what --out names where it is for runs.
func runFolders(cmd *cobra.Command) []string {
	folders := []string{runlist.DefaultFolder}
	if f := cmd.Flags().Lookup("out"); f != nil && f.DefValue == runlist.DefaultFolder && f.Value.String() != "" {
		folders = append(folders, f.Value.String())
	}
	return folders
}

func (a *app) runsCommand() *cobra.Command {
	var o runlist.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs [FOLDER…]",
		Short: "List the runs that there are, the newest first",
		Long: `Runs lists the runs in folders (default: runs), and those in a folder runs in them:
when each began (UTC), its result, cost and model. A package is listed if it or its
folder is named.

The result of a complete run is its official score. Others are running (a process
writes it), interrupted ('gaia resume' continues it) or stopped before their end, with
the tasks done so far; or damaged, with the reason below the table.

A finished run is verified before its score is printed. The signed record of that is
kept in $XDG_DATA_HOME/gaia/history (else ~/.local/share), and is used while no file of
the run has changed; --verify verifies all again. Exit code 4: a run is damaged. 6: you
do not trust a run's signer.

Wherever a command takes a run, "latest" means the one that began last, and the start
of an id, at least four characters, is enough. A path that exists always wins.`,
		Example: `  gaia runs
  gaia runs --limit 10 ../other
  gaia runs --json | jq -r '.runs[] | select(.state == "interrupted").dir'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Limit < 0 {
				return usage("0 lists all", "--limit is %d, which is below 0", o.Limit)
			}
			return a.runs(args, o, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Limit, "limit", 0, "list only the newest N; 0: all")
	f.BoolVar(&o.Verify, "verify", false, "verify all finished runs again")
	f.BoolVar(&asJSON, "json", false, "print the list as JSON")
	cli.Complete(cmd, "limit")
	return cmd
}

func (a *app) runs(folders []string, o runlist.Options, asJSON bool) (err error) {
	if o.Reader, err = a.runReader(); err != nil {
		return err
	}
	entries, left, err := runlist.List(folders, o)
	if err != nil {
		return err
	}
	text := ""
	if len(entries) > 0 {
		text = runlist.Text(entries, left)
	} else {
		in := cmp.Or(strings.Join(folders, " and "), runlist.DefaultFolder)
		fmt.Fprintf(a.stderr, "gaia: there is no run in %s; 'gaia run' makes one\n", view.Line(view.Quote(in)))
	}
	err = view.Result(a.stdout, asJSON, struct {
		LeftOut int             `json:"left_out"` // older runs, by --limit
		Runs    []runlist.Entry `json:"runs"`
	}{left, entries}, text)
	return cmp.Or(err, runlist.Problems(entries, o.Reader.Trust))
}
