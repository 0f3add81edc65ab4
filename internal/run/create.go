package run

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/singleflight"
)

// PrivateFile is the file of a run directory that holds gold and verdicts. It
// is never packaged.
const PrivateFile = "judgments.jsonl"

// Other files of a run directory that only this package touches.
const (
	lockFile = "lock"
	workDir  = "work"
)

// markerSize is how much room the marker has from the start, so that a reason
// can be written when the disk is full.
const markerSize = 1 << 10

// Run is a run directory that this process writes.
type Run struct {
	Dir string

	cfg    Config
	gold   map[string]string
	salts  saltLine
	gate   *tools.Gate
	locks  []*flock.Flock
	marker *os.File

	unmarked error // why the marker could not be written when recording failed

	journal      *os.File
	log          *trajectory.Log
	trajectories *os.File
	judgments    *os.File
	swept        *judgecache.Sweep // of the verdicts, before the run began or went on; nil: there are none
	work         string            // directory of the workspaces
	splitIDs     *probe.IDs
	answers      *probe.Answers   // of the run's tasks; nil: they have no gold
	lost         *UnrecordedError // what ended the evidence, of a run that goes on without; else nil

	money         *purse                  // what the run may still cost, while it executes
	limit         atomic.Int64            // of requests at once, as it was told last
	private       private                 // of judgments
	battery       singleflight.Group      // puts the null battery to the judge
	batteryFailed atomic.Pointer[outcome] // in this process; nil: it did not, or that is settled for the run
	cutOff        atomic.Int64            // null batteries that this process did not bring to their end
	preflown      bool                    // models were asked before the tasks, in this process
	pictures      sync.Mutex              // held while one is made fit to be shown

	early   early                                   // follows the journal
	stopped atomic.Pointer[UnfitError]              // why no more is to be spent; nil: nothing speaks against it
	stop    atomic.Pointer[context.CancelCauseFunc] // ends what is under way, while the run executes

	mu        sync.Mutex // guards what follows
	outage    outage
	fold      *rundir.Fold
	followed  int64 // events that fold has taken
	unwritten error // why trajectories.jsonl is not whole; it can be rebuilt
}

// Create plans a run and makes its directory under out. When it returns, the
// signed manifest and run_started are durable and nothing has been asked of a
// model.
func Create(out string, c Config) (_ *Run, err error) {
	c.Rand = &serial{r: c.Rand}
	swept, err := c.sweep()
	if err != nil {
		return nil, err
	}
	if err := Affords(c); err != nil {
		return nil, err
	}
	m, err := Plan(c)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory for runs: %w", err)
	}
	id, err := ulid.New(ulid.Timestamp(c.Now()), c.Rand)
	if err != nil {
		return nil, fmt.Errorf("making a run id: %w", err)
	}
	salts := saltLine{Rehearsal: m.Rehearsal}
	for _, s := range []*string{&salts.Salt, &salts.Secret} {
		if *s, err = randomHex(c.Rand); err != nil {
			return nil, err
		}
	}
	m.RunID, m.Created = id.String(), c.Now().UTC().Format(trajectory.TimeFormat)
	if err := c.commit(&m, salts); err != nil {
		return nil, err
	}
	aside := filepath.Join(out, ".new-"+m.RunID)
	if err := os.Mkdir(aside, 0o755); err != nil {
		return nil, fmt.Errorf("making the run directory: %w", err)
	}
	r := &Run{Dir: aside, cfg: c, gold: c.Gold.Map(), swept: swept, salts: salts}
	defer func() {
		if err != nil {
			r.Close()
			os.RemoveAll(r.Dir)
		}
	}()
	if err := r.begin(m); err != nil {
		return nil, err
	}
	place := filepath.Join(out, m.RunID)
	if err := os.Rename(aside, place); err != nil {
		return nil, fmt.Errorf("putting the run directory in its place: %w", err)
	}
	r.Dir, r.work = place, filepath.Join(place, workDir)
	return r, durable.SyncDir(out)
}

// begin fills a new directory up to run_started.
func (r *Run) begin(m plan.Plan) error {
	manifest, err := m.Encode()
	if err != nil {
		return fmt.Errorf("encoding the manifest: %w", err)
	}
	envelope, err := sign.Seal(r.cfg.Key, plan.ManifestType, manifest)
	if err != nil {
		return fmt.Errorf("signing the manifest: %w", err)
	}
	private, err := canonical.Encode(r.salts)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
		mode fs.FileMode
	}{
		{plan.ManifestFile, manifest, 0o644}, {plan.EnvelopeFile, envelope, 0o644},
		{plan.ConstitutionFile, policy.Constitution(m.Policy), 0o644}, {rundir.MarkerFile, markerText(rundir.MarkerOpen), 0o644},
		{PrivateFile, append(private, '\n'), 0o600}, {trajectory.JournalFile, nil, 0o644}, {rundir.TrajectoriesFile, nil, 0o644},
	} {
		if err := writeNew(filepath.Join(r.Dir, f.name), f.data, f.mode); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(r.Dir, workDir), 0o700); err != nil { // nobody else is to run what code leaves there
		return err
	}
	r.fold = rundir.NewFold(m, canonical.Digest(manifest), r.ended)
	r.early.follow(m, r.gold)
	if err := r.open(trajectory.End{Head: r.fold.ManifestSHA256}); err != nil {
		return err
	}
	drafts := []trajectory.Draft{{Payload: trajectory.RunStarted{
		GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: r.fold.ManifestSHA256, PolicyHash: m.PolicyHash,
		PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent,
	}}}
	_, err = r.log.Append(append(drafts, r.sweepEvents()...)...)
	if err != nil {
		return err
	}
	return durable.SyncDir(r.Dir)
}

// open takes the lock and opens the files that grow; the journal goes on at
// end.
func (r *Run) open(end trajectory.End) (err error) {
	if err := r.takeLocks(); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		flag int
		file **os.File
	}{
		{trajectory.JournalFile, os.O_APPEND, &r.journal}, {rundir.TrajectoriesFile, os.O_APPEND, &r.trajectories},
		{PrivateFile, os.O_APPEND, &r.judgments}, {rundir.MarkerFile, 0, &r.marker},
	} {
		if *f.file, err = os.OpenFile(filepath.Join(r.Dir, f.name), os.O_RDWR|f.flag, 0); err != nil {
			return fmt.Errorf("opening %s: %w", f.name, err)
		}
	}
	r.private.file = r.judgments
	if r.gate, err = tools.NewGate(tools.GateConfig{Policy: r.cfg.Policy, Approver: r.cfg.Approver, Prices: r.cfg.Prices, MaxTokens: r.cfg.MaxTokens, Now: r.cfg.Now}, r.cfg.catalogue(func() *purse { return r.money })...); err != nil {
		return err
	}
	r.splitIDs = probe.NewIDs(r.cfg.Set.IDs)
	targets := make([]probe.Target, len(r.cfg.Set.Tasks))
	for i, t := range r.cfg.Set.Tasks {
		targets[i] = probe.Target{TaskID: t.ID, Question: t.Question, Gold: r.gold[t.ID]}
	}
	r.answers = probe.NewAnswers(targets)
	if found := r.Unfit(); found != nil { // before the run was interrupted
		r.unfit(found)
	}
	r.followed, r.work = end.Events, filepath.Join(r.Dir, workDir)
	c := trajectory.LogConfig{RunID: r.fold.Manifest.RunID, Now: r.cfg.Now, Mono: r.cfg.Mono, Rand: r.cfg.Rand, Recorded: r.recorded, Failed: r.notRecorded}
	if r.fold.Manifest.Evidence == plan.EvidenceBodies {
		c.Bodies = r.keepBodies
	}
	r.log, err = trajectory.NewLog(dataSync{r.journal}, end, c)
	return err
}

// ErrBusy means that another process writes the run.
var ErrBusy = errors.New("another process is writing this run")

// takeLocks locks the run by a file that is there for nothing else, and by the
// journal itself, which nobody removes from a run that is being written.
func (r *Run) takeLocks() error {
	if len(r.locks) > 0 {
		return nil
	}
	for _, lock := range []*flock.Flock{
		flock.New(filepath.Join(r.Dir, lockFile)),
		flock.New(filepath.Join(r.Dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY)),
	} {
		got, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("locking the run: %w", err)
		}
		if !got {
			return ErrBusy
		}
		r.locks = append(r.locks, lock)
	}
	return nil
}

// recorded follows the journal: the log calls it with each durable event, in
// order.
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
	if found := r.early.add(e); found != nil {
		r.unfit(found)
	}
	if r.cfg.Watch != nil {
		r.cfg.Watch(e)
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

// ManifestSHA256 returns the digest to publish: it fixes the plan before the
// outcome is known.
func (r *Run) ManifestSHA256() string { return r.fold.ManifestSHA256 }

// Close gives up the files and the lock.
func (r *Run) Close() error {
	var errs []error
	for _, f := range []*os.File{r.journal, r.trajectories, r.judgments, r.marker} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	for _, lock := range r.locks {
		errs = append(errs, lock.Unlock())
	}
	return errors.Join(errs...)
}

// ErrUnmarked means that recording failed and that not even this could be
// written down.
var ErrUnmarked = errors.New("the run could not be marked as not submittable")

// notRecorded marks the run at once when its log fails: it is not submittable,
// for good.
func (r *Run) notRecorded(err error) {
	r.warn(fmt.Errorf("%w; the run is not submittable any longer", err))
	r.unmarked = r.mark(err.Error())
}

// mark overwrites the marker in place. Where that fails it is removed: a run
// that goes on without one is marked then.
func (r *Run) mark(reason string) error {
	_, err := r.marker.WriteAt(markerText(reason), 0)
	if err == nil {
		err = r.marker.Sync()
	}
	if err == nil {
		return nil
	}
	if os.Remove(filepath.Join(r.Dir, rundir.MarkerFile)) == nil && durable.SyncDir(r.Dir) == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnmarked, err)
}

// markerText is a reason in the size that the marker always has.
func markerText(reason string) []byte {
	text := strings.ReplaceAll(reason, "\n", " ")
	text = strings.ToValidUTF8(text[:min(len(text), markerSize-1)], "")
	return []byte(text + strings.Repeat("\n", markerSize-len(text)))
}

// commit adds to a plan the digests of its questions and, if there are gold answers,
// the commitment to them.
func (c Config) commit(m *plan.Plan, salts saltLine) (err error) {
	if c.Gold.Len() > 0 {
		if m.GoldCommitment, err = plan.Commitment(c.Gold.Map(), salts.Salt); err != nil {
			return err
		}
	}
	for i, t := range c.Set.Tasks {
		if err := m.Tasks[i].SaltQuestion(salts.Secret, t.Question); err != nil {
			return err
		}
	}
	return nil
}

// serial lets one goroutine at a time read, which sources of randomness need
// not allow by themselves.
type serial struct {
	mu sync.Mutex
	r  io.Reader
}

func (s *serial) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Read(b)
}

func randomHex(random io.Reader) (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("making a salt: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// writeNew writes a file that must not exist and syncs it.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}
