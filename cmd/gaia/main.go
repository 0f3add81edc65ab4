// Command gaia runs GAIA-style benchmarks with an LLM agent, records evidence of everything the agent did, scores the answers
// and signs the result.
//
// The result of a command goes to standard output, everything else to standard error. A failure is one line "gaia: error: …"
// and, where there is something to do, lines "gaia: hint: …": lower case, no full stop. Package exit lists the exit codes. Only
// this package reads the environment.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/heap"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// leastMemory is the smallest address space, in bytes, that a run works in. Below it the Go
// runtime ends the program in the middle, with the exit code of bad usage.
const leastMemory = 2 << 30

func main() {
	if len(os.Args) > 1 && os.Args[1] == shim.Command { // in the sandbox, where it has little memory
		os.Exit(shim.Main(os.Args[2:], os.Environ()))
	}
	a := newApp()
	if a.getenv("GOGC") == "" && a.getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(heap.Percent)
	} else {
		heap.Ballast = nil
	}
	if err := checkMemory(); err != nil {
		os.Exit(a.exit(err))
	}
	os.Exit(a.exit(a.execute(os.Args[1:])))
}

// checkMemory refuses a limit of the address space that is too low.
func checkMemory() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err != nil || limit.Cur >= leastMemory {
		return nil // without a known limit there is nothing to refuse
	}
	return fail(exit.Failure, fmt.Errorf("the address space is limited to %d MiB, and gaia needs %d MiB", limit.Cur>>20, leastMemory>>20),
		"raise the limit of this shell: ulimit -v unlimited")
}

// app is the environment of the commands.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	getenv  func(string) string
	environ []string
	tty     bool // standard error is a terminal
	asks    bool // and so is standard input: there is a person to ask
	began   time.Time
	splits  equip.Splits
}

func newApp() *app {
	tty := term.IsTerminal(int(os.Stderr.Fd()))
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ(),
		tty: tty, asks: tty && term.IsTerminal(int(os.Stdin.Fd())), began: time.Now()}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		a.stdout = &view.Screen{File: os.Stdout, Colour: a.colours()}
	}
	return a
}

// colours reports whether a terminal may be written to in colours.
func (a *app) colours() bool { return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" }

// exceptions are what the guard against private addresses lets through. Only tests have any.
var exceptions map[string]string

// user is the environment for what runs need.
func (a *app) user() *equip.User {
	return &equip.User{Getenv: a.getenv, Environ: a.environ, Stderr: a.stderr, Began: a.began, Splits: &a.splits, Exceptions: exceptions,
		Builtin: equip.Builtin{Dataset: fixtures.Dataset, Prices: fixtures.Prices, Name: fixtures.Name, Revision: fixtures.Revision,
			Model: fixtures.Model, JudgeModel: fixtures.JudgeModel, TranscriptionModel: fixtures.TranscriptionModel,
			SearchURL: fixtures.SearchURL, ArchiveURL: fixtures.ArchiveURL, Serve: func() (equip.Served, error) {
				s, err := fixtures.Serve()
				if err != nil {
					return equip.Served{}, err
				}
				return equip.Served{ModelURL: s.ModelURL, Hosts: s.Hosts, Roots: s.Roots, Close: s.Close}, nil
			}}}
}

func (a *app) warn(message string) { a.user().Warn(message) }

// execute runs the command that args name. An error before the command begins is one of usage.
func (a *app) execute(args []string) error { return a.executeIn(a.root(), args) }

func (a *app) executeIn(root *cobra.Command, args []string) error {
	begun := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		begun = true
		return cli.TakeOldNames(cmd.Flags())
	}
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteC()
	var f *failure
	if _, rest, unknown := root.Find(args); unknown != nil && len(rest) > 0 {
		return usage(cli.NearCommand(root, rest[0]), "%s", unknown)
	}
	if err != nil && !begun && !errors.As(err, &f) {
		return usage("see 'gaia --help'", "%s", err)
	}
	return cli.NearValue(cmd, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gaia",
		Short: "Run GAIA-style benchmarks with evidence that can be checked",
		Long: `gaia runs GAIA-style benchmarks with an LLM agent, records evidence of all that
the agent did, scores the answers, audits the run for known ways of cheating,
and builds a signed package, so that anyone can check the score.

Without a key, base URL, model or dataset, "gaia run" rehearses: built-in tasks,
a built-in scripted model, no network. A rehearsal is marked as one everywhere
and is never a GAIA score.`,
		Example: `  gaia run --submit-intent          rehearse the whole job, offline
  gaia show latest                  see what happened
  gaia view latest                  see it in a browser, also while it runs
  gaia audit latest                 look for known ways of cheating
  gaia submit latest                build a signed package
  gaia verify submission-…          check every byte of the package
  gaia agent try ./my-agent         try an agent of your own, offline
  gaia compare runs/01J… runs/01K…  test whether two runs differ`,
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // which cobra has in the error
		Version:            versionText(),
	}
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "print what 'gaia version' prints")
	cli.AddCommands(root, "Run tasks", a.runCommand(), a.resumeCommand(), a.tasksCommand(), a.agentCommand(), a.doctorCommand())
	cli.AddCommands(root, "Look at a run", a.runsCommand(), a.showCommand(), a.viewCommand(), a.reportCommand(), a.exportCommand())
	cli.AddCommands(root, "Check a run", a.verifyCommand(), a.auditCommand(), a.adjudicateCommand(), a.judgeCommand(), a.witnessCommand())
	cli.AddCommands(root, "Publish a run", a.submitCommand(), a.discloseCommand(), a.boardCommand())
	cli.AddCommands(root, "Many runs", a.compareCommand(), a.scorecardCommand(), a.trendCommand(), a.ledgerCommand(), a.pruneCommand())
	cli.AddCommands(root, "Many machines", a.planCommand(), a.mergeCommand(), a.serveCommand(), a.workerCommand())
	cli.AddCommands(root, "Set up", a.keyCommand(), a.policyCommand(), a.versionCommand())
	root.AddCommand(converter(equip.ConvertCommand, "Read a document for a run (internal)", document.Convert),
		converter(ledger.ConvertCommand, "Read exported run events for an import (internal)", func(r io.Reader, w io.Writer) error {
			if err := document.LimitProcess(); err != nil {
				return err
			}
			return history.Convert(r, w)
		}))
	a.named(root)
	cli.AddHelp(root, "Set up")
	return root
}

// versionText is the version and the commit, a line each.
func versionText() string {
	h := build.Describe()
	commit := cmp.Or(h.Commit, "unknown")
	if h.Dirty {
		commit += " (modified)"
	}
	return fmt.Sprintf("gaia %s\ncommit %s\n", h.Version, commit)
}

func (a *app) versionCommand() *cobra.Command {
	digest := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and commit of this program",
		Example: "  gaia version\n  gaia version --digest",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := versionText()
			if digest {
				whole, err := build.Harness()
				if err != nil {
					return err
				}
				text += "executable " + whole.ExecutableSHA256 + "\n"
			}
			_, err := io.WriteString(a.stdout, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&digest, "digest", false, "also print the digest of the executable, as plans record it")
	return cmd
}

// failure is an error with an exit code and hints.
type failure = exit.Error

func fail(code int, err error, hints ...string) error { return exit.New(code, err, hints...) }

func usage(hint, format string, args ...any) error { return exit.Usagef(hint, format, args...) }

// classify returns err with the exit code and the hints that its kind gives.
func classify(err error) *failure {
	e := exit.Of(err)
	if errors.Is(err, runfiles.ErrBusy) && len(e.Hints) == 0 {
		e = &failure{Code: e.Code, Err: e.Err, Hints: []string{"wait for it to end, or stop it"}}
	}
	return e
}

// exit prints an error and returns the exit code it means.
func (a *app) exit(err error) int {
	if err != nil {
		err = classify(err)
	}
	if f, is := a.stderr.(*os.File); is && a.tty && a.colours() {
		return exit.Print(&view.Screen{File: f, Colour: true}, err)
	}
	return exit.Print(a.stderr, err)
}

// converter is what reads hostile bytes in a separate process: a document for a run, or an export that is imported. It is for
// no one else.
func converter(use, short string, convert func(io.Reader, io.Writer) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return errors.Join(convert(os.Stdin, os.Stdout), os.Stdout.Close())
	}}
}
