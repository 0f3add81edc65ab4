package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// Part is the part of a run that a process makes alone: a shard of the plan, or what a worker is given.
type Part struct {
	Delegation plan.Delegation
	Envelope   []byte // of the delegation, by the key of the plan
	Key        sign.Key
	// Next, of a worker, waits for its next task and returns its place in the plan; ok is false after the last. nil: the
	// tasks of the shard, in order.
	Next func(ctx context.Context) (task int, ok bool, err error)
	// Committed, if not nil, is called when task_committed is durable, before another task takes its place, and again
	// for a task that Next gives again or that was committed before the run was resumed. An error stops the run.
	Committed func(ctx context.Context, task int, digest string) error
	// Money, of a worker whose plan has a budget, keeps what all workers may spend together.
	Money budget.Ask
}

// errNotDivided refuses to divide a plan, or to merge it, whose run has one journal.
var errNotDivided = errors.New("the plan is of a run in one process, not for shards or workers")

// CreateShard makes the folder of a shard or a worker at dir. The environment must give the signed plan again. When it
// returns, plan, delegation and run_started are durable and no model was asked anything. Nothing in the folder holds or
// follows from a gold answer or a salt.
func CreateShard(dir string, s Signed, p Part, e Env) (*Run, error) {
	r, old, err := newShard(s, p, e)
	if err == nil {
		err = r.samePlan(s.Plan, old)
	}
	if err == nil {
		files := append(filesOf(s), runfiles.File{Name: plan.DelegationFile, Data: p.Envelope})
		err = r.create(dir, old, files, nil, func() ([]trajectory.Draft, error) {
			r.fold.OfShard(p.Delegation)
			return nil, nil
		})
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ResumeShard is Resume for the folder of a shard or a worker.
func ResumeShard(dir string, s Signed, p Part, e Env) (*Run, error) {
	r, _, err := newShard(s, p, e)
	if err == nil {
		r.Dir = dir
		err = r.resume(s.Plan)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// newShard returns a shard that has no folder yet, and the plan that was signed.
func newShard(s Signed, p Part, e Env) (*Run, plan.Plan, error) {
	r := &Run{env: e, part: &p, secrets: secrets{gold: e.Gold.Map()}}
	m, err := plan.Decode(s.Manifest)
	if err != nil {
		return nil, m, err
	}
	key, err := sign.ParsePublicKey(m.SigningKey)
	if err == nil && m.Shards == 0 {
		err = errNotDivided
	}
	if err != nil {
		return nil, m, err
	}
	d, shardKey, err := m.ReadDelegation(p.Envelope, canonical.Digest(s.Manifest), key)
	switch {
	case err != nil:
		return nil, m, err
	case d != p.Delegation || !shardKey.Equal(p.Key.Public()):
		return nil, m, fmt.Errorf("the delegation is of %s, and its key is not the one given", d)
	case (d.Shard.Of == 0) != (p.Next != nil):
		return nil, m, errors.New("a worker is given its tasks one by one, a shard has its own")
	case d.Shard.Of == 0 && m.Budgets.RunCostMicroUSD > 0 && p.Money == nil:
		return nil, m, errors.New("the plan has a budget, and nothing keeps what all workers may spend")
	}
	return r, m, nil
}

// isWorker reports whether the run is given its tasks one by one.
func (r *Run) isWorker() bool { return r.part != nil && r.part.Next != nil }

// newBudget returns the budget of the run, or of its part, after what was spent before.
func (r *Run) newBudget() *budget.Budget {
	m := r.fold.Manifest
	limit, ask := m.Budgets.RunCostMicroUSD, budget.Ask(nil)
	if r.part != nil {
		limit, ask = m.Part(r.part.Delegation.Shard, limit), r.part.Money
	}
	b := budget.Shared(ask, limit, r.env.Prices, m.Model.Name, m.Model.MaxTokens)
	// A call whose cost is unknown counts as the most expensive that is known, and as no less than a whole completion.
	b.Spend(r.fold.Spent(b.Bound(m.Model.Name, 0, int64(m.Model.MaxTokens))))
	return b
}

// tasks returns the tasks to solve: of a worker those that it is given until drain closes.
func (r *Run) tasks(drain <-chan struct{}) nextTask {
	if !r.isWorker() {
		return r.inOrder()
	}
	again := r.inOrder() // what was committed before the run was resumed may not be known to who gives the tasks
	return func(ctx context.Context) (*rundir.Task, error) {
		for t, _ := again(ctx); t != nil; t, _ = again(ctx) {
			if t.Committed != nil {
				return t, nil
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-drain:
				cancel()
			case <-ctx.Done():
			}
		}()
		for {
			at, ok, err := r.part.Next(ctx)
			switch tasks := r.fold.Manifest.Tasks; {
			case isClosed(drain):
				return nil, nil
			case err != nil || !ok:
				return nil, err
			case at < 0 || at >= len(tasks):
				return nil, fmt.Errorf("task %d is given, and %d are planned", at+1, len(tasks))
			default:
				if t := r.fold.Task(tasks[at].TaskID); r.begin(t) {
					return t, nil
				}
			}
		}
	}
}

// begin reports whether a task that a worker is given is not under way already.
func (r *Run) begin(t *rundir.Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underWay[t] {
		return false
	}
	if r.underWay == nil {
		r.underWay = map[*rundir.Task]bool{}
	}
	r.underWay[t] = true
	return true
}

// commitTask ends a task of a shard, once, and says so.
func (r *Run) commitTask(ctx context.Context, t *rundir.Task) error {
	if err := r.money.Err(); err != nil { // what was left out may have been affordable
		return err
	}
	if t.Committed == nil {
		r.mu.Lock()
		committed := r.fold.Commit(t)
		r.mu.Unlock()
		if _, err := r.log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Payload: committed}); err != nil {
			return err
		}
	}
	if r.part.Committed != nil {
		if err := r.part.Committed(ctx, t.Index, t.Committed.Digest); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, t)
	return nil
}

// Head returns the tree head of a shard now, signed by its key: of all events that are durable.
func (r *Run) Head() ([]byte, error) {
	r.mu.Lock()
	head, err := r.fold.ShardCheckpoint(r.end)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return head.Sign(r.part.Key)
}

// sealShard writes the tree head of a shard whose tasks are committed, and removes the marker.
func (r *Run) sealShard() error {
	if _, err := r.log.Append(); err != nil { // what was enqueued last
		return err
	}
	if !r.isWorker() && !r.fold.AllCommitted() { // what a worker began before it was resumed may be another's now
		return errors.New("the shard cannot be closed: a task is not committed")
	}
	if err := r.checkEnds(); err != nil {
		return err
	}
	note, err := r.Head()
	if err != nil {
		return fmt.Errorf("signing the checkpoint: %w", err)
	}
	return r.files.Seal(runfiles.File{Name: trajectory.CheckpointFile, Data: note})
}

// Merged is what a merged run is made of.
type Merged struct {
	Signed  rundir.SignedPlan
	Files   fs.FS     // has the two files of the signed plan
	Given   plan.Plan // as the environment has it: it must give the signed plan again
	Salts   grading.Salts
	Shards  rundir.Shards
	Folders []string // Folders[i] has the files of entry i of Shards; "": they are gone
}

// CreateMerged makes the directory of the run of a plan under out, of the folders of its shards. It copies them and
// verifies the copies. When it returns, no answer was graded: Execute does that. An interrupted run is resumed by Resume.
func CreateMerged(out string, m Merged, e Env) (*Run, error) {
	if m.Signed.Plan.Shards == 0 {
		return nil, errNotDivided
	}
	swept, err := e.Sweep(m.Given)
	if err != nil {
		return nil, err
	}
	list, err := m.Shards.Encode()
	if err != nil {
		return nil, err
	}
	r := &Run{env: e, swept: swept, secrets: secrets{gold: e.Gold.Map(), salts: m.Salts}, state: state{base: m.Shards.Events()}}
	files := []runfiles.File{{Name: rundir.ShardsFile, Data: list}}
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile} {
		files = append(files, runfiles.File{Name: name, Write: func(w io.Writer) error { return rundir.Copy(w, m.Files, name, rundir.MaxFile) }})
	}
	err = r.create(filepath.Join(out, m.Signed.Plan.RunID), m.Signed.Plan, files, &m.Signed, func() ([]trajectory.Draft, error) {
		if err := r.samePlan(m.Given, r.fold.Manifest); err != nil {
			return nil, err
		}
		return r.takeShards(m.Folders)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// takeShards copies the folders of the shards of a merged run and verifies the copies. It returns the events that say so.
func (r *Run) takeShards(folders []string) ([]trajectory.Draft, error) {
	dir, m := os.DirFS(r.Dir), r.fold.Manifest
	shards, err := rundir.ReadShards(dir, m)
	if err != nil {
		return nil, err
	}
	if len(folders) != len(shards.Shards) {
		return nil, fmt.Errorf("%d folders are given for %d journals", len(folders), len(shards.Shards))
	}
	drafts := make([]trajectory.Draft, len(folders))
	for i, shard := range shards.Shards {
		drafts[i].Payload = shard.ShardMerged
		if shard.Events == 0 {
			continue
		}
		if err := r.files.CopyShard(shard.Folder, folders[i], m.Evidence == plan.EvidenceBodies); err != nil {
			return nil, err
		}
	}
	r.fold.Merge(shards)
	err = r.fold.ReadShards(dir, r.env.Key.Public(), nil, func(e trajectory.Event, _ []byte) error {
		r.unfit.Add(e)
		return nil
	})
	for i := 0; err == nil && i < len(r.fold.Tasks); i++ { // before an answer is graded
		if t := r.fold.Tasks[i]; !r.fold.Asked(t, r.env.Set.Tasks[i].Question) {
			err = trajectory.Faultf(rundir.ShardsFile, "lists a journal that asks another question than planned in task %q", t.Plan.TaskID)
		}
	}
	if err == nil {
		err = r.unwritten
	}
	if unfit := r.Unfit(); err == nil && unfit != nil {
		r.reportUnfit(unfit)
	}
	return drafts, err
}
