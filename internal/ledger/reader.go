// Package ledger reads what is counted of many runs: the runs in folders, packages and archives that a user names, and
// the run events that were imported.
//
// A run is verified before it is counted, unless its record in package history is good and none of its files has changed
// (TestRunsKept). Runs that do not verify, and different runs of the same id, are named and left out; the others are
// given in the order in which they began. [Reader.Events] selects among run events, and [List] prints them.
package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Reader reads the finished runs in folders, with what it kept of those that it verified before.
type Reader struct {
	Store      *history.Store // without a folder nothing is kept or was removed
	Trust      keyring.Trust
	Program    string // the build of this program, whose records count; "" for none
	Now        func() time.Time
	AtOnce     int                                                     // runs that are read at once, each of which is held
	Log        io.Writer                                               // gets a line for each run that is left out
	Verify     func(path string) (rundir.RunStats, *rundir.Run, error) // Stats, but in tests
	Incomplete func(path string, run *rundir.Run) error                // the error that a run is not complete
}

// Query says which runs are read, and how. Its zero value takes what was kept of runs that were verified before.
type Query struct {
	Verify bool // verify all runs, whatever was kept
	Empty  bool // a folder need not hold a run
	Live   bool // leave out runs that were removed
}

// Run is what is counted of a finished, verified run.
type Run struct {
	rundir.RunStats
	Path   string
	Pruned bool // it was removed
}

// Shortfall is what has to be shown with everything that is counted of runs.
type Shortfall struct {
	Failed          int      `json:"failed,omitzero"`            // runs that could not be read
	OnlyErrors      []string `json:"only_errors,omitempty"`      // ids of runs whose tasks were chosen because they failed in another
	RecordingFailed []string `json:"recording_failed,omitempty"` // ids of runs that went on without evidence
	SignerTrusted   bool     `json:"signer_trusted"`             // of all runs that are counted
}

// Unread is the phrase about runs of which nothing is counted; "" if there are none.
func (s Shortfall) Unread() string {
	if s.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %s could not be read", view.Count(s.Failed, "run"))
}

// maxNamed bounds the runs that a message lists.
const maxNamed = 10

// Unrecorded are the lines that name the runs whose evidence is not complete, and those whose tasks were chosen by an
// outcome; "" if there are none.
func (s Shortfall) Unrecorded() (lines string) {
	for _, of := range []struct {
		runs        []string
		key, phrase string
	}{{s.RecordingFailed, "recording failed", "went on without evidence"}, {s.OnlyErrors, runview.ErrorsKey, "with tasks that were chosen because they failed in another"}} {
		n := len(of.runs)
		if n == 0 {
			continue
		}
		names := strings.Join(of.runs[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			names += fmt.Sprintf(" and %d more", n-maxNamed)
		}
		lines += fmt.Sprintf("%s: %s %s: %s\n", of.key, view.Count(n, "run"), of.phrase, view.Line(names))
	}
	return lines
}

// Read is the result of reading runs.
type Read struct {
	Shortfall
	Runs         int   // that were given
	FailedErr    error // why runs were not given; nil: all were
	UntrustedErr error // which keys of those that were given the user does not trust; nil: all are
}

// End returns the error that a command ends with after it has printed its result; found is the command's own.
func (r Read) End(found error) error { return exit.First(r.FailedErr, r.UntrustedErr, found) }

// place is where a run is, or was. Its id and its start are what the first line of the journal says, which
// counts only once the run has verified.
type place struct {
	path           string
	named          bool // by the user, not found in a folder
	runID, started string
	removed        *rundir.RunStats // of a run that was removed; nil: it is there
}

const wantRuns = "give run directories, packages, their archives, or folders of them, such as runs/"

// Runs gives the finished runs at paths, in the order in which they began, one at a time. Each path is a run
// directory, a full package, its archive, or a folder that holds some; links in folders are not followed.
// Runs that were removed from there are given in their place. Runs that do not verify, different ones of the same
// id, and unfinished ones that the user named are errors of Read; the others are given. The error is that
// nothing could be read, or give's.
func (r *Reader) Runs(paths []string, q Query, give func(Run) error) (Read, error) {
	found, err := r.find(paths, q)
	if err != nil {
		return Read{}, err
	}
	results := make([]chan result, len(found))
	begin := func(i int) {
		results[i] = make(chan result, 1) // so that a reader never waits
		go func() { results[i] <- r.read(found[i], q.Verify) }()
	}
	for i := range min(r.AtOnce, len(found)) {
		begin(i)
	}
	rivals := r.rivals(found, q.Verify)
	given := map[string]string{} // where each run that was given is, by its id
	signers := map[string]bool{} // ids of the keys of what verifies
	var read Read
	var failures []*exit.Error
	for i, at := range found {
		got := <-results[i]
		results[i] = nil
		signed := got.stats.Signed()
		if got.err == nil {
			got.err = conflict(at.path, signed, rivals[signed.RunID])
		}
		name := view.Line(view.Quote(at.path))
		before, twice := given[signed.RunID]
		verifies := false
		switch {
		case got.err != nil:
			e := *exit.Of(got.err)
			e.Err = fmt.Errorf("%s: %w", name, e.Err)
			failures = append(failures, &e)
			verifies = e.Code == exit.Incomplete // what is there verifies
		case got.left != "":
			fmt.Fprintf(r.Log, "gaia: left out: %s: %s\n", name, view.Line(got.left))
		case twice:
			fmt.Fprintf(r.Log, "gaia: left out: %s: the run %s was read from %s\n", name, signed.RunID, view.Line(view.Quote(before)))
		default:
			given[signed.RunID] = at.path
			if got.stats.Dataset.ErrorsOf.RunID != "" {
				read.OnlyErrors = append(read.OnlyErrors, signed.RunID)
			}
			if got.stats.RecordingFailed != "" {
				read.RecordingFailed = append(read.RecordingFailed, signed.RunID)
			}
			if err := give(Run{got.stats, at.path, at.removed != nil}); err != nil {
				return Read{}, err
			}
			verifies = true
		}
		if verifies {
			signers[signed.KeyID] = true
		}
		if next := i + r.AtOnce; next < len(found) {
			begin(next)
		}
	}
	r.Store.Evict()
	var untrusted []error
	for _, id := range slices.Sorted(maps.Keys(signers)) {
		untrusted = append(untrusted, r.Trust.OfID(id))
	}
	read.Runs, read.Failed = len(given), len(failures)
	read.FailedErr, read.UntrustedErr = unreadable(failures, len(found)), exit.First(untrusted...)
	read.SignerTrusted = read.UntrustedErr == nil
	return read, nil
}

// find returns the runs at paths, and those that were removed from there, in the order in which they began.
func (r *Reader) find(paths []string, q Query) ([]place, error) {
	var places []string
	for _, path := range paths {
		real, err := history.RealPath(path)
		if err != nil {
			return nil, err
		}
		places = append(places, real)
	}
	var found []place
	gone := map[string]bool{}
	if !q.Live {
		removed, err := r.Store.Removed(func(of history.Record) bool {
			_, err := os.Stat(of.Path)
			return of.Attempts != "" && errors.Is(err, fs.ErrNotExist) &&
				(slices.Contains(places, of.Path) || slices.Contains(places, filepath.Dir(of.Path)))
		})
		if err != nil {
			e := *exit.Of(err)
			e.Err = fmt.Errorf("the history %q: %w", r.Store.Dir, e.Err)
			if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
				e.Hints = append(e.Hints, "look at it, and move it away: "+view.Quote(filepath.Join(r.Store.Dir, fault.File)))
			}
			return nil, &e
		}
		for _, of := range removed {
			gone[of.Path] = true
			found = append(found, place{path: of.Path, runID: of.RunID, started: of.Stats.Started, removed: of.Stats})
		}
	}
	for i, path := range paths {
		if gone[places[i]] {
			continue
		}
		at, err := r.runsAt(path, q)
		if err != nil {
			return nil, err
		}
		if len(at) == 0 && !q.Empty && len(gone) == 0 {
			return nil, exit.Usagef(wantRuns, "%q holds no run", path)
		}
		found = append(found, at...)
	}
	slices.SortStableFunc(found, func(a, b place) int {
		order := cmp.Or(strings.Compare(a.started, b.started), strings.Compare(a.runID, b.runID))
		if order == 0 && (a.removed == nil) != (b.removed == nil) { // a run that is there counts, not what was kept of its package
			order = map[bool]int{true: -1, false: 1}[a.removed == nil]
		}
		return cmp.Or(order, strings.Compare(a.path, b.path))
	})
	return found, nil
}

// kind returns history.KindRun or history.KindPackage, also of what is damaged; "" for anything else.
func kind(path string) string {
	switch {
	case verify.IsPackage(path): // or an archive
		return history.KindPackage
	case verify.IsRun(path) == nil:
		return history.KindRun
	}
	return ""
}

// runsAt returns the run that a path names, or those in the folder there.
func (r *Reader) runsAt(path string, q Query) ([]place, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	case err != nil:
		return nil, exit.Usagef(wantRuns, "reading %q: %v", path, regular.Cause(err))
	case kind(path) != "" || info.Mode().IsRegular() && strings.HasSuffix(path, submit.ArchiveSuffix):
		at, err := r.begun(place{path: path, named: true}, q)
		return []place{at}, err
	case !info.IsDir():
		return nil, exit.Usagef(wantRuns, "%q is a file, and no archive of a package", path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	}
	var found []place
	for _, e := range entries {
		in := filepath.Join(path, e.Name())
		archive := strings.HasSuffix(e.Name(), submit.ArchiveSuffix)
		switch {
		case strings.HasPrefix(e.Name(), ".new-"), strings.HasPrefix(e.Name(), history.RemovalPrefix): // not yet a run, or no longer
			continue
		case e.Type() == fs.ModeSymlink:
			if archive || kind(in) != "" {
				fmt.Fprintf(r.Log, "gaia: left out: %s is a link\n", view.Line(view.Quote(in)))
			}
			continue
		case e.IsDir() && kind(in) != "", e.Type().IsRegular() && archive:
		default:
			continue
		}
		at, err := r.begun(place{path: in}, q)
		if err != nil && exit.Of(err).Code == exit.Usage {
			fmt.Fprintf(r.Log, "gaia: left out: %s\n", view.Line(err.Error()))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, at)
	}
	return found, nil
}

// open opens a run directory, package or archive. A file that is named as an archive and is none is damaged.
func open(path string) (*verify.Evidence, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && strings.HasSuffix(path, submit.ArchiveSuffix) && !verify.IsArchive(path) {
		return nil, trajectory.Faultf(filepath.Base(path), "is named as an archive and does not begin as one")
	}
	return verify.OpenJournal(path)
}

// begun adds to a place which run is there and when it began, as far as the first line of its journal says that; it is
// verified later.
func (r *Reader) begun(at place, q Query) (place, error) {
	if strings.HasSuffix(at.path, submit.ArchiveSuffix) && !q.Verify { // it would be unpacked for its first line
		if stats, _, found := r.Recall(at.path); found {
			at.runID, at.started = stats.RunID, stats.Started
			return at, nil
		}
	}
	given, err := open(at.path)
	if errors.As(err, new(*trajectory.Fault)) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	defer given.Close()
	at.runID, at.started = verify.Begun(given.Files)
	return at, nil
}

// Stats verifies a run directory, package or archive and returns what is counted of it; the zero value if the run is not
// complete.
func Stats(path string) (stats rundir.RunStats, run *rundir.Run, err error) {
	given, err := open(path)
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

// result is what came of reading a run.
type result struct {
	stats rundir.RunStats
	err   error
	left  string // why the run is left out, "" if it is not
}

// read reads one run, from its record if that is good.
func (r *Reader) read(at place, verify bool) result {
	if at.removed != nil {
		return result{stats: *at.removed}
	}
	stats, run, err := r.Counted(at.path, verify)
	switch {
	case err != nil:
		return result{err: err}
	case run != nil && !run.Complete && at.named:
		return result{stats: rundir.RunStats{SignedBy: run.Key.ID()}, err: r.Incomplete(at.path, run)}
	case run != nil && !run.Complete:
		return result{left: "the run is not complete: " + run.Missing}
	case run != nil && (stats.RunID != at.runID || stats.Started != at.started):
		return result{err: trajectory.Faultf(trajectory.JournalFile, "was another before it was verified")}
	}
	return result{stats: stats}
}

// Counted returns what is counted of the run at path, by its record if that is good; run is nil then. Else, or if verify is
// set, the run is verified, and a record of it is kept. The stats of a run that is not complete are the zero value.
func (r *Reader) Counted(path string, verify bool) (stats rundir.RunStats, run *rundir.Run, err error) {
	kept, before, found := r.Recall(path)
	if found && !verify {
		return kept, nil, nil
	}
	if stats, run, err = r.Verify(path); err != nil || !run.Complete {
		return stats, run, err
	}
	if real, after, settled := r.stamp(path); settled && after == before && r.Store.Key != nil {
		// Where it cannot be kept, it is verified again the next time.
		_ = r.Store.Keep(history.Record{Created: run.Manifest.Created, Files: after, Kind: kind(path), ManifestSHA256: stats.ManifestSHA256,
			Path: real, Rehearsal: stats.Rehearsal, RunID: stats.RunID, SignedBy: stats.SignedBy}, &stats)
	}
	return stats, run, nil
}

// Recall returns what a good record has of the run at path, and the stamp of its files.
func (r *Reader) Recall(path string) (stats rundir.RunStats, files string, found bool) {
	real, files, settled := r.stamp(path)
	if !settled {
		return rundir.RunStats{}, files, false
	}
	stats, found = r.Store.Recall(real, files)
	return stats, files, found
}

// stamp returns where the run at path is, and the stamp of its files. settled is false where nothing is kept of them.
func (r *Reader) stamp(path string) (real, files string, settled bool) {
	if r.Store.Dir == "" || r.Program == "" {
		return "", "", false
	}
	real, err := history.RealPath(path)
	if err != nil {
		return "", "", false
	}
	names, err := Files(real)
	if err != nil {
		return "", "", false
	}
	files, settled = history.Stamp(real, names, r.Program, r.Now())
	return real, files, settled
}

// Files names the files that verification reads of a run directory, a package (which has to have
// exactly its files) or an archive; "." is path itself.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{"."}, nil
	}
	names := []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, plan.AgentFilesFile, trajectory.JournalFile, rundir.TrajectoriesFile,
		rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile, rundir.MarkerFile, rundir.ShardsFile, rundir.ShardsDir}
	if verify.IsPackage(path) {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		names = []string{"."}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	for _, in := range []string{"/*", "/*/*"} { // of shards
		below, err := fs.Glob(os.DirFS(path), rundir.ShardsDir+in)
		if err != nil {
			return nil, err
		}
		names = append(names, below...)
	}
	return names, nil
}

// rival is one of several different runs with the same id.
type rival struct {
	signed rundir.Signed
	path   string
}

// rivals returns, by the id, finished runs that verify and have the same id but not the same plan or journal,
// with one place for each. Such runs are signed by different keys, or one key signed two histories; the id does not
// show which. An unfinished journal has no signature and is no rival.
func (r *Reader) rivals(found []place, verify bool) map[string][]rival {
	byID := map[string]map[string]place{}
	for _, at := range found {
		if byID[at.runID] == nil {
			byID[at.runID] = map[string]place{}
		}
		byID[at.runID][filepath.Clean(at.path)] = at
	}
	rivals := map[string][]rival{}
	for id, all := range byID {
		if len(all) == 1 || id == "" {
			continue
		}
		var different []rival
		for _, path := range slices.Sorted(maps.Keys(all)) {
			got := r.read(all[path], verify)
			signed := got.stats.Signed()
			if got.err == nil && got.stats.RunID == id && !slices.ContainsFunc(different, func(o rival) bool { return !differ(o.signed, signed) }) {
				different = append(different, rival{signed, path})
			}
		}
		if len(different) > 1 {
			rivals[id] = different
		}
	}
	return rivals
}

// differ reports whether two finished runs with the same id differ in plan, journal or tree.
func differ(a, b rundir.Signed) bool {
	return a.ManifestSHA256 != b.ManifestSHA256 || a.Head != b.Head || a.Root != b.Root
}

// conflict returns the error of a finished run at path that differs from another of the same id; nil if it does not.
func conflict(path string, signed rundir.Signed, rivals []rival) error {
	for _, of := range rivals {
		if !differ(of.signed, signed) {
			continue
		}
		if err := verify.Equivocation(signed, of.signed, [2]string{path, of.path}); err != nil {
			return err
		}
		return exit.New(exit.Evidence, // the keys differ
			fmt.Errorf("has the id %s, as the run at %s has, and another manifest", signed.RunID, view.Quote(of.path)),
			"'gaia verify' shows who signed which; leave out the one that you do not know")
	}
	return nil
}

// unreadable returns the error of all runs that could not be read: evidence that does not verify precedes a run that is not
// complete, and that one what could not be read.
func unreadable(failures []*exit.Error, runs int) error {
	if len(failures) == 0 {
		return nil
	}
	if runs == 1 {
		return failures[0]
	}
	worst := slices.MinFunc(failures, func(a, b *exit.Error) int { return exit.Compare(a.Code, b.Code) })
	what := map[int]string{exit.Evidence: "do not verify or cannot be read", exit.Incomplete: "are not complete or cannot be read"}
	e := &exit.Error{Code: worst.Code, Hints: worst.Hints,
		Err: fmt.Errorf("%d of %s %s", len(failures), view.Count(runs, "run"), cmp.Or(what[worst.Code], "cannot be read"))}
	for _, one := range failures {
		e.Reasons = append(e.Reasons, one.Err.Error())
	}
	e.Reasons = view.First(maxNamed, e.Reasons)
	return e
}
