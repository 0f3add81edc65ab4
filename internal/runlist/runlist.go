// Package runlist says which runs there are in folders, and which run a name means.
//
// [List] returns an [Entry] of each run. What an entry says comes from evidence: the plan with its checked signature, and of
// a finished run what was counted of it when it was verified, now or at a time for which a signed record is good (package
// ledger). So a list of hundreds of finished runs reads no journal, and a score is never printed that nothing verified
// (TestList, TestScoresAreVerified). A run that does not verify is listed as damaged, with its reason.
//
// [Find] turns "latest", a run id or the start of one into the path of a run directory. A path that exists always wins
// (TestFind).
package runlist

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// Entry is a run in a list. Of a damaged run it has what verified.
type Entry struct {
	Agent        string      `json:"agent,omitzero"` // name of the own agent; left out: the built-in one
	CostMicroUSD *int64      `json:"cost_microusd"`  // so far; null: a price is unknown, or the run is damaged
	Dataset      string      `json:"dataset"`        // its name and split
	Dir          string      `json:"dir"`
	Done         int         `json:"done"`               // tasks at which no further attempt is due
	ErrorsOf     string      `json:"errors_of,omitzero"` // id of the run whose errors its tasks are; left out: they were not chosen by an outcome
	ID           string      `json:"id"`
	Model        string      `json:"model"`
	Planned      int         `json:"planned"`           // tasks
	Problem      string      `json:"problem,omitempty"` // why it is damaged
	Rehearsal    bool        `json:"rehearsal,omitzero"`
	Score        *stats.Rate `json:"score"`               // official, of a complete run with gold answers; else null
	Shard        string      `json:"shard,omitzero"`      // whose folder it is, "shard 7 of 64"; left out: it is a whole run
	SignedBy     string      `json:"signed_by,omitempty"` // id of the key of the plan
	Started      string      `json:"started"`
	State        string      `json:"state"`
	Trusted      bool        `json:"signer_trusted"`
	Workers      int         `json:"workers,omitzero"` // that have joined, of a run that is served

	Err error `json:"-"` // why it is damaged, with its exit code

	workers []page.Worker // of a run that is served
	work    page.Work     // of them
	budget  *int64

	waits bool // it is complete, as far as its files are there, and was not verified
}

// Verified reports whether the entry is of a complete run that was verified.
func (e Entry) Verified() bool { return e.State == page.Complete && !e.waits }

// Row returns the entry as a row of a page, without its path there.
func (e Entry) Row() page.RunRow {
	return page.RunRow{ID: e.ID, Dir: e.Dir, Started: e.Started, Model: e.Model, Agent: e.Agent, Dataset: e.Dataset, State: e.State, Shard: e.Shard, Problem: e.Problem,
		Rehearsal: e.Rehearsal, OnlyErrors: e.ErrorsOf != "", Planned: e.Planned, Done: e.Done, Score: e.Score, CostMicroUSD: e.CostMicroUSD, Verified: e.Verified(), Workers: e.workers, Work: e.work, Budget: e.budget}
}

// Options say how a list is made.
type Options struct {
	Reader *ledger.Reader // verifies finished runs, and keeps records of them
	Verify bool           // verify all runs again
	Limit  int            // only so many, the newest; 0: all
	Quick  bool           // do not verify a finished run without a record: it is listed without a score
	Seen   *Seen          // entries of earlier lists; nil: none
}

// Seen keeps entries for lists that are made again and again. Its zero value is ready for use, by several goroutines.
type Seen struct {
	mu      sync.Mutex
	entries map[string]seen
	servers map[string]*server
}

type seen struct {
	Entry
	stamp string
	at    time.Time
	took  time.Duration
}

// maxShare is the inverse of the share of time that is spent on reading the journal of a run that grows.
const maxShare = 20

// get returns the entry of a run whose files are those of the stamp, or which was read a moment ago, for a while.
func (s *Seen) get(dir, stamp string, quick bool, now time.Time) (Entry, bool) {
	if s == nil {
		return Entry{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, found := s.entries[dir]
	fresh := e.stamp == stamp && e.State != page.Running || quick && now.Sub(e.at) < e.took*maxShare && e.State == page.Running
	return e.Entry, found && fresh && (quick || !e.waits)
}

func (s *Seen) put(dir string, e seen) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = map[string]seen{}
	}
	s.entries[dir] = e
}

// place is a run directory or a package. Its id and its start are what the first line of its journal says, which nothing
// verified.
type place struct {
	dir, id, started string
	part             bool // it is the folder of a shard
	served           bool // it is the folder of a server
}

// DefaultFolder is where 'gaia run' makes runs.
const DefaultFolder = ledger.DefaultRuns

// List returns the runs in folders, the newest first. A folder may be a run directory or a package itself; else its runs
// and its packages count, and those of a folder runs in it. Without folders it reads DefaultFolder, which need not exist.
// left is how many runs the limit left out. The error is of a folder that cannot be read.
func List(folders []string, o Options) (entries []Entry, left int, err error) {
	var found []place
	if len(folders) == 0 {
		found, err = scan(DefaultFolder)
		if errors.Is(err, fs.ErrNotExist) {
			return []Entry{}, 0, nil
		}
	}
	for _, folder := range folders {
		in, err := placesAt(folder)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, in...)
	}
	if err != nil {
		return nil, 0, err
	}
	newestFirst(found)
	found = slices.CompactFunc(found, func(a, b place) bool { return filepath.Clean(a.dir) == filepath.Clean(b.dir) })
	if o.Limit > 0 && len(found) > o.Limit {
		found, left = found[:o.Limit], len(found)-o.Limit
	}
	entries = make([]Entry, len(found))
	var group errgroup.Group
	group.SetLimit(max(o.Reader.AtOnce, 1))
	for i, at := range found {
		group.Go(func() error {
			names, _ := ledger.Files(at.dir)
			began := o.Reader.Now()
			stamp, settled := history.Stamp(at.dir, names, "", began)
			e, found := o.Seen.get(at.dir, stamp, o.Quick, began)
			if found && !o.Verify && !at.served && (settled || e.State == page.Running) {
				entries[i] = e
				return nil
			}
			entries[i] = read(at, o)
			now := o.Reader.Now()
			o.Seen.put(at.dir, seen{entries[i], stamp, now, now.Sub(began)})
			return nil
		})
	}
	_ = group.Wait()
	if !o.Quick {
		o.Reader.Store.Evict()
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(b.Started, a.Started) }) // as verified
	return entries, left, nil
}

// placesAt returns the run or package that a user named, or those in the folder there.
func placesAt(path string) ([]place, error) {
	const want = "give a folder of runs, such as runs/, or a run directory or package"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	case err != nil:
		return nil, exit.Usagef(want, "reading %q: %v", path, regular.Cause(err))
	case isServer(path):
		return servers(path), nil
	case verify.IsRun(path) == nil:
		return []place{begun(path, os.DirFS(path))}, nil
	case verify.IsPackage(path):
		given, err := verify.OpenJournal(path)
		if errors.As(err, new(*trajectory.Fault)) {
			return []place{{dir: path, id: filepath.Base(path)}}, nil
		}
		if err != nil {
			return nil, err
		}
		defer given.Close()
		return []place{begun(path, given.Files)}, nil
	case !info.IsDir():
		return nil, exit.Usagef(want, "%q is a file, and no archive of a package", path)
	}
	found, err := scan(path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	}
	for _, entry := range entries {
		in := filepath.Join(path, entry.Name())
		if entry.IsDir() && isServer(in) {
			found = append(found, servers(in)...)
		}
		if entry.Type() == fs.ModeSymlink || !strings.HasPrefix(entry.Name(), submit.NamePrefix) || !verify.IsPackage(in) {
			continue
		}
		packaged, err := placesAt(in)
		if err != nil && exit.Of(err).Code == exit.Usage { // a public one, which has no journal
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, packaged...)
	}
	below, err := scan(filepath.Join(path, DefaultFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	}
	return append(found, below...), nil
}

// scan returns the run directories in a folder. Links are not followed; folders that are being made or removed are left out.
func scan(folder string) ([]place, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var found []place
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && verify.IsRun(dir) == nil {
			found = append(found, begun(dir, os.DirFS(dir)))
		}
	}
	return found, nil
}

// begun returns which run is at dir and when it began, by the first line of its journal in files, else by the name of dir.
func begun(dir string, files fs.FS) place {
	_, err := fs.Stat(files, plan.DelegationFile)
	at := place{dir: dir, id: filepath.Base(dir), part: err == nil}
	if id, started := verify.Begun(files); isID(id) && len(started) <= len(trajectory.TimeFormat) {
		at.id, at.started = id, started
	}
	return at
}

func newestFirst(places []place) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(strings.Compare(b.started, a.started), strings.Compare(b.id, a.id), strings.Compare(a.dir, b.dir))
	})
}

// read returns the entry of a run. What it says is verified; a run that is being written is read as far as it is.
func read(at place, o Options) Entry {
	e := Entry{Dir: at.dir, ID: at.id, Started: at.started}
	if at.served {
		return e.served(o)
	}
	given, err := verify.OpenJournal(at.dir)
	if err != nil {
		return e.damaged(err)
	}
	defer given.Close()
	m, digest, key, err := rundir.ReadPlan(given.Files)
	if err != nil {
		return e.damaged(err)
	}
	e.plan(m)
	e.SignedBy = key.ID()
	e.Trusted = o.Reader.Trust.OfID(e.SignedBy) == nil
	busy := false
	if !given.Packaged {
		if busy, err = runfiles.Busy(at.dir); err != nil {
			return e.damaged(err)
		}
	}
	_, closed := fs.Stat(given.Files, trajectory.CheckpointFile)
	if busy && closed != nil {
		return e.growing(given.Files)
	}
	if o.Quick && closed == nil && !at.part {
		if kept, _, found := o.Reader.Recall(at.dir); found {
			return e.counted(kept, m, digest)
		}
		e.State, e.Done, e.waits = page.Complete, e.Planned, true
		return e
	}
	counted, run, err := o.Reader.Counted(at.dir, o.Verify)
	switch {
	case err != nil && busy: // its files were written while they were read
		return e.growing(given.Files)
	case err != nil:
		return e.damaged(err)
	case run != nil && !run.Complete:
		return e.unfinished(run, busy)
	}
	return e.counted(counted, m, digest)
}

// counted sets what was counted of a verified run with the plan m.
func (e Entry) counted(counted rundir.RunStats, m plan.Plan, digest string) Entry {
	if counted.ManifestSHA256 != digest {
		return e.damaged(trajectory.Faultf(plan.ManifestFile, "was another before the run was verified"))
	}
	e.State, e.Started, e.Done = page.Complete, counted.Started, e.Planned
	e.CostMicroUSD = new(int64)
	solved := 0
	for _, t := range counted.Tasks {
		e.CostMicroUSD = stats.AddCost(e.CostMicroUSD, t.CostMicroUSD)
		if t.Outcome == trajectory.Solved {
			solved++
		}
	}
	if m.Scored() {
		e.Score = new(stats.NewRate(solved, e.Planned))
	}
	return e
}

// plan sets what the plan says.
func (e *Entry) plan(m plan.Plan) {
	e.ID, e.Model, e.Rehearsal, e.Planned = m.RunID, m.Model.Name, m.Rehearsal, len(m.Tasks)
	e.Dataset, e.ErrorsOf = m.Dataset.Name+" "+m.Dataset.Split, m.Dataset.ErrorsOf.RunID
	if m.Agent != nil {
		e.Agent = m.Agent.Name
	}
}

func (e Entry) damaged(err error) Entry {
	e.State, e.Problem, e.Err = page.Damaged, err.Error(), err
	return e
}

// growing reads the journal of a run that a process is writing, as far as it goes.
func (e Entry) growing(dir fs.FS) Entry {
	run, err := rundir.Begin(dir)
	if err == nil {
		err = rundir.Follow(dir, run, new(sync.Mutex), func() error { return io.EOF }, func(trajectory.Event, []byte) error { return nil })
	}
	if err != nil {
		return e.damaged(err)
	}
	return e.unfinished(run, true)
}

// unfinished sets what a run that is not complete has done so far.
func (e Entry) unfinished(run *rundir.Run, busy bool) Entry {
	e.State, e.Started, e.CostMicroUSD = page.Interrupted, cmp.Or(run.Started, e.Started), new(int64)
	if run.Shard != nil {
		e.Shard, e.Planned = run.Shard.String(), len(run.Tasks)
	}
	switch {
	case busy:
		e.State = page.Running
	case run.ShardDone && run.Shard.Shard.Of != 0:
		e.State = page.Committed
	case run.Stopped != nil:
		e.State = page.Stopped
	}
	for _, t := range run.Tasks {
		if run.Shard == nil && run.Settled(t) || t.Committed != nil {
			e.Done++
		}
		for _, a := range t.Attempts {
			e.CostMicroUSD = stats.AddCost(e.CostMicroUSD, a.CostMicroUSD)
		}
	}
	return e
}

// Problems returns the error that runs are damaged, else that the user does not trust signers; nil if neither is so.
func Problems(entries []Entry, trust keyring.Trust) error {
	var bad []*exit.Error
	var untrusted []error
	signers := map[string]bool{}
	for _, e := range entries {
		switch {
		case e.Err != nil:
			bad = append(bad, exit.Of(e.Err))
		case !e.Trusted && !signers[e.SignedBy]:
			signers[e.SignedBy] = true
			untrusted = append(untrusted, trust.OfID(e.SignedBy))
		}
	}
	if len(bad) == 0 {
		return exit.First(untrusted...)
	}
	worst := slices.MinFunc(bad, func(a, b *exit.Error) int { return exit.Compare(a.Code, b.Code) })
	return exit.New(worst.Code, fmt.Errorf("%d of %s damaged or unreadable", len(bad), view.Count(len(entries), "run")), "gaia verify DIR says more of one")
}
