package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
)

// defaultMaxEvents is how many imported events are kept.
const defaultMaxEvents = 100_000

// importing is what the flags of import say.
type importing struct {
	trusted   trustFlags
	maxEvents int64
	asJSON    bool
}

func (a *app) ledgerImportCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Import run events that somebody exported",
		Long: `Import adds the events of files that 'gaia ledger export' wrote to those in
$XDG_DATA_HOME/gaia/ledger.jsonl (else ~/.local/share), and seals them with your
signing key. Each file must be sealed by a key that you trust, as for 'gaia verify';
its events are then the word of who holds it. All files are imported or none: none
where one does not verify, or an event is there already or twice.

Where more than --max-events would be there, the oldest go, a tenth of so many at a
time.`,
		Example: `  gaia ledger import alice.jsonl
  gaia ledger import --trusted-key alice.pub alice.jsonl
  gaia ledger import --max-events 1000000 *.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia ledger import --help'", "ledger import takes files that 'gaia ledger export' wrote")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if m.maxEvents < 0 {
				return usage("0 is no bound", "--max-events is %d, which is below 0", m.maxEvents)
			}
			return a.importEvents(args, m)
		},
	}
	m.trusted.register(cmd)
	f := cmd.Flags()
	f.Int64Var(&m.maxEvents, "max-events", defaultMaxEvents, "imported events that are kept; 0 is no bound")
	f.BoolVar(&m.asJSON, "json", false, "print the result as JSON")
	completeFixed(cmd, "max-events")
	return cmd
}

// imported is what import prints with --json.
type imported struct {
	Added   int64  `json:"added"`
	Events  int64  `json:"events"` // that are there now
	Evicted int64  `json:"evicted"`
	Store   string `json:"store"`
}

func (a *app) importEvents(files []string, m importing) error {
	path, release, err := a.lockStore()
	if err != nil {
		return err
	}
	defer release()
	trusted, err := a.trustedKeys(m.trusted)
	if err != nil {
		return err
	}
	store, err := a.verifiedStore(path)
	if err != nil {
		return err
	}
	defer store.Close()
	from := []ledger.LedgerSource{store.source()}
	done := imported{Store: path, Events: store.seal.Events}
	for _, name := range files {
		export, err := openExport(name, trusted)
		if err != nil {
			return err
		}
		defer export.Close()
		from = append(from, export.source())
		done.Added += export.seal.Events
	}
	done.Events += done.Added
	done.Evicted = ledger.Evicted(done.Events, m.maxEvents)
	done.Events -= done.Evicted
	key, err := a.signingKey("")
	if err != nil {
		return err
	}
	if err := writeStore(path, from, done.Evicted, key); err != nil {
		return err
	}
	if m.asJSON {
		return a.printJSON(done)
	}
	return a.printRows([][2]string{{"imported", fmt.Sprintf("%s from %s", counted(int(done.Added), "event"), counted(len(files), "file"))},
		{"evicted", fmt.Sprintf("%s, the oldest", counted(int(done.Evicted), "event"))}, {"there are", counted(int(done.Events), "event")}, {"store", done.Store}})
}

// lockStore makes the folder of the imported events, keeps others from changing what is
// there, and removes what an import left behind that was killed.
func (a *app) lockStore() (path string, release func(), err error) {
	path = a.storePath()
	if path == "" {
		return "", nil, fail(exitFailure, errors.New("no place for imported events: neither XDG_DATA_HOME nor HOME is set"), "set one of them")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", nil, fmt.Errorf("making a place for imported events: %w", err)
	}
	lock := flock.New(filepath.Join(filepath.Dir(path), ".ledger.lock"))
	if err := lock.Lock(); err != nil {
		return "", nil, fmt.Errorf("locking the imported events: %w", err)
	}
	release = func() { _ = lock.Close() } // which cannot fail in a way that leaves it locked
	for _, left := range leftBehind(path) {
		if err := os.Remove(left); err != nil {
			release()
			return "", nil, fmt.Errorf("removing what an import left behind: %w", err)
		}
	}
	return path, release, nil
}

// newStore begins the names of stores that are being written; a number follows.
const newStore = ".ledger.jsonl.new-"

// leftBehind returns the files beside the store that an import was writing when it was
// killed, or, to who does not hold the lock, is writing.
func leftBehind(path string) (left []string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if path == "" || err != nil {
		return nil
	}
	for _, e := range entries {
		if number, ours := strings.CutPrefix(e.Name(), newStore); ours && number != "" && strings.Trim(number, "0123456789") == "" && e.Type().IsRegular() {
			left = append(left, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return left
}

// openExport opens a ledger file after reading it whole once: it verifies, and was
// sealed by a key that is trusted.
func openExport(name string, trusted trust) (*storedEvents, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, usage("give files that 'gaia ledger export' wrote", "reading %q: %v", name, err)
	}
	seal, signer, err := ledger.VerifyLedger(name, f, true)
	if err == nil {
		if _, err = trusted.of(signer); err != nil {
			wrapped := *classify(err)
			wrapped.Err = fmt.Errorf("%s: %w", name, wrapped.Err)
			err = &wrapped
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &storedEvents{file: f, path: name, seal: seal}, nil
}

// source gives the events to be merged with others, one at a time, since there may be
// many files.
func (s *storedEvents) source() ledger.LedgerSource {
	return ledger.LedgerSource{Name: s.path, Events: s.events(0)}
}

// writeStore replaces the file at path by the events of others, without the first.
func writeStore(path string, from []ledger.LedgerSource, without int64, key sign.Key) error {
	f, err := os.CreateTemp(filepath.Dir(path), newStore+"*") // 0600
	if err != nil {
		return fmt.Errorf("writing the imported events: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<16)
	to := ledger.NewLedgerWriter(out)
	if err := ledger.Merge(from, without, to.Add); err != nil {
		if repeated := (*ledger.RepeatedEvent)(nil); errors.As(err, &repeated) {
			return fail(exitFailure, fmt.Errorf("%w: nothing is imported", err), "an event is imported once: leave out what was imported, or remove it by gaia ledger clear")
		}
		return err
	}
	if err := errors.Join(to.Seal(key), out.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the imported events: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("writing the imported events: %w", err)
	}
	return sign.SyncDir(filepath.Dir(path))
}

func (a *app) ledgerClearCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Remove all imported run events",
		Long: `Clear removes what was imported, also where it does not verify. Runs, and the
files that were imported, stay as they are. It asks before, on a terminal; elsewhere
it wants --yes.`,
		Example:           `  gaia ledger clear --yes`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return a.clearStore(yes, asJSON) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// cleared is what clear prints with --json.
type cleared struct {
	Removed int64  `json:"removed"` // events; 0 also where they could not be counted
	Store   string `json:"store"`
}

func (a *app) clearStore(yes, asJSON bool) error {
	path := a.storePath()
	done := cleared{Store: path}
	what := "nothing was imported"
	there := path != "" && thereIs(path)
	if there || len(leftBehind(path)) > 0 {
		_, release, err := a.lockStore()
		if err != nil {
			return err
		}
		defer release()
	}
	if there {
		what = "imported events that do not verify"
		if store, err := a.verifiedStore(path); err == nil {
			store.Close()
			done.Removed = store.seal.Events
			what = counted(int(done.Removed), "imported event")
		}
		if sure, err := a.sure("remove "+what, yes); err != nil || !sure {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the imported events: %w", err)
		}
		what = "removed " + what
	}
	if asJSON {
		return a.printJSON(done)
	}
	return a.printRows([][2]string{{what, path}})
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
		return false, fail(exitFailure, errors.New("nothing was answered, and nothing is done"))
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(a.stderr, "gaia: nothing is done")
	return false, nil
}
