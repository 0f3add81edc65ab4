// Package merge decides which journals of shards make a run, and which of them count.
//
// [Plan] reads and writes nothing: it verifies the folder of each shard, and lists the journals as shards.json of the run
// will. internal/run copies them, and grades what they hold. Each planned task is in exactly one journal that counts. A
// shard that ran twice counts by its older journal, as a whole (docs/decisions/0113-count-the-older-journal.md); the other
// stays in the run as superseded. A shard that is missing or not done is a [Missing]; the tasks of one whose journal is
// gone, by the user's word, count as wrong (TestPlan).
package merge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// journal is the folder of a shard.
type journal struct {
	folder  string
	shard   trajectory.Shard
	end     trajectory.End
	started string // id of its run_started, which begins with its time
}

// Plan returns what the run of a plan is made of, and the folder of each entry, "" for one that is gone. Each of folders is
// that of a shard, or holds such folders. lost are the shards whose journals are gone. verified, if not nil, is called when
// another of the journals has been verified.
//
// A shard that is missing or not done is a *Missing. What does not verify is an error with exit code 4, and a folder that
// does not belong here one of usage; both name the folder.
func Plan(f *planfolder.Folder, folders []string, lost []int, verified func(folder string, done, of int)) (rundir.Shards, []string, error) {
	none := rundir.Shards{}
	found, err := find(folders)
	if err != nil {
		return none, nil, err
	}
	m, missing := f.Plan, &Missing{Plan: f.Dir, Of: f.Plan.Shards, Out: "shards"}
	if len(found) > 0 {
		missing.Out = filepath.Dir(filepath.Clean(found[0]))
	} else if len(folders) > 0 {
		missing.Out = filepath.Clean(folders[0])
	}
	var all []*journal
	there := map[int]bool{}
	for _, folder := range found {
		j, done, err := identify(f, folder)
		if err != nil {
			return none, nil, err
		}
		if slices.Contains(lost, j.shard.Index) {
			return none, nil, exit.Usagef("leave out --lost "+strconv.Itoa(j.shard.Index)+", or the folder if it is not of use",
				"shard %d is named as lost, and %q is its folder", j.shard.Index, folder)
		}
		if !done {
			missing.undone = append(missing.undone, j)
		}
		there[j.shard.Index], all = true, append(all, j)
	}
	for i := 1; i <= m.Shards; i++ {
		if !there[i] && !slices.Contains(lost, i) {
			missing.Absent = append(missing.Absent, i)
		}
	}
	if missing.any() {
		return none, nil, missing
	}
	var (
		group errgroup.Group
		mu    sync.Mutex // guards what follows
		errs  = make([]error, len(all))
		seen  int
	)
	group.SetLimit(min(runtime.GOMAXPROCS(0), maxAtOnce))
	for i, j := range all {
		group.Go(func() error {
			done, err := j.verify(f)
			mu.Lock()
			defer mu.Unlock()
			if errs[i] = err; err == nil && !done {
				missing.undone = append(missing.undone, j)
			}
			if seen++; verified != nil {
				verified(j.folder, seen, len(all))
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	if err := exit.First(errs...); err != nil {
		return none, nil, err
	}
	if missing.any() {
		return none, nil, missing
	}
	return list(m, all, lost)
}

// maxAtOnce bounds the folders that are verified at the same time: each takes some 100 MB for a plan of 100,000 tasks.
const maxAtOnce = 2

// list lists the journals by shard, the one that counts first, and the shards that are gone.
func list(m plan.Plan, all []*journal, lost []int) (rundir.Shards, []string, error) {
	for _, i := range lost {
		all = append(all, &journal{shard: trajectory.Shard{Index: i, Of: m.Shards}})
	}
	slices.SortFunc(all, func(a, b *journal) int {
		return cmp.Or(cmp.Compare(a.shard.Index, b.shard.Index), cmp.Compare(a.started, b.started), cmp.Compare(a.end.Head, b.end.Head))
	})
	if len(all) > plan.MaxShards {
		return rundir.Shards{}, nil, exit.Usagef("leave out the younger journals of shards that ran twice", "%d journals are given, and a run has %d at most", len(all), plan.MaxShards)
	}
	merged, folders, entry := make([]trajectory.ShardMerged, len(all)), make([]string, len(all)), map[int]int{}
	for i, j := range all {
		merged[i], folders[i] = trajectory.ShardMerged{Events: j.end.Events, Head: j.end.Head, Shard: j.shard}, j.folder
		if i > 0 && all[i-1].shard.Index == j.shard.Index {
			if all[i-1].end.Head == j.end.Head {
				return rundir.Shards{}, nil, exit.Usagef("give one of them", "%q and %q hold the same journal of shard %d", all[i-1].folder, j.folder, j.shard.Index)
			}
			merged[i].Superseded = true
			continue
		}
		entry[j.shard.Index] = i + 1
	}
	counted := make([]int, len(m.Tasks))
	for i := range counted {
		at := entry[i%m.Shards+1]
		if merged[at-1].Events == 0 {
			merged[at-1].Lost++
			continue
		}
		counted[i] = at
	}
	return rundir.NewShards(m, merged, counted), folders, nil
}

// find returns the folders of runs and shards among those given and in them, each once.
func find(given []string) (folders []string, err error) {
	isRun := func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, plan.ManifestFile))
		return err == nil
	}
	for _, dir := range given {
		if isRun(dir) {
			folders = append(folders, dir)
			continue
		}
		inside, err := os.ReadDir(dir)
		if err != nil {
			return nil, exit.New(exit.Usage, err, "name the folders of the shards, as gaia run --plan --shard printed them, or one that holds them")
		}
		for _, e := range inside {
			// What begins with a dot is a folder that was never finished.
			if at := filepath.Join(dir, e.Name()); !strings.HasPrefix(e.Name(), ".") && isRun(at) {
				folders = append(folders, at)
			}
		}
	}
	var seen []fs.FileInfo
	for i, dir := range folders {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }); at >= 0 {
			return nil, exit.Usagef("give it once", "%q and %q are the same folder", folders[at], folders[i])
		}
		seen = append(seen, info)
	}
	return folders, nil
}

// identify returns what shard a folder is of, by its delegation, and whether it can be done. It reads no journal.
func identify(f *planfolder.Folder, folder string) (_ *journal, done bool, err error) {
	dir := os.DirFS(folder)
	manifest, err := rundir.ManifestDigest(dir)
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) || err == nil && manifest != f.ManifestSHA256 {
		return nil, false, foreign(f, folder)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", view.Quote(folder), err)
	}
	if _, err := os.Lstat(filepath.Join(folder, plan.DelegationFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, false, exit.Usagef("name the folders that gaia run --plan --shard wrote", "%q is of this plan, and not of a shard: it has no %s", folder, plan.DelegationFile)
	}
	envelope, err := rundir.ReadFile(dir, plan.DelegationFile, plan.MaxDelegation)
	if err != nil {
		return nil, false, damaged(folder, err)
	}
	d, _, err := f.Plan.ReadDelegation(envelope, f.ManifestSHA256, f.Key)
	if err != nil {
		return nil, false, damaged(folder, err)
	}
	if d.Shard.Of == 0 {
		return nil, false, exit.Usagef("gaia serve merges what its workers did", "%q is the folder of a worker", folder)
	}
	_, err = os.Lstat(filepath.Join(folder, trajectory.CheckpointFile))
	return &journal{folder: folder, shard: d.Shard}, err == nil, nil
}

// verify verifies the folder of a shard, and reports whether it is done.
func (j *journal) verify(f *planfolder.Folder) (done bool, err error) {
	signed := f.Signed()
	found, err := rundir.Verify(os.DirFS(j.folder), rundir.Options{Plan: &signed, Event: func(e trajectory.Event) error {
		if e.Seq == 0 {
			j.started = e.ID
		}
		return nil
	}})
	if err != nil {
		return false, damaged(j.folder, err)
	}
	if found.ManifestSHA256 != f.ManifestSHA256 || found.Shard == nil || found.Shard.Shard != j.shard {
		return false, fmt.Errorf("%q changed while it was read", j.folder)
	}
	j.end = found.End
	return found.ShardDone, nil
}

// Merge is a run that can be made.
type Merge struct {
	Plan    *planfolder.Folder
	Salts   grading.Salts
	Shards  rundir.Shards
	Folders []string // of each entry of Shards; "": it is gone
	Place   string   // of the run directory
	Begun   bool     // it is there, and may be unfinished
}

// Prepare reads a plan folder and the salts beside it, and then does what [Plan] does, for a run below out. lost names
// shards as [Lost] reads them. A run directory of other journals at its place is an error of usage.
func Prepare(planDir, out string, folders, lost []string, verified func(folder string, done, of int)) (m Merge, err error) {
	if m.Plan, err = planfolder.Open(planDir); err != nil {
		return m, err
	}
	m.Plan.Release()
	gone, err := Lost(lost, m.Plan.Plan.Shards)
	if err != nil {
		return m, err
	}
	if m.Salts, err = m.Plan.Salts(); err != nil {
		return m, err
	}
	if m.Shards, m.Folders, err = Plan(m.Plan, folders, gone, verified); err != nil {
		return m, err
	}
	m.Place = filepath.Join(out, m.Plan.Plan.RunID)
	m.Begun, err = begun(m.Place, m.Plan, m.Shards)
	return m, err
}

// begun reports whether the run of these shards is at place already: it may be unfinished. Another run there is an error of
// usage.
func begun(place string, f *planfolder.Folder, shards rundir.Shards) (bool, error) {
	dir := os.DirFS(place)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	manifest, err := rundir.ManifestDigest(dir)
	if err != nil {
		return false, err
	}
	there, err := rundir.ReadShards(dir, f.Plan)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	old, err := there.Encode()
	if err != nil {
		return false, err
	}
	now, err := shards.Encode()
	if err == nil && (manifest != f.ManifestSHA256 || string(old) != string(now)) {
		err = exit.Usagef("look at it with: gaia show "+view.Quote(place)+"; to merge these, choose another place with --out", "%q exists, and is of another plan or of other journals", place)
	}
	return err == nil, err
}

// foreign is the error of a folder of another plan than that which is merged.
func foreign(f *planfolder.Folder, folder string) error {
	m, _, _, err := rundir.ReadPlan(os.DirFS(folder))
	if err != nil {
		return damaged(folder, err)
	}
	return exit.Usagef("give the shards of one plan, and name its folder by --plan", "%q is of the plan of run %s, and %q of that of run %s", folder, m.RunID, f.Dir, f.Plan.RunID)
}

// damaged is the error of a folder that does not verify, or that cannot be read.
func damaged(folder string, err error) error {
	fault := (*trajectory.Fault)(nil)
	if !errors.As(err, &fault) {
		return fmt.Errorf("%s: %w", view.Quote(folder), err)
	}
	return exit.New(exit.Evidence, fmt.Errorf("%q does not verify: %w", folder, err), "copy it again from the machine that ran the shard; what is wrong with it: gaia verify "+view.Quote(folder))
}

// Missing means that there is no run yet: shards have no journal, or one that is not done.
type Missing struct {
	Plan   string // folder of the plan
	Of     int    // shards of the plan
	Absent []int  // shards that no folder is of
	Out    string // where the folders of the others are

	undone []*journal
}

func (e *Missing) any() bool { return len(e.Absent) > 0 || len(e.undone) > 0 }

func (e *Missing) Error() string {
	var parts []string
	if len(e.Absent) > 0 {
		parts = append(parts, "missing: "+Ranges(e.Absent))
	}
	if len(e.undone) > 0 {
		var undone []int // one may have several journals
		for _, j := range e.undone {
			undone = append(undone, j.shard.Index)
		}
		slices.Sort(undone)
		parts = append(parts, "not done: "+Ranges(slices.Compact(undone)))
	}
	return fmt.Sprintf("not all of the %d shards are there: %s", e.Of, strings.Join(parts, "; "))
}

// maxCommands bounds the commands that an error gives.
const maxCommands = 16

// Exit returns the error with the commands that make the shards.
func (e *Missing) Exit() *exit.Error {
	command := func(index int, out string) string {
		return fmt.Sprintf("gaia run --plan %s --shard %d/%d --out %s", view.Quote(e.Plan), index, e.Of, view.Quote(out))
	}
	var hints []string
	for _, j := range e.undone {
		hints = append(hints, command(j.shard.Index, filepath.Dir(filepath.Clean(j.folder))))
	}
	for _, index := range e.Absent {
		hints = append(hints, command(index, e.Out))
	}
	if more := len(hints) - maxCommands; more > 0 {
		hints = append(hints[:maxCommands], fmt.Sprintf("and so on for %d more, with the number of each as --shard", more))
	}
	if len(e.Absent) > 0 {
		hints = append(hints, "if their journals are gone for good: --lost "+Ranges(e.Absent)+", by which their tasks count as wrong and the audit has a finding for each shard")
	}
	return &exit.Error{Code: exit.Incomplete, Err: e, Hints: hints}
}

// Ranges writes ascending numbers as "3,7-9".
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ",")
}

// Lost reads the shards that flags such as "3" and "7-9" name, of those from 1 to of. It returns them in order, each once.
func Lost(flags []string, of int) (lost []int, err error) {
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > of || strconv.Itoa(n) != s {
			return 0
		}
		return n
	}
	for _, flag := range flags {
		from, to, isRange := strings.Cut(flag, "-")
		if !isRange {
			to = from
		}
		first, last := number(from), number(to)
		if first == 0 || last < first {
			return nil, exit.Usagef(fmt.Sprintf("shards are numbered 1 to %d: --lost 3,7-9", of), "--lost %q names no shards of the plan", flag)
		}
		for i := first; i <= last; i++ {
			lost = append(lost, i)
		}
	}
	slices.Sort(lost)
	lost = slices.Compact(lost)
	if len(lost) == of && of > 0 {
		return nil, exit.Usagef("start a new run: gaia run --plan", "--lost names all %d shards, and nothing is left to merge", of)
	}
	return lost, nil
}

// Unspent says of a merged run that tasks were skipped in some shards that had no money left while others had money left, "" if
// that is not so. What was left is the part of a shard less its attempts.
func Unspent(f *rundir.Fold) string {
	limit := f.Manifest.Budgets.RunCostMicroUSD
	if f.Shards == nil || limit == 0 {
		return ""
	}
	entries := f.Shards.Shards
	spent, skipped := make([]int64, len(entries)), make([]int, len(entries))
	for _, t := range f.Tasks {
		at := f.Shards.Counted[t.Index] - 1
		if at < 0 {
			continue
		}
		if len(t.Attempts) == 0 {
			skipped[at]++
		}
		for _, a := range t.Attempts {
			if a.CostMicroUSD == nil {
				return "" // what is left cannot be known
			}
			spent[at] += *a.CostMicroUSD
		}
	}
	var short, rich []int // shards
	tasks, left := 0, int64(0)
	for i, e := range entries {
		if e.Shard.Of == 0 {
			return "" // workers share their money
		}
		switch rest := f.Manifest.Part(e.Shard, limit) - spent[i]; {
		case skipped[i] > 0:
			short, tasks = append(short, e.Shard.Index), tasks+skipped[i]
		case e.Events > 0 && !e.Superseded && rest > 0:
			rich, left = append(rich, e.Shard.Index), left+rest
		}
	}
	if tasks == 0 || left == 0 {
		return ""
	}
	return fmt.Sprintf("%s skipped, since the money of shard %s was spent, while shard %s had %s left: a plan of fewer shards divides --max-cost less",
		view.Count(tasks, "task"), Ranges(short), Ranges(rich), view.Dollars(&left))
}
