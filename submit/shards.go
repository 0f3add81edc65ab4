package submit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// The forms of names that end in the folder of shards or in that of one of them, and in a file of one.
var (
	ofShards  = regexp.MustCompile(`(^|/)` + rundir.ShardsDir + `(/` + shardFolder + `)?$`)
	shardFile = regexp.MustCompile(`(^|/)` + rundir.ShardsDir + `/` + shardFolder + `/(` +
		regexp.QuoteMeta(trajectory.JournalFile) + `|` + trajectory.CheckpointFile + `|` + regexp.QuoteMeta(plan.DelegationFile) + `)$`)
)

const shardFolder = `[1-9][0-9]{0,3}(\.[1-9][0-9]{0,3})?`

// shardFiles returns the names of the files that a package of a merged run has of its shards; none if shards is nil. A
// public one has no journals of theirs.
func shardFiles(shards *rundir.Shards, public bool) []string {
	if shards == nil {
		return nil
	}
	names := []string{rundir.ShardsFile}
	for _, s := range shards.Shards {
		if s.Folder == "" {
			continue
		}
		names = append(names, path.Join(s.Dir(), trajectory.CheckpointFile), path.Join(s.Dir(), plan.DelegationFile))
		if !public {
			names = append(names, s.Journal())
		}
	}
	return names
}

// journalEvents returns how many events each journal of a run has, in their order; own are those of events.jsonl.
func journalEvents(shards *rundir.Shards, own int64) (events []int64) {
	if shards != nil {
		for _, s := range shards.Shards {
			events = append(events, s.Events)
		}
	}
	return append(events, own)
}

// allEvents returns how many events all journals of a run have.
func allEvents(shards *rundir.Shards, own int64) (n int64) {
	for _, events := range journalEvents(shards, own) {
		n += events
	}
	return n
}

// readShards returns shards.json of a run or package of a plan; nil if the plan has no shards.
func readShards(pkg fs.FS, m plan.Plan) (*rundir.Shards, error) {
	shards, err := rundir.ReadShards(pkg, m)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && m.Shards == 0:
		return nil, nil
	case missing:
		return nil, trajectory.Faultf(rundir.ShardsFile, rundir.Missing)
	case err == nil && m.Shards == 0:
		return nil, trajectory.Faultf(rundir.ShardsFile, "is not part of this package")
	case err != nil:
		return nil, err
	}
	return &shards, nil
}

// copyShards copies the files of the shards of a merged run, unchanged.
func (s stage) copyShards(run fs.FS, m plan.Plan) error {
	if m.Shards == 0 {
		return nil
	}
	if err := s.copyFile(run, rundir.ShardsFile, rundir.ShardsFile); err != nil {
		return err
	}
	shards, err := readShards(os.DirFS(s.dir), m)
	if err != nil {
		return err
	}
	for _, shard := range shards.Shards {
		if shard.Folder == "" {
			continue
		}
		if err := os.MkdirAll(s.path(shard.Dir()), 0o755); err != nil {
			return fmt.Errorf("making the package: %w", err)
		}
	}
	for _, name := range shardFiles(shards, false)[1:] {
		if err := s.copyFile(run, name, name); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the folders that files lie in, the innermost first.
func folders(files map[string]string) []string {
	all := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); !all[dir]; dir = path.Dir(dir) {
			all[dir] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), len(b)-len(a)) })
}

// checkShardFiles checks that the folder of the shards has exactly the files of names that lie in it, and no folder
// besides theirs.
func checkShardFiles(pkg fs.FS, names []string) error {
	left, folders := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			left[name], folders[dir] = true, true
		}
	}
	if len(folders) == 0 && !holds(pkg)(rundir.ShardsDir) {
		return nil
	}
	err := fs.WalkDir(pkg, rundir.ShardsDir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == rundir.ShardsDir:
			return nil // its files are missing
		case err != nil:
			return fmt.Errorf("reading the package: %w", err)
		case e.IsDir() && folders[name]:
			return nil
		case !left[name]:
			return notPart(name)
		case !e.Type().IsRegular():
			return trajectory.Faultf(name, "is not a regular file")
		}
		delete(left, name)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if left[name] {
			return trajectory.Faultf(name, rundir.Missing)
		}
	}
	return nil
}

// readShards checks of the shards of a public package what can be checked without their journals: that the key of the
// plan delegated to the key of each, and that this one signed where the journal ends that counts.
func (p *Public) readShards(read func(string) ([]byte, error), planSHA256 string) error {
	if p.Shards == nil {
		return nil
	}
	list, err := read(rundir.ShardsFile)
	if err != nil {
		return err
	}
	if again, err := p.Shards.Encode(); err != nil || string(again) != string(list) {
		return cmp.Or(err, changed(rundir.ShardsFile))
	}
	counted := make([]int64, len(p.Shards.Shards)+1)
	for _, n := range p.Shards.Counted {
		counted[n]++
	}
	for i, s := range p.Shards.Shards {
		if s.Folder == "" {
			continue
		}
		if err := p.readShard(read, s, planSHA256, counted[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readShard is readShards for one, in which counted tasks count.
func (p *Public) readShard(read func(string) ([]byte, error), s rundir.ShardFile, planSHA256 string, counted int64) error {
	m, delegation, checkpoint := p.Manifest, path.Join(s.Dir(), plan.DelegationFile), path.Join(s.Dir(), trajectory.CheckpointFile)
	envelope, err := read(delegation)
	if err != nil {
		return err
	}
	d, key, err := m.ReadDelegation(envelope, planSHA256, p.Key)
	if err != nil {
		return inFolder(s.Dir(), err)
	}
	if d.Shard != s.Shard {
		return trajectory.Faultf(delegation, "is of another shard or key than %s lists", rundir.ShardsFile)
	}
	note, err := read(checkpoint)
	if err != nil {
		return err
	}
	head, err := trajectory.ParseCheckpoint(note)
	if err == nil {
		err = head.Verify(note, key)
	}
	if err != nil {
		return inFolder(s.Dir(), err)
	}
	own := int64(len(m.Tasks)) // tasks that it can have
	if of := int64(d.Shard.Of); of != 0 {
		own = (own - int64(d.Shard.Index) + of) / of
	}
	want := trajectory.Checkpoint{RunID: m.RunID, Size: head.Size, Root: head.Root, ManifestSHA256: planSHA256,
		Journal: trajectory.End{Events: s.Events, Head: s.Head}, Rehearsal: m.Rehearsal}
	if head != want || head.Size < counted || head.Size > own || s.Events <= head.Size || s.Events > rundir.MaxFile {
		return trajectory.Faultf(checkpoint, "is not that of the journal that %s lists", rundir.ShardsFile)
	}
	return nil
}

// inFolder gives a fault of a file of a shard the name that the file has in the package.
func inFolder(dir string, err error) error {
	var fault *trajectory.Fault
	if !errors.As(err, &fault) || strings.Contains(fault.File, "/") {
		return err
	}
	return &trajectory.Fault{File: path.Join(dir, fault.File), Line: fault.Line, Reason: fault.Reason, Hint: fault.Hint}
}

// implausibleShards says what in the part of a summary that is about shards no run of these shards gives, "" if nothing.
// What does not count in a journal that is withheld is only bounded.
func implausibleShards(told *rundir.ShardsSummary, shards *rundir.Shards, m plan.Plan) string {
	want := (&rundir.Fold{Shards: shards}).ShardsSummary()
	if want == nil || told == nil {
		if want == nil && told == nil {
			return ""
		}
		return "is of a merged run, or is not, unlike the plan"
	}
	s := told.Superseded
	counts := []int64{int64(s.Attempts), int64(s.Tasks), s.Tokens.Cached, s.Tokens.In, s.Tokens.Out, s.Tokens.Reasoning}
	if s.CostMicroUSD != nil {
		counts = append(counts, *s.CostMicroUSD)
	}
	most := 0 // tasks that have lines in journals that do not count for them
	for _, one := range shards.Shards {
		if one.Superseded || one.Shard.Of == 0 && one.Events > 0 {
			most += len(m.Tasks)
		}
	}
	want.Superseded = s
	if *told != *want || slices.Min(counts) < 0 || s.Tasks > most || s.Tasks == 0 && slices.Max(counts) > 0 {
		return fmt.Sprintf("miscounts what %s has", rundir.ShardsFile)
	}
	return ""
}

// journalDigests returns the digests of the journals of a run, by name.
func journalDigests(run *rundir.Run) map[string]string {
	digests := map[string]string{}
	for _, name := range run.Journals() {
		digests[name] = run.Files[name]
	}
	return digests
}
