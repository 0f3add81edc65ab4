package rundir

import (
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
	"golang.org/x/mod/sumdb/tlog"
)

// Disclosure is an evidence bundle whose integrity holds: its events are what the run's key signed, and the bundle is
// what Signer signed.
type Disclosure struct {
	*Fold        // of a bundle of one task, only that task was followed
	Task   *Task // nil for a whole run
	Bundle trajectory.Bundle
	Head   trajectory.Checkpoint
	Leaf   tlog.Hash      // the task's in the tree
	Key    sign.PublicKey // signed plan and tree head; trust is the caller's to decide
	Signer sign.Verifier  // made the bundle's signature: Key, or one of those that VerifyBundle was given; nil: it was not checked
}

// UnknownSignerError says that all of a bundle holds together but for its own signature, which names none of the keys
// at hand. A bundle names its signer by id alone, so without the key the signature cannot be checked.
type UnknownSignerError struct{ Alg, KeyID string }

func (e *UnknownSignerError) Error() string {
	return fmt.Sprintf("the bundle is signed by an unknown %s key: %q", e.Alg, e.KeyID)
}

// ErrIncomplete says that a run has no signed tree head yet, so that nothing of it can be disclosed.
var ErrIncomplete = errors.New("the run is not complete")

// ErrMerged says that a merged run, whose lines are in several journals, has no bundle of all its tasks.
var ErrMerged = errors.New("a merged run has no evidence bundle of all its tasks: disclose single tasks, or hand over the package")

// Disclose returns an evidence bundle of one task of a verified run, or of all of it if task is "". dir holds the files
// that the run was read from, a package's or a run directory's. The lines of a task of a merged run are those of the
// journal that counts for it, then those of events.jsonl; all of a merged run is ErrMerged.
func (r *Run) Disclose(dir fs.FS, task string, signer sign.Signer) ([]byte, error) {
	if !r.Complete {
		return nil, ErrIncomplete
	}
	c := trajectory.NewContents(r.Manifest.RunID, task)
	c.Rehearsal = r.Manifest.Rehearsal
	for _, file := range []struct {
		name  string
		limit int64
		into  *string
	}{{plan.ManifestFile, maxPlan, &c.Manifest}, {plan.EnvelopeFile, 2 * maxPlan, &c.ManifestEnvelope}, {trajectory.CheckpointFile, maxCheckpoint, &c.Checkpoint}} {
		data, err := ReadFile(dir, file.name, file.limit)
		if err != nil {
			return nil, err
		}
		*file.into = string(data)
	}
	index := slices.IndexFunc(r.Tasks, func(t *Task) bool { return t.Plan.TaskID == task })
	switch {
	case task != "" && index < 0:
		return nil, fmt.Errorf("the run has no task %q", task)
	case task == "" && r.Shards != nil:
		return nil, ErrMerged
	}
	size := 0
	read := func(name string, events int64, head string) error {
		journal, _, err := OpenFile(dir, name, MaxFile)
		if err != nil {
			return err
		}
		defer journal.Close()
		end, _, err := trajectory.ReadJournal(journal, r.Manifest.RunID, r.ManifestSHA256, func(e trajectory.Event, line []byte) error {
			if task != "" && e.TaskID != task {
				return nil
			}
			if size += len(line); size > trajectory.MaxBundle {
				return errors.New("the events are too many for an evidence bundle: disclose single tasks, or hand over the package")
			}
			return c.Add(e, line)
		})
		if err != nil {
			return err
		}
		if end.Events != events || end.Head != head {
			return trajectory.Faultf(name, "changed while it was read")
		}
		return nil
	}
	if r.Shards != nil {
		if n := r.Shards.Counted[index]; n > 0 {
			s := r.Shards.Shards[n-1]
			if err := read(s.Journal(), s.Events, s.Head); err != nil {
				return nil, inFolder(s.Dir(), err)
			}
		}
	}
	if err := read(trajectory.JournalFile, r.End.Events, r.End.Head); err != nil {
		return nil, err
	}
	if task == "" {
		return c.Seal(signer)
	}
	inclusion, err := trajectory.Prove(r.Leaves(), int64(index))
	if err != nil {
		return nil, err
	}
	leaf := r.leaf(r.Tasks[index])
	c.Leaf, c.Inclusion = &leaf, &inclusion
	return c.Seal(signer)
}

// VerifyBundle checks an evidence bundle by itself: that it is written in the one way it can be, that its events are a
// legal run or task of its plan, that they give leaf, root and everything else it says; and only then the signatures of
// plan, checkpoint and bundle. verifiers are keys besides the run's own that may have signed the bundle. What does not
// hold is a *trajectory.Fault that names the member; a signer that is none of these is an *UnknownSignerError, when all
// else holds, and comes with the disclosure.
func VerifyBundle(data []byte, verifiers ...sign.Verifier) (*Disclosure, error) {
	b, err := trajectory.DecodeBundle(data)
	if err != nil {
		return nil, err
	}
	d := &Disclosure{Bundle: b}
	if err := d.readPlan(); err != nil {
		return nil, inMember(err)
	}
	if d.Head, err = trajectory.ParseCheckpoint([]byte(b.Checkpoint)); err != nil {
		return nil, err
	}
	if _, task := b.Workflow(); task == "" {
		err = d.checkRun()
	} else {
		err = d.checkTask(task)
	}
	if err != nil {
		return nil, inMember(err)
	}
	if err := d.Bundle.CheckHash(); err != nil {
		return nil, err
	}
	if err := checkEnvelope([]byte(b.ManifestEnvelope), []byte(b.Manifest), d.Key); err != nil {
		return nil, inMember(err)
	}
	if err := d.Head.Verify([]byte(b.Checkpoint), d.Key); err != nil {
		return nil, inMember(err)
	}
	verifiers = append([]sign.Verifier{d.Key}, verifiers...)
	at := slices.IndexFunc(verifiers, b.Signature.Names)
	if at < 0 {
		return d, &UnknownSignerError{Alg: b.Signature.Alg, KeyID: b.Signature.KeyID}
	}
	d.Signer = verifiers[at]
	if err := b.CheckSignature(d.Signer); err != nil {
		return nil, inMember(err)
	}
	return d, nil
}

// inMember gives faults of files the names of their members in the bundle.
func inMember(err error) error {
	var fault *trajectory.Fault
	if !errors.As(err, &fault) {
		return err
	}
	name := fault.File
	switch name {
	case trajectory.JournalFile:
		name = trajectory.EventsMember
	case plan.ManifestFile:
		name = "manifest"
	case plan.EnvelopeFile:
		name = "manifest_envelope"
	}
	return &trajectory.Fault{File: name, Line: fault.Line, Reason: fault.Reason, Hint: fault.Hint}
}

// readPlan reads the plan and what the bundle repeats of it. Who signed it is checked later.
func (d *Disclosure) readPlan() error {
	data := []byte(d.Bundle.Manifest)
	if len(data) > maxPlan {
		return trajectory.Faultf(plan.ManifestFile, "is larger than %d bytes", maxPlan)
	}
	m, key, err := decodePlan(data)
	if err != nil {
		return err
	}
	d.Key = key
	d.Fold = NewFold(m, canonical.Digest(data), nil)
	run, task := d.Bundle.Workflow()
	if run != m.RunID || d.Bundle.WorkflowID != trajectory.NewContents(run, task).WorkflowID {
		return trajectory.Faultf("workflow_id", "is %q, the manifest is of run %q", d.Bundle.WorkflowID, m.RunID)
	}
	if d.Bundle.Rehearsal != m.Rehearsal {
		return trajectory.Faultf("rehearsal", "is not what the manifest says")
	}
	return nil
}

// checkTask follows the events of one task and the proof from its leaf to the tree head.
func (d *Disclosure) checkTask(id string) error {
	index := slices.IndexFunc(d.Tasks, func(t *Task) bool { return t.Plan.TaskID == id })
	if index < 0 {
		return trajectory.Faultf("workflow_id", "task %q is not planned", id)
	}
	d.Task = d.Tasks[index]
	again := trajectory.NewContents(d.Manifest.RunID, id)
	var seq, line int64
	if d.Manifest.Shards > 0 { // up to task_committed the lines are of a shard, and whose the bundle does not say
		d.Merge(Shards{Counted: make([]int, len(d.Tasks))})
		d.part = part{shard: &plan.Delegation{}}
	}
	if err := d.Bundle.ReadTask(func(e trajectory.Event, text []byte) error {
		seq, line = e.Seq, line+1
		if p, seals := e.Payload.(trajectory.TaskSealed); seals && d.Shards != nil && (p.Shard == 0 && line == 1 || p.Shard > 0 && d.Task.Committed != nil) {
			d.part, d.Shards.Counted[index] = part{}, p.Shard
		}
		reason := d.foreign(e.Payload, true)
		var err error
		if reason == "" {
			reason, err = d.addLine(d.Task, &e, text)
		}
		if d.Task.Committed != nil {
			d.part = part{}
		}
		if reason != "" {
			return &trajectory.Fault{File: trajectory.EventsMember, Line: line, Reason: reason}
		}
		if err != nil {
			return err
		}
		return again.Add(e, text)
	}); err != nil {
		return err
	}
	if d.Task.Sealed == nil {
		return trajectory.Faultf(trajectory.EventsMember, "do not end with the task's seal")
	}
	if err := d.Bundle.CheckProjections(again); err != nil {
		return err
	}
	leaf, proof := d.Bundle.Leaf, d.Bundle.Inclusion
	if leaf == nil || *leaf != d.leaf(d.Task) {
		return trajectory.Faultf("leaf", "is not what the events give")
	}
	if proof == nil || proof.Index != int64(index) || proof.Size != int64(len(d.Tasks)) {
		return trajectory.Faultf("inclusion", "is not of the task's place in the plan")
	}
	want := trajectory.Checkpoint{RunID: d.Manifest.RunID, Size: proof.Size, Root: d.Head.Root, ManifestSHA256: d.ManifestSHA256,
		Journal: d.Head.Journal, Rehearsal: d.Manifest.Rehearsal}
	if d.Head != want || seq >= d.Head.Journal.Events-1 { // run_completed is last
		return trajectory.Faultf(trajectory.CheckpointFile, "is not one of this plan and these events")
	}
	if err := proof.Check(*leaf, d.Head.Root); err != nil {
		return trajectory.Faultf("inclusion", "%v", err)
	}
	var err error
	d.Leaf, err = leaf.Hash()
	return err
}

// checkRun follows all events of a run, as of a journal.
func (d *Disclosure) checkRun() error {
	if d.Manifest.Shards > 0 {
		return trajectory.Faultf(plan.ManifestFile, "is of a plan for shards, of which bundles are of one task")
	}
	lines := make([]io.Reader, 0, 2*len(d.Bundle.Events))
	for _, line := range d.Bundle.Events {
		lines = append(lines, strings.NewReader(line), strings.NewReader("\n"))
	}
	again := trajectory.NewContents(d.Manifest.RunID, "")
	end, _, err := trajectory.ReadJournal(io.MultiReader(lines...), d.Manifest.RunID, d.ManifestSHA256, func(e trajectory.Event, line []byte) error {
		if err := d.Add(e, line); err != nil {
			return err
		}
		return again.Add(e, line)
	})
	if err != nil {
		return err
	}
	if !slices.Equal(d.Bundle.Events, again.Events) {
		return trajectory.Faultf(trajectory.EventsMember, "are not one line each")
	}
	if d.Completed == nil {
		return trajectory.Faultf(trajectory.EventsMember, "have no run_completed")
	}
	if err := d.Bundle.CheckProjections(again); err != nil {
		return err
	}
	if d.Bundle.Leaf != nil {
		return trajectory.Faultf("leaf", "has no place in a bundle of a whole run")
	}
	if d.Bundle.Inclusion != nil {
		return trajectory.Faultf("inclusion", "has no place in a bundle of a whole run")
	}
	want, err := d.Checkpoint(end)
	if err != nil {
		return err
	}
	want.Journal.LastID = "" // which a checkpoint does not have
	if d.Head != want {
		return trajectory.Faultf(trajectory.CheckpointFile, "does not say what the events give")
	}
	return nil
}
