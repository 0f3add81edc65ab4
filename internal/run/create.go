package run

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gaia-harness/gaia/audit"
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
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
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
	unfit   audit.UnfitWatch
	state
}

// secrets are gold answers and what is computed from them. Nothing of it reaches the agent.
type secrets struct {
	gold     map[string]string
	salts    grading.Salts
	private  grading.Private
	splitIDs *probe.IDs
	answers  *probe.Answers // of the run's tasks; nil: they have no gold
	passages *origin.Passages
}

// state follows the journal.
type state struct {
	mu        sync.Mutex // guards what is up to unwritten
	outage    outage.Outage
	fold      *rundir.Fold
	followed  int64 // events that fold has taken
	journal   runfiles.Written
	records   runfiles.Written // trajectories.jsonl
	unwritten error            // why that file is not complete; it can be rebuilt

	work     string           // directory of the workspaces
	approved []string         // tools that this process approves without asking
	unmarked error            // why the marker could not be written when recording failed
	lost     *UnrecordedError // what ended the evidence of a run that continues without; else nil
	asked    bool             // this process asked the models before the tasks
}

// Create makes the directory of a planned run under out. When it returns, the signed manifest and run_started are
// durable and no model was asked anything.
func Create(out string, plan plan.Plan, e Env) (_ *Run, err error) {
	swept, err := e.sweep(plan)
	if err != nil {
		return nil, err
	}
	m, err := Complete(plan, e)
	if err != nil {
		return nil, err
	}
	if err := Affords(m, e); err != nil {
		return nil, err
	}
	if m.Agent != nil && e.Look != nil {
		if m.Agent, err = e.Look(e.targets()); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory for runs: %w", err)
	}
	id, err := ulid.New(ulid.Timestamp(e.Now()), e.Rand)
	if err != nil {
		return nil, fmt.Errorf("making a run id: %w", err)
	}
	salts, err := grading.NewSalts(e.Rand, m.Rehearsal)
	if err != nil {
		return nil, err
	}
	m.RunID, m.Created = id.String(), e.Now().UTC().Format(trajectory.TimeFormat)
	if err := salts.Commit(&m, e.Set, e.Gold); err != nil {
		return nil, err
	}
	r := &Run{Dir: filepath.Join(out, ".new-"+m.RunID), env: e, swept: swept, secrets: secrets{gold: e.Gold.Map(), salts: salts}}
	defer func() {
		if err != nil && r.files != nil {
			r.Close()
			os.RemoveAll(r.Dir)
		}
	}()
	manifest, err := r.createFiles(m)
	if err != nil {
		return nil, err
	}
	r.approved = m.Approved
	r.fold = rundir.NewFold(m, canonical.Digest(manifest), r.ended)
	r.unfit.Follow(m, r.secrets.gold)
	if err := r.open(trajectory.End{Head: r.fold.ManifestSHA256}); err != nil {
		return nil, err
	}
	drafts := []trajectory.Draft{{Payload: trajectory.RunStarted{
		GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: r.fold.ManifestSHA256, PolicyHash: m.PolicyHash,
		PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent,
	}}}
	if _, err = r.log.Append(append(drafts, r.sweepEvents()...)...); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(r.Dir); err != nil {
		return nil, err
	}
	place := filepath.Join(out, m.RunID)
	if err := os.Rename(r.Dir, place); err != nil {
		return nil, fmt.Errorf("putting the run directory in its place: %w", err)
	}
	r.Dir, r.files.Path, r.work = place, place, filepath.Join(place, runfiles.WorkDir)
	return r, durable.SyncDir(out)
}

// createFiles creates the directory up to its first event and returns the manifest.
func (r *Run) createFiles(m plan.Plan) ([]byte, error) {
	manifest, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	envelope, err := sign.Seal(r.env.Key, plan.ManifestType, manifest)
	if err != nil {
		return nil, fmt.Errorf("signing the manifest: %w", err)
	}
	private, err := canonical.Encode(r.secrets.salts)
	if err != nil {
		return nil, err
	}
	files := []runfiles.File{{Name: plan.ManifestFile, Data: manifest}, {Name: plan.EnvelopeFile, Data: envelope},
		{Name: plan.ConstitutionFile, Data: policy.Constitution(m.Policy)}}
	if m.Agent != nil {
		files = append(files, runfiles.File{Name: plan.AgentFilesFile, Data: r.env.AgentFiles})
	}
	r.files, err = runfiles.Create(r.Dir, append(private, '\n'), files...)
	return manifest, err
}

// targets returns what probes look for: the tasks with their gold, where it is known.
func (e Env) targets() []probe.Target {
	gold, targets := e.Gold.Map(), make([]probe.Target, len(e.Set.Tasks))
	for i, t := range e.Set.Tasks {
		targets[i] = probe.Target{TaskID: t.ID, Question: t.Question, Gold: gold[t.ID]}
	}
	return targets
}

// open locks the run and opens the files that grow; the journal continues at end.
func (r *Run) open(end trajectory.End) (err error) {
	if err := r.files.Open(); err != nil {
		return err
	}
	r.secrets.private.File = r.files.Private
	m := r.fold.Manifest
	if r.gate, err = r.env.newGate(m, func() *budget.Budget { return r.money }); err != nil {
		return err
	}
	r.secrets.splitIDs = probe.NewIDs(r.env.Set.IDs)
	r.secrets.answers = probe.NewAnswers(r.env.targets())
	r.secrets.passages = origin.NewPassages([]byte(r.secrets.salts.Salt))
	r.grader = r.newGrader(m)
	if found := r.Unfit(); found != nil { // before the run was interrupted
		r.reportUnfit(found)
	}
	r.followed, r.work = end.Events, filepath.Join(r.Dir, runfiles.WorkDir)
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
	err := r.fold.Take(&e, line)
	if err == nil {
		r.outage.Saw(e)
		r.followed = e.Seq + 1
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
	line, err := t.Encode()
	if err == nil {
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
