package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
)

// linesSuffix ends the name of an export of lines of JSON.
const linesSuffix = ".jsonl"

func (a *app) ledgerExportCommand() *cobra.Command {
	q := &ledgerQuery{}
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write run events to a signed Parquet file, or as lines of JSON",
		Long: `Export writes run events to a Parquet file, which DuckDB, pandas and polars read, and
signs it with your key in FILE.dsse.json beside it; 'gaia ledger import' reads the
two. To a file whose name ends in .jsonl, and to standard output, it writes each event
as a line of JSON without a signature.

All runs are verified again. Nothing is written if one does not verify, or if
recording failed in a run that has events among them: exit code 3. Imported events
are written, too, unless their runs are read: you then sign what others said.

The events hold task ids, names of files and which calls broke rules, but neither
questions nor answers.`,
		Example: `  gaia ledger export -o events.parquet
  gaia ledger export --runs runs/01J… --since 2026-01-01 > events.jsonl`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "out"); err != nil {
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
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not be there (default: standard output)")
	return cmd
}

// checkRecorded refuses runs that went on without evidence: no one could check what a signature of their events says.
func checkRecorded(unrecorded []string) error {
	if len(unrecorded) == 0 {
		return nil
	}
	f := &failure{Code: exit.Findings, Err: fmt.Errorf("the evidence of %s is not complete: nothing is exported", view.Count(len(unrecorded), "run")),
		Hints: []string{"leave them out: name other runs by --runs, or other attempts by --task, --since and --until"}}
	for _, id := range unrecorded[:min(len(unrecorded), maxHinted)] {
		f.Reasons = append(f.Reasons, "recording failed in the run "+id)
	}
	if more := len(unrecorded) - maxHinted; more > 0 {
		f.Reasons = append(f.Reasons, fmt.Sprintf("and in %d more", more))
	}
	return f
}

func (a *app) exportEvents(ctx context.Context, q *ledgerQuery, out string) error {
	ctx, release := untilStopped(ctx)
	defer release()
	q.verify, q.live = true, true // what was kept of runs is nothing to sign
	var events []rundir.RunEvent
	read, err := a.eachEvent(q, func(e shownEvent) error {
		events = append(events, e.RunEvent)
		return ctx.Err()
	}, nil)
	if err != nil {
		return err
	}
	failed := read.read.FailedErr
	if failed == nil || classify(failed).Code == exit.Failure { // which does not precede findings
		failed = exit.First(checkRecorded(read.RecordingFailed), failed)
	}
	if failed != nil {
		return failed
	}
	if len(events) == 0 {
		return usage("gaia ledger list lists those there are", "there is no event to export")
	}
	slices.SortFunc(events, func(a, b rundir.RunEvent) int { return strings.Compare(a.ID, b.ID) })
	lines := func(w io.Writer) error {
		to := bufio.NewWriter(w)
		for _, e := range events {
			line, err := canonical.Encode(e)
			if err != nil {
				return err
			}
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return to.Flush()
	}
	signed := "without a signature"
	if out == "" || out == "-" {
		err = lines(outfile.Interruptible(ctx, a.stdout))
	} else if err = verify.NotWithin("the export", os.DevNull, filepath.Dir(out)); err != nil { // in no run at all
	} else if strings.HasSuffix(out, linesSuffix) {
		err = outfile.WriteStream(ctx, out, lines)
	} else {
		var key sign.Key
		if key, err = a.signingKey(""); err != nil {
			return err
		}
		var data, envelope []byte
		if data, envelope, err = history.SealExport(events, key); err != nil {
			return err
		}
		err = outfile.WriteNew(ctx, []outfile.File{{Path: out, Data: data}, {Path: out + history.EnvelopeSuffix, Data: envelope}})
		signed = "signed by " + key.Public().ID()
	}
	if err != nil {
		return err
	}
	if read.Rehearsal {
		fmt.Fprintf(a.stderr, "gaia: rehearsal: %s\n", runview.RehearsalNote)
	}
	fmt.Fprintf(a.stderr, "gaia: exported %s, %s\n", view.Count(len(events), "event"), signed)
	return read.read.UntrustedErr
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
FILE.dsse.json must be beside each FILE, signed by a key that you trust, as for 'gaia
verify'; the events are then what its owner says. Files are read in a process with
limits of memory and time. All files are imported or none: none if one does not verify,
or if an event is there already or twice.

If there would be more than --max-events, the oldest are removed, a tenth of that
number at a time.`,
		Example: `  gaia ledger import alice.parquet
  gaia ledger import --trusted-key alice.pub alice.parquet
  gaia ledger import --max-events 1000000 *.parquet`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia ledger import --help'", "ledger import takes files that 'gaia ledger export' wrote")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.maxEvents < 0 {
				return usage("0 is no bound", "--max-events is %d, which is below 0", m.maxEvents)
			}
			return a.importEvents(cmd.Context(), args, m)
		},
	}
	m.trusted.register(cmd)
	f := cmd.Flags()
	f.Int64Var(&m.maxEvents, "max-events", defaultMaxEvents, "imported events that are kept; 0 is no bound")
	f.BoolVar(&m.asJSON, "json", false, "print the result as JSON")
	completeFixed(cmd, "max-events")
	return cmd
}

// importResult is what import prints with --json.
type importResult struct {
	Added   int64  `json:"added"`
	Events  int64  `json:"events"` // that are there now
	Evicted int64  `json:"evicted"`
	Store   string `json:"store"`
}

const clearHint = "gaia ledger clear removes what was imported, to be imported again"

// imported opens the imported events, whose signer the user has to trust.
func (a *app) imported() (history.Imported, error) {
	dir := a.historyDir()
	m, err := history.OpenImported(dir, func(key sign.PublicKey) error {
		trusted, err := a.ownTrust()
		if err == nil {
			_, err = trusted.Of(key)
		}
		return err
	})
	if err != nil {
		f := *classify(err)
		f.Hints = append(f.Hints, clearHint)
		return m, &f
	}
	return m, nil
}

func (a *app) importEvents(ctx context.Context, files []string, m importing) error {
	ctx, release := untilStopped(ctx)
	defer release()
	dir := a.historyDir()
	if dir == "" {
		return noHistory()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a place for imported events: %w", err)
	}
	unlock, err := lockImported(dir)
	if err != nil {
		return err
	}
	defer unlock()
	trusted, err := a.trustedKeys(m.trusted)
	if err != nil {
		return err
	}
	before, err := a.imported()
	if err != nil {
		return err
	}
	done := importResult{Store: before.Path()}
	var from []history.Source
	for _, name := range files {
		data, x, err := openExport(name, trusted)
		if err != nil {
			return err
		}
		done.Added += x.Events
		from = append(from, history.Source{Name: name, Events: convertAttempts(ctx, name, data, x)})
	}
	events, err := before.Add(from)
	if repeated := (*history.RepeatedEvent)(nil); errors.As(err, &repeated) {
		return fail(exit.Failure, fmt.Errorf("%w: nothing is imported", err), "an event is imported once: leave out what was imported, or remove it by gaia ledger clear")
	}
	if err != nil {
		return err
	}
	done.Evicted = history.Evicted(int64(len(events)), m.maxEvents)
	events = events[done.Evicted:]
	done.Events = int64(len(events))
	key, err := a.signingKey("")
	if err != nil {
		return err
	}
	if err := before.Replace(events, key); err != nil {
		return fmt.Errorf("writing the imported events: %w", err)
	}
	if m.asJSON {
		return view.JSON(a.stdout, done)
	}
	return view.Rows(a.stdout, [][2]string{{"imported", fmt.Sprintf("%s from %s", view.Count(int(done.Added), "event"), view.Count(len(files), "file"))},
		{"evicted", fmt.Sprintf("%s, the oldest", view.Count(int(done.Evicted), "event"))}, {"there are", view.Count(int(done.Events), "event")}, {"store", done.Store}})
}

// lockImported keeps other processes from changing the imported events.
func lockImported(dir string) (unlock func(), err error) {
	lock := flock.New(filepath.Join(dir, ".imported.lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking the imported events: %w", err)
	}
	return func() { _ = lock.Close() }, nil // which cannot fail in a way that leaves it locked
}

// openExport reads an export and its envelope, which a key that is trusted has to have signed.
func openExport(name string, trusted keyring.Trust) ([]byte, history.Export, error) {
	data, err := regular.ReadUpTo(name, history.MaxExport)
	var envelope []byte
	if err == nil {
		envelope, err = regular.ReadUpTo(name+history.EnvelopeSuffix, history.MaxEnvelope)
	}
	if err != nil {
		return nil, history.Export{}, usage("give Parquet files that 'gaia ledger export' wrote, with their "+history.EnvelopeSuffix+" beside them", "reading %q: %v", name, err)
	}
	x, signer, err := history.OpenEnvelope(name+history.EnvelopeSuffix, envelope)
	if err == nil {
		err = x.Check(name, data)
	}
	if err != nil {
		return nil, history.Export{}, err
	}
	if _, err := trusted.Of(signer); err != nil {
		f := *classify(err)
		f.Err = fmt.Errorf("%s: %w", name, f.Err)
		return nil, history.Export{}, &f
	}
	return data, x, nil
}

const (
	convertAttemptsName = "convert-attempts"
	convertTime         = 2 * time.Minute
)

// convertAttemptsCommand is the process that reads an export that is being imported. It is for no one else.
func convertAttemptsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    convertAttemptsName,
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

// convertAttempts gives the events of an export, which a process with limits of memory and time reads.
func convertAttempts(ctx context.Context, name string, data []byte, x history.Export) iter.Seq2[rundir.RunEvent, error] {
	return func(yield func(rundir.RunEvent, error) bool) {
		executable, err := os.Executable()
		if err != nil {
			yield(rundir.RunEvent{}, fmt.Errorf("finding the program's own file: %w", err))
			return
		}
		limited, cancel := context.WithTimeout(ctx, convertTime)
		defer cancel()
		cmd := exec.CommandContext(limited, executable, convertAttemptsName)
		cmd.Env = []string{}
		cmd.Stdin = bytes.NewReader(data)
		cmd.WaitDelay = time.Second
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(rundir.RunEvent{}, fmt.Errorf("starting the reader of %q: %w", name, err))
			return
		}
		history.Converted(name, out, x)(func(e rundir.RunEvent, err error) bool {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return yield(e, err) && err == nil
		})
		cancel()
		_ = cmd.Wait() // its lines say all
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
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return a.clearImported(yes, asJSON) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// clearResult is what clear prints with --json.
type clearResult struct {
	Removed int64  `json:"removed"` // events; 0 also if they could not be counted
	Store   string `json:"store"`
}

func (a *app) clearImported(yes, asJSON bool) error {
	dir := a.historyDir()
	done := clearResult{Store: history.Imported{Dir: dir}.Path()}
	what := "nothing was imported"
	if dir != "" && thereIs(done.Store) {
		unlock, err := lockImported(dir)
		if err != nil {
			return err
		}
		defer unlock()
		what = "imported events that do not verify"
		if m, err := a.imported(); err == nil {
			done.Removed = m.Events
			what = view.Count(int(done.Removed), "imported event")
		}
		if sure, err := a.sure("remove "+what, yes); err != nil || !sure {
			return err
		}
		if err := history.ClearImported(dir); err != nil {
			return fmt.Errorf("removing the imported events: %w", err)
		}
		what = "removed " + what
	}
	if asJSON {
		return view.JSON(a.stdout, done)
	}
	return view.Rows(a.stdout, [][2]string{{what, done.Store}})
}

func thereIs(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
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

// store returns the user's records, and whom the user trusts. Without a signing key nothing is kept of runs.
func (a *app) store() (*history.Store, keyring.Trust, error) {
	trusted, err := a.ownTrust()
	if err != nil {
		return nil, keyring.Trust{}, err
	}
	s := &history.Store{Dir: a.historyDir(), Trusted: trusted.Valid()}
	if key, err := a.existingKey(""); err == nil {
		s.Key = &key
	}
	return s, trusted, nil
}

// runReader returns a reader of the runs that a user names.
func (a *app) runReader() (*history.Reader, error) {
	store, trusted, err := a.store()
	if err != nil {
		return nil, err
	}
	program, _ := thisBuild() // without it nothing is kept
	return &history.Reader{Store: store, Program: program, Now: time.Now, AtOnce: runtime.GOMAXPROCS(0), Log: a.stderr,
		ArchiveSuffix: submit.ArchiveSuffix, Kind: kindOf, Files: filesRead, Begun: begun, Verify: verifiedStats, Incomplete: incomplete,
		Trusts: trusted.OfID, Conflict: verify.Equivocation}, nil
}

// eachRun gives the finished runs at paths, as history.Reader.Each does.
func (a *app) eachRun(paths []string, q history.Query, give func(history.Run) error) (history.Read, error) {
	r, err := a.runReader()
	if err != nil {
		return history.Read{}, err
	}
	return r.Each(paths, q, give)
}

// kindOf tells run directories, packages and archives from other files.
func kindOf(path string) string {
	switch {
	case verify.IsPackage(path): // or an archive
		return history.KindPackage
	case verify.IsRun(path) == nil:
		return history.KindRun
	}
	return ""
}

// thisBuild tells this build of the program from all others: by its version, and by the stamp of its file, since to
// hash that takes longer than what is kept saves.
func thisBuild() (string, error) {
	h, f, err := thisProgram()
	if err != nil {
		return "", err
	}
	defer f.Close()
	stamp, _ := history.Stamp(f.Name(), []string{"."}, fmt.Sprint(h.Version, h.Commit, h.Dirty, runtime.GOOS, runtime.GOARCH), time.Now())
	if stamp == "" {
		return "", errors.New("the program's file has no stamp")
	}
	return stamp, nil
}

// filesRead names the files that verification reads of a run directory, a package (which has to have
// exactly its files) or an archive.
func filesRead(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{"."}, nil
	}
	if !verify.IsPackage(path) {
		return []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile,
			rundir.SummaryFile, trajectory.CheckpointFile, rundir.MarkerFile}, nil
	}
	entries, err := os.ReadDir(path)
	names := []string{"."}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// openCounted opens a run directory, package or archive. A file that is named as an archive and is none is damaged.
func openCounted(path string) (*verify.Evidence, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && strings.HasSuffix(path, submit.ArchiveSuffix) && !verify.IsArchive(path) {
		return nil, trajectory.Faultf(filepath.Base(path), "is named as an archive and does not begin as one")
	}
	return verify.OpenJournal(path)
}

// begun returns which run is at path and when it began, by the first line of its journal.
func begun(path string) (runID, started string, err error) {
	given, err := openCounted(path)
	if err != nil {
		return "", "", err
	}
	defer given.Close()
	runID, started = history.FirstEvent(given.Files)
	return runID, started, nil
}

// verifiedStats verifies a run directory, package or archive and returns what is counted of it.
func verifiedStats(path string) (stats rundir.RunStats, run *rundir.Run, err error) {
	given, err := openCounted(path)
	if err != nil {
		return rundir.RunStats{}, nil, err
	}
	defer given.Close()
	run, err = given.Shown(func(summary string) (run *rundir.Run, err error) {
		stats, run, err = rundir.ReadStats(given.Files, summary)
		return run, err
	})
	if err != nil || !run.Complete {
		return rundir.RunStats{}, run, err
	}
	stats.RecordingFailed = run.Marked
	return stats, run, nil
}

// noHistory is the error that there is no place for records.
func noHistory() error {
	return fail(exit.Failure, errors.New("no place for the history: neither XDG_DATA_HOME nor HOME is set"), "set one of them")
}

// sealingStore is store with a signing key, which is made if there is none.
func (a *app) sealingStore() (*history.Store, error) {
	s, _, err := a.store()
	if err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, noHistory()
	}
	var key sign.Key
	if key, err = a.signingKey(""); err != nil {
		return nil, err
	}
	s.Key = &key
	return s, nil
}
