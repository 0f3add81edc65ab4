package run

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
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
	files                     // of the directory
	gate    *tools.Gate       //
	log     *trajectory.Log   // of the journal
	secrets secrets           // what the agent must not see
	swept   *judgecache.Sweep // of the verdicts, before the run began or went on; nil: there are none
	money   *budget.Budget    // nil: no limit, or the run does not execute
	grader  *grading.Grader   //
	tasks   taskLimiter       //
	unfit   unfitWatch        // follows the journal of a run that is to be submitted
	state                     // of what the journal says
}

// secrets are gold answers and what is made of them: nothing of it reaches the agent.
type secrets struct {
	gold     map[string]string
	salts    grading.Salts
	splitIDs *probe.IDs
	answers  *probe.Answers // of the run's tasks; nil: they have no gold
}

// state follows the journal.
type state struct {
	mu        sync.Mutex // guards outage, fold, followed and unwritten
	outage    outage
	fold      *rundir.Fold
	followed  int64 // events that fold has taken
	unwritten error // why trajectories.jsonl is not whole; it can be rebuilt

	approved []string         // tools that this process approves without asking
	lost     *UnrecordedError // what ended the evidence, of a run that goes on without; else nil
	asked    bool             // the models were asked before the tasks, in this process
}

// Create makes the directory of a planned run under out. When it returns, the signed
// manifest and run_started are durable and nothing has been asked of a model.
func Create(out string, plan plan.Plan, e Env) (_ *Run, err error) {
	e.Rand = &serial{r: e.Rand}
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
	if err := e.commit(&m, salts); err != nil {
		return nil, err
	}
	aside := filepath.Join(out, ".new-"+m.RunID)
	if err := os.Mkdir(aside, 0o755); err != nil {
		return nil, fmt.Errorf("making the run directory: %w", err)
	}
	r := &Run{Dir: aside, env: e, swept: swept, secrets: secrets{gold: e.Gold.Map(), salts: salts}}
	defer func() {
		if err != nil {
			r.Close()
			os.RemoveAll(r.Dir)
		}
	}()
	manifest, err := r.writeFirst(m)
	if err != nil {
		return nil, err
	}
	r.approved = m.Approved
	r.fold = rundir.NewFold(m, canonical.Digest(manifest), r.ended)
	r.unfit.follow(m, r.secrets.gold)
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
	if err := os.Rename(aside, place); err != nil {
		return nil, fmt.Errorf("putting the run directory in its place: %w", err)
	}
	r.Dir, r.work = place, filepath.Join(place, workDir)
	return r, durable.SyncDir(out)
}

// writeFirst fills a new directory up to the first event and returns the manifest.
func (r *Run) writeFirst(m plan.Plan) ([]byte, error) {
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
	for _, f := range []struct {
		name string
		data []byte
	}{
		{plan.ManifestFile, manifest}, {plan.EnvelopeFile, envelope}, {plan.ConstitutionFile, policy.Constitution(m.Policy)},
		{rundir.MarkerFile, markerText(rundir.MarkerOpen)}, {grading.PrivateFile, append(private, '\n')},
		{trajectory.JournalFile, nil}, {rundir.TrajectoriesFile, nil},
	} {
		if err := writeNew(filepath.Join(r.Dir, f.name), f.data); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	return manifest, os.Mkdir(filepath.Join(r.Dir, workDir), 0o700) // no one else is to run what code leaves there
}

// open takes the lock and opens the files that grow; the journal goes on at end.
func (r *Run) open(end trajectory.End) (err error) {
	if err := r.openFiles(r.Dir); err != nil {
		return err
	}
	m := r.fold.Manifest
	if r.gate, err = r.env.newGate(m, func() *budget.Budget { return r.money }); err != nil {
		return err
	}
	r.secrets.splitIDs = probe.NewIDs(r.env.Set.IDs)
	targets := make([]probe.Target, len(r.env.Set.Tasks))
	for i, t := range r.env.Set.Tasks {
		targets[i] = probe.Target{TaskID: t.ID, Question: t.Question, Gold: r.secrets.gold[t.ID]}
	}
	r.secrets.answers = probe.NewAnswers(targets)
	r.grader = r.newGrader(m)
	if found := r.Unfit(); found != nil { // before the run was interrupted
		r.reportUnfit(found)
	}
	r.followed, r.work = end.Events, filepath.Join(r.Dir, workDir)
	c := trajectory.LogConfig{RunID: m.RunID, Now: r.env.Now, Mono: r.env.Mono, Rand: r.env.Rand, Recorded: r.recorded, Failed: r.notRecorded}
	if m.Evidence == plan.EvidenceBodies {
		c.Bodies = r.keepBodies
	}
	r.log, err = trajectory.NewLog(dataSync{r.journal}, end, c)
	return err
}

// recorded follows the journal: the log calls it with each durable event, in order.
func (r *Run) recorded(e trajectory.Event, line []byte) error {
	r.mu.Lock()
	err := r.fold.Add(e, line)
	if err == nil {
		r.outage.saw(e)
		r.followed = e.Seq + 1
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if found := r.unfit.add(e); found != nil {
		r.reportUnfit(found)
	}
	if r.env.Watch != nil {
		r.env.Watch(e)
	}
	return nil
}

// ended appends an attempt's record. It is derived from the journal and can be
// rebuilt: nothing waits for the disk, and a failure does not make the evidence
// incomplete. It keeps the run from being closed until a resume rebuilds it.
func (r *Run) ended(t rundir.Trajectory) error {
	if r.unwritten != nil || r.lost != nil {
		return nil
	}
	line, err := t.Encode()
	if err == nil {
		_, err = r.trajectories.Write(line)
	}
	r.unwritten = err
	return nil
}

// notRecorded marks the run at once when its log fails: it is not submittable, for
// good.
func (r *Run) notRecorded(err error) {
	r.warn(fmt.Errorf("%w; the run is not submittable any longer", err))
	r.unmarked = r.mark(r.Dir, err.Error())
}

// maxBad bounds the entries that one event names.
const maxBad = 100

// sweepEvents records what the sweep of the judge cache found, also that it found
// nothing.
func (r *Run) sweepEvents() []trajectory.Draft {
	if r.swept == nil {
		return nil
	}
	return []trajectory.Draft{{Payload: badEntries(trajectory.JudgeCacheSweep, r.swept.Checked, r.swept.Bad)}}
}

func badEntries(kind string, checked int, bad []judgecache.Bad) trajectory.SecurityEvent {
	e := trajectory.SecurityEvent{Bad: len(bad), Checked: checked, Kind: kind}
	for _, b := range bad[:min(len(bad), maxBad)] {
		e.Entries = append(e.Entries, trajectory.BadEntry{Name: b.Name, Reason: b.Reason})
	}
	return e
}

// ManifestSHA256 returns the digest to publish: it fixes the plan before the outcome
// is known.
func (r *Run) ManifestSHA256() string { return r.fold.ManifestSHA256 }

// State returns the run as its events give it, for showing one that cannot be read
// back because its evidence is not whole.
func (r *Run) State() *rundir.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &rundir.Run{Fold: r.fold, End: r.log.End(), Marked: r.fold.Unrecorded}
}

func (r *Run) warn(err error) {
	if r.env.Warn != nil {
		r.env.Warn(err)
	}
}
