// Package rundir reads a run directory as one value. The journal is the only source of truth: [Fold] follows it event
// by event, and the derived files — trajectories.jsonl, results.jsonl, summary.json and the checkpoint — are functions
// of what it gathered. The same code writes them when a run closes and rebuilds them when it is verified, so a run has
// exactly one set of them.
//
// manifest.json and summary.json are one canonical JSON value each, without a newline; the .jsonl files hold one
// canonical value a line. They hold no floating point: rates and intervals are integers in parts per million, computed
// with integers. docs/formats.md lists every member.
//
// [Verify] is cryptography and derivation. It refuses, as a *trajectory.Fault that names the file, bytes that are not
// what was signed or do not follow from it (TestVerifyRefuses). It does not judge conduct: that is the audit's part.
// Where a plan gathers several answers to a task, [Vote] says which counts: a function of the answers alone, so a
// verifier counts again.
//
// A run that was made in shards, or by workers, has their journals unchanged, and [Shards] lists them ([Fold.Merge]). The
// folder of one shard is a run directory, too, whose tree head the key of the shard signs ([Fold.OfShard]). Both verify by
// the same fold (TestForgedShards, TestCoverageOfShards).
//
// [Run.Disclose] takes one task, or all, out of a run as an evidence bundle that [VerifyBundle] checks by itself
// (TestVerifyBundleForged). A [WitnessReader] makes witness bundles, which other programs read, while a run is verified
// (TestWitness).
//
// [ReadStats] counts a run: what each attempt did, as a [RunEvent], and what each task cost. A [Tally] makes a
// [Scorecard] of it.
package rundir

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// Run is a run directory whose files were checked against each other.
type Run struct {
	*Fold
	Key      sign.PublicKey // signed it; trust is the caller's to decide
	End      trajectory.End
	Torn     *trajectory.Tail // unfinished last line; only in an incomplete run
	Complete bool
	Files    map[string]string // digests of the journal and of what derives from it, by file name; of a complete run
	Missing  string            // why it is not complete
	Marked   string            // why recording failed, by the marker or else the journal; "" if it did not
	RootHash string            // base64, when complete

	ShardKey  sign.PublicKey // of a shard's folder: signed its tree head, by the delegation of Key
	ShardDone bool           // of a shard's folder: its tree head is there, and all its tasks are committed; of a worker's, which can always take another, its tree head is there
}

// Options say where a run's files are and who sees them being checked. The zero value reads a run directory and shows
// it to no one.
type Options struct {
	Summary string                         // name of the summary; SummaryFile if ""
	Begun   func(*Fold)                    // given what is known of the run before its first event
	Event   func(trajectory.Event) error   // given each event, in order, when it has found its place
	Ended   func(Trajectory, []byte) error // given the record of each attempt with its line (valid during the call), when it has ended
	Sealed  func(*Fold, *Task) error       // given each task when it is sealed, after its last event
	Compare bool                           // Run.Files has no digests of journals and of trajectories.jsonl, which are checked all the same
	Plan    *SignedPlan                    // the plan, if it has been read elsewhere: its copy here takes no more memory

	maxOpen int64 // maxOpen if 0
	maxKept int64 // maxKept if 0
}

// maxOpen bounds the lines of attempts that are open at the same time, in bytes, and maxOpenOwn those of own agents, which
// make hundreds of calls. Their steps are held in memory.
const (
	maxOpen    = 128 << 20
	maxOpenOwn = 512 << 20
)

// maxKept and, for each planned task, maxKeptOfTask bound the lines whose texts are held to the end, in bytes: all but
// those of the turns. A task with one attempt has 2.6 kB of them. maxHarnesses bounds the programs that resumed a run.
const (
	maxKept       = 96 << 20
	maxKeptOfTask = 3 << 10
	maxHarnesses  = 1024
)

// Verify checks a run: the plan's signature, the journal's chain and everything that derives from it. A run that is not
// finished verifies as far as it goes and is returned with Complete false.
func Verify(dir fs.FS, o Options) (*Run, error) {
	if o.Summary == "" {
		o.Summary = SummaryFile
	}
	run, journal, err := open(dir, o.Plan)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	if err := checkAgentFiles(dir, run.Manifest); err != nil {
		return nil, err
	}
	before, err := present(dir, o.Summary)
	if err != nil {
		return nil, err
	}
	compare, err := newComparison(dir, TrajectoriesFile)
	if err != nil {
		return nil, err
	}
	defer compare.file.Close()
	if !o.Compare {
		compare.digest = sha256.New()
	}
	var line []byte
	run.Follow(func(t Trajectory) error {
		var err error
		if line, err = appendLine(line[:0], t); err != nil {
			return err
		}
		if err := compare.line(line); err != nil || o.Ended == nil {
			return err
		}
		return o.Ended(t, line)
	})
	if o.Begun != nil {
		o.Begun(run.Fold)
	}
	files := map[string]string{}
	if run.Shards != nil {
		digests := files
		if o.Compare {
			digests = nil
		}
		if err := run.ReadShards(dir, run.Key, digests, func(e trajectory.Event, _ []byte) error { return o.show(run.Fold, e) }); err != nil {
			return nil, err
		}
	}
	whole := sha256.New()
	lines := io.Reader(journal)
	if !o.Compare {
		lines = io.TeeReader(journal, whole)
	}
	run.End, run.Torn, err = trajectory.ReadJournal(lines, run.Manifest.RunID, run.ManifestSHA256, func(e trajectory.Event, line []byte) error {
		e.Seq += run.part.base
		if err := run.Take(&e, line); err != nil {
			return err
		}
		if reason := run.exceeds(o); reason != "" {
			return &trajectory.Fault{File: trajectory.JournalFile, Line: e.Seq - run.part.base + 1, Reason: reason}
		}
		return o.show(run.Fold, e)
	})
	run.ended, run.dropped = nil, nil // what they hold goes with them
	if err != nil {
		return nil, err
	}
	if run.End.Events == 0 { // which is durable before the directory has its name
		return nil, trajectory.Faultf(trajectory.JournalFile, "has no run_started")
	}
	defer func() { run.Marked = cmp.Or(run.Marked, run.NotRecorded) }()
	if run.Shard != nil {
		return run, run.verifyShard(dir, compare)
	}
	if run.Fold.Completed == nil {
		closed := derived(o.Summary)
		there := slices.DeleteFunc(slices.Clone(closed), func(name string) bool { return !before[name] })
		switch len(there) {
		case 0:
		case len(closed):
			return run, trajectory.Faultf(trajectory.JournalFile, "has no run_completed in a run that was closed: its end is missing")
		default:
			return run, trajectory.Faultf(there[0], "exists in a run whose journal has no run_completed")
		}
		run.Missing = "the journal has no run_completed"
		if s := run.Stopped; s != nil {
			run.Missing = fmt.Sprintf("it was stopped by its %s, with %d of %d tasks begun", s.Stopped, s.TasksBegun, s.Planned)
		}
		return run, compare.end(true, true)
	}
	if run.Torn != nil {
		return nil, trajectory.Faultf(trajectory.JournalFile, "has bytes after its last event")
	}
	if run.Files = files; !o.Compare {
		run.Files[trajectory.JournalFile] = canonical.DigestOf(whole)
	}
	// The marker goes last when a run is closed; where it is not there and nothing else is, the run was never closed.
	closing := before[MarkerFile] || !slices.ContainsFunc(derived(o.Summary), func(name string) bool { return before[name] })
	return run, run.verifyFinished(dir, o.Summary, closing, compare)
}

// Finished returns a run that has been closed and that the fold followed while it was written. A journal that Verify
// would not read for its size is a *trajectory.Fault.
func (f *Fold) Finished(dir fs.FS, end trajectory.End) (*Run, error) {
	if reason := f.exceeds(Options{}); reason != "" {
		return nil, trajectory.Faultf(trajectory.JournalFile, "%s", reason)
	}
	marked, err := ReadMarker(dir)
	return &Run{Fold: f, End: end, Complete: f.Shard == nil, ShardDone: f.Shard != nil, Marked: cmp.Or(marked, f.NotRecorded)}, err
}

// exceeds says which limit the journal exceeds so far, "" if none.
func (f *Fold) exceeds(o Options) string {
	most := int64(maxOpen)
	if f.Manifest.Agent != nil {
		most = maxOpenOwn
	}
	if most = cmp.Or(o.maxOpen, most); f.mostOpen > most {
		return fmt.Sprintf("the attempts that have not ended here have more than %d bytes", most)
	}
	if most := cmp.Or(o.maxKept, maxKept+maxKeptOfTask*int64(len(f.Tasks))); f.kept > most {
		return fmt.Sprintf("the events up to here that are not of turns have more than %d bytes", most)
	}
	if len(f.harnesses) > maxHarnesses {
		return fmt.Sprintf("more than %d programs resumed the run", maxHarnesses)
	}
	return ""
}

// show shows an event that has found its place, and the task that it seals.
func (o Options) show(f *Fold, e trajectory.Event) error {
	if o.Event != nil {
		if err := o.Event(e); err != nil {
			return err
		}
	}
	if _, seals := e.Payload.(trajectory.TaskSealed); !seals || o.Sealed == nil {
		return nil
	}
	return o.Sealed(f, f.Task(e.TaskID))
}

// open reads and checks the plan and opens the journal.
func open(dir fs.FS, known *SignedPlan) (*Run, fs.File, error) {
	p, err := ReadSigned(dir, known)
	if err != nil {
		return nil, nil, err
	}
	journal, _, err := OpenFile(dir, trajectory.JournalFile, MaxFile)
	if err != nil {
		return nil, nil, err
	}
	run := &Run{Fold: NewFold(p.Plan, p.ManifestSHA256, nil), Key: p.Key}
	if run.ShardKey, err = run.readParts(dir, p.Key); err == nil {
		run.Marked, err = ReadMarker(dir)
	}
	if err != nil {
		journal.Close()
		return nil, nil, err
	}
	return run, journal, nil
}

// ReadPlan reads manifest.json and checks that the key it names signed it, and that constitution.json is the one it
// names.
func ReadPlan(dir fs.FS) (m plan.Plan, digest string, key sign.PublicKey, err error) {
	p, err := ReadSigned(dir, nil)
	return p.Plan, p.ManifestSHA256, p.Key, err
}

// SignedPlan is a plan whose two files were checked against each other.
type SignedPlan struct {
	Plan                           plan.Plan
	Manifest, Envelope             []byte // nil: they are no longer held
	ManifestSHA256, EnvelopeSHA256 string
	Key                            sign.PublicKey
}

// ReadSigned is [ReadPlan] for a caller that needs the bytes as well: what it read, and no later state of the files. known
// is a plan that may be there, or nil: of files with its digests nothing is held, decoded or checked again.
func ReadSigned(dir fs.FS, known *SignedPlan) (p SignedPlan, err error) {
	if known != nil {
		var same bool
		if same, err = known.isIn(dir); err != nil {
			return SignedPlan{}, err
		}
		if same {
			_, err = readRules(dir, known.Plan)
			return *known, err
		}
	}
	if p.Manifest, err = ReadFile(dir, plan.ManifestFile, maxPlan); err != nil {
		return SignedPlan{}, err
	}
	if p.Envelope, err = ReadFile(dir, plan.EnvelopeFile, 2*maxPlan); err != nil {
		return SignedPlan{}, err
	}
	if p, err = NewSigned(p.Manifest, p.Envelope); err == nil {
		_, err = readRules(dir, p.Plan)
	}
	if err != nil {
		return SignedPlan{}, err
	}
	return p, nil
}

// isIn reports whether the two files of a plan are in a directory, by their digests.
func (p SignedPlan) isIn(dir fs.FS) (bool, error) {
	manifest, err := ManifestDigest(dir)
	if err != nil || manifest != p.ManifestSHA256 {
		return false, err
	}
	envelope, err := fileDigest(dir, plan.EnvelopeFile, 2*maxPlan)
	return envelope == p.EnvelopeSHA256, err
}

// ManifestDigest returns the digest of a plan, which it does not decode.
func ManifestDigest(dir fs.FS) (string, error) { return fileDigest(dir, plan.ManifestFile, maxPlan) }

// NewSigned checks that an envelope is the signature over a manifest by the key that it names.
func NewSigned(manifest, envelope []byte) (p SignedPlan, err error) {
	p = SignedPlan{Manifest: manifest, Envelope: envelope, ManifestSHA256: canonical.Digest(manifest), EnvelopeSHA256: canonical.Digest(envelope)}
	if p.Plan, p.Key, err = decodePlan(manifest); err == nil {
		err = checkEnvelope(envelope, manifest, p.Key)
	}
	return p, err
}

// decodePlan returns a plan and the key that it names. Whether that key signed it is not checked.
func decodePlan(data []byte) (plan.Plan, sign.PublicKey, error) {
	m, err := plan.Decode(data)
	if err != nil {
		return m, sign.PublicKey{}, err
	}
	key, err := sign.ParsePublicKey(m.SigningKey)
	if err != nil || key.Line() != m.SigningKey {
		return m, key, trajectory.Faultf(plan.ManifestFile, "signing_key is not one ssh-ed25519 key")
	}
	return m, key, nil
}

// checkEnvelope checks that an envelope is key's signature over a plan.
func checkEnvelope(envelope, data []byte, key sign.PublicKey) error {
	payload, err := sign.Unseal(envelope, plan.ManifestType, key)
	if err != nil {
		return trajectory.Faultf(plan.EnvelopeFile, "%v", err)
	}
	if !bytes.Equal(payload, data) {
		return trajectory.Faultf(plan.ManifestFile, "is not what "+plan.EnvelopeFile+" signs")
	}
	return nil
}

// verifyFinished rebuilds the derived files. A crash between the last event and the last file leaves the marker
// standing: such a run is incomplete, and what is there must still be right. A marker with a reason is permanent, so
// there a file that is missing can always be made up for.
func (r *Run) verifyFinished(dir fs.FS, summaryFile string, closing bool, compare *comparison) error {
	if err := compare.end(closing, false); err != nil {
		return err
	}
	if compare.short {
		r.Missing = TrajectoriesFile + " is not complete"
	}
	if compare.digest != nil {
		r.Files[TrajectoriesFile] = canonical.DigestOf(compare.digest)
	}
	if err := r.compareResults(dir, closing); err != nil {
		return err
	}
	summary, err := r.Summary().Encode()
	if err != nil {
		return err
	}
	r.Files[summaryFile] = canonical.Digest(summary)
	data, there, err := r.read(dir, summaryFile, int64(len(summary)), closing)
	if err != nil {
		return err
	}
	if there && !bytes.Equal(data, summary) {
		return &trajectory.Fault{File: summaryFile, Line: 1, Reason: notGiven}
	}
	head, err := r.Checkpoint(r.End)
	if err != nil {
		return err
	}
	r.RootHash = head.Root.String()
	note, there, err := r.read(dir, trajectory.CheckpointFile, maxCheckpoint, closing)
	if err != nil {
		return err
	}
	if there {
		if err := head.Verify(note, r.Key); err != nil {
			return err
		}
	}
	if closing && r.Marked == "" && r.Missing == "" {
		r.Missing = MarkerFile + " still says " + MarkerOpen
	}
	r.Complete = r.Missing == ""
	return nil
}

// compareResults compares the results, line by line, with what the journal gives.
func (r *Run) compareResults(dir fs.FS, closing bool) error {
	c, err := newComparison(dir, ResultsFile)
	switch {
	case err == nil:
		defer c.file.Close()
	case !closing || !isMissing(err):
		return err
	default:
		r.Missing = ResultsFile + " is not written yet"
	}
	digest, line := sha256.New(), []byte(nil)
	for row := range r.Rows() {
		if line, err = appendLine(line[:0], row); err != nil {
			return err
		}
		digest.Write(line)
		if c == nil {
			continue
		}
		if err := c.line(line); err != nil {
			return err
		}
	}
	r.Files[ResultsFile] = canonical.DigestOf(digest)
	if c == nil {
		return nil
	}
	if _, err := c.in.ReadByte(); err == nil || c.short {
		return &trajectory.Fault{File: ResultsFile, Line: c.lines + 1, Reason: notGiven}
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", ResultsFile, err)
	}
	return nil
}

// read reads a derived file that should have size bytes, and one more if there are more; there is false where it may
// still be missing.
func (r *Run) read(dir fs.FS, name string, size int64, closing bool) (data []byte, there bool, err error) {
	f, _, err := OpenFile(dir, name, MaxFile)
	if isMissing(err) && closing {
		r.Missing = name + " is not written yet"
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, true, nil
}

// MarkerOpen is what the marker says while a run is under way.
const MarkerOpen = "open"

// ReadMarker returns the reason in the marker file, "" when it is open or gone.
func ReadMarker(dir fs.FS) (string, error) {
	data, err := ReadFile(dir, MarkerFile, maxMarker)
	if isMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == MarkerOpen {
		return "", nil
	}
	if text == "" {
		return "recording failed, and the reason could not be written", nil
	}
	return text, nil
}
