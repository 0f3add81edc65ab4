package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/prune"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// sheetQuery says how the sheets of runs are read. The zero value takes those that
// are kept of runs that were verified before.
type sheetQuery struct {
	anew  bool // verify all runs, whatever is kept; for all that is signed
	empty bool // a folder need not hold a run
	live  bool // leave out what was pruned
}

// givenSheet is the sheet of a finished, verified run, and where the run lies.
type givenSheet struct {
	ledger.Sheet
	path   string
	pruned bool // it was removed, and this is what was kept of it
}

// sheetsRead is what came of reading runs.
type sheetsRead struct {
	shortfall
	runs int // that were given
	shortcomings
}

// shortcomings are what a command ends with when it has printed what it read of runs.
type shortcomings struct {
	failed    error // why runs were not given; nil: all were
	untrusted error // which of the keys of those that were given the user does not trust; nil: all are
}

// end returns the gravest, also of what the command found itself.
func (s shortcomings) end(found error) error { return firstOf(s.failed, s.untrusted, found) }

// runAt is a place where a run lies. Its id and its start are what the first line of
// the journal says, which is only believed once the run has verified.
type runAt struct {
	path    string
	named   bool // by the user, not found in a folder
	runID   string
	started string
	kept    *ledger.Sheet // of a run that was pruned; nil: it is there
}

const wantRuns = "give run directories, packages, their archives, or folders that hold some, such as runs/"

// eachSheet gives the sheets of the finished runs at paths, in the order in which they began,
// one at a time: each path is a run directory, a full package, its archive, or a
// folder that holds some. Links in folders are not followed. What is printed
// meanwhile says what was left out; runs that do not verify, different ones of the
// same id, and unfinished ones that the user named are what sheetsRead fails with,
// while the others are given. The error is that nothing could be read, or give's own.
func (a *app) eachSheet(paths []string, q sheetQuery, give func(givenSheet) error) (sheetsRead, error) {
	r := &sheetReader{app: a, kept: a.openKept(), anew: q.anew, ahead: runtime.GOMAXPROCS(0)}
	var pruned []ledger.HistoryRow
	if !q.live {
		var err error
		if pruned, err = a.pruned(paths); err != nil {
			return sheetsRead{}, err
		}
	}
	found, err := r.find(paths, q.empty, pruned)
	if err != nil {
		return sheetsRead{}, err
	}
	return r.each(found, give)
}

// sheetReader reads runs.
type sheetReader struct {
	*app
	kept  *keptSheets // nil: nothing is kept
	anew  bool
	ahead int // runs that are read at once, each of whose sheets is held
}

// find returns the runs at paths, and those that were pruned there, in the order in
// which they began.
func (r *sheetReader) find(paths []string, empty bool, pruned []ledger.HistoryRow) ([]runAt, error) {
	var found []runAt
	for _, row := range pruned {
		found = append(found, runAt{path: row.Path, runID: row.RunID, started: row.Sheet.Started, kept: row.Sheet})
	}
	for _, path := range paths {
		if slices.ContainsFunc(pruned, func(r ledger.HistoryRow) bool { place, err := realPath(path); return err == nil && place == r.Path }) {
			continue
		}
		at, err := r.runsAt(path)
		if err != nil {
			return nil, err
		}
		if len(at) == 0 && !empty && len(pruned) == 0 {
			return nil, usage(wantRuns, "%q holds no run", path)
		}
		found = append(found, at...)
	}
	slices.SortStableFunc(found, func(a, b runAt) int {
		there := func(r runAt) int { // a run that is still there counts, not what was kept of its package
			if r.kept == nil {
				return 0
			}
			return 1
		}
		return cmp.Or(strings.Compare(a.started, b.started), strings.Compare(a.runID, b.runID), cmp.Compare(there(a), there(b)), strings.Compare(a.path, b.path))
	})
	return found, nil
}

// runsAt returns the run that a path names, or those in the folder there.
func (r *sheetReader) runsAt(path string) ([]runAt, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	case err != nil:
		return nil, usage(wantRuns, "reading %q: %v", path, unwrapPath(err))
	case !info.IsDir() && !isArchive(path) && !isDamaged(path, info.Mode()):
		return nil, usage(wantRuns, "%q is a file, and no archive of a package", path)
	case !info.IsDir() || isPackage(path) || isRun(path) == nil:
		at, err := r.begun(runAt{path: path, named: true})
		return []runAt{at}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	}
	var found []runAt
	for _, e := range entries {
		in := filepath.Join(path, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), ".new-"), strings.HasPrefix(e.Name(), prune.Prefix): // not yet, or no longer, a run
			continue
		case e.Type() == fs.ModeSymlink:
			if strings.HasSuffix(e.Name(), submit.ArchiveSuffix) || isPackage(in) || isRun(in) == nil {
				fmt.Fprintf(r.stderr, "gaia: left out: %s is a link\n", oneLine(quoteArg(in)))
			}
			continue
		case e.IsDir() && (isPackage(in) || isRun(in) == nil):
		case e.Type().IsRegular() && strings.HasSuffix(e.Name(), submit.ArchiveSuffix):
		default:
			continue
		}
		at, err := r.begun(runAt{path: in})
		if f := (*failure)(nil); errors.As(err, &f) && f.Code == exitUsage {
			fmt.Fprintf(r.stderr, "gaia: left out: %s\n", oneLine(err.Error()))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, at)
	}
	return found, nil
}

// isDamaged reports whether a file is called as an archive and does not begin as one.
func isDamaged(path string, mode fs.FileMode) bool {
	return mode.IsRegular() && strings.HasSuffix(path, submit.ArchiveSuffix) && !isArchive(path)
}

// begun adds to a place which run lies there and when it began, as far as that can be
// told; what is wrong with it shows when it is verified. A public package is a
// matter of usage.
func (r *sheetReader) begun(at runAt) (runAt, error) {
	if isArchive(at.path) { // which would be unpacked to look at its first line
		if s, _, ok := r.kept.stamp(at.path); ok && !r.anew {
			if sheet, found := r.kept.load(s); found {
				at.runID, at.started = sheet.RunID, sheet.Started
				return at, nil
			}
		}
	}
	if info, err := os.Stat(at.path); err == nil && isDamaged(at.path, info.Mode()) {
		return at, nil
	}
	given, err := openJournal(at.path)
	if f := (*trajectory.Fault)(nil); errors.As(err, &f) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	defer given.Close()
	at.runID, at.started = firstEvent(given.files)
	return at, nil
}

// firstEvent returns what the first line of a journal says of its run.
func firstEvent(files fs.FS) (runID, started string) {
	const most = 1 << 16 // bytes; run_started has some 600
	f, _, err := ledger.OpenFile(files, trajectory.JournalFile, ledger.MaxFile)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, most)).ReadBytes('\n')
	var first struct {
		RunID     string `json:"run_id"`
		Timestamp string `json:"timestamp"`
	}
	if err != nil || json.Unmarshal(line, &first) != nil {
		return "", ""
	}
	return first.RunID, first.Timestamp
}

// readSheet is what came of reading a run.
type readSheet struct {
	sheet ledger.Sheet
	err   error
	left  string // why the run is left out, "" if it is not
}

// each reads the runs, some at once, and gives their sheets in order.
func (r *sheetReader) each(found []runAt, give func(givenSheet) error) (sheetsRead, error) {
	under := make([]chan readSheet, len(found))
	begin := func(i int) {
		under[i] = make(chan readSheet, 1) // so that nobody waits for who has given up
		go func() { under[i] <- r.read(found[i]) }()
	}
	for i := range min(r.ahead, len(found)) {
		begin(i)
	}
	gathered := &gathering{sheetReader: r, rivals: r.rivals(found), at: map[string]string{}, signers: map[string]error{}}
	for i, at := range found {
		got := <-under[i]
		under[i] = nil
		if gathered.takes(at, got) {
			if got.sheet.RecordingFailed != "" {
				gathered.unrecorded = append(gathered.unrecorded, got.sheet.RunID)
			}
			if err := give(givenSheet{got.sheet, at.path, at.kept != nil}); err != nil {
				return sheetsRead{}, err
			}
		}
		if next := i + r.ahead; next < len(found) {
			begin(next)
		}
	}
	if r.kept != nil {
		r.kept.prune()
	}
	untrusted := gathered.untrusted()
	return sheetsRead{shortfall{len(gathered.failures), gathered.unrecorded, untrusted == nil}, len(gathered.at), shortcomings{gathered.failure(len(found)), untrusted}}, nil
}

// rival is one of several different runs with the same id.
type rival struct {
	signed ledger.Signed
	path   string
}

// rivals returns, by the id, finished runs that verify and have the same id, but not the
// same plan or journal: one place for each. Such runs are signed by different keys, or
// one key vouches for two histories; the id does not say which. An unfinished journal is
// signed by nobody and is no rival.
func (r *sheetReader) rivals(found []runAt) map[string][]rival {
	places := map[string]map[string]runAt{}
	for _, at := range found {
		if places[at.runID] == nil {
			places[at.runID] = map[string]runAt{}
		}
		places[at.runID][filepath.Clean(at.path)] = at
	}
	rivals := map[string][]rival{}
	for id, all := range places {
		if len(all) == 1 || id == "" {
			continue
		}
		var different []rival
		for _, path := range slices.Sorted(maps.Keys(all)) {
			got := r.read(all[path])
			signed := got.sheet.Signed()
			if got.err == nil && got.sheet.RunID == id && !slices.ContainsFunc(different, func(o rival) bool { return !conflict(o.signed, signed) }) {
				different = append(different, rival{signed, path})
			}
		}
		if len(different) > 1 {
			rivals[id] = different
		}
	}
	return rivals
}

// conflict reports whether two finished runs with the same id differ in plan, journal
// or tree. What an older program kept of a pruned run has the plan only.
func conflict(a, b ledger.Signed) bool {
	if a.Head == "" || b.Head == "" {
		return a.ManifestSHA256 != b.ManifestSHA256
	}
	return a.ManifestSHA256 != b.ManifestSHA256 || a.Head != b.Head || a.Root != b.Root
}

// read reads the sheet of one run, from those that are kept if it can.
func (r *sheetReader) read(at runAt) readSheet {
	if at.kept != nil {
		return readSheet{sheet: *at.kept}
	}
	if info, err := os.Stat(at.path); err == nil && isDamaged(at.path, info.Mode()) {
		return readSheet{err: trajectory.Faultf(filepath.Base(at.path), "is called as an archive and does not begin as one")}
	}
	before, settled, ok := r.kept.stamp(at.path)
	if ok && !r.anew {
		if sheet, found := r.kept.load(before); found {
			return readSheet{sheet: sheet}
		}
	}
	sheet, of, err := verifiedSheet(at.path)
	switch {
	case err != nil:
		return readSheet{err: err}
	case !of.Complete && at.named:
		return readSheet{sheet: ledger.Sheet{SignedBy: of.Key.ID()}, err: incomplete(at.path, of)}
	case !of.Complete:
		return readSheet{left: "the run is not complete: " + of.Missing}
	case sheet.RunID != at.runID || sheet.Started != at.started:
		return readSheet{err: trajectory.Faultf(trajectory.JournalFile, "was another before it was verified")}
	}
	if settled {
		if after, _, ok := r.kept.stamp(at.path); ok && maps.Equal(before.files, after.files) {
			r.kept.keep(after, sheet)
		}
	}
	return readSheet{sheet: sheet}
}

// verifiedSheet verifies a run directory, package or archive and returns its sheet.
func verifiedSheet(path string) (ledger.Sheet, *ledger.Run, error) {
	given, err := openJournal(path)
	if err != nil {
		return ledger.Sheet{}, nil, err
	}
	defer given.Close()
	var sheet ledger.Sheet
	run, err := given.shown(func(summary string) (run *ledger.Run, err error) {
		sheet, run, err = ledger.ReadSheet(given.files, summary)
		return run, err
	})
	if err != nil || !run.Complete {
		return ledger.Sheet{}, run, err
	}
	sheet.RecordingFailed = run.Marked
	return sheet, run, nil
}
