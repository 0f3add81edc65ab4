package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/spf13/cobra"
)

func (a *app) ledgerExportCommand() *cobra.Command {
	q := &ledgerQuery{}
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write run events to a signed Parquet file, or as lines of JSON",
		Long: `Export writes run events to a Parquet file, which DuckDB, pandas and polars read, and
signs it with your key in FILE.dsse.json; 'gaia ledger import' reads the two. To a
file whose name ends in .jsonl, and to standard output, it writes lines of JSON,
unsigned.

All runs are verified again. Nothing is written if one does not verify, or if
recording failed in a run with selected events: exit code 3. Imported events are
included, unless their runs are read: you then sign the counts of others.`,
		Example: `  gaia ledger export -o events.parquet
  gaia ledger export --runs runs/01J… --since 2026-01-01 > events.jsonl`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NotEmpty(cmd, "out"); err != nil {
				return err
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.exportEvents(cmd.Context(), q, out)
		},
	}
	q.addFrom(cmd)
	q.addFilters(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}

func (a *app) exportEvents(ctx context.Context, q *ledgerQuery, out string) error {
	ctx, release := stop.Context(ctx)
	defer release()
	r, err := a.runReader()
	if err != nil {
		return err
	}
	events, read, err := r.Export(ctx, q.Selection)
	if err != nil {
		return err
	}
	by, err := ledger.WriteExport(ctx, events, out, a.stdout, func() (sign.Key, error) { return a.keyring().Signing("") })
	if err != nil {
		return err
	}
	if read.Rehearsal {
		fmt.Fprintf(a.stderr, "gaia: rehearsal: %s\n", runview.RehearsalNote)
	}
	fmt.Fprintf(a.stderr, "gaia: exported %s, %s\n", view.Count(len(events), "event"), by)
	return read.Read.UntrustedErr
}

// defaultMaxEvents is how many imported events are kept.
const defaultMaxEvents = 100_000

// importing is an import by its flags.
type importing struct {
	trusted   trustFlags
	maxEvents int64
	asJSON    bool
}

func (a *app) ledgerImportCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Import run events that others exported",
		Long: `Import adds the events of Parquet files that 'gaia ledger export' wrote to those in
$XDG_DATA_HOME/gaia/history (else ~/.local/share), and signs them with your key.
FILE.dsse.json must be beside each FILE, signed by a key that you trust. All files are
imported or none: none if one does not verify, or if an event is there already.

Of more than --max-events the oldest are removed, a tenth of that number at a time.`,
		Example: `  gaia ledger import alice.parquet
  gaia ledger import --trusted-key alice.pub alice.parquet
  gaia ledger import --max-events 1000000 *.parquet`,
		Args: cli.SomeArgs("see 'gaia ledger import --help'", "ledger import takes files that 'gaia ledger export' wrote"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.maxEvents < 0 {
				return usage("0 is no bound", "--max-events is %d, which is below 0", m.maxEvents)
			}
			return a.importEvents(cmd.Context(), args, m)
		},
	}
	m.trusted.register(cmd)
	f := cmd.Flags()
	f.Int64Var(&m.maxEvents, "max-events", defaultMaxEvents, "maximum number of imported events; 0: no limit")
	f.BoolVar(&m.asJSON, "json", false, "print the result as JSON")
	cli.Complete(cmd, "max-events")
	return cmd
}

func (a *app) importEvents(ctx context.Context, files []string, m importing) error {
	ctx, release := stop.Context(ctx)
	defer release()
	r, err := a.runReader()
	if err != nil {
		return err
	}
	if r.Store.Dir == "" {
		return noHistory()
	}
	trusted, err := a.trustedKeys(m.trusted)
	if err != nil {
		return err
	}
	done, err := r.Import(ctx, files, trusted, m.maxEvents, func() (sign.Key, error) { return a.keyring().Signing("") })
	if err != nil {
		return err
	}
	return view.Result(a.stdout, m.asJSON, done, view.RowsText([][2]string{
		{"imported", fmt.Sprintf("%s from %s", view.Count(int(done.Added), "event"), view.Count(len(files), "file"))},
		{"evicted", fmt.Sprintf("%s, the oldest", view.Count(int(done.Evicted), "event"))},
		{"there are", view.Count(int(done.Events), "event")},
		{"store", done.Store},
	}))
}

// convertAttemptsCommand is the process that reads an export that is being imported. It is for no one else.
func convertAttemptsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    ledger.ConvertCommand,
		Short:  "Read exported run events for an import (internal)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := document.LimitProcess(); err != nil {
				return err
			}
			return errors.Join(history.Convert(os.Stdin, os.Stdout), os.Stdout.Close())
		},
	}
}

func (a *app) ledgerClearCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Remove all imported run events",
		Long: `Clear removes all imported events, also if they do not verify. It leaves runs and
the files that were imported. It asks first; without a terminal it needs --yes.`,
		Example:           `  gaia ledger clear --yes`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			r, err := a.runReader()
			if err != nil {
				return err
			}
			done, what, err := r.Clear(func(do string) (bool, error) { return a.sure(do, yes) })
			if err != nil || what == "" {
				return err
			}
			return view.Result(a.stdout, asJSON, done, view.RowsText([][2]string{{what, done.Store}}))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// sure asks on a terminal whether to do something; without one, yes must be given.
func (a *app) sure(do string, yes bool) (bool, error) {
	switch {
	case yes:
		return true, nil
	case !a.asks:
		return false, usage("give --yes to "+do, "there is no terminal to ask on")
	}
	fmt.Fprintf(a.stderr, "gaia: %s? y or n: ", do)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 100)).ReadString('\n')
	if err != nil {
		return false, fail(exit.Failure, errors.New("there was no answer, and nothing was removed"))
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(a.stderr, "gaia: nothing was removed")
	return false, nil
}

// historyDir is the folder of records of runs and of imported events; "" if there is none.
func (a *app) historyDir() string {
	if base := a.xdg("XDG_DATA_HOME", ".local/share"); base != "" {
		return filepath.Join(base, "gaia", "history")
	}
	return ""
}

// runReader returns a reader of the runs that a user names. Without a signing key nothing is kept of runs.
func (a *app) runReader() (*ledger.Reader, error) {
	trusted, err := a.ownTrust()
	if err != nil {
		return nil, err
	}
	store := &history.Store{Dir: a.historyDir(), Trusted: trusted.Valid()}
	if key, err := a.existingKey(""); err == nil {
		store.Key = &key
	}
	r := &ledger.Reader{Store: store, Trust: trusted, Now: time.Now, AtOnce: runtime.GOMAXPROCS(0), Log: a.stderr, Verify: ledger.Stats, Incomplete: incomplete}
	if h, f, err := build.Open(); err == nil {
		defer f.Close()
		// The stamp of the program's file names the build: to hash the file takes longer than what is kept saves.
		r.Program, _ = history.Stamp(f.Name(), []string{"."}, fmt.Sprint(h.Version, h.Commit, h.Dirty, runtime.GOOS, runtime.GOARCH), time.Now())
	}
	return r, nil
}

// noHistory is the error that there is no place for records.
func noHistory() error {
	return fail(exit.Failure, errors.New("no place for the history: neither XDG_DATA_HOME nor HOME is set"), "set one of them")
}
