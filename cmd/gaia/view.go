package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/board"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/overview"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runlist"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/viewer"
	"github.com/spf13/cobra"
)

// takesRuns says which arguments of each command name runs: the first so many; -1: all.
var takesRuns = map[string]int{
	"adjudicate": 1, "audit": 1, "compare": -1, "disclose": 1, "export": 1, "judge run": 1, "prune bodies": -1, "prune runs": -1, "report": 1, "resume": 1, "runs": -1,
	"scorecard": -1, "show": 1, "submit": 1, "trend": -1, "verify": -1, "view": -1, "witness export": 1,
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
	if of := cmd.Flags().Lookup("task"); of != nil && takes {
		cli.CompleteLater(cmd, "task", func(args []string) []string {
			if len(args) == 0 {
				return nil
			}
			return runlist.Tasks(args[0], runFolders(cmd))
		})
	} else if of != nil && !strings.HasPrefix(path, "ledger ") {
		cli.CompleteLater(cmd, "task", func([]string) []string { return a.user().LocalTasks(cmd) })
	}
	if !takes && flags == nil {
		return
	}
	if takes && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if n >= 0 && len(args) >= n {
				if path == "show" && len(args) == 1 {
					return runlist.Tasks(args[0], runFolders(cmd)), cobra.ShellCompDirectiveNoFileComp
				}
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
		Long: `Runs lists the runs in folders (default: runs), and those in a folder runs in
them: when each began (UTC), its result, cost and model. A package is listed if
it or its folder is named.

The result of a complete run is its official score. Others are running (a
process writes it), interrupted ('gaia resume' continues it) or stopped before
their end, with the tasks done so far; or damaged, with the reason below the
table.

A finished run is verified before its score is printed. The signed record of
that is kept in $XDG_DATA_HOME/gaia/history (else ~/.local/share), and is used
while no file of the run has changed; --verify verifies all again. Exit code 4:
a run is damaged. 6: you do not trust a run's signer.

Wherever a command takes a run, "latest" means the one that began last, and the
start of an id, at least four characters, is enough. A path that exists always
wins.`,
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

func (a *app) viewCommand() *cobra.Command {
	var v viewer.Config
	gold, newToken := "", false
	cmd := &cobra.Command{
		Use:   "view [DIR…]",
		Short: "Show runs in a browser, also while they are written",
		Long: `View serves pages of runs to a browser on this machine, until Ctrl-C: scores by
level, tasks with every step, the audit with links into the journal, plots, two
runs compared, and what many runs did. DIR is a run, a package, or a folder of
them (default: runs).

It prints an address with a token, which works once and in one browser;
--new-token prints another address of the viewers that you have running. No page
changes a run.

A run that is being written is followed. A finished one is shown at once, and
verified and audited in the background; the page says how far that is. Expected
answers are shown only with --dataset. docs/viewing.md describes the pages and
plots.

Only this machine can reach the viewer, unless --listen names another address:
then give a certificate, too, since without TLS others can read what is sent.`,
		Example: `  gaia view latest
  gaia view --dataset private runs submission-2026-01-02-5XK9QZ7M
  gaia view --listen 192.0.2.7:8443 --tls-cert cert.pem --tls-key key.pem`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if gold != "" && gold != verify.GoldPrivate {
				if err := (&runflags.Tasks{Source: gold}).CheckSource(); err != nil {
					return usage("give private, hub, hub:OWNER/NAME, dir:PATH or fixtures", "--dataset is %q", gold)
				}
			}
			v.Control = a.user().XDG("XDG_RUNTIME_DIR", ".cache", "gaia", "view")
			if newToken {
				running, err := viewer.NewAddresses(v.Control)
				for _, r := range running {
					fmt.Fprintln(a.stdout, r.Address)
				}
				return err
			}
			return a.view(cmd.Context(), args, v, gold)
		},
	}
	cli.RejectEmpty(cmd, "listen", "tls-cert", "tls-key", "dataset")
	f := cmd.Flags()
	f.StringVar(&v.Listen, "listen", "", "host:port (default: 127.0.0.1 and a free port)")
	f.StringVar(&v.Cert, "tls-cert", "", "certificate in PEM, for HTTPS")
	f.StringVar(&v.Key, "tls-key", "", "key of the certificate in PEM")
	runflags.AddDataset(cmd, &gold, "show answers: private, hub, hub:OWNER/NAME, dir:PATH or fixtures", "gold", verify.GoldPrivate)
	f.BoolVar(&newToken, "new-token", false, "print new addresses of the viewers that run, and end")
	cli.Complete(cmd, "listen", "127.0.0.1:")
	return cmd
}

func (a *app) view(ctx context.Context, places []string, v viewer.Config, gold string) error {
	reader, err := a.runReader()
	if err != nil {
		return err
	}
	watch := runlist.NewWatch(places, *reader)
	if _, err := watch.Rows(); err != nil { // before a page is asked for
		return err
	}
	v.Runs = watch.Rows
	if len(places) == 1 {
		v.First = places[0] // of a folder of runs it is none
	}
	v.History = func() (page.History, error) {
		from := places
		if len(from) == 0 {
			from = []string{runlist.DefaultFolder}
		}
		return overview.History(reader, from, history.ByWeek, "")
	}
	ctx, release := stop.Context(ctx)
	defer release()
	if gold != "" {
		var one sync.Mutex // datasets are loaded once
		v.Gold = func(place string) (map[string]string, error) {
			one.Lock()
			defer one.Unlock()
			return a.goldAt(ctx, gold, place)
		}
	}
	v.Verify, v.Trust, v.Program = a.verifyEnv(ctx), a.user().OwnTrust, "gaia "+build.Describe().Version
	v.Log = func(line string) { fmt.Fprintf(a.stderr, "gaia: %s\n", view.Line(line)) }
	s, err := viewer.New(v)
	if err != nil {
		return err
	}
	l, err := s.Listen()
	if err != nil {
		return err
	}
	if warning := s.Warning(); warning != "" {
		a.warn(warning)
	}
	if _, err := fmt.Fprintln(a.stdout, s.Address()); err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintln(a.stderr, "gaia: open the address in a browser; Ctrl-C ends the viewer")
	return s.Serve(ctx, l)
}

// goldAt returns the expected answers of the run or package at a place, from its private file or a dataset; none if it has none
// there.
func (a *app) goldAt(ctx context.Context, source, place string) (map[string]string, error) {
	var gold *audit.Gold
	var err error
	if source == verify.GoldPrivate {
		gold, err = grading.PrivateGold(place)
	} else {
		given, opened := verify.Open(place)
		if opened != nil {
			return nil, opened
		}
		defer given.Close()
		m, _, _, read := rundir.ReadPlan(given.Files)
		if read != nil {
			return nil, read
		}
		gold, err = a.user().GoldFor(ctx, source, m)
	}
	if err != nil || gold == nil {
		return nil, err
	}
	return gold.Answers, nil
}

func (a *app) reportCommand() *cobra.Command {
	var out string
	var texts bool
	cmd := &cobra.Command{
		Use:   "report DIR|PACKAGE",
		Short: "Write a run as one HTML file",
		Long: `Report verifies and audits a run or a package, and writes what was found into
one HTML file, which opens anywhere, also offline: scores, plots, tasks and
findings. It holds no text of the run, unless --with-texts adds questions,
answers and every step: do not publish such a report of GAIA where crawlers find
it.

The file says how to check it with 'gaia verify'. A run that does not verify is
written, too, and says so first: exit code 4. 5: the run is not complete.`,
		Example: `  gaia report latest
  gaia report runs/01J… -o report.html --with-texts
  gaia report submission-2026-01-02-5XK9QZ7M -o - > report.html`,
		Args: cli.OneArg("the run directory, package or archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.report(cmd.Context(), args[0], out, texts)
		},
	}
	cli.RejectEmpty(cmd, "out")
	cmd.Flags().StringVarP(&out, "out", "o", "", "new file, or - (default: report-<run>.html here)")
	cmd.Flags().BoolVar(&texts, "with-texts", false, "also write the texts: questions, answers, steps")
	return cmd
}

func (a *app) report(ctx context.Context, place, out string, texts bool) error {
	ctx, release := stop.Context(ctx)
	defer release()
	s, done, err := overview.Read(place, a.verifyEnv(ctx), a.user().OwnTrust)
	if err != nil {
		return err
	}
	defer done()
	s.Program = "gaia " + build.Describe().Version
	p, err := overview.Report(s, texts)
	if err != nil {
		return err
	}
	if out == "-" {
		err = p.Write(outfile.Interruptible(ctx, a.stdout))
	} else {
		id := p.Run.Row.ID
		out = cmp.Or(out, "report-"+id[max(0, len(id)-8):]+".html")
		if err = verify.NotWithin("the report", place, filepath.Dir(out)); err == nil {
			err = outfile.WriteStream(ctx, out, p.Write)
		}
	}
	if err != nil {
		return err
	}
	if out != "-" {
		fmt.Fprintf(a.stderr, "gaia: wrote %s\n", view.Line(view.Quote(out)))
	}
	return exit.First(s.Check.Audited.Signer, s.Check.Err)
}

func (a *app) boardCommand() *cobra.Command {
	var c board.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "board PACKAGES",
		Short: "Write a static leaderboard of packages that verify",
		Long: `Board verifies and audits the packages in a folder and writes a site of static
files: a table of those that count, a page for each, a plot of score against
cost, and the data as JSON. Rows whose scores do not differ by more than chance
are said to tie.

board.yaml in the folder says which checks are required, which keys are trusted,
and which packages are left out, with a reason; the site shows all three.
--check writes nothing, and fails if a package does not count and board.yaml
does not leave it out. docs/boards.md has an example.`,
		Example: `  gaia board packages -o site
  gaia board packages --check
  gaia board packages -o site --config strict.yaml`,
		Args: cli.OneArg("the folder of packages"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.Check && cmd.Flags().Changed("out") {
				return usage("leave one of them out", "--check writes no site, and --out names one")
			}
			if c.Own, err = a.user().OwnTrust(); err != nil {
				return err
			}
			c.Packages, c.Progress = args[0], a.stderr
			ctx, release := stop.Context(cmd.Context())
			defer release()
			result, failed := board.Run(ctx, c)
			return cmp.Or(result.Print(a.stdout, asJSON), failed)
		},
	}
	cli.RejectEmpty(cmd, "out", "config")
	f := cmd.Flags()
	f.StringVarP(&c.Out, "out", "o", "site", "folder of the site, new or a site")
	f.BoolVar(&c.Check, "check", false, "verify and write nothing, for continuous integration")
	f.StringVar(&c.Rules, "config", "", "rules to use in place of the folder's board.yaml")
	f.BoolVar(&asJSON, "json", false, "print a line of JSON for each package")
	cli.CompleteDirs(cmd, "out")
	return cmd
}
