package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Ask what attempts did, which rules they broke, and whether that gets better",
		Long: `Ledger asks about run events, one for each attempt of each finished run: tools,
files, checks, rules broken, rework, guidance. Runs are read where they lie, after
verifying them. What was verified once is kept in $XDG_CACHE_HOME/gaia/ledger (else
~/.cache/gaia/ledger) and counts while no file of the run has changed; --verify
reads all anew. Events of others' runs are imported from files that 'gaia ledger
export' wrote, into $XDG_DATA_HOME/gaia/ledger.jsonl (else ~/.local/share).

--runs names a run directory, a package, its archive or a folder that holds some;
without it, runs/ is read if it is there. A run that 'gaia prune' removed counts where
it was, by what was kept of it, and is marked. Runs come in the order in which they
began, and after them what was imported. Of a run that is read, imported events are
skipped. Unfinished runs in a folder are left out, and said; a run that does not
verify is named, and the exit code is 4.`,
		Example: `  gaia ledger list
  gaia ledger metrics --runs runs --runs ../other/runs
  gaia ledger rank --json
  gaia ledger evaluate --max-violations 1`,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.ledgerListCommand(), a.ledgerShowCommand(), a.ledgerRangeCommand(), a.ledgerRecentCommand(), a.ledgerTaskCommand(), a.ledgerRankCommand(),
		a.ledgerMetricsCommand(), a.ledgerEvaluateCommand(), a.ledgerExportCommand(), a.ledgerImportCommand(), a.ledgerClearCommand())
	return cmd
}

// ledgerQuery is what the flags of the commands that read events say.
type ledgerQuery struct {
	runs         []string
	noImported   bool
	anew         bool
	live         bool // leave out runs that were pruned
	asJSON       bool
	since, until string

	from, to time.Time // zero is no bound
}

// addFrom registers the flags that say where events are read from.
func (q *ledgerQuery) addFrom(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&q.runs, "runs", nil, "run directory, package, archive or folder of runs to read (default: runs, if it is there)")
	f.BoolVar(&q.noImported, "no-imported", false, "leave imported events out")
	completeDirs(cmd, "runs")
}

func (q *ledgerQuery) add(cmd *cobra.Command) {
	q.addFrom(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.anew, "verify", false, "verify all runs anew, also those that were verified before")
	f.BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

func (q *ledgerQuery) addTimes(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.since, "since", "", "only attempts that ended at this time or later: 2026-01-02 or 2026-01-02T15:04:05Z")
	f.StringVar(&q.until, "until", "", "only attempts that ended before this time; a date is its first second, in UTC")
	completeFixed(cmd, "since")
	completeFixed(cmd, "until")
}

// check wants the flags to say something.
func (q *ledgerQuery) check(cmd *cobra.Command) (err error) {
	names := []string{"runs"}
	if cmd.Flags().Lookup("since") != nil {
		names = append(names, "since", "until")
	}
	if err := notEmpty(cmd, names...); err != nil {
		return err
	}
	for _, path := range q.runs {
		if path == "" {
			return emptyFlag("runs")
		}
	}
	if q.from, err = parseMoment("since", q.since); err != nil {
		return err
	}
	if q.to, err = parseMoment("until", q.until); err != nil {
		return err
	}
	if !q.from.IsZero() && !q.to.IsZero() && !q.from.Before(q.to) {
		return usage("--until is not part of the range", "--until is not later than --since")
	}
	return nil
}

// takes reports whether an event is within the times that were asked for.
func (q *ledgerQuery) takes(e ledger.RunEvent) bool {
	return (q.from.IsZero() || e.Timestamp >= q.from.Format(trajectory.TimeFormat)) && (q.to.IsZero() || e.Timestamp < q.to.Format(trajectory.TimeFormat))
}

// shownEvent is an event, and whether it was imported.
type shownEvent struct {
	ledger.RunEvent
	Imported        bool `json:"imported,omitzero"`
	GuidanceChanged bool `json:"guidance_changed,omitzero"` // since the event listed before it
	PolicyChanged   bool `json:"policy_changed,omitzero"`   // likewise: the policy or its mode
	Pruned          bool `json:"pruned,omitzero"`           // its run was removed

	unrecorded string // why its run went on without evidence; "" if it did not
}

// ledgerRead is what came of reading events.
type ledgerRead struct {
	Runs      int  `json:"runs"`     // that were read where they lie, but for those outside
	Imported  int  `json:"imported"` // imported events that were taken
	Rehearsal bool `json:"rehearsal,omitzero"`
	Skipped   int  `json:"skipped"`          // imported events of runs that were read where they lie
	Outside   int  `json:"outside,omitzero"` // runs of which no event is within the times that were asked for
	shortfall

	shortcomings shortcomings // of the runs
}

// end returns what a command ends with that has printed its result, where found is what
// it found itself.
func (r ledgerRead) end(found error) error { return r.shortcomings.end(found) }

// eachEvent gives the events that were asked for: those of a run together, then
// the imported ones in the order of their times. ended, if not nil, is called after each run,
// and after what was imported.
func (a *app) eachEvent(q *ledgerQuery, give func(shownEvent) error, ended func()) (ledgerRead, error) {
	store, err := a.openStore(q)
	if err != nil {
		return ledgerRead{}, err
	}
	defer store.Close()
	if ended == nil {
		ended = func() {}
	}
	var read ledgerRead
	taken := 0
	pass := func(e shownEvent) error {
		if !q.takes(e.RunEvent) {
			return nil
		}
		taken++
		read.Rehearsal = read.Rehearsal || e.Rehearsal
		return give(e)
	}
	paths := q.runs
	if len(paths) == 0 && thereIs(defaultRuns) {
		paths = []string{defaultRuns}
	}
	here := map[string]bool{}
	sheets, err := a.eachSheet(paths, sheetQuery{anew: q.anew, empty: len(q.runs) == 0, live: q.live}, func(s givenSheet) error {
		here[s.RunID] = true
		before := taken
		for _, e := range s.Events {
			if err := pass(shownEvent{RunEvent: e, Pruned: s.pruned, unrecorded: s.RecordingFailed}); err != nil {
				return err
			}
		}
		switch {
		case taken == before && len(s.Events) > 0:
			read.Outside++
		case s.RecordingFailed != "":
			read.RecordingFailed = append(read.RecordingFailed, s.RunID)
		}
		ended()
		return nil
	})
	if err != nil {
		return ledgerRead{}, err
	}
	read.Runs, read.Failed, read.SignerTrusted, read.shortcomings = sheets.runs-read.Outside, sheets.Failed, sheets.SignerTrusted, sheets.shortcomings
	fromRuns := taken
	err = store.each(func(e ledger.RunEvent) error {
		if here[e.RunID] {
			read.Skipped++
			return nil
		}
		return pass(shownEvent{RunEvent: e, Imported: true})
	})
	read.Imported = taken - fromRuns
	ended()
	if read.Skipped > 0 {
		fmt.Fprintf(a.stderr, "gaia: left out: %s of runs that are read where they lie\n", counted(read.Skipped, "imported event"))
	}
	return read, err
}

// only leaves, of the runs that went on without evidence, those of some events.
func (r *ledgerRead) only(events ...shownEvent) {
	r.RecordingFailed = slices.DeleteFunc(r.RecordingFailed, func(id string) bool {
		return !slices.ContainsFunc(events, func(e shownEvent) bool { return e.RunID == id })
	})
}

// defaultRuns is where runs lie if nothing else is said.
const defaultRuns = "runs"

func thereIs(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// storedEvents are the imported events, once the store's seal was found good.
type storedEvents struct {
	file *os.File // nil: there are none
	path string
	seal ledger.LedgerSeal
}

// Close gives the file back.
func (s *storedEvents) Close() {
	if s.file != nil {
		s.file.Close() // it was only read
	}
}

// events gives the events in the order of their ids; so many batches are decoded at once.
func (s *storedEvents) events(atOnce int) iter.Seq2[ledger.RunEvent, error] {
	if s.file == nil {
		return func(func(ledger.RunEvent, error) bool) {}
	}
	return ledger.LedgerEvents(s.path, s.file, s.seal, atOnce)
}

// each gives the events in the order of their ids.
func (s *storedEvents) each(give func(ledger.RunEvent) error) error {
	for e, err := range s.events(runtime.GOMAXPROCS(0)) {
		if err == nil {
			err = give(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// storePath is where imported events are; "" if there is no such place.
func (a *app) storePath() string {
	base := a.xdg("XDG_DATA_HOME", ".local/share")
	if base == "" {
		return ""
	}
	return filepath.Join(base, "gaia", "ledger.jsonl")
}

// openStore opens the imported events unless q leaves them out, after checking that
// somebody whom the user trusts sealed them.
func (a *app) openStore(q *ledgerQuery) (*storedEvents, error) {
	path := a.storePath()
	if path == "" || q.noImported {
		return &storedEvents{}, nil
	}
	return a.verifiedStore(path)
}

const mendStore = "gaia ledger clear removes what was imported, to be imported again"

// verifiedStore opens the store at path; there need not be one.
func (a *app) verifiedStore(path string) (*storedEvents, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &storedEvents{}, nil
	}
	if err != nil {
		return nil, fail(exitFailure, &fs.PathError{Op: "reading", Path: path, Err: err}, mendStore)
	}
	s := &storedEvents{file: f, path: path}
	seal, signer, err := ledger.VerifyLedger(path, f, false)
	if err == nil {
		var own trust
		if own, err = a.ownTrust(""); err == nil {
			_, err = own.of(signer)
		}
	}
	if err == nil {
		s.seal = seal
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.Close()
		f := *classify(err)
		f.Hints = append(f.Hints, mendStore)
		return nil, &f
	}
	return s, nil
}
