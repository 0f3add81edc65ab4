// Package run executes a plan: it creates the run directory, solves the tasks, grades the answers, seals and signs, and
// resumes a run after an interruption.
//
// It is the only place that holds a task's question and its gold answer, and it separates them at once: the agent gets
// an agent.Question, the judge gets the gold. Every step is an event in the journal before it has an effect. The state
// of the run is what [rundir.Fold] computes from those events, so a resumed run knows exactly what a verifier knows.
//
// A shard or a worker ([CreateShard]) solves its part of a signed plan in its own folder, and grades nothing. A merged
// run ([CreateMerged]) has their journals, and grades what they hold. All are executed by [Run.Execute].
//
// A directory runs/<id> appears by rename, with a signed manifest and a durable run_started; unfinished ones are
// runs/.new-*. TestResume, and TestKill in cmd/gaia, show that acknowledged events are kept and that a committed answer
// is never replaced.
package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/outage"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Env, Signed and PlanError are what package runenv has under these names, in signatures of this package.
type (
	Env       = runenv.Env
	Signed    = runenv.Signed
	PlanError = runenv.PlanError
)

// Run is a run directory that this process writes.
type Run struct {
	Dir string

	env     Env
	files   *runfiles.Dir
	gate    *tools.Gate
	log     *trajectory.Log // of the journal
	secrets secrets
	swept   *judgecache.Sweep // of the judge cache, before the run began or was resumed; nil: the run uses none
	money   *budget.Budget    // nil: no limit, or the run does not execute
	grader  *grading.Grader
	unfit   runenv.UnfitWatch
	part    *Part // of a shard or a worker; nil: a whole run
	state
}

// secrets are gold answers and what is computed from them. Nothing of it reaches the agent.
type secrets struct {
	gold     map[string]string
	salts    grading.Salts
	private  grading.Private
	splitIDs *probe.IDs     // both of solve
	answers  *probe.Answers // of the run's tasks; nil: they have no gold
	passages *origin.Passages
}

// state follows the journal.
type state struct {
	mu        sync.Mutex // guards what is up to unwritten
	outage    outage.Outage
	fold      *rundir.Fold
	base      int64                 // events of the shards of a merged run
	end       trajectory.End        // of the journal, as far as fold has taken it; its head is that of a shard alone
	sealed    bool                  // a shard that is done, up to its marker
	underWay  map[*rundir.Task]bool // of a worker
	journal   runfiles.Written
	records   runfiles.Written // trajectories.jsonl
	line      []byte           // room for one of its lines
	unwritten error            // why that file is not complete; it can be rebuilt

	work      string // directory of the workspaces, absolute while tasks are solved
	untouched tools.Untouched
	approved  []string         // tools that this process approves without asking
	unmarked  error            // why the marker could not be written when recording failed
	lost      *UnrecordedError // what ended the evidence of a run that continues without; else nil
	asked     bool             // this process asked the models before the tasks
}

// Sign is [runenv.Sign]: what Create does before there is a directory.
func Sign(p plan.Plan, e Env) (Signed, grading.Salts, error) { return runenv.Sign(p, e) }

// Create makes the directory of a planned run under out. When it returns, the signed manifest and run_started are
// durable and no model was asked anything.
func Create(out string, plan plan.Plan, e Env) (*Run, error) {
	swept, err := e.Sweep(plan)
	if err != nil {
		return nil, err
	}
	plan.Shards = 0 // all of it is done here
	s, salts, err := Sign(plan, e)
	if err != nil {
		return nil, err
	}
	r := &Run{env: e, swept: swept, secrets: secrets{gold: e.Gold.Map(), salts: salts}}
	if err := r.create(filepath.Join(out, s.Plan.RunID), s.Plan, filesOf(s), nil, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// filesOf are the two files of a signed plan.
func filesOf(s Signed) []runfiles.File {
	return []runfiles.File{{Name: plan.ManifestFile, Data: s.Manifest}, {Name: plan.EnvelopeFile, Data: s.Envelope}}
}

// create makes the directory of the run of a plan at place. It is hidden beside it until the files, of which two are the
// signed plan, and the first events are durable. signed, if not nil, is what those two must be. fill, if not nil, is
// called when the journal is open: it completes what the kind of run needs, and returns the events between run_started
// and what the sweep of the judge cache found.
func (r *Run) create(place string, p plan.Plan, files []runfiles.File, signed *rundir.SignedPlan, fill func() ([]trajectory.Draft, error)) (err error) {
	out := filepath.Dir(place)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the directory for runs: %w", err)
	}
	if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("making %s: %w", place, cmp.Or(err, fs.ErrExist))
	}
	r.Dir = filepath.Join(out, ".new-"+filepath.Base(place))
	if err := runfiles.RemoveUnfinished(r.Dir); err != nil {
		return err
	}
	defer func() {
		if err != nil && r.files != nil {
			r.Close()
			os.RemoveAll(r.Dir)
		}
	}()
	var private []byte // nil: of a shard
	if r.part == nil {
		if private, err = canonical.Encode(r.secrets.salts); err != nil {
			return err
		}
		private = append(private, '\n')
	}
	files = append(files, runfiles.File{Name: plan.ConstitutionFile, Data: policy.Constitution(p.Policy)})
	if p.Agent != nil {
		files = append(files, runfiles.File{Name: plan.AgentFilesFile, Data: r.env.AgentFiles})
	}
	if r.files, err = runfiles.Create(r.Dir, private, files...); err != nil {
		return err
	}
	read, err := rundir.ReadSigned(os.DirFS(r.Dir), signed)
	if err != nil {
		return err
	}
	m, digest := read.Plan, read.ManifestSHA256
	if signed != nil && digest != signed.ManifestSHA256 {
		return errors.New("the plan changed while it was copied")
	}
	r.approved = m.Approved
	r.fold = rundir.NewFold(m, digest, r.ended)
	r.unfit.Follow(m, r.secrets.gold)
	if err := r.open(trajectory.End{Head: digest}); err != nil {
		return err
	}
	var drafts []trajectory.Draft
	if fill != nil {
		if drafts, err = fill(); err != nil {
			return err
		}
	}
	started := trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: r.env.Harness, ManifestSHA256: digest, PolicyHash: m.PolicyHash,
		PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent}
	if r.part != nil {
		started.Shard = r.part.Delegation.Shard
	}
	drafts = append(append([]trajectory.Draft{{Payload: started}}, drafts...), r.sweepEvents()...)
	if _, err = r.log.Append(drafts...); err != nil {
		return err
	}
	if err := durable.SyncDir(r.Dir); err != nil {
		return err
	}
	if err := os.Rename(r.Dir, place); err != nil {
		return fmt.Errorf("putting the run directory in its place: %w", err)
	}
	r.Dir, r.files.Path, r.work = place, place, filepath.Join(place, runfiles.WorkDir)
	return durable.SyncDir(out)
}

// open locks the run and opens the files that grow; the journal continues at end.
func (r *Run) open(end trajectory.End) (err error) {
	if err := r.files.Open(); err != nil {
		return err
	}
	r.secrets.private.File = r.files.Private
	m := r.fold.Manifest
	if r.gate, err = r.env.NewGate(m, func() *budget.Budget { return r.money }); err != nil {
		return err
	}
	secret := []byte(r.secrets.salts.Salt)
	if r.part != nil { // which has no salt; what its key signs here is written nowhere
		secret = r.part.Key.Sign([]byte("gaia: passages of an own agent in the shard of " + r.part.Delegation.ManifestSHA256))
	}
	r.secrets.passages = origin.NewPassages(secret)
	r.grader = r.newGrader(m)
	if found := r.Unfit(); found != nil { // before the run was interrupted
		r.reportUnfit(found)
	}
	r.end, r.work = end, filepath.Join(r.Dir, runfiles.WorkDir)
	if r.journal.Bytes, r.records.Bytes, err = r.files.Sizes(); err != nil {
		return err
	}
	c := r.logConfig()
	c.Failed = func(err error) { // at once: the run is not submittable, for good
		r.warn(fmt.Errorf("%w; the run is not submittable any longer", err))
		r.unmarked = r.files.Mark(err.Error())
	}
	if m.Evidence == plan.EvidenceBodies {
		c.Bodies = func(bodies []trajectory.Body) error { return r.files.KeepBodies(bodies) }
	}
	r.log, err = trajectory.NewLog(runfiles.DataSync{File: r.files.Journal}, end, c)
	return err
}

func (r *Run) logConfig() trajectory.LogConfig {
	return trajectory.LogConfig{RunID: r.fold.Manifest.RunID, Now: r.env.Now, Mono: r.env.Mono, Rand: r.env.Rand, Recorded: r.recorded}
}

// recorded follows the journal: the log calls it with each durable event, in order.
func (r *Run) recorded(e trajectory.Event, line []byte) error {
	r.mu.Lock()
	end := trajectory.End{Events: e.Seq + 1, LastID: e.ID}
	if r.part != nil {
		end.Head = canonical.Digest(line)
	}
	e.Seq += r.base
	err := r.fold.Take(&e, line)
	if err == nil {
		r.outage.Saw(e)
		r.end = end
		r.journal.Add(line)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if found := r.unfit.Add(e); found != nil {
		r.reportUnfit(found)
	}
	if r.env.Watch != nil {
		r.env.Watch(e)
	}
	return nil
}

// ended appends the record of an attempt. It can be derived again from the journal, so nothing waits for the disk and a
// failure leaves the evidence complete. After a failure the run cannot be closed until resume rebuilds the file.
func (r *Run) ended(t rundir.Trajectory) error {
	if r.unwritten != nil || r.lost != nil {
		return nil
	}
	line, err := t.AppendTo(r.line[:0])
	if err == nil {
		r.line = line
		_, err = r.files.Trajectories.Write(line)
		r.records.Add(line)
	}
	r.unwritten = err
	return nil
}

// sweepEvents records what the sweep of the judge cache found, also if it found nothing.
func (r *Run) sweepEvents() []trajectory.Draft {
	if r.swept == nil {
		return nil
	}
	return []trajectory.Draft{{Payload: grading.BadEntries(trajectory.JudgeCacheSweep, r.swept.Checked, r.swept.Bad)}}
}

// State returns the run as its events give it, those that no disk took included.
func (r *Run) State() *rundir.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &rundir.Run{Fold: r.fold, End: r.log.End(), Marked: r.fold.Unrecorded}
}

// Finished returns a run that Execute has closed, as the fold followed it while it was written. It reads no journal.
func (r *Run) Finished() (*rundir.Run, error) { return r.fold.Finished(os.DirFS(r.Dir), r.log.End()) }

// Close closes the files and unlocks the run.
func (r *Run) Close() error {
	if r.files == nil {
		return nil
	}
	return r.files.Close()
}

func (r *Run) warn(err error) {
	if r.env.Warn != nil {
		r.env.Warn(err)
	}
}
