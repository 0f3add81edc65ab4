package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// app is what the commands have of the world outside.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	getenv  func(string) string
	environ []string
	tty     bool // standard error is a terminal
	asks    bool // and so is standard input: there is somebody to ask
	began   time.Time
	splits  map[[3]string]loadedSplit // that were loaded, by source, split and revision
}

func newApp() *app {
	tty := term.IsTerminal(int(os.Stderr.Fd()))
	return &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ(),
		tty: tty, asks: tty && term.IsTerminal(int(os.Stdin.Fd())), began: time.Now()}
}

// execute runs the command that args name. What goes wrong before a command
// begins is a matter of usage.
func (a *app) execute(args []string) error {
	begun := false
	root := a.root()
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.Execute()
	var f *failure
	if _, rest, unknown := root.Find(args); unknown != nil && len(rest) > 0 {
		return usage(nearCommand(root, rest[0]), "%s", unknown)
	}
	if err != nil && !begun && !errors.As(err, &f) {
		return usage("see 'gaia --help'", "%s", err)
	}
	return err
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gaia",
		Short: "Run GAIA-style benchmarks with evidence that can be checked",
		Long: `gaia runs GAIA-style benchmarks with an LLM agent, records evidence of all the
agent did, scores the answers, audits the run for the known ways of cheating,
and packages it signed, so that a score can be checked by anyone.

Without a key, base URL, model or source, "gaia run" rehearses: built-in tasks,
a built-in scripted model, no network. A rehearsal says so everywhere and is
never a GAIA score.`,
		Example: `  gaia run --submit-intent             rehearse the whole job, offline
  gaia audit runs/01J…                 look for the known ways of cheating
  gaia submit runs/01J…                package it, signed
  gaia verify submission-…             check every byte of the package
  gaia disclose runs/01J… --task 3f2a  show one task, without the others
  gaia export runs/01J… --format csv   write it for another tool
  gaia scorecard runs/01J…             what did it cost to be right?
  gaia ledger rank                     which rules were broken, and at what cost?
  gaia trend runs                      does it get better?
  gaia compare runs/01J… runs/01K…     do two runs differ by more than chance?
  gaia show runs/01J…                  see what happened
  gaia prune runs --older-than 90d     remove old runs, and keep what they count`,
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableSuggestions: true, // which cobra has in the error
	}
	root.AddCommand(a.runCommand(), a.resumeCommand(), a.auditCommand(), a.adjudicateCommand(), a.submitCommand(), a.verifyCommand(), a.discloseCommand(), a.exportCommand(), a.showCommand(), a.compareCommand(), a.witnessCommand(), a.scorecardCommand(), a.ledgerCommand(), a.trendCommand(), a.tasksCommand(), a.policyCommand(), a.keyCommand(), a.judgeCommand(), a.versionCommand(), a.doctorCommand(), a.pruneCommand(), convertCommand(), convertAttemptsCommand())
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(root.UsageTemplate() + "\n" + exit.Help)
	return root
}

// flagError says what is wrong with a flag as the settings file would.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see '" + cmd.CommandPath() + " --help'"
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return usage(hint, "%s", err)
	}
	flag, value := wrong.GetFlag(), text.Trim(wrong.GetValue(), 60)
	if errors.Is(err, strconv.ErrRange) {
		return usage(hint, "--%s is %q, which is too large", flag.Name, value)
	}
	return usage(hint, "--%s is %q, which is not %s", flag.Name, value, settings.Described(flag.Value.Type()))
}

// oneArg wants one argument, called name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("see '"+cmd.CommandPath()+" --help'", "%s takes one argument, %s", called(cmd), name)
		}
		return nil
	}
}
