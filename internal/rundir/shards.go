package rundir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// A merged run has the journals of its shards, unchanged, in folders of ShardsDir, and ShardsFile, which lists them.
// Line n of such a run is the line n of all journals one after the other: those of the shards in the order of
// ShardsFile, then events.jsonl.
const (
	ShardsFile = "shards.json"
	ShardsDir  = "shards"
)

const shardsSchema = "gaia.shards/1"

// Shards is shards.json.
type Shards struct {
	Counted []int       `json:"counted"` // of each task in plan order: the entry, from 1, whose lines count; 0: none
	RunID   string      `json:"run_id"`
	Schema  string      `json:"schema"`
	Shards  []ShardFile `json:"shards"`
}

// ShardFile is an entry of shards.json: what shard_merged says, and where the files of the shard are.
type ShardFile struct {
	Folder string `json:"folder,omitzero"` // below ShardsDir; left out: the journal is gone
	trajectory.ShardMerged
}

// Dir returns the folder of a shard in the run, as a path with slashes; "" if its journal is gone.
func (s ShardFile) Dir() string {
	if s.Folder == "" {
		return ""
	}
	return path.Join(ShardsDir, s.Folder)
}

// Journal returns the name of the journal of a shard in the run; "" if it is gone.
func (s ShardFile) Journal() string {
	if s.Folder == "" {
		return ""
	}
	return path.Join(s.Dir(), trajectory.JournalFile)
}

// NewShards returns the list of the journals of a run, in order, and of what counts in them. It names their folders: by
// the index, and of a further journal of the same index by "<index>.2" and so on.
func NewShards(m plan.Plan, merged []trajectory.ShardMerged, counted []int) Shards {
	s := Shards{Counted: counted, RunID: m.RunID, Schema: shardsSchema}
	seen := map[int]int{}
	for _, one := range merged {
		file := ShardFile{ShardMerged: one}
		if one.Events > 0 {
			seen[one.Shard.Index]++
			file.Folder = strconv.Itoa(one.Shard.Index)
			if n := seen[one.Shard.Index]; n > 1 {
				file.Folder += "." + strconv.Itoa(n)
			}
		}
		s.Shards = append(s.Shards, file)
	}
	return s
}

// Events returns how many events the journals have together; 0 for nil.
func (s *Shards) Events() (n int64) {
	if s != nil {
		for _, one := range s.Shards {
			n += one.Events
		}
	}
	return n
}

// Encode returns shards.json.
func (s Shards) Encode() ([]byte, error) { return canonical.Encode(s) }

// ReadShards reads shards.json of a run of a plan. One whose entries contradict each other or the plan is a
// *trajectory.Fault; the error matches fs.ErrNotExist where the run is not a merged one.
func ReadShards(dir fs.FS, m plan.Plan) (Shards, error) {
	refuse := func(format string, args ...any) (Shards, error) {
		return Shards{}, trajectory.Faultf(ShardsFile, format, args...)
	}
	var s Shards
	data, err := ReadFile(dir, ShardsFile, maxPlan)
	if isMissing(err) {
		return s, fmt.Errorf("reading %s: %w", ShardsFile, fs.ErrNotExist)
	}
	if err != nil {
		return s, err
	}
	if err := canonical.Decode(data, &s); err != nil {
		return refuse("%v", err)
	}
	merged := make([]trajectory.ShardMerged, len(s.Shards))
	for i, file := range s.Shards {
		merged[i] = file.ShardMerged
	}
	again, err := NewShards(m, merged, s.Counted).Encode()
	switch {
	case err != nil || string(again) != string(data):
		return refuse("is not written as the list of the journals of this run is")
	case len(s.Shards) < 1 || len(s.Shards) > plan.MaxShards:
		return refuse("lists %d journals, not 1 to %d", len(s.Shards), plan.MaxShards)
	case len(s.Counted) != len(m.Tasks):
		return refuse("counts %d tasks, and %d are planned", len(s.Counted), len(m.Tasks))
	}
	if reason := s.fault(m); reason != "" {
		return refuse("%s", reason)
	}
	return s, nil
}

// fault says what in the list cannot be, "" if nothing.
func (s Shards) fault(m plan.Plan) string {
	of, first := s.Shards[0].Shard.Of, map[int]int{} // of a shard that has an entry that is not superseded: it
	keys, heads := map[string]int{}, map[string]bool{}
	for i, f := range s.Shards {
		gone := f.Events == 0
		switch {
		case f.Shard.Of != of || of != 0 && of != m.Shards:
			return "mixes shards and workers, or has shards that the plan does not have"
		case f.Shard.Index < 1 || f.Shard.Index > plan.MaxShards || of != 0 && f.Shard.Index > of:
			return fmt.Sprintf("lists shard %d of %d", f.Shard.Index, of)
		case f.Events < 0 || f.Events > MaxFile || f.Lost < 0 || gone && (of == 0 || f.Head != "" || f.Shard.Key != "" || f.Superseded), !gone && !canonical.IsDigest(f.Head):
			return fmt.Sprintf("entry %d is neither of a journal nor of one that is gone", i+1)
		case of == 0 && f.Superseded:
			return fmt.Sprintf("entry %d supersedes the whole journal of a worker", i+1)
		case f.Lost > len(m.Tasks):
			return fmt.Sprintf("entry %d lost more tasks than are planned", i+1)
		case !gone && heads[f.Head]:
			return fmt.Sprintf("entry %d lists a journal a second time", i+1)
		case !gone && keys[f.Shard.Key] != 0 && keys[f.Shard.Key] != f.Shard.Index:
			return fmt.Sprintf("entry %d has the key of shard %d", i+1, keys[f.Shard.Key])
		}
		if !gone {
			keys[f.Shard.Key], heads[f.Head] = f.Shard.Index, true
		}
		switch {
		case f.Superseded:
		case first[f.Shard.Index] != 0:
			return fmt.Sprintf("has two journals of shard %d that count", f.Shard.Index)
		default:
			first[f.Shard.Index] = i + 1
		}
	}
	for i, f := range s.Shards {
		if f.Superseded && (first[f.Shard.Index] == 0 || s.Shards[first[f.Shard.Index]-1].Events == 0) {
			return fmt.Sprintf("entry %d is superseded, and no journal of its shard counts", i+1)
		}
	}
	if of != 0 && len(first) != of {
		return fmt.Sprintf("has no journal of %d of the %d shards", of-len(first), of)
	}
	lost := make([]int, len(s.Shards))
	for i, n := range s.Counted {
		switch {
		case n < 0 || n > len(s.Shards), n == 0 && of == 0:
			return fmt.Sprintf("task %d of the plan has no journal that is listed", i+1)
		case of == 0:
			continue
		}
		at := first[i%of+1]
		gone := s.Shards[at-1].Events == 0
		if gone {
			lost[at-1]++
		}
		if gone && n != 0 || !gone && n != at {
			return fmt.Sprintf("task %d of the plan does not count in its shard", i+1)
		}
	}
	for i, f := range s.Shards {
		if of != 0 && f.Lost != lost[i] {
			return fmt.Sprintf("entry %d miscounts the tasks that are lost", i+1)
		}
	}
	return ""
}

// Journals returns the names of the journals of a run or package in the order in which their lines count.
func (f *Fold) Journals() []string {
	var names []string
	if f.Shards != nil {
		for _, s := range f.Shards.Shards {
			if s.Events > 0 {
				names = append(names, s.Journal())
			}
		}
	}
	return append(names, trajectory.JournalFile)
}

// Place returns the journal and the line in it, from 1, of an event by its Seq, which counts through all journals.
func (f *Fold) Place(seq int64) (journal string, line int64) {
	if f.Shards != nil {
		for _, s := range f.Shards.Shards {
			if seq < s.Events {
				return s.Journal(), seq + 1
			}
			seq -= s.Events
		}
	}
	return trajectory.JournalFile, seq + 1
}

// Superseded adds up the attempts in the journals of shards that do not count.
type Superseded struct {
	Attempts     int               `json:"attempts"`
	CostMicroUSD *int64            `json:"cost_microusd"` // null: a call's price is unknown
	Tasks        int               `json:"tasks"`         // that have lines in a journal that does not count for them
	Tokens       trajectory.Tokens `json:"tokens"`
}

// ShardsSummary says of what journals a merged run was made.
type ShardsSummary struct {
	Journals   int        `json:"journals"`
	Lost       int        `json:"lost"`    // tasks whose attempts are gone
	Planned    int        `json:"planned"` // shards; 0: workers
	Superseded Superseded `json:"superseded"`
}

// String describes a merged run in a line.
func (s ShardsSummary) String() string {
	of := "workers"
	if s.Planned > 0 {
		of = counted(s.Planned, "shard")
	}
	return fmt.Sprintf("%s of %s merged, %s lost, %s superseded", counted(s.Journals, "journal"), of, counted(s.Lost, "task"), counted(s.Superseded.Attempts, "attempt"))
}

// ShardsSummary returns how the run was merged; nil if it is not a merged one.
func (f *Fold) ShardsSummary() *ShardsSummary {
	if f.Shards == nil || len(f.Shards.Shards) == 0 { // the latter in a bundle of one task
		return nil
	}
	s := &ShardsSummary{Planned: f.Shards.Shards[0].Shard.Of, Superseded: f.superseded}
	for _, one := range f.Shards.Shards {
		s.Lost += one.Lost
		if one.Events > 0 {
			s.Journals++
		}
	}
	return s
}

// part is what is known of one journal of a run: its own, or that of a shard.
type part struct {
	base       int64            // events of the journals before it
	shard      *plan.Delegation // nil: the journal of the run
	number     int              // of a shard of a merged run: its entry of shards.json, from 1
	tasks      map[string]*Task // of a shard: those that have lines in it
	tree       trajectory.Tree  // of a shard: the tasks that are committed, in that order
	merged     int              // shard_merged events
	resumed    bool
	begun      bool     // a task, since the process began or resumed
	asked      []string // kinds of preflight, since then
	superseded Inputs   // of attempts that do not count
}

// OfShard makes a fold that has no events one of the journal of a shard alone. Its tasks are those of the shard; of a
// worker those that have lines.
func (f *Fold) OfShard(d plan.Delegation) {
	f.Shard = &d
	f.part = part{shard: &d, tasks: map[string]*Task{}}
	var own []*Task
	for _, t := range f.Tasks {
		if d.Shard.Of != 0 && d.Has(t.Index) {
			own = append(own, t)
		}
	}
	f.Tasks = own
}

// Merge makes a fold that has no events one of a merged run.
func (f *Fold) Merge(s Shards) {
	f.Shards, f.superseded, f.askedToo = &s, Superseded{CostMicroUSD: new(int64)}, map[int][sha256.Size]byte{}
}

// readParts finds out whether the files are of a run, of a shard, or of a merged run. It returns the key of the shard.
func (f *Fold) readParts(dir fs.FS, planKey sign.PublicKey) (key sign.PublicKey, err error) {
	if f.Manifest.Shards == 0 {
		return key, nil
	}
	shards, err := ReadShards(dir, f.Manifest)
	if err == nil {
		f.Merge(shards)
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	envelope, err := ReadFile(dir, plan.DelegationFile, plan.MaxDelegation)
	if isMissing(err) {
		return key, trajectory.Faultf(plan.ManifestFile, "is of a plan for shards, and neither %s nor %s is there", ShardsFile, plan.DelegationFile)
	}
	if err != nil {
		return key, err
	}
	d, key, err := f.Manifest.ReadDelegation(envelope, f.ManifestSHA256, planKey)
	if err == nil {
		f.OfShard(d)
	}
	return key, err
}

// inPart returns the task that a line of the current journal belongs to: one that counts elsewhere has another value
// here, which is dropped at the end of the journal.
func (f *Fold) inPart(t *Task) (_ *Task, reason string) {
	p := &f.part
	if p.shard == nil {
		return t, ""
	}
	if known := p.tasks[t.Plan.TaskID]; known != nil {
		return known, ""
	}
	if !p.shard.Has(t.Index) {
		return nil, fmt.Sprintf("task %q is not one of %s", t.Plan.TaskID, p.shard)
	}
	switch {
	case f.Shards != nil && f.Shards.Counted[t.Index] != p.number:
		t = &Task{Plan: t.Plan, Index: t.Index, votes: t.votes, superseded: true}
	case f.Shards == nil && p.shard.Shard.Of == 0:
		f.Tasks = append(f.Tasks, t)
	}
	p.tasks[t.Plan.TaskID] = t
	return t, ""
}

// foreign says why an event cannot be in the current journal of a run that has shards, "" if it can.
func (f *Fold) foreign(p trajectory.Payload, task bool) string {
	switch p := p.(type) {
	case trajectory.ShardMerged:
		if f.Shards == nil || f.part.shard != nil || f.part.merged == len(f.Shards.Shards) {
			return "merges a shard that " + ShardsFile + " does not list"
		}
	case trajectory.TaskCommitted:
		if f.part.shard == nil {
			return "commits a task in a journal that is not a shard's"
		}
	case trajectory.Judgment, trajectory.TaskSealed, trajectory.JudgeBattery, trajectory.SecurityEvent:
		if f.part.shard != nil {
			return "grades in the journal of a shard"
		}
	case trajectory.RunCompleted:
		if f.part.shard != nil && p.Stopped == "" {
			return "completes the run in the journal of a shard"
		}
	default:
		if task && f.Shards != nil && f.part.shard == nil {
			return "is of an attempt, in a journal that has none: those of the shards do"
		}
	}
	if task && f.Shards != nil && f.part.shard == nil && f.part.merged < len(f.Shards.Shards) {
		return "comes before all shards are merged"
	}
	return ""
}

// commit takes the end of a task in a shard, before its line is counted.
func (f *Fold) commit(t *Task, p trajectory.TaskCommitted) (reason string) {
	switch {
	case t.Open() != nil, t.votes && !f.Settled(t) && f.Manifest.Budgets.RunCostMicroUSD == 0:
		return "is committed before it is settled"
	case p.Attempts != len(t.Attempts) || p.Digest != t.linesDigest():
		return "is committed with other lines than it has"
	}
	t.Committed = &p
	return ""
}

// linesDigest returns the digest of the lines of a task so far.
func (t *Task) linesDigest() string {
	sum := sha256.Sum256(nil)
	if t.digest != nil {
		t.digest.Sum(sum[:0])
	}
	return canonical.DigestText(sum)
}

// Commit returns the payload that ends a task of a shard.
func (f *Fold) Commit(t *Task) trajectory.TaskCommitted {
	return trajectory.TaskCommitted{Attempts: len(t.Attempts), Digest: t.linesDigest()}
}

// ShardCheckpoint returns the tree head of the journal of a shard that ends at end. Its leaves are the tasks in the order
// in which they were committed; they have no salts, which the shard does not know.
func (f *Fold) ShardCheckpoint(end trajectory.End) (trajectory.Checkpoint, error) {
	root, err := f.part.tree.Root()
	return trajectory.Checkpoint{RunID: f.Manifest.RunID, Size: f.part.tree.Size(), Root: root, ManifestSHA256: f.ManifestSHA256,
		Journal: end, Rehearsal: f.Manifest.Rehearsal}, err
}

// AllCommitted reports whether every task of a shard is committed. A worker's can always be.
func (f *Fold) AllCommitted() bool {
	for _, t := range f.Tasks {
		if t.Committed == nil {
			return false
		}
	}
	return true
}

// ReadShards verifies the journals of a merged run that lie in dir, and takes their events, before those of events.jsonl.
// visit, if not nil, is given each event that counts, when it has found its place. files, if not nil, is given the digests
// of the files, by name.
func (f *Fold) ReadShards(dir fs.FS, key sign.PublicKey, files map[string]string, visit func(e trajectory.Event, line []byte) error) error {
	list, err := f.Shards.Encode()
	if err != nil {
		return err
	}
	if files != nil {
		files[ShardsFile] = canonical.Digest(list)
	}
	base, started := int64(0), make([]string, len(f.Shards.Shards))
	for i, s := range f.Shards.Shards {
		if s.Events == 0 {
			continue
		}
		if started[i], err = f.readShard(dir, i+1, s, base, key, files, visit); err != nil {
			return inFolder(s.Dir(), err)
		}
		base += s.Events
	}
	for i, s := range f.Shards.Shards {
		for j, counts := range f.Shards.Shards {
			if s.Superseded && !counts.Superseded && s.Shard.Index == counts.Shard.Index && started[i] < started[j] {
				return trajectory.Faultf(ShardsFile, "entry %d is superseded, and began before entry %d of the same shard", i+1, j+1)
			}
		}
	}
	f.reading.Lock()
	f.part = part{base: base}
	f.reading.Unlock()
	return nil
}

// ShardOf returns the entry of shards.json that counts for a task of a merged run; its zero value if the attempts are gone.
func (f *Fold) ShardOf(t *Task) ShardFile {
	if number := f.Shards.Counted[t.Index]; number > 0 {
		return f.Shards.Shards[number-1]
	}
	return ShardFile{}
}

// Name names a shard for a reader: "shard 3 of 64" or "worker 3".
func (s ShardFile) Name() string { return plan.Delegation{Shard: s.Shard}.String() }

// OnSuperseded gives each event of an attempt that does not count to visit, with its line, when it has found its place:
// who is shown the events of a run sees those that count.
func (f *Fold) OnSuperseded(visit func(e trajectory.Event, line []byte) error) { f.dropped = visit }

// inFolder gives a fault of a file of a shard the name that the file has in the run.
func inFolder(dir string, err error) error {
	var fault *trajectory.Fault
	if errors.As(err, &fault) && slices.Contains([]string{plan.DelegationFile, trajectory.CheckpointFile, trajectory.JournalFile}, fault.File) {
		return &trajectory.Fault{File: path.Join(dir, fault.File), Line: fault.Line, Reason: fault.Reason, Hint: fault.Hint}
	}
	return err
}

// readShard reads the journal of one entry. started is greater as text for what began later: the id of its run_started,
// and its head.
func (f *Fold) readShard(dir fs.FS, number int, s ShardFile, base int64, key sign.PublicKey, files map[string]string,
	visit func(e trajectory.Event, line []byte) error) (started string, err error) {
	envelope, err := ReadFile(dir, path.Join(s.Dir(), plan.DelegationFile), plan.MaxDelegation)
	if err != nil {
		return "", err
	}
	d, shardKey, err := f.Manifest.ReadDelegation(envelope, f.ManifestSHA256, key)
	if err != nil {
		return "", err
	}
	if d.Shard != s.Shard {
		return "", trajectory.Faultf(plan.DelegationFile, "is of another shard or key than "+ShardsFile+" lists")
	}
	journal, _, err := OpenFile(dir, s.Journal(), MaxFile)
	if err != nil {
		return "", err
	}
	defer journal.Close()
	f.reading.Lock()
	f.part = part{base: base, shard: &d, number: number, tasks: map[string]*Task{}}
	f.reading.Unlock()
	whole := sha256.New()
	lines := io.Reader(journal)
	if files != nil {
		lines = io.TeeReader(journal, whole)
	}
	end, torn, err := trajectory.ReadJournal(lines, f.Manifest.RunID, f.ManifestSHA256, func(e trajectory.Event, line []byte) error {
		f.reading.Lock()
		defer f.reading.Unlock()
		if e.Seq == 0 {
			started = e.ID + " " + s.Head
		}
		e.Seq += base
		if err := f.Take(&e, line); err != nil {
			return err
		}
		if reason := f.exceeds(Options{}); reason != "" {
			return &trajectory.Fault{File: trajectory.JournalFile, Line: e.Seq - base + 1, Reason: reason}
		}
		show := visit
		if e.TaskID != "" && f.part.tasks[e.TaskID].superseded {
			show = f.dropped
		}
		if show == nil {
			return nil
		}
		return show(e, line)
	})
	if err != nil {
		return "", err
	}
	if torn != nil || end.Events != s.Events || end.Head != s.Head {
		return "", trajectory.Faultf(trajectory.JournalFile, "does not end where "+ShardsFile+" says")
	}
	head, err := f.ShardCheckpoint(end)
	if err != nil {
		return "", err
	}
	note, err := ReadFile(dir, path.Join(s.Dir(), trajectory.CheckpointFile), maxCheckpoint)
	if err != nil {
		return "", err
	}
	if err := head.Verify(note, shardKey); err != nil {
		return "", err
	}
	for i, n := range f.Shards.Counted {
		if t := f.Tasks[i]; n == number && t.Committed == nil {
			return "", trajectory.Faultf(trajectory.JournalFile, "does not commit task %q, which counts in it", t.Plan.TaskID)
		}
	}
	if files != nil {
		files[s.Journal()], files[path.Join(s.Dir(), plan.DelegationFile)] = canonical.DigestOf(whole), canonical.Digest(envelope)
		files[path.Join(s.Dir(), trajectory.CheckpointFile)] = canonical.Digest(note)
	}
	return started, f.endPart()
}

// Asked reports whether all attempts at a task, those that do not count included, can be at this question.
func (f *Fold) Asked(t *Task, question string) bool {
	asked, more := f.askedToo[t.Index]
	return t.Asks(question) && (!more || asked == sha256.Sum256([]byte(question)))
}

// anyCommit is the end of a task in the journal of a shard that was read to its end.
var anyCommit trajectory.TaskCommitted

// endPart adds up and drops what does not count of the journal that was read. What its attempts were asked is compared
// with the plan when their task is sealed.
func (f *Fold) endPart() error {
	f.reading.Lock()
	defer f.reading.Unlock()
	f.Stopped = nil // of this journal alone
	for _, t := range f.part.tasks {
		if !t.superseded {
			t.Committed = &anyCommit // its digest was compared, and is large
			continue
		}
		if open := t.Open(); open != nil {
			f.open -= open.bytes
		}
		if len(t.Attempts) > 0 {
			if asked, more := f.askedToo[t.Index]; more && asked != t.asked {
				return trajectory.Faultf(trajectory.JournalFile, "asks another question in task %q than a journal before it", t.Plan.TaskID)
			}
			f.askedToo[t.Index] = t.asked
		}
		f.superseded.Tasks++
		f.superseded.Attempts += len(t.Attempts)
		f.byID[t.Plan.TaskID].Superseded += len(t.Attempts)
		for _, a := range t.Attempts {
			f.superseded.CostMicroUSD = stats.AddCost(f.superseded.CostMicroUSD, a.CostMicroUSD)
			f.superseded.Tokens = f.superseded.Tokens.Add(a.Tokens)
		}
	}
	return nil
}

// verifyShard checks the tree head of a shard's folder, and says why it is no complete run.
func (r *Run) verifyShard(dir fs.FS, compare *comparison) error {
	r.Missing = "it is " + r.Shard.String() + " of a run, not all of whose tasks are committed"
	note, err := ReadFile(dir, trajectory.CheckpointFile, maxCheckpoint)
	if isMissing(err) {
		return compare.end(true, true)
	}
	if err != nil {
		return err
	}
	head, err := r.ShardCheckpoint(r.End)
	if err == nil {
		err = head.Verify(note, r.ShardKey)
	}
	if err != nil {
		return err
	}
	if r.Torn != nil {
		return trajectory.Faultf(trajectory.JournalFile, "has bytes after its last event")
	}
	if err := compare.end(false, false); err != nil {
		return err
	}
	if r.ShardDone = r.Shard.Shard.Of == 0 || r.AllCommitted(); r.ShardDone {
		r.Missing = "it is " + r.Shard.String() + " of a run, which gaia merge makes of all"
	}
	return nil
}
